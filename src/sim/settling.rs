//! How soon after a change of its limits a provider is used as it allows again.

use crate::Time;

use super::provider::Law;
use super::scenario::Load;

/// The changes of a run, and what was served meanwhile.
#[derive(Debug)]
pub(super) struct Settling {
    /// When, in seconds, and how many requests per second are allowed from then on.
    changes: Vec<(f64, f64)>,
    served: Vec<f64>,
}

impl Settling {
    /// None where nothing changes.
    pub(super) fn new(law: &Law, load: &Load) -> Option<Self> {
        let tokens = f64::midpoint(load.tokens.0, load.tokens.1);
        let changes = law.changes.iter().map(|change| {
            let allowed = law.allowed(load.keys, tokens, change.at);
            (change.at.as_secs_f64(), allowed)
        });
        let changes: Vec<_> = changes
            .filter(|(_, allowed)| allowed.is_finite() && *allowed > 0.0)
            .collect();
        (!changes.is_empty()).then(|| Self {
            changes,
            served: Vec::new(),
        })
    }

    pub(super) fn on_served(&mut self, now: Time) {
        self.served.push(now.as_secs_f64());
    }

    /// The longest time, in seconds, from a change until as much is served as [`ENOUGH`] of what
    /// is allowed, over a second or ten requests, whichever is longer; if that never comes, until
    /// the next change or the end. None if no change came early enough to tell.
    pub(super) fn longest(&self) -> Option<f64> {
        let last = self.served.last().copied()?;
        let ends = self.changes.iter().skip(1).map(|&(at, _)| at.min(last));
        let times = self.changes.iter().zip(ends.chain([last]));
        times
            .filter_map(|(&(at, allowed), end)| self.settled(at, allowed, end))
            .max_by(f64::total_cmp)
    }

    fn settled(&self, at: f64, allowed: f64, end: f64) -> Option<f64> {
        let window = (FEW / allowed).max(1.0);
        if end - at < window {
            return None;
        }
        let first = self.served.partition_point(|&served| served < at);
        let later = &self.served[first..];
        let starts = [at].into_iter().chain(later.iter().copied());
        let enough = |&from: &f64| {
            let before = later.partition_point(|&served| served < from);
            let within = later.partition_point(|&served| served < from + window);
            (within - before) as f64 >= ENOUGH * allowed * window
        };
        let found = starts.take_while(|from| from + window <= end).find(enough);
        Some(found.map_or(end - at, |from| from - at))
    }
}

/// Of what is allowed.
const ENOUGH: f64 = 0.9;
/// Requests: of fewer, one more or less is a tenth.
const FEW: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn settling(served: impl Iterator<Item = f64>) -> Settling {
        Settling {
            changes: vec![(10.0, 5.0), (20.0, 20.0)],
            served: served.collect(),
        }
    }

    #[test]
    fn the_time_ends_where_enough_is_served_and_stays_so_for_a_while() {
        // Five a second until 23 s, then twenty.
        let slow = (0..115).map(|n| f64::from(n) * 0.2);
        let fast = (0..200).map(|n| 23.0 + f64::from(n) * 0.05);
        let longest = settling(slow.chain(fast)).longest().unwrap();
        assert!((2.8..=3.0).contains(&longest), "{longest}");
    }

    #[test]
    fn what_never_comes_takes_until_the_end() {
        let slow = settling((0..200).map(|n| f64::from(n) * 0.2));
        assert!((slow.longest().unwrap() - 19.8).abs() < 1e-9);
        assert_eq!(
            settling((0..10).map(f64::from)).longest(),
            None,
            "it ended before"
        );
    }
}
