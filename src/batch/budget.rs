//! The tokens that a run may use, shared out ahead of time, so that what is in flight when they run
//! out does not go far beyond.
//!
//! What a request will take is not known before its answer: it is reckoned with what answers took so
//! far, and before the first of them with an estimate from its text. One request may always go while
//! there is anything left, whatever it is reckoned to take.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The tokens that a run may use.
#[derive(Debug)]
pub(crate) struct Budget {
    most: u64,
    state: Mutex<State>,
    /// Tells those who wait that something was settled.
    pub(crate) settled: Notify,
}

#[derive(Debug, Default)]
struct State {
    spent: u64,
    /// How many requests are under way.
    active: u64,
    /// Answers that said what they took, and those that did not.
    told: u64,
    silent: u64,
}

impl Budget {
    /// A budget of so many tokens.
    pub(crate) fn new(most: u64) -> Self {
        Self {
            most,
            state: Mutex::default(),
            settled: Notify::new(),
        }
    }

    /// Lets a request go that takes so much by this estimate, if nothing better is known. False: it
    /// has to wait until something is settled.
    pub(crate) fn enter(&self, estimate: u64) -> bool {
        let mut state = self.state();
        let price = state.spent.checked_div(state.told).unwrap_or(estimate);
        let under_way = price.saturating_mul(state.active + 1);
        let fits = state.spent.saturating_add(under_way) <= self.most;
        let known = state.told > 0 || state.active < UNKNOWN;
        // Where answers say nothing, there is nothing to keep.
        let uncounted = state.told == 0 && state.silent > 0;
        let alone = state.active == 0 && state.spent < self.most;
        let enters = alone || uncounted || (fits && known);
        state.active += u64::from(enters);
        enters
    }

    /// One that had entered has ended, and took so much, as far as its answer says.
    pub(crate) fn settle(&self, used: Option<u64>, answered: bool) {
        let mut state = self.state();
        state.active -= 1;
        state.spent = state.spent.saturating_add(used.unwrap_or_default());
        state.told += u64::from(used.is_some());
        state.silent += u64::from(answered && used.is_none());
        drop(state);
        self.settled.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// So many requests may be under way before the first answer says what one takes.
const UNKNOWN: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(budget: &Budget, estimate: u64) -> usize {
        (0..100).take_while(|_| budget.enter(estimate)).count()
    }

    #[test]
    fn what_is_under_way_counts_with_what_answers_took_so_far() {
        let budget = Budget::new(100);
        assert_eq!(enter(&budget, 30), 3, "an estimate is all there is");
        for _ in 0..3 {
            budget.settle(Some(10), true);
        }
        assert_eq!(enter(&budget, 30), 7, "at ten tokens each");
        for _ in 0..7 {
            budget.settle(Some(10), true);
        }
        assert_eq!(enter(&budget, 1), 0, "all is spent");
    }

    #[test]
    fn one_may_always_go_while_anything_is_left() {
        let budget = Budget::new(5);
        assert_eq!(enter(&budget, 1_000), 1);
        budget.settle(Some(3), true);
        assert_eq!(enter(&budget, 1_000), 1);
        budget.settle(Some(3), true);
        assert_eq!(enter(&budget, 0), 0);
    }

    #[test]
    fn answers_that_say_nothing_hold_nobody_up() {
        let budget = Budget::new(5);
        assert_eq!(enter(&budget, 0), UNKNOWN as usize);
        budget.settle(None, true);
        assert_eq!(enter(&budget, 1_000), 100);
    }
}
