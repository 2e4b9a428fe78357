//! Whether what comes back can come evenly, as a bucket's does: told by counts alone.
//!
//! A stretch in which hardly anything came back bounds an even rate from above, a moment at which
//! much did from below. Where the two do not meet, no bucket is behind the counts, whatever else
//! speaks for one: windows whose reset is as coarse as they are long look like one in every other
//! way.

use crate::scheduler::time::Time;

/// What counts say about an even refill.
#[derive(Clone, Debug)]
pub(super) struct Steadiness {
    /// The reading before.
    last: Option<Count>,
    /// The reading from which a quiet stretch is measured.
    base: Option<Count>,
    /// Units per second: the least that the fastest return allows, the most that the longest quiet
    /// stretch does.
    least: f64,
    most: f64,
    contradictions: u32,
}

/// How much was left, as one request found it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub(super) at: Time,
    pub(super) remaining: f64,
    /// All that was sent up to and with it.
    pub(super) sent: f64,
    /// What was sent so close to it that it may be counted or not.
    pub(super) doubt: f64,
}

impl Default for Steadiness {
    fn default() -> Self {
        Self {
            last: None,
            base: None,
            least: 0.0,
            most: f64::INFINITY,
            contradictions: 0,
        }
    }
}

impl Steadiness {
    /// Whether an even refill is out of the question.
    pub(super) fn is_disproved(&self) -> bool {
        self.contradictions >= CONTRADICTIONS
    }

    /// Takes in a count of a request that was sent after all that were counted before.
    pub(super) fn on_count(&mut self, count: Count, limit: f64, jitter: f64) {
        if let Some(last) = self.last {
            let (back, doubt) = count.back_since(&last);
            let sure = back - 1.0 - doubt;
            if sure >= LEAST_RETURN {
                let least = sure / (count.at.secs_since(last.at) + 2.0 * jitter);
                self.least = self.least.max(least);
            }
        }
        self.last = Some(count);
        let quiet = self.base.filter(|base| {
            let (back, doubt) = count.back_since(base);
            // A bucket that may have been full in between has lost what came back to it.
            let may_have_been_full = base.remaining + back + doubt >= limit - 1.0;
            let span = count.at.secs_since(base.at) - 2.0 * jitter;
            if !may_have_been_full && span > jitter {
                self.most = self.most.min((back + 1.0 + doubt).max(0.0) / span);
            }
            !may_have_been_full && back <= QUIET + doubt
        });
        self.base = quiet.or(Some(count));
        if self.least > APART * self.most {
            self.contradictions += 1;
            (self.least, self.most) = (0.0, f64::INFINITY);
        }
    }
}

impl Count {
    /// What came back since an earlier count, and by how much that may be wrong.
    fn back_since(&self, earlier: &Self) -> (f64, f64) {
        let back = self.remaining - earlier.remaining + self.sent - earlier.sent;
        (back, self.doubt + earlier.doubt)
    }
}

/// Others that use the same quota, or a limit that changes, may look like one.
const CONTRADICTIONS: u32 = 2;
/// Times: jitter beyond what is known, and rounding, make less.
const APART: f64 = 1.5;
/// Units beyond rounding and doubt that must have come back at once to tell anything.
const LEAST_RETURN: f64 = 1.0;
/// Units that come back in a quiet stretch: more would be seen as a return of its own.
const QUIET: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    const JITTER: f64 = 0.005;

    /// Sends one request every `gap` seconds to who has `left(time)` left after it.
    fn watch(gap: f64, count: u64, mut left: impl FnMut(f64) -> f64) -> Steadiness {
        let mut steadiness = Steadiness::default();
        for order in 1..=count {
            let time = gap * order as f64;
            let at = Time::from_secs_f64(time);
            let count = Count {
                at,
                sent: order as f64,
                remaining: left(time),
                doubt: 0.0,
            };
            steadiness.on_count(count, 5.0, JITTER);
        }
        steadiness
    }

    #[test]
    fn a_window_that_starts_anew_is_no_bucket() {
        let mut used = (0.0, 0.0);
        let window = watch(0.22, 30, |time| {
            let number = time.floor();
            used = if number == used.0 {
                (number, used.1 + 1.0)
            } else {
                (number, 1.0)
            };
            5.0 - used.1
        });
        assert!(window.is_disproved(), "{window:?}");
    }

    #[test]
    fn a_bucket_in_whole_units_is_one() {
        for (rate, gap) in [(5.0, 0.19), (25.0, 0.039), (2.0, 0.45)] {
            let (mut level, mut then) = (5.0_f64, 0.0);
            let bucket = watch(gap, 200, |time| {
                level = (level + rate * (time - then)).min(5.0) - 1.0;
                then = time;
                level = level.max(0.0);
                level.floor()
            });
            assert!(!bucket.is_disproved(), "{bucket:?}");
        }
    }
}
