//! What a success says about the rate: little on its own, enough of them a step up.

use crate::scheduler::events::{Because, KeyId};
use crate::scheduler::time::Time;

use super::bracket::Bracket;
use super::learned::Learned;
use super::{Changed, KNOCK_MEMORY, POOLED_COUNTS, Scene, Stamp};

/// What the keys of a bracket have to fear from a refusal.
#[derive(Clone, Copy, Debug, Default)]
struct Caution {
    members: f64,
    /// The most that one of them was refused in the last seconds.
    knocks: u32,
    /// The server asks to wait, so it counts who does not.
    asked: bool,
    /// In seconds, how long the last refused of them was asked to wait.
    last_hint: f64,
    fears_ban: bool,
    was_banned: bool,
    /// A refusal is paid for.
    may_spend: bool,
}

impl Learned {
    /// The pace holds: raise the lower bound by the count, and take a step up when it is due.
    pub(super) fn hold(
        &mut self,
        key: KeyId,
        stamp: &Stamp,
        scene: &Scene<'_>,
        now: Time,
    ) -> Option<Changed> {
        let index = self.keys[key.index()].bracket;
        if !self.brackets[index].is_known() {
            return None;
        }
        self.raise_low(key.index(), stamp, scene, now);
        if self.brackets[index].regrowth.is_some() {
            return self.regrow(key, stamp);
        }
        let caution = self.caution(index, now);
        if self.brackets[index].is_nearly_through(&caution, scene.demand) {
            return None;
        }
        let bracket = &mut self.brackets[index];
        let unheard = bracket.pace * scene.timing.heard_after() * caution.members;
        let from = bracket.pace;
        bracket.rise(&caution, unheard, scene.timing.refuses_fast(), now);
        if bracket.pace == from {
            return None;
        }
        bracket.held = 0.0;
        let to = bracket.pace;
        for track in self.keys.iter_mut().filter(|track| track.bracket == index) {
            track.evidence.pace_changed();
        }
        Some(Changed {
            from,
            to,
            why: Because::Probed,
        })
    }

    fn caution(&self, index: usize, now: Time) -> Caution {
        let mut caution = Caution {
            asked: self.asked_to_wait,
            may_spend: self.budget.allows(),
            ..Caution::default()
        };
        for track in self.keys.iter().filter(|track| track.bracket == index) {
            caution.members += 1.0;
            caution.knocks = caution.knocks.max(track.knocks.count(KNOCK_MEMORY, now));
            caution.last_hint = caution.last_hint.max(track.last_hint);
            caution.fears_ban |= track.fears_ban(&self.brackets[index], now);
            caution.was_banned |= track.ban.is_some_and(|ban| ban.is_fresh(now));
        }
        caution
    }

    /// Sound lower bounds: what was accepted since the anchor, and what was sent since the pace last
    /// changed less all credit there can be.
    fn raise_low(&mut self, key: usize, stamp: &Stamp, scene: &Scene<'_>, now: Time) {
        let by_gap = self.low_by_gap(key, stamp, scene);
        let track = &self.keys[key];
        let bracket = &mut self.brackets[track.bracket];
        let evidence = &track.evidence;
        let jitter = scene.timing.jitter();
        let heard = now.plus_secs(-scene.timing.heard_after());
        let needed = if scene.told && scene.keys > 1 {
            POOLED_COUNTS
        } else {
            2.0
        };
        let since_anchor = evidence
            .low_until(jitter, heard)
            .filter(|low| low.1 >= needed);
        let since_change = evidence.low_since_change(bracket.credit, heard);
        let low = since_anchor
            .map_or(0.0, |low| low.0)
            .max(since_change.unwrap_or(0.0));
        let low = low.max(by_gap).min(bracket.pace);
        if low <= bracket.high {
            bracket.raise_low(low, key);
        }
    }
}

impl Bracket {
    /// Whether all that waits would be through before a request that a step up gets refused may ask
    /// again: then the step brings nothing, and the refusal makes the end late.
    fn is_nearly_through(&self, caution: &Caution, demand: usize) -> bool {
        (demand as f64) < (caution.last_hint * self.pace).min(MANY_WAIT)
    }

    /// Takes the step up that is due, if one is. Of the last sends so many may be refused yet.
    fn rise(&mut self, caution: &Caution, unheard: f64, refuses_fast: bool, now: Time) {
        let may_age = unheard < MOST_UNHEARD && !caution.was_banned && self.is_aged(now);
        let is_still = caution.knocks == 0 && !caution.fears_ban;
        if may_age && is_still && self.fell_lately(now) {
            // It often comes back to what it was, and that is far above any step from here.
            self.probe(true, now);
            return;
        }
        // After a ban a step stands until what it takes too much shows over any credit.
        let unheard = if caution.was_banned {
            unheard + AFTER_BAN * self.pace
        } else {
            unheard
        };
        let is_sought = caution.was_banned && self.high.is_infinite();
        let goes_on = self.before_probe.is_some() && self.probe_is_due(caution.members, unheard);
        if is_sought || !goes_on && !self.is_due(caution.members, unheard) {
            return;
        }
        let from = self.pace;
        let knocks = caution.knocks + u32::from(caution.asked);
        let may_spend = caution.may_spend && !caution.fears_ban;
        let room = self.high - self.pace;
        if room > 0.02 * self.pace {
            self.before_probe = None;
            if knocks >= 3 && (self.low > 0.6 * self.high || caution.asked) {
                if self.pace < 0.98 * self.low {
                    self.pace = self.low;
                }
            } else if may_spend && (knocks <= 2 || knocks <= 3 && room > 0.04 * self.pace)
                || room > 0.25 * self.pace && !caution.fears_ban
            {
                // Where refusals are heard late or counted, a step too far costs more of them.
                let is_cheap = refuses_fast && !caution.was_banned && !caution.asked;
                let most = if is_cheap { 1.5 } else { 1.2 };
                let middle = if is_cheap && self.saves_nothing() {
                    // Each ask costs one refusal at most, however far it goes.
                    (self.pace * self.high).sqrt()
                } else {
                    f64::midpoint(self.pace, self.high).min(most * self.pace)
                };
                self.pace = middle;
            }
        }
        if self.pace == from && !caution.was_banned {
            let aged = knocks == 0 && may_age;
            let due = knocks <= 2
                && room <= 0.02 * self.pace
                && (may_spend || self.before_probe.is_some())
                && self.probe_is_due(caution.members, unheard);
            if aged || due {
                self.probe(aged, now);
            }
        }
    }
}

/// What waits may be the front of more, which is read when there is room for it.
const MANY_WAIT: f64 = 100.0;
/// In seconds.
const AFTER_BAN: f64 = 2.0;
/// Sends that are refused at once where a step was too far: more are not risked for time alone.
const MOST_UNHEARD: f64 = 4.0;
