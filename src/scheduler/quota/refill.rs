//! How fast a bucket refills, as an interval that readings narrow.
//!
//! Used is its low end until the interval is within a fifth: the middle of a wide interval floods
//! (a first reading of "all is left, back in 0 ms" allows every rate from zero to infinity).

use crate::scheduler::sends::Sends;

use super::reading::Seen;

/// An interval for units per second.
#[derive(Clone, Debug)]
pub(super) struct Refill {
    low: f64,
    high: f64,
    /// Contradictions of late; each agreement takes a little off.
    contradictions: f64,
    /// Exact readings in a row that agree with a constant refill.
    agreeing: u32,
    base: Option<Seen>,
}

impl Default for Refill {
    fn default() -> Self {
        Self {
            low: 0.0,
            high: f64::INFINITY,
            contradictions: 0.0,
            agreeing: 0,
            base: None,
        }
    }
}

impl Refill {
    /// Nothing known but where counting begins.
    pub(super) fn since(base: Option<Seen>) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }

    /// The rate to reckon with.
    pub(super) fn rate(&self) -> f64 {
        if self.high < 1.2 * self.low {
            f64::midpoint(self.low, self.high)
        } else {
            self.low
        }
    }

    /// Whether the rate is known well enough to tell the level between two whole readings.
    pub(super) fn is_sharp(&self) -> bool {
        self.high < 1.1 * self.low
    }

    /// A reading said that `used` units come back within `reset` seconds, told in milliseconds.
    pub(super) fn on_exact(&mut self, used: f64, reset: f64) {
        if used < 1.0 {
            return;
        }
        // `used` was rounded up by less than one unit, the reset down by less than a millisecond.
        let low = (used - 1.0) / (reset + MILLI);
        let high = used / reset.max(MILLI / 10.0);
        if self.low.max(low) <= self.high.min(high) * (1.0 + 1e-4) {
            self.high = self.high.min(high);
            self.low = self.low.max(low).min(self.high);
            self.agreeing += 1;
        } else {
            // The limit changed, or it is no bucket: start again from this reading.
            (self.low, self.high) = (low, high);
            self.contradictions += 1.0;
            self.agreeing = 0;
        }
        self.contradictions = (self.contradictions - FORGIVEN).max(0.0);
    }

    /// A reading whose reset is too coarse to tell the rate: count what came back since another.
    /// `doubt` is what may or may not have been counted, `jitter` how far arrivals may shift.
    pub(super) fn on_counts(
        &mut self,
        seen: &Seen,
        sends: &Sends,
        limit: f64,
        doubt: f64,
        jitter: f64,
    ) {
        let Some(base) = &self.base else {
            self.base = Some(seen.clone());
            return;
        };
        let span = seen.at.secs_since(base.at);
        if span <= SHORTEST_COUNT {
            return;
        }
        let sent = sends.since(base.order) - sends.since(seen.order);
        let back = seen.remaining - base.remaining + sent;
        let low = (back - 1.0 - doubt) / (span + jitter);
        // What came back to a full bucket was lost, so a full one bounds nothing from above.
        let was_full = seen.remaining >= limit - 1.0 || base.remaining >= limit - 1.0;
        let high = if was_full {
            f64::INFINITY
        } else {
            (back + 1.0 + doubt) / (span - jitter)
        };
        if low <= self.high && high >= self.low {
            self.low = self.low.max(low);
            self.high = self.high.min(high);
        } else {
            (self.low, self.high) = (low.max(0.0), high);
        }
        if span > LONGEST_COUNT {
            self.base = Some(seen.clone());
        }
    }

    /// Whether enough readings agree with a constant refill to believe in it.
    pub(super) fn is_likely(&self) -> bool {
        self.agreeing >= AGREEING
    }

    /// Whether the readings contradict a constant refill too often.
    pub(super) fn is_disproved(&self) -> bool {
        self.contradictions >= CONTRADICTIONS
    }
}

const MILLI: f64 = 1e-3;
/// A limit may change now and then; one contradiction per 50 readings is no pattern.
const FORGIVEN: f64 = 0.02;
/// A real change of the limit makes up to three: the readings of both sides are mixed for one
/// flight time.
const CONTRADICTIONS: f64 = 4.0;
/// A window that starts anew shows its resets at random distances: they do not agree so often.
const AGREEING: u32 = 4;
/// In seconds: shorter counts are lost in the rounding of both ends.
const SHORTEST_COUNT: f64 = 0.25;
/// In seconds: longer counts would average over changes of the limit.
const LONGEST_COUNT: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bucket_tells_no_rate() {
        let mut refill = Refill::default();
        refill.on_exact(1.0, 0.0);
        assert_eq!(refill.rate(), 0.0);
    }

    #[test]
    fn exact_readings_narrow_to_the_true_rate() {
        let mut refill = Refill::default();
        for used in [3.4_f64, 9.7, 15.2, 18.9] {
            refill.on_exact(used.ceil(), ((used / 100.0) * 1e3).floor() / 1e3);
        }
        assert!(refill.is_sharp());
        assert!((refill.rate() - 100.0).abs() < 5.0, "{}", refill.rate());
    }

    #[test]
    fn a_changed_rate_is_taken_up_and_four_contradictions_disprove_a_bucket() {
        let mut refill = Refill::default();
        refill.on_exact(10.0, 0.1);
        refill.on_exact(10.0, 0.4);
        assert!((refill.rate() - 23.75).abs() < 1.5);
        assert!(!refill.is_disproved());
        for i in 0..6 {
            refill.on_exact(10.0, if i % 2 == 0 { 0.1 } else { 0.4 });
        }
        assert!(refill.is_disproved());
    }
}
