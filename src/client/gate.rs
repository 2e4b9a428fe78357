//! The machine under a lock, and who is woken by what it decides.
//!
//! Every entry locks, reads the clock, tells the machine, lets it grant what it can, and unlocks;
//! only then are the wakers called that were collected meanwhile. Nothing waits here: there is no
//! timer and no await.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use smallvec::SmallVec;
use tokio::sync::broadcast;

use crate::Time;
use crate::scheduler::Scheduler;
use crate::scheduler::events::{Ask, Change, Reason, Refusal, What};
#[cfg(feature = "reqwest")]
use crate::scheduler::events::{Fingerprint, Name};
use crate::scheduler::memory::Snapshot;

use super::alarms::Alarm;
use super::buyer::Buyer;
use super::claim::Claim;
use super::clock::{Waking, seconds};
use super::key::ApiKey;
use super::operating::Live;
use super::renewal::Renewals;
use super::seats::{Seats, State, Taken, Wakes};
use super::silence::SOONEST;
#[cfg(any(feature = "metrics", feature = "tracing"))]
use super::telemetry::Telemetry;
use super::watch::Watch;

/// One provider's machine, its lock, and the seats of those who wait or are in flight.
#[derive(Debug)]
pub(crate) struct Gate {
    inner: Mutex<Inner>,
    pub(super) clock: Waking,
    /// The first moment at which somebody may have stopped listening, in nanoseconds.
    loan_at: AtomicU64,
    /// Whether grants are paid for outside, and nobody calls there now.
    pub(super) has_no_agent: AtomicBool,
    pub(super) has_no_renewals: bool,
    pub(super) live: Live,
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    pub(super) telemetry: Telemetry,
}

/// Guarded by the lock.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) seats: Seats,
    pub(super) buyer: Option<Box<dyn Buyer>>,
    pub(super) drivers: SmallVec<[Alarm; 1]>,
    pub(super) drivers_made: u64,
    changes: Option<broadcast::Sender<Change>>,
    /// Those who wait for the machine to be empty.
    idle: Vec<Waker>,
    last: Time,
    /// How many changes telemetry has heard of.
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    told: u64,
}

/// What an ask became at once.
pub(crate) enum Entered {
    Granted(Taken),
    Waiting,
}

impl Gate {
    pub(crate) fn new(
        machine: Scheduler,
        keys: Vec<ApiKey>,
        renewals: Renewals,
        buyer: Option<Box<dyn Buyer>>,
        #[cfg(any(feature = "metrics", feature = "tracing"))] telemetry: Telemetry,
    ) -> Arc<Self> {
        let has_no_renewals = renewals.is_empty();
        let has_no_agent = AtomicBool::new(buyer.is_some());
        let live = Live::new(machine.settings());
        let inner = Inner {
            seats: Seats::new(machine, keys, renewals),
            buyer,
            drivers: SmallVec::new(),
            drivers_made: 0,
            changes: None,
            idle: Vec::new(),
            last: Time::START,
            #[cfg(any(feature = "metrics", feature = "tracing"))]
            told: 0,
        };
        Arc::new(Self {
            inner: Mutex::new(inner),
            clock: Waking::new(),
            loan_at: AtomicU64::new(u64::MAX),
            has_no_agent,
            has_no_renewals,
            live,
            #[cfg(any(feature = "metrics", feature = "tracing"))]
            telemetry,
        })
    }

    /// The machine's time.
    #[cfg(feature = "shared")]
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn clock(&self) -> &Waking {
        &self.clock
    }

    /// Puts an ask in the queue, and says when that was. What is granted at once is taken up.
    pub(crate) fn enter(
        self: &Arc<Self>,
        ask: Ask,
        watch: Option<Arc<Watch>>,
    ) -> Result<(Claim, Entered, Time), Refusal> {
        let entered = self.try_enter(ask.clone(), watch.clone());
        match &entered {
            // Nobody has waited, so nobody has looked whether the machine was suspended.
            Err(Refusal::AllKeysParked { .. }) if self.catch_up() => self.try_enter(ask, watch),
            _ => entered,
        }
    }

