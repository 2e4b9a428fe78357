//! The machine, and a seat for everyone who waits or is in flight.
//!
//! The machine knows tickets; who is to be told what became of one, and whether its owner listens,
//! is known here.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use slab::Slab;
use smallvec::SmallVec;
use tokio::sync::{Notify, broadcast};

use crate::Time;
use crate::feedback::Fault;
#[cfg(feature = "reqwest")]
use crate::feedback::Feedback;
#[cfg(feature = "reqwest")]
use crate::scheduler::Receipt;
use crate::scheduler::Scheduler;
use crate::scheduler::events::{Change, Grant, KeyId, Outcome, Refusal, Ticket, Verdict};

use super::key::ApiKey;
use super::renewal::Renewals;
use super::silence::{LATEST, Silence, UNREAD};
use super::watch::Watch;

/// The machine and the seats. Guarded by the gate's lock.
#[derive(Debug)]
pub(super) struct Seats {
    pub(super) machine: Scheduler,
    keys: Vec<ApiKey>,
    pub(super) renewals: Renewals,
    seats: Slab<Seat>,
    /// The seat of the ticket in each of the machine's slots.
    seat_of: Vec<usize>,
    /// The seats that are granted or in flight.
    flying: Slab<usize>,
    /// Those whose owners listen again and have no slot yet, in the order in which they came.
    returned: Vec<usize>,
    /// Since when none of them got one.
    returned_at: Time,
}

/// Where the owner of a ticket is told what became of it.
#[derive(Debug)]
pub(super) struct Seat {
    ticket: Ticket,
    state: State,
    waker: Option<Waker>,
    watch: Option<Arc<Watch>>,
    /// Its place among those that are granted or in flight.
    flying: usize,
    silence: Silence,
}

#[derive(Debug)]
pub(super) enum State {
    Waiting,
    /// Granted then, and not taken up.
    Granted(Grant, Time),
    /// The grant was lent to another, and the machine waits for its owner.
    Aside,
    /// Ended without being sent (again). The machine has forgotten it.
    Refused(Refusal),
    /// Taken up then.
    Flying(Grant, Time),
}

/// A grant that was taken up.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) key: ApiKey,
    pub(crate) attempt: u32,
    /// When it was taken up.
    pub(crate) at: Time,
}

impl Seats {
    pub(super) fn new(machine: Scheduler, keys: Vec<ApiKey>, renewals: Renewals) -> Self {
        Self {
            machine,
            keys,
            renewals,
            seats: Slab::new(),
            seat_of: Vec::new(),
            flying: Slab::new(),
            returned: Vec::new(),
            returned_at: Time::START,
        }
    }

    /// A seat for a ticket that was accepted.
    pub(super) fn add(&mut self, ticket: Ticket, watch: Option<Arc<Watch>>) -> usize {
        let seat = self.seats.insert(Seat {
            ticket,
            state: State::Waiting,
            waker: None,
            watch,
            flying: usize::MAX,
            silence: Silence::default(),
        });
        let slot = ticket.slot as usize;
        if slot >= self.seat_of.len() {
            self.seat_of.resize(slot + 1, usize::MAX);
        }
        self.seat_of[slot] = seat;
        seat
    }

    /// Writes what became of a ticket into its seat. Whether its owner has to be woken for it.
    pub(super) fn tell(&mut self, ticket: Ticket, state: State, wakes: &mut Wakes) -> bool {
        let index = self.seat_of[ticket.slot as usize];
        let seat = &mut self.seats[index];
        debug_assert_eq!(seat.ticket, ticket, "a seat outlives its ticket");
        if matches!(state, State::Granted(..)) {
            seat.flying = self.flying.insert(index);
        } else {
            // A grant that was not taken up is taken back with the group that it belongs to.
            self.land(index);
        }
        let seat = &mut self.seats[index];
        seat.state = state;
        match seat.waker.take() {
            Some(waker) => {
                wakes.wakers.push(waker);
                true
            }
            None => false,
        }
    }

