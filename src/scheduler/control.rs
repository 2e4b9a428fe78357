//! The control law of one provider: the estimators side by side, and what each is told.
//!
//! Every estimator answers "not before when, and why", and the latest answer binds. A quota that is
//! told governs its key; where nothing is told, the pace does, within a window that was verified,
//! and beside the hypothesis that a number in flight is what is limited. After any refusal sends
//! start slowly. No estimator knows of another; what they must agree on is measured once, in
//! [`Timing`].

use std::collections::HashMap;
use std::time::Duration;

use smallvec::SmallVec;

use crate::feedback::{Cause, Class, Feedback};

use super::concurrency::{
    Aimd, Cap, Concurrency, Controller, Fixed, Gradient, Room, Sample, Sign, VerifiedWindow,
};
use super::events::{Cost, Gate, KeyId, Reason, What};
use super::memory::Doubt;
use super::names::Names;
use super::pace::{Changed, KeyPaceMemory, Pace, PaceMemory, PaceSettings, Rate, Scene, Stamp};
use super::quota::{Ledger, Spend, Standing};
use super::reserve::Reserve;
use super::resume::SlowResume;
use super::time::Time;
use super::timing::Timing;

/// The estimators of one provider.
#[derive(Debug)]
pub(crate) struct Control {
    timing: Timing,
    window: VerifiedWindow,
    pace: Pace,
    keys: Vec<KeyControl>,
    concurrency: Concurrency,
    /// Some key was told a quota.
    told: bool,
    served: u64,
    in_flight: u32,
    first_sent: Option<Time>,
    last_granted: Option<Time>,
    /// How many wait for a grant.
    waiting: usize,
}

/// The estimators of one key.
#[derive(Debug)]
struct KeyControl {
    default_ledger: Ledger,
    /// The ledgers of named buckets.
    ledgers: HashMap<u32, Ledger>,
    cap: Cap,
    resume: SlowResume,
    /// In place of cap and window, if another controller was chosen.
    controller: Option<Box<dyn Controller>>,
    in_flight: u32,
}

/// What an attempt keeps of the moment when it was granted.
#[derive(Debug)]
pub(crate) struct Trail {
    spend: Spend,
    stamp: Stamp,
    bucket: u32,
    /// Others in flight on its key.
    others: u32,
    /// In flight on all keys, itself included.
    load: u32,
    limit_was_reached: bool,
}

impl Trail {
    /// Where it is counted.
    pub(crate) fn bucket(&self) -> u32 {
        self.bucket
    }
}

/// Changes that one answer made.
pub(crate) type Changes = SmallVec<[What; 2]>;

impl Control {
    pub(crate) fn new(concurrency: Concurrency, pace: PaceSettings, most: u32, seed: u64) -> Self {
        Self {
            timing: Timing::default(),
            window: VerifiedWindow::new(most),
            pace: Pace::new(pace, seed),
            keys: Vec::new(),
            concurrency,
            told: false,
            served: 0,
            in_flight: 0,
            first_sent: None,
            last_granted: None,
            waiting: 0,
        }
    }

    /// Changes the settings. Only what is of another kind than before begins anew.
    pub(crate) fn set_settings(
        &mut self,
        concurrency: &Concurrency,
        pace: PaceSettings,
        most: Option<u32>,
        seed: u64,
    ) {
        self.window.set_most(most.unwrap_or(u32::MAX));
        self.pace.set(pace, self.keys.len(), seed);
        if self.concurrency != *concurrency {
            self.concurrency = concurrency.clone();
            for key in &mut self.keys {
                key.controller = controller(concurrency);
            }
        }
    }

    /// Makes room for so many keys.
    pub(crate) fn set_keys(&mut self, count: usize) {
        let concurrency = &self.concurrency;
        self.keys
            .resize_with(count, || KeyControl::new(concurrency));
    }

    /// The usual time of an answer; none before the first.
    pub(crate) fn usual(&self) -> Option<Duration> {
        self.timing.answer().map(Duration::from_secs_f64)
    }

    /// What an ask of this cost could never pass on this key: dimension, cost and limit.
    pub(crate) fn too_large(
        &self,
        key: KeyId,
        bucket: u32,
        cost: &Cost,
    ) -> Option<(crate::feedback::Dimension, f64, f64)> {
        self.keys[key.index()].ledger(bucket)?.too_large(cost)
    }

