//! The desk of one limiter: takes what the machine puts up for purchase, says what to call the
//! store for, and answers. A plain state machine, told the time.
//!
//! A key's purchases stand in one line. In exact mode a line has at most one payment on its way;
//! those who come meanwhile are paid for together with the next, so a busy process needs few round
//! trips. A refusal shuts the line until it ends, and costs the store nothing more. In lease mode
//! a purchase is answered at once from the shares that were borrowed.
//!
//! A payment of which no answer came is asked for once more under its own name. If that fails too
//! the circuit opens: the policy of each limit decides, and what was paid in vain is owed back.

mod alone;
mod beats;
mod call;
mod debts;
mod demand;
mod facts;
mod grants;
mod leases;
mod limits;
mod lines;
mod payments;
mod terms;
mod words;

use std::collections::{HashMap, VecDeque};

use crate::Time;
use crate::config::Settings;
use crate::scheduler::allowance::{Allowance, Purchase, Settled};
use crate::scheduler::events::{Cost, Fingerprint, Reason, What};

use beats::BeatState;
use call::Said;
pub(crate) use call::{Call, Heard};
use debts::Debts;
use facts::Facts;
use limits::Known;
use lines::{Line, Spare};
use payments::{Batch, Ways};
use terms::Terms;

use super::circuit::Circuit;
use super::sharing::Sharing;
use super::store::{Epoch, OpId, Owner, StoreError};

/// Everything that one limiter knows of what it shares.
#[derive(Debug)]
pub(crate) struct Desk {
    sharing: Sharing,
    settings: Settings,
    owner: Owner,
    ops: u64,
    /// The limits, each once, whichever keys have it.
    limits: Vec<Known>,
    lines: Vec<Line>,
    line_of: HashMap<Fingerprint, usize>,
    spare: Spare,
    /// By the number of the purchase.
    purchases: HashMap<u64, Stage>,
    answers: VecDeque<(Purchase, Allowance)>,
    changes: VecDeque<What>,
    circuit: Circuit,
    ways: Ways,
    /// Calls on their way that tell the store something which it would miss.
    owing: u32,
    debts: Debts,
    facts: Facts,
    terms: Terms,
    epoch: Option<(Epoch, Time)>,
    /// Until when something that was paid for counts in the store.
    counts_until: Time,
    owners: u32,
    /// It was asked whether it may forget.
    has_asked_risk: bool,
    beat: BeatState,
    /// How many asks wait at the machine, for whatever.
    waiting: usize,
    /// Since when nothing is wanted of it.
    idle_since: Option<Time>,
    is_closing: bool,
}

/// Where a purchase is.
#[derive(Debug)]
enum Stage {
    Waiting(usize),
    Flying,
    /// Nothing will be sent for it, but its payment is on its way.
    Dropped,
    Granted(Granted),
}

/// A purchase that was allowed, until its attempt ends.
#[derive(Debug)]
struct Granted {
    line: usize,
    cost: Cost,
    at: Time,
    /// The payment, and which of its asks this is.
    payment: Option<(OpId, u32)>,
    /// It was allowed without the store.
    without: bool,
}

impl Desk {
    pub(crate) fn new(sharing: Sharing, settings: Settings, owner: Owner) -> Self {
        // The settings are checked before the desk is opened.
        let shared = sharing.limits(&settings, Fingerprint::ANONYMOUS);
        Self {
            terms: Terms::new(&shared.unwrap_or_default(), owner),
            owners: sharing.processes,
            sharing,
            settings,
            owner,
            ops: 0,
            limits: Vec::new(),
            lines: Vec::new(),
            line_of: HashMap::new(),
            spare: Spare::default(),
            purchases: HashMap::new(),
            answers: VecDeque::new(),
            changes: VecDeque::new(),
            circuit: Circuit::default(),
            ways: Ways::default(),
            owing: 0,
            debts: Debts::default(),
            facts: Facts::default(),
            epoch: None,
            counts_until: Time::START,
            has_asked_risk: false,
            beat: BeatState::default(),
            waiting: 0,
            idle_since: None,
            is_closing: false,
        }
    }

    /// Whether anything is to be paid for at all; if not, only facts are shared.
    pub(crate) fn sells(&self) -> Result<bool, StoreError> {
        let limits = self
            .sharing
            .limits(&self.settings, Fingerprint::ANONYMOUS)?;
        Ok(!limits.is_empty())
    }

