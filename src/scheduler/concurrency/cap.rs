//! The hypothesis that a silent refusal was about requests at the same time, not about a rate.
//!
//! The first refusal fits both. The test is cheap: when one request completes, the next goes at
//! once, on the same number in flight. Under a cap it is served; under a rate it is refused at a
//! lower number than before, and the hypothesis is dead. Both are learned side by side meanwhile:
//! under a cap the pace learns the cap over the latency, and is harmless.

use std::collections::VecDeque;

use crate::scheduler::time::Time;

/// What is believed of one key.
#[derive(Clone, Debug)]
pub(crate) struct Cap {
    belief: Belief,
    /// The most others in flight beside a request that was served.
    served_beside: Option<u32>,
    /// The latest sends, newest last: how many may have overtaken one another.
    recent: VecDeque<Time>,
}

#[derive(Clone, Copy, Debug)]
enum Belief {
    /// Nothing was refused yet.
    Open,
    /// Refused beside `refused_beside` others, or one more while a higher cap is probed.
    Capped {
        cap: u32,
        refused_beside: u32,
        served: u32,
        tries: u32,
    },
    /// It is no cap.
    Disproved,
}

/// Whether one more may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Yes, if the pace agrees.
    AtPace,
    /// Yes, at once: completions are the clock.
    AtOnce,
    /// No, until something completes.
    Full,
    /// Only as a trial: nothing completes, so the pace may find out whether time alone helps.
    Trial,
}

impl Default for Cap {
    fn default() -> Self {
        Self {
            belief: Belief::Open,
            served_beside: None,
            recent: VecDeque::new(),
        }
    }
}

impl Cap {
    const RECENT: usize = 64;

    /// Whether one more may be in flight beside `in_flight`.
    pub(crate) fn room(&self, in_flight: u32) -> Room {
        match self.belief {
            Belief::Open | Belief::Disproved => Room::AtPace,
            Belief::Capped { cap, .. } if in_flight < cap => Room::AtOnce,
            Belief::Capped {
                served: 0, tries, ..
            } if tries < TRIALS => Room::Trial,
            Belief::Capped { .. } => Room::Full,
        }
    }

    /// How many may be in flight; none while that is not believed to be limited.
    pub(crate) fn limit(&self) -> Option<u32> {
        match self.belief {
            Belief::Capped { cap, .. } => Some(cap),
            _ => None,
        }
    }

    /// Whether the belief is on trial, so that sends must wait for each other's answers.
    pub(crate) fn is_on_trial(&self) -> bool {
        matches!(self.belief, Belief::Capped { served: 0 | 1, .. })
    }

    /// A request was sent.
    pub(crate) fn on_sent(&mut self, now: Time) {
        if matches!(self.belief, Belief::Disproved) {
            return;
        }
        if self.recent.len() == Self::RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
    }

    /// A request was refused that was sent beside `others` on the same key, and nothing else
    /// explains it. Not for refusals of an episode that was judged already.
    pub(crate) fn on_refused(&mut self, others: u32, sent: Time, jitter: f64) {
        let overtaken = self.overtaken(sent, jitter);
        match &mut self.belief {
            Belief::Disproved => {}
            Belief::Open => {
                // Refused beside fewer than were served beside: no cap. One less is the way back.
                let fits = self.served_beside.is_none_or(|most| others + 1 > most);
                self.belief = if others >= 1 && fits {
                    Belief::Capped {
                        cap: others,
                        refused_beside: others,
                        served: 0,
                        tries: 0,
                    }
                } else {
                    Belief::Disproved
                };
            }
            Belief::Capped {
                cap,
                refused_beside,
                tries,
                ..
            } => {
                let probing = *cap > *refused_beside;
                let slack = overtaken + if probing { PROBE_SLACK } else { 0 };
                if others + slack >= *refused_beside {
                    if !probing {
                        *refused_beside = others.clamp(1, *refused_beside);
                    }
                    *cap = *refused_beside;
                    *tries += 1;
                } else {
                    self.disprove();
                }
            }
        }
    }

