//! The one place that reads a clock.
//!
//! It reads tokio's clock, so that tests which pause time work, and beside it the wall clock. The
//! first stands still while the machine is suspended: a wait of eight hours that begins in the
//! evening would end in the afternoon if the lid was closed meanwhile. So who sleeps for long
//! compares the two, and what was slept through counts as time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

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

/// Seconds since 1970; none before that.
pub(super) fn seconds(wall: SystemTime) -> u64 {
    let since = wall.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A clock that catches up with the time that the machine was suspended.
#[derive(Debug)]
pub(super) struct Waking {
    clock: Clock,
    /// Slept through so far, in nanoseconds.
    slept: AtomicU64,
    last: Mutex<Look>,
}

/// What the clocks said at one moment.
#[derive(Clone, Copy, Debug)]
struct Look {
    steady: Time,
    wall: SystemTime,
    /// Since the system started, suspended time included, where it says so.
    up: Option<Duration>,
}

impl Waking {
    pub(super) fn new() -> Self {
        let clock = Clock::new();
        Self {
            clock,
            slept: AtomicU64::new(0),
            last: Mutex::new(Look::at(&clock)),
        }
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now() + self.slept()
    }

    pub(super) fn instant(&self, at: Time) -> Instant {
        let steady = at.since(Time::START + self.slept());
        self.clock.instant(Time::START + steady)
    }

    pub(super) fn wall(&self) -> SystemTime {
        self.clock.wall()
    }

    pub(super) fn wall_at(&self, at: Time) -> SystemTime {
        let steady = at.since(Time::START + self.slept());
        self.clock.wall_at(Time::START + steady)
    }

    /// Looks whether the machine was suspended since the last look, and for how long.
    pub(super) fn catch_up(&self) -> Option<Duration> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let look = Look::at(&self.clock);
        let slept = look.slept_since(&last);
        *last = look;
        let nanos = u64::try_from(slept?.as_nanos()).unwrap_or(u64::MAX);
        self.slept.fetch_add(nanos, Ordering::SeqCst);
        slept
    }

    fn slept(&self) -> Duration {
        Duration::from_nanos(self.slept.load(Ordering::SeqCst))
    }
}

impl Look {
    fn at(clock: &Clock) -> Self {
        Self {
            steady: clock.now(),
            wall: clock.wall(),
            up: up(),
        }
    }

    /// By how much the wall clock has run ahead, where it was not just set.
    fn slept_since(&self, last: &Self) -> Option<Duration> {
        let steady = self.steady.since(last.steady);
        let least = NOTICED + steady / DRIFT;
        let ahead = |passed: Duration| passed.checked_sub(steady).filter(|&a| a >= least);
        let by_wall = ahead(self.wall.duration_since(last.wall).ok()?)?;
        match (self.up, last.up) {
            (Some(up), Some(before)) => ahead(up.saturating_sub(before)),
            _ => Some(by_wall),
        }
    }
}

/// The time since the system started, suspended time included. A wall clock that was set forward
/// is told from a suspended machine by it.
fn up() -> Option<Duration> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds = text.split(' ').next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// A shorter suspension does no harm: it is no longer than a slow response.
const NOTICED: Duration = Duration::from_secs(10);
/// A clock that is being corrected runs ahead by at most one part in two thousand (`adjtime`).
const DRIFT: u32 = 1000;
/// As far as any timer has to reach: a year.
const FAR: Duration = Duration::from_secs(366 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    fn look(steady: u64, wall: u64, up: Option<u64>) -> Look {
        Look {
            steady: Time::START + Duration::from_secs(steady),
            wall: SystemTime::UNIX_EPOCH + Duration::from_secs(wall),
            up: up.map(Duration::from_secs),
        }
    }

    #[test]
    fn a_suspended_machine_is_told_from_a_clock_that_was_set() {
        let slept = |before: Look, after: Look| after.slept_since(&before).map(|s| s.as_secs());
        for up in [None, Some(500)] {
            let later = |passed| up.map(|up| up + passed);
            let before = look(100, 9_000, up);
            assert_eq!(slept(before, look(130, 9_030, later(30))), None);
            assert_eq!(
                slept(before, look(130, 37_830, later(28_830))),
                Some(28_800)
            );
            assert_eq!(slept(before, look(130, 8_000, later(30))), None, "set back");
            assert_eq!(
                slept(before, look(130, 9_036, later(36))),
                None,
                "too short"
            );
        }
        let set = slept(look(100, 9_000, Some(500)), look(130, 37_830, Some(530)));
        assert_eq!(set, None, "set forward");
        let slewed = slept(look(0, 0, None), look(86_400, 86_440, None));
        assert_eq!(slewed, None, "a day of being corrected");
    }

    #[test]
    fn time_goes_on_where_it_was_left_and_timers_end_when_they_should() {
        let waking = Waking::new();
        let before = waking.now();
        assert_eq!(waking.catch_up(), None);
        waking.slept.store(3_600_000_000_000, Ordering::SeqCst);
        let after = waking.now();
        assert!(after.since(before) >= Duration::from_secs(3600));
        let in_a_second = waking.instant(after + Duration::from_secs(1));
        let steady = waking
            .clock
            .instant(waking.clock.now() + Duration::from_secs(1));
        assert!(steady - in_a_second < Duration::from_secs(1));
    }
}
