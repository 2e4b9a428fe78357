//! Asks, outcomes and the time in; grants out. A plain state machine without clock, lock or I/O.
//!
//! [`Scheduler`] composes the parts and fixes their order; it holds no policy of its own. Each part
//! is told events and answers one question, "not before when, and why": the gates are asked in
//! order for every key that an ask may use, and the ask goes to the key that can serve it soonest.
//! An outcome is learned from first, then its slot is freed, then others are granted: in the other
//! order a waiter would run into what the outcome has just announced.

pub mod ceiling;
pub mod events;
pub mod keys;
mod names;
mod queue;
pub mod retry;
pub mod time;

use std::collections::VecDeque;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use slab::Slab;

use crate::config::{Settings, SettingsError};
use crate::feedback::{Class, Feedback};

use ceiling::Ceilings;
use events::{
    Ask, Change, Cost, Fingerprint, Gate, GaveUp, Grant, KeyId, Name, Outcome, Reason, Refusal,
    Ticket, Verdict, What,
};
use keys::KeyPool;
use names::Names;
use queue::{Entry, LaneId, Newcomer, Place, SlotQueue};
use retry::{Budget, Judgement, Tried};
pub use time::Time;

/// Decides when each request is sent, and on which key.
///
/// The shell calls it under one lock: [`Scheduler::submit`], then [`Scheduler::poll_grant`] until
/// it answers nothing, and again after every event and at [`Scheduler::poll_timeout`].
#[derive(Debug)]
pub struct Scheduler {
    settings: Settings,
    queue: SlotQueue,
    buckets: Names,
    keys: KeyPool,
    attempts: Slab<Attempt>,
    /// Per key, by its place.
    key_ceilings: Vec<Ceilings>,
    provider_ceilings: Ceilings,
    budget: Budget,
    usual: Usual,
    rng: SmallRng,
    changes: VecDeque<Change>,
    /// Counts the events that may have opened a gate.
    version: u64,
    next_gate: Time,
    /// Tickets that ended without an attempt, and why: the shell tells their owners.
    refused: VecDeque<(Ticket, Refusal)>,
    /// Overloads in a row, and until when the provider as a whole rests for them.
    overload: Overload,
    /// Kept between polls so that a poll allocates nothing.
    shut_lanes: Vec<(u32, Time, Reason)>,
    closed: bool,
}

/// The provider's own overload: it stops every key.
#[derive(Debug, Default)]
struct Overload {
    in_row: u32,
    until: Time,
}

/// The usual response time of successes.
#[derive(Debug, Default)]
struct Usual(Option<f64>);

/// An attempt that was granted.
#[derive(Debug)]
struct Attempt {
    key: KeyId,
    cost: Cost,
    granted: Time,
    /// When it was first polled: from then on the server may have counted it.
    started: Option<Time>,
    /// Its answer is there, and its slot is held for the body.
    answered: bool,
}

impl Scheduler {
    /// A scheduler for these keys; without any it has one anonymous key. `seed` decides the jitter.
    ///
    /// # Errors
    ///
    /// If a setting is out of its range.
    pub fn new(settings: Settings, keys: &[Fingerprint], seed: u64) -> Result<Self, SettingsError> {
        settings.check()?;
        let anonymous = [Fingerprint::ANONYMOUS];
        let keys = if keys.is_empty() {
            &anonymous[..]
        } else {
            keys
        };
        let pool = KeyPool::new(
            keys,
            settings.penalty,
            settings.hint_scope,
            settings.longest_park,
        );
        let mut scheduler = Self {
            queue: SlotQueue::new(settings.queue),
            buckets: Names::new(),
            keys: pool,
            attempts: Slab::new(),
            key_ceilings: Vec::new(),
            provider_ceilings: Ceilings::new(&settings.shared_ceilings, settings.max_concurrency),
            budget: Budget::new(),
            usual: Usual::default(),
            rng: SmallRng::seed_from_u64(seed),
            changes: VecDeque::new(),
            version: 1,
            next_gate: Time::NEVER,
            refused: VecDeque::new(),
            overload: Overload::default(),
            shut_lanes: Vec::new(),
            closed: false,
            settings,
        };
        scheduler.equip_keys();
        Ok(scheduler)
    }

