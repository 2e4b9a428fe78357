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
    /// The first answer of all that were served.
    first_served: Option<Time>,
    /// The latest sends, newest last: how many may have overtaken one another.
    recent: VecDeque<Time>,
}

#[derive(Clone, Copy, Debug)]
enum Belief {
    /// Nothing was refused yet.
    Open,
    /// Refused beside so many others.
    Capped(Capped),
    /// It is no cap.
    Disproved,
}

#[derive(Clone, Copy, Debug)]
struct Capped {
    refused_beside: u32,
    /// What it was before looks raised it.
    first_refused: u32,
    /// What it was when it was supposed or last looked at.
    supposed: u32,
    /// The share of requests in flight that are on the way, not at the server.
    on_the_way: f64,
    /// Since the belief began or was looked at, and when that was.
    served: u32,
    since: Option<Time>,
    /// Refusals that confirmed it.
    tries: u32,
    /// Looks in a row that were served; none while no more than the cap is tried.
    passed: Option<u32>,
    /// How often more was tried.
    looks: u32,
    proof: Proof,
    beside: Beside,
}

/// How sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Supposed,
    /// So many were served at it that a rate would have refused some.
    Held,
    /// And then one more was refused.
    Certain,
}

/// Whether a certain cap has another limit beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// Fewer in flight were refused then, and nothing sent later was served: what counts is not the
    /// same on both sides, so one may be chance.
    Doubted(Time),
    /// Fewer were refused again and again.
    Rate,
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
    /// Only to look whether more than the cap is served, apart from other sends so that a rate
    /// would not refuse it.
    Look,
}

impl Default for Cap {
    fn default() -> Self {
        Self {
            belief: Belief::Open,
            served_beside: None,
            first_served: None,
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
            Belief::Capped(capped) if in_flight < capped.refused_beside => {
                if capped.beside == Beside::Rate {
                    Room::AtPace
                } else {
                    Room::AtOnce
                }
            }
            Belief::Capped(capped) if capped.served == 0 && capped.tries < TRIALS => Room::Trial,
            Belief::Capped(capped) if capped.passed.is_some() && in_flight <= capped.disproof() => {
                if capped.served > capped.look_after() && in_flight == capped.refused_beside {
                    Room::AtOnce
                } else {
                    Room::Look
                }
            }
            Belief::Capped(_) => Room::Full,
        }
    }

    /// How many may be in flight; none while that is not believed to be limited.
    pub(crate) fn limit(&self) -> Option<u32> {
        match self.belief {
            Belief::Capped(capped) => Some(capped.refused_beside),
            _ => None,
        }
    }

    /// Whether a send that made it so many in flight was a trial, so that the next must wait to
    /// hear of its refusal.
    pub(crate) fn is_on_trial(&self, in_flight: u32) -> bool {
        let Belief::Capped(capped) = self.belief else {
            return false;
        };
        // What is certain needs no rest: a look that is refused says nothing about the others.
        let is_look = capped.passed.is_some() && in_flight > capped.refused_beside;
        capped.served <= 1 || is_look && capped.proof != Proof::Certain
    }

    /// The cap, if it stood its trial.
    pub(crate) fn found(&self) -> Option<u32> {
        match self.belief {
            Belief::Capped(capped) if capped.served > 1 => Some(capped.refused_beside),
            _ => None,
        }
    }

    /// Whether more than it were refused so often that it is one.
    pub(crate) fn is_certain(&self) -> bool {
        matches!(self.belief, Belief::Capped(capped) if capped.proof == Proof::Certain)
    }

