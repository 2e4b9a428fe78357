//! What a reading changes in a level: only what lies outside its band of doubt.

use crate::scheduler::time::Time;
use crate::scheduler::timing::Timing;

use super::super::reading::{Seen, Told};
use super::{FEW, Law, Mark, Origin, Quota};

impl Quota {
    /// A refusal is a fresh reading of an empty counter: the server took nothing for the request,
    /// and nothing more is left than it says, less what was sent after.
    pub(super) fn on_refused(
        &mut self,
        told: &Told,
        origin: &Origin,
        timing: &mut Timing,
        now: Time,
    ) {
        let same_limit = told.limit.is_none_or(|limit| limit == self.limit);
        let empty = told.remaining < origin.cost;
        if empty && self.law == Law::Bucket && self.refill.is_sharp() && same_limit {
            timing.on_surprise(now);
        }
        if let Some(edge) = &mut self.edge
            && edge.on_refused(origin.order)
        {
            self.tries -= 1.0;
        } else if self.law == Law::Sliding && self.limit < FEW && origin.mark.is_some() {
            self.tries = (self.tries - 1.0).max(0.0);
        }
        self.hinted |= origin.hinted;
        self.adjust(origin.order, -origin.cost);
        self.window.undo(origin.cost, origin.at);
        if empty {
            self.window.on_refused();
        }
        let newest = self
            .last
            .as_ref()
            .is_none_or(|last| last.order < origin.order);
        if self.law != Law::Fixed && (newest || told.remaining < origin.cost) {
            let back = match self.law {
                Law::Bucket => self.refill.rate() * now.secs_since(origin.at),
                _ => 0.0,
            };
            let most = told.remaining - self.sends.since(origin.order) + back;
            if self.level > most {
                self.correct(most - self.level);
                self.book_others(origin.at);
            }
        }
    }

    /// What is not left is in use, by whomever, and comes back like the rest.
    pub(super) fn book_others(&mut self, sent: Time) {
        let others = self.limit - self.level - self.window.counted();
        // Of a limit of one it is back when it is told to be.
        if self.law == Law::Sliding && others > 0.0 && self.limit >= FEW {
            self.window.push(others, sent);
        }
    }

    /// What was sent so close to this request that it may have arrived on the other side of it.
    pub(super) fn doubt_around(&self, origin: &Origin, jitter: f64) -> f64 {
        let (from, to) = (origin.at.plus_secs(-jitter), origin.at.plus_secs(jitter));
        (self.sends.between(from, to) - origin.cost).max(0.0)
    }

    /// What may have come back already when this request arrived though the model counts it, and
    /// what may not have although the model says so.
    fn doubt_of_returns(&self, origin: &Origin, jitter: f64) -> (f64, f64) {
        if self.law != Law::Sliding || !self.window.is_known() {
            return (0.0, 0.0);
        }
        let (earliest, latest) = self.window.sent_for_return_at(origin.at);
        let maybe = self
            .sends
            .between(earliest.plus_secs(-jitter), latest.plus_secs(jitter));
        let maybe_not = self
            .sends
            .between(earliest.plus_secs(-2.0 * jitter), earliest);
        (maybe, maybe_not)
    }

    /// Corrects the level by what the reading's band of doubt does not explain.
    pub(super) fn correct_by(
        &mut self,
        seen: &Seen,
        mark: Mark,
        origin: &Origin,
        doubt: f64,
        timing: &mut Timing,
        now: Time,
    ) {
        let returned = self.returned - mark.returned;
        let predicted = self.level + self.sends.since(origin.order) - returned;
        let (low, high) = match self.law {
            Law::Bucket => {
                let exact = seen.reset.exact && seen.reset.moment.is_none();
                let (low, high) = if exact && self.refill.is_sharp() {
                    // The reset tells the fraction that a whole `remaining` hides.
                    let level = self.limit - self.refill.rate() * (seen.reset.after + 0.0005);
                    let level = level.clamp(seen.remaining, seen.remaining + 1.0);
                    (level - 0.2, level + 0.2)
                } else {
                    (seen.remaining + 0.05, seen.remaining + 0.45)
                };
                (low - doubt, high + doubt)
            }
            _ => {
                let (maybe, maybe_not) = self.doubt_of_returns(origin, timing.jitter());
                (
                    seen.remaining - doubt - maybe,
                    seen.remaining + doubt + maybe_not,
                )
            }
        };
        let off = if predicted > high {
            high - predicted
        } else if predicted < low {
            low - predicted
        } else {
            return;
        };
        self.notice_disorder(off, origin, timing, now);
        let off = if self.law == Law::Sliding && off > 0.0 {
            // What came back too early for the model has come back by the model since.
            (off - returned).max(0.0)
        } else {
            off
        };
        self.correct(off);
        if self.law == Law::Sliding {
            if off < 0.0 {
                self.window.push(-off, origin.at);
            } else {
                self.window.take_back(off);
            }
        }
    }

    /// More left than everything sent before allows: some of that arrives later. Only where nothing
    /// else can add to the level.
    pub(super) fn notice_disorder(
        &self,
        off: f64,
        origin: &Origin,
        timing: &mut Timing,
        now: Time,
    ) {
        if self.law != Law::Fixed || off < 0.5 || origin.refused {
            return;
        }
        let doubt = self.doubt_around(origin, timing.jitter());
        if let Some((since, _)) = self.sends.reach_back(off + 0.5 * doubt, origin.at) {
            let spread = origin.at.secs_since(since);
            if spread <= MOST_DISORDER {
                timing.on_disorder(spread, now);
            }
        }
    }
}

/// In seconds: what looks like more disorder than this is something else.
const MOST_DISORDER: f64 = 0.1;
