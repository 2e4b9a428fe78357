//! Cancelling what belongs together.

use super::Scheduler;
use super::events::{Name, Priority, Refusal, Ticket};

/// What cancelling a group did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Cancelled {
    /// How many waited, and wait no more. Each caller is told.
    pub removed: usize,
    /// How many had left, and finish; they are not repeated.
    pub in_flight: usize,
    /// How many had ended with a result, since the group began or was last cancelled.
    pub done: u64,
    /// How many were spared, waiting or in flight.
    pub spared: usize,
}

impl Scheduler {
    /// Cancels what waits of a group, and repeats nothing of it; what is in flight finishes. Asks
    /// at or above `spare` stay. Each removed ticket is refused as cancelled. Asks that come into
    /// the group afterwards are new ones.
    pub fn cancel_group(&mut self, group: &Name, spare: Option<Priority>) -> Cancelled {
        self.cancel_members(group, spare).0
    }

    /// The same, and what is spared belongs to the group `new` from now on.
    pub fn replace_group(&mut self, old: &Name, new: &Name, spare: Option<Priority>) -> Cancelled {
        let (cancelled, spared) = self.cancel_members(old, spare);
        for ticket in spared {
            self.queue.move_to_group(ticket, new.clone());
        }
        cancelled
    }

    fn cancel_members(
        &mut self,
        group: &Name,
        spare: Option<Priority>,
    ) -> (Cancelled, Vec<Ticket>) {
        let mut cancelled = Cancelled {
            done: self.queue.take_done(group),
            ..Cancelled::default()
        };
        let mut spared = Vec::new();
        // The youngest first: the oldest of a tenant is what the order of classes goes by, and would
        // have to be found anew each time.
        for ticket in self.queue.members(group).into_iter().rev() {
            let entry = self.queue.entry_mut(ticket).expect("members are alive");
            if spare.is_some_and(|spare| entry.priority >= spare) {
                spared.push(ticket);
                continue;
            }
            entry.cancelled = true;
            let attempt = self.attempt_of(ticket);
            if attempt.is_some_and(|index| self.attempts[index].started.is_some()) {
                cancelled.in_flight += 1;
            } else {
                self.refuse(ticket, Refusal::Cancelled);
                cancelled.removed += 1;
            }
        }
        spared.reverse();
        cancelled.spared = spared.len();
        (cancelled, spared)
    }
}
