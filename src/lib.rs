//! paceline runs calls to other people's HTTP APIs as fast as those APIs allow, with almost no
//! refusals, nothing lost and nothing to configure.

#[cfg(feature = "client")]
pub mod client;
pub mod feedback;
pub mod scheduler;
#[cfg(feature = "sim")]
pub mod sim;

pub use scheduler::Time;
pub use scheduler::events::{Ask, Cost, Fingerprint, Name, Priority, Replay};
