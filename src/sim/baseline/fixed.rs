//! A fixed number in flight, and whatever fails is tried again after a backoff that knows nothing
//! of the response: a semaphore around a client with `reqwest-retry`.

use crate::Time;
use crate::sim::client::End;
use crate::sim::dice::Dice;

use super::{CALLERS, Rule, full_jitter};

pub(super) struct Fixed {
    in_flight: usize,
}

impl Fixed {
    pub(super) fn new() -> Self {
        Self { in_flight: 0 }
    }
}

impl Rule for Fixed {
    const HOLDS: bool = true;

    fn gate(&mut self, now: Time) -> Time {
        if self.in_flight < CALLERS {
            now
        } else {
            Time::NEVER
        }
    }

    fn on_sent(&mut self, again: bool, _now: Time) {
        self.in_flight += usize::from(!again);
    }

    fn on_answer(&mut self, _sent: Time, _end: End<'_>, _now: Time) {}

    fn on_left(&mut self, _first_sent: Time, _end: End<'_>, _now: Time) {
        self.in_flight -= 1;
    }

    fn retry(&mut self, attempts: u16, _end: End<'_>, dice: &mut Dice) -> Option<f64> {
        full_jitter(attempts, LONGEST, dice)
    }
}

/// The longest interval of `retry-policies`: half an hour.
const LONGEST: f64 = 1800.0;
