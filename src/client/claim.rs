//! The right to one seat of a gate, through all phases of its ticket.

use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::scheduler::events::{Outcome, Refusal, Verdict};

use super::gate::Gate;
use super::seats::Taken;
use super::watch::Watch;

/// The right to one seat: waiting, granted or in flight. Dropping it cancels the ticket, whatever
/// its phase.
#[derive(Debug)]
pub(crate) struct Claim {
    gate: Arc<Gate>,
    seat: usize,
    watch: Option<Arc<Watch>>,
}

impl Claim {
    pub(super) fn new(gate: Arc<Gate>, seat: usize, watch: Option<Arc<Watch>>) -> Self {
        Self { gate, seat, watch }
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// What sees whether the owner listens.
    pub(crate) fn watch(&self) -> Option<&Arc<Watch>> {
        self.watch.as_ref()
    }

    /// The grant, if it has come; taking it up starts the attempt.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<Taken, Refusal>> {
        self.gate.act(|inner, now, wakes| {
            if inner.seats.resume(self.seat) {
                self.gate.pump(inner, now, wakes);
            }
            let Some(taken) = inner.seats.take_up(self.seat, now) else {
                wakes.spent.extend(inner.seats.listen(self.seat, waker));
                return Poll::Pending;
            };
            // The start of an attempt begins a window that others wait for the end of.
            self.gate.pump(inner, now, wakes);
            Poll::Ready(taken)
        })
    }

    /// Ends the attempt. Where the verdict is to go again, the seat waits in its old place. Where
    /// `held`, its slot stays taken until the claim is dropped.
    pub(crate) fn complete(&self, outcome: &Outcome, held: bool) -> Verdict {
        self.gate.act(|inner, now, wakes| {
            let verdict = inner.seats.complete(self.seat, outcome, held, now);
            self.gate.pump(inner, now, wakes);
            verdict
        })
    }

    /// Something was sent `times` on this attempt's key that passed no gate.
    #[cfg(feature = "reqwest")]
    pub(crate) fn charge(&self, times: u32) {
        if times == 0 {
            return;
        }
        self.gate.act(|inner, now, wakes| {
            inner.seats.charge(self.seat, times, now);
            self.gate.pump(inner, now, wakes);
        });
    }

    /// The owner listens again: its slot, if it was lent, is its own.
    pub(super) fn reclaim(&self) {
        self.gate.act(|inner, _, _| inner.seats.reclaim(self.seat));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let seat = self.gate.act(|inner, now, wakes| {
            let seat = inner.seats.leave(self.seat);
            self.gate.pump(inner, now, wakes);
            seat
        });
        // Its waker is dropped outside the lock.
        drop(seat);
    }
}
