//! The rate learned from refusals, without any configuration.
//!
//! Several keys share one [`Bracket`], so that one refusal teaches all of them; a key that alone is
//! refused leaves it. Each key keeps its own evidence, because an anchor is a moment of one counter.
//! Refusals are paid from a budget: without one, nothing is tried.

use crate::scheduler::events::{Gate, KeyId, Reason};
use crate::scheduler::time::Time;
use crate::scheduler::timing::Timing;

use super::bracket::Bracket;
use super::evidence::Evidence;
use super::grouping::Test;
use super::knocks::{Ban, Budget, Knocks};
use super::{Changed, Scene, Stamp};

/// The learned rates of one provider.
#[derive(Clone, Debug)]
pub(crate) struct Learned {
    pub(super) brackets: Vec<Bracket>,
    pub(super) keys: Vec<KeyPace>,
    pub(super) budget: Budget,
    /// The server has asked to wait before: it counts who does not.
    pub(super) asked_to_wait: bool,
    pub(super) test: Option<Test>,
}

/// One key's place in a bracket.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyPace {
    pub(super) bracket: usize,
    pub(super) evidence: Evidence,
    pub(super) next: Time,
    /// The wait after a refusal, doubled for each in a row.
    pub(super) backoff: f64,
    pub(super) refused_in_a_row: u32,
    /// Refusals of what was sent before belong to the episode that ended here.
    pub(super) cut: Option<Time>,
    pub(super) last_sent: Option<Time>,
    /// The last send that was not refused.
    pub(super) last_accepted: Option<Time>,
    pub(super) knocks: Knocks,
    /// In seconds, how long it was asked to wait at its last refusal; zero for nothing.
    pub(super) last_hint: f64,
    /// All that its last refusal told was a wait in whole seconds.
    pub(super) told_whole_seconds: bool,
    /// It was banned for knocking.
    pub(super) ban: Option<Ban>,
    /// Denied in a row.
    denied: u32,
    /// It was put into its bracket until a test shows whether it belongs there.
    pub(super) follows: bool,
    pub(super) out: bool,
}

impl Default for Learned {
    fn default() -> Self {
        Self {
            brackets: vec![Bracket::default()],
            keys: Vec::new(),
            budget: Budget::default(),
            asked_to_wait: false,
            test: None,
        }
    }
}

impl Learned {
    /// One that is told of attempts which it has not seen begin.
    pub(crate) fn for_keys(count: usize) -> Self {
        Self {
            keys: (0..count).map(|_| KeyPace::default()).collect(),
            ..Self::default()
        }
    }

    /// Whether and when the pace lets the key send.
    pub(crate) fn gate(&self, key: KeyId, timing: &Timing, now: Time) -> Gate {
        let Some(track) = self.keys.get(key.index()) else {
            return Gate::Open;
        };
        let mut next = track.next;
        if let Some(window) = &self.brackets[track.bracket].window {
            let (sends, jitter) = (&track.evidence.sends, timing.jitter());
            let may_try = self.may_try(key.index(), now);
            next = next.max(window.ready(sends, jitter, may_try, now));
        }
        Gate::at(next, Reason::Pace, now)
    }

    /// The same for a send that shall not be refused for its rate: two periods after the last, of a
    /// rate that may not be found yet. Every `turn` seconds an answer comes.
    pub(crate) fn gate_of_look(&self, key: KeyId, turn: f64, timing: &Timing, now: Time) -> Gate {
        let last = self.keys.get(key.index()).and_then(|track| track.last_sent);
        let Some(last) = last else {
            return self.gate(key, timing, now);
        };
        let (pace, soonest) = (self.rate(key), last.plus_secs(LOOK_TURN * turn));
        if pace * turn < 1.0 {
            // More is served than the pace would have, so that knows nothing.
            return Gate::at(soonest, Reason::Pace, now);
        }
        let bracket = &self.brackets[self.keys[key.index()].bracket];
        if bracket.saves_nothing() {
            // Refused then, it is an interval that loses little by being taken for a cap.
            let apart = soonest.max(last.plus_secs(bracket.high.recip()));
            return Gate::at(apart, Reason::Pace, now);
        }
        let gate = self.gate(key, timing, now);
        let apart = last.plus_secs(2.0 / pace).max(soonest);
        gate.and(Gate::at(apart, Reason::Pace, now))
    }

