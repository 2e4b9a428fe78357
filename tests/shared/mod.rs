//! Limits that several processes share, on real servers.

mod faults;
mod laws;
mod limiters;
#[cfg(feature = "cli")]
mod processes;
#[cfg(feature = "cli")]
mod provider;
#[cfg(feature = "cli")]
mod replicas;
mod server;
mod slots;
mod slow;
mod suite;
mod telling;
#[cfg(feature = "cli")]
mod tls;
#[cfg(feature = "cli")]
mod usage;
