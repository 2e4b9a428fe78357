//! Which key a request goes to: penalties, faults and recovery.
//!
//! A refusal's penalty falls on the key that was refused (and on the bucket, if the refusal named
//! one), never on the others. A hint never shortens a penalty, and outcomes of requests sent
//! before the last penalty count for nothing. A key is retired only after a second, independent
//! refusal of the key itself, and then probed rarely, not forgotten.

mod fault;
mod key;
mod penalty;

use std::time::Duration;

use super::events::{Because, Fingerprint, Gate, KeyId, Reason, What};
use super::secrets::Secret;
use super::time::Time;
use fault::{FIRST_PROBE, LAST_PROBE};
pub(crate) use key::Key;
pub use penalty::{HintScope, Penalty};

/// The keys of one limiter.
#[derive(Debug)]
pub(crate) struct KeyPool {
    keys: Vec<Key>,
    penalty: Penalty,
    hint_scope: HintScope,
    longest_park: Duration,
    granted: u64,
}

/// What a refusal did to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The refused request must not see this key again before.
    pub(crate) request_until: Time,
    /// Nothing was served between the refusal of the key before and this one: the key is used up,
    /// whatever was asked for.
    pub(crate) in_a_row: bool,
    /// The key is parked until, if it is.
    pub(crate) parked: Option<(Time, Because)>,
}

impl KeyPool {
    pub(crate) fn new(
        fingerprints: &[Fingerprint],
        penalty: Penalty,
        hint_scope: HintScope,
        longest_park: Duration,
    ) -> Self {
        let mut pool = Self {
            keys: Vec::new(),
            penalty,
            hint_scope,
            longest_park,
            granted: 0,
        };
        pool.set(fingerprints);
        pool
    }

    /// Makes these the keys in use: those that stay keep their state, the same one twice is one.
    pub(crate) fn set(&mut self, fingerprints: &[Fingerprint]) {
        for key in &mut self.keys {
            key.removed = !fingerprints.contains(&key.fingerprint);
        }
        for &fingerprint in fingerprints {
            if !self.keys.iter().any(|key| key.fingerprint == fingerprint) {
                self.keys.push(Key::new(fingerprint));
            }
        }
    }

    /// Changes what refusals cost from now on; penalties that were given stay.
    pub(crate) fn set_rules(
        &mut self,
        penalty: Penalty,
        hint_scope: HintScope,
        longest_park: Duration,
    ) {
        self.penalty = penalty;
        self.hint_scope = hint_scope;
        self.longest_park = longest_park;
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn key(&self, id: KeyId) -> &Key {
        &self.keys[id.index()]
    }

    pub(crate) fn find(&self, fingerprint: Fingerprint) -> Option<KeyId> {
        let index = self
            .keys
            .iter()
            .position(|key| key.fingerprint == fingerprint)?;
        (!self.keys[index].removed).then_some(KeyId(index as u32))
    }

    /// The keys in use.
    pub(crate) fn ids(&self) -> impl Iterator<Item = KeyId> + '_ {
        self.keys
            .iter()
            .enumerate()
            .filter(|(_, key)| !key.removed)
            .map(|(index, _)| KeyId(index as u32))
    }

    /// Whether there is a key in use besides this one that the server does not refuse.
    pub(crate) fn has_other(&self, id: KeyId) -> bool {
        self.ids().any(|other| other != id && self.is_sound(other))
    }

    /// Whether there is a secret of the key, and the server does not refuse it.
    pub(crate) fn is_sound(&self, id: KeyId) -> bool {
        let key = self.key(id);
        key.faulty.is_none() && key.secret.is_here()
    }

    /// Whether the key was taken out of use.
    pub(crate) fn is_removed(&self, id: KeyId) -> bool {
        self.key(id).removed
    }

    /// Whether there is, or will be, another secret of the key than that of a request that was sent
    /// at `sent`.
    pub(super) fn has_newer(&self, id: KeyId, sent: Time) -> bool {
        self.key(id).secret.is_newer_than(sent)
    }

    /// Whether a fault of the key is over with that.
    pub(super) fn set_secret(&mut self, id: KeyId, secret: Secret) -> bool {
        let key = &mut self.keys[id.index()];
        key.secret = secret;
        secret.is_here() && key.faulty.take().is_some_and(|faulty| faulty.retired)
    }

