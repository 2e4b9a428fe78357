//! A limiter set by hand: it is told the true rate, burst and cap of each key, and keeps to them.
//! What it cannot be told is how the network moves requests closer together, and changes.

use crate::Time;
use crate::sim::client::End;
use crate::sim::dice::Dice;
use crate::sim::provider::{Limit, Per};
use crate::sim::scenario::Scenario;

use super::Rule;

pub(super) struct Tuned {
    in_flight: f64,
    cap: f64,
    /// Per second.
    rate: f64,
    burst: f64,
    tokens: f64,
    at: Time,
}

impl Tuned {
    /// For one key of a scenario; an account's limits are divided among the keys.
    pub(super) fn new(scenario: &Scenario, key: usize) -> Self {
        let law = &scenario.provider;
        let keys = scenario.load.keys as f64;
        let odd = law.keys.iter().find(|odd| odd.index == key);
        let own = odd.and_then(|odd| odd.limits.as_deref());
        let common = law.limits.iter();
        let limits = common.filter(|limit| own.is_none() || limit.per() == Per::Account);
        let mean_tokens = (scenario.load.tokens.0 + scenario.load.tokens.1) / 2.0;
        let latency = law.latency.as_secs_f64();
        let mut tuned = Self {
            in_flight: 0.0,
            cap: law.knee.map_or(f64::INFINITY, |knee| knee / keys),
            rate: f64::INFINITY,
            burst: f64::INFINITY,
            tokens: 0.0,
            at: Time::START,
        };
        for limit in limits.chain(own.unwrap_or_default()) {
            let share = if limit.per() == Per::Account {
                1.0 / keys
            } else {
                1.0
            };
            if let Limit::Concurrency { max, .. } = limit {
                tuned.cap = tuned.cap.min(f64::from(*max) * share);
                continue;
            }
            tuned.rate = tuned.rate.min(limit.rate(mean_tokens, latency) * share);
            // Of a window only a part that cannot fall into the same window twice: one request.
            let burst = if let Limit::Bucket { burst, .. } = limit {
                burst * share
            } else {
                1.0
            };
            tuned.burst = tuned.burst.min(burst).max(1.0);
        }
        tuned.tokens = tuned.burst.min(1e9);
        tuned
    }
}

impl Rule for Tuned {
    const HOLDS: bool = false;

    fn gate(&mut self, now: Time) -> Time {
        if self.in_flight >= self.cap.max(1.0) {
            return Time::NEVER;
        }
        if self.rate.is_infinite() {
            return now;
        }
        let refill = self.rate * now.secs_since(self.at);
        self.tokens = (self.tokens + refill).min(self.burst);
        self.at = now;
        if self.tokens >= 1.0 - 1e-9 {
            now
        } else {
            now.plus_secs((1.0 - self.tokens) / self.rate)
        }
    }

    fn on_sent(&mut self, _again: bool, _now: Time) {
        self.in_flight += 1.0;
        if self.rate.is_finite() {
            self.tokens -= 1.0;
        }
    }

    fn on_answer(&mut self, _sent: Time, _end: End<'_>, _now: Time) {}

    fn on_left(&mut self, _first_sent: Time, _end: End<'_>, _now: Time) {
        self.in_flight -= 1.0;
    }

    /// As often as needed: it was set by somebody who knows that the limit is right.
    fn retry(&mut self, _attempts: u16, _end: End<'_>, dice: &mut Dice) -> Option<f64> {
        Some(dice.between(0.02, 0.04))
    }
}
