//! The scheduler under a lock, for programs on tokio.
//!
//! | | |
//! | --- | --- |
//! | [`Limiter`] | one provider; a middleware for `reqwest`, and [`Limiter::call`] for any other client |
//! | [`Limiters`] | one for each host |
//! | [`Ticket`], [`Permit`] | what lies below: a place in the queue, leave to send one attempt |
//! | [`ApiKey`] | a credential that is shown nowhere |
//! | `guide` | what the middleware does with your requests, in eleven answers |
//!
//! A slot is held while the server works: until the headers, and until the end of the body where
//! the body is the work ([`Hold`]). Whoever holds one and does not listen does not hold the others
//! up: while they wait, a grant that is not taken up within 100 ms goes back in the queue, and an
//! attempt that was woken and is not polled for 100 ms, or a held body that is not read for a
//! second, is not counted until its owner comes back. So `join_all`, `buffer_unordered` and
//! `select!` are safe to use with it.
//!
//! Dropping a future anywhere cancels what it stood for, frees what it held, and sends nothing
//! more.

mod buyer;
mod claim;
mod clock;
mod driver;
mod ending;
mod errands;
mod gate;
mod key;
mod limiter;
mod permit;
#[cfg(all(feature = "tower", feature = "reqwest"))]
mod plain;
mod renewal;
mod seats;
#[cfg(feature = "tower")]
mod service;
mod watch;

// The middleware of `reqwest`.
#[cfg(feature = "reqwest")]
mod body;
#[cfg(feature = "reqwest")]
mod ear;
#[cfg(any(feature = "reqwest", feature = "tower"))]
mod extension;
#[cfg(feature = "reqwest")]
mod front;
#[cfg(feature = "reqwest")]
pub mod guide;
#[cfg(feature = "reqwest")]
mod limiters;
#[cfg(feature = "reqwest")]
mod marks;
#[cfg(feature = "reqwest")]
mod middleware;
#[cfg(feature = "reqwest")]
mod scope;
#[cfg(feature = "reqwest")]
mod wire;

#[cfg(feature = "shared")]
pub(crate) use buyer::{Agent, Buyer, Opening, Traded};
pub use clock::Clock;
#[cfg(any(feature = "reqwest", feature = "tower"))]
pub use extension::{AttemptTimeout, Bucket, Deadline, Group, Hold, Pin, Report, Tenant, Until};
#[cfg(feature = "shared")]
pub(crate) use gate::Gate;
pub use key::ApiKey;
pub use limiter::{Changes, Limiter, LimiterBuilder};
#[cfg(feature = "reqwest")]
pub use limiters::Limiters;
pub use permit::{Leave, Permit, Ticket, Verdict};
pub use renewal::Renewed;
#[cfg(feature = "tower")]
pub use service::{BoxError, Limited, LimiterLayer};
pub use tokio_util::sync::CancellationToken;
#[cfg(feature = "reqwest")]
pub use wire::http_client;
