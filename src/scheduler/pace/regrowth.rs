//! Back to speed after a block that may have had nothing to do with the rate.
//!
//! Refusals in a row bound the rate only if the rate is what refused them. A cold start, an outage
//! or somebody else's burst refuses everything for a while and then nothing. So the bounds that a
//! block left are doubted if nothing was granted before it, or if they contradict what was: the
//! pace is multiplied with each answer to a send at the pace, until what held before the block holds
//! again. That takes no longer than the block did, and costs one refusal where the rate did fall.

use crate::scheduler::events::{Because, KeyId};

use super::bracket::Bracket;
use super::learned::Learned;
use super::{Changed, Stamp};

/// What was known of a rate before a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pace: f64,
    low: f64,
    high: f64,
    credit: f64,
    windowed: bool,
}

impl Before {
    const NOTHING: Self = Self {
        pace: f64::INFINITY,
        low: 0.0,
        high: f64::INFINITY,
        credit: f64::INFINITY,
        windowed: false,
    };
}

impl Bracket {
    /// A block begins: what is known now may hold again after it.
    pub(super) fn enter_block(&mut self) {
        self.before_block = Some(self.as_known());
    }

    pub(super) fn as_known(&self) -> Before {
        Before {
            pace: self.pace,
            low: self.low,
            high: self.high,
            credit: self.credit,
            windowed: self.windowed,
        }
    }

    /// What was known of the rate holds again.
    pub(super) fn take_back(&mut self, known: &Before) {
        self.pace = known.pace;
        self.low = known.low;
        self.high = known.high;
        self.credit = known.credit;
        self.windowed = known.windowed;
    }

    /// A block of several refusals has ended. Answers whether its bounds are doubted, which they
    /// are if they contradict those of before, or if `nothing_before` was granted.
    pub(super) fn leave_block(&mut self, nothing_before: bool) -> bool {
        let Some(before) = self.before_block.take() else {
            return false;
        };
        let unknown = nothing_before && before.low == 0.0;
        let contradicts = CONTRADICTS * self.high < before.low;
        if unknown || contradicts {
            self.doubted = Some((self.low, self.high, self.credit));
            self.regrowth = Some(if unknown { Before::NOTHING } else { before });
            self.windowed = false;
        }
        unknown || contradicts
    }

    /// Whether the block that ended is the first long one of a rate that was well known: one may be
    /// anything, two are a window.
    pub(super) fn is_first_block(&mut self) -> bool {
        let known = |before: Before| !before.windowed && before.low > 0.5 * before.high;
        let first = self.blocks == 0 && self.before_block.is_some_and(known);
        self.blocks += 1;
        first
    }

    /// Refused in the growth after `accepted` since the block. If that is none but the first, the
    /// bounds that were doubted are right.
    pub(super) fn end_regrowth(&mut self, accepted: f64) {
        if self.regrowth.take().is_some()
            && accepted < 2.0
            && let Some((low, high, credit)) = self.doubted.take()
        {
            self.low = low;
            self.high = high;
            self.credit = credit;
        }
    }

    /// A multiple of the pace, or what was known before the block once that is reached.
    fn regrow(&mut self, before: &Before) {
        self.pace *= STEP;
        self.high = self.high.max(STEP * self.pace);
        self.credit = f64::INFINITY;
        if self.pace >= before.pace {
            self.take_back(before);
            self.regrowth = None;
            self.restart();
        }
    }
}

impl Learned {
    /// Refusals turned out to have had another reason: the rates that they bounded grow back, as
    /// after a block.
    pub(crate) fn doubt(&mut self) {
        let paced = |bracket: &&mut Bracket| bracket.is_known() && bracket.window.is_none();
        for bracket in self.brackets.iter_mut().filter(paced) {
            bracket.doubted = Some((bracket.low, bracket.high, bracket.credit));
            bracket.regrowth = Some(Before::NOTHING);
        }
    }

    /// A send was served while the pace grows back: the next step, once per round of answers.
    pub(super) fn regrow(&mut self, key: KeyId, stamp: &Stamp) -> Option<Changed> {
        let index = self.keys[key.index()].bracket;
        let before = self.brackets[index].regrowth?;
        if !self.keys[key.index()].evidence.is_at_pace(stamp.at) {
            return None;
        }
        let bracket = &mut self.brackets[index];
        let from = bracket.pace;
        bracket.regrow(&before);
        if bracket.pace > UNLIMITED {
            *bracket = Bracket::default();
        }
        let to = bracket.pace;
        let (known, over) = (bracket.is_known(), bracket.regrowth.is_none());
        for track in self.keys.iter_mut().filter(|track| track.bracket == index) {
            track.evidence.pace_changed();
            if !known {
                track.evidence.forget_anchor();
            }
            if over {
                track.refused_in_a_row = 0;
            }
            if let Some(last) = track.last_sent.filter(|_| !track.evidence.blocked) {
                track.next = last.plus_secs(to.recip());
            }
        }
        Some(Changed {
            from,
            to,
            why: Because::Recovered,
        })
    }
}

/// Times: the bounds of a block this far below what was granted are those of something else, or of
/// a limit that fell far.
const CONTRADICTS: f64 = 1.5;
/// Grows as much a step: the steps together take a third of the time that the block left between
/// sends, and whether a step is twice or four times too much, it costs one refusal.
const STEP: f64 = 4.0;
/// Per second and key: sends are no closer together where nothing is known.
const UNLIMITED: f64 = 200.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn known(pace: f64, low: f64, high: f64) -> Bracket {
        let mut bracket = Bracket::default();
        (bracket.pace, bracket.low, bracket.high) = (pace, low, high);
        bracket
    }

    /// Steps until what was known before holds again, at most ten.
    fn steps(bracket: &mut Bracket) -> u32 {
        let mut steps = 0;
        while let Some(before) = bracket.regrowth.filter(|_| steps < 10) {
            bracket.regrow(&before);
            steps += 1;
        }
        steps
    }

    #[test]
    fn bounds_that_contradict_what_was_granted_are_outgrown() {
        let mut bracket = known(100.0, 98.0, 102.0);
        bracket.enter_block();
        (bracket.pace, bracket.low, bracket.high) = (1.0, 0.5, 1.5);
        assert!(bracket.leave_block(false));
        assert_eq!(steps(&mut bracket), 4);
        assert_eq!(
            (bracket.pace, bracket.low, bracket.high),
            (100.0, 98.0, 102.0)
        );
    }

    #[test]
    fn a_block_that_agrees_with_what_was_known_is_believed() {
        let mut bracket = known(10.0, 2.0, 20.0);
        bracket.enter_block();
        bracket.high = 8.0;
        assert!(!bracket.leave_block(false));
        assert!(bracket.regrowth.is_none());
    }

    #[test]
    fn refused_at_the_first_step_the_block_told_the_truth() {
        let mut bracket = known(100.0, 98.0, 102.0);
        bracket.enter_block();
        (bracket.pace, bracket.low, bracket.high) = (1.0, 0.5, 1.5);
        assert!(bracket.leave_block(false));
        let before = bracket.regrowth.expect("it is doubted");
        bracket.regrow(&before);
        bracket.end_regrowth(1.0);
        assert_eq!((bracket.low, bracket.high), (0.5, 1.5));
    }

    #[test]
    fn only_one_long_block_of_a_known_rate_is_taken_for_chance() {
        let mut bracket = known(100.0, 98.0, 102.0);
        bracket.enter_block();
        assert!(bracket.is_first_block());
        bracket.enter_block();
        assert!(!bracket.is_first_block());
    }
}
