//! Windows whose whole limit comes back at once: what a level is worth across their edges.
//!
//! A window is assumed to begin when it must have by our clock, and what was sent since it may have
//! begun counts in it until a reading says otherwise. So no belief about an edge, right or wrong,
//! gives the same quota out twice.

use crate::feedback::Dimension;
use crate::scheduler::time::Time;
use crate::scheduler::timing::Timing;

use super::super::edge::Edge;
use super::super::reading::Seen;
use super::super::sight::{Count, Seeing, Sight};
use super::recognition::ODD_COUNTS;
use super::{Origin, Quota};

impl Quota {
    /// A new window begins when it must have by our clock. What was sent since it may have begun
    /// counts in it until a reading says otherwise.
    pub(super) fn roll_over(&mut self, timing: &Timing, now: Time) {
        let jitter = timing.jitter();
        let hearing = timing.hearing();
        let Some(edge) = self.edge.as_mut().filter(|edge| edge.may_roll()) else {
            return;
        };
        let held = edge.tried().is_some_and(|at| now >= at.plus_secs(hearing));
        if held {
            edge.on_try_held(jitter);
        } else if now < edge.latest.plus_secs(jitter) {
            return;
        }
        self.before = (self.level, self.sends.number_before(Time::NEVER));
        // A window that goes on now began no longer ago than one lasts.
        let oldest = edge
            .length()
            .map_or(Time::START, |longest| edge.latest.plus_secs(-longest));
        let began = edge.earliest.max(oldest);
        self.counted_from = self.sends.number_before(began.plus_secs(-jitter));
        self.level = self.limit - self.sends.since(self.counted_from);
        self.least_told = f64::INFINITY;
        self.epoch += 1;
        edge.assume(jitter, now);
        self.window.returned_by(jitter, now);
    }

    /// What a reading says of windows whose whole limit comes back at once.
    pub(super) fn follow_edge(
        &mut self,
        seen: &Seen,
        origin: &Origin,
        newer: bool,
        timing: &mut Timing,
        now: Time,
    ) {
        let jitter = timing.jitter();
        let count = self.count_of(seen, origin, jitter);
        let Some(edge) = &mut self.edge else { return };
        let sight = Sight {
            told: &seen.reset,
            count,
            newer,
            sent: seen.at,
            jitter,
        };
        let seeing = edge.on_reading(&sight);
        match seeing {
            Seeing::Past => return,
            Seeing::Early | Seeing::Late => {
                // What was sent just before it may arrive after it.
                let close = self.sends.number_before(seen.at.plus_secs(-jitter));
                let own = if origin.refused { 0.0 } else { origin.cost };
                let since = self.sends.since(close) - own;
                self.level = seen.remaining - since.max(0.0);
                self.least_told = seen.remaining;
                self.counted_from = seen.order;
                self.epoch += 1;
            }
            Seeing::Same | Seeing::Confirmed => {
                let doubt = self.doubt_around(origin, jitter);
                let predicted = self.level + self.sends.since(seen.order);
                let (low, high) = (seen.remaining - doubt, seen.remaining + doubt);
                let off = if predicted > high {
                    high - predicted
                } else {
                    (low - predicted).max(0.0)
                };
                self.notice_disorder(off, origin, timing, now);
                self.correct(off);
                if off >= 1.0 + doubt && seeing == Seeing::Same && newer {
                    // Something came back though no window began.
                    self.odd_counts += 1;
                }
                // All that was answered is counted in the least that was told; of the others each
                // may be counted in it or not.
                self.least_told = self.least_told.min(seen.remaining);
                let least = self.least_told - f64::from(origin.others) * origin.cost;
                if self.dimension == Dimension::Requests || origin.others == 0 {
                    self.correct((least - self.level).max(0.0));
                }
            }
        }
        let hopeless = self.edge.as_ref().is_some_and(Edge::is_hopeless);
        if hopeless || self.odd_counts >= ODD_COUNTS {
            self.become_sliding();
        } else if origin.refused && seeing != Seeing::Late {
            self.on_refused_afresh(seen);
        }
    }

    /// A request was refused in a window that had begun, so it was told, with all of its limit.
    fn on_refused_afresh(&mut self, seen: &Seen) {
        let longest = self.window.longest();
        let disproved = self
            .edge
            .as_mut()
            .is_some_and(|edge| edge.is_disproved_by_refusal(longest, seen.at));
        if disproved {
            self.become_sliding();
        }
    }

    /// Whether a count fits a new window or the old one.
    fn count_of(&self, seen: &Seen, origin: &Origin, jitter: f64) -> Count {
        let since = self.sends.since(seen.order);
        let doubt = self.doubt_around(origin, jitter) + 0.5;
        let assumed = self.edge.as_ref().is_some_and(Edge::is_assumed);
        let (old, new) = if assumed {
            let (before, number) = self.before;
            (
                (before + since - self.sends.since(number)).max(0.0),
                self.level + since,
            )
        } else {
            ((self.level + since).max(0.0), f64::INFINITY)
        };
        if seen.remaining > old + doubt {
            Count::New
        } else if seen.remaining + doubt < new {
            Count::Old
        } else {
            Count::Either
        }
    }
}