    /// Replaces the keys. Those that stay keep their state; asks pinned to one that goes are
    /// refused when their turn comes.
    pub fn set_keys(&mut self, keys: &[Fingerprint]) {
        let anonymous = [Fingerprint::ANONYMOUS];
        self.keys
            .set(if keys.is_empty() { &anonymous } else { keys });
        self.equip_keys();
        self.version += 1;
    }

    fn equip_keys(&mut self) {
        let settings = &self.settings;
        self.key_ceilings.resize_with(self.keys.len(), || {
            Ceilings::new(&settings.ceilings, Some(settings.key_concurrency))
        });
    }

    /// The fingerprint of a key.
    #[must_use]
    pub fn fingerprint(&self, key: KeyId) -> Fingerprint {
        self.keys.key(key).fingerprint
    }

    /// How many asks wait, and how many attempts are granted or in flight.
    #[must_use]
    pub fn depth(&self) -> (usize, usize) {
        (self.queue.len(), self.attempts.len())
    }

    /// Accepts an ask, which then waits for its grant.
    ///
    /// # Errors
    ///
    /// A refusal that is certain already: closed, full, too large, an unknown key, or a wait that
    /// is known to be longer than the ask allows.
    pub fn submit(&mut self, ask: Ask, now: Time) -> Result<Ticket, Refusal> {
        if self.closed {
            return Err(Refusal::Closed);
        }
        if self.queue.is_full() {
            return Err(Refusal::QueueFull {
                limit: self.settings.queue,
            });
        }
        self.check_size(&ask.cost)?;
        let pin = match ask.pin {
            Some(key) => Some(self.keys.find(key).ok_or(Refusal::UnknownKey { key })?),
            None => None,
        };
        if let Some(fault) = self.keys.all_faulty(now) {
            return Err(Refusal::AllKeysFaulty { fault });
        }
        let patience = match (ask.deadline, self.settings.max_wait) {
            (Some(deadline), Some(max_wait)) => Some(deadline.min(max_wait)),
            (deadline, max_wait) => deadline.or(max_wait),
        };
        let deadline = patience.map_or(Time::NEVER, |patience| now + patience);
        let lane = LaneId {
            bucket: self.buckets.id(ask.bucket.as_ref()),
            pin,
        };
        let known = self.known_wait(lane, now);
        if let Some((until, _)) = known.filter(|&(until, _)| until >= deadline) {
            return Err(Refusal::AllKeysParked { until });
        }
        let not_before = now + ask.not_before.unwrap_or_default();
        if not_before >= deadline {
            let reason = Some(Reason::NotBefore);
            return Err(Refusal::Deadline {
                earliest: Some(not_before),
                reason,
            });
        }
        let newcomer = Newcomer {
            lane,
            priority: ask.priority,
            cost: ask.cost,
            deadline,
            not_before,
            group: ask.group,
            replay: ask.replay,
        };
        Ok(self.queue.push(newcomer, now))
    }

    /// The next grant, if anybody may go now.
    pub fn poll_grant(&mut self, now: Time) -> Option<Grant> {
        self.queue.wake(now);
        let mut next_gate = Time::NEVER;
        let mut granted = None;
        let mut shut = std::mem::take(&mut self.shut_lanes);
        shut.clear();
        for (lane, ticket) in self.queue.heads() {
            let state = self.queue.lane_at(lane);
            if state.shut_at == self.version && state.shut_until > now {
                next_gate = next_gate.min(state.shut_until);
                continue;
            }
            match self.choose_key(ticket, now) {
                Ok(key) => {
                    granted = Some((ticket, key));
                    break;
                }
                Err((until, reason)) => {
                    next_gate = next_gate.min(until);
                    shut.push((lane, until, reason));
                }
            }
        }
        for &(lane, until, reason) in &shut {
            let version = self.version;
            let lane = self.queue.lane_at_mut(lane);
            lane.shut_until = until;
            lane.shut_at = version;
            lane.shut_reason = Some(reason);
            lane.known_until = if is_certain(reason) {
                until
            } else {
                Time::START
            };
        }
        self.shut_lanes = shut;
        self.next_gate = next_gate;
        granted.map(|(ticket, key)| self.grant(ticket, key, now))
    }

