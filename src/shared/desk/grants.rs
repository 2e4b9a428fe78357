//! What is allowed, refused, taken back and ended, and what each costs.

use std::time::Duration;

use smallvec::SmallVec;

use crate::Time;
use crate::scheduler::allowance::{Allowance, Purchase};
use crate::scheduler::events::{Cost, Reason};

use super::super::store::OpId;
use super::limits::{Costs, Known};
use super::{Desk, Granted, Stage};

impl Desk {
    /// A purchase is allowed.
    pub(super) fn allow(
        &mut self,
        line: usize,
        purchase: &Purchase,
        payment: Option<(OpId, u32)>,
        now: Time,
    ) {
        for place in self.lines[line].exact.iter().chain(&self.lines[line].lent) {
            let limit = &mut self.limits[*place];
            let cost = limit.cost(&purchase.cost);
            limit.use_up(cost, now);
            if !limit.is_rate() {
                limit.held += 1;
            }
        }
        let granted = Granted {
            line,
            cost: purchase.cost,
            at: now,
            payment,
            without: false,
        };
        self.purchases.insert(purchase.id, Stage::Granted(granted));
        let next = self.next_borrowed(line, now);
        self.answers
            .push_back((*purchase, Allowance::Granted { next }));
    }

    pub(super) fn refuse(&mut self, purchase: &Purchase, until: Time, reason: Reason) {
        self.purchases.remove(&purchase.id);
        self.sharing.counts.add(|counters| &counters.refused, 1);
        let refused = Allowance::Refused { until, reason };
        self.answers.push_back((*purchase, refused));
    }

    /// A purchase is to be put up anew, when what was paid for it is given back.
    pub(super) fn put_back(&mut self, purchase: &Purchase, now: Time) {
        self.purchases.remove(&purchase.id);
        let refused = Allowance::Refused {
            until: now + GIVEN_BACK,
            reason: Reason::Shared,
        };
        self.answers.push_back((*purchase, refused));
    }

    /// Nothing was sent for what was allowed.
    pub(super) fn take_back(&mut self, id: u64, granted: &Granted, now: Time) {
        let line = granted.line;
        let places: SmallVec<[usize; 4]> = {
            let line = &self.lines[line];
            line.exact.iter().chain(&line.lent).copied().collect()
        };
        for place in places {
            let limit = &mut self.limits[place];
            let cost = limit.cost(&granted.cost);
            limit.unuse(cost, granted.at, now);
            if !limit.is_rate() {
                limit.held = limit.held.saturating_sub(1);
            }
        }
        self.return_borrowed(line, &granted.cost, now);
        if granted.without {
            self.debts.unsent(id);
        }
        if let Some((op, item)) = granted.payment {
            let costs = self.costs(line, &granted.cost);
            self.debts.give_back(op, line, item, costs);
        }
    }

    /// An attempt has ended: its slots are free.
    pub(super) fn end(&mut self, granted: &Granted) {
        for index in 0..self.lines[granted.line].exact.len() {
            let place = self.lines[granted.line].exact[index];
            if !self.limits[place].is_rate() {
                self.limits[place].held = self.limits[place].held.saturating_sub(1);
                if let Some((op, item)) = granted.payment {
                    self.debts.free(place, op, item);
                }
            }
        }
    }

    /// What an ask costs at the limits that a line pays for exactly.
    pub(super) fn costs(&self, line: usize, cost: &Cost) -> Costs {
        let places = self.lines[line].exact.iter();
        places.map(|&place| self.limits[place].cost(cost)).collect()
    }

    /// The same without slots: what was sent without the store holds none there.
    pub(super) fn rate_costs(&self, line: usize, cost: &Cost) -> Costs {
        let limits = self.lines[line]
            .exact
            .iter()
            .map(|&place| &self.limits[place]);
        let cost = |limit: &Known| if limit.is_rate() { limit.cost(cost) } else { 0 };
        limits.map(cost).collect()
    }
}

/// A refund that leaves at once is at the store before a payment that leaves so much later.
const GIVEN_BACK: Duration = Duration::from_millis(5);
