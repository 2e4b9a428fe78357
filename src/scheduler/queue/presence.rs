//! Which tenants are there: those that send heartbeats and have stopped give their share back.
//!
//! A tenant that never sends one is there as long as it has asks. One that does is judged by its
//! last heartbeat or ask: its share shrinks when it falls quiet, and when it is gone what still
//! waits for it is cancelled, for nobody is there to read the answer.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::config::{SettingsError, within};

use super::super::events::Name;
use super::super::time::Time;

/// When a tenant that sends heartbeats counts as quiet. The defaults are the Rakuten system's, whose
/// heartbeats come every 30 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct TenantSettings {
    /// Heard of within this, it is active and has its full share. Default 60 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub active: Duration,
    /// Within this it is idle and has a tenth of its share, beyond it a hundredth. Default 180 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub idle: Duration,
    /// After this it is gone, and what waits for it is cancelled. Default 600 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub gone: Duration,
}

impl Default for TenantSettings {
    fn default() -> Self {
        Self {
            active: Duration::from_secs(60),
            idle: Duration::from_secs(180),
            gone: Duration::from_secs(600),
        }
    }
}

impl TenantSettings {
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let most = 366.0 * 86_400.0;
        within("tenants.active", self.active.as_secs_f64(), 0.001, most)?;
        let active = self.active.as_secs_f64();
        within("tenants.idle", self.idle.as_secs_f64(), active, most)?;
        let idle = self.idle.as_secs_f64();
        within("tenants.gone", self.gone.as_secs_f64(), idle, most)
    }
}

/// Whether a tenant is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Presence {
    /// It was heard of lately, or sends no heartbeats.
    Active,
    /// It has a tenth of its share.
    Idle,
    /// It has a hundredth of its share.
    Away,
}

/// The tenants that send heartbeats.
#[derive(Debug, Default)]
pub(super) struct Roll {
    settings: TenantSettings,
    heard: HashMap<Name, Time>,
    oldest: BTreeSet<(Time, Name)>,
}

impl Roll {
    pub(super) fn set(&mut self, settings: TenantSettings) {
        self.settings = settings;
    }

    /// A tenant says that it is there. Beyond the bound the one that was quiet longest counts as
    /// one that sends no heartbeats.
    pub(super) fn on_heartbeat(&mut self, tenant: Name, now: Time) {
        if !self.on_heard(&tenant, now) {
            if self.heard.len() >= MOST
                && let Some((_, quiet)) = self.oldest.pop_first()
            {
                self.heard.remove(&quiet);
            }
            self.heard.insert(tenant.clone(), now);
            self.oldest.insert((now, tenant));
        }
    }

    /// A tenant has asked for something; whether it sends heartbeats.
    pub(super) fn on_heard(&mut self, tenant: &Name, now: Time) -> bool {
        let Some(heard) = self.heard.get_mut(tenant) else {
            return false;
        };
        let before = std::mem::replace(heard, now);
        if before != now {
            self.oldest.remove(&(before, tenant.clone()));
            self.oldest.insert((now, tenant.clone()));
        }
        true
    }

    pub(super) fn presence(&self, tenant: &Name, now: Time) -> Presence {
        let quiet = self.heard.get(tenant).map(|&heard| now.since(heard));
        match quiet {
            Some(quiet) if quiet >= self.settings.idle => Presence::Away,
            Some(quiet) if quiet >= self.settings.active => Presence::Idle,
            _ => Presence::Active,
        }
    }

    /// The next tenant that is gone.
    pub(super) fn poll_gone(&mut self, now: Time) -> Option<Name> {
        if self.next_gone()? > now {
            return None;
        }
        let (_, tenant) = self.oldest.pop_first()?;
        self.heard.remove(&tenant);
        Some(tenant)
    }

    /// When the next one is gone.
    pub(super) fn next_gone(&self) -> Option<Time> {
        let (heard, _) = self.oldest.first()?;
        Some(*heard + self.settings.gone)
    }
}

impl Presence {
    /// By what the price of an ask is multiplied.
    pub(super) const fn price(self) -> f64 {
        match self {
            Self::Active => 1.0,
            Self::Idle => 10.0,
            Self::Away => 100.0,
        }
    }
}

/// Tenants with heartbeats that are known: as many as may wait.
const MOST: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::START + Duration::from_secs(seconds)
    }

    #[test]
    fn a_tenant_falls_quiet_in_steps_and_is_gone() {
        let mut roll = Roll::default();
        let name = Name::from("a");
        assert_eq!(roll.presence(&name, at(9_999)), Presence::Active);
        roll.on_heartbeat(name.clone(), at(0));
        roll.on_heartbeat("b".into(), at(100));
        assert_eq!(roll.presence(&name, at(59)), Presence::Active);
        assert_eq!(roll.presence(&name, at(60)), Presence::Idle);
        assert_eq!(roll.presence(&name, at(180)), Presence::Away);
        assert_eq!(roll.poll_gone(at(599)), None);
        assert!(roll.on_heard(&name, at(599)), "an ask is as good");
        assert_eq!(roll.poll_gone(at(699)), None);
        assert_eq!(roll.poll_gone(at(700)), Some("b".into()));
        assert_eq!(roll.next_gone(), Some(at(1_199)));
    }

    #[test]
    fn a_stranger_who_invents_tenants_fills_no_memory() {
        let mut roll = Roll::default();
        for n in 0..MOST + 1_000 {
            roll.on_heartbeat(format!("tenant {n}").into(), at(n as u64));
        }
        assert_eq!((roll.heard.len(), roll.oldest.len()), (MOST, MOST));
    }
}
