//! What has been started under ceilings, for a scheduler that goes on after this one: a restart must
//! not double what a day allows.
//!
//! Told is the longest window of each dimension, in at most [`Spent::MOST`] parts of which each
//! counts as its newest: what is not exact makes the next scheduler wait longer.

use std::collections::VecDeque;
use std::time::Duration;

use crate::feedback::Dimension;
use crate::scheduler::time::Time;

use super::{Ceilings, Rate};

/// What was started within a window.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub(in crate::scheduler) struct Spent {
    dimension: Dimension,
    /// How long ago in seconds, and how much, oldest first.
    sent: Vec<(f64, u64)>,
}

impl Spent {
    /// An error of a 64th of the window at most, and small in a file.
    const MOST: usize = 64;
}

impl Ceilings {
    /// What is in the windows.
    pub(in crate::scheduler) fn remember(&self, now: Time) -> Vec<Spent> {
        let longest = |rate: &&Rate| {
            let same = |other: &&Rate| other.ceiling.dimension == rate.ceiling.dimension;
            let of_dimension = self.rates.iter().filter(same);
            // Of equal ones the last, as here.
            let longest = of_dimension.max_by_key(|other| other.window);
            longest.is_some_and(|longest| std::ptr::eq(longest, *rate))
        };
        let longest = self.rates.iter().filter(longest);
        let spent = longest.map(|rate| Spent {
            dimension: rate.ceiling.dimension,
            sent: rate.sent(now),
        });
        spent.filter(|spent| !spent.sent.is_empty()).collect()
    }

    /// Counts what another scheduler had started when `age` less of time had passed. For ceilings
    /// under which nothing was started yet.
    pub(in crate::scheduler) fn recall(&mut self, spent: &[Spent], age: Duration, now: Time) {
        for rate in &mut self.rates {
            let dimension = rate.ceiling.dimension;
            if let Some(spent) = spent.iter().find(|spent| spent.dimension == dimension) {
                rate.recall(spent, age, now);
            }
        }
    }
}

impl Rate {
    fn sent(&self, now: Time) -> Vec<(f64, u64)> {
        let window = self.window.as_secs_f64();
        let part = window / Spent::MOST as f64;
        let mut sent: Vec<(f64, u64)> = Vec::new();
        let mut add = |age: f64, amount: u64| {
            match sent.last_mut() {
                Some(last) if (last.0 / part).floor() == (age / part).floor() => {
                    *last = (age, last.1 + amount);
                }
                _ => sent.push((age, amount)),
            };
        };
        // A request that takes nothing of the dimension is in its log too.
        let ends = self.ends().filter(|&(end, amount)| end > now && amount > 0);
        for (end, amount) in ends {
            add((window - end.secs_since(now)).max(0.0), amount);
        }
        if self.pending > 0 {
            add(0.0, self.pending);
        }
        sent
    }

    fn recall(&mut self, spent: &Spent, age: Duration, now: Time) {
        let mut earlier: Vec<(Time, u64)> = Vec::new();
        for &(seconds, amount) in spent.sent.iter().take(2 * Spent::MOST) {
            let age = Duration::try_from_secs_f64(seconds).unwrap_or_default() + age;
            if let Some(left) = self.window.checked_sub(age).filter(|left| !left.is_zero()) {
                earlier.push((now + left, amount.min(self.ceiling.amount)));
            }
        }
        earlier.sort_unstable();
        self.in_window += earlier.iter().map(|entry| entry.1).sum::<u64>();
        self.earlier = earlier.into();
    }

