//! Vector's adaptive request concurrency: once a round trip, one more in flight if the answers are
//! no slower than usual, a tenth less after a refusal or a clearly slower answer.
//!
//! Its limit stands outside its retries: a place is kept through all attempts of a request, whose
//! time is the round trip, and only a refusal that is the last word counts as one.

use crate::Time;
use crate::sim::client::End;
use crate::sim::dice::Dice;

use super::{Rule, is_success};

pub(super) struct Vector {
    in_flight: f64,
    limit: f64,
    /// Mean and variance of the round trips of the past, in seconds.
    past: Option<(f64, f64)>,
    /// Sum and number of the round trips since the last change.
    current: (f64, u32),
    reached: bool,
    pushed_back: bool,
    next_change: Time,
}

impl Vector {
    pub(super) fn new() -> Self {
        Self {
            in_flight: 0.0,
            limit: 1.0,
            past: None,
            current: (0.0, 0),
            reached: false,
            pushed_back: false,
            next_change: Time::START,
        }
    }

    fn change(&mut self, now: Time) {
        let (sum, count) = self.current;
        let current = (count > 0).then(|| sum / f64::from(count));
        let past = self.past.or_else(|| current.map(|current| (current, 0.0)));
        let Some((mean, variance)) = past else {
            return;
        };
        let slow = current.is_some_and(|current| current >= mean + DEVIATIONS * variance.sqrt());
        let usual = current.is_some_and(|current| current <= mean);
        if self.pushed_back || (slow && self.past.is_some() && variance > 0.0) {
            self.limit = (self.limit * DECREASE).floor().max(1.0);
        } else if self.reached && usual {
            self.limit = (self.limit + 1.0).min(MOST);
        }
        if let Some(current) = current {
            let off = current - mean;
            let (mean, variance) = (
                mean + WEIGHT * off,
                (1.0 - WEIGHT) * (variance + WEIGHT * off * off),
            );
            self.past = Some((mean, variance));
        }
        let (mean, _) = self.past.unwrap_or((mean, variance));
        self.next_change = now.plus_secs(mean);
        self.current = (0.0, 0);
        self.reached = false;
        self.pushed_back = false;
    }
}

impl Rule for Vector {
    const HOLDS: bool = true;

    fn gate(&mut self, now: Time) -> Time {
        if self.in_flight < self.limit {
            now
        } else {
            Time::NEVER
        }
    }

    fn on_sent(&mut self, again: bool, _now: Time) {
        self.in_flight += f64::from(u8::from(!again));
        self.reached |= self.in_flight >= self.limit;
    }

    fn on_answer(&mut self, _sent: Time, _end: End<'_>, _now: Time) {}

    fn on_left(&mut self, first_sent: Time, end: End<'_>, now: Time) {
        self.in_flight -= 1.0;
        if is_success(end) {
            self.current.0 += now.secs_since(first_sent);
            self.current.1 += 1;
        } else {
            self.pushed_back = true;
        }
        if now >= self.next_change {
            self.change(now);
        }
    }

    /// Its sinks retry for ever, one Fibonacci number of seconds after the other with full jitter.
    fn retry(&mut self, attempts: u16, _end: End<'_>, dice: &mut Dice) -> Option<f64> {
        let (mut wait, mut next) = (1.0_f64, 1.0);
        for _ in 1..attempts.min(20) {
            (wait, next) = (next, wait + next);
        }
        Some(dice.between(0.0, wait.min(LONGEST)))
    }
}

/// The most in flight that it goes to by default.
const MOST: f64 = 200.0;
/// What a limit is multiplied by after a refusal.
const DECREASE: f64 = 0.9;
/// Weight of the newest round trip in its mean.
const WEIGHT: f64 = 0.4;
/// By how many deviations an answer must be slower to count as a crowd.
const DEVIATIONS: f64 = 2.5;
/// Its longest backoff in seconds.
const LONGEST: f64 = 30.0;
