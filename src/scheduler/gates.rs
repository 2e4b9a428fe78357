//! The gates of every ask in their order: which key can serve it now, or when and why not before.

use smallvec::SmallVec;

use super::allowance::Allowances;
use super::ceiling::Ceilings;
use super::control::Control;
use super::events::{Cost, Gate, KeyId, Reason};
use super::keys::KeyPool;
use super::mode::Mode;
use super::names::Names;
use super::queue::{Entry, Head, LaneId, SlotQueue};
use super::reserve::Reserve;
use super::time::Time;
use super::{Scheduler, is_certain};

/// Why no key can serve an ask now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shut {
    /// When the first of its keys opens.
    pub(crate) until: Time,
    /// What that one waits for.
    pub(crate) reason: Reason,
    /// No other may open before: else nothing is certain, whatever the first waits for.
    pub(crate) is_certain: bool,
    /// What nobody whose turn is later may take of, if it had to wait for longer then.
    pub(crate) claim: Option<Claim>,
}

/// What a head waits to have enough of: hard rates, which lanes share and of which asks take unlike
/// amounts. What is freed bit by bit would else go to whoever needs a bit, and never suffice for who
/// needs much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// Those of a key; none are those of all keys together.
    key: Option<KeyId>,
    cost: Cost,
}

impl Claim {
    fn of(entry: &Entry, key: Option<KeyId>, reason: Reason) -> Option<Self> {
        let takes_much = reason == Reason::Ceiling && entry.cost != Cost::ONE;
        takes_much.then_some(Self {
            key,
            cost: entry.cost,
        })
    }
}

impl Shut {
    /// The moment before which nothing surely can go.
    pub(crate) fn known_until(&self) -> Time {
        if self.is_certain {
            self.until
        } else {
            Time::START
        }
    }

    pub(crate) fn new(until: Time, reason: Reason) -> Self {
        Self {
            until,
            reason,
            is_certain: is_certain(reason),
            claim: None,
        }
    }
}

/// Everything that says "not before", for one poll.
struct Gates<'a> {
    keys: &'a KeyPool,
    buckets: &'a Names,
    control: &'a mut Control,
    key_ceilings: &'a [Ceilings],
    provider_ceilings: &'a Ceilings,
    overloaded_until: Time,
    allowances: Option<&'a Allowances>,
    reserve: Option<&'a Reserve>,
}

