//! Without the store, or with one that has lost what it knew: each limit's policy decides.

use std::time::Duration;

use smallvec::SmallVec;

use crate::Time;
use crate::scheduler::allowance::Purchase;
use crate::scheduler::events::{Reason, What};

use super::super::store::{Epoch, Standing, StoreError};
use super::payments::Batch;
use super::{Desk, Stage};

impl Desk {
    /// Whether a line must do without the store.
    pub(super) fn is_away(&self, line: usize, now: Time) -> bool {
        let line = &self.lines[line];
        if line.lost_until > now {
            return true;
        }
        // What was borrowed still holds.
        let holds = |place: &usize| self.limits[*place].pace.share(now) > 0;
        let is_covered = line.exact.is_empty() && line.lent.iter().all(holds);
        self.circuit.is_open() && !is_covered
    }

    /// Lets the policy of each limit decide.
    pub(super) fn decide_alone(&mut self, line: usize, purchase: &Purchase, now: Time) {
        let places = self.lines[line].exact.iter().chain(&self.lines[line].lent);
        let places: SmallVec<[usize; 4]> = places.copied().collect();
        let mut until = now;
        for &place in &places {
            let limit = &mut self.limits[place];
            let cost = limit.cost(&purchase.cost);
            until = until.max(limit.alone(cost, now));
        }
        if until > now {
            let lost = self.lines[line].lost_until;
            let looks = if lost > now {
                lost
            } else {
                self.circuit.probe_at().clamp(now + AGAIN, now + LOOK)
            };
            // The policy says when it will allow it, unless the store is back before.
            let until = until.min(looks);
            return self.refuse(purchase, until, Reason::StoreAway);
        }
        for &place in &self.lines[line].lent {
            let limit = &mut self.limits[place];
            let cost = limit.cost(&purchase.cost);
            if limit.keeps_share(now) {
                limit.pace.spend(cost, now);
            }
        }
        self.sharing.counts.add(|counters| &counters.without, 1);
        self.allow(line, purchase, None, now);
        let costs = self.rate_costs(line, &purchase.cost);
        self.debts.sent(line, costs, Some(purchase.id), now);
        if let Some(Stage::Granted(granted)) = self.purchases.get_mut(&purchase.id) {
            granted.without = true;
        }
    }

    pub(super) fn go_away(&mut self, error: &StoreError, now: Time) {
        if self.circuit.on_failure(now) {
            self.sharing.counts.add(|counters| &counters.times_away, 1);
            let why = error.to_string();
            self.sharing.counts.trouble(&why);
            self.changes.push_back(What::StoreAway { why: why.into() });
        }
        // Those who wait are answered by policy and not by a store that does not answer.
        for line in 0..self.lines.len() {
            if self.lines[line].flying.as_ref().is_some_and(Batch::is_due) {
                self.on_unpaid(line, now);
            }
            let waiting = std::mem::take(&mut self.lines[line].waiting);
            for purchase in waiting {
                self.return_borrowed(line, &purchase.cost, now);
                self.decide_alone(line, &purchase, now);
            }
        }
    }

    /// The store answers again.
    pub(super) fn come_back(&mut self, now: Time) {
        for limit in &mut self.limits {
            // Somebody else may have been lent what this process went on with.
            let share = limit.pace.last_share();
            if limit.pace.until() > limit.lent_until {
                limit.pace.set(share, now, now);
            }
            limit.claim.due = now;
        }
        self.beat.due = now;
        self.beat.full_at = now + self.sharing.lease;
    }

    /// Compares the store's story with the one that was known.
    pub(super) fn hear(&mut self, standing: &Standing, now: Time) {
        let known = self.known_epoch(now);
        if let Some(known) = known {
            if known.id != standing.epoch.id {
                self.sharing.counts.add(|counters| &counters.times_lost, 1);
                self.changes.push_back(What::StoreLost);
                self.facts.read_all();
                self.limits
                    .iter_mut()
                    .for_each(|limit| limit.claim.due = now);
                self.beat.due = now;
                self.beat.full_at = now + self.sharing.lease;
            } else if known.sequence > standing.epoch.sequence {
                // An answer that was overtaken by another.
                return;
            }
        }
        self.epoch = Some((standing.epoch.clone(), now));
        self.facts.on_version(standing.facts);
    }

    /// What to tell the store of its story; nothing after a pause in which it may have been
    /// forgotten by right.
    pub(super) fn known_epoch(&self, now: Time) -> Option<Epoch> {
        let (epoch, at) = self.epoch.as_ref()?;
        let is_kept = now.since(*at) < STORY || now < self.counts_until;
        is_kept.then(|| epoch.clone())
    }
}

/// Sooner than a store's story can have ended (an hour, see the scripts). After a payment it lasts
/// for two of its windows at least.
const STORY: Duration = Duration::from_secs(1800);
/// Before a purchase is put up again that no policy allows: a probe may be on its way.
const AGAIN: Duration = Duration::from_millis(10);
/// And at the latest: the store may be back.
const LOOK: Duration = Duration::from_millis(100);
