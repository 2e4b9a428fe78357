//! What a virtual provider allows and how it behaves: the `[provider]` part of a scenario.
//!
//! Durations are written as text (`"150ms"`, `"5s"`), rates per second, shares from 0 to 1. Times
//! count from the start of the run.

use std::time::Duration;

use serde::Deserialize;

use crate::sim::span;

/// A provider: its limits, how it answers and what goes wrong with it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Law {
    /// The limits, all of which hold at once. Default: none.
    pub limits: Vec<Limit>,
    /// How quotas are told in headers. Default: not at all.
    pub headers: Style,
    /// How long the work takes, without jitter. Default: no time.
    #[serde(deserialize_with = "span::one")]
    pub latency: Duration,
    /// The latency varies evenly by up to this much in both directions. Default: 0.
    #[serde(deserialize_with = "span::one")]
    pub jitter: Duration,
    /// Deviation of the logarithm of the latency, whose mean stays `latency`; 0.8 looks like a
    /// language model. Replaces `jitter`. Default 0: no tail.
    pub tail: f64,
    /// Beyond so many in flight the latency grows in proportion. Default: never.
    pub knee: Option<f64>,
    /// A swing of the latency that has nothing to do with the load. Default: none.
    pub drift: Option<Drift>,
    /// Answers that fail although they were admitted. Default: none.
    pub errors: Errors,
    /// Times in which every request fails. Default: none.
    pub outages: Vec<Outage>,
    /// Moments at which the limits are replaced. Default: none.
    pub changes: Vec<LimitChange>,
    /// Keys that differ from the others. Default: none.
    pub keys: Vec<OddKey>,
    /// Bans whoever is refused too often. Default: nobody.
    pub ban: Option<Ban>,
    /// Makes refused callers wait, longer each time. Default: no one.
    pub penalty: Option<Penalty>,
    /// Somebody else's use of the same quotas. Default: nobody's.
    pub others: Option<Others>,
    /// Whether a refused request uses up quota too. Default: no.
    pub refusals_count: bool,
    /// Whether refusals carry no headers of limits at all. Default: no.
    pub refusals_bare: bool,
    /// What is told as the wait when only the end of another request makes room. Default: nothing.
    #[serde(deserialize_with = "span::optional")]
    pub unknown_wait: Option<Duration>,
    /// How long a refusal takes. Default: no time.
    #[serde(deserialize_with = "span::one")]
    pub refusals_take: Duration,
    /// Whether answers lack `Date`. Default: no.
    pub without_date: bool,
    /// How far the provider's clock is ahead. Default: 0.
    #[serde(deserialize_with = "span::one")]
    pub clock_ahead: Duration,
    /// How far the provider's clock is behind. Default: 0.
    #[serde(deserialize_with = "span::one")]
    pub clock_behind: Duration,
    /// Where in its windows the run begins. Default: anywhere.
    pub joined: Joined,
}

/// One limit. `counts` and `per` default to requests of each key.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Limit {
    /// A token bucket: `burst` at once, refilled evenly.
    Bucket {
        /// Refill per second.
        rate: f64,
        /// What it holds when full, as it is at the start.
        burst: f64,
        /// What is counted.
        #[serde(default)]
        counts: Counts,
        /// For whom.
        #[serde(default)]
        per: Per,
        /// Whether headers keep silent about it. Default: no.
        #[serde(default)]
        hidden: bool,
    },
    /// So many in each of a row of windows.
    FixedWindow {
        /// How many.
        limit: f64,
        /// The length of a window.
        #[serde(deserialize_with = "span::one")]
        window: Duration,
        /// What opens a window.
        #[serde(default)]
        opens: Opens,
        /// What is counted.
        #[serde(default)]
        counts: Counts,
        /// For whom.
        #[serde(default)]
        per: Per,
        /// Whether headers keep silent about it. Default: no.
        #[serde(default)]
        hidden: bool,
    },
    /// So many in every window, wherever it begins.
    SlidingWindow {
        /// How many.
        limit: f64,
        /// The length of the window.
        #[serde(deserialize_with = "span::one")]
        window: Duration,
        /// What is counted.
        #[serde(default)]
        counts: Counts,
        /// For whom.
        #[serde(default)]
        per: Per,
        /// Whether headers keep silent about it. Default: no.
        #[serde(default)]
        hidden: bool,
    },
    /// A shortest time between two admitted requests. Headers cannot tell it.
    Interval {
        /// The time.
        #[serde(deserialize_with = "span::one")]
        every: Duration,
        /// For whom.
        #[serde(default)]
        per: Per,
    },
    /// So many at the same time. Headers do not tell it.
    Concurrency {
        /// How many.
        max: u32,
        /// For whom.
        #[serde(default)]
        per: Per,
    },
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Counts {
    /// Each request as one.
    #[default]
    Requests,
    /// Each request as its tokens.
    Tokens,
}

