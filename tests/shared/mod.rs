//! Limits that several processes share, on real servers.

mod alone;
mod faults;
mod laws;
mod limiters;
mod privileges;
#[cfg(feature = "cli")]
mod processes;
#[cfg(feature = "cli")]
mod provider;
mod proxy;
#[cfg(feature = "cli")]
mod replicas;
mod server;
mod severed;
mod slots;
mod slow;
mod suite;
mod telling;
#[cfg(feature = "cli")]
mod tls;
#[cfg(feature = "cli")]
mod usage;
