//! Quotas that a server tells by turns: in a header with room for one it tells the one of which the
//! smallest share is left.
//!
//! So what is told bounds the others from below. A limit that has changed looks the same at first:
//! the old one is there until what is told denies it.

use crate::scheduler::time::Time;
use crate::scheduler::timing::Timing;

use super::super::reading::Seen;
use super::{Law, Mark, Quota};

impl Quota {
    /// Whether a server may tell either of the two in the same place.
    pub(in crate::scheduler::quota) fn is_told_by_turns_with(&self, other: &Self) -> bool {
        let same_kind = (self.dimension, &self.scope) == (other.dimension, &other.scope);
        let windows = (self.window.given(), other.window.given());
        same_kind && windows == (None, None) && self.limit != other.limit
    }

    /// Whether the latest answers told it and not another in its place.
    pub(in crate::scheduler::quota) fn is_told(&self) -> bool {
        self.untold == 0
    }

    /// The share that was left by the latest reading.
    pub(in crate::scheduler::quota) fn told_share(&self) -> Option<f64> {
        let last = self.last.as_ref().filter(|_| self.limit_told)?;
        (self.limit > 0.0).then(|| (last.remaining / self.limit).min(1.0))
    }

    /// An answer to what was sent at `sent` was served and says nothing of it nor of another in its
    /// place. True if it was told to be over by then, again and again.
    pub(in crate::scheduler::quota) fn on_unheard(&mut self, sent: Time, jitter: f64) -> bool {
        let over = |last: &Seen| sent > last.reset.latest.plus_secs(jitter);
        if !self.last.as_ref().is_some_and(over) {
            return false;
        }
        // Somebody was let through: whoever asks next need not wait longer than the one before.
        self.scouts = 0;
        self.scouts_rest_until = Time::START;
        self.unheard += 1;
        self.unheard >= UNHEARD
    }

    /// An answer to the send of number `order` told another of which this share is left. True if
    /// this one no longer holds: more of it is left than it could be, again and again.
    pub(in crate::scheduler::quota) fn on_untold(
        &mut self,
        share: f64,
        order: u64,
        sent: Time,
        mark: Option<Mark>,
        timing: &Timing,
        now: Time,
    ) -> bool {
        self.untold = self.untold.saturating_add(1);
        self.disguise.on_untold();
        self.advance(timing, now);
        let jitter = timing.jitter();
        let doubt = self
            .sends
            .between(sent.plus_secs(-jitter), sent.plus_secs(jitter));
        let returned = match mark {
            Some(mark) if mark.is_of(self) => self.returned - mark.returned(),
            _ => 0.0,
        };
        let predicted = self.level + self.sends.since(order) - returned;
        // It may be counted in none of the readings so far.
        self.least_told -= self.sends.of(order);
        let least = share * self.limit - ROUNDING;
        // What is sent close together arrives in any order, which a mean over many does not feel.
        self.amiss += AMISS_WEIGHT * (least - predicted - self.amiss);
        let at_once = least - doubt - predicted;
        let rounding = if self.untold < SETTLED {
            2.0 * ROUNDING
        } else {
            ROUNDING
        };
        let missing = if self.amiss > (AMISS * self.limit).max(rounding) {
            at_once.max(self.amiss)
        } else {
            at_once
        };
        if missing > 0.0 {
            self.denied += 1;
            self.amiss = 0.0;
            self.correct(missing);
            if self.law == Law::Sliding {
                self.window.take_back(missing);
            }
        }
        self.denied >= DENIED || self.untold >= FORGOTTEN
    }
}

/// Some answers (cached ones) leave out what a server else tells.
const UNHEARD: u32 = 3;
/// Units: both counts are whole, and each hides less than one.
const ROUNDING: f64 = 1.0;
/// Of the limit: the law of a quota that is told now and then is known that well.
const AMISS: f64 = 0.2;
/// A mean over some sixteen answers.
const AMISS_WEIGHT: f64 = 1.0 / 16.0;
/// Answers after which such a mean hides no rounding any more.
const SETTLED: u32 = 64;
/// A window that has started anew unnoticed denies it once.
const DENIED: u32 = 4;
/// Answers: what bound nothing for so long binds nothing.
const FORGOTTEN: u32 = 5000;
