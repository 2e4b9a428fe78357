//! Asks, outcomes and the time in; grants out. A plain state machine without clock, lock or I/O.
//!
//! [`Scheduler`] composes the parts and fixes their order; it holds no policy of its own. Each part
//! is told events and answers one question, "not before when, and why": the gates are asked in
//! order for every key that an ask may use, and the ask goes to the key that can serve it soonest.
//! An outcome is learned from first, then its slot is freed, then others are granted: in the other
//! order a waiter would run into what the outcome has just announced.

mod admission;
pub mod allowance;
mod ask;
pub mod ceiling;
pub mod concurrency;
mod control;
pub mod events;
pub mod explain;
mod gates;
mod grants;
pub mod groups;
pub mod history;
pub mod keys;
mod loans;
pub mod memory;
pub mod mode;
mod names;
mod outcomes;
pub mod pace;
mod queue;
mod quota;
mod receipt;
pub mod reserve;
mod resume;
pub mod retry;
mod secrets;
mod sends;
pub mod shedding;
pub(crate) mod suspect;
pub mod time;
mod timing;
pub mod told;
mod words;

use std::collections::VecDeque;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use slab::Slab;

use crate::config::{Settings, SettingsError};

pub use admission::Delays;
use allowance::Allowances;
use ceiling::Ceilings;
use control::Control;
use events::{Change, Fingerprint, Grant, KeyId, Name, Reason, Refusal, Ticket, What};
use gates::Shut;
use grants::Attempt;
use keys::KeyPool;
use mode::{Mode, Observed};
use names::Names;
use queue::{Head, Place, SlotQueue};
pub use queue::{Presence, TenantSettings};
pub use receipt::Receipt;
use retry::Budget;
use shedding::{Shedder, Throughput};
pub use time::Time;
use told::Teller;

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
    control: Control,
    rng: SmallRng,
    changes: VecDeque<Change>,
    changes_made: u64,
    /// Counts the events that may have opened a gate.
    version: u64,
    next_gate: Time,
    /// What the first ask in turn was last found to wait for.
    waits_for: Option<Reason>,
    /// Tickets that ended without an attempt, and why: the shell tells their owners.
    refused: VecDeque<(Ticket, Refusal)>,
    /// Overloads in a row, and until when the provider as a whole rests for them.
    overload: Overload,
    /// Where attempts must be bought.
    allowances: Option<Box<Allowances>>,
    /// What other processes are to be told.
    teller: Option<Box<Teller>>,
    /// What would have become of what passed while it only observed.
    observed: Observed,
    throughput: Throughput,
    /// When a request was last served.
    served_at: Option<Time>,
    diary: Option<Box<history::Diary>>,
    shedder: Shedder,
    closed: bool,
}