    /// When to poll again if nothing happens before; none while nobody waits for a moment.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.refused.is_empty() {
            return Some(Time::START);
        }
        if self.queue.len() == 0 {
            return None;
        }
        let moments = [
            Some(self.next_gate),
            self.queue.next_wake(),
            self.queue.next_deadline(),
        ];
        moments
            .into_iter()
            .flatten()
            .min()
            .filter(|&at| at != Time::NEVER)
    }

    /// The next ticket that ended without being sent (again), and why. Its ticket has ended.
    pub fn poll_refusal(&mut self, now: Time) -> Option<(Ticket, Refusal)> {
        if let Some(refused) = self.refused.pop_front() {
            return Some(refused);
        }
        let ticket = self.queue.hopeless(now)?;
        let entry = self.queue.entry(ticket)?;
        let (deadline, lane) = (entry.deadline, self.queue.lane_at(entry.lane));
        let until = lane.known_until;
        let refusal = match lane.id.pin.filter(|_| until == Time::NEVER) {
            Some(pin) => Refusal::UnknownKey {
                key: self.keys.key(pin).fingerprint,
            },
            None if deadline > now => Refusal::AllKeysParked { until },
            None => Refusal::Deadline {
                earliest: (until > now).then_some(until),
                reason: lane.shut_reason,
            },
        };
        self.queue.remove(ticket);
        Some((ticket, refusal))
    }

    /// The next decision that changed something.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

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

    /// An attempt has ended: learns from it, frees its slot, and says what to do.
    pub fn complete(&mut self, ticket: Ticket, outcome: &Outcome, now: Time) -> Verdict {
        let verdict = self.complete_held(ticket, outcome, now);
        if matches!(verdict, Verdict::Return { .. }) {
            self.release(ticket);
        }
        verdict
    }

    /// The same for an attempt whose body is the work: where the verdict is to return, the slot
    /// stays taken until [`Scheduler::release`].
    pub fn complete_held(&mut self, ticket: Ticket, outcome: &Outcome, now: Time) -> Verdict {
        let Some(index) = self
            .attempt_of(ticket)
            .filter(|&i| !self.attempts[i].answered)
        else {
            return Verdict::Return {
                retry_at: None,
                why: None,
            };
        };
        if *outcome == Outcome::NotSent {
            self.refund(index);
        } else {
            self.start(ticket, now);
        }
        let learned = self.learn(index, ticket, outcome, now);
        let verdict = self.verdict(index, ticket, outcome, learned, now);
        match verdict {
            Verdict::Return { .. } => self.attempts[index].answered = true,
            Verdict::Again { not_before } => {
                self.end_attempt(index);
                self.queue.put_back(ticket, not_before, now);
            }
        }
        verdict
    }

    /// Ends a ticket whose attempt was answered: its slot is free.
    pub fn release(&mut self, ticket: Ticket) {
        if let Some(index) = self.attempt_of(ticket) {
            self.end_attempt(index);
            self.queue.remove(ticket);
        }
    }

    /// The owner of a ticket is gone, wherever it was: waiting, granted or in flight. What never
    /// started is given back in full; what started has spent its quota. Twice is no error.
    pub fn cancel(&mut self, ticket: Ticket) {
        if let Some(index) = self.attempt_of(ticket) {
            if self.attempts[index].started.is_none() {
                self.refund(index);
            }
            self.end_attempt(index);
        }
        if self.queue.remove(ticket).is_some() {
            self.version += 1;
        }
    }

    /// Cancels what waits of a group; what is in flight finishes. Answers how many were removed
    /// and how many are in flight. Each removed ticket is refused as cancelled.
    pub fn cancel_group(&mut self, group: &Name) -> (usize, usize) {
        let members = self
            .queue
            .entries()
            .filter(|(_, entry)| entry.group.as_ref() == Some(group));
        let (flying, waiting): (Vec<_>, Vec<_>) = members
            .map(|(ticket, entry)| (ticket, entry.place))
            .partition(|(_, place)| matches!(place, Place::Attempt(_)));
        for &(ticket, _) in &waiting {
            self.refuse(ticket, Refusal::Cancelled);
        }
        (waiting.len(), flying.len())
    }

    /// Accepts nothing more and refuses all who wait; what is in flight finishes, and is not
    /// repeated.
    pub fn close(&mut self) {
        self.closed = true;
        let waiting: Vec<_> = self.queue.waiting().collect();
        for ticket in waiting {
            self.refuse(ticket, Refusal::Closed);
        }
    }

    fn refuse(&mut self, ticket: Ticket, refusal: Refusal) {
        if self.queue.remove(ticket).is_some() {
            self.refused.push_back((ticket, refusal));
            self.version += 1;
        }
    }

    fn check_size(&self, cost: &Cost) -> Result<(), Refusal> {
        let ceilings = self.key_ceilings.iter().chain([&self.provider_ceilings]);
        match ceilings
            .filter_map(|ceilings| ceilings.too_large(cost))
            .next()
        {
            Some((dimension, limit)) => Err(Refusal::TooLarge {
                dimension,
                cost: cost.of(dimension),
                limit,
            }),
            None => Ok(()),
        }
    }

    /// The keys that a lane may use.
    fn keys_of(&self, lane: LaneId) -> impl Iterator<Item = KeyId> + '_ {
        self.keys
            .ids()
            .filter(move |&key| lane.pin.is_none_or(|pin| pin == key))
    }

    /// The moment before which parked keys surely keep a lane shut, and why.
    fn known_wait(&self, lane: LaneId, now: Time) -> Option<(Time, Reason)> {
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
    fn choose_key(&self, ticket: Ticket, now: Time) -> Result<KeyId, (Time, Reason)> {
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

    fn provider_gate(&self, entry: &Entry, now: Time) -> Gate {
        Gate::at(self.overload.until, Reason::Hint, now)
            .and(self.provider_ceilings.gate(&entry.cost, now))
    }

    /// The gates of one key, in order. The ceiling comes last: nothing that learns stands behind
    /// it.
    fn key_gate(&self, key: KeyId, entry: &Entry, now: Time) -> Gate {
        let barred = match entry.barred {
            Some((barred, until)) if barred == key => Gate::at(until, Reason::Hint, now),
            _ => Gate::Open,
        };
        barred
            .and(self.keys.gate(key, entry.bucket, now))
            .and(self.key_ceilings[key.index()].gate(&entry.cost, now))
    }

    fn grant(&mut self, ticket: Ticket, key: KeyId, now: Time) -> Grant {
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
        });
        self.queue.take(ticket, index as u32);
        Grant {
            ticket,
            key,
            attempt,
        }
    }

    fn attempt_of(&self, ticket: Ticket) -> Option<usize> {
        match self.queue.entry(ticket)?.place {
            Place::Attempt(index) => Some(index as usize),
            _ => None,
        }
    }

    /// Gives back what an attempt had charged: it never left.
    fn refund(&mut self, index: usize) {
        let attempt = &mut self.attempts[index];
        if attempt.started.is_none() {
            self.key_ceilings[attempt.key.index()].on_refunded(&attempt.cost);
            self.provider_ceilings.on_refunded(&attempt.cost);
        }
    }

    fn end_attempt(&mut self, index: usize) {
        let attempt = self.attempts.remove(index);
        self.keys.on_ended(attempt.key);
        if attempt.started.is_some() {
            self.key_ceilings[attempt.key.index()].on_ended();
            self.provider_ceilings.on_ended();
        }
        self.version += 1;
    }

    /// Tells every part what an outcome says. Answers until when the request must stay away from
    /// the key that refused it, and from every key.
    fn learn(&mut self, index: usize, ticket: Ticket, outcome: &Outcome, now: Time) -> Learned {
        let attempt = &self.attempts[index];
        let (key, sent) = (attempt.key, attempt.started.unwrap_or(attempt.granted));
        let Outcome::Answered(feedback) = outcome else {
            return Learned::default();
        };
        let bucket = self.queue.entry(ticket).map(|entry| entry.bucket);
        let bucket = bucket.filter(|&b| b != Names::DEFAULT && feedback.bucket.is_some());
        let mut learned = Learned::default();
        match feedback.class {
            Class::Ok => {
                self.usual.on_success(now.since(sent));
                self.budget.on_success(now);
                self.overload.in_row = 0;
                let what = self.keys.on_served(key, sent);
                self.note(now, Some(key), what);
            }
            Class::RateLimited => {
                let hint = self.hint(feedback);
                let refused = self.keys.on_refused(key, bucket, hint, sent, now);
                learned.key_until = refused.request_until;
                let what = refused
                    .parked
                    .map(|(until, why)| What::Parked { until, why });
                self.note(now, Some(key), what);
            }
            Class::QuotaExhausted => {
                let wait = exhausted_for(feedback);
                let until = self.keys.park(key, bucket, wait, now);
                learned.key_until = now + wait;
                let why = events::Because::Hint;
                self.note(now, Some(key), Some(What::Parked { until, why }));
            }
            Class::Overloaded => {
                self.overload.in_row += 1;
                if let Some((wait, lone)) = self.hint(feedback) {
                    learned.provider_until = now + wait;
                    if !lone || self.overload.in_row > 1 {
                        let until = now + wait.min(self.settings.longest_park);
                        self.overload.until = self.overload.until.max(until);
                    }
                }
            }
            Class::Transient | Class::Fatal => {}
        }
        if let Some(fault) = feedback.fault {
            let what = self.keys.on_fault(key, fault, sent, now);
            let retired = matches!(what, Some(What::Retired(_)));
            self.note(now, Some(key), what);
            if let Some(fault) = self.keys.all_faulty(now).filter(|_| retired) {
                let waiting: Vec<_> = self.queue.waiting().collect();
                for other in waiting {
                    self.refuse(other, Refusal::AllKeysFaulty { fault });
                }
            }
        }
        learned
    }

    /// The server's hint, spread, and whether it is a fraction of a second rounded up to one.
    fn hint(&mut self, feedback: &Feedback) -> Option<(Duration, bool)> {
        let wait = feedback.wait?;
        let lone = wait.grain >= SECOND && wait.delay <= SECOND;
        let random = self.rng.random::<f64>();
        Some((
            retry::spread(&self.settings.retry, wait.delay, random),
            lone,
        ))
    }

    fn verdict(
        &mut self,
        index: usize,
        ticket: Ticket,
        outcome: &Outcome,
        learned: Learned,
        now: Time,
    ) -> Verdict {
        let key = self.attempts[index].key;
        let random = self.rng.random::<f64>();
        let (settings, usual) = (&self.settings.retry, self.usual.time());
        let entry = self.queue.entry_mut(ticket).expect("its attempt is alive");
        let tried = Tried {
            replay: entry.replay,
            refusals: entry.refusals,
            errors: entry.errors,
            key_faults: entry.key_faults,
        };
        let judgement = retry::judge(settings, tried, outcome);
        let refused_until = learned.key_until.max(learned.provider_until);
        let retry_at = (refused_until > now).then_some(refused_until);
        let give_up = |why| Verdict::Return { retry_at, why };
        if self.closed && !matches!(judgement, Judgement::Return(_)) {
            return give_up(Some(GaveUp::Closed));
        }
        let not_before = match judgement {
            Judgement::Return(why) => return give_up(why),
            Judgement::OtherKey => {
                entry.key_faults += 1;
                entry.barred = Some((key, Time::NEVER));
                let lane = self
                    .queue
                    .lane_at(self.queue.entry(ticket).expect("alive").lane)
                    .id;
                if lane.pin.is_some() || !self.keys.has_other(key) {
                    return give_up(Some(GaveUp::Final));
                }
                now
            }
            Judgement::Failed => {
                if !self.budget.take(settings, now) {
                    return give_up(Some(GaveUp::Budget));
                }
                entry.errors += 1;
                now + retry::backoff(settings, entry.errors, usual, random)
            }
            Judgement::Refused => {
                entry.refusals += 1;
                let ladder = now + retry::backoff(settings, entry.refusals, usual, random);
                entry.barred = Some((key, learned.key_until.max(ladder)));
                let floor = learned.provider_until.max(now);
                self.refused_until(ticket, floor)
            }
        };
        let deadline = self.queue.entry(ticket).expect("alive").deadline;
        if not_before >= deadline {
            return Verdict::Return {
                retry_at: Some(not_before),
                why: Some(GaveUp::Deadline),
            };
        }
        Verdict::Again { not_before }
    }

    /// When the first of its keys would take a refused ask again, not before `floor`.
    fn refused_until(&self, ticket: Ticket, floor: Time) -> Time {
        let entry = self.queue.entry(ticket).expect("its attempt is alive");
        let lane = self.queue.lane_at(entry.lane).id;
        let first = self.keys_of(lane).map(|key| {
            let parked = match self.keys.gate(key, lane.bucket, floor) {
                Gate::Open => floor,
                Gate::Shut { until, .. } => until,
            };
            match entry.barred {
                Some((barred, until)) if barred == key => parked.max(until),
                _ => parked,
            }
        });
        first.min().unwrap_or(floor)
    }

    fn note(&mut self, at: Time, key: Option<KeyId>, what: Option<What>) {
        let Some(what) = what else { return };
        if self.changes.len() >= CHANGES {
            self.changes.pop_front();
        }
        let key = key.map(|key| self.keys.key(key).fingerprint);
        self.changes.push_back(Change { at, key, what });
    }
}

