//! What was charged for an attempt, kept beyond its end: what a call really took is often the last
//! thing that its answer says.

use crate::feedback::Feedback;

use super::Scheduler;
use super::control::Trail;
use super::events::{Cost, Fingerprint, KeyId, Ticket};
use super::time::Time;

/// What was charged for an attempt.
#[derive(Debug)]
pub struct Receipt {
    key: Fingerprint,
    started: Time,
    cost: Cost,
    trail: Trail,
}

impl Scheduler {
    /// What was charged for an attempt that is in flight.
    #[must_use]
    pub fn receipt(&self, ticket: Ticket) -> Option<Receipt> {
        let attempt = &self.attempts[self.attempt_of(ticket)?];
        Some(Receipt {
            key: self.keys.key(attempt.key).fingerprint,
            started: attempt.started?,
            cost: attempt.cost,
            trail: attempt.trail.clone(),
        })
    }

    /// An answer told what its request took: what was charged too much is given back, what was
    /// charged too little is owed.
    pub fn settle(&mut self, receipt: &mut Receipt, said: &Feedback, now: Time) {
        let Some(key) = self.keys.find(receipt.key) else {
            return;
        };
        self.settle_ceilings(key, receipt.started, &mut receipt.cost, said, now);
        self.control.settle(key, &mut receipt.trail, said);
        self.queue.open_bucket(receipt.trail.bucket());
    }

    /// What the answer of an attempt told, under the ceilings.
    pub(super) fn settle_costs(&mut self, index: usize, said: &Feedback, now: Time) {
        if said.cost.is_empty() {
            return;
        }
        let attempt = &self.attempts[index];
        let started = attempt.started.unwrap_or(attempt.granted);
        let (key, mut cost) = (attempt.key, attempt.cost);
        self.settle_ceilings(key, started, &mut cost, said, now);
        self.attempts[index].cost = cost;
    }

    fn settle_ceilings(
        &mut self,
        key: KeyId,
        started: Time,
        cost: &mut Cost,
        said: &Feedback,
        now: Time,
    ) {
        self.key_ceilings[key.index()].settle(cost, &said.cost, started, now);
        self.provider_ceilings
            .settle(cost, &said.cost, started, now);
        for &(dimension, actual) in &said.cost {
            cost.set(dimension, actual);
        }
        // Who waits for a ceiling may go sooner now.
        self.version += 1;
    }
}
