//! What a success says about the rate: little on its own, enough of them a step up.

use crate::scheduler::events::{Because, KeyId};
use crate::scheduler::time::Time;

use super::evidence::TICK;
use super::learned::Learned;
use super::window::SilentWindow;
use super::{Changed, KNOCK_MEMORY, POOLED_COUNTS, Scene, Stamp, WINDOW_BLOCK};

impl Learned {
    /// The first success after a block ends a segment of the key's history. Where the limit is like
    /// a window, segments are the only measure of the rate.
    pub(super) fn come_back(
        &mut self,
        key: KeyId,
        stamp: &Stamp,
        scene: &Scene<'_>,
        now: Time,
    ) -> Option<Changed> {
        let track = &mut self.keys[key.index()];
        let evidence = &mut track.evidence;
        let after_anchor = evidence.anchor.is_some_and(|anchor| stamp.at > anchor);
        if !evidence.blocked || !after_anchor {
            return None;
        }
        evidence.blocked = false;
        let (since, sent) = evidence.segment_before(stamp.at);
        let (_, held) = evidence.segment_before(evidence.block_began);
        let span = stamp.at.secs_since(since).max(TICK);
        let jitter = scene.timing.jitter();
        let block = stamp.at.secs_since(evidence.block_began);
        let burst = evidence.block_began.secs_since(since);
        let refused = evidence
            .anchor
            .map_or(0.0, |anchor| anchor.secs_since(since) - jitter);
        evidence.segment = Some(stamp.at);
        let bracket = &mut self.brackets[track.bracket];
        let window = bracket.window.take();
        let known = window.as_ref().map(SilentWindow::rate);
        let mean = held / span;
        let contradicts = track.refused_in_a_row >= 2 && held >= MANY && mean > 2.0 * bracket.high;
        bracket.windowed |= contradicts && block * mean > WINDOW_BLOCK;
        if !bracket.windowed && window.is_none() {
            if contradicts {
                // Refused and refused although much went before: a window does that, too. If it was
                // one, more goes now; if not, one refusal tells.
                bracket.high = mean;
            } else if track.refused_in_a_row >= 1 || held < 1.0 {
                bracket.leave_block(held < 1.0);
            }
            return None;
        }
        let from = bracket.pace;
        if window.is_none() && bracket.is_first_block() && bracket.leave_block(false) {
            return None;
        }
        let long = block >= BURST * burst && held >= 2.0;
        let window = match window {
            // Blocked before it was used up: that tells nothing about its size.
            Some(window) if held < 0.5 * window.limit => Some(window),
            // A block that soon ended: it is as it was, and a little longer.
            Some(window) if block < SHORT_BLOCK * span => Some(window.lengthened(span + jitter)),
            _ => long.then(|| SilentWindow::new(held, refused, span + jitter)),
        };
        if let Some(window) = window {
            bracket.pace = window.rate();
            bracket.window = Some(window);
            track.next = now;
            return Some(Changed {
                from,
                to: bracket.pace,
                why: Because::Recovered,
            });
        }
        let mean = known.unwrap_or_else(|| sent.max(1.0) / span);
        // It came back somewhere between the last refusal and now.
        let soonest = held / refused.max(TICK);
        bracket.high = soonest.clamp(1.05 * mean, 1.5 * mean);
        bracket.pace = 0.97 * mean;
        bracket.low = bracket.low.min(bracket.pace);
        if track.refused_in_a_row >= 1 {
            bracket.leave_block(held < 1.0);
        }
        track.next = track.next.max(now);
        Some(Changed {
            from,
            to: bracket.pace,
            why: Because::Recovered,
        })
    }

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
        let (budget, asked) = (self.budget.allows() && !fears_ban, self.asked_to_wait);
        let bracket = &mut self.brackets[index];
        let unheard = bracket.pace * scene.timing.heard_after() * members;
        if !bracket.is_due(members, unheard) {
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
                let most = if scene.timing.refuses_fast() {
                    1.5
                } else {
                    1.2
                };
                let middle = f64::midpoint(bracket.pace, bracket.high);
                bracket.pace = middle.min(most * bracket.pace);
            }
        }
        if bracket.pace == from {
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

/// Sends that are refused at once where a step was too far: more are not risked for time alone.
const MOST_UNHEARD: f64 = 4.0;
/// Sends before a block that make it odd for a bucket.
const MANY: f64 = 8.0;
/// Times the time in which a window was filled: a shorter block may be anything.
const BURST: f64 = 2.0;
/// Of a window's length: a refusal at its end that jitter may have caused.
const SHORT_BLOCK: f64 = 0.1;
