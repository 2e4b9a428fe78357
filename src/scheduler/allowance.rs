//! What must be bought outside before an attempt is granted: limits that several processes share.
//!
//! It is the last gate: an ask that must wait here costs the outside nothing. An attempt that
//! passes all others is reserved and put up for purchase; what was bought is granted, and what was
//! refused goes back to its place in the queue as if it had never been reserved. Whatever becomes
//! of a purchase afterwards is told once: that nothing was sent for it, or that its attempt ended.

use std::collections::VecDeque;
use std::time::Duration;

use super::Scheduler;
use super::events::{Cost, Fingerprint, Gate, Grant, KeyId, Reason, Ticket};
use super::time::Time;

/// An attempt that is reserved, and granted once it is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purchase {
    /// Names the purchase. Never used again for another one.
    pub id: u64,
    /// Whose turn it is.
    pub ticket: Ticket,
    /// On which key.
    pub key: Fingerprint,
    /// What it takes.
    pub cost: Cost,
}

/// What became of a purchase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Allowance {
    /// It is bought. Another of its key need not be tried before that moment.
    Granted {
        /// The moment; any that has passed means at once.
        next: Time,
    },
    /// It is not, and another of its key need not be tried before that moment.
    Refused {
        /// The moment.
        until: Time,
        /// Why.
        reason: Reason,
    },
}

/// What became of an attempt that was bought, or put up for purchase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// Nothing was sent for this purchase, or will be.
    Unsent(u64),
    /// The attempt of this purchase has ended.
    Ended(u64),
    /// Something was sent on this key that was not bought, such as a redirect hop.
    Extra(Fingerprint),
}

/// The purchases of a scheduler.
#[derive(Debug, Default)]
pub(super) struct Allowances {
    made: u64,
    pending: usize,
    purchases: VecDeque<Purchase>,
    /// By the number of the purchase.
    bought: VecDeque<(u64, Grant)>,
    settled: VecDeque<Settled>,
    /// Per key, by its place: until when nothing can be bought, and why.
    shut: Vec<(Time, Reason)>,
}

/// The purchase that an attempt was made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paid {
    id: u64,
    /// Not bought yet: its ticket has not heard of the grant.
    pub(super) attempt: Option<u32>,
}

impl Allowances {
    pub(super) fn gate(&self, key: KeyId, now: Time) -> Gate {
        if self.pending >= MOST_PENDING {
            return Gate::Shut {
                until: Time::NEVER,
                reason: Reason::Shared,
            };
        }
        match self.shut.get(key.index()) {
            Some(&(until, reason)) => Gate::at(until, reason, now),
            None => Gate::Open,
        }
    }

    /// How many are reserved, and have not heard of a grant.
    pub(super) fn reserved(&self) -> usize {
        self.pending + self.bought.len()
    }

    fn shut(&mut self, key: KeyId, until: Time, reason: Reason) {
        if key.index() >= self.shut.len() {
            self.shut
                .resize(key.index() + 1, (Time::START, Reason::Shared));
        }
        self.shut[key.index()] = (until, reason);
    }

    pub(super) fn settle(&mut self, settled: Settled) {
        self.settled.push_back(settled);
    }
}

impl Scheduler {
    /// From now on every attempt must be bought: poll for purchases, and answer each.
    pub fn sell(&mut self) {
        self.allowances.get_or_insert_default();
    }

    /// The next attempt that must be bought before it is granted.
    pub fn poll_purchase(&mut self) -> Option<Purchase> {
        self.allowances.as_mut()?.purchases.pop_front()
    }

    /// What became of purchases since.
    pub fn poll_settled(&mut self) -> Option<Settled> {
        self.allowances.as_mut()?.settled.pop_front()
    }