    /// Begins with a cap that was found before.
    pub(crate) fn recall(&mut self, cap: u32) {
        self.belief = Belief::Capped(Capped::known(cap));
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

    /// Whether a refusal of what was sent at `sent` beside `others` is about a cap that is known for
    /// one.
    pub(crate) fn explains(&self, others: u32, sent: Time, jitter: f64) -> bool {
        let Belief::Capped(capped) = self.belief else {
            return false;
        };
        // Of a small cap a slack of two would be all of it.
        let slack = self.slack(sent, jitter);
        let enough = others + slack.min(capped.refused_beside / 3) >= capped.least();
        capped.proof == Proof::Certain && (enough || capped.beside == Beside::Nothing)
    }

    /// By how much fewer the server may have counted, or more.
    fn slack(&self, sent: Time, jitter: f64) -> u32 {
        let looked = if self.is_looking() { LOOK_SLACK } else { 0 };
        self.overtaken(sent, jitter) + looked
    }

    /// A request was refused that was sent beside `others` on the same key, and nothing else
    /// explains it. Of those in flight a share is `on_the_way`. Not for refusals of an episode that was
    /// judged already. Whether the cap is now known for one: enough were served at it, and one more
    /// was not.
    pub(crate) fn on_refused(
        &mut self,
        others: u32,
        sent: Time,
        jitter: f64,
        on_the_way: f64,
    ) -> bool {
        let slack = self.slack(sent, jitter);
        self.recent.retain(|&at| at != sent);
        match &mut self.belief {
            Belief::Disproved => false,
            // Nothing was ever served: whatever refused it alone, a cap may be found yet.
            Belief::Open if others == 0 && self.served_beside.is_none() => false,
            Belief::Open => {
                // Refused beside fewer than were served beside: no cap. One less is the way back.
                let fits = self.served_beside.is_none_or(|most| others + 1 > most);
                self.belief = if others >= 1 && fits {
                    Belief::Capped(Capped::supposed(others))
                } else {
                    Belief::Disproved
                };
                false
            }
            Belief::Capped(capped) => {
                capped.on_the_way = on_the_way;
                let is_raised = capped.refused_beside > capped.first_refused;
                let slack = if is_raised {
                    // More was served than that: of a small one a slack of two would be all of it.
                    slack.min(capped.refused_beside / 3)
                } else {
                    slack
                };
                if others + slack < capped.least() {
                    if capped.proof == Proof::Certain {
                        capped.beside = match capped.beside {
                            Beside::Nothing => Beside::Doubted(sent),
                            Beside::Doubted(_) | Beside::Rate => Beside::Rate,
                        };
                    } else {
                        self.disprove();
                    }
                    return false;
                }
                let looking = capped.passed.is_some();
                let is_one_more = looking && others >= capped.refused_beside;
                let new = is_one_more && capped.proof == Proof::Held;
                if new {
                    capped.proof = Proof::Certain;
                }
                capped.refused_beside = if looking {
                    // What is looked for may have risen a little.
                    capped.refused_beside.max(others.saturating_sub(slack))
                } else {
                    others.clamp(1, capped.refused_beside)
                };
                capped.first_refused = capped.refused_beside;
                capped.supposed = capped.supposed.max(capped.refused_beside);
                capped.passed = None;
                capped.tries += 1;
                new
            }
        }
    }

    /// The server named requests at the same time as what is limited.
    pub(crate) fn on_named(&mut self, others: u32) {
        self.belief = Belief::Capped(Capped {
            tries: TRIALS,
            looks: MOST_LOOKS,
            ..Capped::known(others.max(1))
        });
    }

    /// A request was served that was sent at `sent` beside `others`. Of those in flight a share is
    /// `on_the_way`. `may_try` allows a refusal for a look at a higher cap, `early` one
    /// after few of them.
    pub(crate) fn on_served(
        &mut self,
        others: u32,
        sent: Time,
        on_the_way: f64,
        may_try: bool,
        early: bool,
        now: Time,
    ) {
        self.served_beside = self.served_beside.max(Some(others));
        let certain = self.certainly_beside(others, sent, now);
        let Belief::Capped(capped) = &mut self.belief else {
            return;
        };
        capped.served += 1;
        capped.on_the_way = on_the_way;
        if matches!(capped.beside, Beside::Doubted(refused) if sent > refused) {
            capped.beside = Beside::Nothing;
        }
        let has_held = capped.served >= capped.holds_after();
        if early && has_held && capped.proof == Proof::Supposed {
            capped.proof = Proof::Held;
        }
        if others >= capped.disproof() || certain >= capped.first_refused {
            self.disprove();
            return;
        }
        if let Some(passed) = capped.passed.filter(|_| others >= capped.refused_beside) {
            // One may be luck: another had ended, and its answer was on the way.
            capped.passed = Some(passed + 1);
            if passed + 1 >= capped.passes_needed() {
                // More is served: a round of answers later the next more may be.
                capped.refused_beside += 1;
                capped.supposed = capped.refused_beside;
                capped.passed = None;
                capped.served = capped.look_after().saturating_sub(capped.refused_beside);
            }
        }
        let since = *capped.since.get_or_insert(now);
        let is_first = early && capped.looks == 0;
        let due = is_first && has_held && capped.proof != Proof::Certain
            || capped.served > capped.look_after()
            || capped.served > capped.look_early_after()
                && now.secs_since(since) > capped.look_early_secs();
        // Of a cap that is none nothing else would tell: the first look is worth its refusal.
        if due && (may_try || is_first) && capped.passed.is_none() {
            capped.passed = Some(0);
            capped.since = Some(now);
            capped.served = 2;
            capped.looks = (capped.looks + 1).min(MOST_LOOKS);
        }
    }

    /// Whether more than the cap is tried.
    pub(crate) fn is_looking(&self) -> bool {
        matches!(self.belief, Belief::Capped(capped) if capped.passed.is_some())
    }

    fn disprove(&mut self) {
        self.belief = Belief::Disproved;
        self.recent = VecDeque::new();
    }

    /// Of the `others` beside which this one was served those that were at the server for certain:
    /// nothing had ended yet, and they were not sent just before.
    fn certainly_beside(&mut self, others: u32, sent: Time, now: Time) -> u32 {
        let first = *self.first_served.get_or_insert(now);
        if first.secs_since(sent) <= OPENING {
            return 0;
        }
        let near = |at: &&Time| **at < sent && sent.secs_since(**at) < OPENING;
        others.saturating_sub(self.recent.iter().filter(near).count() as u32)
    }

    /// Other sends so close to this one that either may have arrived first.
    fn overtaken(&self, sent: Time, jitter: f64) -> u32 {
        let near = |at: &&Time| at.secs_since(sent).abs() < jitter;
        (self.recent.iter().filter(near).count() as u32).saturating_sub(1)
    }
}

impl Capped {
    /// Refused beside so many, and that is all.
    fn supposed(cap: u32) -> Self {
        Self {
            refused_beside: cap,
            first_refused: cap,
            supposed: cap,
            on_the_way: 0.0,
            served: 0,
            since: None,
            tries: 0,
            passed: None,
            looks: 0,
            proof: Proof::Supposed,
            beside: Beside::Nothing,
        }
    }

