//! What is owed to the store: payments that were not used, slots that are free, and what was sent
//! without it. It is told when the store is there, and again until it has been heard.

use std::collections::{HashMap, VecDeque};

use crate::Time;

use super::super::store::{Limit, OpId, Refund, Release, Run, Slot, Take};
use super::limits::Costs;
use super::{Call, Desk};

/// Everything owed.
#[derive(Debug, Default)]
pub(super) struct Debts {
    /// By payment: its line, and which of its asks.
    refunds: HashMap<OpId, (usize, Vec<(u32, Costs)>)>,
    /// With the place of their limit.
    slots: Vec<(usize, Slot)>,
    sent: VecDeque<Sent>,
    /// Calls that got no answer.
    again: VecDeque<Call>,
}

/// Something that was sent without the store.
#[derive(Debug)]
struct Sent {
    line: usize,
    costs: Costs,
    at: Time,
    purchase: Option<u64>,
}

impl Debts {
    pub(super) fn any(&self) -> bool {
        !(self.refunds.is_empty()
            && self.slots.is_empty()
            && self.sent.is_empty()
            && self.again.is_empty())
    }

    /// An ask of a payment was not sent.
    pub(super) fn give_back(&mut self, op: OpId, line: usize, item: u32, costs: Costs) {
        let (_, items) = self.refunds.entry(op).or_insert((line, Vec::new()));
        items.push((item, costs));
    }

    /// A slot is free.
    pub(super) fn free(&mut self, place: usize, op: OpId, item: u32) {
        self.slots.push((place, Slot { op, item }));
    }

    /// Something was sent that the store has not counted.
    pub(super) fn sent(&mut self, line: usize, costs: Costs, purchase: Option<u64>, at: Time) {
        if costs.is_empty() {
            return;
        }
        if self.sent.len() >= MOST_SENT {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent {
            line,
            costs,
            at,
            purchase,
        });
    }

    /// It was not sent after all.
    pub(super) fn unsent(&mut self, purchase: u64) {
        self.sent.retain(|sent| sent.purchase != Some(purchase));
    }

    /// The lines of all that is owed.
    pub(super) fn lines(&self) -> impl Iterator<Item = usize> + '_ {
        let refunds = self.refunds.values().map(|(line, _)| *line);
        refunds.chain(self.sent.iter().map(|sent| sent.line))
    }

    /// A call that owed something got no answer.
    pub(super) fn again(&mut self, call: Call) {
        if self.again.len() >= MOST_AGAIN {
            self.again.pop_front();
        }
        self.again.push_back(call);
    }
}

impl Desk {
    /// The next thing that is owed.
    pub(super) fn poll_debt(&mut self, now: Time) -> Option<Call> {
        if let Some(call) = self.debts.again.pop_front() {
            return Some(call);
        }
        if let Some(&op) = self.debts.refunds.keys().next() {
            let (line, items) = self.debts.refunds.remove(&op).expect("it was found");
            return Some(Call::Refund(Refund {
                op,
                epoch: self.known_epoch(now),
                limits: self.lines[line].paid_from.clone(),
                items,
            }));
        }
        if !self.debts.slots.is_empty() {
            return Some(self.release_call());
        }
        self.report_call(now)
    }

    fn release_call(&mut self) -> Call {
        let owed = std::mem::take(&mut self.debts.slots);
        let mut places: Vec<usize> = Vec::new();
        let mut slots = Vec::new();
        for (place, slot) in owed {
            let index = places.iter().position(|&other| other == place);
            let index = index.unwrap_or_else(|| {
                places.push(place);
                places.len() - 1
            });
            slots.push((index as u32, slot));
        }
        let limits: Vec<Limit> = places
            .iter()
            .map(|&place| self.limits[place].shared.limit.clone())
            .collect();
        Call::Release(Release { limits, slots })
    }

    /// What was sent without the store and still counts, of one line.
    fn report_call(&mut self, now: Time) -> Option<Call> {
        loop {
            let line = self.debts.sent.front()?.line;
            let limits = self.lines[line].paid_from.clone();
            let longest = limits.iter().map(|limit| limit.window).max()?;
            let mut runs: Vec<Run> = Vec::new();
            let (mine, others) = std::mem::take(&mut self.debts.sent)
                .into_iter()
                .partition::<VecDeque<_>, _>(|sent| sent.line == line);
            self.debts.sent = others;
            for sent in mine.into_iter().filter(|sent| sent.at + longest > now) {
                match runs.last_mut() {
                    Some(run) if run.costs == sent.costs => run.count += 1,
                    _ => runs.push(Run {
                        count: 1,
                        costs: sent.costs,
                    }),
                }
            }
            if !runs.is_empty() {
                let op = self.next_op();
                return Some(Call::Report(Take {
                    op,
                    epoch: self.known_epoch(now),
                    limits,
                    runs,
                    is_sent: true,
                }));
            }
        }
    }
}

/// Sends kept for the report; beyond it the oldest are forgotten: they count for the shortest time.
const MOST_SENT: usize = 65_536;
/// Calls kept for another try: each is owed something that ends by itself within a window or lease.
const MOST_AGAIN: usize = 1024;
