//! Slots whose owner does not listen: they are lent to others until it does.
//!
//! Only the shell can see who listens. A grant that is not taken up goes back in full: nothing was
//! sent for it, so its ask steps aside and asks anew. An attempt in flight keeps what it was
//! charged and is only not counted as in flight meanwhile. That it was woken need not mean that its
//! answer is there: it may have been for a connection, and nothing is sent yet. So under a limit in
//! flight that was set it goes on only when a slot is free again, or when the shell has seen that
//! none comes: whoever has the slots may wait for what it holds, such as a connection for all.

#[cfg(feature = "client")]
use std::time::Duration;

use super::Scheduler;
use super::allowance::Settled;
use super::events::{KeyId, Loan, Ticket, What};
use super::mode::Mode;
use super::time::Time;

impl Scheduler {
    /// How long an answer takes; none before the first.
    #[cfg(feature = "client")]
    pub(crate) fn usual(&self) -> Option<Duration> {
        self.control.usual()
    }

    /// The owner of a grant has not taken it up: it is given back in full, and its ticket stands
    /// aside, out of everybody's way, until [`Scheduler::resume`]. False if there is no such grant.
    pub fn set_aside(&mut self, ticket: Ticket, now: Time) -> bool {
        let Some(index) = self
            .attempt_of(ticket)
            .filter(|&index| self.attempts[index].started.is_none())
        else {
            return false;
        };
        let key = self.attempts[index].key;
        self.refund(index);
        self.end_attempt(index);
        self.queue.set_aside(ticket);
        self.note(now, Some(key), Some(What::Lent(Loan::Grant)));
        true
    }

    /// The owner of a ticket that stands aside listens again: it waits in its old place.
    pub fn resume(&mut self, ticket: Ticket) {
        self.queue.resume(ticket);
    }

    /// The owner of an attempt does not listen: it is not in flight until [`Scheduler::reclaim`].
    /// A ceiling in flight lends only an attempt whose answer is there, never a held body.
    pub fn lend(&mut self, ticket: Ticket, loan: Loan, now: Time) {
        let Some(index) = self
            .attempt_of(ticket)
            .filter(|&index| self.attempts[index].lent.is_none())
        else {
            return;
        };
        let attempt = &mut self.attempts[index];
        let key = attempt.key;
        attempt.lent = Some(loan);
        self.keys.on_ended(key);
        self.control.on_ended(key, &attempt.trail);
        self.queue.open_bucket(attempt.trail.bucket());
        if loan == Loan::Woken {
            self.key_ceilings[key.index()].on_ended();
            self.provider_ceilings.on_ended();
            // Whoever gets its slot must buy one.
            self.settle_attempt(index, Settled::Ended);
        }
        self.version += 1;
        self.note(now, Some(key), Some(What::Lent(loan)));
    }

    /// The owner of a lent attempt listens again, and it is in flight. False as long as a ceiling in
    /// flight, or a controller that was chosen, has no slot for it: then it must not go on. A held
    /// body sends nothing, and a limit that was only learned is no promise.
    #[must_use]
    pub fn reclaim(&mut self, ticket: Ticket) -> bool {
        let Some(index) = self.attempt_of(ticket) else {
            return true;
        };
        let attempt = &self.attempts[index];
        if attempt.lent == Some(Loan::Woken) && !self.has_slot(attempt.key) {
            return false;
        }
        self.reclaim_attempt(index);
        true
    }

    /// The owner of a lent attempt has listened for long, and no slot came free: those who have them
    /// may wait for it. It goes on beside them, beyond the limit.
    pub fn reclaim_beyond(&mut self, ticket: Ticket, now: Time) {
        let Some(index) = self.attempt_of(ticket) else {
            return;
        };
        let key = self.attempts[index].key;
        self.reclaim_attempt(index);
        self.note(now, Some(key), Some(What::BeyondLimit));
    }