/// For whom a limit holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Per {
    /// Each key for itself.
    #[default]
    Key,
    /// All keys together.
    Account,
}

/// What opens a fixed window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Opens {
    /// The clock: one window after the other, used or not.
    #[default]
    Clock,
    /// The first request after the last window has ended.
    FirstRequest,
}

/// How quotas and waits are told in headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Style {
    /// `x-ratelimit-*-requests` and `-tokens` with durations, `retry-after-ms`.
    #[serde(rename = "openai")]
    OpenAi,
    /// `anthropic-ratelimit-*` with RFC 3339 times, `retry-after` in seconds.
    Anthropic,
    /// `x-ratelimit-*` with epoch seconds; no wait.
    #[serde(rename = "github")]
    GitHub,
    /// `RateLimit` and `RateLimit-Policy` in whole seconds, `Retry-After` likewise.
    Ietf,
    /// `X-RateLimit-Limit: 5, 100` and so on, a place for each limit, resets in whole seconds.
    Lists,
    /// `X-RateLimit-Limit-Second`, `-Minute` and so on as Kong has them, by the nearest of these
    /// to a limit's window; no resets but that of the tightest.
    NamedWindows,
    /// `Retry-After` in whole seconds and nothing else.
    RetryAfter,
    /// Nothing.
    #[default]
    None,
}

/// A swing of the latency between `latency` and `factor` times as much.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Drift {
    /// The highest multiple.
    pub factor: f64,
    /// From one lowest point to the next; the run begins at one.
    #[serde(deserialize_with = "span::one")]
    pub period: Duration,
}

/// Admitted requests that fail after their latency, without quota headers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Errors {
    /// The share that fails. Default 0.
    pub share: f64,
    /// What they answer, one drawn for each. Default: 503.
    pub statuses: Vec<u16>,
}

impl Default for Errors {
    fn default() -> Self {
        Self {
            share: 0.0,
            statuses: vec![503],
        }
    }
}

/// A time in which every request is answered by an error at once and counted nowhere.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Outage {
    /// When it begins.
    #[serde(deserialize_with = "span::one")]
    pub from: Duration,
    /// When it is over.
    #[serde(deserialize_with = "span::one")]
    pub until: Duration,
    /// What is answered. Default: 503. A 429 counts as a refusal.
    #[serde(default = "unavailable")]
    pub status: u16,
    /// At most so many requests are turned away, of all keys. Default: any number.
    #[serde(default)]
    pub at_most: Option<u64>,
    /// The wait that is told in whole seconds. Default: none.
    #[serde(default, deserialize_with = "span::optional")]
    pub retry_after: Option<Duration>,
}

fn unavailable() -> u16 {
    503
}

/// A moment from which other limits hold. They begin afresh: a bucket full, a window empty.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LimitChange {
    /// When.
    #[serde(deserialize_with = "span::one")]
    pub at: Duration,
    /// All limits from then on.
    pub limits: Vec<Limit>,
}

/// A key that differs from the others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OddKey {
    /// Which one, from 0.
    pub index: usize,
    /// Its own limits in place of the common ones per key. Default: the common ones.
    #[serde(default)]
    pub limits: Option<Vec<Limit>>,
    /// From when on it answers 401. Default: never.
    #[serde(default, deserialize_with = "span::optional")]
    pub revoked_at: Option<Duration>,
    /// From when on it does not answer at all. Default: never.
    #[serde(default, deserialize_with = "span::optional")]
    pub mute_from: Option<Duration>,
}

