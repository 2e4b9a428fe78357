//! What a server says is left: one [`Ledger`] per key and bucket, one model per reported quota.
//!
//! A reading is evidence, not a command: it corrects a model of the server's counter, so that what
//! is in flight, what arrives out of order and what others use are all accounted for. Each dimension
//! has its own clock. Nothing here trusts a server's number to be sane.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::feedback::{Class, Dimension, Feedback, Reading};

use super::events::{Cost, Gate, Reason, What};
use super::reserve::Reserve;
use super::time::Time;
use super::timing::Timing;

mod edge;
mod model;
mod reading;
mod refill;
mod rhythm;
mod sight;
mod steadiness;
mod window;

use model::{Mark, Origin, Quota};
use reading::{Span, Told};

/// The quotas of one key in one bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    quotas: Vec<Quota>,
    /// How many were sent.
    sent: u64,
    /// The latest sends, while no quota is known: the first reading counts most of them.
    unread: VecDeque<(u64, Time, Cost)>,
    /// Readings without a reset so far; each makes the next guess longer.
    guesses: u32,
    in_flight: u32,
    /// Sends of which no answer was heard: those that do not take a slot are on their way, too.
    unanswered: u32,
    /// Answers without any quota, while none is known.
    silent: u32,
    /// When the server last told something.
    read_at: Option<Time>,
    /// A quota was told with a refusal and never again: what only refusals tell explains none.
    is_fleeting: bool,
}

/// What an attempt keeps of its send.
#[derive(Clone, Debug)]
pub(crate) struct Spend {
    at: Time,
    order: u64,
    cost: Cost,
    marks: SmallVec<[Mark; 2]>,
    is_answered: bool,
}

/// Where one quota stands.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) dimension: Dimension,
    /// The server's limit, if it told one.
    pub(crate) limit: Option<f64>,
    /// What is left, by the model.
    pub(crate) left: f64,
    /// When it comes back: all of it, or what was taken first.
    pub(crate) ends: Option<Time>,
    /// How it is taken to refill.
    pub(crate) law: &'static str,
}

