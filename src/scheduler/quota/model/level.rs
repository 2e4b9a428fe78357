//! What is left between readings: own sends take from it, and the law of refill brings it back.

use crate::scheduler::time::Time;
use crate::scheduler::timing::Timing;

use super::super::reading::Seen;
use super::{EPSILON, Law, Mark, Quota};

impl Quota {
    /// Brings the level up to `now`.
    pub(in crate::scheduler::quota) fn advance(&mut self, timing: &Timing, now: Time) {
        let jitter = timing.jitter();
        let before = self.level;
        match self.law {
            Law::Unknown => {
                // One request that was alone in what it used: at its reset all is back, whatever
                // the law.
                if let Some((sent, reset)) = self.alone
                    && now >= reset.plus_secs(jitter)
                {
                    let level = self.limit - self.sends.after(sent);
                    if level > self.level {
                        self.level = level;
                        self.epoch += 1;
                    }
                    self.alone = None;
                }
            }
            Law::Bucket => {
                let back = self.refill.rate() * now.secs_since(self.at).max(0.0);
                self.take_back(back);
            }
            Law::Sliding => {
                let back = self.window.returned_by(jitter, now);
                self.take_back(back);
                self.take_rest_back(jitter, now);
            }
            Law::Fixed => self.roll_over(timing, now),
        }
        self.at = now;
        self.note_return(before, now);
    }

    /// What nobody's send accounts for, as of a limit too small to book others by, is back when it
    /// was told to be.
    fn take_rest_back(&mut self, jitter: f64, now: Time) {
        let told = |last: &Seen| now >= last.reset.latest.plus_secs(jitter);
        if self.window.counted() < EPSILON && self.last.as_ref().is_some_and(told) {
            self.take_back(self.limit - self.level);
        }
    }

    pub(super) fn note_return(&mut self, before: f64, now: Time) {
        if before < 1.0 && self.level >= 1.0 {
            self.back_at = Some(now);
        }
    }

    /// Whether a request sent at `sent` relied on a window that had only just been taken to be over.
    pub(in crate::scheduler::quota) fn was_just_back(&self, sent: Time) -> bool {
        let window = matches!(self.law, Law::Sliding | Law::Fixed);
        let apart = |back: Time| sent.secs_since(back).abs();
        window && self.back_at.is_some_and(|back| apart(back) < JUST)
    }

    pub(super) fn take_back(&mut self, back: f64) {
        let level = (self.level + back).min(self.limit);
        self.returned += level - self.level;
        self.level = level;
    }

    /// A request of this cost was sent.
    pub(in crate::scheduler::quota) fn on_sent(
        &mut self,
        cost: f64,
        number: u64,
        timing: &Timing,
        now: Time,
    ) -> Mark {
        self.advance(timing, now);
        self.tries = (self.tries + TRIES_PER_SEND).min(MOST_TRIES);
        let short = self.level + EPSILON < cost.min(self.limit);
        let pause = (2.0 * timing.answer().unwrap_or(0.0)).max(SCOUT_PAUSE);
        if short {
            self.disguise.on_asked(number, pause, now);
        }
        if let Some(edge) = self.edge.as_mut().filter(|_| short) {
            edge.on_try(number, now);
        } else if short {
            self.scouts = self.scouts.saturating_add(1);
            let rest = pause * f64::from(1_u32 << self.scouts.min(8));
            // What is told to be back soon is asked for as soon again.
            let told = |last: &Seen| last.reset.latest.secs_since(last.at);
            let soon = self.last.as_ref().map_or(0.0, told).max(SOON_TOLD);
            self.scouts_rest_until = now.plus_secs(rest.min(2.0 * soon));
        }
        self.level -= cost;
        self.sends.push_numbered(cost, number, now);
        if self.law != Law::Bucket {
            self.window.push(cost, now);
        }
        if let Some(edge) = &mut self.edge {
            edge.on_sent(timing.jitter(), now);
        }
        Mark {
            returned: self.returned,
            epoch: self.epoch,
        }
    }

    /// The send of this number turned out to take `extra` more than it was reckoned to, or it never
    /// left.
    pub(in crate::scheduler::quota) fn adjust(&mut self, number: u64, extra: f64) {
        self.sends.amend(number, extra);
        if number > self.counted_from {
            self.correct(-extra);
        }
    }

    pub(super) fn correct(&mut self, by: f64) {
        self.level = (self.level + by).min(self.limit);
    }
}

/// Refusals to spend on finding the edges of windows grow by one with 200 requests, to four.
const TRIES_PER_SEND: f64 = 0.005;
const MOST_TRIES: f64 = 4.0;
/// In seconds: a refusal of what was sent so soon after a window was taken to be over says that it
/// was not, whatever is left when the refusal is written.
const JUST: f64 = 0.1;
/// In seconds: nobody tells a shorter time in whole ones.
const SOON_TOLD: f64 = 1.0;
/// In seconds: the least time between two scouts, doubled for each that changed nothing.
const SCOUT_PAUSE: f64 = 0.1;