    /// The machine puts an attempt up.
    pub(crate) fn on_purchase(&mut self, purchase: Purchase, now: Time) {
        let line = self.line(purchase.key, now);
        self.idle_since = None;
        if self.is_away(line, now) {
            return self.decide_alone(line, &purchase, now);
        }
        if let Err(until) = self.borrow(line, &purchase.cost, now) {
            return self.refuse(&purchase, until, Reason::Shared);
        }
        if self.lines[line].exact.is_empty() {
            self.sharing.counts.add(|counters| &counters.granted, 1);
            return self.allow(line, &purchase, None, now);
        }
        let until = self.lines[line].refused_until;
        if until > now {
            self.return_borrowed(line, &purchase.cost, now);
            return self.refuse(&purchase, until, Reason::Shared);
        }
        self.purchases.insert(purchase.id, Stage::Waiting(line));
        self.lines[line].waiting.push_back(purchase);
    }

    /// So many asks wait.
    pub(crate) fn on_waiting(&mut self, waiting: usize) {
        self.waiting = waiting;
    }

    /// What became of an attempt.
    pub(crate) fn on_settled(&mut self, settled: Settled, now: Time) {
        let (id, is_unsent) = match settled {
            Settled::Unsent(id) => (id, true),
            Settled::Ended(id) => (id, false),
            Settled::Extra(key) => {
                let line = self.line(key, now);
                let costs = self.rate_costs(line, &Cost::ONE);
                return self.debts.sent(line, costs, None, now);
            }
        };
        match self.purchases.remove(&id) {
            Some(Stage::Waiting(line)) => {
                let waiting = &mut self.lines[line].waiting;
                if let Some(place) = waiting.iter().position(|other| other.id == id) {
                    let purchase = waiting.remove(place).expect("it was found");
                    self.return_borrowed(line, &purchase.cost, now);
                }
            }
            Some(Stage::Flying | Stage::Dropped) => {
                self.purchases.insert(id, Stage::Dropped);
            }
            Some(Stage::Granted(granted)) if is_unsent => self.take_back(id, &granted, now),
            Some(Stage::Granted(granted)) => self.end(&granted),
            None => {}
        }
    }

    /// The next purchase that was answered.
    pub(crate) fn poll_answer(&mut self) -> Option<(Purchase, Allowance)> {
        self.answers.pop_front()
    }

    /// The next thing to tell the user.
    pub(crate) fn poll_change(&mut self) -> Option<What> {
        self.changes.pop_front()
    }

    /// The next call to make, if one is due.
    pub(crate) fn poll_call(&mut self, now: Time) -> Option<Call> {
        self.look_idle(now);
        if self.circuit.is_open() {
            if now < self.circuit.probe_at() || self.beat.is_flying {
                return None;
            }
            self.circuit.on_probe();
            return Some(self.beat_call(self.sharing.lease, now));
        }
        if let Some(take) = self.poll_take(now) {
            return Some(take);
        }
        if let Some(debt) = self.poll_debt(now) {
            self.owing += 1;
            return Some(debt);
        }
        if let Some(claim) = self.poll_claim(now) {
            return Some(claim);
        }
        if let Some(fact) = self.poll_fact(now) {
            self.owing += u32::from(fact.is_owed());
            return Some(fact);
        }
        if let Some(terms) = self.poll_terms(now) {
            return Some(terms);
        }
        // Once it has answered, so that nobody waits for this.
        if !self.has_asked_risk && self.epoch.is_some() && !self.is_closing {
            self.has_asked_risk = true;
            return Some(Call::Risk);
        }
        self.poll_beat(now)
    }

    /// Nobody makes the calls any more that were on their way: they are made again.
    pub(crate) fn call_again(&mut self, now: Time) {
        let flying = self
            .lines
            .iter_mut()
            .filter_map(|line| line.flying.as_mut());
        flying.for_each(Batch::call_again);
        self.beat.is_flying = false;
        self.facts.on_silence();
        self.owing = 0;
        for limit in &mut self.limits {
            if std::mem::take(&mut limit.claim.is_flying) {
                limit.claim.due = now;
            }
        }
    }

    /// Whether [`Desk::poll_call`] has something to do now.
    pub(crate) fn has_call(&self, now: Time) -> bool {
        if self.circuit.is_open() {
            return now >= self.circuit.probe_at() && !self.beat.is_flying;
        }
        let is_due = |line: &Line| match &line.flying {
            Some(batch) => batch.is_due(),
            None => !line.waiting.is_empty(),
        };
        let is_owed = self.debts.any() || self.facts.has_call();
        is_owed || self.lines.iter().any(is_due) || self.next_call(now) <= now
    }

    /// When [`Desk::poll_call`] has something to do if nothing happens before.
    pub(crate) fn next(&self, now: Time) -> Time {
        if self.circuit.is_open() {
            return self.circuit.probe_at();
        }
        // Then what is borrowed is given back.
        let lent = self.limits.iter();
        let lent = lent.filter(|limit| !limit.claim.is_flying && limit.pace.share(now) > 0);
        let leaves = lent.map(|limit| self.leaves_at(limit)).min();
        let leaves = leaves.unwrap_or(Time::NEVER);
        self.next_call(now).min(leaves)
    }