    /// What came from before, as a window of another length sees it.
    pub(super) fn earlier_within(&self, window: Duration) -> VecDeque<(Time, u64)> {
        let moved = |&(end, amount): &(Time, u64)| {
            let end = end + window;
            (
                Time::from_nanos(end.as_nanos().saturating_sub(nanos(self.window))),
                amount,
            )
        };
        self.earlier.iter().map(moved).collect()
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::events::{Cost, Gate, Reason};

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn ceilings(texts: &[&str]) -> Ceilings {
        let rates: Vec<_> = texts.iter().map(|text| text.parse().unwrap()).collect();
        Ceilings::new(&rates, None)
    }

    fn send(ceilings: &mut Ceilings, now: Time) {
        ceilings.on_granted(&Cost::ONE);
        ceilings.on_started(&Cost::ONE, now);
        ceilings.on_ended();
    }

    fn opens(ceilings: &Ceilings, now: Time) -> f64 {
        match ceilings.gate(&Cost::ONE, now) {
            Gate::Open => now.as_secs_f64(),
            Gate::Shut { until, reason } => {
                assert_eq!(reason, Reason::Ceiling);
                until.as_secs_f64()
            }
        }
    }

    #[test]
    fn a_restart_does_not_double_what_a_day_allows() {
        let mut first = ceilings(&["3/1day"]);
        (0..3).for_each(|hour| send(&mut first, at(3600.0 * f64::from(hour))));
        let spent = first.remember(at(10_000.0));
        let mut second = ceilings(&["3/1day"]);
        second.recall(&spent, Duration::from_secs(600), at(0.0));
        let found = opens(&second, at(0.0));
        assert!((found - (86_400.0 - 10_600.0)).abs() < 1.0, "{found}");
        // What comes after it joins in.
        send(&mut second, at(found));
        let next = opens(&second, at(found));
        assert!((next - found - 3600.0).abs() < 1.0, "{next}");
    }

    #[test]
    fn what_is_not_exact_waits_longer_never_shorter() {
        let mut first = ceilings(&["10000/100s"]);
        (0..10_000).for_each(|n| send(&mut first, at(f64::from(n) * 0.01)));
        let spent = first.remember(at(100.0));
        assert!(
            spent[0].sent.len() <= Spent::MOST + 1,
            "{}",
            spent[0].sent.len()
        );
        let mut second = ceilings(&["10000/100s"]);
        second.recall(&spent, Duration::ZERO, at(0.0));
        let exact = ceilings(&["10000/100s"]);
        let found = opens(&second, at(0.0));
        assert!((0.0..=100.0 / 63.0).contains(&found), "{found}");
        assert_eq!(opens(&exact, at(0.0)), 0.0);
    }

    #[test]
    fn a_granted_attempt_counts_as_started_and_what_is_over_does_not() {
        let mut first = ceilings(&["5/1s", "100 tokens/10s"]);
        send(&mut first, at(0.0));
        first.on_granted(&Cost::tokens(40));
        let spent = first.remember(at(5.0));
        assert_eq!(spent.len(), 2);
        assert_eq!(spent[0].sent, [(0.0, 1)]);
        assert_eq!(spent[1].sent, [(0.0, 40)]);
        let mut second = ceilings(&["5/1s", "100 tokens/10s"]);
        second.recall(&spent, Duration::from_secs(2), at(0.0));
        let left: Vec<u64> = second.rates(at(0.0)).map(|(_, left)| left).collect();
        assert_eq!(left, [5, 60]);
        let left: Vec<u64> = second.rates(at(8.0)).map(|(_, left)| left).collect();
        assert_eq!(left, [5, 100]);
    }

    #[test]
    fn nonsense_is_no_more_than_a_full_window() {
        let spent = Spent {
            dimension: Dimension::Requests,
            sent: vec![(f64::NAN, u64::MAX), (-1.0, 3), (f64::INFINITY, 1)],
        };
        let mut ceilings = ceilings(&["5/1s"]);
        ceilings.recall(&[spent], Duration::ZERO, at(0.0));
        assert_eq!(opens(&ceilings, at(0.0)), 1.0);
        assert_eq!(opens(&ceilings, at(1.0)), 1.0);
    }

    #[test]
    fn another_window_sees_the_same_sends() {
        let mut first = ceilings(&["2/10s"]);
        send(&mut first, at(0.0));
        send(&mut first, at(4.0));
        let spent = first.remember(at(5.0));
        let mut second = ceilings(&["2/10s"]);
        second.recall(&spent, Duration::ZERO, at(0.0));
        second.set(&["2/20s".parse().unwrap()], None);
        assert_eq!(opens(&second, at(0.0)), 15.0);
        second.set(&["2/6s".parse().unwrap()], None);
        assert_eq!(opens(&second, at(0.5)), 1.0);
    }
}