    /// How many may be in flight on a key by what was learned; none while nothing bounds it.
    pub(crate) fn limit(&self, key: KeyId, now: Time) -> Option<u32> {
        let control = &self.keys[key.index()];
        if let Some(controller) = &control.controller {
            return Some(controller.limit().max(1));
        }
        let window = (!self.told).then(|| {
            let since = self.first_sent.map_or(0.0, |first| now.secs_since(first));
            self.window.allowance(since).max(1.0) as u32
        });
        let cap = control.cap.limit().map(|cap| cap.max(1));
        cap.into_iter().chain(window).min()
    }

    /// The learned or set rate of a key in requests per second.
    pub(crate) fn rate(&self, key: KeyId) -> Option<f64> {
        self.pace.rate(key)
    }

    /// The quotas of a key, each with the number of its bucket.
    pub(crate) fn quotas(&self, key: KeyId, now: Time) -> Vec<(u32, Standing)> {
        let control = &self.keys[key.index()];
        let default = [(Names::DEFAULT, &control.default_ledger)];
        let named = control.ledgers.iter().map(|(&id, ledger)| (id, ledger));
        let standings = default
            .into_iter()
            .chain(named)
            .flat_map(|(bucket, ledger)| {
                let standings = ledger.standings(now);
                standings.map(move |standing| (bucket, standing))
            });
        let mut standings: Vec<_> = standings.collect();
        // The same order every time, whatever the map's.
        standings.sort_by_key(|&(bucket, _)| bucket);
        standings
    }

    /// So many wait for a grant.
    pub(crate) fn set_waiting(&mut self, waiting: usize) {
        self.waiting = waiting;
    }

    /// The gate of one key for an ask.
    pub(crate) fn gate(&mut self, key: KeyId, bucket: u32, cost: &Cost, now: Time) -> Gate {
        let share = (UNKNOWN_IN_FLIGHT / self.keys.len().max(1) as u32).max(1);
        let demand = self.waiting.div_ceil(self.keys.len().max(1));
        let control = &mut self.keys[key.index()];
        let room = control.room();
        let resume = control.resume.gate(now);
        let ledger = control.ledger_mut(bucket);
        let quota = ledger.gate(cost, demand, &self.timing, now);
        let ledger_told = ledger.is_told();
        let unknown = self.told && !ledger_told && !ledger.is_silent();
        let crowded = unknown && ledger.in_flight() >= share;
        if crowded || room == Room::Full {
            return WAIT;
        }
        let pace = match room {
            Room::Trial | Room::Look if !self.pace.is_known(key) => WAIT,
            Room::Look => self.pace.gate_of_look(key, &self.timing, now),
            Room::AtOnce if !self.pace.is_strict(key) && self.timing.refuses_fast() => Gate::Open,
            _ => self.pace.gate(key, &self.timing, now),
        };
        let silent = if ledger_told || unknown {
            Gate::Open
        } else {
            self.silent_gate(now)
        };
        resume.and(quota).and(pace).and(silent)
    }

    /// What is kept from an ask that the gate of this key lets pass.
    pub(crate) fn reserve_gate(
        &self,
        key: KeyId,
        bucket: u32,
        cost: &Cost,
        reserve: &Reserve,
        now: Time,
    ) -> Gate {
        let control = &self.keys[key.index()];
        let slots = self.limit(key, now).map_or(Gate::Open, |limit| {
            // What is learned of a silent provider holds for all its keys.
            let all = control.controller.is_none() && !self.told;
            let taken = if all {
                self.in_flight
            } else {
                control.in_flight
            };
            reserve.slots(limit, taken, self.usual())
        });
        let quotas = control.ledger(bucket).map_or(Gate::Open, |ledger| {
            ledger.reserve_gate(cost, reserve, &self.timing, now)
        });
        slots.and(quotas)
    }

    /// The gate of a provider that says nothing.
    fn silent_gate(&self, now: Time) -> Gate {
        if !matches!(self.concurrency, Concurrency::Adaptive) {
            return Gate::Open;
        }
        let began = self.first_sent.unwrap_or(now);
        if f64::from(self.in_flight) >= self.window.allowance(now.secs_since(began)).floor() {
            return match self.window.next_allowance(self.in_flight, began) {
                Some(until) => Gate::at(until, Reason::Limit, now),
                None => WAIT,
            };
        }
        // Sends are a little apart, so that one refusal is heard before the next send: a surprise
        // must not be five, which is a ban in places.
        let gap = self.timing.answer().map_or(FIRST_GAP, |answer| {
            let least = if self.served < CAREFUL {
                0.5 * self.timing.hearing()
            } else {
                0.0
            };
            (0.5 * answer / self.window.size())
                .max(least)
                .min(FIRST_GAP)
        });
        let next = self.last_granted.map_or(now, |last| last.plus_secs(gap));
        Gate::at(next, Reason::Resume, now)
    }

