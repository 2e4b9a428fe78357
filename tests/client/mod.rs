//! The async shell: what a program sees of a limiter.

mod bills;
mod cancelling;
mod chain;
#[cfg(feature = "tower")]
mod entries;
mod herds;
mod hostile;
mod layers;
mod leaks;
mod listening;
mod logs;
mod operating;
mod places;
mod provider;
mod redirects;
mod refusals;
mod renewing;
mod replays;
mod runtimes;
mod secrets;
mod server;
#[cfg(feature = "tower")]
mod service;
mod soak;
mod sockets;
mod storms;
mod stress;
#[cfg(all(feature = "metrics", feature = "tracing"))]
mod telemetry;
mod unsent;