    /// When a key may be used for a bucket.
    pub(crate) fn gate(&self, id: KeyId, bucket: u32, now: Time) -> Gate {
        let gate = self.gate_of_all(id, now);
        match gate {
            Gate::Shut {
                until: Time::NEVER, ..
            } => gate,
            _ => gate.and(self.gate_of_bucket(id, bucket, now)),
        }
    }

    /// When a bucket of a key may be used, if the key may.
    pub(crate) fn gate_of_bucket(&self, id: KeyId, bucket: u32, now: Time) -> Gate {
        let parks = self.key(id).bucket_parks.iter();
        let own = parks.filter(|&&(parked, _)| parked == bucket);
        own.fold(Gate::Open, |gate, &(_, until)| {
            gate.and(Gate::at(until, Reason::Hint, now))
        })
    }

    /// When a key may be used for any bucket.
    pub(crate) fn gate_of_all(&self, id: KeyId, now: Time) -> Gate {
        let key = self.key(id);
        if key.removed {
            return Gate::Shut {
                until: Time::NEVER,
                reason: Reason::Fault,
            };
        }
        if !key.secret.is_here() {
            return Gate::Shut {
                until: Time::NEVER,
                reason: Reason::Renewal,
            };
        }
        if key.unanswered >= MUTE && key.in_flight > 0 {
            // One probe at a time finds out whether it answers again.
            return Gate::Shut {
                until: Time::NEVER,
                reason: Reason::Limit,
            };
        }
        let mut gate = Gate::at(key.parked_until, key.park_reason, now);
        if let Some(faulty) = &key.faulty {
            gate = gate.and(Gate::at(faulty.probe_at, Reason::Fault, now));
        }
        gate
    }

    /// Until when a key rests as a whole, and why; none if it does not.
    pub(crate) fn rest(&self, id: KeyId, now: Time) -> Option<(Time, Reason)> {
        let key = self.key(id);
        (key.parked_until > now).then_some((key.parked_until, key.park_reason))
    }

    /// Until when a key rests, or rested, as a whole.
    pub(crate) fn rest_until(&self, id: KeyId) -> Time {
        self.key(id).parked_until
    }