    /// Until the wait is over that the last refusal asked for, whomever it asked.
    pub(crate) fn hint_gate(&self, key: KeyId, now: Time) -> Gate {
        let track = self.keys.get(key.index());
        let until = track.and_then(|track| Some(track.cut?.plus_secs(track.last_hint)));
        Gate::at(until.unwrap_or(now), Reason::Hint, now)
    }

    /// Whether what is learned of the key is a window.
    pub(crate) fn is_window(&self, key: KeyId) -> bool {
        let track = self.keys.get(key.index());
        track.is_some_and(|track| self.brackets[track.bracket].window.is_some())
    }

    /// Whether a rate was learned for the key.
    pub(crate) fn is_known(&self, key: KeyId) -> bool {
        self.rate(key).is_finite()
    }

    /// The learned rate of a key in sends per second; infinite while nothing is known.
    pub(crate) fn rate(&self, key: KeyId) -> f64 {
        self.keys
            .get(key.index())
            .map_or(f64::INFINITY, |key| self.brackets[key.bracket].pace)
    }

    /// Whether nothing was accepted between the last refusal of the key and this send.
    pub(crate) fn is_in_a_row(&self, key: KeyId, stamp: &Stamp) -> bool {
        self.keys.get(key.index()).is_some_and(|track| {
            track.evidence.anchor.is_some() && track.evidence.accepted_before(stamp.at) < 1.0
        })
    }

    /// Whether a refusal of the key may be risked for a trial: what they cost is paid for, and they
    /// bring no ban.
    pub(crate) fn may_try(&self, key: usize, now: Time) -> bool {
        let track = self.keys.get(key);
        self.budget.allows()
            && track.is_none_or(|track| !track.fears_ban(&self.brackets[track.bracket], now))
    }

    /// Whether the server has ever asked to wait.
    pub(crate) fn was_asked_to_wait(&self) -> bool {
        self.asked_to_wait
    }

    /// A request was sent on a key.
    pub(crate) fn on_sent(&mut self, key: KeyId, timing: &Timing, now: Time) -> Stamp {
        let pace = self.rate(key);
        let track = self.track(key);
        let before = track.last_accepted.replace(now);
        let last = track.last_sent.replace(now);
        let index = track.bracket;
        let track = &mut self.keys[key.index()];
        if let Some(window) = &self.brackets[index].window {
            if track.evidence.blocked {
                // One asks, and the rest wait for its answer.
                let answer = 2.0 * timing.answer().unwrap_or(0.0);
                track.next = now.plus_secs(answer.max(timing.hearing()));
            } else if window.is_trial(&track.evidence.sends, now) {
                // It tries for the others, too.
                let heard = now.plus_secs(timing.hearing());
                let members = self.keys.iter_mut().filter(|track| track.bracket == index);
                members.for_each(|track| track.next = track.next.max(heard));
            }
        }
        let (bracket, track) = (&mut self.brackets[index], &mut self.keys[key.index()]);
        track.evidence.on_sent(pace, last, now);
        if bracket.is_known() && bracket.window.is_none() {
            // A little may be caught up, so that rounded waits do not add up to a slower pace; but none
            // of an interval.
            let period = bracket.pace.recip();
            let catch_up = if bracket.saves_nothing() {
                1.0
            } else {
                CATCH_UP
            };
            track.next = track
                .next
                .plus_secs(period)
                .min(now.plus_secs(DEBT * period))
                .max(now.plus_secs(catch_up * period));
            bracket.held += 1.0;
            bracket.quiet += 1.0;
        }
        Stamp { at: now, before }
    }

