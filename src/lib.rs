//! paceline runs calls to other people's HTTP APIs as fast as those APIs allow, with almost no
//! refusals, nothing lost and nothing to configure.

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
    ApiKey, Cancelled, Changes, Leave, Limiter, LimiterBuilder, Permit, Ticket, Verdict,
};
#[cfg(feature = "reqwest")]
pub use client::{Bucket, Deadline, Group, Hold, Limiters, Pin, Report, Tenant, http_client};
pub use config::{Settings, SettingsError};
#[cfg(feature = "client")]
pub use error::Error;
pub use feedback::Profile;
pub use scheduler::ceiling::{Ceiling, CeilingError};
pub use scheduler::events::{
    Ask, Cost, Fingerprint, GaveUp, Name, Outcome, Priority, Reason, Replay,
};
pub use scheduler::keys::{HintScope, Penalty};
pub use scheduler::retry::RetrySettings;
pub use scheduler::{Scheduler, Time};

/// The programs of the README, compiled.
#[cfg(all(doctest, feature = "reqwest"))]
#[doc = include_str!("../README.md")]
pub struct ReadmeDoctests;
