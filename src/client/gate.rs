//! The machine under a lock, and who is woken by what it decides.
//!
//! Every entry locks, reads the clock, tells the machine, lets it grant what it can, and unlocks;
//! only then are the wakers called that were collected meanwhile. Nothing waits here: there is no
//! timer and no await, so the races of this file can be run through one by one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

use slab::Slab;
use smallvec::SmallVec;
use tokio::runtime;
use tokio::sync::broadcast;

use crate::Time;
use crate::scheduler::Scheduler;
use crate::scheduler::events::{
    Ask, Change, Grant, KeyId, Name, Outcome, Refusal, Ticket, Verdict,
};

use super::clock::Clock;
use super::key::ApiKey;

/// One provider's machine, its lock, and the seats of those who wait or are in flight.
#[derive(Debug)]
pub(crate) struct Gate {
    inner: Mutex<Inner>,
    clock: Clock,
}

/// Guarded by the lock.
#[derive(Debug)]
struct Inner {
    machine: Scheduler,
    keys: Vec<ApiKey>,
    seats: Slab<Seat>,
    /// The seat of the ticket in each of the machine's slots.
    seat_of: Vec<usize>,
    drivers: SmallVec<[Alarm; 1]>,
    drivers_made: u64,
    changes: Option<broadcast::Sender<Change>>,
    /// Those who wait for the machine to be empty.
    idle: Vec<Waker>,
    last: Time,
}

/// Where the owner of a ticket is told what became of it.
#[derive(Debug)]
struct Seat {
    ticket: Ticket,
    state: State,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum State {
    Waiting,
    /// Granted, and not taken up.
    Granted(Grant),
    /// Ended without being sent (again). The machine has forgotten it.
    Refused(Refusal),
    /// Taken up.
    Flying,
}

/// A driver that sleeps until `armed`.
#[derive(Debug)]
struct Alarm {
    id: u64,
    runtime: runtime::Id,
    armed: Time,
    waker: Waker,
}

/// A grant that was taken up.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) key: ApiKey,
    pub(crate) attempt: u32,
    /// When it was taken up.
    pub(crate) at: Time,
}

/// What an ask became at once.
pub(crate) enum Entered {
    Granted(Taken),
    Waiting,
}

