//! Asks, outcomes and the time in; grants out. A plain state machine without clock, lock or I/O.

pub mod events;
pub mod time;

pub use time::Time;