impl Gates<'_> {
    /// The key that can serve an ask now, or when and why not.
    fn choose_key(&mut self, queue: &SlotQueue, head: Head, now: Time) -> Result<KeyId, Shut> {
        let entry = queue.entry(head.ticket).expect("a head is alive");
        let lane = queue.lane_at(head.lane).id;
        self.ask_provider(queue, head, entry, now)?;
        let kept = self
            .reserve
            .filter(|reserve| reserve.is_kept_from(entry.priority));
        let mut whole = kept.map_or(0, |reserve| self.whole_keys(reserve, lane));
        let mut choice = Choice::default();
        let mut opens: SmallVec<[Time; 8]> = SmallVec::new();
        for key in self.keys.ids() {
            if lane.pin.is_some_and(|pin| pin != key) {
                continue;
            }
            if whole > 0 && self.keys.is_sound(key) {
                whole -= 1;
                continue;
            }
            let (mut gate, claim) = self.claimed_gate(queue, head, entry, key, now);
            if let Some(reserve) = kept {
                opens.extend(usable_from(gate, now));
                if gate == Gate::Open {
                    gate = self.reserve_gate(key, entry, reserve, now);
                }
            }
            match gate {
                Gate::Open => choice.on_open(key, self.keys.key(key).last_grant),
                Gate::Shut { until, reason } => choice.on_shut(Shut {
                    claim,
                    ..Shut::new(until, reason)
                }),
            }
        }
        if let (Some(_), Some(reserve), None) = (choice.best, kept, lane.pin)
            && let Gate::Shut { until, reason } = reserve.keys(opens, now)
        {
            return Err(Shut::new(until, reason));
        }
        choice.made()
    }

    /// What holds for all keys together, and what others claim of that.
    fn ask_provider(
        &self,
        queue: &SlotQueue,
        head: Head,
        entry: &Entry,
        now: Time,
    ) -> Result<(), Shut> {
        let own = Gate::at(self.overloaded_until, Reason::Hint, now)
            .and(self.provider_ceilings.gate(&entry.cost, now));
        if let Gate::Shut { until, reason } = own {
            return Err(Shut {
                claim: Claim::of(entry, None, reason),
                ..Shut::new(until, reason)
            });
        }
        match self.claims_gate(queue, head, None, now) {
            Gate::Open => Ok(()),
            Gate::Shut { until, reason } => Err(Shut::new(until, reason)),
        }
    }

    /// How many keys are kept whole from an ask.
    fn whole_keys(&self, reserve: &Reserve, lane: LaneId) -> usize {
        if lane.pin.is_some() || reserve.keys == 0 {
            return 0;
        }
        // A key that the server refuses serves nobody: the next one is kept in its place.
        let sound = self.keys.ids().filter(|&key| self.keys.is_sound(key));
        reserve.whole_keys(sound.count())
    }

    /// The gates of one key and what others claim of it; where its own hard rates are shut, what
    /// the ask claims of them.
    fn claimed_gate(
        &mut self,
        queue: &SlotQueue,
        head: Head,
        entry: &Entry,
        key: KeyId,
        now: Time,
    ) -> (Gate, Option<Claim>) {
        match self.key_gate(key, entry, now) {
            Gate::Open => (self.claims_gate(queue, head, Some(key), now), None),
            gate @ Gate::Shut { reason, .. } => (gate, Claim::of(entry, Some(key), reason)),
        }
    }

    /// When and why not before any ask can go, whatever its bucket and cost; none if one might.
    fn all_lanes(&self, now: Time) -> Option<Shut> {
        let provider = Gate::at(self.overloaded_until, Reason::Hint, now)
            .and(self.provider_ceilings.gate(&Cost::ONE, now));
        if let Gate::Shut { until, reason } = provider {
            return Some(Shut::new(until, reason));
        }
        let mut soonest = Shut::new(Time::NEVER, Reason::Fault);
        let mut all_certain = true;
        for key in self.keys.ids() {
            let allowance = self.allowances.map_or(Gate::Open, |a| a.gate(key, now));
            let gate = (self.keys.gate_of_all(key, now))
                .and(self.control.gate_of_all(key, now))
                .and(self.key_ceilings[key.index()].gate(&Cost::ONE, now))
                .and(allowance);
            let Gate::Shut { until, reason } = gate else {
                return None;
            };
            if until <= soonest.until {
                soonest = Shut::new(until, reason);
            }
            all_certain &= is_certain(reason);
        }
        soonest.is_certain &= all_certain;
        Some(soonest)
    }

    /// When the bucket of an ask lets it pass on the first of its keys, whatever else is shut.
    fn bucket_opens(&mut self, entry: &Entry, lane: LaneId, now: Time) -> Time {
        let bucket = self.buckets.home(entry.bucket);
        let keys = self.keys.ids();
        let keys = keys.filter(|&key| lane.pin.is_none_or(|pin| pin == key));
        let opens = keys.map(|key| {
            let gate = self.keys.gate_of_bucket(key, bucket, now);
            let control = &mut self.control;
            match gate.and(control.gate_of_bucket(key, bucket, &entry.cost, now)) {
                Gate::Open => now,
                Gate::Shut { until, .. } => until,
            }
        });
        opens.min().unwrap_or(now)
    }

    /// When hard rates let a head pass on the first of its keys, whatever else is shut.
    fn rates_open(&self, queue: &SlotQueue, head: Head, now: Time) -> Time {
        let entry = queue.entry(head.ticket).expect("a head is alive");
        let lane = queue.lane_at(head.lane).id;
        let rates = |ceilings: &Ceilings, key| {
            let own = ceilings.gate(&entry.cost, now);
            own.and(self.claims_gate(queue, head, key, now))
        };
        let provider = rates(self.provider_ceilings, None);
        let keys = self.keys.ids().filter(|&key| self.keys.is_sound(key));
        let keys = keys.filter(|&key| lane.pin.is_none_or(|pin| pin == key));
        let opens = keys.map(|key| {
            match provider.and(rates(&self.key_ceilings[key.index()], Some(key))) {
                Gate::Shut {
                    until,
                    reason: Reason::Ceiling,
                } => until,
                // Something else may open it sooner, or nothing is shut.
                _ => now,
            }
        });
        opens.min().unwrap_or(now)
    }

    /// What heads whose turn was before claim of the hard rates of a key, or of all together.
    fn claims_gate(&self, queue: &SlotQueue, head: Head, key: Option<KeyId>, now: Time) -> Gate {
        let ceilings = key.map_or(self.provider_ceilings, |key| {
            &self.key_ceilings[key.index()]
        });
        let cost = queue
            .entry(head.ticket)
            .map_or(Cost::ONE, |entry| entry.cost);
        let mut claims = queue.claims_before(head);
        let held_up = claims.find(|(until, claim)| {
            #[cfg(test)]
            super::queue::steps::count();
            claim.key == key && !ceilings.leaves(&claim.cost, &cost, *until, now)
        });
        held_up.map_or(Gate::Open, |(until, _)| Gate::Shut {
            until,
            reason: Reason::Ceiling,
        })
    }

    /// What is kept from an ask that the gates of a key let pass.
    fn reserve_gate(&self, key: KeyId, entry: &Entry, reserve: &Reserve, now: Time) -> Gate {
        let (cost, usual) = (&entry.cost, self.control.usual());
        let ceilings = &self.key_ceilings[key.index()];
        self.control
            .reserve_gate(key, entry.bucket, cost, reserve, now)
            .and(ceilings.reserve_gate(cost, reserve, usual, now))
            .and(
                self.provider_ceilings
                    .reserve_gate(cost, reserve, usual, now),
            )
    }

    /// The gates of one key, in order. The ceiling is the last gate here: nothing that learns
    /// stands behind it. Then comes what is shared with others.
    fn key_gate(&mut self, key: KeyId, entry: &Entry, now: Time) -> Gate {
        let bucket = self.buckets.home(entry.bucket);
        let barred = Gate::at(entry.barred_until(key), Reason::Backoff, now);
        let parked = self.keys.gate(key, bucket, now).and(barred);
        if matches!(
            parked,
            Gate::Shut {
                until: Time::NEVER,
                ..
            }
        ) {
            return parked;
        }
        parked
            .and(self.control.gate(key, bucket, &entry.cost, now))
            .and(self.key_ceilings[key.index()].gate(&entry.cost, now))
            .and(
                self.allowances
                    .map_or(Gate::Open, |allowances| allowances.gate(key, now)),
            )
    }
}