    /// An ask was granted.
    pub(crate) fn on_granted(&mut self, key: KeyId, bucket: u32, cost: &Cost, now: Time) -> Trail {
        let hearing = self.rest();
        let control = &mut self.keys[key.index()];
        let others = control.in_flight;
        control.in_flight += 1;
        self.in_flight += 1;
        self.first_sent.get_or_insert(now);
        let bursts = self.told || self.pace.is_window(key);
        control.resume.on_sent(hearing, bursts, now);
        control.cap.on_sent(now);
        if control.cap.is_on_trial(control.in_flight) {
            control.resume.rest(hearing, now);
        }
        let limit = control
            .controller
            .as_ref()
            .map(|controller| controller.limit());
        let limit_was_reached = limit.is_some_and(|limit| control.in_flight >= limit);
        let spend = control.ledger_mut(bucket).on_sent(cost, &self.timing, now);
        self.last_granted = Some(now);
        Trail {
            spend,
            stamp: self.pace.on_sent(key, &self.timing, now),
            bucket,
            others,
            load: self.in_flight,
            limit_was_reached,
        }
    }

    /// What of the learned rates is worth knowing the next time.
    pub(super) fn remember_paces(&self) -> PaceMemory {
        self.pace.remember()
    }

    /// The same of one key.
    pub(super) fn remember_pace(&self, key: KeyId, now: Time) -> Option<KeyPaceMemory> {
        self.pace.remember_key(key, now)
    }

    /// Begins with what was learned before.
    pub(super) fn recall_paces(
        &mut self,
        memory: &PaceMemory,
        keys: &[(KeyId, &KeyPaceMemory)],
        doubt: Doubt,
        now: Time,
    ) {
        self.pace.recall(memory, keys, doubt, now);
    }

    /// The most in flight that did no harm, if more than at first was tried.
    pub(super) fn verified_window(&self) -> Option<f64> {
        (!self.told).then(|| self.window.verified()).flatten()
    }

    pub(super) fn recall_window(&mut self, verified: Option<f64>, doubt: Doubt) {
        if let Some(verified) = verified {
            self.window.recall(verified * (1.0 - doubt.share()));
        }
    }

    /// The most in flight on a key that the server takes, if it was found to bound that.
    pub(super) fn cap(&self, key: KeyId) -> Option<u32> {
        self.keys[key.index()].cap.found()
    }

    pub(super) fn recall_cap(&mut self, key: KeyId, cap: Option<u32>, doubt: Doubt) {
        let cap = cap.map(|cap| (f64::from(cap) * (1.0 - doubt.share())) as u32);
        if let Some(cap) = cap.filter(|&cap| cap > 0) {
            self.keys[key.index()].cap.recall(cap);
        }
    }

    /// The server refused the key itself; `out` says whether it is out of use now.
    pub(crate) fn on_fault(&mut self, key: KeyId, out: bool, now: Time) {
        self.pace.on_fault(key, out, now);
    }

    /// A key is in use again.
    pub(crate) fn on_restored(&mut self, key: KeyId) {
        self.pace.on_restored(key);
    }

    /// How long sends wait for each other's refusals. Where a pace is known it spaces them anyway, and
    /// slow refusals need not stop all of them.
    fn rest(&self) -> f64 {
        let longest = if self.told {
            LONGEST_STEP
        } else {
            LONGEST_REST
        };
        self.timing.hearing().min(longest)
    }

    /// What others can use of the rate that was learned of a key.
    pub(crate) fn told_rate(&self, key: KeyId) -> Option<Rate> {
        self.pace.told(key)
    }

    /// Somebody else learned this rate of a key, at `observed`.
    pub(crate) fn hear_rate(&mut self, key: KeyId, rate: Rate, observed: Time) -> Option<What> {
        let changed = self.pace.hear(key, rate, observed);
        changed.map(Changed::into_what)
    }

