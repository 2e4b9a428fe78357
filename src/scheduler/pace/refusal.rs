//! What a refusal that no quota explains says about the rate.

use crate::feedback::Wait;
use crate::scheduler::events::{Because, KeyId};
use crate::scheduler::time::Time;

use super::bracket::Bracket;
use super::case::{BURST_CREDIT, Case};
use super::evidence::TICK;
use super::knocks::Ban;
use super::learned::{KeyPace, Learned};
use super::{Changed, KNOCK_MEMORY, Refused, Scene, Stamp};

/// How long the server asked to wait, as the pace uses it.
#[derive(Clone, Copy, Debug)]
struct Hint {
    seconds: f64,
    /// Whole seconds: up to a second longer than it needs to be.
    coarse: bool,
}

impl Learned {
    /// A request was refused and nothing told explains it. `in_flight` is how many others were in
    /// flight, on all keys, when it was sent. How long the key itself rests on a coarse hint
    /// is not for the pace to say.
    pub(crate) fn on_refused(
        &mut self,
        key: KeyId,
        stamp: &Stamp,
        wait: Option<Wait>,
        in_flight: u32,
        scene: &Scene<'_>,
        now: Time,
    ) -> Refused {
        let hint = wait.map(|wait| Hint {
            seconds: wait.delay.as_secs_f64(),
            coarse: wait.grain.as_secs_f64() > COARSE,
        });
        self.asked_to_wait |= hint.is_some_and(|hint| hint.coarse && hint.seconds > 0.0);
        self.on_explained(key, stamp);
        let track = self.track(key);
        let knocks = track.knocks.count(KNOCK_MEMORY, now);
        track.knocks.push(now);
        let banned = track.is_banned_by(hint, knocks);
        track.last_hint = hint.map_or(0.0, |hint| hint.seconds);
        track.told_whole_seconds =
            !scene.told && hint.is_some_and(|hint| hint.coarse && hint.seconds > 0.0);
        if banned {
            return self.on_ban(key.index(), knocks + 1, scene, now);
        }
        let track = self.track(key);
        if track.cut.is_some_and(|cut| stamp.at <= cut) {
            return Refused {
                changed: None,
                same_episode: true,
            };
        }
        self.budget.spend();
        if let Some(to) = self.find_group(key.index(), stamp.at, scene, now) {
            let changed = Changed {
                from: f64::INFINITY,
                to,
                why: Because::RateLimited,
            };
            return Refused {
                changed: Some(changed),
                same_episode: false,
            };
        }
        if let Some(refused) = self.refused_in_window(key.index(), stamp.at, hint, scene, now) {
            return refused;
        }
        let case = self.case(key.index(), stamp, in_flight, knocks, scene);
        let (bracket, backoff) = self.judge(&case, now);
        let from = self.brackets[self.keys[case.key].bracket].pace;
        let to = bracket.pace;
        let probed = self.brackets[self.keys[case.key].bracket]
            .before_probe
            .is_some();
        let in_a_row = self.keys[case.key].evidence.blocked && bracket.credit >= BURST_CREDIT;
        self.take_anchor(&case, to, hint, now);
        self.share(bracket, backoff, &case);
        if in_a_row && case.all_blocked {
            self.let_ask(case.key, scene);
        }
        let why = if probed {
            Because::ProbeRefused
        } else {
            Because::RateLimited
        };
        Refused {
            changed: Some(Changed { from, to, why }),
            same_episode: false,
        }
    }

    /// A ban says nothing about the rate, and after it all credit is there again. Where no lower
    /// bound was found by then, the rate is sought anew, with each refusal heard before the next
    /// send.
    fn on_ban(&mut self, key: usize, knocks: u32, scene: &Scene<'_>, now: Time) -> Refused {
        let track = &mut self.keys[key];
        track.ban = Ban::that_ends(knocks, track.ban, now);
        track.cut = Some(now);
        track.refused_in_a_row = 0;
        track.evidence.forget_anchor();
        track.evidence.blocked = false;
        let bracket = &mut self.brackets[track.bracket];
        let from = bracket.pace;
        bracket.before_block = None;
        bracket.regrowth = None;
        if bracket.window.is_none() && bracket.low == 0.0 {
            let heard = scene.timing.heard_after().recip();
            bracket.seek_anew(heard);
        } else if bracket.window.is_none() {
            bracket.pace = bracket.pace.min(0.995 * bracket.low);
        }
        let changed = Changed {
            from,
            to: bracket.pace,
            why: Because::RateLimited,
        };
        Refused {
            changed: Some(changed),
            same_episode: false,
        }
    }

