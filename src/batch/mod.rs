//! Many requests from a file: every line ends with exactly one record.

mod error;
mod ids;
mod inflight;
mod input;
mod outage;
mod output;
mod record;
mod request;
mod resume;
mod rewrite;
mod source;

pub use error::Error;
