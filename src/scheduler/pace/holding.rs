//! What a success says about the rate: little on its own, enough of them a step up.

use crate::scheduler::events::{Because, KeyId};
use crate::scheduler::time::Time;

use super::learned::Learned;
use super::{Changed, KNOCK_MEMORY, POOLED_COUNTS, Scene, Stamp};

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
        self.raise_low(key.index(), scene, now);
        if self.brackets[index].regrowth.is_some() {
            return self.regrow(key, stamp);
        }
        let members = self
            .keys
            .iter()
            .filter(|track| track.bracket == index)
            .count() as f64;
        let knocks = self
            .keys
            .iter()
            .filter(|track| track.bracket == index)
            .map(|track| track.knocks.count(KNOCK_MEMORY, now))
            .max()
            .unwrap_or(0)
            + u32::from(self.asked_to_wait);
        let fears_ban = self
            .keys
            .iter()
            .any(|track| track.bracket == index && track.fears_ban(now));
        let was_banned = self
            .keys
            .iter()
            .any(|track| track.bracket == index && track.ban.is_some_and(|ban| ban.is_fresh(now)));
        let (budget, asked) = (self.budget.allows() && !fears_ban, self.asked_to_wait);
        let bracket = &mut self.brackets[index];
        let unheard = bracket.pace * scene.timing.heard_after() * members;
        // After a ban a step stands until what it takes too much shows over any credit.
        let unheard = if was_banned {
            unheard + AFTER_BAN * bracket.pace
        } else {
            unheard
        };
        let sought = was_banned && bracket.high.is_infinite();
        if sought || !bracket.is_due(members, unheard) {
            return None;
        }
        let from = bracket.pace;
        let room = bracket.high - bracket.pace;
        if room > 0.02 * bracket.pace {
            bracket.before_probe = None;
            if knocks >= 3 && (bracket.low > 0.6 * bracket.high || asked) {
                if bracket.pace < 0.98 * bracket.low {
                    bracket.pace = 0.995 * bracket.low;
                }
            } else if budget && (knocks <= 2 || knocks <= 3 && room > 0.04 * bracket.pace)
                || room > 0.25 * bracket.pace && !fears_ban
            {
                // Where refusals are heard late, a step too far costs more of them.
                let most = if scene.timing.refuses_fast() && !was_banned {
                    1.5
                } else {
                    1.2
                };
                let middle = f64::midpoint(bracket.pace, bracket.high);
                bracket.pace = middle.min(most * bracket.pace);
            }
        }
        if bracket.pace == from && !was_banned {
            let aged = knocks == 0 && unheard < MOST_UNHEARD && bracket.is_aged(now);
            let due = knocks <= 2
                && room <= 0.02 * bracket.pace
                && (budget || bracket.before_probe.is_some())
                && bracket.probe_is_due(members, unheard);
            if aged || due {
                bracket.probe(aged, now);
            }
        }
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

    /// Sound lower bounds: what was accepted since the anchor, and what was sent since the pace last
    /// changed less all credit there can be.
    fn raise_low(&mut self, key: usize, scene: &Scene<'_>, now: Time) {
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
        let low = low.min(bracket.pace);
        if low <= bracket.high {
            bracket.raise_low(low, key);
        }
    }
}

/// In seconds.
const AFTER_BAN: f64 = 2.0;
/// Sends that are refused at once where a step was too far: more are not risked for time alone.
const MOST_UNHEARD: f64 = 4.0;