    /// The buckets of a key that rest, and until when.
    pub(crate) fn bucket_rests(
        &self,
        id: KeyId,
        now: Time,
    ) -> impl Iterator<Item = (u32, Time)> + '_ {
        let parks = self.key(id).bucket_parks.iter().copied();
        parks.filter(move |&(_, until)| until > now)
    }

    /// Whether any key, or a bucket of one, is kept out of use.
    pub(crate) fn any_parked(&self, now: Time) -> bool {
        self.ids().any(|id| {
            let key = self.key(id);
            key.parked_until > now
                || key.faulty.is_some()
                || key.bucket_parks.iter().any(|&(_, until)| until > now)
        })
    }

    pub(crate) fn on_granted(&mut self, id: KeyId, now: Time) {
        self.granted += 1;
        let key = &mut self.keys[id.index()];
        key.in_flight += 1;
        key.last_grant = self.granted;
        if let Some(faulty) = &mut key.faulty {
            // This grant is the probe: one at a time, and rarer each time.
            let step = FIRST_PROBE.saturating_mul(1 << faulty.probes.min(16));
            faulty.probes += 1;
            faulty.probe_at = now + step.min(LAST_PROBE);
        }
    }

    pub(crate) fn on_ended(&mut self, id: KeyId) {
        let key = &mut self.keys[id.index()];
        key.in_flight = key.in_flight.saturating_sub(1);
    }

    /// An attempt whose slot was lent counts again.
    pub(crate) fn on_reclaimed(&mut self, id: KeyId) {
        self.keys[id.index()].in_flight += 1;
    }

    /// A request that was sent at `sent` was served.
    pub(crate) fn on_served(&mut self, id: KeyId, sent: Time) -> Option<What> {
        let key = &mut self.keys[id.index()];
        if key.is_stale(sent) {
            return None;
        }
        if key.last_refusal.is_none_or(|last| sent > last) {
            key.refusals = 0;
        }
        // A late success from before the fault must not revive a key that was revoked since.
        if key
            .faulty
            .as_ref()
            .is_some_and(|faulty| sent >= faulty.since)
        {
            let faulty = key.faulty.take()?;
            return faulty.retired.then_some(What::Restored);
        }
        None
    }

    /// A request that was sent at `sent` was refused for going too fast. `hint` is the wait that
    /// the server asked for, already spread, and whether it was a whole second that may be a
    /// fraction of one rounded up; `in_a_row` whether nothing was accepted since the refusal before,
    /// where that is known better than by the answers.
    pub(crate) fn on_refused(
        &mut self,
        id: KeyId,
        bucket: Option<u32>,
        hint: Option<(Duration, bool)>,
        in_a_row: Option<bool>,
        sent: Time,
        now: Time,
    ) -> Refused {
        let (penalty, scope, longest) = (self.penalty, self.hint_scope, self.longest_park);
        let key = &mut self.keys[id.index()];
        let stale = key.is_stale(sent);
        // The refusals of one burst are one.
        if key.last_refusal.is_none_or(|last| sent > last) {
            let before = if in_a_row == Some(false) {
                0
            } else {
                key.refusals
            };
            key.refusals = before.saturating_add(1);
            key.last_refusal = Some(now);
        }
        let wait = hint.map_or(Duration::ZERO, |(wait, _)| wait);
        let request_until = now + wait;
        let hinted = match (hint, scope) {
            (None, _) | (_, HintScope::Request) => Duration::ZERO,
            (Some((_, true)), HintScope::Auto) if key.refusals <= 1 => Duration::ZERO,
            _ => wait,
        };
        let streak = match penalty {
            Penalty::Streak { each, most } if !stale => each.saturating_mul(key.refusals).min(most),
            _ => Duration::ZERO,
        };
        let (park, why) = if streak > hinted {
            (streak, Because::Streak)
        } else {
            (hinted, Because::Hint)
        };
        let in_a_row = key.refusals >= 2;
        if park.is_zero() {
            return Refused {
                request_until,
                in_a_row,
                parked: None,
            };
        }
        let until = now + park.min(longest);
        if why == Because::Streak {
            key.last_penalty = Some(now);
        }
        let moved = key.park(bucket, until, why, now);
        Refused {
            request_until,
            in_a_row,
            parked: moved.then_some((until, why)),
        }
    }

    /// Somebody answered a request on this key, whatever the answer was.
    pub(crate) fn on_answered(&mut self, id: KeyId) {
        self.keys[id.index()].unanswered = 0;
    }

    /// Nobody answered a request that was sent at `sent`. While there are other keys, one on which
    /// that happens again and again rests, lest it takes the retries of many along.
    pub(crate) fn on_unanswered(&mut self, id: KeyId, sent: Time, now: Time) -> Option<What> {
        let has_other = self.has_other(id);
        let key = &mut self.keys[id.index()];
        if !has_other || key.rested_at.is_some_and(|rested| sent <= rested) {
            return None;
        }
        key.unanswered = key.unanswered.saturating_add(1);
        let rests = key.unanswered.checked_sub(MUTE)?;
        key.rested_at = Some(now);
        let until = now + FIRST_REST.saturating_mul(1 << rests.min(16)).min(LAST_REST);
        let why = Because::Unanswered;
        key.park(None, until, why, now)
            .then_some(What::Parked { until, why })
    }

    /// Parks a key until a moment that is known for another reason (a spent quota).
    pub(crate) fn park(
        &mut self,
        id: KeyId,
        bucket: Option<u32>,
        wait: Duration,
        now: Time,
    ) -> Time {
        let until = now + wait.min(self.longest_park);
        self.keys[id.index()].park(bucket, until, Because::Hint, now);
        until
    }
}

/// So many attempts in a row without an answer are no accident.
const MUTE: u32 = 3;
/// A key that does not answer rests for this long, then for twice that, …
const FIRST_REST: Duration = Duration::from_secs(1);
/// … and at most for this: an outage of the provider's looks the same, and it ends.
const LAST_REST: Duration = Duration::from_secs(10);
#[cfg(test)]
mod tests {
    use crate::feedback::Fault;

    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn fingerprints(count: u8) -> Vec<Fingerprint> {
        (1..=count)
            .map(|n| Fingerprint::from_hash([n; 6]))
            .collect()
    }

