//! A scenario: a provider, the load on it, the network between, and what is expected of the run.
//!
//! It is a TOML file that can be read without this page. Only `[provider]` and `[load]` are
//! needed; everything else has a default:
//!
//! ```
//! let scenario = paceline::sim::Scenario::parse(r#"
//!     [provider]
//!     headers = "openai"
//!     latency = "150ms"
//!     jitter = "60ms"
//!     limits = [{ kind = "bucket", rate = 100, burst = 20 }]
//!
//!     [load]
//!     requests = 1520
//!
//!     [expect]
//!     efficiency = 0.99
//!     refusals = 0.001
//! "#)?;
//! assert_eq!(scenario.load.keys, 1);
//! # Ok::<(), paceline::sim::ScenarioError>(())
//! ```
//!
//! A field that does not exist is an error that names it.

use std::time::Duration;

use serde::Deserialize;

use super::dice::{Dice, Stream};
use super::provider::{Law, Limit};
use super::span;

/// A provider, a load, a network and what is expected.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Scenario {
    /// How many seeds it is run with. Default 20.
    #[serde(default = "twenty")]
    pub seeds: u64,
    /// The first of the seeds. Default 1.
    #[serde(default = "first_seed")]
    pub first_seed: u64,
    /// Who is called.
    pub provider: Law,
    /// What is asked of it.
    pub load: Load,
    /// What lies between.
    #[serde(default)]
    pub network: Network,
    /// What must hold. Nothing lost, nothing served twice and nobody banned always must.
    #[serde(default)]
    pub expect: Expect,
    /// What is aimed at: the same fields, reported and not required.
    #[serde(default)]
    pub goal: Option<Expect>,
}

fn twenty() -> u64 {
    20
}

fn first_seed() -> u64 {
    1
}

/// What is asked of the provider.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Load {
    /// How many requests in all.
    pub requests: u64,
    /// How many keys there are. Default 1.
    #[serde(default = "one_key")]
    pub keys: usize,
    /// The range of what a request costs in tokens, evenly drawn. Default: 1.
    #[serde(default = "one_token")]
    pub tokens: (f64, f64),
    /// How far the client's estimate of that may be off, as a share in both directions. Default 0.
    #[serde(default)]
    pub misjudged: f64,
    /// When the requests come. Default: all at the start.
    #[serde(default)]
    pub arrival: Arrival,
    /// After which time without an answer a client gives an attempt up. Default: one minute.
    #[serde(default = "minute", deserialize_with = "span::one")]
    pub timeout: Duration,
}

fn one_key() -> usize {
    1
}

fn one_token() -> (f64, f64) {
    (1.0, 1.0)
}

fn minute() -> Duration {
    Duration::from_secs(60)
}

/// When requests come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Arrival {
    /// All at the start.
    #[default]
    Batch,
    /// So many per second, at random moments that do not depend on each other.
    Open {
        /// Per second.
        rate: f64,
    },
    /// So many at once, again and again.
    Bursts {
        /// How many.
        size: u64,
        /// From one burst to the next.
        #[serde(deserialize_with = "span::one")]
        every: Duration,
    },
}

/// What lies between client and provider. Requests that leave together may arrive in any order.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Network {
    /// The range of the time to the provider, evenly drawn. Default: 0.5 to 3.5 ms.
    #[serde(deserialize_with = "span::range")]
    pub out: (Duration, Duration),
    /// The range of the time back. Default: 0.5 ms.
    #[serde(deserialize_with = "span::range")]
    pub back: (Duration, Duration),
    /// The range of what opening a connection takes in addition, when all that are open are in
    /// use. Default: no time.
    #[serde(deserialize_with = "span::range")]
    pub handshake: (Duration, Duration),
}

impl Default for Network {
    fn default() -> Self {
        let (half, most) = (Duration::from_micros(500), Duration::from_micros(3500));
        let none = Duration::ZERO;
        Self {
            out: (half, most),
            back: (half, half),
            handshake: (none, none),
        }
    }
}

/// What is expected of the runs of a scenario. What is not named is not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Expect {
    /// Ideal time ÷ time taken: at least this in the median of the seeds.
    pub efficiency: Option<f64>,
    /// The same of the worst seed. Default: 0.05 less.
    pub efficiency_floor: Option<f64>,
    /// Refusals ÷ successes: at most this in the median of the seeds …
    pub refusals: Option<f64>,
    /// … and this of the worst seed (default: twice as much) …
    pub refusals_ceiling: Option<f64>,
    /// … with this number of refusals on top, and for the worst seed twice as many. Default 0.
    pub refusals_more: f64,
    /// The most in flight at the provider, in the median of the seeds.
    pub max_in_flight: Option<f64>,
    /// The same of the worst seed.
    pub max_in_flight_ceiling: Option<f64>,
    /// The most answers with 403 for a ban, of any seed. Default 0.
    pub banned: u64,
    /// The most requests without success at the end, of any seed. Default 0.
    pub lost: u64,
    /// The most repetitions of a success, of any seed. Default 0.
    pub twice: u64,
    /// The efficiency of varied parameters, in the median of the seeds.
    pub varied_efficiency: Option<f64>,
    /// Refusals ÷ successes with varied parameters, in the median; `refusals_more` on top.
    pub varied_refusals: Option<f64>,
}