    fn try_enter(
        self: &Arc<Self>,
        ask: Ask,
        watch: Option<Arc<Watch>>,
    ) -> Result<(Claim, Entered, Time), Refusal> {
        let entered = self.act(|inner, now, wakes| {
            let ticket = inner.seats.machine.submit(ask, now)?;
            let seat = inner.seats.add(ticket, watch.clone());
            // One who finds nobody waiting and every gate open needs nothing else looked at.
            self.grant(inner, now, wakes);
            if inner.seats.machine.depth().0 > 0 {
                self.pump(inner, now, wakes);
            }
            let entered = match inner.seats.take_up(seat, now) {
                Some(Ok(taken)) => Entered::Granted(taken),
                Some(Err(refusal)) => {
                    inner.seats.leave(seat);
                    return Err(refusal);
                }
                None => Entered::Waiting,
            };
            Ok((Claim::new(Arc::clone(self), seat, watch), entered, now))
        });
        self.see_to_agent();
        entered
    }

    /// Looks whether the machine was suspended, and if so tells.
    pub(super) fn catch_up(&self) -> bool {
        let Some(slept) = self.clock.catch_up() else {
            return false;
        };
        self.remark(What::Suspended(slept));
        true
    }

    /// Does what is due; for those who have a timer of their own.
    pub(crate) fn tick(self: &Arc<Self>) {
        self.act(|inner, now, wakes| self.turn(inner, now, wakes));
        self.see_to_agent();
    }

    /// The next moment at which [`Gate::tick`] does something.
    pub(crate) fn next(&self) -> Time {
        self.next_of(&self.lock())
    }

    /// How many wait, and how many are granted or in flight.
    pub(crate) fn depth(&self) -> (usize, usize) {
        self.lock().seats.machine.depth()
    }

    /// What the first in turn waits for.
    pub(crate) fn waits_for(&self) -> Option<Reason> {
        self.lock().seats.machine.waits_for()
    }