    /// What the owner of a seat finds there; a grant is taken up.
    pub(super) fn take_up(&mut self, seat: usize, now: Time) -> Option<Result<Taken, Refusal>> {
        let found = &mut self.seats[seat];
        match &found.state {
            State::Waiting | State::Aside | State::Flying(..) => None,
            State::Refused(refusal) => Some(Err(refusal.clone())),
            &State::Granted(grant, _) => {
                found.state = State::Flying(grant, now);
                self.machine.start(grant.ticket, now);
                Some(Ok(Taken {
                    key: self.key(grant.key),
                    attempt: grant.attempt,
                    at: now,
                }))
            }
        }
    }

    /// The owner of a seat listens again. Whether its ticket had stepped aside for that, or does
    /// now because what was paid for it has run out, or its key is gone, or the secret of that.
    pub(super) fn resume(&mut self, seat: usize, now: Time) -> bool {
        let found = &mut self.seats[seat];
        let is_lost = match found.state {
            State::Granted(grant, _) => {
                self.machine.is_stale(found.ticket, now)
                    || !self.renewals.have(self.machine.fingerprint(grant.key))
            }
            _ => false,
        };
        if is_lost {
            found.state = State::Aside;
            self.machine.set_aside(found.ticket, now);
            self.land(seat);
        }
        let seat = &mut self.seats[seat];
        let was_aside = matches!(seat.state, State::Aside);
        if was_aside {
            seat.silence.on_return();
            seat.state = State::Waiting;
            self.machine.resume(seat.ticket);
        }
        was_aside
    }

    /// Whom to wake when something comes of a ticket. Answers with the waker before, if it is
    /// another.
    pub(super) fn listen(&mut self, seat: usize, waker: &Waker) -> Option<Waker> {
        let own = &mut self.seats[seat].waker;
        if own.as_ref().is_some_and(|own| own.will_wake(waker)) {
            return None;
        }
        own.replace(waker.clone())
    }

    pub(super) fn complete(
        &mut self,
        seat: usize,
        outcome: &Outcome,
        held: bool,
        now: Time,
    ) -> Verdict {
        let found = &mut self.seats[seat];
        if let Outcome::Answered(feedback) = outcome
            && matches!(feedback.fault, Some(Fault::Unauthorized | Fault::Revoked))
            && let State::Flying(grant, sent) = found.state
        {
            // Before the machine hears of it: it repeats what a new secret may help.
            self.renewals
                .on_fault(grant.key, sent, &mut self.machine, now);
        }
        let verdict = if held {
            self.machine.complete_held(found.ticket, outcome, now)
        } else {
            self.machine.complete(found.ticket, outcome, now)
        };
        let again = matches!(verdict, Verdict::Again { .. });
        if again {
            found.state = State::Waiting;
        }
        if again || !held {
            self.land(seat);
        }
        verdict
    }

    /// Nothing was sent of the attempt that was taken up here.
    pub(super) fn undo_start(&mut self, seat: usize, now: Time) {
        self.machine.undo_start(self.seats[seat].ticket, now);
    }

    #[cfg(feature = "reqwest")]
    pub(super) fn charge(&mut self, seat: usize, times: u32, now: Time) {
        for _ in 0..times {
            self.machine.charge(self.seats[seat].ticket, now);
        }
    }

    #[cfg(feature = "reqwest")]
    pub(super) fn amend(&mut self, seat: usize, said: &Feedback, now: Time) {
        self.machine.amend(self.seats[seat].ticket, said, now);
    }

    #[cfg(feature = "reqwest")]
    pub(super) fn receipt(&self, seat: usize) -> Option<Receipt> {
        self.machine.receipt(self.seats[seat].ticket)
    }

    #[cfg(feature = "reqwest")]
    pub(super) fn settle(&mut self, receipt: &mut Receipt, said: &Feedback, now: Time) {
        self.machine.settle(receipt, said, now);
    }

