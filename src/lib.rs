//! paceline runs calls to other people's HTTP APIs as fast as those APIs allow, with almost no
//! refusals, nothing lost and nothing to configure.
//!
//! ```no_run
//! # #[cfg(feature = "reqwest")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use paceline::{ApiKey, Deadline, Limiter, Priority, Report};
//! use std::time::Duration;
//!
//! let limiter = Limiter::builder()
//!     .key(ApiKey::bearer(std::env::var("API_KEY")?))
//!     .build()?;
//! let client = reqwest_middleware::ClientBuilder::new(paceline::http_client().build()?)
//!     .with(limiter)
//!     .build();
//! let reply = client
//!     .get("https://api.example.com/items")
//!     .with_extension(Priority::HIGH)
//!     .with_extension(Deadline(Duration::from_secs(30)))
//!     .send()
//!     .await?;
//! let report = reply.extensions().get::<Report>();
//! # Ok(()) }
//! ```
//!
//! # The walk of one request
//!
//! | where | what |
//! | --- | --- |
//! | the middleware | what the request asks for: its extensions, else the hook [`ask_with`], else the defaults |
//! | the ticket | [`Scheduler::submit`] under the lock: refused at once with a reason and a time, or in the queue |
//! | the scheduler | the gates, in order: is a key usable, is quota left, the pace, a slot, the ceilings; each says yes, or not before when and why |
//! | the permit | a grant on one key, which is put on the request; then the request is sent |
//! | [`feedback::read`] | what the response says: its class, how long to wait, what is left of which quota |
//! | the permit | [`Scheduler::complete`] under the lock: learn first, then free the slot, then grant others |
//! | the middleware | the response goes to the application, or the request goes back to its place in the queue |
//!
//! # Where things are
//!
//! Everything that decides is plain: [`feedback`] turns bytes into what they mean, [`scheduler`]
//! turns asks, outcomes and the time into grants. They have no clock, no lock and no I/O, and are
//! all there is without features. [`client`] puts the scheduler under a lock and reads the clock;
//! [`sim`] runs it in virtual time against virtual providers; [`shared`] agrees with other
//! processes; [`batch`] works through a file. [`config`] has every setting with its default.
//!
//! [`ask_with`]: LimiterBuilder::ask_with

#[cfg(feature = "cli")]
pub mod batch;
#[cfg(feature = "client")]
pub mod client;
pub mod config;
#[cfg(feature = "client")]
mod error;
pub mod feedback;
pub mod scheduler;
#[cfg(feature = "shared")]
pub mod shared;
#[cfg(feature = "sim")]
pub mod sim;

#[cfg(feature = "client")]
pub use client::{
    ApiKey, CancellationToken, Changes, Leave, Limiter, LimiterBuilder, Permit, Renewed, Ticket,
    Verdict,
};
#[cfg(any(feature = "reqwest", feature = "tower"))]
pub use client::{
    AttemptTimeout, Bucket, Classifier, Deadline, Group, Hold, Pin, Report, Tenant, Until,
};
#[cfg(feature = "tower")]
pub use client::{Limited, LimiterLayer};
#[cfg(feature = "reqwest")]
pub use client::{Limiters, http_client};
pub use config::{Settings, SettingsError};
#[cfg(feature = "client")]
pub use error::Error;
pub use feedback::Profile;
pub use scheduler::ceiling::{Ceiling, CeilingError};
pub use scheduler::events::{
    Ask, Cost, Fingerprint, GaveUp, Name, Outcome, Priority, Reason, Replay,
};
pub use scheduler::explain::Explanation;
pub use scheduler::groups::Cancelled;
pub use scheduler::keys::{HintScope, Penalty};
pub use scheduler::memory::Snapshot;
pub use scheduler::mode::Mode;
pub use scheduler::reserve::Reserve;
pub use scheduler::retry::RetrySettings;
pub use scheduler::{Scheduler, Time};

/// The programs of the README, compiled.
#[cfg(all(doctest, feature = "reqwest"))]
#[doc = include_str!("../README.md")]
pub struct ReadmeDoctests;
