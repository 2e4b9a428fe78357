//! The async shell: what a program sees of a limiter.

mod cancelling;
mod chain;
mod layers;
mod listening;
mod operating;
mod provider;
mod redirects;
mod renewing;
mod runtimes;
mod secrets;
#[cfg(feature = "tower")]
mod service;
mod sockets;