    /// The owner of a lent slot listens again. Whether it has one.
    pub(super) fn reclaim(&mut self, index: usize, now: Time) -> bool {
        let seat = &self.seats[index];
        let has_slot = self.machine.reclaim(seat.ticket);
        if has_slot {
            self.returned.retain(|&other| other != index);
            if let Some(watch) = &seat.watch {
                watch.take_back();
            }
        } else if !self.returned.contains(&index) {
            if self.returned.is_empty() {
                self.returned_at = now;
            }
            self.returned.push(index);
        }
        has_slot
    }

    /// Gives those slots again who lent theirs, before anybody new gets one; where none came free for
    /// too long, the first goes on without. Whether any goes on.
    pub(super) fn give_back(&mut self, now: Time, wakes: &mut Wakes) -> bool {
        let is_stuck = self.unblocks() <= now;
        let mut any = false;
        self.returned.retain(|&index| {
            let seat = &mut self.seats[index];
            let mut goes_on = self.machine.reclaim(seat.ticket);
            if !goes_on && is_stuck && !any {
                self.machine.reclaim_beyond(seat.ticket, now);
                goes_on = true;
            }
            if goes_on && let Some(watch) = &seat.watch {
                seat.silence.on_return();
                wakes.wakers.push(watch.give_back(now));
            }
            any |= goes_on;
            !goes_on
        });
        if any {
            self.returned_at = now;
        }
        any
    }

    /// When one of those who listen again goes on without a slot.
    fn unblocks(&self) -> Time {
        if self.returned.is_empty() {
            return Time::NEVER;
        }
        let usual = self.machine.usual();
        let patience = usual.map_or(UNBLOCK_NEW, |usual| {
            usual.saturating_mul(UNBLOCK).max(UNBLOCK_SOONEST)
        });
        self.returned_at + patience
    }

    /// Whether anybody waits for a slot.
    pub(super) fn somebody_waits(&self) -> bool {
        self.machine.depth().0 > 0 || !self.returned.is_empty()
    }

    /// Refuses whoever was granted and has not taken it up, so that nothing waits for them.
    pub(super) fn close(&mut self) {
        self.machine.close();
        let granted: Vec<_> = self
            .flying
            .iter()
            .map(|(_, &seat)| seat)
            .filter(|&seat| matches!(self.seats[seat].state, State::Granted(..)))
            .collect();
        for seat in granted {
            self.machine.cancel(self.seats[seat].ticket);
            self.seats[seat].state = State::Refused(Refusal::Closed);
            self.land(seat);
        }
    }

    /// The owner of a seat is gone.
    pub(super) fn leave(&mut self, seat: usize) -> Seat {
        self.land(seat);
        let seat = self.seats.remove(seat);
        // That the machine may have ended the ticket already is no error: its generation differs.
        self.machine.cancel(seat.ticket);
        seat
    }

    /// Everybody who waits for something to come of a ticket.
    pub(super) fn wakers(&mut self) -> Vec<Waker> {
        let returned = self.returned.iter();
        let watches = returned.filter_map(|&seat| self.seats[seat].watch.as_ref());
        let mut wakers: Vec<_> = watches.map(|watch| watch.owner()).collect();
        let waiting = self.seats.iter_mut();
        wakers.extend(waiting.filter_map(|(_, seat)| seat.waker.take()));
        wakers
    }

    /// Makes these the keys in use, besides those that are renewed.
    pub(super) fn set_keys(&mut self, keys: Vec<ApiKey>) {
        let fixed = keys.iter().map(ApiKey::fingerprint);
        let fingerprints: Vec<_> = fixed.chain(self.renewals.fingerprints()).collect();
        self.machine.set_keys(&fingerprints);
        for key in keys {
            if !self.keys.contains(&key) {
                self.keys.push(key);
            }
        }
    }

