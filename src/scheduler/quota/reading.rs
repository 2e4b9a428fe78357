//! A reading as the models of a quota use it: moments of the limiter instead of durations, and
//! what the request that brought it had found.

use crate::feedback::{Clock, Reading, Reset};
use crate::scheduler::time::Time;
use crate::scheduler::timing::ServerClock;

/// When a quota comes back: after `earliest`, not after `latest`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Span {
    pub(super) earliest: Time,
    pub(super) latest: Time,
    /// The time from the request to the reset as told, in seconds.
    pub(super) after: f64,
    /// Told as a moment of the server's clock, in seconds since 1970.
    pub(super) moment: Option<f64>,
    /// Told to the millisecond.
    pub(super) exact: bool,
    /// Nothing was told; the span only keeps the quota alive.
    pub(super) guessed: bool,
}

impl Span {
    /// What a server told, as of a request sent at `sent`: quotas are counted, and their headers
    /// made, when a request comes in.
    pub(super) fn told(
        reset: &Reset,
        clock: &mut ServerClock,
        jitter: f64,
        sent: Time,
        now: Time,
    ) -> Self {
        let grain = reset.grain.as_secs_f64();
        let after = reset.after.as_secs_f64();
        if let Clock::Server(moment) = reset.clock {
            // Against the reader's clock, for servers that send no `Date`.
            clock.on_local(moment - after - now.as_secs_f64(), now);
            clock.on_still_ahead(moment, sent);
            if let (Some((earliest, _)), Some((_, latest))) =
                (clock.local(moment - grain, now), clock.local(moment, now))
            {
                let earliest = earliest.max(sent).min(latest);
                let exact = latest.secs_since(earliest) < EXACT;
                let after = latest.secs_since(sent).max(0.0);
                return Self {
                    earliest,
                    latest,
                    after,
                    moment: Some(moment),
                    exact,
                    guessed: false,
                };
            }
        }
        // Nothing left to wait is exact in whatever unit.
        if grain < EXACT || after < EXACT {
            let grain = grain.min(1e-3);
            // Whether milliseconds were rounded up or down is the server's secret: allow both.
            let earliest = sent.plus_secs((after - grain).max(0.0));
            let latest = sent.plus_secs(after + grain + jitter);
            Self {
                earliest,
                latest,
                after,
                moment: None,
                exact: true,
                guessed: false,
            }
        } else {
            let earliest = sent.plus_secs((after - grain).max(0.0));
            let latest = sent.plus_secs(after + jitter);
            Self {
                earliest,
                latest,
                after,
                moment: None,
                exact: false,
                guessed: false,
            }
        }
    }

    /// For a reading without a reset.
    pub(super) fn guessed(after: f64, sent: Time) -> Self {
        let latest = sent.plus_secs(after);
        Self {
            earliest: sent,
            latest,
            after,
            moment: None,
            exact: false,
            guessed: true,
        }
    }

    pub(super) fn width(&self) -> f64 {
        self.latest.secs_since(self.earliest)
    }

    pub(super) fn middle(&self) -> Time {
        self.earliest.plus_secs(0.5 * self.width())
    }
}

/// A reading that was taken in.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The order of sending.
    pub(super) order: u64,
    /// When the request that brought it was sent.
    pub(super) at: Time,
    pub(super) remaining: f64,
    pub(super) reset: Span,
}

/// The numbers of one reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// None if the server does not say it.
    pub(super) limit: Option<f64>,
    pub(super) remaining: f64,
    /// In seconds.
    pub(super) window: Option<f64>,
}

impl Told {
    /// The numbers of a reading, if it says how much is left.
    pub(super) fn of(reading: &Reading) -> Option<Self> {
        let sane = |value: f64| value.is_finite().then(|| value.clamp(0.0, LARGEST));
        let limit = reading.limit.and_then(sane);
        let used = reading.used.and_then(sane);
        let remaining = match (reading.remaining.and_then(sane), limit, used) {
            (Some(remaining), ..) => remaining,
            (None, Some(limit), Some(used)) => (limit - used).max(0.0),
            _ => return None,
        };
        let window = reading
            .window
            .map(|window| window.as_secs_f64())
            .filter(|&secs| secs > 0.0);
        Some(Self {
            limit,
            remaining,
            window,
        })
    }
}

/// Below this many seconds a reset is known exactly: two milliseconds of rounding and the jitter
/// of a near network.
const EXACT: f64 = 0.01;
/// Beyond it a double no longer counts single units.
const LARGEST: f64 = 1e15;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn reset(after: f64, grain: f64, clock: Clock) -> Reset {
        Reset {
            after: Duration::from_secs_f64(after),
            grain: Duration::from_secs_f64(grain),
            clock,
        }
    }

    #[test]
    fn whole_seconds_make_a_span_of_a_second() {
        let mut clock = ServerClock::default();
        let told = reset(5.0, 1.0, Clock::Delta);
        let span = Span::told(&told, &mut clock, 0.005, at(2.0), at(2.1));
        assert_eq!((span.earliest, span.latest), (at(6.0), at(7.005)));
        assert!(!span.exact);
    }

    #[test]
    fn a_moment_of_the_servers_clock_is_as_wide_as_its_grain_and_the_clock() {
        let mut clock = ServerClock::default();
        let told = reset(5.0, 1.0, Clock::Server(1_700_000_005.0));
        let span = Span::told(&told, &mut clock, 0.005, at(0.0), at(0.0));
        assert!((span.width() - 1.2).abs() < 1e-6, "{span:?}");
    }

    #[test]
    fn absurd_numbers_end_here() {
        let told = |remaining| {
            Told::of(&Reading {
                dimension: crate::feedback::Dimension::Requests,
                limit: Some(f64::INFINITY),
                remaining,
                used: None,
                reset: None,
                window: Some(Duration::ZERO),
                scope: None,
            })
        };
        assert!(told(Some(f64::NAN)).is_none());
        let big = told(Some(1e300)).expect("a number");
        assert_eq!((big.limit, big.remaining, big.window), (None, 1e15, None));
    }
}
