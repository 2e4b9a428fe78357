//! Whether the scheduler holds back what must wait, only counts it, or stays out of the way; and
//! settings that change while it runs.
//!
//! Whatever the mode, what is sent is charged: when limits are enforced again, a ceiling's window
//! holds what went out meanwhile. What an answer says is learned while limits are enforced or
//! observed, and passed over while the limiter is off.

use std::fmt;
use std::time::Duration;

use rand::RngExt;

use crate::config::{Settings, SettingsError};

use super::Scheduler;
use super::events::{KeyId, Outcome, Reason, Refusal, What};
use super::explain::Short;
use super::queue::Head;
use super::retry::{self, Judgement, Tried};
use super::time::Time;

/// What a limiter does with a request that would have to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Mode {
    /// It waits, or is refused. The default.
    #[default]
    Enforce,
    /// Everything passes at once, on the keys in turn, and nothing is repeated. What would have
    /// been held, refused or repeated is counted ([`Observed`]), and answers are learned from.
    Observe,
    /// Everything passes at once, on the keys in turn, and nothing is repeated, counted or learned.
    Off,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enforce => "enforcing",
            Self::Observe => "only observing",
            Self::Off => "off",
        })
    }
}

/// What would have become of the requests that passed while the limiter only observed.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Observed {
    /// Passed in all.
    pub passed: u64,
    /// Would have been held.
    pub held: u64,
    /// For how long, summed over those whose end was known.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "held_ms", serialize_with = "crate::config::millis")
    )]
    pub held_for: Duration,
    /// Would have been refused at submit.
    pub refused: u64,
    /// Attempts that would have been repeated.
    pub repeats: u64,
    /// What they would have been held by, each with its number: at most one entry a reason.
    pub reasons: Vec<(Reason, u64)>,
}

impl Observed {
    fn hold(&mut self, reason: Reason, until: Time, now: Time) {
        self.held += 1;
        if until != Time::NEVER {
            self.held_for = self.held_for.saturating_add(until.since(now));
        }
        self.count(reason, 1);
    }

    fn count(&mut self, reason: Reason, more: u64) {
        match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += more,
            None => self.reasons.push((reason, more)),
        }
    }

    /// Counts what another has seen too.
    #[cfg(feature = "cli")]
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.held += other.held;
        self.held_for = self.held_for.saturating_add(other.held_for);
        self.refused += other.refused;
        self.repeats += other.repeats;
        for (reason, count) in &other.reasons {
            self.count(*reason, *count);
        }
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} would have been held ({} in all), {} refused, {} repeated",
            self.passed,
            self.held,
            Short(self.held_for),
            self.refused,
            self.repeats
        )
    }
}

impl Scheduler {
    /// What it does with requests that would have to wait.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.settings.mode
    }

    /// What would have become of the requests that passed while it only observed.
    #[must_use]
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Changes the mode. Whoever waits passes at once unless the new one enforces; nothing that was
    /// learned or charged is lost.
    pub fn set_mode(&mut self, mode: Mode, now: Time) {
        if self.settings.mode == mode {
            return;
        }
        self.settings.mode = mode;
        if mode != Mode::Enforce {
            self.take_back_reserved(now);
            self.queue.wake(Time::NEVER);
        }
        self.open_gates();
        self.note(now, None, Some(What::Mode(mode)));
    }

    /// Changes the settings. What was learned and charged stays: a ceiling goes on with what was
    /// sent in its window, keys keep their penalties, and those who wait keep the deadlines that
    /// they came with. Only a pace or a concurrency of another kind begins anew.
    ///
    /// # Errors
    ///
    /// The first setting that is out of its range; then nothing is changed.
    pub fn set_settings(&mut self, settings: Settings, now: Time) -> Result<(), SettingsError> {
        settings.check()?;
        self.set_mode(settings.mode, now);
        if settings == self.settings {
            return Ok(());
        }
        let most = settings.max_concurrency;
        self.provider_ceilings.set(&settings.shared_ceilings, most);
        for ceilings in &mut self.key_ceilings {
            ceilings.set(&settings.ceilings, Some(settings.key_concurrency));
        }
        let seed = self.rng.random();
        self.control
            .set_settings(&settings.concurrency, settings.pace, most, seed);
        self.keys
            .set_rules(settings.penalty, settings.hint_scope, settings.longest_park);
        self.queue.set_bound(settings.queue);
        self.queue.set_tenants(settings.tenants);
        self.settings = settings;
        self.open_gates();
        self.note(now, None, Some(What::SettingsChanged));
        Ok(())
    }

    /// The settings as they are now.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// An ask would be refused; whether it is.
    pub(super) fn on_refused_ask(&mut self, refusal: Refusal) -> Result<(), Refusal> {
        match self.settings.mode {
            Mode::Enforce => return Err(refusal),
            Mode::Observe => self.observed.refused += 1,
            Mode::Off => {}
        }
        Ok(())
    }

    /// The key in turn for an ask that passes whatever the gates say; none if it is pinned to one
    /// that is gone.
    pub(super) fn pass(&mut self, head: Head, now: Time) -> Option<KeyId> {
        if self.settings.mode == Mode::Observe {
            self.observed.passed += 1;
            if let Err(shut) = self.choose_key(head, now) {
                self.observed.hold(shut.reason, shut.until, now);
            }
        }
        self.keys_of(self.queue.lane_at(head.lane).id)
            .min_by_key(|&key| self.keys.key(key).last_grant)
    }

    /// Counts an attempt that would have been repeated.
    pub(super) fn observe_end(&mut self, tried: Tried, outcome: &Outcome) -> bool {
        let again = !matches!(
            retry::judge(&self.settings.retry, tried, outcome),
            Judgement::Return(_)
        );
        if again && self.settings.mode == Mode::Observe {
            self.observed.repeats += 1;
        }
        again
    }
}
