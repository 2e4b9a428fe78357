//! The machine under a lock, and what runs on tokio.

mod clock;

pub use clock::Clock;
