//! What a refusal that no quota explains says about the rate.

use crate::feedback::Wait;
use crate::scheduler::events::{Because, KeyId};
use crate::scheduler::time::Time;

use super::bracket::Bracket;
use super::evidence::TICK;
use super::knocks::Ban;
use super::learned::{KeyPace, Learned};
use super::window::asked_after;
use super::{Changed, KNOCK_MEMORY, PERIODS, POOLED_COUNTS, Refused, Scene, Stamp, WINDOW_BLOCK};

/// How long the server asked to wait, as the pace uses it.
#[derive(Clone, Copy, Debug)]
struct Hint {
    seconds: f64,
    /// Whole seconds: up to a second longer than it needs to be.
    coarse: bool,
}

/// A refusal in its circumstances.
struct Case<'a> {
    key: usize,
    sent: Time,
    /// Requests in flight on all keys when it was sent.
    in_flight: u32,
    /// The pace of this very send, which may have been sent early.
    momentary: f64,
    /// Seconds since the last accepted send.
    gap: f64,
    /// Refusals of this key in the last seconds, this one not counted.
    knocks: u32,
    asked_to_wait: bool,
    alone: bool,
    /// Every key that shares the bracket is refused.
    all_blocked: bool,
    scene: &'a Scene<'a>,
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
            gap: since(track.last_accepted),
            knocks,
            asked_to_wait: self.asked_to_wait,
            alone: scene.keys <= 1,
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
        if track.fears_ban(now) {
            // The next one may be the ban: only what was held for sure, and after a pause in which
            // the fraction that the level lacked comes in.
            let sure = 0.995 * bracket.low;
            bracket.pace = bracket.pace.min(sure.max(0.25 * bracket.high));
            track.next = track.next.max(now.plus_secs(2.0 / bracket.pace));
        }
        bracket.on_refused(probed.is_some(), now);
        (bracket, track.backoff)
    }

    /// Starts the key's count anew at this refusal.
    fn take_anchor(&mut self, case: &Case<'_>, pace: f64, hint: Option<Hint>, now: Time) {
        let track = &mut self.keys[case.key];
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

    /// Credit and refill cannot be told apart yet: half the rate so far, after a wait as long as it
    /// took to get here. It loses at most as much time as was used, and nothing if the credit is
    /// larger than what refilled meanwhile.
    fn first_refusal(&mut self, bracket: &mut Bracket, case: &Case<'_>, now: Time) {
        let scene = case.scene;
        let (since, accepted) = self.evidence.segment_before(case.sent);
        let accepted = accepted.max(1.0);
        let used = case.sent.secs_since(since).max(SOONEST);
        let credit = bracket.credit;
        bracket.credit = bracket.credit.min(if scene.told {
            scene.served as f64 + f64::from(scene.in_flight) + 1.0
        } else {
            accepted
        });
        if bracket.is_known() {
            bracket.lower_high(case.momentary);
            if self.ban.is_some() {
                // What goes after a pause goes on credit, of which there is no more than at first.
                let more = accepted - credit - 1.0;
                bracket.raise_low((more / used).max(0.0), case.key);
                bracket.lower_high((accepted + 1.0) / used);
            }
            bracket.uncross(0.99);
            bracket.pace = bracket.middle();
            self.backoff = bracket.pace.recip();
        } else {
            let others = f64::from(case.in_flight) + 1.0;
            let flow = scene
                .timing
                .answer()
                .map_or(0.0, |a| others / a.max(TICK) / scene.keys as f64);
            bracket.high = (accepted / used).max(flow);
            bracket.low = 0.0;
            bracket.pace = 0.5 * bracket.high;
            self.backoff = used.max(SHORTEST_BACKOFF);
        }
        self.next = now.plus_secs(self.backoff);
    }

    /// Refused again before anything was accepted: wait longer.
    fn refused_again(&mut self, bracket: &mut Bracket, case: &Case<'_>, now: Time) {
        let anchor = self.evidence.anchor.unwrap_or(case.sent);
        let early = case.sent.secs_since(anchor) < 0.9 * self.backoff;
        self.refused_in_a_row += 1;
        if self.refused_in_a_row >= 2 || bracket.credit < SINGLE_CREDIT {
            bracket.lower_high(case.momentary);
        }
        let (since, sent) = self.evidence.segment_before(case.sent);
        let mean = (sent + 1.0) / case.sent.secs_since(since).max(TICK);
        if case.alone || bracket.credit < SINGLE_CREDIT {
            bracket.high = bracket.high.min(1.02 * mean).max(0.5 * bracket.low);
        }
        let blocked = case.sent.secs_since(self.evidence.block_began);
        // What all keys are refused for is no matter of one that took the others' share.
        let counts = case.alone || bracket.credit < SINGLE_CREDIT || case.all_blocked;
        if counts && blocked * mean > WINDOW_BLOCK && blocked > 0.25 * self.backoff {
            bracket.windowed = true;
        }
        if bracket.windowed && case.all_blocked {
            bracket.high = 1.02 * mean;
        }
        bracket.uncross(0.98);
        if !early {
            let growth = if bracket.windowed { 1.4 } else { 2.0 };
            self.backoff = (growth * self.backoff)
                .max(case.momentary.recip())
                .min(LONGEST_BACKOFF);
        }
        bracket.pace = if bracket.windowed {
            bracket.low = bracket.low.min(0.9 * bracket.high);
            0.97 * bracket.high
        } else if case.must_be_still() {
            bracket.low.max(0.25 * bracket.high)
        } else {
            bracket.middle()
        };
        self.next = now.plus_secs(self.backoff);
        let odd = counts && self.refused_in_a_row >= 3 && bracket.credit >= BURST_CREDIT;
        if bracket.windowed || odd && blocked * mean > PERIODS {
            // Round lengths of a window, from the first send in it.
            let start = self.evidence.counted_since(bracket.credit, case.sent);
            let age = asked_after(case.sent.secs_since(start));
            self.next = start.plus_secs(age + case.scene.timing.jitter()).max(now);
        }
    }

    /// Refused after some were accepted: both bounds follow from the count.
    fn refused_after(&mut self, bracket: &mut Bracket, case: &Case<'_>, now: Time) {
        let jitter = case.scene.timing.jitter();
        let evidence = &self.evidence;
        let accepted = evidence.accepted_before(case.sent);
        let counts = case.alone || accepted >= POOLED_COUNTS;
        let low = evidence.low(jitter, case.sent).unwrap_or(0.0);
        let high = if counts {
            evidence.high(jitter, case.sent)
        } else {
            f64::INFINITY
        };
        self.refused_in_a_row = 0;
        bracket.lower_high(case.momentary.max(low));
        if high <= 1.02 * evidence.slowest {
            bracket.lower_high(high);
        } else if bracket.credit < SINGLE_CREDIT {
            bracket.lower_high((case.gap - jitter).max(TICK).recip());
        }
        let contradicts_others = bracket.low_of.is_some_and(|of| of != case.key);
        if bracket.low >= 0.99 * bracket.high
            && contradicts_others
            && accepted >= 3.0
            && bracket.high < 0.8 * bracket.low
        {
            bracket.odd = true;
            bracket.low = 0.0;
        } else {
            bracket.uncross(0.99);
        }
        if counts {
            bracket.raise_low(low, case.key);
        }
        bracket.pace = case.pace_within(bracket);
        self.backoff = if bracket.windowed {
            4.0 / bracket.pace
        } else {
            0.0
        };
        // The level at an anchor lies anywhere below one: one period may be refused by the fraction.
        self.next = now.plus_secs((1.5 / bracket.pace).max(self.backoff));
    }
}

