//! paceline runs calls to other people's HTTP APIs as fast as those APIs allow, with almost no
//! refusals, nothing lost and nothing to configure.

#[cfg(feature = "client")]
pub mod client;
pub mod config;
pub mod feedback;
pub mod scheduler;
#[cfg(feature = "sim")]
pub mod sim;

pub use config::{Settings, SettingsError};
pub use scheduler::ceiling::{Ceiling, CeilingError};
pub use scheduler::events::{Ask, Cost, Fingerprint, Name, Priority, Replay};
pub use scheduler::keys::{HintScope, Penalty};
pub use scheduler::retry::RetrySettings;
pub use scheduler::{Scheduler, Time};
