//! One key at a provider: its counters, and what its refusals have brought upon it.

use std::collections::VecDeque;

use super::law::{Ban, Limit, OddKey, Penalty, Per};
use super::meter::Meter;

/// One key. Times are seconds since the start of the run.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) meters: Vec<Meter>,
    odd: Option<OddKey>,
    pub(super) in_flight: u32,
    /// When it was refused, as far as a ban counts.
    refusals: VecDeque<f64>,
    banned_until: f64,
    /// How often it was banned.
    bans: i32,
    /// When its penalty ends.
    pub(super) held_until: f64,
    /// Refusals since the last success.
    pub(super) streak: i32,
}

impl Key {
    pub(super) fn new(limits: &[Limit], odd: Option<OddKey>, origin: f64) -> Self {
        let mut key = Self {
            meters: Vec::new(),
            odd,
            in_flight: 0,
            refusals: VecDeque::new(),
            banned_until: f64::NEG_INFINITY,
            bans: 0,
            held_until: f64::NEG_INFINITY,
            streak: 0,
        };
        key.meters = key.own_or(limits, origin);
        key
    }

    /// Meters for its own limits, or else for the common ones per key.
    pub(super) fn own_or(&self, common: &[Limit], origin: f64) -> Vec<Meter> {
        let own = self.odd.as_ref().and_then(|odd| odd.limits.as_deref());
        let limits = own
            .unwrap_or(common)
            .iter()
            .filter(|limit| limit.per() == Per::Key);
        limits
            .map(|limit| Meter::new(limit.clone(), origin))
            .collect()
    }

    /// Whether a ban turns a request away; knocking may start it anew.
    pub(super) fn is_banned(&mut self, ban: Ban, now: f64) -> bool {
        if now >= self.banned_until {
            return false;
        }
        if ban.extended_by_knocking {
            self.banned_until = now + ban.lasts_at(self.bans);
        }
        true
    }

    /// In seconds, how long a ban lasts yet.
    pub(super) fn ban_left(&self, now: f64) -> f64 {
        (self.banned_until - now).max(0.0)
    }

    /// Counts a refusal towards a ban.
    pub(super) fn on_refusal(&mut self, ban: Ban, now: f64) {
        self.refusals.push_back(now);
        let begin = now - ban.within.as_secs_f64();
        while self.refusals.front().is_some_and(|&at| at < begin) {
            self.refusals.pop_front();
        }
        if self.refusals.len() >= ban.refusals {
            self.banned_until = now + ban.lasts_at(self.bans);
            self.bans += 1;
            self.refusals.clear();
        }
    }

    pub(super) fn is_out_of_use(&self, now: f64) -> bool {
        self.is_mute(now) || self.is_revoked(now)
    }

    pub(super) fn is_mute(&self, now: f64) -> bool {
        let from = self.odd.as_ref().and_then(|odd| odd.mute_from);
        from.is_some_and(|from| now >= from.as_secs_f64())
    }

    pub(super) fn is_revoked(&self, now: f64) -> bool {
        let at = self.odd.as_ref().and_then(|odd| odd.revoked_at);
        at.is_some_and(|at| now >= at.as_secs_f64())
    }
}

impl Ban {
    pub(super) fn lasts_at(&self, bans_before: i32) -> f64 {
        self.lasts.as_secs_f64() * self.grows.powi(bans_before)
    }
}

impl Penalty {
    pub(super) fn wait_after(&self, streak: i32) -> f64 {
        let wait = self.first.as_secs_f64() * self.factor.powi(streak - 1);
        wait.min(self.longest.as_secs_f64())
    }
}
