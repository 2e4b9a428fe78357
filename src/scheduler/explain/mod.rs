//! Why things are as they are: what every key is up to, who waits, and for what.
//!
//! Everything that could grow is cut off at a bound, and the number of what was left out stands
//! beside it. Moments are told as how long they lie ahead, so that a reader needs no clock of ours.
//! Making one looks at every tenant that has asks, and changes nothing.

mod text;

use std::time::Duration;

use crate::feedback::{Dimension, Fault};

use super::Scheduler;
use super::events::{Fingerprint, KeyId, Name, Priority, Reason, Ticket};
use super::mode::{Mode, Observed};
use super::names::Names;
use super::queue::{LaneId, Presence};
use super::time::Time;
pub(super) use text::Short;

/// What a limiter is up to, and why.
///
/// `Display` is for people; with the feature `serde` it can be written for programs. There every
/// field has its name, that of a duration with `_ms` added (`for_` is `for_ms`): whole milliseconds
/// from the moment that it was made. What is not known is `null`. Words are in snake case
/// (`"rate_limited"`); a reason is its word, but for a quota, which is told with what it counts:
/// `{"quota": "requests"}`. A priority is a number, a key its fingerprint. New fields and words may
/// come; none changes its meaning.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Explanation {
    /// Whether limits are enforced.
    pub mode: Mode,
    /// How many wait, those that wait for a moment of their own included.
    pub waiting: usize,
    /// How many attempts are granted or in flight.
    pub in_flight: usize,
    /// The first ask in turn of each lane and what it waits for, in the order in which they would
    /// go: the first of them is the head of the queue. At most [`Explanation::MOST_LANES`].
    pub heads: Vec<Head>,
    /// Lanes beyond those.
    pub more_heads: usize,
    /// How many of those who wait are out of the queue until a moment of their own.
    pub asleep: usize,
    /// How much longer the provider as a whole rests for its own overload.
    #[cfg_attr(
        feature = "serde",
        serde(
            rename = "overloaded_ms",
            serialize_with = "crate::config::some_millis"
        )
    )]
    pub overloaded: Option<Duration>,
    /// The keys in use, at most [`Explanation::MOST_KEYS`].
    pub keys: Vec<KeyReport>,
    /// Keys beyond those.
    pub more_keys: usize,
    /// How many wait in each class, the highest priority first: all who do.
    pub classes: Vec<ClassDepth>,
    /// How many wait of each tenant, the most first; at most [`Explanation::MOST_TENANTS`].
    pub tenants: Vec<TenantDepth>,
    /// Tenants with waiting asks beyond those.
    pub more_tenants: usize,
    /// What would have become of what passed while limits were only observed.
    pub observed: Observed,
}

/// The first ask in turn of a lane.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Head {
    /// Its bucket; none is the default one.
    pub bucket: Option<Name>,
    /// The key that it is pinned to.
    pub pin: Option<Fingerprint>,
    /// Its priority.
    pub priority: Priority,
    /// Its tenant.
    pub tenant: Option<Name>,
    /// How long ago it was submitted.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "age_ms", serialize_with = "crate::config::millis")
    )]
    pub age: Duration,
    /// What binds: the gate that opens last on the key that opens first. None if it may go.
    pub waits_for: Option<Reason>,
    /// How soon that gate opens; none if only an event opens it, such as the end of a request.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "opens_ms", serialize_with = "crate::config::some_millis")
    )]
    pub opens: Option<Duration>,
}

/// What one key is up to.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KeyReport {
    /// Which.
    pub key: Fingerprint,
    /// Its attempts that take a slot.
    pub in_flight: u32,
    /// How many may, by what was learned or set, whichever is less.
    pub limit: Option<u32>,
    /// The learned or set rate, in requests per second; none while none is known.
    pub pace: Option<f64>,
    /// Hard rates and reported quotas, at most [`Explanation::MOST_QUOTAS`].
    pub quotas: Vec<QuotaReport>,
    /// Quotas beyond those.
    pub more_quotas: usize,
    /// Buckets that proved to be refused by themselves, and go by rates of their own; at most
    /// [`Explanation::MOST_APART`].
    pub apart: Vec<ApartReport>,
    /// Such buckets beyond those.
    pub more_apart: usize,
    /// Why it is not used for a while, and for how much longer.
    pub rests: Vec<Rest>,
    /// Why the server refuses it.
    pub fault: Option<FaultReport>,
}

