//! What the trees of the queue are sorted by. Under test every comparison is counted: that is what
//! an operation costs on any machine.

use std::cmp::Ordering;

/// The place of an ask by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Age {
    /// Submit, in nanoseconds.
    pub(super) submitted: i64,
    /// The number of the ask: no other has it.
    pub(super) seq: u64,
    pub(super) slot: u32,
}

/// The order of a tenant among those of its class: lower goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// What it was granted, divided by its weight.
    pub(super) tag: u64,
    /// Among equals, who was granted longest ago.
    pub(super) since: u64,
    pub(super) flow: u32,
}

impl Ord for Age {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        steps::count();
        (self.submitted, self.seq).cmp(&(other.submitted, other.seq))
    }
}

impl PartialOrd for Age {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        steps::count();
        (self.tag, self.since, self.flow).cmp(&(other.tag, other.since, other.flow))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The comparisons of this thread.
#[cfg(test)]
pub(crate) mod steps {
    use std::cell::Cell;

    thread_local! {
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    pub(crate) fn count() {
        STEPS.set(STEPS.get() + 1);
    }

    /// How many since the last call.
    pub(crate) fn take() -> u64 {
        STEPS.replace(0)
    }
}