/// The keys of an ask, as far as they were asked.
struct Choice {
    /// Of those that are open the one that was granted longest ago, by the number of that grant.
    best: Option<(u64, KeyId)>,
    /// Of those that are shut the first that opens.
    soonest: Shut,
    all_certain: bool,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            best: None,
            soonest: Shut::new(Time::NEVER, Reason::Fault),
            all_certain: true,
        }
    }
}

impl Choice {
    fn on_open(&mut self, key: KeyId, last_grant: u64) {
        if self.best.is_none_or(|(other, _)| last_grant < other) {
            self.best = Some((last_grant, key));
        }
    }

    fn on_shut(&mut self, why: Shut) {
        let also = why.until == self.soonest.until && why.reason != Reason::Fault;
        self.all_certain &= why.is_certain;
        if why.until < self.soonest.until || also {
            self.soonest = why;
        }
    }

    fn made(self) -> Result<KeyId, Shut> {
        let Self {
            best,
            mut soonest,
            all_certain,
        } = self;
        soonest.is_certain &= all_certain;
        best.map(|(_, key)| key).ok_or(soonest)
    }
}

/// From when on a key can be used, unless it is out of use for a fault or a rest.
fn usable_from(gate: Gate, now: Time) -> Option<Time> {
    match gate {
        Gate::Open => Some(now),
        Gate::Shut {
            reason:
                Reason::Fault
                | Reason::Renewal
                | Reason::Hint
                | Reason::Penalty
                | Reason::Unanswered
                | Reason::Backoff,
            ..
        } => None,
        Gate::Shut { until, .. } => Some(until),
    }
}

