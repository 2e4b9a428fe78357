//! All integration tests, in one binary.

mod client;
mod layering;