impl Gate {
    pub(crate) fn new(machine: Scheduler, keys: Vec<ApiKey>, clock: Clock) -> Arc<Self> {
        let inner = Inner {
            machine,
            keys,
            seats: Slab::new(),
            seat_of: Vec::new(),
            drivers: SmallVec::new(),
            drivers_made: 0,
            changes: None,
            idle: Vec::new(),
            last: Time::START,
        };
        Arc::new(Self {
            inner: Mutex::new(inner),
            clock,
        })
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Puts an ask in the queue, and says when that was. What is granted at once is taken up.
    pub(crate) fn enter(self: &Arc<Self>, ask: Ask) -> Result<(Claim, Entered, Time), Refusal> {
        self.act(|inner, now, wakes| {
            let ticket = inner.machine.submit(ask, now)?;
            let seat = inner.seat(ticket);
            inner.pump(now, wakes);
            let entered = match inner.take_up(seat, now) {
                Some(Ok(taken)) => Entered::Granted(taken),
                Some(Err(refusal)) => {
                    inner.seats.remove(seat);
                    return Err(refusal);
                }
                None => Entered::Waiting,
            };
            let gate = Arc::clone(self);
            Ok((Claim { gate, seat }, entered, now))
        })
    }

    /// Lets the machine do what is due; for those who have a timer of their own.
    pub(crate) fn tick(&self) {
        self.act(|inner, now, wakes| inner.pump(now, wakes));
    }

    /// The next moment at which [`Gate::tick`] does something, if anybody waits for one.
    pub(crate) fn next(&self) -> Option<Time> {
        self.lock().machine.poll_timeout()
    }

    /// How many wait, and how many are granted or in flight.
    pub(crate) fn depth(&self) -> (usize, usize) {
        self.lock().machine.depth()
    }

    /// Cancels what waits of a group: how many were removed, and how many are in flight.
    pub(crate) fn cancel_group(&self, group: &Name) -> (usize, usize) {
        self.act(|inner, now, wakes| {
            let counts = inner.machine.cancel_group(group);
            inner.pump(now, wakes);
            counts
        })
    }

    pub(crate) fn close(&self) {
        self.act(|inner, now, wakes| {
            inner.machine.close();
            inner.pump(now, wakes);
        });
    }

    /// Ready when nobody waits and nothing is in flight.
    pub(crate) fn poll_idle(&self, waker: &Waker) -> Poll<()> {
        let mut inner = self.lock();
        if inner.machine.depth() == (0, 0) {
            return Poll::Ready(());
        }
        inner.idle.retain(|other| !other.will_wake(waker));
        inner.idle.push(waker.clone());
        Poll::Pending
    }

    pub(crate) fn set_keys(&self, keys: Vec<ApiKey>) {
        self.act(|inner, now, wakes| {
            let fingerprints: Vec<_> = keys.iter().map(ApiKey::fingerprint).collect();
            inner.machine.set_keys(&fingerprints);
            for key in keys {
                if !inner.keys.contains(&key) {
                    inner.keys.push(key);
                }
            }
            inner.pump(now, wakes);
        });
    }

    /// Every change from now on, and those that nobody has read yet.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.act(|inner, now, wakes| {
            let sender = inner
                .changes
                .get_or_insert_with(|| broadcast::Sender::new(CHANGES));
            let receiver = sender.subscribe();
            inner.pump(now, wakes);
            receiver
        })
    }

    /// Registers a driver of this runtime, unless it has one.
    pub(crate) fn new_driver(&self, runtime: runtime::Id) -> Option<u64> {
        let mut inner = self.lock();
        if inner.drivers.iter().any(|alarm| alarm.runtime == runtime) {
            return None;
        }
        inner.drivers_made += 1;
        let id = inner.drivers_made;
        inner.drivers.push(Alarm {
            id,
            runtime,
            // Until its first poll it sleeps for nothing.
            armed: Time::START,
            waker: Waker::noop().clone(),
        });
        Some(id)
    }

    /// A driver's turn: does what is due and answers when it is due again; none when nobody waits
    /// any more, and then the driver is no longer registered.
    pub(crate) fn drive(&self, id: u64, waker: &Waker) -> Option<Time> {
        self.act(|inner, now, wakes| {
            // Its own moment is computed below: no need to wake itself.
            if let Some(alarm) = inner.alarm(id) {
                alarm.armed = Time::START;
            }
            inner.pump(now, wakes);
            if inner.machine.depth().0 == 0 {
                inner.drivers.retain(|alarm| alarm.id != id);
                return None;
            }
            let next = inner.next();
            let alarm = inner.alarm(id)?;
            alarm.armed = next;
            alarm.waker.clone_from(waker);
            Some(next)
        })
    }

    /// A driver is gone, perhaps with its runtime: whoever waits may have to start another.
    pub(crate) fn driver_gone(&self, id: u64) {
        self.act(|inner, _, wakes| {
            let before = inner.drivers.len();
            inner.drivers.retain(|alarm| alarm.id != id);
            if inner.drivers.len() < before {
                wakes
                    .wakers
                    .extend(inner.seats.iter_mut().filter_map(|(_, s)| s.waker.take()));
            }
        });
    }

    fn act<R>(&self, act: impl FnOnce(&mut Inner, Time, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::default();
        let mut inner = self.lock();
        // Two threads may have read the clock in one order and locked in the other.
        let now = self.clock.now().max(inner.last);
        inner.last = now;
        let out = act(&mut inner, now, &mut wakes);
        drop(inner);
        wakes.send();
        out
    }

    /// A panic under the lock (a controller of the user's own) must not take the others along: the
    /// machine is plain data, and every entry leaves it whole or not at all.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn seat(&mut self, ticket: Ticket) -> usize {
        let seat = self.seats.insert(Seat {
            ticket,
            state: State::Waiting,
            waker: None,
        });
        let slot = ticket.slot as usize;
        if slot >= self.seat_of.len() {
            self.seat_of.resize(slot + 1, usize::MAX);
        }
        self.seat_of[slot] = seat;
        seat
    }

    fn alarm(&mut self, id: u64) -> Option<&mut Alarm> {
        self.drivers.iter_mut().find(|alarm| alarm.id == id)
    }

    fn next(&self) -> Time {
        self.machine.poll_timeout().unwrap_or(Time::NEVER)
    }

    /// Lets the machine grant and refuse what it can, and collects whom to tell.
    fn pump(&mut self, now: Time, wakes: &mut Wakes) {
        while let Some((ticket, refusal)) = self.machine.poll_refusal(now) {
            self.tell(ticket, State::Refused(refusal), wakes);
        }
        while let Some(grant) = self.machine.poll_grant(now) {
            self.tell(grant.ticket, State::Granted(grant), wakes);
        }
        if let Some(sender) = &self.changes {
            while let Some(change) = self.machine.poll_change() {
                wakes.changes.push(change);
            }
            if !wakes.changes.is_empty() {
                wakes.sender = Some(sender.clone());
            }
        }
        if !self.drivers.is_empty() {
            let next = self.next();
            for alarm in self.drivers.iter_mut().filter(|alarm| next < alarm.armed) {
                alarm.armed = next;
                wakes.wakers.push(alarm.waker.clone());
            }
        }
        if !self.idle.is_empty() && self.machine.depth() == (0, 0) {
            wakes.wakers.extend(self.idle.drain(..));
        }
    }

    fn tell(&mut self, ticket: Ticket, state: State, wakes: &mut Wakes) {
        let seat = &mut self.seats[self.seat_of[ticket.slot as usize]];
        debug_assert_eq!(seat.ticket, ticket, "a seat outlives its ticket");
        seat.state = state;
        wakes.wakers.extend(seat.waker.take());
    }

    /// What the owner of a seat finds there; a grant is taken up.
    fn take_up(&mut self, seat: usize, now: Time) -> Option<Result<Taken, Refusal>> {
        let found = &mut self.seats[seat];
        match &found.state {
            State::Waiting | State::Flying => None,
            State::Refused(refusal) => Some(Err(refusal.clone())),
            &State::Granted(grant) => {
                found.state = State::Flying;
                self.machine.start(grant.ticket, now);
                Some(Ok(Taken {
                    key: self.key(grant.key),
                    attempt: grant.attempt,
                    at: now,
                }))
            }
        }
    }

    fn key(&self, id: KeyId) -> ApiKey {
        let fingerprint = self.machine.fingerprint(id);
        let found = self
            .keys
            .iter()
            .find(|key| key.fingerprint() == fingerprint);
        found.cloned().unwrap_or_else(ApiKey::anonymous)
    }
}