/// One quota of a key.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct QuotaReport {
    /// Its bucket; none is the default one.
    pub bucket: Option<Name>,
    /// What is counted.
    pub dimension: Dimension,
    /// All there is, if that is known.
    pub limit: Option<f64>,
    /// What is left, as it was last reckoned.
    pub left: f64,
    /// How soon it, or what was taken of it first, comes back, where that is known.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "ends_ms", serialize_with = "crate::config::some_millis")
    )]
    pub ends: Option<Duration>,
    /// How it comes back: "bucket", "fixed window", "sliding window", "unknown", or "ceiling" for a
    /// hard rate of the settings.
    pub law: &'static str,
}

/// A bucket that was refused again and again while its key served others: its refusals say nothing
/// about the key any more.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ApartReport {
    /// Which: its name, or the method and path of what nobody had named a bucket for.
    pub bucket: Name,
    /// The key's rate in it, in requests per second; none while none is known.
    pub pace: Option<f64>,
}

/// A time for which a key, or a bucket of it, is not used.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Rest {
    /// The bucket that it is for; none is the whole key.
    pub bucket: Option<Name>,
    /// Why.
    pub why: Reason,
    /// How much longer.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "for_ms", serialize_with = "crate::config::millis")
    )]
    pub for_: Duration,
}

/// Why the server refuses a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FaultReport {
    /// Why.
    pub fault: Fault,
    /// A second, independent refusal has confirmed it.
    pub retired: bool,
    /// How soon one request probes it.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "probe_ms", serialize_with = "crate::config::millis")
    )]
    pub probe: Duration,
}

/// How many wait in a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ClassDepth {
    /// The class.
    pub priority: Priority,
    /// How many.
    pub waiting: usize,
}

/// How many wait of a tenant.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TenantDepth {
    /// Whose; none are asks without a tenant.
    pub tenant: Option<Name>,
    /// Whether it is there.
    pub presence: Presence,
    /// How many.
    pub waiting: usize,
}

impl Explanation {
    /// Keys that are told of. Who has more has a list to look them up in.
    pub const MOST_KEYS: usize = 64;
    /// Quotas that are told of per key.
    pub const MOST_QUOTAS: usize = 32;
    /// Buckets with rates of their own that are told of per key.
    pub const MOST_APART: usize = 16;
    /// Tenants that are told of.
    pub const MOST_TENANTS: usize = 32;
    /// Lanes that are told of.
    pub const MOST_LANES: usize = 16;

    /// The head of the queue; none if nobody waits.
    #[must_use]
    pub fn head(&self) -> Option<&Head> {
        self.heads.first()
    }
}

impl Scheduler {
    /// What it is up to, and why. Poll for grants before: what may have become possible since the
    /// last poll is told as what may go.
    #[must_use]
    pub fn explain(&self, now: Time) -> Explanation {
        let (waiting, in_flight) = self.depth();
        let (heads, more_heads) = self.explain_heads(now);
        let keys: Vec<_> = self.keys.ids().collect();
        let more_keys = keys.len().saturating_sub(Explanation::MOST_KEYS);
        let keys = keys.into_iter().take(Explanation::MOST_KEYS);
        let keys = keys.map(|key| self.explain_key(key, now)).collect();
        let (classes, mut tenants) = self.queue.depths(now);
        let more_tenants = tenants.len().saturating_sub(Explanation::MOST_TENANTS);
        tenants.truncate(Explanation::MOST_TENANTS);
        let overload = self.overload.until;
        Explanation {
            mode: self.settings.mode,
            waiting,
            in_flight,
            heads,
            more_heads,
            asleep: self.queue.asleep(),
            overloaded: (overload > now).then(|| overload.since(now)),
            keys,
            more_keys,
            classes,
            tenants,
            more_tenants,
            observed: self.observed.clone(),
        }
    }

    fn explain_heads(&self, now: Time) -> (Vec<Head>, usize) {
        let all = self.queue.all_heads();
        let more = all.len().saturating_sub(Explanation::MOST_LANES);
        let mut heads = Vec::new();
        for head in all.into_iter().take(Explanation::MOST_LANES) {
            let shut = self.queue.why_shut(head.lane, self.version);
            let shut = shut.filter(|shut| shut.until > now);
            let shut = shut.map(|shut| (shut.until, shut.reason));
            let id = self.queue.lane_at(head.lane).id;
            heads.extend(self.explain_head(head.ticket, id, shut, now));
        }
        if heads.is_empty() {
            // Whoever is reserved waits for the outside, and the others for moments of their own.
            let reserved = self.allowances.as_ref().map_or(0, |sold| sold.reserved());
            let (ticket, shut) = match self.queue.next_asleep() {
                _ if reserved > 0 => (self.reserved_ticket(), (Time::NEVER, Reason::Shared)),
                Some((ticket, until)) => {
                    (Some(ticket), (until, self.why_asleep(ticket, until, now)))
                }
                None => (None, (Time::NEVER, Reason::Shared)),
            };
            if let Some(ticket) = ticket
                && let Some(entry) = self.queue.entry(ticket)
            {
                let id = self.queue.lane_at(entry.lane).id;
                heads.extend(self.explain_head(ticket, id, Some(shut), now));
            }
        }
        (heads, more)
    }

