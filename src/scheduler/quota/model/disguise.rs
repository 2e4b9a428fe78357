//! Whether what looks like a window of a second is one.
//!
//! A bucket that fills within a second, told in whole seconds, looks like a window of one: whoever
//! uses it up and waits for the told end never reads anything else. Only a request in between tells
//! the two apart: a window refuses it, a bucket has some back. So one is sent now and then, sooner
//! where the last was served, later and later where it was refused.

use crate::scheduler::time::Time;

use super::super::reading::Span;

/// What was told of ends, and what became of requests sent before them.
#[derive(Clone, Debug, Default)]
pub(super) struct Disguise {
    /// In seconds, the longest that an end was told to be away.
    farthest: f64,
    /// Told as moments of a clock, a second may be two away.
    by_clock: bool,
    /// The request that asks, until it is answered.
    asked: Option<u64>,
    /// Another quota is told in its place now and then: then counts tell too little for the answer.
    by_turns: bool,
    /// Refused in a row.
    vain: u32,
    rests_until: Time,
}

impl Disguise {
    /// A reading was brought by a request sent at `sent`.
    pub(super) fn on_reading(&mut self, reset: &Span, sent: Time) {
        self.farthest = self.farthest.max(reset.latest.secs_since(sent));
        self.by_clock |= reset.moment.is_some();
    }

    /// Another quota was told in its place.
    pub(super) fn on_untold(&mut self) {
        self.by_turns = true;
    }

    /// When to ask, of a quota that was last taken from at `used` and is told to be back by `end`;
    /// none while nothing speaks for it.
    pub(super) fn question(&self, used: Time, end: Time) -> Option<Time> {
        let within = if self.by_clock { 2.0 } else { 1.0 };
        let left = end.secs_since(used);
        (!self.by_turns && self.farthest <= within + SLACK && left > SHORTEST)
            .then(|| used.plus_secs(0.5 * left).max(self.rests_until))
    }

    /// The send of this number asks, and no other for `pause` seconds.
    pub(super) fn on_asked(&mut self, number: u64, pause: f64, now: Time) {
        self.asked = Some(number);
        self.rests_until = self.rests_until.max(now.plus_secs(pause));
    }

    /// The send of this number was answered.
    pub(super) fn on_answer(&mut self, number: u64, refused: bool, now: Time) {
        if self.asked.take_if(|asked| *asked == number).is_none() {
            return;
        }
        if refused {
            let rest = FIRST_REST * REST_GROWTH.powi(self.vain.min(MOST_VAIN) as i32);
            self.rests_until = now.plus_secs(rest);
            self.vain += 1;
        } else {
            self.vain = 0;
        }
    }
}

/// In seconds: jitter, and what a clock is known to.
const SLACK: f64 = 0.15;
/// In seconds: in less than twice that nothing comes back that was worth a question.
const SHORTEST: f64 = 0.1;
/// In seconds, after a question in vain: the next is as much again and again, so that a window of a
/// second costs a refusal in the first ten, one in the first minute and five in a day.
const FIRST_REST: f64 = 10.0;
const REST_GROWTH: f64 = 6.0;
const MOST_VAIN: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn told(after: f64) -> Disguise {
        let mut disguise = Disguise::default();
        let latest = at(after);
        let reset = Span {
            latest,
            ..Span::default()
        };
        disguise.on_reading(&reset, at(0.0));
        disguise
    }

    #[test]
    fn a_second_is_asked_for_in_its_middle() {
        assert_eq!(told(1.0).question(at(4.0), at(5.0)), Some(at(4.5)));
        assert_eq!(
            told(5.0).question(at(4.0), at(5.0)),
            None,
            "a longer window"
        );
    }

    #[test]
    fn who_is_refused_asks_rarely_and_who_is_served_soon_again() {
        let mut disguise = told(1.0);
        disguise.on_asked(7, 0.1, at(4.5));
        disguise.on_answer(7, false, at(4.6));
        assert_eq!(disguise.question(at(4.5), at(5.0)), Some(at(4.75)));
        disguise.on_asked(8, 0.1, at(4.75));
        disguise.on_answer(8, true, at(5.0));
        assert_eq!(disguise.question(at(5.0), at(6.0)), Some(at(15.0)));
        disguise.on_asked(9, 0.1, at(15.0));
        disguise.on_answer(9, true, at(15.0));
        assert_eq!(disguise.question(at(15.0), at(16.0)), Some(at(75.0)));
    }
}