    /// When the next call is due of itself.
    fn next_call(&self, now: Time) -> Time {
        let is_leaving = self.is_closing && self.idle_since.is_some();
        let beat = match (self.beat.is_flying, is_leaving) {
            (true, _) => Time::NEVER,
            (false, true) if self.beat.is_known => now,
            (false, true) => Time::NEVER,
            (false, false) => self.beat.due,
        };
        let claims = self.limits.iter().filter(|limit| !limit.claim.is_flying);
        let claim = claims.map(|limit| self.claim_due(limit, now)).min();
        let terms = if self.is_closing {
            Time::NEVER
        } else {
            self.terms.due()
        };
        let claim = claim.unwrap_or(Time::NEVER);
        beat.min(claim).min(self.facts.next()).min(terms)
    }

    /// A call was answered, or was not.
    pub(crate) fn on_heard(&mut self, call: Call, heard: Heard, now: Time) {
        self.sharing.counts.add(|counters| &counters.calls, 1);
        if call.is_owed() {
            self.owing = self.owing.saturating_sub(1);
        }
        match heard {
            Ok(said) => {
                if let Some(after) = self.circuit.on_answer(now) {
                    self.changes.push_back(What::StoreBack { after });
                    self.come_back(now);
                }
                self.on_said(call, said, now);
            }
            Err(error) => {
                self.sharing.counts.add(|counters| &counters.failures, 1);
                self.on_silence(call, &error, now);
            }
        }
        self.look_idle(now);
    }

    /// The limiter is being closed: everything is given back.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
        self.facts.close();
    }

    /// Whether nothing is held or owed, and the store knows that this process has left.
    pub(crate) fn has_left(&self) -> bool {
        let is_flying = |limit: &Known| limit.claim.is_flying;
        if !self.purchases.is_empty() || self.limits.iter().any(is_flying) || self.beat.is_flying {
            return false;
        }
        // Of a store that is away there is nothing to wait for: what it lent ends by itself.
        let owes = self.owing > 0 || self.debts.any() || self.facts.owes();
        let borrows = |limit: &Known| limit.pace.last_share() > 0;
        self.circuit.is_open() || !(self.beat.is_known || owes || self.limits.iter().any(borrows))
    }

    fn next_op(&mut self) -> OpId {
        self.ops += 1;
        OpId {
            owner: self.owner,
            number: self.ops,
        }
    }

    /// Whether the agent has nothing left to do.
    pub(crate) fn is_done(&self) -> bool {
        self.is_closing && self.has_left()
    }

    fn on_said(&mut self, call: Call, said: Said, now: Time) {
        match (call, said) {
            (Call::Take { line, .. }, Said::Taken(taken)) => {
                self.hear(&taken.standing, now);
                self.on_taken(line, taken, now);
            }
            (Call::Report(_), Said::Taken(taken)) => self.hear(&taken.standing, now),
            (Call::Refund(_) | Call::Release(_), Said::Standing(standing)) => {
                self.hear(&standing, now);
            }
            (Call::Beat(beat), Said::Alive(alive)) => self.on_alive(&beat, &alive, now),
            (Call::Lend { place, claim }, Said::Lent(lent)) => {
                self.hear(&lent.standing, now);
                self.on_lent(place, &claim, &lent, now);
            }
            (Call::Facts(_), Said::Facts(heard)) => self.on_facts(heard, now),
            (Call::Risk, Said::Risk(Some(why))) => {
                self.changes
                    .push_back(What::StoreMayForget { why: why.into() });
            }
            // The store answers what it is asked.
            _ => {}
        }
    }

    /// A call got no answer, or the store will not.
    fn on_silence(&mut self, call: Call, error: &StoreError, now: Time) {
        match call {
            Call::Take { line, .. } => {
                if !self.circuit.is_open() && self.ask_once_more(line) {
                    return;
                }
                self.go_away(error, now);
                self.on_unpaid(line, now);
                return;
            }
            Call::Lend { place, .. } => {
                let claim = &mut self.limits[place].claim;
                claim.is_flying = false;
                claim.due = now;
            }
            Call::Beat(beat) => {
                self.beat.is_flying = false;
                if beat.lasts.is_zero() {
                    self.beat.is_known = false;
                }
            }
            Call::Facts(_) => self.facts.on_silence(),
            Call::Terms(_) => self.terms.on_silence(now),
            Call::Risk => self.has_asked_risk = false,
            Call::Publish { told, observed, .. } => self.facts.again(told, observed),
            owed => self.debts.again(owed),
        }
        self.go_away(error, now);
    }

    fn look_idle(&mut self, now: Time) {
        if self.purchases.is_empty() {
            self.idle_since.get_or_insert(now);
        }
    }
}

/// A lease is renewed so many times: two may fail before it ends.
const RENEWALS: u32 = 3;
/// What nobody wanted for so many leases is given back.
const IDLE_LEASES: u32 = 2;