/// Bans a key that was refused too often.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Ban {
    /// So many refusals …
    pub refusals: usize,
    /// … within this time …
    #[serde(deserialize_with = "span::one")]
    pub within: Duration,
    /// … ban for this long.
    #[serde(deserialize_with = "span::one")]
    pub lasts: Duration,
    /// Each later ban is so many times longer. Default 1.
    #[serde(default = "no_growth")]
    pub grows: f64,
    /// Whether a request during a ban starts it anew. Default: no.
    #[serde(default)]
    pub extended_by_knocking: bool,
    /// What is answered during a ban. Default: 403.
    #[serde(default = "forbidden")]
    pub status: u16,
}

fn no_growth() -> f64 {
    1.0
}

fn forbidden() -> u16 {
    403
}

/// Makes a refused key wait, longer with each refusal in a row; one success forgets them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Penalty {
    /// The wait after the first refusal.
    #[serde(deserialize_with = "span::one")]
    pub first: Duration,
    /// Each next wait is so many times longer. Default 2.
    #[serde(default = "doubling")]
    pub factor: f64,
    /// The longest wait. Default: one minute.
    #[serde(default = "minute", deserialize_with = "span::one")]
    pub longest: Duration,
}

fn doubling() -> f64 {
    2.0
}

fn minute() -> Duration {
    Duration::from_secs(60)
}

/// Requests of somebody else against the same quotas, evenly spaced.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Others {
    /// How many per second on each key.
    pub rate: f64,
    /// What each costs in tokens. Default 1.
    #[serde(default = "one_token")]
    pub tokens: f64,
}

fn one_token() -> f64 {
    1.0
}

/// Where in its clocked windows a run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Joined {
    /// 20 to 70 ms after a window opened.
    Start,
    /// At any point of a minute, and so of any shorter window.
    #[default]
    Anywhere,
}

impl Law {
    /// The requests per second that it allows in the long run to so many keys and requests of so
    /// many tokens, with what holds at a moment. Infinite without a limit.
    #[must_use]
    pub fn allowed(&self, keys: usize, tokens: f64, at: Duration) -> f64 {
        if self
            .outages
            .iter()
            .any(|outage| outage.at_most.is_none() && outage.from <= at && at < outage.until)
        {
            return 0.0;
        }
        let changed = self.changes.iter().rev().find(|change| change.at <= at);
        let limits = changed.map_or(&self.limits, |change| &change.limits);
        let latency = self.latency.as_secs_f64();
        let lowest = |limits: &mut dyn Iterator<Item = &Limit>| {
            limits
                .map(|limit| limit.rate(tokens, latency))
                .fold(f64::INFINITY, f64::min)
        };
        let of_key = |key: usize| {
            let odd = self.keys.iter().find(|odd| odd.index == key);
            let gone = |from: Option<Duration>| from.is_some_and(|from| from <= at);
            if odd.is_some_and(|odd| gone(odd.revoked_at) || gone(odd.mute_from)) {
                return 0.0;
            }
            let own = odd.and_then(|odd| odd.limits.as_ref()).unwrap_or(limits);
            lowest(&mut own.iter().filter(|limit| limit.per() == Per::Key))
        };
        let others = self.others.map_or(0.0, |others| others.rate * keys as f64);
        let of_keys: f64 = (0..keys).map(of_key).sum();
        let of_account = lowest(&mut limits.iter().filter(|limit| limit.per() == Per::Account));
        let of_knee = self.knee.map_or(f64::INFINITY, |knee| knee / latency);
        (of_keys.min(of_account).min(of_knee) - others).max(0.0)
    }

    /// The longest window of any of its limits.
    #[must_use]
    pub fn longest_window(&self) -> Option<Duration> {
        let changed = self.changes.iter().flat_map(|change| &change.limits);
        let windows = self
            .limits
            .iter()
            .chain(changed)
            .filter_map(|limit| match limit {
                Limit::FixedWindow { window, .. } | Limit::SlidingWindow { window, .. } => {
                    Some(*window)
                }
                _ => None,
            });
        windows.max()
    }
}