/// What an outcome said about when.
#[derive(Clone, Copy, Debug, Default)]
struct Learned {
    /// Until when the request stays away from the key that refused it.
    key_until: Time,
    /// Until when it stays away from every key.
    provider_until: Time,
}

impl Usual {
    fn on_success(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        self.0 = Some(
            self.0
                .map_or(took, |usual| usual + SMOOTHING * (took - usual)),
        );
    }

    fn time(&self) -> Option<Duration> {
        self.0.map(Duration::from_secs_f64)
    }
}

/// Whether a gate that is shut for this reason will surely not open before its moment.
fn is_certain(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Hint | Reason::Penalty | Reason::Fault | Reason::Quota(_)
    )
}

/// How long a spent quota is surely spent: the hint, or the end of a window that is used up.
fn exhausted_for(feedback: &Feedback) -> Duration {
    let reset = feedback
        .readings
        .iter()
        .filter(|reading| reading.remaining.is_some_and(|left| left < 1.0))
        .filter_map(|reading| reading.reset)
        .map(|reset| reset.after)
        .max();
    let hint = feedback.wait.map(|wait| wait.delay);
    hint.max(reset).unwrap_or(UNKNOWN_EXHAUSTION)
}

/// A whole-second hint may be any fraction of this, rounded up.
const SECOND: Duration = Duration::from_secs(1);
/// A spent quota whose end nobody knows is probed this often: rarely for a minute's limit, and
/// often enough not to sleep through midnight by much.
const UNKNOWN_EXHAUSTION: Duration = Duration::from_secs(300);
/// Weight of the newest response time in the usual one (as TCP's smoothed round trip, about).
const SMOOTHING: f64 = 0.1;
/// Changes kept for a reader that does not read.
const CHANGES: usize = 1024;