    /// The server told somebody else this of a key, at `observed`.
    pub(crate) fn hear_readings(
        &mut self,
        key: KeyId,
        bucket: u32,
        feedback: &Feedback,
        observed: Time,
        now: Time,
    ) -> Changes {
        let mut changes = Changes::new();
        let ledger = self.keys[key.index()].ledger_mut(bucket);
        ledger.hear(feedback, observed, &mut self.timing, now, |what| {
            changes.push(what)
        });
        self.told |= ledger.is_told();
        changes
    }

    /// An attempt never left: everything is as before.
    pub(crate) fn on_refunded(&mut self, key: KeyId, trail: &Trail) {
        self.keys[key.index()]
            .ledger_mut(trail.bucket)
            .refund(&trail.spend);
        self.pace.on_explained(key, &trail.stamp);
    }

    /// What an attempt took was told after its answer.
    pub(crate) fn settle(&mut self, key: KeyId, trail: &Trail, said: &Feedback) {
        let ledger = self.keys[key.index()].ledger_mut(trail.bucket);
        ledger.on_cost(&trail.spend, said);
    }

    /// An attempt no longer takes a slot.
    pub(crate) fn on_ended(&mut self, key: KeyId, trail: &Trail) {
        let control = &mut self.keys[key.index()];
        control.in_flight = control.in_flight.saturating_sub(1);
        control.ledger_mut(trail.bucket).on_ended();
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// An attempt that had lent its slot takes it again.
    pub(crate) fn on_reclaimed(&mut self, key: KeyId, trail: &Trail) {
        let control = &mut self.keys[key.index()];
        control.in_flight += 1;
        control.ledger_mut(trail.bucket).on_reclaimed();
        self.in_flight += 1;
    }

    /// Whether nothing that was sent between the last refusal of the key and this attempt was
    /// accepted; none if no pace keeps count.
    pub(crate) fn is_in_a_row(&self, key: KeyId, trail: &Trail) -> Option<bool> {
        self.pace.is_in_a_row(key, &trail.stamp)
    }

    /// An answer came to an attempt that was sent at `sent`. Its slot is still taken.
    pub(crate) fn on_answer(
        &mut self,
        key: KeyId,
        trail: &Trail,
        feedback: &Feedback,
        sent: Time,
        now: Time,
    ) -> Changes {
        let mut changes = Changes::new();
        let took = now.secs_since(sent).max(0.0);
        if let Some(date) = feedback.date {
            self.timing.clock.on_date(date, sent, now);
        }
        let refused = matches!(feedback.class, Class::RateLimited | Class::QuotaExhausted);
        let control = &mut self.keys[key.index()];
        let explained = control.ledger_mut(trail.bucket).on_feedback(
            &trail.spend,
            feedback,
            refused,
            &mut self.timing,
            now,
            |what| changes.push(what),
        );
        self.told |= control.ledger_mut(trail.bucket).is_told();
        match feedback.class {
            Class::Ok => self.on_served(key, trail, took, &mut changes, now),
            Class::RateLimited => {
                self.on_refused(key, trail, feedback, explained, took, &mut changes, now);
            }
            Class::QuotaExhausted => self.pace.on_explained(key, &trail.stamp),
            // With a fault of the key it is told of that, too.
            Class::Fatal if feedback.fault.is_none() => self.pace.on_denied(key, now),
            Class::Overloaded | Class::Transient | Class::Fatal => {}
        }
        let share_left = self.keys[key.index()].ledger_mut(trail.bucket).share_left();
        let sign = match feedback.class {
            Class::Ok => Sign::Served,
            Class::RateLimited => Sign::RateLimited,
            Class::Overloaded => Sign::Overloaded,
            Class::QuotaExhausted | Class::Transient | Class::Fatal => Sign::Nothing,
        };
        let sample = Sample {
            sent,
            latency: took,
            in_flight: trail.others + 1,
            limit_was_reached: trail.limit_was_reached,
            sign,
            share_left,
        };
        if let Some(controller) = &mut self.keys[key.index()].controller {
            changes.extend(controller.on_sample(&sample, now));
        } else if !self.told {
            changes.extend(self.window.on_sample(
                &Sample {
                    in_flight: trail.load,
                    ..sample
                },
                now,
            ));
        }
        changes
    }

    fn on_served(
        &mut self,
        key: KeyId,
        trail: &Trail,
        took: f64,
        changes: &mut Changes,
        now: Time,
    ) {
        if self.served == 0 {
            self.window.raise_to(self.in_flight.saturating_sub(1));
        }
        self.served += 1;
        self.timing.on_success(took);
        let may_try = self.pace.may_try(key, now);
        let on_the_way = self.timing.on_the_way();
        let cap = &mut self.keys[key.index()].cap;
        cap.on_served(trail.others, on_the_way, may_try, now);
        let scene = Scene {
            keys: self.keys.len(),
            told: self.told,
            served: self.served,
            in_flight: self.in_flight.saturating_sub(1),
            timing: &self.timing,
        };
        let changed = self.pace.on_success(key, &trail.stamp, took, &scene, now);
        changes.extend(changed.map(Changed::into_what));
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "all that a refusal can be judged by"
    )]
    fn on_refused(
        &mut self,
        key: KeyId,
        trail: &Trail,
        feedback: &Feedback,
        explained: bool,
        took: f64,
        changes: &mut Changes,
        now: Time,
    ) {
        self.timing.on_refusal(took, now);
        let rest = self.rest();
        let keys = self.keys.len();
        let control = &mut self.keys[key.index()];
        control.resume.on_refused(rest, now);
        // "Rate limit" is what every refusal is called: only the other word says something.
        if feedback.cause == Some(Cause::Concurrency) {
            control.cap.on_named(trail.others);
        }
        if explained || feedback.cause == Some(Cause::Concurrency) {
            self.pace.on_explained(key, &trail.stamp);
            return;
        }
        let scene = Scene {
            keys,
            told: self.told,
            served: self.served,
            in_flight: self.in_flight.saturating_sub(1),
            timing: &self.timing,
        };
        let load = trail.load - 1;
        let refused = self
            .pace
            .on_refused(key, &trail.stamp, feedback.wait, load, &scene, now);
        let may_be_cap = !self.told || keys == 1;
        if may_be_cap && !refused.same_episode {
            let jitter = self.timing.jitter();
            control.cap.on_refused(trail.others, trail.stamp.at, jitter);
        }
        changes.extend(refused.changed.map(Changed::into_what));
    }
}