/// The right to one seat: waiting, granted or in flight. Dropping it cancels the ticket, whatever
/// its phase.
#[derive(Debug)]
pub(crate) struct Claim {
    gate: Arc<Gate>,
    seat: usize,
}

impl Claim {
    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// The grant, if it has come; taking it up starts the attempt.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<Taken, Refusal>> {
        self.gate.act(|inner, now, wakes| {
            let taken = inner.take_up(self.seat, now);
            let Some(taken) = taken else {
                let seat = &mut inner.seats[self.seat];
                match &mut seat.waker {
                    Some(old) => old.clone_from(waker),
                    none => *none = Some(waker.clone()),
                }
                return Poll::Pending;
            };
            // The start of an attempt begins a window that others wait for the end of.
            inner.pump(now, wakes);
            Poll::Ready(taken)
        })
    }

    /// Ends the attempt. Where the verdict is to go again, the seat waits in its old place. Where
    /// `held`, its slot stays taken until the claim is dropped.
    pub(crate) fn complete(&self, outcome: &Outcome, held: bool) -> Verdict {
        self.gate.act(|inner, now, wakes| {
            let seat = &mut inner.seats[self.seat];
            let ticket = seat.ticket;
            let verdict = if held {
                inner.machine.complete_held(ticket, outcome, now)
            } else {
                inner.machine.complete(ticket, outcome, now)
            };
            if matches!(verdict, Verdict::Again { .. }) {
                seat.state = State::Waiting;
            }
            inner.pump(now, wakes);
            verdict
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.gate.act(|inner, now, wakes| {
            let seat = inner.seats.remove(self.seat);
            // That the machine may have ended it already is no error: its generation differs.
            inner.machine.cancel(seat.ticket);
            inner.pump(now, wakes);
        });
    }
}

impl Drop for Gate {
    /// The drivers find nobody to drive, and end.
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        for alarm in inner.drivers.drain(..) {
            alarm.waker.wake();
        }
    }
}

/// What was decided under the lock and is done after it.
#[derive(Default)]
struct Wakes {
    wakers: SmallVec<[Waker; 4]>,
    changes: Vec<Change>,
    sender: Option<broadcast::Sender<Change>>,
}

impl Wakes {
    fn send(self) {
        for waker in self.wakers {
            waker.wake();
        }
        if let Some(sender) = self.sender {
            for change in self.changes {
                // No receiver any more: nobody wants to know.
                if sender.send(change).is_err() {
                    break;
                }
            }
        }
    }
}

/// A gate that a driver must not keep alive.
pub(crate) type WeakGate = Weak<Gate>;

/// Changes kept for a reader that is slow: as many as the machine keeps for one that is late.
const CHANGES: usize = 1024;
