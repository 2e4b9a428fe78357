//! Which ask goes next, on which key: the gates in their order, and the life of an attempt.

use super::Scheduler;
use super::events::{Cost, Gate, Grant, KeyId, Loan, Reason, Ticket};
use super::queue::{Entry, LaneId, Place};
use super::time::Time;

/// An attempt that was granted.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) key: KeyId,
    pub(super) cost: Cost,
    pub(super) granted: Time,
    /// When it was first polled: from then on the server may have counted it.
    pub(super) started: Option<Time>,
    /// Its answer is there, and its slot is held for the body.
    pub(super) answered: bool,
    /// Its slot is lent, and it is not in flight meanwhile.
    pub(super) lent: Option<Loan>,
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

    /// Something was sent on the key of this attempt that passed no gate, such as a redirect hop:
    /// it is charged to the ceilings, and the next grants wait for it.
    pub fn charge(&mut self, ticket: Ticket, now: Time) {
        let Some(index) = self.attempt_of(ticket) else {
            return;
        };
        let key = self.attempts[index].key;
        self.key_ceilings[key.index()].charge(&Cost::ONE, now);
        self.provider_ceilings.charge(&Cost::ONE, now);
    }

    /// Ends a ticket whose attempt was answered: its slot is free.
    pub fn release(&mut self, ticket: Ticket) {
        if let Some(index) = self.attempt_of(ticket) {
            self.end_attempt(index);
            self.queue.remove(ticket);
        }
    }

    /// The keys that a lane may use.
    pub(super) fn keys_of(&self, lane: LaneId) -> impl Iterator<Item = KeyId> + '_ {
        self.keys
            .ids()
            .filter(move |&key| lane.pin.is_none_or(|pin| pin == key))
    }

    /// The moment before which parked keys surely keep a lane shut, and why.
    pub(super) fn known_wait(&self, lane: LaneId, now: Time) -> Option<(Time, Reason)> {
        let mut first: Option<(Time, Reason)> = None;
        for key in self.keys_of(lane) {
            match self.keys.gate(key, lane.bucket, now) {
                Gate::Open => return None,
                Gate::Shut { until, reason } => {
                    if first.is_none_or(|(best, _)| until < best) {
                        first = Some((until, reason));
                    }
                }
            }
        }
        first
    }

    /// The key that can serve a waiting ticket now, or when and why not.
    pub(super) fn choose_key(&self, ticket: Ticket, now: Time) -> Result<KeyId, (Time, Reason)> {
        let entry = self.queue.entry(ticket).expect("a head is alive");
        let lane = self.queue.lane_at(entry.lane).id;
        let mut best: Option<(u64, KeyId)> = None;
        let mut soonest = (Time::NEVER, Reason::Fault);
        let provider = self.provider_gate(entry, now);
        if let Gate::Shut { until, reason } = provider {
            return Err((until, reason));
        }
        for key in self.keys_of(lane) {
            match self.key_gate(key, entry, now) {
                Gate::Open => {
                    let last = self.keys.key(key).last_grant;
                    if best.is_none_or(|(other, _)| last < other) {
                        best = Some((last, key));
                    }
                }
                Gate::Shut { until, reason } => {
                    if until < soonest.0 || (until == soonest.0 && reason != Reason::Fault) {
                        soonest = (until, reason);
                    }
                }
            }
        }
        best.map(|(_, key)| key).ok_or(soonest)
    }

    pub(super) fn provider_gate(&self, entry: &Entry, now: Time) -> Gate {
        Gate::at(self.overload.until, Reason::Hint, now)
            .and(self.provider_ceilings.gate(&entry.cost, now))
    }

    /// The gates of one key, in order. The ceiling comes last: nothing that learns stands behind
    /// it.
    pub(super) fn key_gate(&self, key: KeyId, entry: &Entry, now: Time) -> Gate {
        let barred = match entry.barred {
            Some((barred, until)) if barred == key => Gate::at(until, Reason::Hint, now),
            _ => Gate::Open,
        };
        barred
            .and(self.keys.gate(key, entry.bucket, now))
            .and(self.key_ceilings[key.index()].gate(&entry.cost, now))
    }

    pub(super) fn grant(&mut self, ticket: Ticket, key: KeyId, now: Time) -> Grant {
        let entry = self.queue.entry(ticket).expect("it was just chosen");
        let cost = entry.cost;
        let attempt =
            1 + u32::from(entry.refusals) + u32::from(entry.errors) + u32::from(entry.key_faults);
        self.keys.on_granted(key, now);
        self.key_ceilings[key.index()].on_granted(&cost);
        self.provider_ceilings.on_granted(&cost);
        let index = self.attempts.insert(Attempt {
            key,
            cost,
            granted: now,
            started: None,
            answered: false,
            lent: None,
        });
        self.queue.take(ticket, index as u32);
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
        let attempt = &mut self.attempts[index];
        if attempt.started.is_none() {
            self.key_ceilings[attempt.key.index()].on_refunded(&attempt.cost);
            self.provider_ceilings.on_refunded(&attempt.cost);
        }
    }

    pub(super) fn end_attempt(&mut self, index: usize) {
        self.reclaim_attempt(index);
        let attempt = self.attempts.remove(index);
        self.keys.on_ended(attempt.key);
        if attempt.started.is_some() {
            self.key_ceilings[attempt.key.index()].on_ended();
            self.provider_ceilings.on_ended();
        }
        self.version += 1;
    }
}
