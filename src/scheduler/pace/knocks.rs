//! How often a key was refused of late, and how many refusals may still be risked.

use std::collections::VecDeque;

use crate::scheduler::time::Time;

/// The latest refusals of one key.
#[derive(Clone, Debug, Default)]
pub(super) struct Knocks {
    at: VecDeque<Time>,
}

impl Knocks {
    /// More than a ban takes to come.
    const KEPT: usize = 16;

    pub(super) fn push(&mut self, now: Time) {
        if self.at.len() == Self::KEPT {
            self.at.pop_front();
        }
        self.at.push_back(now);
    }

    /// Refusals in the last `seconds`.
    pub(super) fn count(&self, seconds: f64, now: Time) -> u32 {
        self.at
            .iter()
            .rev()
            .take_while(|&&at| now.secs_since(at) < seconds)
            .count() as u32
    }
}

/// Refusals that may be risked to learn: a few at once, then one per hundred successes.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: f64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: Self::MOST }
    }
}

impl Budget {
    /// A silent limit has two unknowns, its kind, and one error.
    const MOST: f64 = 4.0;
    /// What following a limit that may rise costs: 1 % of requests.
    const EARNED: f64 = 0.01;

    pub(super) fn earn(&mut self) {
        self.left = (self.left + Self::EARNED).min(Self::MOST);
    }

    /// Never below nothing: after an outage a debt would forbid every trial for the rest of a run.
    pub(super) fn spend(&mut self) {
        self.left = (self.left - 1.0).max(0.0);
    }

    pub(super) fn allows(&self) -> bool {
        self.left >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_leaves_no_debt() {
        let mut budget = Budget::default();
        (0..1000).for_each(|_| budget.spend());
        assert!(!budget.allows());
        (0..101).for_each(|_| budget.earn());
        assert!(budget.allows());
    }

    #[test]
    fn only_the_latest_knocks_count() {
        let mut knocks = Knocks::default();
        for second in 0..10 {
            knocks.push(Time::from_secs_f64(f64::from(second)));
        }
        assert_eq!(knocks.count(5.0, Time::from_secs_f64(10.0)), 4);
    }
}