/// A scenario that cannot be used, with the line and the field.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// It is not TOML, or a field is missing, unknown or of the wrong kind.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A value makes no sense.
    #[error("{field} = {value}: {rule}")]
    Value {
        /// Which field.
        field: &'static str,
        /// What stands there.
        value: String,
        /// What would make sense.
        rule: &'static str,
    },
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// If it is no TOML, a field is unknown or missing, or a value makes no sense.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = toml::from_str(text)?;
        scenario.check()?;
        Ok(scenario)
    }

    /// The same scenario with every rate, burst, latency, window and cap multiplied by a factor of
    /// its own between a half and two, drawn by the seed. The number of requests follows the
    /// allowed rate, so that the run takes about as long in refills or windows.
    #[must_use]
    pub fn varied(&self, seed: u64) -> Self {
        let mut dice = Dice::new(seed, Stream::Variation);
        let mut factor = || dice.between(-1.0, 1.0).exp2();
        let variation = Variation {
            rate: factor(),
            burst: factor(),
            latency: factor(),
            window: factor(),
            cap: factor(),
        };
        let mut varied = self.clone();
        variation.apply(&mut varied);
        varied
    }

    fn check(&self) -> Result<(), ScenarioError> {
        let Self { provider, load, .. } = self;
        positive("seeds", self.seeds as f64)?;
        positive("load.requests", load.requests as f64)?;
        positive("load.keys", load.keys as f64)?;
        positive("load.tokens", load.tokens.0)?;
        if load.tokens.0 > load.tokens.1 {
            let value = format!("{:?}", load.tokens);
            return Err(wrong(
                "load.tokens",
                value,
                "the smaller number comes first",
            ));
        }
        share("load.misjudged", load.misjudged)?;
        match load.arrival {
            Arrival::Batch => {}
            Arrival::Open { rate } => positive("load.arrival.rate", rate)?,
            Arrival::Bursts { size, every } => {
                positive("load.arrival.size", size as f64)?;
                positive("load.arrival.every", every.as_secs_f64())?;
            }
        }
        provider.check(load.keys)
    }
}

impl Law {
    fn check(&self, keys: usize) -> Result<(), ScenarioError> {
        share("provider.errors.share", self.errors.share)?;
        if self.errors.statuses.is_empty() {
            return Err(wrong(
                "provider.errors.statuses",
                "[]".into(),
                "name one at least",
            ));
        }
        if let Some(knee) = self.knee {
            positive("provider.knee", knee)?;
        }
        if let Some(drift) = self.drift {
            positive("provider.drift.period", drift.period.as_secs_f64())?;
            positive("provider.drift.factor", drift.factor)?;
        }
        if let Some(others) = self.others {
            positive("provider.others.rate", others.rate)?;
        }
        if let Some(odd) = self.keys.iter().find(|odd| odd.index >= keys) {
            let (field, value) = ("provider.keys.index", odd.index.to_string());
            return Err(wrong(field, value, "keys count from 0 up to load.keys - 1"));
        }
        if !self.changes.is_sorted_by_key(|change| change.at) {
            let (field, value) = ("provider.changes", "unordered".to_owned());
            return Err(wrong(field, value, "put them in the order of their times"));
        }
        self.every_limit().try_for_each(Limit::check)
    }

    fn every_limit(&self) -> impl Iterator<Item = &Limit> {
        let changed = self.changes.iter().flat_map(|change| &change.limits);
        let odd = self.keys.iter().flat_map(|odd| odd.limits.iter().flatten());
        self.limits.iter().chain(changed).chain(odd)
    }
}

impl Limit {
    fn check(&self) -> Result<(), ScenarioError> {
        match self {
            Self::Bucket { rate, burst, .. } => {
                positive("provider.limits.rate", *rate)?;
                at_least_one("provider.limits.burst", *burst)
            }
            Self::FixedWindow { limit, window, .. } | Self::SlidingWindow { limit, window, .. } => {
                positive("provider.limits.window", window.as_secs_f64())?;
                at_least_one("provider.limits.limit", *limit)
            }
            Self::Interval { every, .. } => positive("provider.limits.every", every.as_secs_f64()),
            Self::Concurrency { max, .. } => at_least_one("provider.limits.max", f64::from(*max)),
        }
    }
}

/// Factors by which a scenario is varied, one for each kind of number, so that a limit which
/// changes to a quarter of itself still does.
struct Variation {
    rate: f64,
    burst: f64,
    latency: f64,
    window: f64,
    cap: f64,
}

