//! The server's clock, from the whole seconds of its `Date` headers.
//!
//! One `Date` tells its clock to a second. Many tell it to about the time of an answer: each says
//! that the answer was made after it was asked for and before it arrived, so the difference of the
//! clocks lies in an interval, and the intervals intersect.

use crate::scheduler::time::Time;

/// An interval for the server's time minus the limiter's, in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerClock {
    known: Option<Offset>,
    /// How much older than now a `Date` may be: some servers write it once a second.
    stale: f64,
    dated: bool,
}

#[derive(Clone, Copy, Debug)]
struct Offset {
    least: f64,
    most: f64,
    at: Time,
}

impl ServerClock {
    /// An answer to a request sent at `sent` carried this `Date`, in seconds since 1970.
    pub(crate) fn on_date(&mut self, date: u64, sent: Time, now: Time) {
        let date = date as f64;
        if !self.dated {
            self.dated = true;
            self.known = None;
        }
        let mut told = Offset {
            least: date - now.as_secs_f64(),
            most: date + 1.0 + self.stale - sent.as_secs_f64(),
            at: now,
        };
        if let Some(known) = self.known {
            let gap = known.aged(now).least - told.most;
            if gap > 0.0 && self.stale + gap <= STALE_AT_MOST {
                self.stale += gap;
                told.most += gap;
            }
        }
        self.narrow(told);
    }

    /// An answer without `Date` told a moment of the server's clock that the reader measured
    /// against the local one: the clocks then differ by what local clocks usually are wrong by.
    pub(crate) fn on_local(&mut self, offset: f64, now: Time) {
        if !self.dated {
            self.narrow(Offset {
                least: offset - SKEW,
                most: offset + SKEW,
                at: now,
            });
        }
    }

    /// The server still counts on `moment` as to come at an instant not before `sent`. Of use only
    /// without `Date`: moments may be rounded down.
    pub(crate) fn on_still_ahead(&mut self, moment: f64, sent: Time) {
        if let Some(known) = self.known.as_mut().filter(|_| !self.dated) {
            *known = known.aged(sent.max(known.at));
            let most = moment - sent.as_secs_f64();
            if most < known.most {
                known.most = most;
                known.least = known.least.min(most);
            }
        }
    }

    /// A moment of the server's clock as the limiter's earliest and latest; none before any
    /// evidence.
    pub(crate) fn local(&self, moment: f64, now: Time) -> Option<(Time, Time)> {
        let known = self.known?.aged(now);
        let at = |offset: f64| Time::from_secs_f64(moment - offset);
        Some((at(known.most), at(known.least)))
    }

    fn narrow(&mut self, told: Offset) {
        let narrowed = self.known.map(|known| {
            let known = known.aged(told.at);
            Offset {
                least: known.least.max(told.least),
                most: known.most.min(told.most),
                at: told.at,
            }
        });
        // No overlap: one of the clocks was set, and what was known is void.
        self.known = Some(
            narrowed
                .filter(|both| both.least <= both.most)
                .unwrap_or(told),
        );
    }
}

impl Offset {
    fn aged(self, now: Time) -> Self {
        let drift = DRIFT * now.secs_since(self.at).max(0.0);
        Self {
            least: self.least - drift,
            most: self.most + drift,
            at: now,
        }
    }
}

/// Two free-running clocks of computers part by up to 100 millionths each.
const DRIFT: f64 = 2e-4;
/// A cached `Date` is renewed once a second.
const STALE_AT_MOST: f64 = 1.0;
/// What local clocks kept by NTP are wrong by, and a margin.
const SKEW: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn width(clock: &ServerClock, now: Time) -> f64 {
        let (earliest, latest) = clock.local(1_700_000_100.0, now).expect("dates were seen");
        latest.secs_since(earliest)
    }

    #[test]
    fn many_dates_tell_the_clock_to_the_time_of_an_answer() {
        let (mut clock, offset) = (ServerClock::default(), 1_700_000_000.37);
        for i in 0..300 {
            let sent = 0.031 * f64::from(i);
            clock.on_date((offset + sent + 0.05) as u64, at(sent), at(sent + 0.06));
        }
        let now = at(9.4);
        assert!(width(&clock, now) < 0.13, "{}", width(&clock, now));
        let (earliest, latest) = clock.local(1_700_000_100.0, now).expect("dates were seen");
        let truth = at(1_700_000_100.0 - offset);
        assert!(earliest <= truth && truth <= latest);
    }

    #[test]
    fn a_date_that_is_cached_for_a_second_widens_the_interval_instead_of_voiding_it() {
        let (mut clock, offset) = (ServerClock::default(), 1_700_000_000.5);
        for i in 0..500 {
            let sent = 0.02 * f64::from(i);
            // Renewed at 0.9 of each second: until then it shows the second before.
            let date = (offset + sent + 0.1 - 0.9) as u64;
            clock.on_date(date, at(sent), at(sent + 0.02));
        }
        let (earliest, latest) = clock
            .local(1_700_000_100.0, at(10.0))
            .expect("dates were seen");
        let truth = at(1_700_000_100.0 - offset);
        assert!(earliest <= truth.plus_secs(1.0) && truth <= latest.plus_secs(0.01));
        assert!(latest.secs_since(earliest) < 2.1);
    }

    #[test]
    fn a_clock_that_was_set_is_followed() {
        let mut clock = ServerClock::default();
        clock.on_date(1_700_000_000, at(0.0), at(0.1));
        clock.on_date(1_700_003_600, at(1.0), at(1.1));
        let (earliest, _) = clock
            .local(1_700_003_610.0, at(1.1))
            .expect("dates were seen");
        assert!(earliest >= at(9.0) && earliest <= at(12.0), "{earliest:?}");
    }

    #[test]
    fn without_a_date_the_local_clock_is_trusted_until_the_server_contradicts() {
        let mut clock = ServerClock::default();
        clock.on_local(1_700_000_000.0, at(0.0));
        assert!(width(&clock, at(0.0)) < 0.21);
        // Told at 12 s that the reset at 1 700 000 010 is still to come: it is 2 s behind.
        clock.on_still_ahead(1_700_000_010.0, at(12.0));
        let (earliest, _) = clock.local(1_700_000_010.0, at(12.0)).expect("told");
        assert!(earliest >= at(11.999_999));
    }
}
