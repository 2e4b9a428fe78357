//! What was learned of a provider, as others use it: the next run, and the processes that share it.

use crate::feedback::Feedback;
use crate::scheduler::events::{KeyId, What};
use crate::scheduler::memory::Doubt;
use crate::scheduler::pace::{Changed, KeyPaceMemory, PaceMemory, Rate};
use crate::scheduler::time::Time;

use super::{Changes, Control};

impl Control {
    /// What of the rates that a bucket goes by is worth knowing the next time.
    pub(in crate::scheduler) fn remember_paces(&self, bucket: u32) -> PaceMemory {
        self.paces.of(bucket).remember()
    }

    /// The same of one key.
    pub(in crate::scheduler) fn remember_pace(
        &self,
        bucket: u32,
        key: KeyId,
        now: Time,
    ) -> Option<KeyPaceMemory> {
        self.paces.of(bucket).remember_key(key, now)
    }

    /// Begins with what was learned before of the rates that a bucket goes by.
    pub(in crate::scheduler) fn recall_paces(
        &mut self,
        bucket: u32,
        memory: &PaceMemory,
        keys: &[(KeyId, &KeyPaceMemory)],
        doubt: Doubt,
        now: Time,
    ) {
        self.paces.of_mut(bucket).recall(memory, keys, doubt, now);
    }

    /// The most in flight that did no harm, if more than at first was tried.
    pub(in crate::scheduler) fn verified_window(&self) -> Option<f64> {
        (!self.told).then(|| self.window.verified()).flatten()
    }

    pub(in crate::scheduler) fn recall_window(&mut self, verified: Option<f64>, doubt: Doubt) {
        if let Some(verified) = verified {
            self.window.recall(verified * (1.0 - doubt.share()));
        }
    }

    /// The most in flight on a key that the server takes, if it was found to bound that.
    pub(in crate::scheduler) fn cap(&self, key: KeyId) -> Option<u32> {
        self.keys[key.index()].cap.found()
    }

    pub(in crate::scheduler) fn recall_cap(&mut self, key: KeyId, cap: Option<u32>, doubt: Doubt) {
        let cap = cap.map(|cap| (f64::from(cap) * (1.0 - doubt.share())) as u32);
        if let Some(cap) = cap.filter(|&cap| cap > 0) {
            self.keys[key.index()].cap.recall(cap);
        }
    }

    /// What others can use of the rate that was learned of a key.
    pub(crate) fn told_rate(&self, key: KeyId) -> Option<Rate> {
        self.paces.common().told(key)
    }

    /// Somebody else learned this rate of a key, at `observed`.
    pub(crate) fn hear_rate(&mut self, key: KeyId, rate: Rate, observed: Time) -> Option<What> {
        let changed = self.paces.common_mut().hear(key, rate, observed);
        changed.map(Changed::into_what)
    }

    /// Whether an answer of one's own may tell more of a bucket.
    pub(crate) fn awaits_answer(&self, key: KeyId, bucket: u32) -> bool {
        let ledger = self.keys[key.index()].ledger(bucket);
        ledger.is_some_and(|ledger| ledger.in_flight() > 0)
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
}