impl Variation {
    fn apply(&self, scenario: &mut Scenario) {
        let largest = scenario.load.tokens.1;
        let capped = scenario.provider.knee.is_some()
            || scenario
                .provider
                .limits
                .iter()
                .any(|l| matches!(l, Limit::Concurrency { .. }));
        let law = &mut scenario.provider;
        for time in [&mut law.latency, &mut law.jitter, &mut law.refusals_take] {
            *time = time.mul_f64(self.latency);
        }
        if let Some(knee) = &mut law.knee {
            *knee = (*knee * self.cap).round().max(1.0);
        }
        let changed = law.changes.iter_mut().flat_map(|change| &mut change.limits);
        let odd = law
            .keys
            .iter_mut()
            .flat_map(|odd| odd.limits.iter_mut().flatten());
        for limit in law.limits.iter_mut().chain(changed).chain(odd) {
            self.apply_to(limit, largest);
        }
        let more = if capped {
            self.cap / self.latency
        } else {
            self.rate
        };
        scenario.load.requests = ((scenario.load.requests as f64 * more) as u64).max(FEWEST);
    }

    fn apply_to(&self, limit: &mut Limit, largest_request: f64) {
        match limit {
            Limit::Bucket {
                rate,
                burst,
                counts,
                ..
            } => {
                *rate *= self.rate;
                let least = match counts {
                    super::provider::Counts::Tokens => largest_request,
                    super::provider::Counts::Requests => 1.0,
                };
                *burst = (*burst * self.burst).round().max(least);
            }
            Limit::FixedWindow { limit, window, .. }
            | Limit::SlidingWindow { limit, window, .. } => {
                // Of a window of 4 or less, one request more or less is a quarter of the rate.
                *limit = (*limit * self.rate).round().max(4.0);
                *window = window.mul_f64(self.window);
            }
            Limit::Interval { every, .. } => *every = every.div_f64(self.rate),
            Limit::Concurrency { max, .. } => {
                *max = (f64::from(*max) * self.cap).round().max(1.0) as u32;
            }
        }
    }
}

/// With fewer requests than this a run measures nothing but its beginning.
const FEWEST: u64 = 100;

fn wrong(field: &'static str, value: String, rule: &'static str) -> ScenarioError {
    ScenarioError::Value { field, value, rule }
}

fn positive(field: &'static str, value: f64) -> Result<(), ScenarioError> {
    let fits = value > 0.0 && value.is_finite();
    if fits {
        Ok(())
    } else {
        Err(wrong(field, value.to_string(), "must be more than 0"))
    }
}

fn at_least_one(field: &'static str, value: f64) -> Result<(), ScenarioError> {
    let fits = value >= 1.0 && value.is_finite();
    if fits {
        Ok(())
    } else {
        Err(wrong(field, value.to_string(), "must be at least 1"))
    }
}

fn share(field: &'static str, value: f64) -> Result<(), ScenarioError> {
    let fits = (0.0..1.0).contains(&value);
    if fits {
        Ok(())
    } else {
        Err(wrong(field, value.to_string(), "must be from 0 to below 1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[provider]\nlimits=[{kind='bucket',rate=10,burst=5}]\n\
                         [load]\nrequests=200\n";

    #[test]
    fn an_unknown_field_is_named() {
        for (text, field) in [
            (format!("{SMALL}[expect]\neficiency=0.9"), "eficiency"),
            (SMALL.replace("rate=10", "rat=10"), "rat"),
            (format!("{SMALL}key=3"), "key"),
        ] {
            let error = Scenario::parse(&text).unwrap_err().to_string();
            assert!(
                error.contains(&format!("unknown field `{field}`")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_value_that_makes_no_sense_is_named_with_its_field() {
        for (from, to, message) in [
            (
                "rate=10",
                "rate=0",
                "provider.limits.rate = 0: must be more than 0",
            ),
            (
                "burst=5",
                "burst=0.5",
                "provider.limits.burst = 0.5: must be at least 1",
            ),
            (
                "requests=200",
                "requests=0",
                "load.requests = 0: must be more than 0",
            ),
            (
                "requests=200",
                "requests=2\nmisjudged=1",
                "load.misjudged = 1: must be from 0",
            ),
        ] {
            let error = Scenario::parse(&SMALL.replace(from, to))
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(message), "{error}");
        }
        let error = Scenario::parse("[provider]\nlatency='5'\n[load]\nrequests=1").unwrap_err();
        assert!(error.to_string().contains("`5` is no duration"), "{error}");
    }

    #[test]
    fn variations_stay_within_half_and_twice_and_keep_the_length_of_the_run() {
        let scenario = Scenario::parse(SMALL).unwrap();
        for seed in 0..100 {
            let varied = scenario.varied(seed);
            let Limit::Bucket { rate, .. } = varied.provider.limits[0] else {
                unreachable!()
            };
            assert!((5.0..20.0).contains(&rate), "{rate} of seed {seed}");
            let seconds = varied.load.requests as f64 / rate;
            assert!(
                (18.0..=20.1).contains(&seconds),
                "{seconds} s of seed {seed}"
            );
        }
    }

    #[test]
    fn a_pair_of_durations_reads_as_a_range() {
        let text = format!("{SMALL}[network]\nout=['1ms','2ms']\nback='3ms'");
        let network = Scenario::parse(&text).unwrap().network;
        assert_eq!(
            network.out,
            (Duration::from_millis(1), Duration::from_millis(2))
        );
        assert_eq!(
            network.back,
            (Duration::from_millis(3), Duration::from_millis(3))
        );
    }
}
