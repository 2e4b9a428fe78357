//! Every setting with its default. The builder and a configuration file fill the same structs, and
//! they are checked once.

use std::time::Duration;

use crate::feedback::Profile;
use crate::scheduler::ceiling::Ceiling;
use crate::scheduler::concurrency::Concurrency;
use crate::scheduler::keys::{HintScope, Penalty};
use crate::scheduler::mode::Mode;
use crate::scheduler::pace::PaceSettings;
use crate::scheduler::reserve::Reserve;
use crate::scheduler::retry::RetrySettings;
use crate::scheduler::shedding::Shedding;
use crate::scheduler::{Delays, TenantSettings};

/// How one limiter decides. The defaults need no configuration. In a file, durations are written
/// `"250ms"` or `"1h 30m"`, and ceilings `"500/1m"` or `"1/1s+10%"`.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct Settings {
    /// The provider: the name of a vendor that is known, or a table that describes one in the
    /// words of [`Description`](crate::feedback::Description). Default: known by the host of a
    /// request. Read when the limiter is built.
    pub profile: Option<Profile>,
    /// Whether limits are enforced, only observed, or off.
    pub mode: Mode,
    /// Hard rates that each key keeps for itself.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "ceilings"))]
    pub ceilings: Vec<Ceiling>,
    /// Hard rates that all keys keep together (an account's).
    #[cfg_attr(feature = "serde", serde(deserialize_with = "ceilings"))]
    pub shared_ceilings: Vec<Ceiling>,
    /// The most requests in flight per key. Default 1,024. At least 1.
    pub key_concurrency: u32,
    /// The most requests in flight over all keys. Default: none.
    pub max_concurrency: Option<u32>,
    /// What sets how many requests may be in flight, within those bounds.
    pub concurrency: Concurrency,
    /// What sets the pace where the server reports no quota.
    pub pace: PaceSettings,
    /// How long a request may wait to be sent, retries included; a wait that is known to be longer
    /// ends at once. Default 5 minutes, as promptfoo. None waits for ever; zero sends only what can
    /// go at once.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "optional_duration::deserialize")
    )]
    pub max_wait: Option<Duration>,
    /// How long one attempt may take to the headers of its answer, its waits not included; an
    /// attempt that takes longer counts as one that nobody answered. Default: none. At least 1 ms.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "optional_duration::deserialize")
    )]
    pub attempt_timeout: Option<Duration>,
    /// What is kept for a priority and above. Default: nothing; who goes first is decided by
    /// priority alone.
    pub reserve: Option<Reserve>,
    /// When newcomers are turned away because the queue is longer than can be served. Default:
    /// never; they wait until `max_wait`, or are refused beyond `queue`.
    pub shedding: Option<Shedding>,
    /// How long requests of lower priority wait at least. Default: not at all.
    pub delays: Option<Delays>,
    /// When a tenant that sends heartbeats counts as quiet.
    pub tenants: TenantSettings,
    /// The most requests that may wait. Default 100,000. A newcomer beyond it is refused.
    pub queue: usize,
    /// How attempts are repeated.
    pub retry: RetrySettings,
    /// What a refusal without a hint costs its key.
    pub penalty: Penalty,
    /// Whom a whole-second hint stops.
    pub hint_scope: HintScope,
    /// The longest block on a server's word; then one request probes. Default 24 h.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "duration::deserialize"))]
    pub longest_park: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            profile: None,
            mode: Mode::Enforce,
            ceilings: Vec::new(),
            shared_ceilings: Vec::new(),
            key_concurrency: 1024,
            max_concurrency: None,
            concurrency: Concurrency::Adaptive,
            pace: PaceSettings::Learned,
            max_wait: Some(Duration::from_secs(300)),
            attempt_timeout: None,
            reserve: None,
            shedding: None,
            delays: None,
            tenants: TenantSettings::default(),
            queue: 100_000,
            retry: RetrySettings::default(),
            penalty: Penalty::Hint,
            hint_scope: HintScope::Auto,
            longest_park: Duration::from_secs(24 * 3600),
        }
    }
}

