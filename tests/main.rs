//! All integration tests, in one binary.

#[cfg(feature = "cli")]
mod batch;
mod client;
mod layering;
#[cfg(feature = "cli")]
mod mock;
#[cfg(feature = "sim")]
mod scenarios;
mod scheduler;
#[cfg(feature = "shared")]
mod shared;
#[cfg(feature = "cli")]
mod simulate;
mod support;
#[cfg(feature = "cli")]
mod vendors;
