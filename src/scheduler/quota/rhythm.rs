//! How long windows last, under one idea of what begins them.
//!
//! The length is an interval that every window narrows. Where it holds a whole number of seconds,
//! as windows in the field have it, that number is tried first; what is predicted with it is
//! judged apart from what the interval predicts, so that a length of one and a half seconds ends
//! the assumption and not the idea.

use crate::scheduler::time::Time;

/// An interval of time.
pub(super) type Bracket = (Time, Time);

/// The length of a window, and how well it predicted.
#[derive(Clone, Debug)]
pub(super) struct Rhythm {
    shortest: f64,
    longest: f64,
    /// Predictions that failed of late, with the length as learned and as a whole number.
    wrong: f64,
    wrong_whole: f64,
    /// Predictions that held in a row.
    right: u32,
}

impl Rhythm {
    /// `given` is the length as it stood on the wire; told in whole seconds, it was rounded up.
    pub(super) fn new(given: Option<f64>) -> Self {
        let whole = given.is_some_and(|given| given.fract() == 0.0);
        Self {
            shortest: given.map_or(0.0, |given| {
                if whole {
                    (given - 0.999).max(0.0)
                } else {
                    given
                }
            }),
            longest: given.unwrap_or(f64::INFINITY),
            wrong: 0.0,
            wrong_whole: 0.0,
            right: 0,
        }
    }

    /// The length as far as it is known; none before any evidence.
    pub(super) fn length(&self, slack: f64) -> Option<(f64, f64)> {
        if !self.longest.is_finite() {
            return None;
        }
        let whole = self.whole(slack).filter(|_| self.trusts_whole());
        Some(whole.unwrap_or((self.shortest, self.longest)))
    }

    fn trusts_whole(&self) -> bool {
        self.wrong_whole < self.wrong + 0.5
    }

    /// The whole numbers of seconds that it may be.
    fn whole(&self, slack: f64) -> Option<(f64, f64)> {
        let (least, most) = (
            (self.shortest - slack).ceil().max(1.0),
            (self.longest + slack).floor(),
        );
        (least <= most).then_some((least, most))
    }

    /// When a window ends that began then.
    pub(super) fn end_of(&self, began: Bracket, slack: f64) -> Option<Bracket> {
        self.length(slack)
            .map(|(least, most)| (began.0.plus_secs(least), began.1.plus_secs(most)))
    }

    /// How little it is to be trusted.
    pub(super) fn doubt(&self) -> f64 {
        if self.trusts_whole() {
            self.wrong_whole.min(self.wrong)
        } else {
            self.wrong
        }
    }

    /// Whether its last predictions held.
    pub(super) fn is_proven(&self) -> bool {
        self.right >= PROVEN
    }

    /// A window that began then ended within `end`.
    pub(super) fn judge(&mut self, began: Bracket, end: Bracket, slack: f64) {
        if !self.longest.is_finite() {
            return;
        }
        let meets = |(least, most): (f64, f64)| {
            began.0.plus_secs(least - slack) <= end.1 && end.0 <= began.1.plus_secs(most + slack)
        };
        let mark = |wrong: &mut f64, held: bool| {
            *wrong = if held {
                FORGIVEN * *wrong
            } else {
                (*wrong + 1.0).min(MOST_WRONG)
            };
        };
        let held = meets((self.shortest, self.longest));
        let whole_held = self.whole(slack).is_some_and(meets);
        self.right = if if self.trusts_whole() {
            whole_held
        } else {
            held
        } {
            self.right.saturating_add(1)
        } else {
            0
        };
        mark(&mut self.wrong, held);
        mark(&mut self.wrong_whole, whole_held);
    }

    /// A prediction turned out to be too early.
    pub(super) fn on_failed(&mut self) {
        let whole = self.trusts_whole();
        let wrong = if whole {
            &mut self.wrong_whole
        } else {
            &mut self.wrong
        };
        *wrong = (*wrong + 1.0).min(MOST_WRONG);
        self.right = 0;
    }

    /// Narrows the length to an interval that it must lie in; starts again from that if it did not.
    pub(super) fn learn(&mut self, least: f64, most: f64, slack: f64) {
        let (least, most) = (least.max(0.0), most.max(0.0));
        if least > most {
            return;
        }
        let (shortest, longest) = (self.shortest.max(least), self.longest.min(most));
        if shortest <= longest {
            (self.shortest, self.longest) = (shortest, longest);
        } else if shortest - longest <= slack {
            (self.shortest, self.longest) = (longest, shortest);
        } else {
            (self.shortest, self.longest) = (least, most);
            self.wrong = (self.wrong + 1.0).min(MOST_WRONG);
            self.wrong_whole = (self.wrong_whole + 1.0).min(MOST_WRONG);
            self.right = 0;
        }
    }
}

/// Narrows `bracket` to what lies in `other` too; where they do not meet, to the nearest of it.
pub(super) fn meet(bracket: &mut Bracket, other: Bracket) {
    let (from, to) = (bracket.0.max(other.0), bracket.1.min(other.1));
    *bracket = if from <= to {
        (from, to)
    } else if bracket.0 > other.1 {
        (other.1, other.1)
    } else {
        (other.0, other.0)
    };
}

/// A limit changes now and then, and others may use the same quota: three windows forget it.
const FORGIVEN: f64 = 0.5;
/// What failed for long comes back within a few windows when it holds again.
const MOST_WRONG: f64 = 3.0;
/// One prediction holds by chance where the reset is as coarse as the window is long.
const PROVEN: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    #[test]
    fn a_whole_number_in_the_interval_is_tried_first() {
        let mut rhythm = Rhythm::new(None);
        assert_eq!(rhythm.length(0.01), None);
        rhythm.learn(2.3, 3.2, 0.01);
        assert_eq!(rhythm.length(0.01), Some((3.0, 3.0)));
        assert_eq!(
            rhythm.end_of((at(1.0), at(1.5)), 0.01),
            Some((at(4.0), at(4.5)))
        );
    }

    #[test]
    fn windows_of_no_whole_length_end_the_assumption_and_not_the_rhythm() {
        let mut rhythm = Rhythm::new(Some(2.0));
        rhythm.judge((at(0.0), at(0.0)), (at(1.4), at(1.6)), 0.01);
        rhythm.learn(1.4, 1.6, 0.01);
        assert_eq!(rhythm.length(0.01), Some((1.4, 1.6)));
        assert_eq!(rhythm.doubt(), 0.0);
    }

    #[test]
    fn a_changed_length_is_taken_up() {
        let mut rhythm = Rhythm::new(None);
        rhythm.learn(9.5, 10.2, 0.01);
        rhythm.judge((at(0.0), at(0.0)), (at(4.9), at(5.1)), 0.01);
        rhythm.learn(4.9, 5.1, 0.01);
        assert_eq!(rhythm.length(0.01), Some((5.0, 5.0)));
        assert!(rhythm.doubt() > 0.0);
    }
}
