//! A request that asks whether the next window has begun, sent before it must have.

use crate::scheduler::time::Time;

use super::{Edge, slack};

impl Edge {
    /// When a request that asks whether the window has begun is worth most: where it would have if
    /// a request of ours opened the last one, else in the middle.
    pub(in crate::scheduler::quota) fn next_try(&self, jitter: f64) -> Time {
        let middle = self.span().middle();
        let Some(first) = self.first else {
            return middle;
        };
        let slack = slack(jitter);
        let opened = (first, first.plus_secs(jitter));
        let likely = self.asked.end_of(opened, slack).filter(|end| {
            let sharp = end.1.secs_since(end.0) < slack;
            sharp && end.1 > self.earliest.plus_secs(slack) && end.1 < self.latest
        });
        likely.map_or(middle, |end| end.1)
    }

    /// Such a request was sent.
    pub(in crate::scheduler::quota) fn on_try(&mut self, number: u64, now: Time) {
        self.tried = Some((number, now));
    }

    /// When a request that asks was sent, while nothing was heard of it.
    pub(in crate::scheduler::quota) fn tried(&self) -> Option<Time> {
        self.tried.map(|(_, at)| at)
    }

    /// Nothing was heard of it for as long as a refusal takes: it was accepted.
    pub(in crate::scheduler::quota) fn on_try_held(&mut self, jitter: f64) {
        if let Some((_, at)) = self.tried.take() {
            self.vain = 0;
            self.latest = at.plus_secs(jitter).max(self.earliest);
        }
    }

    /// The send of this number was refused. Whether it asked.
    pub(in crate::scheduler::quota) fn on_refused(&mut self, number: u64) -> bool {
        let asked = self.tried.take_if(|tried| tried.0 == number).is_some();
        self.was_refused |= asked;
        if asked {
            self.vain += 1;
        }
        asked
    }

    /// How likely it is that asking early brings anything, of the likelihood at first: while the
    /// end that follows from the first request is the latest there can be, each question asked in
    /// vain speaks for it.
    pub(in crate::scheduler::quota) fn chance_of_early(&self) -> f64 {
        let doubt = 1.0 + self.asked.doubt();
        let against = 0.5_f64.powi(self.vain.min(30) as i32) * doubt;
        2.0 * against / (1.0 + against)
    }

    /// Whether a request asked in vain for the next window.
    pub(in crate::scheduler::quota) fn was_refused(&self) -> bool {
        self.was_refused
    }
}