    /// A refusal where a window is known: it narrows its length, or shows that it is none.
    fn refused_in_window(
        &mut self,
        key: usize,
        sent: Time,
        hint: Option<Hint>,
        scene: &Scene<'_>,
        now: Time,
    ) -> Option<Refused> {
        let track = &mut self.keys[key];
        let bracket = &mut self.brackets[track.bracket];
        let window = bracket.window.as_mut()?;
        let jitter = scene.timing.jitter();
        let segment = track.evidence.segment.unwrap_or(sent);
        let (_, accepted) = track.evidence.segment_before(sent);
        if let Some(known) = bracket.if_no_window
            && window.is_disproved(accepted)
            && !window.is_trial(&track.evidence.sends, sent)
        {
            bracket.window = None;
            bracket.if_no_window = None;
            bracket.take_back(&known);
            return None;
        }
        let may_try = self.budget.allows();
        let again = window.on_refused(&track.evidence.sends, segment, jitter, may_try, sent);
        let from = bracket.pace;
        let to = window.rate();
        bracket.pace = to;
        track.evidence.take_anchor(sent, to);
        track.cut = Some(now);
        track.next = now.plus_secs(hint.map_or(0.0, |hint| hint.seconds));
        match again {
            Some((start, age)) => {
                track.evidence.segment = Some(start);
                track.next = track.next.max(start.plus_secs(age + jitter));
            }
            None => track.evidence.blocked = false,
        }
        if again.is_some() && self.all_others_blocked(key) {
            self.let_ask(key, scene);
        }
        let changed = Changed {
            from,
            to,
            why: Because::RateLimited,
        };
        Some(Refused {
            changed: Some(changed),
            same_episode: false,
        })
    }

