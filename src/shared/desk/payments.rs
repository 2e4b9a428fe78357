//! Exact mode: groups of asks that are paid for together.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;
use crate::scheduler::allowance::Purchase;
use crate::scheduler::events::Reason;

use super::super::store::{Limit, OpId, Run, Take, Taken};
use super::limits::SLOT_WAIT;
use super::{Call, Desk, Stage};

/// A payment on its way.
#[derive(Debug)]
pub(super) struct Batch {
    op: OpId,
    purchases: Vec<Purchase>,
    take: Take,
    /// When it was asked for last.
    called: Time,
    /// It is to be asked for, or asked for once more.
    is_due: bool,
    tries: u32,
}

impl Batch {
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    pub(super) fn call_again(&mut self) {
        self.is_due = true;
    }
}

impl Desk {
    /// The next payment: of all who stand in a line that has none on its way.
    pub(super) fn poll_take(&mut self, now: Time) -> Option<Call> {
        for line in 0..self.lines.len() {
            if let Some(batch) = &mut self.lines[line].flying {
                if batch.is_due {
                    batch.is_due = false;
                    batch.called = now;
                    batch.tries += 1;
                    let take = batch.take.clone();
                    return Some(Call::Take { line, take });
                }
                continue;
            }
            if !self.lines[line].waiting.is_empty() {
                return Some(self.pay(line, now));
            }
        }
        None
    }

    fn pay(&mut self, line: usize, now: Time) -> Call {
        let op = self.next_op();
        let waiting = &mut self.lines[line].waiting;
        let count = waiting.len().min(GROUP);
        let purchases: Vec<Purchase> = waiting.drain(..count).collect();
        let mut runs: Vec<Run> = Vec::new();
        for purchase in &purchases {
            self.purchases.insert(purchase.id, Stage::Flying);
            let costs = self.costs(line, &purchase.cost);
            match runs.last_mut() {
                Some(run) if run.costs == costs => run.count += 1,
                _ => runs.push(Run { count: 1, costs }),
            }
        }
        let take = Take {
            op,
            epoch: self.known_epoch(now),
            limits: self.lines[line].paid_from.clone(),
            runs,
            is_sent: false,
        };
        self.lines[line].flying = Some(Batch {
            op,
            purchases,
            take: take.clone(),
            called: now,
            is_due: false,
            tries: 1,
        });
        Call::Take { line, take }
    }

    /// A payment was answered.
    pub(super) fn on_taken(&mut self, line: usize, taken: Taken, now: Time) {
        let Some(batch) = self.lines[line].flying.take() else {
            return;
        };
        let took = now.since(batch.called);
        let is_late = taken.age + took > self.ways.usual() + LATE;
        self.ways.took(took);
        let has_slots = self.lines[line]
            .exact
            .iter()
            .any(|&p| !self.limits[p].is_rate());
        let mut wait = taken.wait.unwrap_or_default();
        if has_slots && !taken.is_lost {
            wait = wait.min(SLOT_WAIT);
        }
        if taken.wait.is_some() {
            let until = now + wait;
            if taken.is_lost {
                self.lines[line].lost_until = until;
            } else {
                self.lines[line].refused_until = until;
            }
        }
        if taken.granted > 0 {
            let windows = self.lines[line].paid_from.iter().map(Limit::memory);
            let counts_until = batch.called + windows.max().unwrap_or_default();
            self.counts_until = self.counts_until.max(counts_until);
        }
        self.sharing
            .counts
            .add(|counters| &counters.granted, taken.granted.into());
        for (item, purchase) in (0u32..).zip(&batch.purchases) {
            let is_dropped = matches!(self.purchases.get(&purchase.id), Some(Stage::Dropped));
            let is_paid = item < taken.granted;
            if is_dropped {
                self.purchases.remove(&purchase.id);
                self.return_borrowed(line, &purchase.cost, now);
                if is_paid {
                    let costs = self.costs(line, &purchase.cost);
                    self.debts.give_back(batch.op, line, item, costs);
                }
            } else if is_paid && is_late {
                // This process was halted meanwhile. It is paid for anew, now.
                let costs = self.costs(line, &purchase.cost);
                self.debts.give_back(batch.op, line, item, costs);
                self.return_borrowed(line, &purchase.cost, now);
                self.put_back(purchase, now);
            } else if is_paid {
                self.allow(line, purchase, Some((batch.op, item)), now);
            } else {
                self.return_borrowed(line, &purchase.cost, now);
                if taken.is_lost {
                    self.decide_alone(line, purchase, now);
                } else {
                    let until = now + wait.max(Duration::from_micros(1));
                    self.refuse(purchase, until, Reason::Shared);
                }
            }
        }
    }

    /// A payment failed: whether it is asked for again, under its own name.
    pub(super) fn ask_once_more(&mut self, line: usize) -> bool {
        match &mut self.lines[line].flying {
            Some(batch) if batch.tries < TRIES => {
                batch.is_due = true;
                true
            }
            _ => false,
        }
    }

    /// Nobody knows whether a payment was made. Whoever it was for is answered by policy, and it is
    /// owed back: what arrives late then pays nothing.
    pub(super) fn on_unpaid(&mut self, line: usize, now: Time) {
        let Some(batch) = self.lines[line].flying.take() else {
            return;
        };
        for (item, purchase) in (0u32..).zip(&batch.purchases) {
            let costs = self.costs(line, &purchase.cost);
            self.debts.give_back(batch.op, line, item, costs);
            self.return_borrowed(line, &purchase.cost, now);
            if let Some(Stage::Dropped) = self.purchases.get(&purchase.id) {
                self.purchases.remove(&purchase.id);
            } else {
                self.decide_alone(line, purchase, now);
            }
        }
    }
}

/// How long payments take on their way.
#[derive(Debug, Default)]
pub(super) struct Ways {
    last: VecDeque<Duration>,
}

impl Ways {
    fn took(&mut self, way: Duration) {
        if self.last.len() >= WAYS {
            self.last.pop_front();
        }
        self.last.push_back(way);
    }

    /// What is usual: twice the fastest of the last ones.
    fn usual(&self) -> Duration {
        let fastest = self.last.iter().min();
        fastest.copied().unwrap_or_default().saturating_mul(2)
    }
}

/// A payment whose answer took longer than usual by this is not used: what is sent now belongs to
/// another window than what was paid for then. As much as a grant may wait to be taken up.
const LATE: Duration = Duration::from_millis(100);
/// Enough that one halt does not pass for the usual, few enough that a store that has become slow
/// is soon known as such.
const WAYS: usize = 8;
/// Asks that are paid for together, at most: the script looks at each of them, and nobody else is
/// served meanwhile (a tenth of a millisecond).
const GROUP: usize = 256;
/// A lost connection shows at the first call after it, and is there again for the second.
const TRIES: u32 = 2;