    /// A request was served.
    pub(crate) fn on_success(
        &mut self,
        key: KeyId,
        stamp: &Stamp,
        scene: &Scene<'_>,
        now: Time,
    ) -> Option<Changed> {
        self.budget.earn();
        self.on_test_served(key.index(), stamp.at, now);
        let track = self.track(key);
        track.denied = 0;
        track.evidence.on_served(stamp.at, now);
        let may_try = self.may_try(key.index(), now);
        if let Some(window) = &mut self.brackets[self.keys[key.index()].bracket].window {
            let sends = &self.keys[key.index()].evidence.sends;
            window.on_accepted(sends, scene.timing.jitter(), may_try, stamp.at);
            if !self.keys[key.index()].evidence.blocked {
                return None;
            }
        }
        let came_back = self.come_back(key, stamp, scene, now);
        self.hold(key, stamp, scene, now).or(came_back)
    }

    /// A request was refused and a quota explains it: it only does not count.
    pub(crate) fn on_explained(&mut self, key: KeyId, stamp: &Stamp) {
        let track = self.track(key);
        track.evidence.on_refused(stamp.at);
        if track.last_accepted == Some(stamp.at) {
            track.last_accepted = stamp.before;
        }
    }

    /// A request was refused that only looked for more.
    pub(crate) fn on_look_refused(&mut self) {
        self.budget.spend();
    }

    /// The first refusals of the key were those of a cap: they say nothing about a rate, and what was
    /// accepted before them is no credit.
    pub(crate) fn on_cap_found(&mut self, key: KeyId) {
        let track = self.track(key);
        track.evidence.start_again();
        track.refused_in_a_row = 0;
        track.next = Time::START;
        let index = track.bracket;
        let members = self.keys.iter().filter(|track| track.bracket == index);
        if members.count() == 1 {
            self.brackets[index] = Bracket::default();
        } else {
            self.brackets[index].credit = f64::INFINITY;
        }
    }

    /// The server refused the key itself: what its refusals said about the rate is void.
    pub(crate) fn on_fault(&mut self, key: KeyId) {
        self.track(key).evidence.forget_anchor();
    }

    /// The server denied a request for good. If that goes on, and the key had been refused often
    /// just before, it is a ban.
    pub(crate) fn on_denied(&mut self, key: KeyId, now: Time) {
        let track = self.track(key);
        track.denied = track.denied.saturating_add(1);
        let knocks = track.knocks.count(Ban::WITHIN, now);
        if track.denied == Ban::DENIALS
            && let Some(ban) = Ban::after(knocks, track.ban, now)
        {
            track.ban = Some(ban);
        }
    }

    /// A key is out of use, or in use again: whether it counts as one of its bracket.
    pub(crate) fn set_out(&mut self, key: KeyId, out: bool) {
        self.track(key).out = out;
    }

    pub(super) fn track(&mut self, key: KeyId) -> &mut KeyPace {
        if self.keys.len() <= key.index() {
            self.keys.resize_with(key.index() + 1, KeyPace::default);
        }
        &mut self.keys[key.index()]
    }
}

impl KeyPace {
    /// Whether one refusal more of what is only tried could bring a ban: as one that was seen before, or
    /// as servers that ask to wait may have. Where nothing is saved up a pause costs more than the rule is
    /// worth, and what grows back after a block was not refused for knocking.
    pub(super) fn fears_ban(&self, bracket: &Bracket, now: Time) -> bool {
        let may_have_one =
            self.told_whole_seconds && !bracket.saves_nothing() && bracket.regrowth.is_none();
        let presumed = may_have_one.then(|| Ban::presumed(bracket.is_wider(WELL_KNOWN)));
        let mut bans = self.ban.into_iter().chain(presumed);
        bans.any(|ban| !ban.allows(self.knocks.count(ban.within(), now)))
    }
}

/// Of the upper bound: closer bounds are worth no refusal that may bring a ban.
const WELL_KNOWN: f64 = 0.12;
/// Of the time between two answers: what is refused later than that is a rate that loses little by
/// being taken for a cap.
const LOOK_TURN: f64 = 0.75;
/// In periods: what went ahead of the pace, because something else set the clock, is not owed.
const DEBT: f64 = 2.0;
/// How much of a period a send waits at least, however late the ones before were.
const CATCH_UP: f64 = 0.9;