impl Ledger {
    /// Where each quota stands now.
    pub(crate) fn standings(&self, now: Time) -> impl Iterator<Item = Standing> + '_ {
        self.quotas.iter().map(move |quota| quota.standing(now))
    }

    /// Whether any quota was ever reported.
    pub(crate) fn is_told(&self) -> bool {
        !self.quotas.is_empty()
    }

    /// Whether answers came and none told a quota.
    pub(crate) fn is_silent(&self) -> bool {
        self.quotas.is_empty() && self.silent >= SILENT
    }

    /// Attempts that take a slot.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether an ask of this cost may go now; `demand` is how many wait for it.
    pub(crate) fn gate(&mut self, cost: &Cost, demand: usize, timing: &Timing, now: Time) -> Gate {
        let mut gate = Gate::Open;
        for quota in &mut self.quotas {
            quota.advance(timing, now);
            let price = quota.price(cost);
            let mut until = quota.ready(price, price * demand as f64, timing, now);
            if until > now
                && self.in_flight == 0
                && let Some(scout) = quota.liveness(timing.jitter())
            {
                until = until.min(scout);
            }
            gate = gate.and(Gate::at(until, Reason::Quota(quota.dimension), now));
        }
        gate
    }

    /// What is kept from an ask of this cost that all gates let pass. Needs up-to-date levels.
    pub(crate) fn reserve_gate(
        &self,
        cost: &Cost,
        reserve: &Reserve,
        timing: &Timing,
        now: Time,
    ) -> Gate {
        let free = self.quotas.iter().filter_map(|quota| {
            let kept = reserve.of(quota.told_limit()?);
            Some(quota.ready(quota.price(cost) + kept, 0.0, timing, now))
        });
        reserve.gate(free.max().unwrap_or(now), now)
    }

    /// The quota that an ask of this cost could never pass: dimension, cost and limit.
    pub(crate) fn too_large(&self, cost: &Cost) -> Option<(Dimension, f64, f64)> {
        let mut told = self.quotas.iter().filter(|quota| quota.is_told());
        told.find_map(|quota| {
            let (needed, limit) = (cost.of(quota.dimension), quota.told_limit()?);
            // A limit of nothing is a closed door, not a size.
            (needed > limit && limit > 0.0).then_some((quota.dimension, needed, limit))
        })
    }

    /// The smallest share that is left of any quota, from 0 to 1; none while none is known.
    pub(crate) fn share_left(&self) -> Option<f64> {
        self.quotas
            .iter()
            .filter(|quota| quota.is_told())
            .filter_map(Quota::share_left)
            .min_by(f64::total_cmp)
    }

    /// An ask was sent.
    pub(crate) fn on_sent(&mut self, cost: &Cost, timing: &Timing, now: Time) -> Spend {
        self.sent += 1;
        self.in_flight += 1;
        self.unanswered += 1;
        if self.quotas.is_empty() {
            if self.unread.len() == UNREAD {
                self.unread.pop_front();
            }
            self.unread.push_back((self.sent, now, *cost));
        }
        let marks = self
            .quotas
            .iter_mut()
            .map(|quota| {
                let price = quota.price(cost);
                quota.on_sent(price, self.sent, timing, now)
            })
            .collect();
        Spend {
            at: now,
            order: self.sent,
            cost: *cost,
            marks,
            is_answered: false,
        }
    }

    /// An attempt no longer takes a slot.
    pub(crate) fn on_ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Nothing more is heard of an attempt.
    pub(crate) fn on_gone(&mut self, spend: &Spend) {
        if !spend.is_answered {
            self.unanswered = self.unanswered.saturating_sub(1);
        }
    }

    /// An attempt takes its slot again.
    pub(crate) fn on_reclaimed(&mut self) {
        self.in_flight += 1;
    }

    /// An answer came for an attempt. Whether it is a refusal that an exhausted quota explains.
    /// `changed` is told of quotas that were learned or changed.
    pub(crate) fn on_feedback(
        &mut self,
        spend: &mut Spend,
        feedback: &Feedback,
        refused: bool,
        timing: &mut Timing,
        now: Time,
        mut changed: impl FnMut(What),
    ) -> bool {
        let mut explained = false;
        self.on_gone(spend);
        spend.is_answered = true;
        if !feedback.readings.is_empty() {
            self.read_at = Some(now);
        }
        let mut taken = Places::new();
        for (reading, told) in quotas_of(feedback) {
            if self.is_told_twice(reading, &told, &taken) {
                continue;
            }
            let known = self.quotas.len();
            let index = self.find_or_add(reading, &told, &taken, feedback, spend, timing, now);
            taken.push(index);
            let span = self.span(reading, timing, spend, now);
            let quota = &mut self.quotas[index];
            let before = (quota.law, quota.limit);
            let cost = quota.price(&spend.cost);
            // Estimates of tokens are often a little high.
            let least = if reading.dimension == Dimension::Requests {
                cost
            } else {
                0.8 * cost
            };
            let is_kept = index < known || !self.is_fleeting;
            explained |= refused && is_kept && told.remaining < least.max(f64::MIN_POSITIVE);
            quota.advance(timing, now);
            explained |= refused && quota.was_just_back(spend.at);
            let origin = Origin {
                order: spend.order,
                at: spend.at,
                cost,
                mark: spend.marks.get(index).copied(),
                refused,
                hinted: feedback.wait.is_some(),
                others: self.unanswered,
            };
            quota.on_reading(&told, span, &origin, timing, now);
            let new = (quota.law, quota.limit) != before || index >= known;
            if let Some(limit) = quota.told_limit().filter(|_| new) {
                changed(What::Quota {
                    dimension: quota.dimension,
                    limit,
                    law: quota.law.name(),
                });
            }
        }
        if feedback.class == Class::Ok {
            self.forget_unheard(&mut taken, spend, timing);
        }
        self.reckon_untold(&taken, spend, timing, now);
        if self.quotas.is_empty() {
            self.silent = self.silent.saturating_add(1);
        } else {
            self.unread = VecDeque::new();
        }
        self.on_cost(spend, feedback);
        explained
    }

    /// A response told what its request took; that is what it is reckoned to have taken from now
    /// on, so that the same may be told twice.
    pub(crate) fn on_cost(&mut self, spend: &mut Spend, feedback: &Feedback) {
        for &(dimension, actual) in &feedback.cost {
            self.settle(spend, dimension, actual);
            spend.cost.set(dimension, actual);
        }
    }

    /// Somebody else was told this at `observed`. Where an answer of one's own is on its way, that
    /// will tell.
    pub(crate) fn hear(
        &mut self,
        feedback: &Feedback,
        observed: Time,
        timing: &mut Timing,
        now: Time,
        changed: impl FnMut(What),
    ) {
        if self.in_flight > 0 || self.read_at.is_some_and(|read| read >= observed) {
            return;
        }
        let mut spend = Spend {
            at: observed,
            order: self.sent,
            cost: Cost::ONE,
            marks: SmallVec::new(),
            is_answered: true,
        };
        self.on_feedback(&mut spend, feedback, false, timing, now, changed);
    }

    /// An attempt never left: it is as if it had not been sent.
    pub(crate) fn refund(&mut self, spend: &Spend) {
        for quota in &mut self.quotas {
            let price = quota.price(&spend.cost);
            quota.adjust(spend.order, -price);
        }
    }

    /// A response told what its request took of a dimension.
    fn settle(&mut self, spend: &Spend, dimension: Dimension, actual: f64) {
        if !actual.is_finite() || actual < 0.0 {
            return;
        }
        for quota in &mut self.quotas {
            if quota.dimension != dimension {
                continue;
            }
            let reckoned = quota.price(&spend.cost);
            quota.learn_cost(actual);
            quota.adjust(spend.order, actual - reckoned);
        }
    }

    fn span(&mut self, reading: &Reading, timing: &mut Timing, spend: &Spend, now: Time) -> Span {
        match &reading.reset {
            Some(reset) => {
                let jitter = timing.jitter();
                Span::told(reset, &mut timing.clock, jitter, spend.at, now)
            }
            None => {
                let longer = f64::from(1_u32 << self.guesses.min(6));
                if reading.remaining == Some(0.0) {
                    self.guesses += 1;
                } else {
                    self.guesses = 0;
                }
                Span::guessed((FIRST_GUESS * longer).min(LONGEST_GUESS), spend.at)
            }
        }
    }

    /// Whether a reading without a window only repeats what the answer told of one: some servers have
    /// fields for each window and others for the tightest of them.
    fn is_told_twice(&self, reading: &Reading, told: &Told, taken: &Places) -> bool {
        let scope = reading.scope.as_deref();
        told.window.is_none()
            && taken.iter().map(|&index| &self.quotas[index]).any(|quota| {
                quota.is(reading.dimension, scope, None)
                    && quota.has_given_window()
                    && quota.told_limit() == told.limit
            })
    }

    /// The place of the quota that a reading speaks of. Of several that only their limits tell apart,
    /// an answer names each once: `taken` are those that it has named already.
    #[expect(clippy::too_many_arguments, reason = "what a quota is known by")]
    fn find_or_add(
        &mut self,
        reading: &Reading,
        told: &Told,
        taken: &Places,
        feedback: &Feedback,
        spend: &Spend,
        timing: &Timing,
        now: Time,
    ) -> usize {
        let is_of = |told: &Told, quota: &Quota| {
            quota.is(reading.dimension, reading.scope.as_deref(), told.window)
        };
        let may_be = |index: &usize| !taken.contains(index) && is_of(told, &self.quotas[*index]);
        let same: Places = (0..self.quotas.len()).filter(may_be).collect();
        let is_sure = |index: &&usize| {
            let known = self.quotas[**index].told_limit();
            told.limit.is_none() || known.is_none() || known == told.limit
        };
        if let Some(&index) = same.iter().find(is_sure) {
            return index;
        }
        if let Some(&index) = same.first() {
            let is_alone = quotas_of(feedback)
                .filter(|(other, _)| {
                    (other.dimension, &other.scope) == (reading.dimension, &reading.scope)
                })
                .count()
                == 1;
            // Where there is room for one, a server tells the tightest of several: the limit is
            // another one, or has changed, and what is told next shows which.
            if is_alone && same.len() < MOST_BY_TURNS && self.quotas.len() < MOST_QUOTAS {
                let next = self.quotas[index].succeeded_by(told, now);
                self.quotas.push(next);
                return self.quotas.len() - 1;
            }
            return index;
        }
        let mut quota = Quota::new(reading.dimension, reading.scope.clone(), told, now);
        if self.unread.is_empty() {
            // What was sent since is known by number only.
            let price = quota.price(&spend.cost);
            let since = self.sent.saturating_sub(spend.order) as f64;
            quota.on_sent(price, spend.order, timing, spend.at);
            quota.on_sent(price * since, self.sent, timing, now);
        } else {
            for &(number, at, cost) in &self.unread {
                let price = quota.price(&cost);
                quota.on_sent(price, number, timing, at);
            }
        }
        if self.quotas.len() >= MOST_QUOTAS {
            // Marks are found by place, so the least recently read one gives its place away.
            let oldest = (0..self.quotas.len()).min_by_key(|&i| self.quotas[i].last_read());
            let index = oldest.expect("there are quotas");
            quota.void_marks_of(&self.quotas[index]);
            self.quotas[index] = quota;
            return index;
        }
        self.quotas.push(quota);
        self.quotas.len() - 1
    }

    /// What an answer says of the quotas that it could have told in place of others: at least as
    /// large a share of them is left. Those of which that is never true no longer hold.
    fn reckon_untold(&mut self, told: &Places, spend: &Spend, timing: &Timing, now: Time) {
        if self.quotas.len() == told.len() {
            return;
        }
        let mut index = 0;
        while index < self.quotas.len() {
            let quota = &self.quotas[index];
            let others = told.iter().map(|&place| &self.quotas[place]);
            let share = others
                .filter(|other| other.is_told_by_turns_with(quota))
                .filter_map(Quota::told_share)
                .min_by(f64::total_cmp);
            let mark = spend.marks.get(index).copied();
            let is_told = told.contains(&index);
            if let Some(share) = share.filter(|_| !is_told)
                && self.quotas[index].on_untold(share, spend.order, spend.at, mark, timing, now)
            {
                self.forget(index);
                return;
            }
            index += 1;
        }
    }

    /// An answer was served that was asked for after the told end of quotas, and says nothing of
    /// them: they are back, and those of which that is so again and again are told no more.
    fn forget_unheard(&mut self, told: &mut Places, spend: &Spend, timing: &Timing) {
        if self.quotas.len() == told.len() {
            return;
        }
        for index in (0..self.quotas.len()).rev() {
            let quota = &self.quotas[index];
            let mut others = told.iter().map(|&place| &self.quotas[place]);
            let by_turns = others.any(|other| other.is_told_by_turns_with(quota));
            if !told.contains(&index)
                && !by_turns
                && self.quotas[index].on_unheard(spend.at, timing.jitter())
            {
                self.forget(index);
                self.is_fleeting = true;
                // Those behind it have moved up.
                let behind = told.iter_mut().filter(|place| **place > index);
                behind.for_each(|place| *place -= 1);
            }
        }
    }

    /// Marks are found by place, so those that move up are void.
    fn forget(&mut self, index: usize) {
        let gone = self.quotas.remove(index);
        for quota in &mut self.quotas[index..] {
            quota.void_marks_of(&gone);
        }
    }
}

/// The quotas that an answer tells. How many may be in flight is none: it does not come back with
/// time.
fn quotas_of(feedback: &Feedback) -> impl Iterator<Item = (&Reading, Told)> {
    let readings = feedback.readings.iter();
    readings
        .filter(|reading| reading.dimension != Dimension::Concurrent && !reading.is_of_a_part())
        .filter_map(|reading| Some((reading, Told::of(reading)?)))
}

/// Places in the list of quotas.
type Places = SmallVec<[usize; 4]>;

/// More are in flight on a silent key only when it is fast; then one off is one in many.
const UNREAD: usize = 64;
/// Some answers (errors, cached ones) leave the quota out on a server that else reports it.
const SILENT: u32 = 5;
/// A server reports a handful; a stranger's nonsense must not fill memory.
const MOST_QUOTAS: usize = 16;
/// Limits in one header, told by turns: a second's, a minute's and a day's, and one more.
const MOST_BY_TURNS: usize = 4;
/// In seconds: how soon to ask again for a quota that is spent and tells no reset, doubled for each
/// answer that still says so.
const FIRST_GUESS: f64 = 1.0;
/// In seconds: a minute is the commonest window.
const LONGEST_GUESS: f64 = 60.0;
