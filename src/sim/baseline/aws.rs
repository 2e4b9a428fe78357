//! The adaptive mode of the AWS SDKs: nothing until the first throttle, then a token bucket whose
//! rate is cut to 0.7 and follows a cubic back, at most twice what is really sent.

use crate::Time;
use crate::sim::client::End;
use crate::sim::dice::Dice;

use super::{CALLERS, Rule, full_jitter, is_refusal, is_success};

pub(super) struct Aws {
    in_flight: usize,
    /// The rate of the bucket; none until the first throttle.
    fill: Option<f64>,
    tokens: f64,
    refilled: Time,
    /// Requests sent in the current half second, and the smoothed rate of the past.
    bucket: (u64, f64),
    measured: f64,
    /// The rate before the last cut, and when that was.
    last_max: f64,
    last_cut: Time,
}

impl Aws {
    pub(super) fn new() -> Self {
        Self {
            in_flight: 0,
            fill: None,
            tokens: 0.0,
            refilled: Time::START,
            bucket: (0, 0.0),
            measured: 0.0,
            last_max: 0.0,
            last_cut: Time::START,
        }
    }

    fn refill(&mut self, now: Time) {
        if let Some(fill) = self.fill {
            let more = fill * now.secs_since(self.refilled);
            self.tokens = (self.tokens + more).min(fill.max(1.0));
        }
        self.refilled = now;
    }

    /// Counts answers in half seconds, as the measured rate.
    fn measure(&mut self, now: Time) {
        let half = (now.as_secs_f64() * 2.0).floor() / 2.0;
        self.bucket.0 += 1;
        if half > self.bucket.1 {
            let rate = self.bucket.0 as f64 / (half - self.bucket.1);
            self.measured = rate * SMOOTHING + self.measured * (1.0 - SMOOTHING);
            self.bucket = (0, half);
        }
    }

    fn set(&mut self, rate: f64, now: Time) {
        self.refill(now);
        self.fill = Some(rate.max(LEAST));
        self.tokens = self.tokens.min(rate.max(1.0));
    }

    fn cut(&mut self, now: Time) {
        let rate = self
            .fill
            .map_or(self.measured, |fill| fill.min(self.measured));
        self.last_max = rate;
        self.last_cut = now;
        self.set(rate * BETA, now);
    }

    fn grow(&mut self, now: Time) {
        let back = (self.last_max * (1.0 - BETA) / SCALE).cbrt();
        let since = now.secs_since(self.last_cut);
        let cubic = SCALE * (since - back).powi(3) + self.last_max;
        self.set(cubic.min(2.0 * self.measured), now);
    }
}

impl Rule for Aws {
    const HOLDS: bool = true;

    fn gate(&mut self, now: Time) -> Time {
        if self.in_flight >= CALLERS {
            Time::NEVER
        } else {
            self.gate_again(now)
        }
    }

    fn gate_again(&mut self, now: Time) -> Time {
        self.refill(now);
        match self.fill {
            Some(fill) if self.tokens < 1.0 - 1e-9 => now.plus_secs((1.0 - self.tokens) / fill),
            _ => now,
        }
    }

    fn on_sent(&mut self, again: bool, _now: Time) {
        self.in_flight += usize::from(!again);
        if self.fill.is_some() {
            self.tokens -= 1.0;
        }
    }

    fn on_left(&mut self, _first_sent: Time, _end: End<'_>, _now: Time) {
        self.in_flight -= 1;
    }

    fn on_answer(&mut self, _sent: Time, end: End<'_>, now: Time) {
        self.measure(now);
        if is_refusal(end) {
            self.cut(now);
        } else if is_success(end) && self.fill.is_some() {
            self.grow(now);
        }
    }

    fn retry(&mut self, attempts: u16, _end: End<'_>, dice: &mut Dice) -> Option<f64> {
        full_jitter(attempts, LONGEST, dice)
    }
}

/// What the rate is multiplied by at a throttle.
const BETA: f64 = 0.7;
/// The constant of its cubic.
const SCALE: f64 = 0.4;
/// Weight of the newest half second in the measured rate.
const SMOOTHING: f64 = 0.8;
/// The lowest rate per second.
const LEAST: f64 = 0.5;
/// The longest backoff in seconds.
const LONGEST: f64 = 20.0;
