//! Lease mode: shares of rates that are borrowed by demand, and renewed while they are used.

use std::time::Duration;

use smallvec::SmallVec;

use crate::Time;
use crate::scheduler::events::Cost;

use super::super::store::{Claim, Lent, Limit};
use super::limits::Known;
use super::{Call, Desk, IDLE_LEASES, RENEWALS};

impl Desk {
    /// Takes an ask from the shares that a line borrows, or says when it can be.
    pub(super) fn borrow(&mut self, line: usize, cost: &Cost, now: Time) -> Result<(), Time> {
        let mut until = now;
        for &place in &self.lines[line].lent {
            let limit = &mut self.limits[place];
            limit.used_at = now;
            let ready = limit.pace.ready(now).unwrap_or(now + CLAIM_WAIT);
            if ready > now {
                let cost = limit.cost(cost);
                limit.demand.on_held_up(cost);
            }
            until = until.max(ready.min(now + LOOK));
        }
        if until > now {
            return Err(until);
        }
        for &place in &self.lines[line].lent {
            let limit = &mut self.limits[place];
            let cost = limit.cost(cost);
            limit.pace.spend(cost, now);
            let is_last = self.waiting > 0 && limit.pace.ready(now) > Some(now);
            limit.demand.on_used(cost, is_last);
        }
        Ok(())
    }

    /// Puts back what [`Desk::borrow`] took: nothing was sent for it.
    pub(super) fn return_borrowed(&mut self, line: usize, cost: &Cost, now: Time) {
        for &place in &self.lines[line].lent {
            let limit = &mut self.limits[place];
            let cost = limit.cost(cost);
            limit.pace.give_back(cost, now);
            limit.demand.on_unused(cost);
        }
    }

    /// When the shares of a line allow another request.
    pub(super) fn next_borrowed(&self, line: usize, now: Time) -> Time {
        let next = self.lines[line].lent.iter().map(|&place| {
            let limit = &self.limits[place];
            if limit.cost(&Cost::ONE) == 0 {
                return now;
            }
            limit.pace.ready(now).unwrap_or(now)
        });
        next.max().unwrap_or(now).min(now + LOOK)
    }

    /// The next claim that is due.
    pub(super) fn poll_claim(&mut self, now: Time) -> Option<Call> {
        let lent: SmallVec<[usize; 8]> = self.lent_places();
        for place in lent {
            let limit = &self.limits[place];
            if limit.claim.is_flying {
                continue;
            }
            if self.leaves_at(limit) <= now {
                if limit.pace.share(now) > 0 {
                    return Some(self.claim(place, true, now));
                }
                self.limits[place].pace.set(0, now, now);
                continue;
            }
            if self.claim_due(limit, now) <= now {
                let had_its_turn = self.had_its_turn(limit, now);
                if had_its_turn {
                    self.limits[place].claim.rests_until = now + self.sharing.lease;
                }
                return Some(self.claim(place, had_its_turn, now));
            }
        }
        None
    }

    /// When a limit's share is claimed (again).
    pub(super) fn claim_due(&self, limit: &Known, now: Time) -> Time {
        if !limit.shared.is_lent {
            return Time::NEVER;
        }
        let claim = &limit.claim;
        let is_hungry = limit.demand.is_held_up();
        let is_unused = self.idle_since.is_some() && !is_hungry;
        if limit.pace.share(now) == 0 && (is_unused || self.leaves_at(limit) <= now) {
            return Time::NEVER;
        }
        if is_hungry && self.want(limit, now) > claim.want + claim.want / 4 {
            // More is wanted than the store was told.
            return claim.due.min(claim.since + URGENT).max(claim.rests_until);
        }
        claim.due.max(claim.rests_until)
    }

    /// Whether a share is given back for others: there are fewer than want one, and without turns
    /// some would have none for ever. So long that what a change costs, the time in which what was
    /// sent is earned, is a small part of it.
    fn had_its_turn(&self, limit: &Known, now: Time) -> bool {
        let turn = self.sharing.lease.max(limit.shared.limit.window) * TURN;
        let claim = &limit.claim;
        claim.is_crowded && limit.pace.share(now) > 0 && now >= claim.had_since + turn
    }

    /// When a share is given back that nobody has used: its key may be gone while others are busy.
    pub(super) fn leaves_at(&self, limit: &Known) -> Time {
        match self.idle_since {
            Some(since) if self.is_closing => since,
            _ => limit.used_at + self.sharing.lease * IDLE_LEASES,
        }
    }

    fn lent_places(&self) -> SmallVec<[usize; 8]> {
        let places = 0..self.limits.len();
        places
            .filter(|&place| self.limits[place].shared.is_lent)
            .collect()
    }

    fn claim(&mut self, place: usize, is_last: bool, now: Time) -> Call {
        let (owner, lease) = (self.owner, self.sharing.lease);
        let epoch = self.known_epoch(now);
        let want = match is_last {
            true => 0,
            false => self.want(&self.limits[place], now),
        };
        let limit = &mut self.limits[place];
        let window = limit.shared.limit.window;
        limit.demand.roll(window, lease / RENEWALS, now);
        let claim = &mut limit.claim;
        claim.is_flying = true;
        claim.since = now;
        claim.want = want;
        let claim = Claim {
            owner,
            epoch,
            limit: limit.shared.limit.clone(),
            want,
            has: limit.pace.share(now),
            lease,
            owes: limit.pace.owes(now),
            is_last,
        };
        limit.claim.due = now + lease / RENEWALS;
        if is_last {
            // Nothing more is sent from it: from now on it may be somebody else's.
            limit.pace.set(0, now, now);
        }
        Call::Lend { place, claim }
    }

    /// A share was lent.
    pub(super) fn on_lent(&mut self, place: usize, claim: &Claim, lent: &Lent, now: Time) {
        let limit = &mut self.limits[place];
        limit.claim.is_flying = false;
        if claim.is_last {
            return;
        }
        // The lease runs from when the claim was sent: the store counts from no earlier.
        limit.lent_until = limit.claim.since + lent.lasts;
        limit.pace.set(lent.share, limit.lent_until, now);
        // For each share but one as much is kept back, and none is less than one.
        limit.claim.is_crowded = 2 * u64::from(lent.owners) > claim.limit.amount + 1;
        if claim.has == 0 {
            limit.claim.had_since = now;
            if lent.owners > 1 {
                limit.pace.join();
            }
        }
        if lent.share < claim.has {
            // The store lends the rest to others when it hears that this process keeps to less.
            limit.claim.due = now;
        } else if lent.is_short {
            limit.claim.due = limit.claim.due.min(now + SHORT);
        }
    }

    /// How much of a rate this process could use.
    fn want(&self, limit: &Known, now: Time) -> u64 {
        let Limit { amount, window, .. } = limit.shared.limit;
        let waiting = self.waiting.div_ceil(self.lines.len().max(1));
        let renewal = self.sharing.lease / RENEWALS;
        limit.demand.want(amount, window, waiting, renewal, now)
    }
}

/// Between two claims of one that waits: a few round trips.
const URGENT: Duration = Duration::from_millis(50);
/// A share may change at any answer: whoever waits for its pace looks again this soon. A person
/// does not notice it.
const LOOK: Duration = Duration::from_millis(20);
/// Until a claim of one that waits is answered.
const CLAIM_WAIT: Duration = Duration::from_millis(5);
/// Leases, or windows, that a turn lasts.
const TURN: u32 = 2;
/// While others hold what is due to this process: they give it back when they renew.
const SHORT: Duration = Duration::from_millis(100);