    fn pool(count: u8, penalty: Penalty) -> KeyPool {
        KeyPool::new(&fingerprints(count), penalty, HintScope::Auto, secs(86_400))
    }

    fn is_open(pool: &KeyPool, key: u32, now: f64) -> bool {
        pool.gate(KeyId(key), 0, at(now)) == Gate::Open
    }

    #[test]
    fn the_rakuten_penalty_is_three_seconds_for_each_refusal_in_a_row() {
        let mut pool = pool(2, Penalty::streak());
        let key = KeyId(0);
        let refused = |pool: &mut KeyPool, sent: f64| {
            pool.on_refused(key, None, None, None, at(sent), at(sent))
                .parked
                .map(|(until, _)| until)
        };
        assert_eq!(refused(&mut pool, 1.0), Some(at(4.0)));
        assert!(is_open(&pool, 1, 1.0), "the other key is spared");
        assert_eq!(refused(&mut pool, 5.0), Some(at(11.0)));
        pool.on_served(key, at(12.0));
        assert_eq!(
            refused(&mut pool, 13.0),
            Some(at(16.0)),
            "one success zeroes the count"
        );
        for n in 0..30 {
            refused(&mut pool, 100.0 * f64::from(n + 1));
        }
        assert_eq!(
            refused(&mut pool, 9000.0),
            Some(at(9060.0)),
            "at most a minute"
        );
    }

    #[test]
    fn outcomes_from_before_a_penalty_change_nothing() {
        let mut pool = pool(1, Penalty::streak());
        let key = KeyId(0);
        pool.on_refused(key, None, None, None, at(1.0), at(1.5));
        pool.on_refused(key, None, None, None, at(1.1), at(1.6));
        pool.on_served(key, at(1.2));
        let next = pool.on_refused(key, None, None, None, at(5.0), at(5.0));
        assert_eq!(
            next.parked,
            Some((at(11.0), Because::Streak)),
            "the second in a row"
        );
    }

    #[test]
    fn a_hint_never_shortens_a_park() {
        let mut pool = pool(1, Penalty::Hint);
        let key = KeyId(0);
        pool.on_refused(key, None, Some((secs(60), false)), None, at(1.0), at(1.0));
        let second = pool.on_refused(key, None, Some((secs(2), false)), None, at(1.0), at(2.0));
        assert_eq!(second.parked, None);
        assert!(!is_open(&pool, 0, 60.9));
        assert!(is_open(&pool, 0, 61.0));
    }

    #[test]
    fn a_lone_second_stops_the_request_and_a_repeated_one_the_key() {
        let mut pool = pool(1, Penalty::Hint);
        let key = KeyId(0);
        let first = pool.on_refused(key, None, Some((secs(1), true)), None, at(1.0), at(1.0));
        assert_eq!(
            first,
            Refused {
                in_a_row: false,
                request_until: at(2.0),
                parked: None
            }
        );
        assert!(is_open(&pool, 0, 1.0));
        let second = pool.on_refused(key, None, Some((secs(1), true)), None, at(1.2), at(1.2));
        assert_eq!(second.parked, Some((at(2.2), Because::Hint)));
        pool.on_served(key, at(3.0));
        let third = pool.on_refused(key, None, Some((secs(1), true)), None, at(4.0), at(4.0));
        assert_eq!(third.parked, None, "between successes again");
    }

    #[test]
    fn a_hint_of_years_parks_for_a_day_and_then_probes() {
        let mut pool = pool(1, Penalty::Hint);
        let refused = pool.on_refused(
            KeyId(0),
            None,
            Some((Duration::MAX, false)),
            None,
            at(1.0),
            at(1.0),
        );
        assert_eq!(
            refused.request_until,
            Time::NEVER,
            "the request keeps the server's word"
        );
        assert!(is_open(&pool, 0, 86_401.0));
    }

    #[test]
    fn a_refusal_that_names_a_bucket_parks_that_bucket_only() {
        let mut pool = pool(1, Penalty::Hint);
        pool.on_refused(
            KeyId(0),
            Some(7),
            Some((secs(60), false)),
            None,
            at(1.0),
            at(1.0),
        );
        assert!(pool.gate(KeyId(0), 7, at(2.0)) != Gate::Open);
        assert_eq!(pool.gate(KeyId(0), 0, at(2.0)), Gate::Open);
    }