    fn has_slot(&self, key: KeyId) -> bool {
        let ceilings = [&self.key_ceilings[key.index()], &self.provider_ceilings];
        let is_full = self.control.is_full(key) || !ceilings.iter().all(|c| c.has_slot());
        !is_full || self.settings.mode != Mode::Enforce
    }

    pub(super) fn reclaim_attempt(&mut self, index: usize) {
        let attempt = &mut self.attempts[index];
        let key = attempt.key;
        let Some(loan) = attempt.lent.take() else {
            return;
        };
        self.keys.on_reclaimed(key);
        self.control.on_reclaimed(key, &attempt.trail);
        if loan == Loan::Woken {
            self.key_ceilings[key.index()].on_reclaimed();
            self.provider_ceilings.on_reclaimed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::scheduler::concurrency::{Concurrency, FixedSettings};
    use crate::scheduler::events::{Ask, Grant};

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    /// A scheduler that lets one request fly.
    fn one_at_a_time() -> Scheduler {
        let settings = Settings {
            key_concurrency: 1,
            ..Settings::default()
        };
        Scheduler::new(settings, &[], 1).expect("valid settings")
    }

    fn grants(scheduler: &mut Scheduler, now: Time) -> Vec<Grant> {
        std::iter::from_fn(|| scheduler.poll_grant(now)).collect()
    }

    #[test]
    fn a_grant_that_is_not_taken_up_goes_to_the_next_and_its_ask_keeps_its_place() {
        let mut scheduler = one_at_a_time();
        let [first, second, third] =
            [0; 3].map(|_| scheduler.submit(Ask::new(), at(0.0)).expect("room"));
        assert_eq!(grants(&mut scheduler, at(0.0))[0].ticket, first);
        assert!(scheduler.set_aside(first, at(0.1)));
        assert_eq!(grants(&mut scheduler, at(0.1))[0].ticket, second);
        scheduler.resume(first);
        assert!(
            grants(&mut scheduler, at(0.2)).is_empty(),
            "the slot is taken"
        );
        scheduler.cancel(second);
        let granted = grants(&mut scheduler, at(0.3));
        assert_eq!((granted[0].ticket, granted[0].attempt), (first, 1));
        scheduler.cancel(third);
        scheduler.cancel(first);
        assert_eq!(scheduler.depth(), (0, 0));
    }

    #[test]
    fn what_stands_aside_can_be_cancelled_and_runs_into_its_deadline() {
        let mut scheduler = one_at_a_time();
        let patient = scheduler.submit(Ask::new(), at(0.0)).expect("room");
        assert_eq!(grants(&mut scheduler, at(0.0)).len(), 1);
        assert!(scheduler.set_aside(patient, at(0.1)));
        assert_eq!(scheduler.depth(), (1, 0));
        let (refused, _) = scheduler.poll_refusal(at(301.0)).expect("its time is over");
        assert_eq!((refused, scheduler.depth()), (patient, (0, 0)));
        let other = scheduler.submit(Ask::new(), at(301.0)).expect("room");
        assert_eq!(grants(&mut scheduler, at(301.0)).len(), 1);
        assert!(scheduler.set_aside(other, at(301.1)));
        scheduler.cancel(other);
        assert_eq!(scheduler.depth(), (0, 0));
    }

    #[test]
    fn a_lent_slot_is_free_until_its_owner_returns_and_is_freed_once() {
        let mut scheduler = one_at_a_time();
        let owner = scheduler.submit(Ask::new(), at(0.0)).expect("room");
        let other = scheduler.submit(Ask::new(), at(0.0)).expect("room");
        assert_eq!(grants(&mut scheduler, at(0.0)).len(), 1);
        scheduler.start(owner, at(0.0));
        assert!(!scheduler.set_aside(owner, at(0.1)), "it has left");
        scheduler.lend(owner, Loan::Woken, at(0.1));
        assert_eq!(grants(&mut scheduler, at(0.1))[0].ticket, other);
        scheduler.start(other, at(0.1));
        assert!(!scheduler.reclaim(owner), "the other has its slot");
        scheduler.cancel(owner);
        let third = scheduler.submit(Ask::new(), at(0.2)).expect("room");
        assert!(
            grants(&mut scheduler, at(0.2)).is_empty(),
            "the other still flies"
        );
        scheduler.lend(other, Loan::Woken, at(0.3));
        scheduler.cancel(other);
        assert_eq!(grants(&mut scheduler, at(0.3))[0].ticket, third);
        let fourth = scheduler.submit(Ask::new(), at(0.3)).expect("room");
        assert!(grants(&mut scheduler, at(0.3)).is_empty());
        scheduler.cancel(third);
        scheduler.cancel(fourth);
        assert_eq!(scheduler.depth(), (0, 0));
    }

    #[test]
    fn who_comes_back_goes_on_as_soon_as_a_slot_that_was_set_is_free() {
        let fixed = FixedSettings { limit: 1 };
        let by_key = Settings {
            key_concurrency: 1,
            ..Settings::default()
        };
        let in_all = Settings {
            max_concurrency: Some(1),
            ..Settings::default()
        };
        let by_controller = Settings {
            concurrency: Concurrency::Fixed(fixed),
            ..Settings::default()
        };
        for settings in [by_key, in_all, by_controller] {
            let mut scheduler = Scheduler::new(settings.clone(), &[], 1).expect("valid settings");
            let owner = scheduler.submit(Ask::new(), at(0.0)).expect("room");
            let other = scheduler.submit(Ask::new(), at(0.0)).expect("room");
            assert_eq!(grants(&mut scheduler, at(0.0)).len(), 1);
            scheduler.start(owner, at(0.0));
            scheduler.lend(owner, Loan::Woken, at(0.1));
            assert_eq!(grants(&mut scheduler, at(0.1))[0].ticket, other);
            scheduler.start(other, at(0.1));
            assert!(!scheduler.reclaim(owner), "{settings:?}");
            scheduler.cancel(other);
            assert!(scheduler.reclaim(owner), "{settings:?}");
            assert!(scheduler.reclaim(owner), "it has it: {settings:?}");
            scheduler.cancel(owner);
            assert_eq!(scheduler.depth(), (0, 0));
        }
    }

    #[test]
    fn who_is_waited_for_goes_on_beyond_the_limit_and_it_is_told() {
        let mut scheduler = one_at_a_time();
        let owner = scheduler.submit(Ask::new(), at(0.0)).expect("room");
        let other = scheduler.submit(Ask::new(), at(0.0)).expect("room");
        grants(&mut scheduler, at(0.0));
        scheduler.start(owner, at(0.0));
        scheduler.lend(owner, Loan::Woken, at(0.1));
        grants(&mut scheduler, at(0.1));
        scheduler.start(other, at(0.1));
        assert!(!scheduler.reclaim(owner));
        scheduler.reclaim_beyond(owner, at(2.0));
        let last = std::iter::from_fn(|| scheduler.poll_change()).last();
        assert_eq!(last.expect("it is told").what, What::BeyondLimit);
        let third = scheduler.submit(Ask::new(), at(2.0)).expect("room");
        scheduler.cancel(owner);
        assert!(
            grants(&mut scheduler, at(2.0)).is_empty(),
            "two were in flight"
        );
        scheduler.cancel(other);
        assert_eq!(grants(&mut scheduler, at(2.0))[0].ticket, third);
    }

    #[test]
    fn a_ceiling_in_flight_never_lends_a_held_body() {
        let mut scheduler = one_at_a_time();
        let owner = scheduler.submit(Ask::new(), at(0.0)).expect("room");
        assert_eq!(grants(&mut scheduler, at(0.0)).len(), 1);
        scheduler.start(owner, at(0.0));
        scheduler.lend(owner, Loan::Body, at(1.0));
        let other = scheduler.submit(Ask::new(), at(1.0)).expect("room");
        assert!(grants(&mut scheduler, at(1.0)).is_empty());
        scheduler.release(owner);
        assert_eq!(grants(&mut scheduler, at(2.0))[0].ticket, other);
    }
}