/// The gates of a scheduler, with its queue left free.
macro_rules! gates {
    ($scheduler:expr) => {
        Gates {
            keys: &$scheduler.keys,
            buckets: &$scheduler.buckets,
            control: &mut $scheduler.control,
            key_ceilings: &$scheduler.key_ceilings,
            provider_ceilings: &$scheduler.provider_ceilings,
            overloaded_until: $scheduler.overload.until,
            allowances: $scheduler.allowances.as_deref(),
            reserve: $scheduler.settings.reserve.as_ref(),
        }
    };
}

impl Scheduler {
    /// The key that can serve a waiting ask now, or when and why not.
    pub(super) fn choose_key(&mut self, head: Head, now: Time) -> Result<KeyId, Shut> {
        gates!(self).choose_key(&self.queue, head, now)
    }

    /// When and why not before any ask can go, whatever its bucket and cost; none if one might.
    pub(super) fn all_lanes_shut(&mut self, now: Time) -> Option<Shut> {
        if self.settings.mode != Mode::Enforce {
            return None;
        }
        gates!(self).all_lanes(now)
    }

    /// The ledger of a lane's bucket, if nothing but that bucket can open the lane before `until`.
    pub(super) fn shut_by_bucket(&mut self, head: Head, until: Time, now: Time) -> Option<u32> {
        if self.settings.mode != Mode::Enforce || !self.queue.has_lanes() {
            return None;
        }
        let id = self.queue.lane_at(head.lane).id;
        let entry = self.queue.entry(head.ticket).expect("a head is alive");
        let opens = gates!(self).bucket_opens(entry, id, now);
        (opens >= until).then(|| self.buckets.home(entry.bucket))
    }

    /// What a lane's head takes of hard rates, if nothing but those can open the lane before then.
    pub(super) fn in_line(&mut self, head: Head, why: &Shut, now: Time) -> Option<u32> {
        let is_rate = why.reason == Reason::Ceiling && self.settings.mode == Mode::Enforce;
        if !is_rate || !self.queue.has_lanes() {
            return None;
        }
        let entry = self.queue.entry(head.ticket).expect("a head is alive");
        let takes = entry.cost.size() as u32;
        let opens = gates!(self).rates_open(&self.queue, head, now);
        (opens >= why.until).then_some(takes)
    }