    #[test]
    fn a_key_is_retired_by_a_second_independent_refusal_and_then_probed() {
        let mut pool = pool(2, Penalty::Hint);
        let key = KeyId(0);
        let fault = Fault::Unauthorized;
        assert_eq!(
            pool.on_fault(key, fault, at(1.0), at(1.1)),
            Some(What::Suspected(fault))
        );
        assert_eq!(
            pool.on_fault(key, fault, at(1.05), at(1.2)),
            None,
            "sent before the first"
        );
        assert_eq!(
            pool.on_fault(key, fault, at(2.0), at(2.1)),
            Some(What::Retired(fault))
        );
        assert!(!is_open(&pool, 0, 7.0));
        assert!(is_open(&pool, 0, 7.1));
        pool.on_granted(key, at(7.1));
        assert!(!is_open(&pool, 0, 12.0), "one probe at a time");
        assert_eq!(
            pool.on_served(key, at(1.5)),
            None,
            "a late success revives nothing"
        );
        assert_eq!(pool.on_served(key, at(7.1)), Some(What::Restored));
        assert!(is_open(&pool, 0, 7.2));
    }

    #[test]
    fn the_application_s_own_credential_is_never_retired() {
        let mut pool = KeyPool::new(
            &[Fingerprint::ANONYMOUS],
            Penalty::Hint,
            HintScope::Auto,
            secs(1),
        );
        for n in 0..5 {
            assert_eq!(
                pool.on_fault(KeyId(0), Fault::Unauthorized, at(f64::from(n)), at(9.0)),
                None
            );
        }
        assert!(is_open(&pool, 0, 9.0));
    }

    #[test]
    fn the_same_key_twice_is_one_and_those_that_stay_keep_their_state() {
        let mut twice = fingerprints(2);
        twice.push(twice[0]);
        let mut pool = KeyPool::new(&twice, Penalty::streak(), HintScope::Auto, secs(86_400));
        assert_eq!(pool.len(), 2);
        pool.on_refused(KeyId(0), None, None, None, at(1.0), at(1.0));
        let mut next = fingerprints(3);
        next.remove(1);
        pool.set(&next);
        assert_eq!(pool.ids().collect::<Vec<_>>(), [KeyId(0), KeyId(2)]);
        assert!(!is_open(&pool, 0, 2.0));
        assert_eq!(pool.find(fingerprints(2)[1]), None);
    }

    #[test]
    fn a_key_that_never_answers_rests_and_is_probed_by_one_at_a_time() {
        let mut pool = pool(2, Penalty::Hint);
        let key = KeyId(0);
        for n in 0..3 {
            assert!(is_open(&pool, 0, 3.0));
            pool.on_unanswered(key, at(f64::from(n)), at(3.0));
        }
        assert!(!is_open(&pool, 0, 3.9));
        pool.on_unanswered(key, at(2.5), at(3.5));
        assert!(
            is_open(&pool, 0, 4.0),
            "what was in flight with them says nothing new"
        );
        pool.on_granted(key, at(4.0));
        assert!(!is_open(&pool, 0, 4.0), "one probe");
        pool.on_ended(key);
        pool.on_unanswered(key, at(4.0), at(7.0));
        assert!(!is_open(&pool, 0, 8.9));
        pool.on_granted(key, at(9.0));
        pool.on_answered(key);
        assert!(is_open(&pool, 0, 9.1));
    }

    #[test]
    fn the_only_key_is_never_put_to_rest_for_silence() {
        let mut pool = pool(1, Penalty::Hint);
        for n in 0..9 {
            assert_eq!(
                pool.on_unanswered(KeyId(0), at(f64::from(n)), at(10.0)),
                None
            );
        }
        assert!(is_open(&pool, 0, 10.0));
    }

    #[test]
    fn all_keys_faulty_is_known_at_once() {
        let mut pool = pool(2, Penalty::Hint);
        for key in [KeyId(0), KeyId(1)] {
            assert_eq!(pool.all_faulty(at(3.0)), None);
            pool.on_fault(key, Fault::Revoked, at(1.0), at(1.0));
            pool.on_granted(key, at(2.0));
        }
        assert_eq!(pool.all_faulty(at(3.0)), Some(Fault::Revoked));
        assert_eq!(pool.all_faulty(at(8.0)), None, "a probe is due");
    }
}
