//! Who is let into the queue: refused at once is whoever could surely not be sent in time, and who
//! is too many.

use std::time::Duration;

use super::Scheduler;
use super::events::{Ask, Cost, Priority, Reason, Refusal, Ticket};
use super::mode::Mode;
use super::queue::{LaneId, Newcomer};
use super::time::Time;

/// How long asks of a priority wait at least, whether there is room or not. With free capacity a
/// delay only costs time, so there is none unless it is set; it helps where what is wanted later
/// would otherwise be sent a moment before something that is wanted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct Delays {
    /// From [`Priority::NORMAL`] up to below [`Priority::HIGH`]; above there is none.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub normal: Duration,
    /// From [`Priority::LOW`] up.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub low: Duration,
    /// Below that.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub background: Duration,
}

impl Delays {
    /// 2, 5 and 10 s: the Rakuten system's.
    #[must_use]
    pub const fn rakuten() -> Self {
        Self {
            normal: Duration::from_secs(2),
            low: Duration::from_secs(5),
            background: Duration::from_secs(10),
        }
    }

    /// How long an ask of this priority waits at least.
    #[must_use]
    pub fn of(&self, priority: Priority) -> Duration {
        match priority {
            priority if priority >= Priority::HIGH => Duration::ZERO,
            priority if priority >= Priority::NORMAL => self.normal,
            priority if priority >= Priority::LOW => self.low,
            _ => self.background,
        }
    }
}

/// When an ask is to be sent.
#[derive(Clone, Copy)]
struct Times {
    not_before: Time,
    deadline: Time,
}

impl Scheduler {
    /// Accepts an ask, which then waits for its grant.
    ///
    /// # Errors
    ///
    /// A refusal that is certain already: closed, full, shed, too large, an unknown key, or a wait
    /// that is known to be longer than the ask allows.
    pub fn submit(&mut self, ask: Ask, now: Time) -> Result<Ticket, Refusal> {
        if self.closed {
            return Err(Refusal::Closed);
        }
        let pin = match ask.pin {
            Some(key) => Some(self.keys.find(key).ok_or(Refusal::UnknownKey { key })?),
            None => None,
        };
        let lane = LaneId {
            bucket: self.buckets.id(ask.bucket.as_ref()),
            pin,
            above: (self.settings.reserve)
                .is_some_and(|reserve| !reserve.is_kept_from(ask.priority)),
        };
        let mut times = self.times(&ask, now);
        let admitted = self.admit(&ask, lane, times, now);
        if let Err(refusal) = admitted.and_then(|()| self.shed(&ask, now)) {
            self.on_refused_ask(refusal)?;
        }
        if self.settings.mode != Mode::Enforce {
            times.not_before = now;
        }
        let newcomer = Newcomer {
            lane,
            priority: ask.priority,
            tenant: ask.tenant,
            cost: ask.cost,
            deadline: times.deadline,
            patient: ask.deadline.is_none(),
            not_before: times.not_before,
            group: ask.group,
            replay: ask.replay,
        };
        Ok(self.queue.push(newcomer, now))
    }

    fn times(&self, ask: &Ask, now: Time) -> Times {
        // Whoever may not wait at all may still go at once.
        let max_wait = self.settings.max_wait.map(|most| most.max(AT_ONCE));
        let patience = match (ask.deadline, max_wait) {
            (Some(deadline), Some(max_wait)) => Some(deadline.min(max_wait)),
            (deadline, max_wait) => deadline.or(max_wait),
        };
        let delay = || self.settings.delays.map(|delays| delays.of(ask.priority));
        Times {
            not_before: now + ask.not_before.or_else(delay).unwrap_or_default(),
            deadline: patience.map_or(Time::NEVER, |patience| now + patience),
        }
    }