    /// One that needs no trial.
    fn known(cap: u32) -> Self {
        Self {
            served: 2,
            proof: Proof::Certain,
            ..Self::supposed(cap)
        }
    }

    /// Served beside so many shows that it is none. Our count runs ahead of the server's by what is
    /// on the way.
    fn disproof(&self) -> u32 {
        ((1.1 + 2.0 * self.on_the_way) * f64::from(self.first_refused) + 2.0).ceil() as u32
    }

    /// Fewer in flight than that are refused for another reason: our count runs ahead of the
    /// server's by what is on the way, more at one time than at another.
    fn least(&self) -> u32 {
        let at_server = |cap: u32| (f64::from(cap) * (1.0 - self.on_the_way)).ceil() as u32;
        if self.proof == Proof::Certain {
            at_server(self.refused_beside)
        } else {
            self.refused_beside.min(at_server(self.supposed))
        }
    }

    /// Successes after which it is certain if one more is refused.
    fn holds_after(&self) -> u32 {
        HOLDS_AFTER.max(HOLDS_AFTER_CAPS.saturating_mul(self.refused_beside))
    }

    fn passes_needed(&self) -> u32 {
        PASSES + (PASSES_ON_THE_WAY * self.on_the_way) as u32
    }

    /// Successes before more is tried.
    fn look_after(&self) -> u32 {
        LOOK_AFTER.max(LOOK_AFTER_CAPS.saturating_mul(self.refused_beside))
    }

    /// Where answers are slow, that many take long, and a short interval between requests looks
    /// like a cap: a first look after fewer, and each next after more.
    fn look_early_after(&self) -> u32 {
        let first = self.refused_beside.max(FIRST_LOOK);
        first.saturating_mul(LOOKS_SPREAD.pow(self.looks))
    }

