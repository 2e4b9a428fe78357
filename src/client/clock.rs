//! The one place that reads a clock.
//!
//! It reads tokio's clock, so that tests which pause time work, and beside it the wall clock.

use std::time::SystemTime;

use tokio::time::Instant;

use crate::Time;

/// Tells the time since it was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads a clock"
    )]
    #[expect(
        clippy::new_without_default,
        reason = "two defaults would not be equal"
    )]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// The time since this clock was made.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads a clock"
    )]
    pub fn now(&self) -> Time {
        Time::START + self.start.elapsed()
    }

    /// The wall clock.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads a clock"
    )]
    pub fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}