    /// Whether an ask could be sent in time, as far as that is certain already.
    fn admit(&self, ask: &Ask, lane: LaneId, times: Times, now: Time) -> Result<(), Refusal> {
        if self.queue.is_full() {
            return Err(Refusal::QueueFull {
                limit: self.settings.queue,
                expected: self.throughput.time_for(self.queue.len()),
            });
        }
        if let Some(fault) = self.keys.all_faulty(now) {
            return Err(Refusal::AllKeysFaulty { fault });
        }
        if !ask.estimated {
            self.check_size(lane, &ask.cost)?;
        }
        let known = self.known_wait(lane, now);
        if let Some((until, _)) = known.filter(|&(until, _)| until >= times.deadline) {
            return Err(Refusal::AllKeysParked { until });
        }
        if times.not_before >= times.deadline {
            let is_delayed = times.not_before > now;
            return Err(Refusal::Deadline {
                earliest: is_delayed.then_some(times.not_before),
                reason: is_delayed.then_some(Reason::NotBefore),
            });
        }
        if times.deadline == Time::NEVER {
            return Ok(());
        }
        let behind = now + self.wait_for_ceilings(ask, lane);
        let earliest = behind.max(self.ceilings_open(ask, lane, now));
        if earliest >= times.deadline {
            return Err(Refusal::Deadline {
                earliest: Some(earliest),
                reason: Some(Reason::Ceiling),
            });
        }
        Ok(())
    }

    /// When the hard rates surely let an ask pass, and not before.
    fn ceilings_open(&self, ask: &Ask, lane: LaneId, now: Time) -> Time {
        let keys = self.keys_of(lane);
        let own = keys.map(|key| self.key_ceilings[key.index()].opens(&ask.cost, now));
        let all = self.provider_ceilings.opens(&ask.cost, now);
        all.max(own.min().unwrap_or(now))
    }

    /// How long an ask waits at least behind those of the same tenant and class, by the hard rates
    /// alone. They all go before it.
    fn wait_for_ceilings(&self, ask: &Ask, lane: LaneId) -> Duration {
        let has_rates = |ceilings: &super::ceiling::Ceilings| ceilings.has_request_rates();
        if !has_rates(&self.provider_ceilings) && !self.key_ceilings.iter().any(has_rates) {
            return Duration::ZERO;
        }
        let before = self.queue.before(lane, ask.priority, ask.tenant.as_ref());
        if before == 0 {
            return Duration::ZERO;
        }
        let all = self.provider_ceilings.least_time_for(before as u64, 1);
        let keys = self.keys_of(lane).count() as u64;
        let own = self
            .keys_of(lane)
            .map(|key| self.key_ceilings[key.index()].least_time_for(before as u64, keys));
        all.max(own.min().unwrap_or_default())
    }

    /// Whether an ask is turned away because the queue is longer than can be served.
    fn shed(&mut self, ask: &Ask, now: Time) -> Result<(), Refusal> {
        let Some(settings) = self.settings.shedding else {
            return Ok(());
        };
        self.throughput.look(self.queue.len() > 0, now);
        let before = self.queue.at_or_above(ask.priority);
        let expected = self.throughput.time_for(before);
        if !self.shedder.sheds(&settings, ask.priority, expected, now) {
            return Ok(());
        }
        Err(Refusal::Shed {
            expected: expected.unwrap_or_default(),
            longest: settings.longest,
        })
    }

    fn check_size(&self, lane: LaneId, cost: &Cost) -> Result<(), Refusal> {
        // Only if no key could ever take it: their quotas may differ.
        let mut keys = self.keys_of(lane);
        let largest = keys.try_fold(None, |_, key| {
            let bucket = self.buckets.home(lane.bucket);
            self.control.too_large(key, bucket, cost).map(Some)
        });
        if let Some(Some((dimension, cost, limit))) = largest {
            return Err(Refusal::TooLarge {
                dimension,
                cost,
                limit,
            });
        }
        let ceilings = self.key_ceilings.iter().chain([&self.provider_ceilings]);
        match ceilings
            .filter_map(|ceilings| ceilings.too_large(cost))
            .next()
        {
            Some((dimension, limit)) => Err(Refusal::TooLarge {
                dimension,
                cost: cost.of(dimension),
                limit,
            }),
            None => Ok(()),
        }
    }
}

/// Whoever may not wait at all is granted within this, or not: a clock's grain.
const AT_ONCE: Duration = Duration::from_millis(1);
