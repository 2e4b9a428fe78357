//! Many requests from a file: every line ends with exactly one record.

mod error;
mod ids;
mod inflight;
mod input;
mod output;
mod record;
mod request;
mod resume;
mod rewrite;

pub use error::Error;