    /// A purchase was made or refused. One whose ticket has ended meanwhile was told as unsent.
    pub fn on_allowance(&mut self, purchase: &Purchase, allowance: Allowance, now: Time) {
        let Some(index) = self.reservation(purchase) else {
            return;
        };
        let allowances = self.allowances.as_mut().expect("something was put up");
        allowances.pending -= 1;
        let attempt = &mut self.attempts[index];
        let key = attempt.key;
        let (shut, reason) = match allowance {
            Allowance::Granted { next } => (next, Reason::Shared),
            Allowance::Refused { until, reason } => (until, reason),
        };
        allowances.shut(key, shut, reason);
        self.version += 1;
        match (allowance, &mut attempt.paid) {
            (Allowance::Granted { .. }, Some(paid)) => {
                attempt.granted = now;
                let grant = Grant {
                    ticket: purchase.ticket,
                    key,
                    attempt: paid.attempt.take().expect("it was reserved"),
                };
                allowances.bought.push_back((purchase.id, grant));
            }
            (_, paid) => {
                *paid = None;
                self.refund(index);
                self.end_attempt(index);
                self.queue.put_back(purchase.ticket, now, now);
            }
        }
    }

    /// Whether a grant is not to be taken up any more: its key was taken away, or what was paid for
    /// it may have run out while its process was halted. It is to be set aside, and asked for anew.
    #[must_use]
    pub fn is_stale(&self, ticket: Ticket, now: Time) -> bool {
        let Some(index) = self.attempt_of(ticket) else {
            return false;
        };
        let attempt = &self.attempts[index];
        let has_run_out = attempt.paid.is_some() && now.since(attempt.granted) > FRESH;
        // One that is pinned to it has nowhere else to go.
        let has_no_key = || self.keys.is_removed(attempt.key) && self.pin_of(ticket).is_none();
        attempt.started.is_none() && (has_run_out || has_no_key())
    }

    /// Puts a grant up for purchase, if it must be bought.
    pub(super) fn reserve(&mut self, grant: Grant) -> bool {
        let Some(allowances) = &mut self.allowances else {
            return false;
        };
        let index = self.queue.entry(grant.ticket).map(|entry| entry.place);
        let Some(super::queue::Place::Attempt(index)) = index else {
            return false;
        };
        let attempt = &mut self.attempts[index as usize];
        allowances.made += 1;
        allowances.pending += 1;
        attempt.paid = Some(Paid {
            id: allowances.made,
            attempt: Some(grant.attempt),
        });
        allowances.purchases.push_back(Purchase {
            id: allowances.made,
            ticket: grant.ticket,
            key: self.keys.key(grant.key).fingerprint,
            cost: attempt.cost,
        });
        true
    }

    pub(super) fn poll_bought(&mut self) -> Option<Grant> {
        let (_, grant) = self.allowances.as_mut()?.bought.pop_front()?;
        Some(grant)
    }

    /// An attempt will not be sent, or has ended; its purchase is told of once.
    pub(super) fn settle_attempt(&mut self, index: usize, settled: fn(u64) -> Settled) {
        let Some(paid) = self.attempts[index].paid.take() else {
            return;
        };
        let allowances = self.allowances.as_mut().expect("something was put up");
        if paid.attempt.is_some() {
            allowances.pending -= 1;
            allowances.purchases.retain(|other| other.id != paid.id);
        } else {
            // It may end between its purchase and its grant.
            allowances.bought.retain(|(id, _)| *id != paid.id);
        }
        allowances.settled.push_back(settled(paid.id));
    }

    /// The oldest that is reserved and not bought.
    pub(super) fn reserved_ticket(&self) -> Option<Ticket> {
        let reserved = |&(_, attempt): &(usize, &super::grants::Attempt)| {
            attempt.paid.is_some_and(|paid| paid.attempt.is_some())
        };
        let (index, _) = self.attempts.iter().find(reserved)?;
        let place = super::queue::Place::Attempt(index as u32);
        let mut entries = self.queue.entries();
        entries
            .find(|(_, entry)| entry.place == place)
            .map(|(ticket, _)| ticket)
    }

