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

    /// A moment as tokio's timers take it.
    #[must_use]
    pub fn instant(&self, at: Time) -> Instant {
        let after = at.since(Time::START);
        // Instants end somewhere beyond a few hundred years; nobody waits that long.
        self.start.checked_add(after).unwrap_or(self.start + FAR)
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

    /// A moment on the wall clock, as it goes now.
    #[must_use]
    pub fn wall_at(&self, at: Time) -> SystemTime {
        let (wall, now) = (self.wall(), self.now());
        let moved = if at >= now {
            wall.checked_add(at.since(now))
        } else {
            wall.checked_sub(now.since(at))
        };
        moved.unwrap_or(wall)
    }
}

/// As far as any timer has to reach: a year.
const FAR: std::time::Duration = std::time::Duration::from_secs(366 * 86_400);
