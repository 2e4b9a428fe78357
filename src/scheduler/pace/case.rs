//! A refusal in its circumstances, and what it makes of the bounds of a rate: the first of a key, one
//! of many in a row, or one after some were accepted.

use crate::scheduler::time::Time;

use super::bracket::{Bracket, FELL};
use super::evidence::TICK;
use super::learned::KeyPace;
use super::window::asked_after;
use super::{PERIODS, POOLED_COUNTS, Scene, WINDOW_BLOCK};

/// A refusal in its circumstances.
pub(super) struct Case<'a> {
    pub(super) key: usize,
    pub(super) sent: Time,
    /// Requests in flight on all keys when it was sent.
    pub(super) in_flight: u32,
    /// The pace of this very send, which may have been sent early.
    pub(super) momentary: f64,
    /// Seconds since the last accepted send.
    pub(super) gap: f64,
    /// Refusals of this key in the last seconds, this one not counted.
    pub(super) knocks: u32,
    pub(super) asked_to_wait: bool,
    pub(super) alone: bool,
    /// One refusal more is paid for.
    pub(super) may_spend: bool,
    /// Every key that shares the bracket is refused.
    pub(super) all_blocked: bool,
    pub(super) scene: &'a Scene<'a>,
}

impl KeyPace {
    /// Credit and refill cannot be told apart yet: half the rate so far, after a wait as long as it
    /// took to get here. It loses at most as much time as was used, and nothing if the credit is
    /// larger than what refilled meanwhile.
    pub(super) fn first_refusal(&mut self, bracket: &mut Bracket, case: &Case<'_>, now: Time) {
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
            // Who asks to wait counts who does not.
            let longest = if case.asked_to_wait { 4.0 } else { 1.0 } * LONGEST_FIRST;
            let few = (FEW_PERIODS * used / accepted).max(longest);
            self.backoff = used.min(few).max(SHORTEST_BACKOFF);
            if case.saves_little(bracket) {
                self.ask_by_age(bracket, case, now);
                return;
            }
        }
        self.next = now.plus_secs(self.backoff);
    }

    /// Refused again before anything was accepted: wait longer.
    pub(super) fn refused_again(&mut self, bracket: &mut Bracket, case: &Case<'_>, now: Time) {
        let anchor = self.evidence.anchor.unwrap_or(case.sent);
        let early = case.sent.secs_since(anchor) < 0.9 * self.backoff;
        self.refused_in_a_row += 1;
        if self.refused_in_a_row >= 2 || bracket.credit < SINGLE_CREDIT {
            bracket.lower_high(case.momentary);
        }
        let (since, sent) = self.evidence.segment_before(case.sent);
        let mean = (sent + 1.0) / case.sent.secs_since(since).max(TICK);
        let saves_little = case.saves_little(bracket);
        if saves_little {
            bracket.lower_high(case.bound_by_age());
            bracket.is_not_sure_at(case.gap);
        } else if case.alone || bracket.credit < SINGLE_CREDIT {
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
        if saves_little && !bracket.windowed {
            self.ask_by_age(bracket, case, now);
        }
        let odd = counts && self.refused_in_a_row >= 3 && bracket.credit >= BURST_CREDIT;
        if bracket.windowed || odd && blocked * mean > PERIODS {
            // Round lengths of a window, from the first send in it.
            let start = self.evidence.counted_since(bracket.credit, case.sent);
            let start = self.evidence.arrival(start, case.scene.timing.answer());
            let age = asked_after(case.sent.secs_since(start));
            self.next = start.plus_secs(age + case.scene.timing.jitter()).max(now);
        }
    }

    /// Refused after some were accepted: both bounds follow from the count.
    pub(super) fn refused_after(&mut self, bracket: &mut Bracket, case: &Case<'_>, now: Time) {
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
        let was_in_a_row = std::mem::take(&mut self.refused_in_a_row) >= 1;
        bracket.lower_high(case.momentary.max(low));
        if !bracket.saves_nothing() && high <= 1.02 * evidence.slowest {
            bracket.lower_high(high);
        }
        let saves_little = case.saves_little(bracket);
        if saves_little {
            bracket.lower_high(case.bound_by_age());
        }
        // Refused twice in a row it is far below the pace. If the wait then brought less than half of
        // what can be saved up, it did not run over, so the wait counts, too.
        let with_stalls = evidence.high_with_stalls(jitter, case.sent);
        let ran_over = accepted + 1.0 >= 0.5 * bracket.credit;
        if was_in_a_row && counts && !ran_over && FELL * with_stalls < bracket.low {
            bracket.lower_high(with_stalls);
        }
        // Of several keys one may have had more of an account's limit before.
        let older = if case.alone { 0.97 * bracket.high } else { 0.0 };
        let low = low.max(evidence.low_since_older(jitter, case.sent, older));
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
        if saves_little {
            self.ask_when_sure(bracket, case, now);
        }
    }
}

impl Case<'_> {
    /// Where between its bounds the pace goes: lower the more often the key was refused of late.
    fn pace_within(&self, bracket: &Bracket) -> f64 {
        let knocks = self.knocks + u32::from(self.asked_to_wait);
        let wide = bracket.is_wider(0.04);
        let near_low = 0.995 * bracket.low;
        if self.asked_to_wait && knocks >= 3 {
            bracket.low.max(0.25 * bracket.high)
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

/// In seconds: nothing is known of a shorter past.
const SOONEST: f64 = 0.005;
/// In seconds.
const SHORTEST_BACKOFF: f64 = 0.01;
/// In seconds, and in periods of what was accepted: who is refused for the first time after an hour
/// must not wait for another.
const LONGEST_FIRST: f64 = 1.0;
const FEW_PERIODS: f64 = 2.0;
/// In seconds: a minute is the commonest window.
pub(super) const LONGEST_BACKOFF: f64 = 60.0;
/// A credit below it is a minimum interval: nothing is saved up, and gaps count one by one.
pub(super) const SINGLE_CREDIT: f64 = 1.5;
/// With less the waits between refusals are too short for the keys to wait for one another.
pub(super) const BURST_CREDIT: f64 = 4.0;