    /// Why an ask is out of the queue until a moment.
    fn why_asleep(&self, ticket: Ticket, until: Time, now: Time) -> Reason {
        let Some(entry) = self.queue.entry(ticket).filter(|entry| entry.was_tried()) else {
            return Reason::NotBefore;
        };
        if self.overload.until >= until {
            return Reason::Hint;
        }
        let known = self.known_wait(self.queue.lane_at(entry.lane).id, now);
        let known = known.filter(|&(parked, _)| parked >= until);
        known.map_or(Reason::Backoff, |(_, reason)| reason)
    }

    fn explain_head(
        &self,
        ticket: Ticket,
        lane: LaneId,
        shut: Option<(Time, Reason)>,
        now: Time,
    ) -> Option<Head> {
        let entry = self.queue.entry(ticket)?;
        let ahead = shut.filter(|&(until, _)| until != Time::NEVER);
        Some(Head {
            bucket: self.buckets.name(lane.bucket).cloned(),
            pin: lane.pin.map(|pin| self.keys.key(pin).fingerprint),
            priority: entry.priority,
            tenant: self.queue.tenant(ticket).cloned(),
            age: now.since(entry.submitted()),
            waits_for: shut.map(|(_, reason)| reason),
            opens: ahead.map(|(until, _)| until.since(now)),
        })
    }

    fn explain_key(&self, key: KeyId, now: Time) -> KeyReport {
        let ceilings = &self.key_ceilings[key.index()];
        let most = ceilings.most_in_flight();
        let limit = most.into_iter().chain(self.control.limit(key, now)).min();
        let hard = ceilings.rates(now).map(|(ceiling, left)| QuotaReport {
            bucket: None,
            dimension: ceiling.dimension(),
            limit: Some(ceiling.amount() as f64),
            left: left as f64,
            ends: None,
            law: "ceiling",
        });
        let mut quotas: Vec<_> = hard.collect();
        for (bucket, standing) in self.control.quotas(key, now) {
            quotas.push(QuotaReport {
                bucket: self.buckets.name(bucket).cloned(),
                dimension: standing.dimension,
                limit: standing.limit,
                left: standing.left,
                ends: standing.ends.map(|at| at.since(now)),
                law: standing.law,
            });
        }
        let more_quotas = quotas.len().saturating_sub(Explanation::MOST_QUOTAS);
        quotas.truncate(Explanation::MOST_QUOTAS);
        let mut apart = self.explain_apart(key);
        let more_apart = apart.len().saturating_sub(Explanation::MOST_APART);
        apart.truncate(Explanation::MOST_APART);
        let rest = |bucket, until: Time, why| Rest {
            bucket,
            why,
            for_: until.since(now),
        };
        let whole = self.keys.rest(key, now);
        let mut rests: Vec<_> = whole
            .map(|(until, why)| rest(None, until, why))
            .into_iter()
            .collect();
        for (bucket, until) in self.keys.bucket_rests(key, now) {
            if bucket != Names::DEFAULT {
                rests.push(rest(
                    self.buckets.name(bucket).cloned(),
                    until,
                    Reason::Hint,
                ));
            }
        }
        rests.truncate(Explanation::MOST_QUOTAS);
        let fault = self.keys.fault(key);
        KeyReport {
            key: self.keys.key(key).fingerprint,
            in_flight: self.keys.key(key).in_flight,
            limit,
            pace: self.control.rate(key, Names::DEFAULT),
            quotas,
            more_quotas,
            apart,
            more_apart,
            rests,
            fault: fault.map(|(fault, retired, probe_at)| FaultReport {
                fault,
                retired,
                probe: probe_at.since(now),
            }),
        }
    }

    fn explain_apart(&self, key: KeyId) -> Vec<ApartReport> {
        let apart = self.control.apart().into_iter();
        let reports = apart.filter_map(|bucket| {
            Some(ApartReport {
                bucket: self.buckets.name(bucket)?.clone(),
                pace: self.control.rate(key, bucket),
            })
        });
        reports.collect()
    }
}