/// The provider's own overload: it stops every key.
#[derive(Debug, Default)]
struct Overload {
    in_row: u32,
    until: Time,
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
            control: Control::new(
                settings.concurrency.clone(),
                settings.pace,
                settings.max_concurrency.unwrap_or(u32::MAX),
                seed,
            ),
            rng: SmallRng::seed_from_u64(seed),
            changes: VecDeque::new(),
            changes_made: 0,
            version: 1,
            next_gate: Time::NEVER,
            waits_for: None,
            refused: VecDeque::new(),
            overload: Overload::default(),
            allowances: None,
            teller: None,
            observed: Observed::default(),
            throughput: Throughput::default(),
            served_at: None,
            diary: None,
            shedder: Shedder::default(),
            closed: false,
            settings,
        };
        scheduler.equip_keys();
        scheduler.queue.set_tenants(scheduler.settings.tenants);
        Ok(scheduler)
    }

    /// Replaces the keys. Those that stay keep their state; asks that wait and are pinned to one that
    /// goes are refused. Whoever waits for the end of a refusal goes on a new one.
    pub fn set_keys(&mut self, keys: &[Fingerprint]) {
        let anonymous = [Fingerprint::ANONYMOUS];
        let known = self.keys.len();
        self.keys
            .set(if keys.is_empty() { &anonymous } else { keys });
        self.equip_keys();
        if self.keys.len() > known {
            let keys = &self.keys;
            self.queue.wake_barred(|key| keys.rest_until(key));
        }
        let pins = self
            .queue
            .waiting()
            .map(|ticket| (ticket, self.pin_of(ticket)));
        let lost: Vec<_> = pins
            .filter_map(|(ticket, pin)| {
                Some((ticket, pin.filter(|&pin| self.keys.is_removed(pin))?))
            })
            .collect();
        for (ticket, pin) in lost {
            let key = self.fingerprint(pin);
            self.refuse(ticket, Refusal::UnknownKey { key });
        }
        self.open_gates();
    }

    /// Sets how much more than others a tenant gets: twice the weight, twice the share. Kept within
    /// 0.001 to 1,000; 1 unless set.
    pub fn set_weight(&mut self, tenant: Name, weight: f64) {
        self.queue.set_weight(tenant, weight);
    }

    /// A tenant says that it is there: from now on it is judged by when it was last heard of.
    pub fn on_heartbeat(&mut self, tenant: Name, now: Time) {
        self.queue.on_heartbeat(tenant, now);
    }

    fn equip_keys(&mut self) {
        let settings = &self.settings;
        self.control.set_keys(self.keys.len());
        self.key_ceilings.resize_with(self.keys.len(), || {
            Ceilings::new(&settings.ceilings, Some(settings.key_concurrency))
        });
    }

    /// The fingerprint of a key.
    #[must_use]
    pub fn fingerprint(&self, key: KeyId) -> Fingerprint {
        self.keys.key(key).fingerprint
    }

    /// The key that a live ticket is pinned to.
    fn pin_of(&self, ticket: Ticket) -> Option<KeyId> {
        self.queue.lane_at(self.queue.entry(ticket)?.lane).id.pin
    }

    /// How many asks wait, and how many attempts are granted or in flight.
    #[must_use]
    pub fn depth(&self) -> (usize, usize) {
        // Whoever is reserved and not bought has not heard of it, and waits.
        let reserved = self.allowances.as_ref().map_or(0, |sold| sold.reserved());
        (self.queue.len() + reserved, self.attempts.len() - reserved)
    }

    /// What the first ask in turn waits for; none if nobody waits.
    #[must_use]
    pub fn waits_for(&self) -> Option<Reason> {
        self.waits_for.filter(|_| self.queue.len() > 0)
    }

    /// Whether forgetting the scheduler would break no word given: nobody waits or is in flight,
    /// and no key is kept out of use.
    #[must_use]
    pub fn is_idle(&self, now: Time) -> bool {
        self.depth() == (0, 0) && self.overload.until <= now && !self.keys.any_parked(now)
    }

    /// The next grant, if anybody may go now.
    pub fn poll_grant(&mut self, now: Time) -> Option<Grant> {
        self.hear_kept(now);
        loop {
            if let Some(grant) = self.poll_bought() {
                return Some(grant);
            }
            let (ticket, key) = self.next_turn(now)?;
            let grant = self.grant(ticket, key, now);
            if self.settings.mode != Mode::Enforce || !self.reserve(grant) {
                return Some(grant);
            }
        }
    }

    /// Whose turn it is, and on which key.
    fn next_turn(&mut self, now: Time) -> Option<(Ticket, KeyId)> {
        self.queue.wake(now);
        self.throughput.look(self.queue.len() > 0, now);
        self.control.set_waiting(self.queue.len());
        self.queue.look_again(self.version, now);
        let granted = match self.queue.all_shut() {
            Some(_) => self.ask_fresh(now),
            None => self.ask_in_turn(now),
        };
        if granted.is_none() {
            self.queue.settle();
        }
        self.next_gate = self.queue.next_opening();
        granted
    }

    /// Asks the gates of the heads in turn until one may go, or until it is known that none can.
    fn ask_in_turn(&mut self, now: Time) -> Option<(Ticket, KeyId)> {
        let mut round = self.queue.round();
        let mut asked = 0;
        while let Some(head) = self.queue.next_head(&mut round) {
            match self.ask_gates(head, now) {
                Ok(key) => return Some((head.ticket, key)),
                Err(why) if asked == 0 => self.waits_for = Some(why.reason),
                Err(_) => {}
            }
            asked += 1;
            if asked == 1
                && self.queue.has_lanes()
                && let Some(why) = self.all_lanes_shut(now)
            {
                self.queue.shut_all(why);
                return self.ask_fresh(now);
            }
        }
        None
    }

    /// Asks the gates of the heads that are new, while something keeps all lanes shut: they may have
    /// to wait for longer than that, and for another reason.
    fn ask_fresh(&mut self, now: Time) -> Option<(Ticket, KeyId)> {
        while let Some(head) = self.queue.next_fresh() {
            if let Ok(key) = self.ask_gates(head, now) {
                return Some((head.ticket, key));
            }
        }
        None
    }

    /// Asks the gates of a lane's head; it is shut if they are.
    fn ask_gates(&mut self, head: Head, now: Time) -> Result<KeyId, Shut> {
        #[cfg(test)]
        queue::steps::count();
        let chosen = if self.settings.mode == Mode::Enforce {
            self.choose_key(head, now)
        } else {
            let gone = Shut::new(Time::NEVER, Reason::Fault);
            self.pass(head, now).ok_or(gone)
        };
        chosen.inspect_err(|&why| {
            self.queue.settle();
            let by_bucket = self.shut_by_bucket(head, why.until, now);
            let in_line = self
                .in_line(head, &why, now)
                .filter(|_| by_bucket.is_none());
            self.queue.shut(head, why, by_bucket, in_line, now);
        })
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
            self.queue.next_hopeless(),
            self.queue.next_gone(),
        ];
        moments
            .into_iter()
            .flatten()
            .min()
            .filter(|&at| at != Time::NEVER)
    }

    /// The next ticket that ended without being sent (again), and why. It has ended, and others may
    /// be granted now.
    pub fn poll_refusal(&mut self, now: Time) -> Option<(Ticket, Refusal)> {
        for ticket in self.queue.poll_gone(now) {
            self.refuse(ticket, Refusal::TenantGone);
        }
        if self.queue.next_wake().is_some_and(|at| at <= now) {
            // Whoever is woken late has not waited for so long, and has gates of its own.
            self.queue.wake(now);
            self.next_gate = Time::START;
        }
        if let Some(refused) = self.refused.pop_front() {
            return Some(refused);
        }
        let ticket = self.queue.hopeless(now)?;
        let entry = self.queue.entry(ticket)?;
        let (deadline, lane) = (entry.deadline, self.queue.lane_at(entry.lane));
        let until = self.queue.known_until(entry.lane);
        let shut = self.queue.why_shut(entry.lane, self.version);
        let refusal = match lane.id.pin.filter(|_| until == Time::NEVER) {
            Some(pin) => Refusal::UnknownKey {
                key: self.keys.key(pin).fingerprint,
            },
            None if deadline > now => Refusal::AllKeysParked { until },
            None => Refusal::Deadline {
                earliest: shut
                    .map(|shut| until.max(shut.until))
                    .filter(|&until| until > now && until != Time::NEVER),
                reason: shut.map(|shut| shut.reason),
            },
        };
        self.queue.remove(ticket);
        // Whoever is first now has gates of its own, and nobody has asked them yet.
        self.next_gate = Time::START;
        Some((ticket, refusal))
    }

    /// Something that the shell decided, for those who read the changes.
    pub fn remark(&mut self, what: What, now: Time) {
        self.note(now, None, Some(what));
    }

    /// How many decisions changed something so far.
    #[must_use]
    pub fn changes_made(&self) -> u64 {
        self.changes_made
    }

    /// The newest `count` decisions that nobody has polled yet, oldest first.
    pub fn newest_changes(&self, count: u64) -> impl Iterator<Item = &Change> + '_ {
        let kept = self.changes.len();
        let count = usize::try_from(count).map_or(kept, |count| count.min(kept));
        self.changes.range(kept - count..)
    }

    /// The next decision that changed something.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
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

    /// Accepts nothing more and refuses all who wait; what is in flight finishes, and is not
    /// repeated.
    pub fn close(&mut self) {
        self.closed = true;
        let reserved = self.queue.entries().filter(|(_, entry)| match entry.place {
            Place::Attempt(index) => self.is_reserved(index as usize),
            _ => false,
        });
        let waiting: Vec<_> = self
            .queue
            .waiting()
            .chain(reserved.map(|(t, _)| t))
            .collect();
        for ticket in waiting {
            self.refuse(ticket, Refusal::Closed);
        }
    }

    /// Something happened that may have opened any gate.
    fn open_gates(&mut self) {
        self.version += 1;
        self.queue.open_all_buckets();
    }

    fn refuse(&mut self, ticket: Ticket, refusal: Refusal) {
        if let Some(index) = self.attempt_of(ticket) {
            // Reserved, and not heard of yet.
            self.refund(index);
            self.end_attempt(index);
        }
        if self.queue.remove(ticket).is_some() {
            self.refused.push_back((ticket, refusal));
            self.version += 1;
        }
    }

    fn note(&mut self, at: Time, key: Option<KeyId>, what: Option<What>) {
        let Some(what) = what else { return };
        if self.changes.len() >= CHANGES {
            self.changes.pop_front();
        }
        let key = key.map(|key| self.keys.key(key).fingerprint);
        self.changes_made += 1;
        self.changes.push_back(Change { at, key, what });
    }
}

/// Whether a gate that is shut for this reason will surely not open before its moment.
fn is_certain(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Hint
            | Reason::Penalty
            | Reason::Unanswered
            | Reason::Backoff
            | Reason::Fault
            | Reason::Quota(_)
    )
}

/// Changes kept for a reader that does not read.
const CHANGES: usize = 1024;
