//! The only time that the scheduler knows: nanoseconds since its limiter began.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A moment, as nanoseconds since the limiter began. Arithmetic saturates; [`Time::NEVER`] is
/// later than every other moment (it is 584 years away).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// When the limiter began.
    pub const START: Self = Self(0);
    /// Later than everything.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `nanos` nanoseconds after the start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The moment `seconds` after the start; what is negative or not a number is the start.
    #[must_use]
    pub fn from_secs_f64(seconds: f64) -> Self {
        // `as` saturates at both ends and maps NaN to zero.
        Self((seconds * 1e9) as u64)
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Seconds after `earlier`, negative if this is before it.
    #[must_use]
    pub fn secs_since(self, earlier: Self) -> f64 {
        if self.0 >= earlier.0 {
            (self.0 - earlier.0) as f64 / 1e9
        } else {
            -((earlier.0 - self.0) as f64 / 1e9)
        }
    }

    /// This moment moved by a number of seconds that may be negative. NaN moves nothing.
    #[must_use]
    pub fn plus_secs(self, seconds: f64) -> Self {
        if seconds >= 0.0 {
            Self(self.0.saturating_add((seconds * 1e9) as u64))
        } else {
            Self(self.0.saturating_sub((-seconds * 1e9) as u64))
        }
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            f.write_str("never")
        } else {
            write!(f, "{:.6}s", self.as_secs_f64())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Time::NEVER + Duration::MAX, Time::NEVER);
        assert_eq!(Time::START.plus_secs(-1.0), Time::START);
        assert_eq!(Time::START.plus_secs(f64::INFINITY), Time::NEVER);
        assert_eq!(Time::START.plus_secs(f64::NAN), Time::START);
        assert_eq!(Time::from_secs_f64(-3.0), Time::START);
        assert_eq!(Time::START.since(Time::NEVER), Duration::ZERO);
    }

    #[test]
    fn differences_keep_their_sign() {
        let (a, b) = (Time::from_secs_f64(1.0), Time::from_secs_f64(3.5));
        assert_eq!(b.secs_since(a), 2.5);
        assert_eq!(a.secs_since(b), -2.5);
    }
}