impl KeyControl {
    fn new(concurrency: &Concurrency) -> Self {
        Self {
            default_ledger: Ledger::default(),
            ledgers: HashMap::new(),
            cap: Cap::default(),
            resume: SlowResume::default(),
            controller: controller(concurrency),
            in_flight: 0,
        }
    }

    fn room(&self) -> Room {
        match &self.controller {
            Some(controller) if self.in_flight >= controller.limit().max(1) => Room::Full,
            Some(_) => Room::AtPace,
            None => self.cap.room(self.in_flight),
        }
    }

    fn ledger(&self, bucket: u32) -> Option<&Ledger> {
        if bucket == Names::DEFAULT {
            Some(&self.default_ledger)
        } else {
            self.ledgers.get(&bucket)
        }
    }

    fn ledger_mut(&mut self, bucket: u32) -> &mut Ledger {
        if bucket == Names::DEFAULT {
            &mut self.default_ledger
        } else {
            self.ledgers.entry(bucket).or_default()
        }
    }
}

/// What sets the limit of one key in place of the law's own.
fn controller(concurrency: &Concurrency) -> Option<Box<dyn Controller>> {
    Some(match concurrency {
        Concurrency::Adaptive => return None,
        Concurrency::Aimd(settings) => Box::new(Aimd::new(*settings)),
        Concurrency::Fixed(settings) => Box::new(Fixed::new(*settings)),
        Concurrency::Gradient(settings) => Box::new(Gradient::new(*settings)),
        Concurrency::Custom(custom) => custom.make(),
    })
}

/// Shut until something else happens.
const WAIT: Gate = Gate::Shut {
    until: Time::NEVER,
    reason: Reason::Limit,
};
/// In seconds, before the first answer: longer than a refusal's way back, so one surprise is one
/// refusal, and sixteen are in flight within 160 ms.
const FIRST_GAP: f64 = 0.01;
/// In seconds: how long a step of a slow start takes at most. Two of them are as long as a refusal
/// that comes as late as an answer, and few have gone by then.
const LONGEST_STEP: f64 = 0.05;
/// In seconds: how long a key without quota rests to hear of more refusals.
const LONGEST_REST: f64 = 0.02;
/// Served before sends follow faster than a refusal is heard: small bursts end within it.
const CAREFUL: u64 = 16;
/// In flight over all keys whose quotas are not told yet while others' are: as many as at the start
/// of everything.
const UNKNOWN_IN_FLIGHT: u32 = 16;
