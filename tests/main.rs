//! All integration tests, in one binary.

mod client;
mod layering;
#[cfg(feature = "cli")]
mod mock;
#[cfg(feature = "cli")]
mod simulate;
#[cfg(feature = "cli")]
mod vendors;