    /// The keys that a lane may use.
    pub(super) fn keys_of(&self, lane: LaneId) -> impl Iterator<Item = KeyId> + '_ {
        self.keys
            .ids()
            .filter(move |&key| lane.pin.is_none_or(|pin| pin == key))
    }

    /// The moment before which parked keys surely keep a lane shut, and why.
    pub(super) fn known_wait(&self, lane: LaneId, now: Time) -> Option<(Time, Reason)> {
        let mut first: Option<(Time, Reason)> = None;
        for key in self.keys_of(lane) {
            match self.keys.gate(key, self.buckets.home(lane.bucket), now) {
                Gate::Open => return None,
                // It opens when something else happens, which may be soon.
                Gate::Shut { reason, .. } if !is_certain(reason) => return None,
                Gate::Shut { until, reason } => {
                    if first.is_none_or(|(best, _)| until < best) {
                        first = Some((until, reason));
                    }
                }
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use http::{HeaderMap, HeaderValue, StatusCode};

    use super::super::queue::steps;
    use super::*;
    use crate::config::Settings;
    use crate::feedback::{self, Profile};
    use crate::scheduler::events::{Ask, Outcome, Priority, Verdict};

    fn served(spent: bool) -> Outcome {
        let mut headers = HeaderMap::new();
        let told = [("limit", "10"), ("remaining", "0"), ("reset", "600")];
        for (name, value) in told.into_iter().filter(|_| spent) {
            let name = http::HeaderName::try_from(format!("x-ratelimit-{name}"));
            headers.insert(name.expect("valid"), HeaderValue::from_static(value));
        }
        let received = SystemTime::UNIX_EPOCH;
        let status = StatusCode::OK;
        let feedback = feedback::read(&Profile::NONE, status, &headers, None, received);
        Outcome::Answered(feedback)
    }

    /// Who asks: whose, and how urgent it is.
    #[derive(Clone, Copy, Debug)]
    enum Who {
        Nobody,
        /// Every bucket has a tenant of its own.
        OnePerBucket,
        /// Three tenants wait in every bucket.
        Everywhere,
        /// Of every bucket one ask is of a person, and two are not.
        Classes,
        /// Every ask takes much of a hard rate.
        Tokens,
    }

    /// What the dearest event takes while `buckets` buckets wait, each with three asks: comparisons
    /// and questions to the gates.
    fn dearest(buckets: u32, spent: bool, who: Who) -> u64 {
        let mut settings = Settings {
            max_concurrency: Some(4),
            max_wait: None,
            ..Settings::default()
        };
        if let Who::Tokens = who {
            let rate = "1000 tokens/100ms".parse().expect("a rate");
            settings.ceilings = vec![rate];
        }
        let mut scheduler = Scheduler::new(settings, &[], 1).expect("the settings are sound");
        for n in 0..3 * buckets {
            let (bucket, place) = (n % buckets, n / buckets);
            let mut ask = Ask::new().bucket(format!("bucket {bucket}"));
            match who {
                Who::Nobody => {}
                Who::OnePerBucket => ask = ask.tenant(format!("tenant {bucket}")),
                Who::Everywhere => ask = ask.tenant(format!("tenant {place}")),
                Who::Classes => ask = ask.priority(Priority([10, 50, 85][place as usize])),
                Who::Tokens => ask = ask.cost(Cost::tokens(300 + n % 5)),
            }
            let now = Time::from_nanos(u64::from(n));
            scheduler.submit(ask, now).expect("there is room");
        }
        let mut in_flight = Vec::new();
        let mut dearest = 0;
        let mut now = 1_000_000_000;
        for round in 0..6 * buckets {
            now += 20_000_000;
            steps::take();
            while let Some(grant) = scheduler.poll_grant(Time::from_nanos(now)) {
                scheduler.start(grant.ticket, Time::from_nanos(now));
                in_flight.push(grant.ticket);
            }
            if let Some(ticket) = in_flight.pop() {
                let outcome = served(spent && round % 3 > 0);
                let verdict = scheduler.complete(ticket, &outcome, Time::from_nanos(now));
                assert!(matches!(verdict, Verdict::Return { .. }));
            }
            while scheduler.poll_refusal(Time::from_nanos(now)).is_some() {}
            // The first grants find every bucket new.
            if round > buckets / 2 {
                dearest = dearest.max(steps::take());
            }
        }
        dearest
    }

    #[test]
    fn a_decision_among_two_thousand_buckets_costs_a_logarithm() {
        for spent in [false, true] {
            for who in [
                Who::Nobody,
                Who::OnePerBucket,
                Who::Everywhere,
                Who::Classes,
                Who::Tokens,
            ] {
                let [few, many] = [100, 2_000].map(|buckets| dearest(buckets, spent, who));
                assert!(
                    many <= 3 * few.max(100),
                    "{few} {many} {who:?} spent: {spent}"
                );
            }
        }
    }
}
