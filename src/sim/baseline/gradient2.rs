//! Netflix's Gradient2: the number in flight follows the ratio of the usual to the current round
//! trip, and grows by a fixed queue otherwise. Refusals mean nothing to it.

use crate::Time;
use crate::sim::client::End;
use crate::sim::dice::Dice;

use super::{Rule, full_jitter, is_success};

pub(super) struct Gradient2 {
    in_flight: f64,
    limit: f64,
    /// The long average of round trips in seconds, and over how many.
    long: f64,
    samples: f64,
}

impl Gradient2 {
    pub(super) fn new() -> Self {
        Self {
            in_flight: 0.0,
            limit: LEAST,
            long: 0.0,
            samples: 0.0,
        }
    }

    fn update(&mut self, short: f64, in_flight: f64) {
        self.samples += 1.0;
        self.long += (short - self.long)
            * if self.samples <= WARM_UP {
                1.0 / self.samples
            } else {
                2.0 / (WINDOW + 1.0)
            };
        if self.long / short > 2.0 {
            self.long *= 0.95;
        }
        if in_flight < self.limit / 2.0 {
            return;
        }
        let gradient = (TOLERANCE * self.long / short).clamp(0.5, 1.0);
        let wanted = gradient * self.limit + QUEUE;
        self.limit = (self.limit * (1.0 - SMOOTHING) + wanted * SMOOTHING).clamp(LEAST, MOST);
    }
}

impl Rule for Gradient2 {
    const HOLDS: bool = false;

    fn gate(&mut self, now: Time) -> Time {
        if self.in_flight < self.limit.floor() {
            now
        } else {
            Time::NEVER
        }
    }

    fn on_sent(&mut self, _again: bool, _now: Time) {
        self.in_flight += 1.0;
    }

    fn on_answer(&mut self, sent: Time, end: End<'_>, now: Time) {
        let took = now.secs_since(sent);
        if is_success(end) && took > 0.0 {
            self.update(took, self.in_flight);
        }
    }

    fn on_left(&mut self, _first_sent: Time, _end: End<'_>, _now: Time) {
        self.in_flight -= 1.0;
    }

    fn retry(&mut self, attempts: u16, _end: End<'_>, dice: &mut Dice) -> Option<f64> {
        full_jitter(attempts, LONGEST, dice)
    }
}

/// Where it starts, and the least.
const LEAST: f64 = 20.0;
/// The most in flight.
const MOST: f64 = 200.0;
/// The window of the long average, in samples; the first ten are averaged plainly.
const WINDOW: f64 = 600.0;
const WARM_UP: f64 = 10.0;
/// How much slower than usual is not yet a queue.
const TOLERANCE: f64 = 1.5;
/// What it adds while nothing is slow.
const QUEUE: f64 = 4.0;
/// Weight of the newest limit.
const SMOOTHING: f64 = 0.2;
/// The longest backoff in seconds, as of the fixed client.
const LONGEST: f64 = 1800.0;
