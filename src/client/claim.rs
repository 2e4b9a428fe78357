//! The right to one seat of a gate, through all phases of its ticket.

use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::scheduler::events::{Outcome, Refusal, Verdict};

use super::gate::{Gate, State, Taken};
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
            let seat = &mut inner.seats[self.seat];
            if matches!(seat.state, State::Aside) {
                seat.state = State::Waiting;
                inner.machine.resume(seat.ticket);
                self.gate.pump(inner, now, wakes);
            }
            let Some(taken) = inner.take_up(self.seat, now) else {
                let own = &mut inner.seats[self.seat].waker;
                if !own.as_ref().is_some_and(|own| own.will_wake(waker)) {
                    wakes.spent.extend(own.replace(waker.clone()));
                }
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
            let ticket = inner.seats[self.seat].ticket;
            let verdict = if held {
                inner.machine.complete_held(ticket, outcome, now)
            } else {
                inner.machine.complete(ticket, outcome, now)
            };
            if matches!(verdict, Verdict::Again { .. }) {
                inner.seats[self.seat].state = State::Waiting;
                inner.land(self.seat);
            } else if !held {
                inner.land(self.seat);
            }
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
            let ticket = inner.seats[self.seat].ticket;
            for _ in 0..times {
                inner.machine.charge(ticket, now);
            }
            self.gate.pump(inner, now, wakes);
        });
    }

    /// The owner listens again: its slot, if it was lent, is its own.
    pub(super) fn reclaim(&self) {
        self.gate.act(|inner, _, _| {
            let ticket = inner.seats[self.seat].ticket;
            inner.machine.reclaim(ticket);
        });
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let seat = self.gate.act(|inner, now, wakes| {
            inner.land(self.seat);
            let seat = inner.seats.remove(self.seat);
            // That the machine may have ended it already is no error: its generation differs.
            inner.machine.cancel(seat.ticket);
            self.gate.pump(inner, now, wakes);
            seat
        });
        // Its waker is dropped outside the lock.
        drop(seat);
    }
}