    /// The server named requests at the same time as what is limited.
    pub(crate) fn on_named(&mut self, others: u32) {
        let cap = others.max(1);
        self.belief = Belief::Capped {
            cap,
            refused_beside: cap,
            served: 2,
            tries: TRIALS,
        };
    }

    /// A request was served that was sent beside `others`. `may_try` allows a refusal for a look at
    /// a higher cap; whether one was begun is the answer.
    pub(crate) fn on_served(&mut self, others: u32, may_try: bool) -> bool {
        self.served_beside = self.served_beside.max(Some(others));
        let Belief::Capped {
            cap,
            refused_beside,
            served,
            ..
        } = &mut self.belief
        else {
            return false;
        };
        *served += 1;
        // Our count runs ahead of the server's by what is on the way.
        if f64::from(others) >= 1.1 * f64::from(*refused_beside) + 2.0 {
            self.disprove();
            return false;
        }
        let enough = LOOK_AFTER.max(LOOK_AFTER_CAPS.saturating_mul(*cap));
        if *served > enough && may_try {
            *cap += 1;
            *served = 2;
            return true;
        }
        false
    }

    fn disprove(&mut self) {
        self.belief = Belief::Disproved;
        self.recent = VecDeque::new();
    }

    /// Other sends so close to this one that either may have arrived first.
    fn overtaken(&self, sent: Time, jitter: f64) -> u32 {
        let near = |at: &&Time| at.secs_since(sent).abs() < jitter;
        (self.recent.iter().filter(near).count() as u32).saturating_sub(1)
    }
}

/// Under a cap with five seconds to an answer nothing completes for long: a few trials by time are
/// what tells it from a rate then.
const TRIALS: u32 = 3;
/// A probe at one above the cap is one early at the server, and so is the one it displaced.
const PROBE_SLACK: u32 = 2;
/// Successes before the cap is asked whether it rose: half a percent of refusals.
const LOOK_AFTER: u32 = 200;
/// The same for large caps, in caps: four latencies.
const LOOK_AFTER_CAPS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    /// Sixteen sent 10 ms apart, the seventeenth refused.
    fn capped() -> Cap {
        let mut cap = Cap::default();
        (0..17).for_each(|i| cap.on_sent(at(10 * i)));
        cap.on_refused(16, at(160), 0.005);
        cap
    }

    #[test]
    fn the_first_refusal_could_be_a_cap() {
        let cap = capped();
        assert_eq!(cap.limit(), Some(16));
        assert_eq!(cap.room(15), Room::AtOnce);
        assert_eq!(cap.room(16), Room::Trial);
    }

    #[test]
    fn a_refusal_at_a_lower_number_shows_that_it_is_none() {
        let mut cap = capped();
        cap.on_sent(at(300));
        cap.on_refused(9, at(300), 0.005);
        assert_eq!((cap.limit(), cap.room(100)), (None, Room::AtPace));
    }

    #[test]
    fn sends_that_may_have_overtaken_one_another_are_no_evidence() {
        let mut cap = capped();
        (0..4).for_each(|_| cap.on_sent(at(300)));
        cap.on_refused(13, at(300), 0.005);
        assert_eq!(cap.limit(), Some(13));
    }

    #[test]
    fn more_in_flight_than_was_refused_shows_that_it_is_none() {
        let mut cap = capped();
        cap.on_served(20, false);
        assert_eq!(cap.limit(), None);
    }

    #[test]
    fn a_cap_that_holds_is_asked_rarely_whether_it_rose() {
        let mut cap = capped();
        assert_eq!((0..1000).filter(|_| cap.on_served(15, true)).count(), 5);
        assert!(!cap.on_served(15, false), "and never without a budget");
    }

    #[test]
    fn refused_alone_is_no_cap() {
        let mut cap = Cap::default();
        cap.on_sent(at(0));
        cap.on_refused(0, at(0), 0.005);
        assert_eq!(cap.room(1), Room::AtPace);
    }
}
