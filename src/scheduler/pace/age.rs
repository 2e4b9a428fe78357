//! What the age of the last accepted send says where little can be saved up.
//!
//! Of a bucket that holds one or a few, or of a minimum interval, the first sends say nothing about the
//! rate. But one wait does: what is refused had not come back since the last one that was accepted, and
//! where nothing is saved up, what passes had. So such a rate is sought by ages, at first those that
//! people choose, and what is asked too early costs a refusal and no time.

use crate::scheduler::time::Time;

use super::bracket::Bracket;
use super::case::{BURST_CREDIT, Case, LONGEST_BACKOFF, SINGLE_CREDIT};
use super::evidence::TICK;
use super::learned::{KeyPace, Learned};
use super::{Scene, Stamp};

impl Case<'_> {
    /// Whether so little can be saved up that one wait bounds the rate.
    pub(super) fn saves_little(&self, bracket: &Bracket) -> bool {
        let counts = self.alone || bracket.saves_nothing();
        counts && bracket.credit < BURST_CREDIT && self.gap.is_finite()
    }

    /// A rate that had one back by then would have let it pass, whatever was saved up before.
    pub(super) fn bound_by_age(&self) -> f64 {
        (self.gap - self.scene.timing.jitter()).max(TICK).recip()
    }
}

impl Bracket {
    /// Whether nothing can be saved up: a minimum interval.
    pub(super) fn saves_nothing(&self) -> bool {
        self.credit < SINGLE_CREDIT
    }

    /// In seconds, how long after another a send is surely let through, where that is about known.
    pub(super) fn sure_age(&self) -> Option<f64> {
        (self.low > ABOUT_KNOWN * self.high).then(|| self.low.recip())
    }

    /// An age was refused twice: however unsure arrivals are, it is not a sure one.
    pub(super) fn is_not_sure_at(&mut self, age: f64) {
        self.low = self.low.min((LATER * age).recip());
    }
}

impl KeyPace {
    /// Refused: asks again at an age that is surely enough, or at the next that people choose.
    pub(super) fn ask_by_age(&mut self, bracket: &Bracket, case: &Case<'_>, now: Time) {
        let age = match bracket.sure_age() {
            Some(sure) if case.gap < NEARLY * sure && self.refused_in_a_row <= TWICE => {
                sure.max(LATER * case.gap)
            }
            _ => asked_at_age(case.gap),
        };
        let age = ROUNDED * age + case.scene.timing.jitter();
        self.backoff = age;
        let soonest = if now.secs_since(case.sent) < PROMPT * age {
            now
        } else {
            // What was sent meanwhile is not heard of yet.
            now.plus_secs(age)
        };
        self.next = case.sent.plus_secs(age - case.gap).max(soonest);
    }

    /// Refused at a pace that was too fast: the next goes when it would have gone at the sure one.
    pub(super) fn ask_when_sure(&mut self, bracket: &mut Bracket, case: &Case<'_>, now: Time) {
        let Some(sure) = bracket.sure_age() else {
            return;
        };
        if is_usual(sure) && bracket.is_wider(FAR) {
            // Most likely it is this one, and then all that is asked sooner is refused.
            bracket.pace = bracket.pace.min(SOONER * bracket.low);
        }
        let close = if is_usual(sure) {
            CLOSE_TO_USUAL
        } else {
            CLOSE
        };
        if !case.may_spend && !bracket.is_wider(close) {
            bracket.pace = bracket.low;
        }
        // What others are on the way may be refused as well.
        let last = self.last_accepted.unwrap_or(case.sent);
        self.next = last.plus_secs(sure).max(now);
    }
}

impl Learned {
    /// Where nothing is saved up, one that passed had come back since the one before. Of several keys
    /// the others must have passed as well: else it may have been their share of an account's limit.
    pub(super) fn low_by_gap(&self, key: usize, stamp: &Stamp, scene: &Scene<'_>) -> f64 {
        let track = &self.keys[key];
        if !self.brackets[track.bracket].saves_nothing() {
            return 0.0;
        }
        let Some(gap) = track.evidence.gap_before(stamp.at) else {
            return 0.0;
        };
        let from = stamp.at.plus_secs(-gap);
        let used = self.keys.iter().filter(|track| !track.out);
        let passed: f64 = used
            .map(|track| track.evidence.sends.between(from, stamp.at))
            .sum();
        if passed > scene.keys as f64 {
            (gap + scene.timing.jitter()).recip()
        } else {
            0.0
        }
    }

    /// The first after a block passed, so long after the last one before it. What was used up when the
    /// block began had nothing left from then.
    pub(super) fn came_back_after(&mut self, key: usize, gap: f64, scene: &Scene<'_>) {
        let bracket = &mut self.brackets[self.keys[key].bracket];
        if scene.keys <= 1 && bracket.credit < BURST_CREDIT {
            let low = (gap + scene.timing.jitter()).recip();
            bracket.raise_low(low.min(bracket.pace), key);
        }
    }
}

/// The next age above this one, both in seconds, at which to ask whether one has come back.
fn asked_at_age(seconds: f64) -> f64 {
    let least = APART * seconds;
    let usual = USUAL_AGES.iter().copied().find(|&age| age > least);
    usual.unwrap_or(least).min(seconds + LONGEST_BACKOFF)
}

/// Whether it is an age that people choose, asked for a little later.
fn is_usual(seconds: f64) -> bool {
    let near = |&age: &f64| (age..NEARLY * age + NEARBY).contains(&seconds);
    USUAL_AGES.iter().any(near)
}

/// In seconds: so many a second or a minute is what people grant.
const USUAL_AGES: [f64; 9] = [0.1, 1.0 / 3.0, 1.0, 3.0, 6.0, 12.0, 20.0, 30.0, 60.0];
/// A little later: what is said as a rate is rounded, and its first send may have come late.
const ROUNDED: f64 = 1.002;
/// In seconds: by so much it may have been asked for later.
const NEARBY: f64 = 0.01;
/// Times as long: a shorter step is not worth a refusal.
const APART: f64 = 1.5;
/// Of a wait: a refusal that took longer came too late to count from its send.
const PROMPT: f64 = 0.3;
/// Of an age that was let through: refused at it, a little more may do.
const NEARLY: f64 = 1.05;
const LATER: f64 = 1.1;
/// In a row, after the first: then it is not by a little.
const TWICE: u32 = 2;
/// Of the upper bound: a lower one that is further away says little.
const ABOUT_KNOWN: f64 = 0.25;
/// Of the upper bound: closer than that nothing is worth a refusal that is not paid for.
const CLOSE: f64 = 0.1;
/// The same where it is an age that people choose.
const CLOSE_TO_USUAL: f64 = 0.2;
/// Of the upper bound: further than that another age that people choose lies between.
const FAR: f64 = 0.34;
const SOONER: f64 = 1.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_that_people_choose_are_asked_at() {
        assert_eq!(asked_at_age(0.01), 0.1);
        assert_eq!(asked_at_age(0.9), 3.0);
        assert_eq!(asked_at_age(59.0), 88.5);
        assert_eq!(asked_at_age(1000.0), 1060.0);
    }

    #[test]
    fn a_low_bound_far_below_the_high_one_makes_no_age_sure() {
        let mut bracket = Bracket::default();
        (bracket.low, bracket.high) = (1.0, 2.0);
        assert_eq!(bracket.sure_age(), Some(1.0));
        bracket.high = 8.0;
        assert_eq!(bracket.sure_age(), None);
    }
}
