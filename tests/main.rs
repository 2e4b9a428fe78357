//! All integration tests, in one binary.

#[cfg(feature = "cli")]
mod batch;
#[cfg(feature = "reqwest")]
mod client;
#[cfg(feature = "reqwest")]
#[expect(
    clippy::duplicate_mod,
    reason = "each example has the practice API of its own"
)]
mod examples;
mod feedback;
#[cfg(feature = "cli")]
mod inspect;
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
