//! The machine under a lock, and what runs on tokio.

mod clock;
mod driver;
mod gate;
mod key;
mod limiter;
#[cfg(feature = "reqwest")]
mod middleware;
mod permit;
#[cfg(feature = "reqwest")]
mod rest;
#[cfg(feature = "reqwest")]
mod wire;

pub use clock::Clock;
pub use key::ApiKey;
pub use limiter::{Cancelled, Changes, Limiter, LimiterBuilder};
#[cfg(feature = "reqwest")]
pub use middleware::{Bucket, Deadline, Group, Pin, Report, Tenant};
pub use permit::{Leave, Permit, Ticket, Verdict};
#[cfg(feature = "reqwest")]
pub use wire::http_client;
