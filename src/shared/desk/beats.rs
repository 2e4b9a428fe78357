//! Signs of life, which renew the slots that are held and probe a store that is away.

use std::time::Duration;

use crate::Time;
use crate::scheduler::events::What;

use super::super::store::{Alive, Beat, Slot};
use super::{Call, Desk, RENEWALS, Stage};

/// When the next sign of life is due.
#[derive(Debug, Default)]
pub(super) struct BeatState {
    pub(super) due: Time,
    pub(super) is_flying: bool,
    /// The store counts this process among the living.
    pub(super) is_known: bool,
    /// Until then not all who live may have said so to a store that could not hear them, or has
    /// forgotten: they are as many as they were.
    pub(super) full_at: Time,
}

impl Desk {
    pub(super) fn poll_beat(&mut self, now: Time) -> Option<Call> {
        if self.beat.is_flying {
            return None;
        }
        if self.is_closing && self.idle_since.is_some() {
            let leaves = self.beat.is_known && !self.facts.owes();
            return leaves.then(|| self.beat_call(Duration::ZERO, now));
        }
        (now >= self.beat.due).then(|| self.beat_call(self.sharing.lease, now))
    }

    pub(super) fn beat_call(&mut self, lasts: Duration, now: Time) -> Call {
        self.beat.is_flying = true;
        let slot_limits: Vec<usize> = (0..self.limits.len())
            .filter(|&place| self.limits[place].held > 0)
            .collect();
        let mut slots = Vec::new();
        for stage in self.purchases.values() {
            let Stage::Granted(granted) = stage else {
                continue;
            };
            let Some((op, item)) = granted.payment else {
                continue;
            };
            for place in &self.lines[granted.line].exact {
                if let Some(index) = slot_limits.iter().position(|other| other == place) {
                    slots.push((index as u32, Slot { op, item }));
                }
            }
        }
        let limits = slot_limits
            .iter()
            .map(|&p| self.limits[p].shared.limit.clone());
        Call::Beat(Beat {
            owner: self.owner,
            epoch: self.known_epoch(now),
            lasts,
            limits: limits.collect(),
            slots,
        })
    }

    pub(super) fn on_alive(&mut self, beat: &Beat, alive: &Alive, now: Time) {
        self.hear(&alive.standing, now);
        self.beat.is_flying = false;
        self.beat.is_known = !beat.lasts.is_zero();
        self.beat.due = now + self.sharing.lease / RENEWALS;
        if !alive.gone.is_empty() {
            self.changes
                .push_back(What::SlotsLost(alive.gone.len() as u32));
        }
        let mut owners = alive.owners.max(1);
        if now < self.beat.full_at {
            owners = owners.max(self.owners);
        }
        if owners != self.owners {
            self.owners = owners;
            self.limits
                .iter_mut()
                .for_each(|limit| limit.share_with(owners));
        }
    }
}