    fn look_early_secs(&self) -> f64 {
        FIRST_LOOK_SECS * f64::from(LOOKS_SPREAD.pow(self.looks))
    }
}

/// Under a cap with five seconds to an answer nothing completes for long: a few trials by time are
/// what tells it from a rate then.
const TRIALS: u32 = 3;
/// Served after it was supposed, two rounds of it and not just a few: a rate would have refused some.
const HOLDS_AFTER: u32 = 12;
const HOLDS_AFTER_CAPS: u32 = 2;
/// A look at one above the cap is one early at the server, and so is the one it displaced.
const LOOK_SLACK: u32 = 2;
/// Looks in a row that must be served before the cap is taken to be higher, and how many more per
/// share on the way: of two by luck a hundredth at a tenth of it, of five as few at a half.
const PASSES: u32 = 2;
const PASSES_ON_THE_WAY: f64 = 20.0;
/// Successes before the first look, and how many times more before each next.
const FIRST_LOOK: u32 = 4;
const LOOKS_SPREAD: u32 = 4;
/// In seconds: what a wrong belief may cost before it is looked at.
const FIRST_LOOK_SECS: f64 = 2.0;
const MOST_LOOKS: u32 = 4;
/// In seconds: opening a connection takes no longer, and what was sent before may arrive as late.
const OPENING: f64 = 0.1;
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
        cap.on_refused(16, at(160), 0.005, 0.0);
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
        cap.on_refused(9, at(300), 0.005, 0.0);
        assert_eq!((cap.limit(), cap.room(100)), (None, Room::AtPace));
    }

    #[test]
    fn what_is_on_the_way_shows_nothing_but_only_that_much() {
        for (refused, limit) in [([14, 13], Some(13)), ([13, 12], None)] {
            let mut cap = capped();
            for (others, sent) in refused.into_iter().zip([300, 400]) {
                cap.on_sent(at(sent));
                cap.on_refused(others, at(sent), 0.005, 0.2);
            }
            assert_eq!(cap.limit(), limit, "refused beside {refused:?}");
        }
    }

    #[test]
    fn sends_that_may_have_overtaken_one_another_are_no_evidence() {
        let mut cap = capped();
        (0..4).for_each(|_| cap.on_sent(at(300)));
        cap.on_refused(13, at(300), 0.005, 0.0);
        assert_eq!(cap.limit(), Some(13));
    }

    #[test]
    fn more_in_flight_than_was_refused_shows_that_it_is_none() {
        let mut cap = capped();
        cap.on_served(20, at(0), 0.0, false, true, at(0));
        assert_eq!(cap.limit(), None);
    }

    #[test]
    fn as_many_that_were_served_before_any_answer_show_that_it_is_none() {
        for (sent, limit) in [(400, None), (950, Some(16))] {
            let mut cap = capped();
            cap.on_sent(at(sent));
            cap.on_served(16, at(sent), 0.0, false, true, at(1000));
            assert_eq!(cap.limit(), limit, "sent at {sent} ms");
        }
    }

    #[test]
    fn a_cap_that_holds_is_asked_rarely_whether_it_rose() {
        let mut cap = capped();
        let mut look = |_: &i32| {
            let looked = cap.is_looking();
            cap.on_served(15, at(0), 0.0, true, true, at(0));
            let looks = cap.is_looking() && !looked;
            if looks {
                cap.on_sent(at(300));
                cap.on_refused(16, at(300), 0.005, 0.0);
            }
            looks
        };
        assert_eq!((0..1000).filter(&mut look).count(), 5);
        (0..1000).for_each(|_| {
            cap.on_served(15, at(0), 0.0, false, true, at(0));
        });
        assert!(!cap.is_looking());
    }

    #[test]
    fn a_cap_that_rose_is_followed() {
        let mut cap = capped();
        let round = |cap: &mut Cap, others| {
            (0..250).for_each(|_| {
                cap.on_served(others, at(0), 0.0, true, false, at(0));
            });
        };
        round(&mut cap, 15);
        assert_eq!(cap.room(16), Room::Look, "apart from other sends at first");
        round(&mut cap, 16);
        assert_eq!(cap.limit(), Some(17));
    }

    #[test]
    fn a_short_interval_behind_slow_answers_is_no_cap() {
        let mut cap = Cap::default();
        [0, 10].iter().for_each(|&sent| cap.on_sent(at(sent)));
        cap.on_refused(1, at(10), 0.005, 0.0);
        assert_eq!(cap.limit(), Some(1));
        let mut beside = 0;
        for answer in 1..20 {
            let sent = at(3000 * answer - 300);
            cap.on_served(beside, sent, 0.0, true, true, at(3000 * answer));
            beside = if cap.room(beside + 1) == Room::Look {
                beside + 1
            } else {
                beside
            };
        }
        assert_eq!(cap.limit(), None);
    }

    #[test]
    fn refused_alone_is_no_cap() {
        let mut cap = Cap::default();
        cap.on_sent(at(0));
        cap.on_refused(0, at(0), 0.005, 0.0);
        assert_eq!(cap.room(1), Room::AtPace);
    }

    #[test]
    fn a_cap_that_stood_stays_though_fewer_are_refused() {
        let mut cap = capped();
        (0..32).for_each(|_| cap.on_served(15, at(300), 0.0, true, true, at(400)));
        assert!(cap.is_looking(), "one more is tried after two rounds");
        cap.on_sent(at(410));
        assert!(cap.on_refused(16, at(410), 0.005, 0.0));
        assert!(cap.explains(16, at(420), 0.005));
        for sent in [500, 600] {
            cap.on_sent(at(sent));
            cap.on_refused(4, at(sent), 0.005, 0.0);
        }
        assert!(!cap.explains(4, at(700), 0.005), "there is another limit");
        assert_eq!(cap.limit(), Some(16));
        assert_eq!(cap.room(4), Room::AtPace);
    }
}
