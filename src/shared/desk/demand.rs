//! How much of a rate a process could use: what it used lately, and what those need who wait for
//! a larger share of it.

use std::time::Duration;

use crate::Time;

/// The demand for one rate.
#[derive(Debug)]
pub(super) struct Demand {
    /// Used since.
    used: u64,
    since: Time,
    /// What was used in a window before that.
    rate: f64,
    /// What the last ask took.
    cost: u64,
    /// The share held somebody up since, and before that.
    brakes: [bool; 2],
}

impl Demand {
    pub(super) fn new() -> Self {
        Self {
            used: 0,
            since: Time::START,
            rate: 0.0,
            cost: 0,
            brakes: [false; 2],
        }
    }

    /// Something of this cost was allowed. `is_last`: the next one must wait for the share.
    pub(super) fn on_used(&mut self, cost: u64, is_last: bool) {
        self.used += cost;
        self.cost = cost;
        self.brakes[0] |= is_last;
    }

    /// It was not sent after all.
    pub(super) fn on_unused(&mut self, cost: u64) {
        self.used = self.used.saturating_sub(cost);
    }

    /// Something of this cost must wait for the share.
    pub(super) fn on_held_up(&mut self, cost: u64) {
        self.cost = cost;
        self.brakes[0] = true;
    }

    /// Whether the share held somebody up lately.
    pub(super) fn is_held_up(&self) -> bool {
        self.brakes != [false; 2]
    }

    /// Begins another stretch, where this one is long enough to say something of a rate.
    pub(super) fn roll(&mut self, window: Duration, renewal: Duration, now: Time) {
        if now.since(self.since) < renewal.mul_f64(LONG_ENOUGH) {
            return;
        }
        self.rate = self.rate(window, renewal, now);
        self.used = 0;
        self.since = now;
        self.brakes = [false, self.brakes[0]];
    }

    /// How much of an amount in a window could be used while so many wait.
    pub(super) fn want(
        &self,
        amount: u64,
        window: Duration,
        waiting: usize,
        renewal: Duration,
        now: Time,
    ) -> u64 {
        let mut want = self.rate(window, renewal, now) * HEADROOM;
        if self.is_held_up() {
            // Those who wait could go before the next renewal.
            let renewals = window.as_secs_f64() / renewal.as_secs_f64();
            want += self.cost as f64 * waiting as f64 * renewals;
        }
        // Never nothing: the next may come any time.
        let least = (amount as f64 * LEAST).max(1.0);
        (want.max(least).ceil() as u64).min(amount)
    }

    fn rate(&self, window: Duration, renewal: Duration, now: Time) -> f64 {
        let since = now.since(self.since).max(renewal);
        let rate = self.used as f64 * window.as_secs_f64() / since.as_secs_f64();
        // A pause of one renewal is not the end of a demand.
        rate.max((rate + self.rate) / 2.0)
    }
}

/// The part of a renewal over which a rate can be measured.
const LONG_ENOUGH: f64 = 0.9;
/// What is wanted beyond what was used: room to grow before anybody has to wait.
const HEADROOM: f64 = 1.25;
/// The share that an idle process keeps, so that its next request need not wait.
const LEAST: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const RENEWAL: Duration = Duration::from_millis(333);

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn want(demand: &Demand, waiting: usize, now: Time) -> u64 {
        demand.want(100, SECOND, waiting, RENEWAL, now)
    }

    #[test]
    fn one_who_waits_now_and_then_does_not_want_everything() {
        let mut demand = Demand::new();
        for number in 0..40 {
            let now = at(250 * number);
            demand.on_held_up(1);
            assert!(want(&demand, 1, now) <= 9, "{}", want(&demand, 1, now));
            demand.on_used(1, true);
            demand.roll(SECOND, RENEWAL, now);
        }
        assert!(want(&demand, 0, at(10_000)) >= 4);
    }

    #[test]
    fn a_crowd_wants_everything_as_long_as_the_share_is_what_it_waits_for() {
        let mut demand = Demand::new();
        demand.on_used(1, false);
        assert!(
            want(&demand, 500, at(100)) < 10,
            "it waits for something else"
        );
        demand.on_held_up(1);
        assert_eq!(want(&demand, 500, at(100)), 100);
        // Confirming a smaller share at once changes nothing.
        for _ in 0..5 {
            demand.roll(SECOND, RENEWAL, at(101));
        }
        assert_eq!(want(&demand, 500, at(102)), 100);
    }

    #[test]
    fn a_demand_that_ended_is_forgotten_within_some_renewals() {
        let mut demand = Demand::new();
        for _ in 0..33 {
            demand.on_used(1, false);
        }
        demand.roll(SECOND, RENEWAL, at(333));
        assert!(want(&demand, 0, at(334)) > 60);
        for number in 2..10 {
            demand.roll(SECOND, RENEWAL, at(333 * number));
        }
        assert_eq!(want(&demand, 0, at(3_400)), 1);
    }
}
