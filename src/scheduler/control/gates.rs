//! When an ask may go by the estimators of its key and of the provider.

use crate::scheduler::concurrency::{Concurrency, Room};
use crate::scheduler::events::{Cost, Gate, KeyId, Reason};
use crate::scheduler::pace::Pace;
use crate::scheduler::reserve::Reserve;
use crate::scheduler::time::Time;

use super::Control;

impl Control {
    /// The gate of one key for an ask.
    pub(crate) fn gate(&mut self, key: KeyId, bucket: u32, cost: &Cost, now: Time) -> Gate {
        let share = (UNKNOWN_IN_FLIGHT / self.keys.len().max(1) as u32).max(1);
        let demand = self.demand();
        let control = &mut self.keys[key.index()];
        let room = control.room();
        let resume = control.resume.gate(now);
        let ledger = control.ledger_mut(bucket);
        let quota = ledger.gate(cost, demand, &self.timing, now);
        let ledger_told = ledger.is_told();
        let unknown = self.told && !ledger_told && !ledger.is_silent();
        let crowded = unknown && ledger.in_flight() >= share;
        if crowded || room == Room::Full {
            return WAIT;
        }
        let pace = self.pace_gate(self.paces.of(bucket), room, key, now);
        let silent = if ledger_told || unknown {
            Gate::Open
        } else {
            self.silent_gate(now)
        };
        resume.and(quota).and(pace).and(silent)
    }

    /// What the gate of one key is at least for every ask, whatever its bucket and cost.
    pub(crate) fn gate_of_all(&self, key: KeyId, now: Time) -> Gate {
        let control = &self.keys[key.index()];
        let room = control.room();
        if room == Room::Full {
            return WAIT;
        }
        let pace = if self.paces.is_one() {
            self.pace_gate(self.paces.common(), room, key, now)
        } else {
            Gate::Open
        };
        let silent = if self.told {
            Gate::Open
        } else {
            self.silent_gate(now)
        };
        control.resume.gate(now).and(pace).and(silent)
    }

    /// What the gate of one key is at least for an ask, by the quotas of its bucket alone.
    pub(crate) fn gate_of_bucket(
        &mut self,
        key: KeyId,
        bucket: u32,
        cost: &Cost,
        now: Time,
    ) -> Gate {
        let demand = self.demand();
        let ledger = self.keys[key.index()].ledger_mut(bucket);
        ledger.gate(cost, demand, &self.timing, now)
    }

    /// How many wait for each key.
    pub(super) fn demand(&self) -> usize {
        self.waiting.div_ceil(self.keys.len().max(1))
    }

    /// The gate of a learned rate, as far as it binds where so many are in flight.
    fn pace_gate(&self, pace: &Pace, room: Room, key: KeyId, now: Time) -> Gate {
        match room {
            Room::Trial if !pace.is_known(key) => WAIT,
            Room::Trial => pace.gate_of_trial(key, &self.timing, now),
            Room::Look => {
                let cap = self.keys[key.index()].cap.limit().unwrap_or(1).max(1);
                let turn = self.timing.answer().unwrap_or(0.0) / f64::from(cap);
                pace.gate_of_look(key, turn, &self.timing, now)
            }
            Room::AtOnce if self.may_go_at_once(pace, key) => Gate::Open,
            _ => pace.gate(key, &self.timing, now),
        }
    }

    /// Whether a free place below a cap may be taken whatever the pace says. Who asks to wait is
    /// asked no question that a rate may refuse.
    fn may_go_at_once(&self, pace: &Pace, key: KeyId) -> bool {
        let is_certain = || self.keys[key.index()].cap.is_certain() && !pace.is_window(key);
        self.timing.refuses_fast() && (!pace.is_strict(key) || is_certain())
    }

    /// What is kept from an ask that the gate of this key lets pass.
    pub(crate) fn reserve_gate(
        &self,
        key: KeyId,
        bucket: u32,
        cost: &Cost,
        reserve: &Reserve,
        now: Time,
    ) -> Gate {
        let control = &self.keys[key.index()];
        let slots = self.limit(key, now).map_or(Gate::Open, |limit| {
            // What is learned of a silent provider holds for all its keys.
            let all = control.controller.is_none() && !self.told;
            let taken = if all {
                self.in_flight
            } else {
                control.in_flight
            };
            reserve.slots(limit, taken, self.usual())
        });
        let quotas = control.ledger(bucket).map_or(Gate::Open, |ledger| {
            ledger.reserve_gate(cost, reserve, &self.timing, now)
        });
        slots.and(quotas)
    }

    /// The gate of a provider that says nothing.
    fn silent_gate(&self, now: Time) -> Gate {
        if !matches!(self.concurrency, Concurrency::Adaptive) {
            return Gate::Open;
        }
        let began = self.first_sent.unwrap_or(now);
        if f64::from(self.in_flight) >= self.window.allowance(now.secs_since(began)).floor() {
            return match self.window.next_allowance(self.in_flight, began) {
                Some(until) => Gate::at(until, Reason::Limit, now),
                None => WAIT,
            };
        }
        // Sends are a little apart, so that one refusal is heard before the next send: a surprise
        // must not be five, which is a ban in places.
        let gap = self.timing.answer().map_or(FIRST_GAP, |answer| {
            let least = if self.served < CAREFUL {
                0.5 * self.timing.hearing()
            } else {
                0.0
            };
            (0.5 * answer / self.window.size())
                .max(least)
                .min(FIRST_GAP)
        });
        let next = self.last_granted.map_or(now, |last| last.plus_secs(gap));
        Gate::at(next, Reason::Resume, now)
    }
}

/// Shut until something else happens.
const WAIT: Gate = Gate::Shut {
    until: Time::NEVER,
    reason: Reason::Limit,
};
/// In seconds, before the first answer: longer than a refusal's way back, so one surprise is one
/// refusal, and sixteen are in flight within 160 ms.
const FIRST_GAP: f64 = 0.01;
/// Served before sends follow faster than a refusal is heard: small bursts end within it.
const CAREFUL: u64 = 16;
/// In flight over all keys whose quotas are not told yet while others' are: as many as at the start
/// of everything.
const UNKNOWN_IN_FLIGHT: u32 = 16;