    /// Whatever is reserved and not bought waits again, as if it had never been put up.
    pub(super) fn take_back_reserved(&mut self, now: Time) {
        let reserved: Vec<_> = (self.queue.entries())
            .filter_map(|(ticket, entry)| match entry.place {
                super::queue::Place::Attempt(index) => Some((ticket, index as usize)),
                _ => None,
            })
            .filter(|&(_, index)| self.is_reserved(index))
            .collect();
        for (ticket, index) in reserved {
            self.refund(index);
            self.end_attempt(index);
            self.queue.put_back(ticket, now, now);
        }
    }

    /// Whether a ticket is reserved and not granted: nobody has heard of it yet.
    pub(super) fn is_reserved(&self, index: usize) -> bool {
        let paid = &self.attempts[index].paid;
        paid.is_some_and(|paid| paid.attempt.is_some())
    }

    fn reservation(&self, purchase: &Purchase) -> Option<usize> {
        let index = self.attempt_of(purchase.ticket)?;
        let paid = self.attempts[index].paid?;
        (paid.id == purchase.id && paid.attempt.is_some()).then_some(index)
    }
}

/// How long after its purchase a grant is taken up at the latest. As long as an owner may not
/// listen before its grant is lent; a margin on a shared ceiling should be no less.
const FRESH: Duration = Duration::from_millis(100);
/// Reserved and not bought, at most: enough for several groups at once, and few enough that a
/// refusal of all of them is cheap.
const MOST_PENDING: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::scheduler::concurrency::{Concurrency, FixedSettings};
    use crate::scheduler::events::{Ask, Outcome, Refusal, Verdict};
    use crate::scheduler::pace::PaceSettings;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn scheduler(ceiling: &str) -> Scheduler {
        let settings = Settings {
            ceilings: vec![ceiling.parse().expect("a rate")],
            concurrency: Concurrency::Fixed(FixedSettings::default()),
            pace: PaceSettings::Off,
            ..Settings::default()
        };
        let mut scheduler = Scheduler::new(settings, &[], 1).expect("valid settings");
        scheduler.sell();
        scheduler
    }

    fn purchases(scheduler: &mut Scheduler, now: Time) -> Vec<Purchase> {
        assert_eq!(
            scheduler.poll_grant(now),
            None,
            "nothing is granted unbought"
        );
        std::iter::from_fn(|| scheduler.poll_purchase()).collect()
    }

    const BOUGHT: Allowance = Allowance::Granted { next: Time::START };

    #[test]
    fn nothing_is_granted_before_it_is_bought_and_local_gates_come_first() {
        let mut scheduler = scheduler("2/1s");
        let tickets = [(); 3].map(|()| scheduler.submit(Ask::new(), at(0.0)).expect("room"));
        let bought = purchases(&mut scheduler, at(0.0));
        assert_eq!(bought.len(), 2, "the third must wait for the ceiling here");
        assert_eq!(scheduler.depth(), (3, 0));
        scheduler.on_allowance(&bought[0], BOUGHT, at(0.1));
        let grant = scheduler.poll_grant(at(0.1)).expect("it was bought");
        assert_eq!((grant.ticket, grant.attempt), (tickets[0], 1));
        assert_eq!(scheduler.depth(), (2, 1));
    }

    #[test]
    fn a_refused_purchase_leaves_no_trace_and_shuts_its_key_until_then() {
        let mut scheduler = scheduler("2/1s");
        let first = scheduler.submit(Ask::new(), at(0.0)).expect("room");
        scheduler.submit(Ask::new(), at(0.0)).expect("room");
        let bought = purchases(&mut scheduler, at(0.0));
        let refused = Allowance::Refused {
            until: at(5.0),
            reason: Reason::Shared,
        };
        for purchase in &bought {
            scheduler.on_allowance(purchase, refused, at(0.1));
        }
        assert!(purchases(&mut scheduler, at(0.2)).is_empty());
        assert_eq!(scheduler.poll_timeout(), Some(at(5.0)));
        let again = purchases(&mut scheduler, at(5.0));
        assert_eq!(again.len(), 2, "the ceiling knows nothing of them");
        assert_eq!(again[0].ticket, first, "it kept its place");
        assert_eq!(scheduler.poll_settled(), None);
    }

    #[test]
    fn what_became_of_a_purchase_is_told_once() {
        let mut scheduler = scheduler("9/1s");
        let [dropped, unsent, sent] =
            [(); 3].map(|()| scheduler.submit(Ask::new(), at(0.0)).expect("room"));
        let bought = purchases(&mut scheduler, at(0.0));
        scheduler.cancel(dropped);
        assert_eq!(
            scheduler.poll_settled(),
            Some(Settled::Unsent(bought[0].id))
        );
        // Its answer comes too late, and grants nothing.
        scheduler.on_allowance(&bought[0], BOUGHT, at(0.1));
        scheduler.on_allowance(&bought[1], BOUGHT, at(0.1));
        scheduler.on_allowance(&bought[2], BOUGHT, at(0.1));
        let granted: Vec<_> = std::iter::from_fn(|| scheduler.poll_grant(at(0.1))).collect();
        assert_eq!(granted.len(), 2);
        scheduler.start(unsent, at(0.1));
        let verdict = scheduler.complete(unsent, &Outcome::NotSent, at(0.2));
        assert!(matches!(verdict, Verdict::Again { .. }));
        assert_eq!(
            scheduler.poll_settled(),
            Some(Settled::Unsent(bought[1].id))
        );
        scheduler.start(sent, at(0.2));
        let verdict = scheduler.complete(sent, &Outcome::Broken, at(0.3));
        assert!(matches!(verdict, Verdict::Return { .. }));
        assert_eq!(scheduler.poll_settled(), Some(Settled::Ended(bought[2].id)));
        assert_eq!(scheduler.poll_settled(), None);
    }

    #[test]
    fn a_grant_that_was_bought_long_ago_is_not_taken_up() {
        let mut scheduler = scheduler("9/1s");
        let ticket = scheduler.submit(Ask::new(), at(0.0)).expect("room");
        let bought = purchases(&mut scheduler, at(0.0));
        scheduler.on_allowance(&bought[0], BOUGHT, at(0.1));
        assert!(scheduler.poll_grant(at(0.1)).is_some());
        assert!(!scheduler.is_stale(ticket, at(0.2)));
        assert!(
            scheduler.is_stale(ticket, at(3.0)),
            "it was halted meanwhile"
        );
        assert!(scheduler.set_aside(ticket, at(3.0)));
        scheduler.resume(ticket);
        assert_eq!(
            scheduler.poll_settled(),
            Some(Settled::Unsent(bought[0].id))
        );
        assert_eq!(purchases(&mut scheduler, at(3.0))[0].ticket, ticket);
    }

    #[test]
    fn who_is_reserved_is_cancelled_and_closed_like_all_who_wait() {
        let mut scheduler = scheduler("9/1s");
        let grouped = Ask::new().group("map");
        let first = scheduler.submit(grouped, at(0.0)).expect("room");
        let second = scheduler.submit(Ask::new(), at(0.0)).expect("room");
        assert_eq!(purchases(&mut scheduler, at(0.0)).len(), 2);
        let cancelled = scheduler.cancel_group(&"map".into(), None);
        assert_eq!((cancelled.removed, cancelled.in_flight), (1, 0));
        scheduler.close();
        let refused: Vec<_> = std::iter::from_fn(|| scheduler.poll_refusal(at(0.1))).collect();
        assert_eq!(
            refused,
            [(first, Refusal::Cancelled), (second, Refusal::Closed)]
        );
        assert_eq!(scheduler.depth(), (0, 0));
    }
}