    /// What was learned so far.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let taken = seconds(self.clock.wall());
        self.act(|inner, now, _| inner.seats.machine.snapshot(now))
            .taken_at(taken)
    }

    /// Whether forgetting the limiter would break no word given.
    #[cfg(feature = "reqwest")]
    pub(crate) fn is_idle(&self) -> bool {
        self.act(|inner, now, _| inner.seats.machine.is_idle(now))
    }

    pub(crate) fn close(&self) {
        self.act(|inner, now, wakes| {
            inner.seats.close();
            self.pump(inner, now, wakes);
            if let Some(buyer) = &mut inner.buyer {
                buyer.close();
            }
        });
    }

    /// Ready when nobody waits and nothing is in flight.
    pub(crate) fn poll_idle(&self, waker: &Waker) -> Poll<()> {
        self.act(|inner, _, _| {
            if inner.is_idle() {
                return Poll::Ready(());
            }
            if !inner.idle.iter().any(|other| other.will_wake(waker)) {
                inner.idle.push(waker.clone());
            }
            Poll::Pending
        })
    }

    pub(crate) fn set_keys(&self, keys: Vec<ApiKey>) {
        self.act(|inner, now, wakes| {
            inner.seats.set_keys(keys);
            self.pump(inner, now, wakes);
        });
    }

    /// Every change from now on, and those that nobody has read yet.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.act(|inner, now, wakes| {
            let sender = inner
                .changes
                .get_or_insert_with(|| broadcast::Sender::new(CHANGES));
            let receiver = sender.subscribe();
            self.pump(inner, now, wakes);
            receiver
        })
    }

    /// Something that the shell decided, for those who read the changes.
    pub(crate) fn remark(&self, what: What) {
        self.act(|inner, now, wakes| {
            inner.seats.machine.remark(what, now);
            self.pump(inner, now, wakes);
        });
    }

    /// A bucket has proved to be refused by itself, on this key.
    #[cfg(feature = "reqwest")]
    pub(super) fn part(&self, bucket: &Name, key: Fingerprint) {
        self.act(|inner, now, _| inner.seats.machine.part(bucket, Some(key), now));
    }

    /// From `at` on somebody may not be listening.
    pub(super) fn expect_loan(&self, at: Time) {
        let before = self.loan_at.fetch_min(at.as_nanos(), Ordering::SeqCst);
        if at.as_nanos() < before {
            // The drivers may sleep for longer than that.
            self.act(|_, _, _| {});
        }
    }

    /// Locks, reads the clock, acts, sees to the drivers, unlocks, and wakes.
    pub(super) fn act<R>(&self, act: impl FnOnce(&mut Inner, Time, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::default();
        let mut inner = self.lock();
        // Runtimes may disagree about the time (a paused one), and the machine's never goes back.
        let now = self.clock.now().max(inner.last);
        inner.last = now;
        let out = act(&mut inner, now, &mut wakes);
        if !inner.drivers.is_empty() {
            let next = self.next_of(&inner);
            for alarm in inner.drivers.iter_mut().filter(|alarm| next < alarm.armed) {
                alarm.armed = next;
                wakes.wakers.push(alarm.waker.clone());
            }
        }
        #[cfg(any(feature = "metrics", feature = "tracing"))]
        let told = inner.tell();
        inner.publish(&mut wakes);
        drop(inner);
        wakes.send();
        #[cfg(any(feature = "metrics", feature = "tracing"))]
        told.iter()
            .for_each(|change| self.telemetry.on_change(change));
        out
    }

    /// Lets the machine grant and refuse what it can, and collects whom to tell.
    pub(super) fn pump(&self, inner: &mut Inner, now: Time, wakes: &mut Wakes) {
        loop {
            while let Some((ticket, refusal)) = inner.seats.machine.poll_refusal(now) {
                inner.seats.tell(ticket, State::Refused(refusal), wakes);
            }
            if inner.seats.give_back(now, wakes) {
                self.loan_at
                    .fetch_min((now + SOONEST).as_nanos(), Ordering::SeqCst);
            }
            self.grant(inner, now, wakes);
            let Some(buyer) = &mut inner.buyer else { break };
            let traded = buyer.trade(&mut inner.seats.machine, now);
            wakes.bell = traded.bell.or_else(|| wakes.bell.take());
            if traded.wants_agent {
                // A driver can start one.
                let drivers = inner.drivers.iter();
                wakes
                    .wakers
                    .extend(drivers.map(|alarm| alarm.waker.clone()));
            }
            if !traded.told {
                break;
            }
        }
    }

    fn grant(&self, inner: &mut Inner, now: Time, wakes: &mut Wakes) {
        if !self.has_no_renewals {
            let Seats {
                renewals, machine, ..
            } = &mut inner.seats;
            renewals.expire(machine, now);
        }
        while inner.seats.machine.depth().0 > 0 {
            let Some(grant) = inner.seats.machine.poll_grant(now) else {
                break;
            };
            if inner
                .seats
                .tell(grant.ticket, State::Granted(grant, now), wakes)
            {
                let due = now + SOONEST;
                self.loan_at.fetch_min(due.as_nanos(), Ordering::SeqCst);
            }
        }
    }

    pub(super) fn turn(&self, inner: &mut Inner, now: Time, wakes: &mut Wakes) {
        self.pump(inner, now, wakes);
        if inner.seats.somebody_waits() && self.loan_at.load(Ordering::SeqCst) <= now.as_nanos() {
            // In this order: what is expected while the seats are looked at is not forgotten.
            self.loan_at.store(u64::MAX, Ordering::SeqCst);
            let next = inner.seats.lend(now);
            self.loan_at.fetch_min(next.as_nanos(), Ordering::SeqCst);
            self.pump(inner, now, wakes);
        }
    }

    pub(super) fn next_of(&self, inner: &Inner) -> Time {
        let loan = Time::from_nanos(self.loan_at.load(Ordering::SeqCst));
        inner.seats.next().min(loan)
    }

    /// A panic under the lock (of a controller of the user's own) must not take the others along:
    /// the machine is plain data, and every entry leaves it whole.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The changes that telemetry has not heard of. They stay for whoever reads them.
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    fn tell(&mut self) -> Vec<Change> {
        let machine = &self.seats.machine;
        let made = machine.changes_made();
        if made == self.told {
            return Vec::new();
        }
        let new = machine.newest_changes(made - self.told).cloned().collect();
        self.told = made;
        new
    }

    /// Collects the changes for those who read them, and those who wait for nobody to be here.
    fn publish(&mut self, wakes: &mut Wakes) {
        if let Some(sender) = &self.changes {
            while let Some(change) = self.seats.machine.poll_change() {
                wakes.changes.push(change);
            }
            if !wakes.changes.is_empty() {
                wakes.sender = Some(sender.clone());
            }
        }
        if !self.idle.is_empty() && self.is_idle() {
            wakes.wakers.extend(self.idle.drain(..));
        }
    }

    /// Nobody waits, nothing is in flight, and nobody outside reckons with this limiter.
    fn is_idle(&self) -> bool {
        self.seats.machine.depth() == (0, 0)
            && self.buyer.as_ref().is_none_or(|buyer| buyer.is_settled())
    }
}

impl Drop for Gate {
    /// The drivers find nobody to drive, and end.
    fn drop(&mut self) {
        let inner = self.inner.get_mut();
        let inner = inner.unwrap_or_else(PoisonError::into_inner);
        for alarm in inner.drivers.drain(..) {
            alarm.waker.wake();
        }
    }
}

/// Changes kept for a reader that is slow: as many as the machine keeps for one that is late.
const CHANGES: usize = 1024;
