//! The control law of one provider: the estimators side by side, and what each is told.
//!
//! Every estimator answers "not before when, and why", and the latest answer binds. A quota that is
//! told governs its key; where nothing is told, the pace does, within a window that was verified,
//! and beside the hypothesis that a number in flight is what is limited. After any refusal sends
//! start slowly. No estimator knows of another; what they must agree on is measured once, in
//! [`Timing`].

use std::time::Duration;

use smallvec::SmallVec;

use crate::feedback::Feedback;

use super::concurrency::{Concurrency, VerifiedWindow};
use super::events::{Cost, KeyId, What};
use super::pace::{PaceSettings, Stamp};
use super::quota::{Spend, Standing};
use super::time::Time;
use super::timing::Timing;

mod answers;
mod gates;
mod key;
mod knowledge;
mod paces;

use key::{KeyControl, controller};
use paces::Paces;

/// The estimators of one provider.
#[derive(Debug)]
pub(crate) struct Control {
    timing: Timing,
    window: VerifiedWindow,
    paces: Paces,
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

/// What an attempt keeps of the moment when it was granted.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    spend: Spend,
    stamp: Stamp,
    bucket: u32,
    /// The bucket whose own pace it went by; the default one for the common pace.
    paced_in: u32,
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
            paces: Paces::new(pace, seed),
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
        self.paces.set(pace, self.keys.len(), seed);
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

    /// Whether a bucket has proved to have a limit of its own, and no part in that of its key.
    pub(crate) fn is_apart(&self, bucket: u32) -> bool {
        self.paces.is_apart(bucket)
    }

    /// Takes a bucket's refusals for its own from now on. Whether that is new.
    pub(crate) fn part(&mut self, bucket: u32, now: Time) -> bool {
        self.paces.part(bucket, self.keys.len(), now)
    }

    /// When something was served last in a bucket that is apart; none if it is not.
    pub(crate) fn served_apart(&self, bucket: u32) -> Option<Option<Time>> {
        self.paces.served_apart(bucket)
    }

    /// The buckets that are apart, in the order in which they were first named.
    pub(crate) fn apart(&self) -> Vec<u32> {
        self.paces.apart()
    }

    /// The learned or set rate of a key in a bucket, in requests per second.
    pub(crate) fn rate(&self, key: KeyId, bucket: u32) -> Option<f64> {
        self.paces.of(bucket).rate(key)
    }

    /// The quotas of a key, each with the number of its bucket.
    pub(crate) fn quotas(&self, key: KeyId, now: Time) -> Vec<(u32, Standing)> {
        let control = &self.keys[key.index()];
        let standings = control.ledgers().flat_map(|(bucket, ledger)| {
            let standings = ledger.standings(now);
            standings.map(move |standing| (bucket, standing))
        });
        standings.collect()
    }

    /// So many wait for a grant.
    pub(crate) fn set_waiting(&mut self, waiting: usize) {
        self.waiting = waiting;
    }

    /// An ask was granted.
    pub(crate) fn on_granted(&mut self, key: KeyId, bucket: u32, cost: &Cost, now: Time) -> Trail {
        let hearing = self.rest();
        let paced_in = self.paces.next_in(bucket, now);
        let control = &mut self.keys[key.index()];
        let others = control.in_flight;
        control.in_flight += 1;
        self.in_flight += 1;
        self.first_sent.get_or_insert(now);
        let bursts = self.told || self.paces.of(paced_in).is_window(key);
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
        let pace = self.paces.of_mut(paced_in);
        Trail {
            spend,
            stamp: pace.on_sent(key, &self.timing, now),
            bucket,
            paced_in,
            others,
            load: self.in_flight,
            limit_was_reached,
        }
    }

    /// The server refused the key itself; `out` says whether it is out of use now.
    pub(crate) fn on_fault(&mut self, key: KeyId, out: bool, now: Time) {
        let paces = self.paces.all_mut();
        paces.for_each(|pace| pace.on_fault(key, out, now));
    }

    /// A key is in use again.
    pub(crate) fn on_restored(&mut self, key: KeyId) {
        self.paces.all_mut().for_each(|pace| pace.on_restored(key));
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

    /// An attempt never left: everything is as before.
    pub(crate) fn on_refunded(&mut self, key: KeyId, trail: &Trail) {
        self.keys[key.index()]
            .ledger_mut(trail.bucket)
            .refund(&trail.spend);
        let pace = self.paces.of_mut(trail.paced_in);
        pace.on_explained(key, &trail.stamp);
    }

    /// What an attempt took was told after its answer.
    pub(crate) fn settle(&mut self, key: KeyId, trail: &mut Trail, said: &Feedback) {
        let ledger = self.keys[key.index()].ledger_mut(trail.bucket);
        ledger.on_cost(&mut trail.spend, said);
    }

    /// An attempt no longer takes a slot.
    pub(crate) fn on_ended(&mut self, key: KeyId, trail: &Trail) {
        let control = &mut self.keys[key.index()];
        control.in_flight = control.in_flight.saturating_sub(1);
        control.ledger_mut(trail.bucket).on_ended();
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Nothing more is heard of an attempt.
    pub(crate) fn on_gone(&mut self, key: KeyId, trail: &Trail) {
        let control = &mut self.keys[key.index()];
        control.ledger_mut(trail.bucket).on_gone(&trail.spend);
    }

    /// Whether as many are in flight on a key as a controller allows that was chosen.
    pub(crate) fn is_full(&self, key: KeyId) -> bool {
        self.keys[key.index()].is_full()
    }

    /// An attempt that had lent its slot takes it again.
    pub(crate) fn on_reclaimed(&mut self, key: KeyId, trail: &Trail) {
        let control = &mut self.keys[key.index()];
        control.in_flight += 1;
        control.ledger_mut(trail.bucket).on_reclaimed();
        self.in_flight += 1;
    }
}

/// In seconds: how long a step of a slow start takes at most. Two of them are as long as a refusal
/// that comes as late as an answer, and few have gone by then.
const LONGEST_STEP: f64 = 0.05;
/// In seconds: how long a key without quota rests to hear of more refusals.
const LONGEST_REST: f64 = 0.02;