    /// A seat is neither granted nor in flight any more.
    fn land(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        if self.flying.contains(seat.flying) {
            self.flying.remove(seat.flying);
        }
        seat.flying = usize::MAX;
        self.returned.retain(|&other| other != index);
    }

    /// The next moment at which something opens or ends.
    pub(super) fn next(&self) -> Time {
        let opens = self.machine.poll_timeout().unwrap_or(Time::NEVER);
        opens.min(self.renewals.due()).min(self.unblocks())
    }

    /// Lends every slot whose owner does not listen. Answers when to look again.
    pub(super) fn lend(&mut self, now: Time) -> Time {
        let usual = self.machine.usual();
        let mut next = Time::NEVER;
        let mut silent: SmallVec<[(usize, Time); 8]> = SmallVec::new();
        for (_, &index) in &self.flying {
            let seat = &mut self.seats[index];
            let Some((since, patience)) = seat.silent(usual) else {
                continue;
            };
            if since + patience > now {
                next = next.min(since + patience);
            } else if seat.silence.is_certain(since, now) {
                silent.push((index, since));
            } else {
                next = next.min(seat.silence.next_look());
            }
        }
        for (index, since) in silent {
            let seat = &mut self.seats[index];
            if let (State::Flying(..), Some(watch)) = (&seat.state, &seat.watch) {
                if let Some(loan) = watch.lend(since) {
                    self.machine.lend(seat.ticket, loan, now);
                }
            } else {
                seat.state = State::Aside;
                self.machine.set_aside(seat.ticket, now);
                self.land(index);
            }
        }
        next
    }

    fn key(&self, id: KeyId) -> ApiKey {
        let fingerprint = self.machine.fingerprint(id);
        if let Some(key) = self.renewals.key(fingerprint) {
            return key.clone();
        }
        let found = self
            .keys
            .iter()
            .find(|key| key.fingerprint() == fingerprint);
        found.cloned().unwrap_or_else(ApiKey::anonymous)
    }
}

impl Seat {
    /// Since when its owner is silent, and for how long one may be who listens. `usual` is how long
    /// an answer takes.
    fn silent(&self, usual: Option<Duration>) -> Option<(Time, Duration)> {
        match (&self.state, &self.watch) {
            (&State::Granted(_, at), _) => Some((at, self.silence.patience(usual))),
            (&State::Flying(_, sent), Some(watch)) => {
                let since = watch.silent_since()?;
                // What has woken it sooner may be a connection that is being made: then nobody has
                // an answer yet, and lending its slot gains nothing.
                let is_answer = usual.is_some_and(|usual| since.since(sent) >= usual / 2);
                let patience = match () {
                    () if watch.holds_body() => UNREAD,
                    () if is_answer => self.silence.patience(usual),
                    () => LATEST,
                };
                Some((since, patience))
            }
            _ => None,
        }
    }
}

/// What was decided under the lock and is done after it.
#[derive(Default)]
pub(super) struct Wakes {
    pub(super) wakers: SmallVec<[Waker; 4]>,
    /// Wakers that are not needed any more. The last one of a task may drop the task, and with it
    /// a claim, which locks.
    pub(super) spent: SmallVec<[Waker; 1]>,
    pub(super) changes: Vec<Change>,
    pub(super) sender: Option<broadcast::Sender<Change>>,
    pub(super) bell: Option<Arc<Notify>>,
}

impl Wakes {
    pub(super) fn send(self) {
        if let Some(bell) = self.bell {
            bell.notify_one();
        }
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

/// Whoever comes back for a slot that it had lent goes on without one after so many usual answers in
/// which nobody's slot came free: those who have them may be waiting for it, and one too many in
/// flight is better than a program that stands still. One answer would do if all took as long.
const UNBLOCK: u32 = 3;
/// But not before: what is long for a person, and far beyond the tail of short answers.
const UNBLOCK_SOONEST: Duration = Duration::from_secs(1);
/// And where nothing is known of answers: most are here by then.
const UNBLOCK_NEW: Duration = Duration::from_secs(5);
