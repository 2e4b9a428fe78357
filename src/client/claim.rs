//! The right to one seat of a gate, through all phases of its ticket.

use std::sync::Arc;
use std::task::{Poll, Waker};

#[cfg(feature = "reqwest")]
use crate::feedback::Feedback;
#[cfg(feature = "reqwest")]
use crate::scheduler::Receipt;
use crate::scheduler::events::{Outcome, Refusal, Verdict};

use super::driver;
use super::gate::Gate;
use super::seats::Taken;
use super::watch::Watch;

/// The right to one seat: waiting, granted or in flight. Dropping it cancels the ticket, whatever
/// its phase.
#[derive(Debug)]
pub(crate) struct Claim {
    gate: Arc<Gate>,
    /// None once it was given up.
    seat: Option<usize>,
    watch: Option<Arc<Watch>>,
}

impl Claim {
    pub(super) fn new(gate: Arc<Gate>, seat: usize, watch: Option<Arc<Watch>>) -> Self {
        Self {
            gate,
            seat: Some(seat),
            watch,
        }
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
        let seat = self.seat();
        self.gate.act(|inner, now, wakes| {
            if inner.seats.resume(seat, now) {
                self.gate.pump(inner, now, wakes);
            }
            let Some(taken) = inner.seats.take_up(seat, now) else {
                wakes.spent.extend(inner.seats.listen(seat, waker));
                return Poll::Pending;
            };
            // The start of an attempt begins a window that others wait for the end of.
            self.gate.pump(inner, now, wakes);
            Poll::Ready(taken)
        })
    }

    /// Ends the attempt. Where the verdict is to go again, the claim is on the seat's old place in
    /// the queue; where it is to return and `held`, on a slot that stays taken. Else it is spent.
    pub(crate) fn complete(mut self, outcome: &Outcome, held: bool) -> (Verdict, Option<Self>) {
        let seat = self.seat();
        let (verdict, left) = self.gate.act(|inner, now, wakes| {
            let verdict = inner.seats.complete(seat, outcome, held, now);
            let ends = !held && matches!(verdict, Verdict::Return { .. });
            let left = ends.then(|| inner.seats.leave(seat));
            self.gate.pump(inner, now, wakes);
            (verdict, left)
        });
        if left.is_some() {
            self.seat = None;
        }
        (verdict, left.is_none().then_some(self))
    }

    /// Nothing was sent of its attempt. Dropped now, it gives its turn back in full.
    pub(super) fn take_back(&self) {
        let seat = self.seat();
        self.gate
            .act(|inner, now, _| inner.seats.undo_start(seat, now));
    }

    /// Something was sent `times` on this attempt's key that passed no gate.
    #[cfg(feature = "reqwest")]
    pub(crate) fn charge(&self, times: u32) {
        if times == 0 {
            return;
        }
        let seat = self.seat();
        self.gate.act(|inner, now, wakes| {
            inner.seats.charge(seat, times, now);
            self.gate.pump(inner, now, wakes);
        });
    }

    /// The body of its answer says something more.
    #[cfg(feature = "reqwest")]
    pub(super) fn amend(&self, said: &Feedback) {
        let seat = self.seat();
        self.gate.act(|inner, now, wakes| {
            inner.seats.amend(seat, said, now);
            self.gate.pump(inner, now, wakes);
        });
    }

    /// What is charged for its attempt.
    #[cfg(feature = "reqwest")]
    pub(super) fn receipt(&self) -> Option<Receipt> {
        let seat = self.seat();
        self.gate.act(|inner, _, _| inner.seats.receipt(seat))
    }

    /// The owner of a lent slot listens again. False while there is none for it; it is woken when
    /// there is.
    pub(super) fn reclaim(&self) -> bool {
        let seat = self.seat();
        let has_slot = self
            .gate
            .act(|inner, now, _| inner.seats.reclaim(seat, now));
        // Who borrowed it may not listen either.
        has_slot || !driver::ensure(&self.gate)
    }

    fn seat(&self) -> usize {
        self.seat.expect("a spent claim is dropped at once")
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else {
            return;
        };
        let left = self.gate.act(|inner, now, wakes| {
            let left = inner.seats.leave(seat);
            self.gate.pump(inner, now, wakes);
            left
        });
        // Its waker is dropped outside the lock.
        drop(left);
    }
}