impl Settings {
    /// Checks every setting.
    ///
    /// # Errors
    ///
    /// The first setting that is out of its range, by name.
    pub fn check(&self) -> Result<(), SettingsError> {
        let retry = &self.retry;
        at_least_one("key_concurrency", u64::from(self.key_concurrency))?;
        at_least_one(
            "max_concurrency",
            u64::from(self.max_concurrency.unwrap_or(1)),
        )?;
        at_least_one("queue", self.queue as u64)?;
        self.check_concurrency()?;
        self.reserve.as_ref().map_or(Ok(()), Reserve::check)?;
        self.shedding.as_ref().map_or(Ok(()), Shedding::check)?;
        self.tenants.check()?;
        if let Some(most) = self.attempt_timeout {
            within(
                "attempt_timeout",
                most.as_secs_f64(),
                0.001,
                366.0 * 86_400.0,
            )?;
        }
        within("retry.factor", retry.factor, 1.0, 100.0)?;
        within("retry.jitter", retry.jitter, 0.0, 1.0)?;
        within("retry.budget_share", retry.budget_share, 0.0, 1.0)?;
        within("retry.budget_per_second", retry.budget_per_second, 0.0, 1e6)?;
        within("retry.cap", retry.cap.as_secs_f64(), 0.001, 86_400.0)?;
        if let Some(base) = retry.base {
            within("retry.base", base.as_secs_f64(), 0.0, 86_400.0)?;
        }
        within(
            "longest_park",
            self.longest_park.as_secs_f64(),
            1.0,
            366.0 * 86_400.0,
        )
    }

    fn check_concurrency(&self) -> Result<(), SettingsError> {
        match &self.concurrency {
            Concurrency::Fixed(fixed) => {
                at_least_one("concurrency.fixed.limit", fixed.limit.into())
            }
            Concurrency::Aimd(aimd) => {
                at_least_one("concurrency.aimd.min", aimd.min.into())?;
                at_least_one("concurrency.aimd.start", aimd.start.into())
            }
            Concurrency::Gradient(gradient) => {
                at_least_one("concurrency.gradient.min", gradient.min.into())?;
                at_least_one("concurrency.gradient.start", gradient.start.into())
            }
            Concurrency::Adaptive | Concurrency::Custom(_) => Ok(()),
        }
    }
}

/// A setting that is out of its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{setting} is {value}: it must be from {least} to {most}")]
pub struct SettingsError {
    setting: &'static str,
    value: f64,
    least: f64,
    most: f64,
}

impl SettingsError {
    /// The setting's name.
    #[must_use]
    pub const fn setting(&self) -> &'static str {
        self.setting
    }
}

pub(crate) fn within(
    setting: &'static str,
    value: f64,
    least: f64,
    most: f64,
) -> Result<(), SettingsError> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(SettingsError {
            setting,
            value,
            least,
            most,
        })
    }
}

fn at_least_one(setting: &'static str, value: u64) -> Result<(), SettingsError> {
    within(setting, value as f64, 1.0, f64::from(u32::MAX))
}

/// Ceilings in files: `["500/1m", "1/1s+10%"]`.
#[cfg(feature = "serde")]
fn ceilings<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Ceiling>, D::Error> {
    use serde::{Deserialize, de::Error};
    let texts = Vec::<String>::deserialize(from)?;
    texts
        .iter()
        .map(|text| text.parse().map_err(D::Error::custom))
        .collect()
}

/// Durations for programs that read what a limiter says: whole milliseconds.
#[cfg(feature = "serde")]
pub(crate) fn millis<S: serde::Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
}

/// The same for a duration that may be unknown.
#[cfg(feature = "serde")]
pub(crate) fn some_millis<S: serde::Serializer>(
    value: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => millis(value, to),
        None => to.serialize_none(),
    }
}

/// Durations in files: `"1s"`, `"250ms"`, `"1h 30m"`.
#[cfg(feature = "serde")]
pub(crate) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&humantime::format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        humantime::parse_duration(&text).map_err(|error| {
            D::Error::custom(format!(
                "{text:?} is not a duration such as \"1s\": {error}"
            ))
        })
    }
}

/// The same for durations that may be left out.
#[cfg(feature = "serde")]
pub(crate) mod optional_duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::duration::serialize(value, to),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        #[derive(Deserialize)]
        struct Wrapped(#[serde(with = "super::duration")] Duration);
        Ok(Option::<Wrapped>::deserialize(from)?.map(|Wrapped(value)| value))
    }
}
