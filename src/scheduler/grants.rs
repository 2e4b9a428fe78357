//! The life of an attempt, from its grant to its end.

use super::Scheduler;
use super::allowance::{Paid, Settled};
use super::control::Trail;
use super::events::{Cost, Grant, KeyId, Loan, Ticket};
use super::queue::Place;
use super::time::Time;

/// An attempt that was granted.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) key: KeyId,
    pub(super) cost: Cost,
    pub(super) granted: Time,
    /// When it was first polled: from then on the server may have counted it.
    pub(super) started: Option<Time>,
    /// What the estimators keep of the grant.
    pub(super) trail: Trail,
    /// Its answer is there, and its slot is held for the body.
    pub(super) answered: bool,
    /// Its slot is lent, and it is not in flight meanwhile.
    pub(super) lent: Option<Loan>,
    /// The purchase that it was made with, where it had to be bought.
    pub(super) paid: Option<Paid>,
}

impl Scheduler {
    /// A granted attempt is polled for the first time: from now on the server may count it.
    pub fn start(&mut self, ticket: Ticket, now: Time) {
        let Some(index) = self.attempt_of(ticket) else {
            return;
        };
        let attempt = &mut self.attempts[index];
        if attempt.started.is_none() {
            attempt.started = Some(now);
            self.key_ceilings[attempt.key.index()].on_started(&attempt.cost, now);
            self.provider_ceilings.on_started(&attempt.cost, now);
            // A ceiling's window has begun: whoever waits for it learns its end.
            self.version += 1;
        }
    }

    /// An attempt that was started was not sent, and will not be: until it ends or is started
    /// again, it is as if nobody had taken it up. Cancel it, and its turn is given back in full.
    pub fn undo_start(&mut self, ticket: Ticket, now: Time) {
        let answered = |&index: &usize| self.attempts[index].answered;
        let Some(index) = self.attempt_of(ticket).filter(|index| !answered(index)) else {
            return;
        };
        self.reclaim_attempt(index);
        let attempt = &mut self.attempts[index];
        if let Some(started) = attempt.started.take() {
            self.key_ceilings[attempt.key.index()].on_unstarted(&attempt.cost, started, now);
            self.provider_ceilings
                .on_unstarted(&attempt.cost, started, now);
        }
    }

    /// Something was sent on the key of this attempt that passed no gate, such as a redirect hop:
    /// it is charged to the ceilings, and the next grants wait for it.
    pub fn charge(&mut self, ticket: Ticket, now: Time) {
        let Some(index) = self.attempt_of(ticket) else {
            return;
        };
        let key = self.attempts[index].key;
        self.key_ceilings[key.index()].charge(&Cost::ONE, now);
        self.provider_ceilings.charge(&Cost::ONE, now);
        if let Some(allowances) = &mut self.allowances {
            allowances.settle(Settled::Extra(self.keys.key(key).fingerprint));
        }
    }

    /// Ends a ticket whose attempt was answered: its slot is free.
    pub fn release(&mut self, ticket: Ticket) {
        if let Some(index) = self.attempt_of(ticket) {
            self.end_attempt(index);
            self.queue.end(ticket);
        }
    }

    pub(super) fn grant(&mut self, ticket: Ticket, key: KeyId, now: Time) -> Grant {
        let entry = self.queue.entry(ticket).expect("it was just chosen");
        let (cost, bucket) = (entry.cost, self.buckets.home(entry.bucket));
        let attempt =
            1 + u32::from(entry.refusals) + u32::from(entry.errors) + u32::from(entry.key_faults);
        self.keys.on_granted(key, now);
        self.key_ceilings[key.index()].on_granted(&cost);
        self.provider_ceilings.on_granted(&cost);
        let trail = self.control.on_granted(key, bucket, &cost, now);
        let index = self.attempts.insert(Attempt {
            key,
            cost,
            granted: now,
            started: None,
            trail,
            answered: false,
            lent: None,
            paid: None,
        });
        self.queue.take(ticket, index as u32, now);
        self.throughput.on_granted();
        Grant {
            ticket,
            key,
            attempt,
        }
    }

    pub(super) fn attempt_of(&self, ticket: Ticket) -> Option<usize> {
        match self.queue.entry(ticket)?.place {
            Place::Attempt(index) => Some(index as usize),
            _ => None,
        }
    }

    /// Gives back what an attempt had charged: it never left.
    pub(super) fn refund(&mut self, index: usize) {
        self.settle_attempt(index, Settled::Unsent);
        let attempt = &mut self.attempts[index];
        if attempt.started.is_none() {
            self.key_ceilings[attempt.key.index()].on_refunded(&attempt.cost);
            self.provider_ceilings.on_refunded(&attempt.cost);
        }
        self.control.on_refunded(attempt.key, &attempt.trail);
    }

    pub(super) fn end_attempt(&mut self, index: usize) {
        self.settle_attempt(index, Settled::Ended);
        self.reclaim_attempt(index);
        let attempt = self.attempts.remove(index);
        self.queue.open_bucket(attempt.trail.bucket());
        self.keys.on_ended(attempt.key);
        self.control.on_ended(attempt.key, &attempt.trail);
        self.control.on_gone(attempt.key, &attempt.trail);
        if attempt.started.is_some() {
            self.key_ceilings[attempt.key.index()].on_ended();
            self.provider_ceilings.on_ended();
        }
        self.version += 1;
    }
}
