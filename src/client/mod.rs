//! The machine under a lock, and what runs on tokio.

mod claim;
mod clock;
mod driver;
mod gate;
mod key;
mod limiter;
mod permit;
mod seats;
mod watch;

// The middleware of `reqwest`.
#[cfg(feature = "reqwest")]
mod body;
#[cfg(feature = "reqwest")]
mod extension;
#[cfg(feature = "reqwest")]
mod front;
#[cfg(feature = "reqwest")]
mod limiters;
#[cfg(feature = "reqwest")]
mod middleware;
#[cfg(feature = "reqwest")]
mod scope;
#[cfg(feature = "reqwest")]
mod wire;

pub use clock::Clock;
#[cfg(feature = "reqwest")]
pub use extension::{Bucket, Deadline, Group, Hold, Pin, Report, Tenant};
pub use key::ApiKey;
pub use limiter::{Cancelled, Changes, Limiter, LimiterBuilder};
#[cfg(feature = "reqwest")]
pub use limiters::Limiters;
pub use permit::{Leave, Permit, Ticket, Verdict};
#[cfg(feature = "reqwest")]
pub use wire::http_client;