    fn case<'a>(
        &self,
        key: usize,
        stamp: &Stamp,
        in_flight: u32,
        knocks: u32,
        scene: &'a Scene<'a>,
    ) -> Case<'a> {
        let track = &self.keys[key];
        let bracket = &self.brackets[track.bracket];
        let since = |moment: Option<Time>| {
            moment
                .map_or(f64::INFINITY, |moment| stamp.at.secs_since(moment))
                .max(TICK)
        };
        let before = stamp.before.max(track.evidence.anchor);
        let momentary = if bracket.is_known() {
            bracket.pace.max(since(before).recip())
        } else {
            bracket.pace
        };
        Case {
            key,
            sent: stamp.at,
            in_flight,
            momentary,
            gap: track
                .evidence
                .gap_before(stamp.at)
                .unwrap_or(f64::INFINITY)
                .max(TICK),
            knocks,
            asked_to_wait: self.asked_to_wait,
            alone: scene.keys <= 1,
            may_spend: self.budget.allows(),
            all_blocked: self.all_others_blocked(key),
            scene,
        }
    }

    /// Whether every other key that shares the bracket was refused, and not accepted since.
    fn all_others_blocked(&self, key: usize) -> bool {
        let bracket = self.keys[key].bracket;
        self.keys.iter().enumerate().all(|(other, its)| {
            other == key || its.bracket != bracket || its.out || its.evidence.blocked
        })
    }

    /// Where all keys of a bracket are refused, one asks for all: what it waits for they wait for,
    /// and each of them would be refused as often.
    fn let_ask(&mut self, key: usize, scene: &Scene<'_>) {
        let (bracket, asks) = (self.keys[key].bracket, self.keys[key].next);
        let answer = scene.timing.answer().unwrap_or(0.0);
        let heard = asks.plus_secs(2.0 * answer.max(scene.timing.hearing()));
        for (other, track) in self.keys.iter_mut().enumerate() {
            if other != key && track.bracket == bracket {
                track.next = track.next.max(heard);
            }
        }
    }

    /// The bracket as this refusal leaves it, and how long the others of it wait.
    fn judge(&mut self, case: &Case<'_>, now: Time) -> (Bracket, f64) {
        let track = &mut self.keys[case.key];
        let index = track.bracket;
        let mut bracket = self.brackets[index].clone();
        let accepted = track.evidence.accepted_before(case.sent);
        if accepted >= 1.0 || !case.all_blocked {
            // One that asks for all is not refused for itself.
            bracket.note_refused(case.key);
        }
        bracket.end_regrowth(accepted);
        if track.evidence.anchor.is_none() || accepted >= 1.0 {
            bracket.enter_block();
        }
        if track.evidence.anchor.is_none() {
            track.first_refusal(&mut bracket, case, now);
        } else if accepted < 1.0 {
            track.refused_again(&mut bracket, case, now);
        } else {
            track.refused_after(&mut bracket, case, now);
        }
        let probed = bracket.before_probe.take();
        if let Some(held) = probed {
            let short_of_it = case.momentary < 2.0 * held && held >= 0.9 * bracket.low;
            let members = self
                .keys
                .iter()
                .filter(|other| other.bracket == index)
                .count();
            if accepted * members as f64 >= PROBE_COUNTS && short_of_it {
                bracket.pace = held.min(bracket.high);
                bracket.high = bracket.high.min(1.03 * held).max(bracket.pace);
            }
        }
        let track = &mut self.keys[case.key];
        if track.fears_ban(&bracket, now) {
            // The next one may be the ban: only what was held for sure, and after a pause in which
            // the fraction that the level lacked comes in.
            bracket.pace = bracket.pace.min(bracket.low.max(0.25 * bracket.high));
            track.next = track.next.max(now.plus_secs(1.5 / bracket.pace));
        }
        bracket.on_refused(probed.is_some(), now);
        (bracket, track.backoff)
    }

    /// Starts the key's count anew at this refusal.
    fn take_anchor(&mut self, case: &Case<'_>, pace: f64, hint: Option<Hint>, now: Time) {
        let track = &mut self.keys[case.key];
        // Paced sends are apart. Those of a first burst are not, but what of it was served is the only
        // sign that not all are refused: of a path that always is, too.
        track.evidence.take_anchor(case.sent, pace);
        track.cut = Some(now);
        if let Some(hint) = hint.filter(|hint| !hint.coarse) {
            track.next = track.next.max(now.plus_secs(hint.seconds));
        }
    }

    /// Gives the bracket back to its group, or lets the key leave with it.
    fn share(&mut self, mut bracket: Bracket, backoff: f64, case: &Case<'_>) {
        let index = self.keys[case.key].bracket;
        let members = self
            .keys
            .iter()
            .filter(|track| track.bracket == index && !track.out)
            .count();
        let in_a_row = if members == 2 {
            ODD_OF_TWO
        } else {
            ODD_OF_MANY
        };
        if members > 1 && (bracket.refused_in_a_row >= in_a_row || bracket.odd) {
            self.brackets[index].widen_after_split();
            bracket.low_of = Some(case.key);
            bracket.odd = false;
            self.brackets.push(bracket);
            self.keys[case.key].bracket = self.brackets.len() - 1;
            return;
        }
        let pace = bracket.pace;
        self.brackets[index] = bracket;
        for (other, track) in self.keys.iter_mut().enumerate() {
            if other == case.key || track.bracket != index {
                continue;
            }
            track.evidence.slowest = track.evidence.slowest.min(pace);
            track.evidence.pace_changed();
            if let Some(last) = track.last_sent {
                track.next = track.next.max(last.plus_secs(backoff.max(pace.recip())));
            }
        }
    }
}

impl KeyPace {
    /// Whether the wait that is asked for is many times as long as the one before, after refusals
    /// that came soon after one another: that is a ban.
    fn is_banned_by(&self, hint: Option<Hint>, knocks: u32) -> bool {
        let grew = hint.is_some_and(|hint| {
            hint.seconds >= BAN_HINT && hint.seconds > BAN_GROWTH * self.last_hint
        });
        grew && knocks >= 1 && self.last_hint > 0.0
    }
}

/// In seconds: a hint rounded more than this is no measure of a short wait.
const COARSE: f64 = 0.1;
/// In seconds, and times the wait before: no rate asks for that who asked for less a moment ago.
const BAN_HINT: f64 = 5.0;
const BAN_GROWTH: f64 = 4.0;
/// A probe that was refused after fewer than this says nothing about the pace before it.
const PROBE_COUNTS: f64 = 8.0;
/// Refusals in a row of one key of a group: by chance 4^-3 for four keys.
const ODD_OF_MANY: u32 = 4;
const ODD_OF_TWO: u32 = 5;