impl Case<'_> {
    /// Where between its bounds the pace goes: lower the more often the key was refused of late.
    fn pace_within(&self, bracket: &Bracket) -> f64 {
        let knocks = self.knocks + u32::from(self.asked_to_wait);
        let wide = bracket.is_wider(0.04);
        let near_low = 0.995 * bracket.low;
        if self.asked_to_wait && knocks >= 3 {
            near_low.max(0.25 * bracket.high)
        } else if knocks >= 3 && bracket.low > 0.6 * bracket.high
            || knocks >= 2 && bracket.low > 0.9 * bracket.high
        {
            near_low
        } else if !wide || knocks == 2 && bracket.low > 0.4 * bracket.high {
            bracket.quarter()
        } else {
            bracket.middle()
        }
    }

    /// A server that asked to wait counts its refusals, and may ban.
    fn must_be_still(&self) -> bool {
        self.asked_to_wait && self.knocks + 1 >= 3
    }
}

/// In seconds: a hint rounded more than this is no measure of a short wait.
const COARSE: f64 = 0.1;
/// In seconds, and times the wait before: no rate asks for that who asked for less a moment ago.
const BAN_HINT: f64 = 5.0;
const BAN_GROWTH: f64 = 4.0;
/// In seconds: nothing is known of a shorter past.
const SOONEST: f64 = 0.005;
/// In seconds.
const SHORTEST_BACKOFF: f64 = 0.01;
/// In seconds: a minute is the commonest window.
const LONGEST_BACKOFF: f64 = 60.0;
/// A credit below it is a minimum interval: nothing is saved up, and gaps count one by one.
const SINGLE_CREDIT: f64 = 1.5;
/// With less the waits between refusals are too short for the keys to wait for one another.
const BURST_CREDIT: f64 = 4.0;
/// A probe that was refused after fewer than this says nothing about the pace before it.
const PROBE_COUNTS: f64 = 8.0;
/// Refusals in a row of one key of a group: by chance 4^-3 for four keys.
const ODD_OF_MANY: u32 = 4;
const ODD_OF_TWO: u32 = 5;
