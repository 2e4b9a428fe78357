//! Whether an attempt is repeated, and not before when: classification, replay safety, attempts
//! allowed, the retry budget and backoff.
//!
//! A hint is a floor: no cap and no jitter ever shortens it. Refusals were not processed, so they
//! are repeated outside the budget; errors draw on it, so that a failing provider is not hit four
//! times as hard as a healthy one.

use std::time::Duration;

use crate::feedback::{Class, Fault, Feedback};

use super::events::{GaveUp, Outcome, Replay};
use super::time::Time;

/// How attempts are repeated.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct RetrySettings {
    /// How often a request is repeated after errors (5xx, resets, timeouts). Default 3, as
    /// promptfoo; 5 suits long batches, 0 fails at the first error.
    pub errors: u16,
    /// How often a request is repeated after refusals (429, overload) of its own. Default 10: two
    /// tries cannot ride out a busy minute. A refusal of a key that served nothing since the one
    /// before, while others were served, is not the request's own: the key is used up. (In a bucket
    /// that is refused by itself only those count that were served in it.) That holds from 10 on:
    /// whoever allows fewer would rather be told than wait.
    pub refusals: u16,
    /// How often it is repeated after refusals of any kind. Default 60: at a minute between the
    /// last of them a key may be used up for about an hour. What waits that long is bounded by the
    /// longest wait before.
    pub refusals_in_all: u16,
    /// The first delay after an error. Default none: half the usual response time, within 20 ms to
    /// 1 s, and 1 s while none is known; so the last requests of a batch of fast calls do not wait
    /// a second for nothing.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::optional_duration"))]
    pub base: Option<Duration>,
    /// What each further delay is multiplied by. Default 2. At least 1.
    pub factor: f64,
    /// The longest delay of our own; a hint may be longer. Default 60 s, as promptfoo.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub cap: Duration,
    /// The share by which a delay may be lengthened at random, 0 to 1. Default 0.2, as promptfoo;
    /// 0.5 where many processes share a provider.
    pub jitter: f64,
    /// How many retries after errors may be spent per success, 0 to 1. Default 0.2, as Finagle.
    pub budget_share: f64,
    /// How many retries after errors are allowed per second whatever succeeds. Default 10, as
    /// Finagle.
    pub budget_per_second: f64,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            errors: 3,
            refusals: PATIENT,
            refusals_in_all: 60,
            base: None,
            factor: 2.0,
            cap: Duration::from_secs(60),
            jitter: 0.2,
            budget_share: 0.2,
            budget_per_second: 10.0,
        }
    }
}

/// What is decided about an attempt before anybody has looked for a key or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It goes to the caller.
    Return(Option<GaveUp>),
    /// Again: it was refused, and surely not processed.
    Refused,
    /// Again: it failed, and may be repeated.
    Failed,
    /// Again on another key, if there is one.
    OtherKey,
}

/// What a judgement has to know of the ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried {
    pub(crate) replay: Replay,
    pub(crate) refusals: u16,
    /// Of these, so many while its key was used up.
    pub(crate) used_up: u16,
    pub(crate) errors: u16,
    pub(crate) key_faults: u16,
}

/// Decides what an outcome means for one ask.
pub(crate) fn judge(settings: &RetrySettings, tried: Tried, outcome: &Outcome) -> Judgement {
    use Judgement::Return;
    if let Outcome::Answered(feedback) = outcome {
        if feedback.class == Class::Ok {
            return Return(None);
        }
        if feedback.should_retry == Some(false) {
            return Return(Some(GaveUp::Final));
        }
    }
    if tried.replay == Replay::Never {
        return Return(Some(GaveUp::NotReplayable));
    }
    match outcome {
        Outcome::NotSent => failed(settings, tried, true),
        Outcome::Broken => failed(settings, tried, tried.replay == Replay::Always),
        Outcome::Answered(feedback) => judge_answer(settings, tried, feedback),
    }
}

fn judge_answer(settings: &RetrySettings, tried: Tried, feedback: &Feedback) -> Judgement {
    if let Some(fault) = feedback.fault {
        // Going round with a revoked key got every key of an account revoked elsewhere.
        let once = tried.key_faults == 0 && fault != Fault::Revoked;
        return if once {
            Judgement::OtherKey
        } else {
            Judgement::Return(Some(GaveUp::Final))
        };
    }
    match feedback.class {
        Class::Ok => Judgement::Return(None),
        Class::RateLimited | Class::QuotaExhausted | Class::Overloaded => {
            // Whoever allows few would rather be told than wait.
            let used_up = if settings.refusals < PATIENT {
                0
            } else {
                tried.used_up
            };
            let own = tried.refusals - used_up.min(tried.refusals);
            if own < settings.refusals && tried.refusals < settings.refusals_in_all {
                Judgement::Refused
            } else {
                Judgement::Return(Some(GaveUp::Attempts))
            }
        }
        Class::Transient => {
            // The server's own word that a retry is safe is as good as the caller's.
            let may = tried.replay == Replay::Always || feedback.should_retry == Some(true);
            failed(settings, tried, may)
        }
        Class::Fatal if feedback.should_retry == Some(true) => failed(settings, tried, true),
        Class::Fatal => Judgement::Return(Some(GaveUp::Final)),
    }
}

fn failed(settings: &RetrySettings, tried: Tried, may_repeat: bool) -> Judgement {
    if !may_repeat {
        Judgement::Return(Some(GaveUp::NotReplayable))
    } else if tried.errors >= settings.errors {
        Judgement::Return(Some(GaveUp::Attempts))
    } else {
        Judgement::Failed
    }
}

/// The delay before retry number `retry` (1 for the first), without any hint: base, factor × base,
/// factor² × base, …, at most the cap, then lengthened by up to the jitter. `usual` is the usual
/// response time, `random` a number from 0 to 1.
pub(crate) fn backoff(
    settings: &RetrySettings,
    retry: u16,
    usual: Option<Duration>,
    random: f64,
) -> Duration {
    let base = settings.base.unwrap_or_else(|| {
        usual.map_or(LONGEST_BASE, |usual| {
            (usual / 2).clamp(SHORTEST_BASE, LONGEST_BASE)
        })
    });
    let doublings = i32::from(retry.saturating_sub(1));
    let grown = base.as_secs_f64() * settings.factor.powi(doublings);
    // The cap comes before the jitter, or all who reach it come back in the same instant.
    let capped = grown.min(settings.cap.as_secs_f64());
    Duration::from_secs_f64(capped * (1.0 + settings.jitter * random))
}

/// Lengthens a server's hint at random, so that those who wait for the same moment spread out. The
/// server said when, so the spread is a tenth of a second and one percent, not a fifth of the wait.
pub(crate) fn spread(settings: &RetrySettings, hint: Duration, random: f64) -> Duration {
    // Bounded first: scaling the longest duration would overflow.
    let bounded = hint.min(A_YEAR);
    let most = bounded
        .mul_f64(settings.jitter)
        .min(HINT_SPREAD + bounded / 100);
    hint.saturating_add(most.mul_f64(random))
}

/// Retries after errors: a share of the successes and some per second, over ten seconds.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Successes and retries of the current and the last nine seconds.
    seconds: [(u32, u32); WINDOW],
    newest: u64,
}

impl Budget {
    pub(crate) const fn new() -> Self {
        Self {
            seconds: [(0, 0); WINDOW],
            newest: 0,
        }
    }

    pub(crate) fn on_success(&mut self, now: Time) {
        let second = self.second(now);
        self.seconds[second].0 = self.seconds[second].0.saturating_add(1);
    }

    /// Takes one retry, if there is one.
    pub(crate) fn take(&mut self, settings: &RetrySettings, now: Time) -> bool {
        let second = self.second(now);
        let (successes, retries) = self.seconds.iter().fold((0.0, 0.0), |(s, r), &(a, b)| {
            (s + f64::from(a), r + f64::from(b))
        });
        let allowed =
            settings.budget_share * successes + settings.budget_per_second * WINDOW as f64;
        if retries + 1.0 > allowed {
            return false;
        }
        self.seconds[second].1 = self.seconds[second].1.saturating_add(1);
        true
    }

    fn second(&mut self, now: Time) -> usize {
        let second = now.as_nanos() / 1_000_000_000;
        let passed = second.saturating_sub(self.newest).min(WINDOW as u64);
        for step in 1..=passed {
            self.seconds[((self.newest + step) % WINDOW as u64) as usize] = (0, 0);
        }
        self.newest = self.newest.max(second);
        (self.newest % WINDOW as u64) as usize
    }
}

/// The default number of repeats after refusals: from here on a request is meant to last.
const PATIENT: u16 = 10;
/// Backoff never starts below this: a timer's own resolution, several times.
const SHORTEST_BASE: Duration = Duration::from_millis(20);
/// Nor above this; it is also the base while no response time is known (promptfoo's base).
const LONGEST_BASE: Duration = Duration::from_secs(1);
/// The spread of a hint, beside one percent of it: two hundred waiters get half a millisecond each.
const HINT_SPREAD: Duration = Duration::from_millis(100);
/// Beyond this a hint needs no more spread.
const A_YEAR: Duration = Duration::from_secs(366 * 86_400);
/// Seconds that the budget looks back (Finagle's ten).
const WINDOW: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn tried(replay: Replay) -> Tried {
        Tried {
            replay,
            refusals: 0,
            used_up: 0,
            errors: 0,
            key_faults: 0,
        }
    }

    fn answer(class: Class) -> Outcome {
        Outcome::Answered(Feedback {
            class,
            ..Feedback::default()
        })
    }

    fn judged(replay: Replay, outcome: &Outcome) -> Judgement {
        judge(&RetrySettings::default(), tried(replay), outcome)
    }

    #[test]
    fn refusals_are_repeated_for_every_method_and_errors_only_where_that_is_safe() {
        let gave_up = Judgement::Return(Some(GaveUp::NotReplayable));
        for class in [Class::RateLimited, Class::QuotaExhausted, Class::Overloaded] {
            assert_eq!(judged(Replay::Auto, &answer(class)), Judgement::Refused);
            assert_eq!(judged(Replay::Never, &answer(class)), gave_up);
        }
        assert_eq!(judged(Replay::Auto, &answer(Class::Transient)), gave_up);
        assert_eq!(
            judged(Replay::Always, &answer(Class::Transient)),
            Judgement::Failed
        );
        assert_eq!(judged(Replay::Auto, &Outcome::Broken), gave_up);
        assert_eq!(judged(Replay::Always, &Outcome::Broken), Judgement::Failed);
        assert_eq!(judged(Replay::Auto, &Outcome::NotSent), Judgement::Failed);
        assert_eq!(
            judged(Replay::Always, &answer(Class::Fatal)),
            Judgement::Return(Some(GaveUp::Final))
        );
        assert_eq!(
            judged(Replay::Always, &answer(Class::Ok)),
            Judgement::Return(None)
        );
    }

    #[test]
    fn the_servers_word_on_retrying_is_obeyed_both_ways() {
        let word = |class, word| {
            Outcome::Answered(Feedback {
                class,
                should_retry: Some(word),
                ..Feedback::default()
            })
        };
        let settled = Judgement::Return(Some(GaveUp::Final));
        assert_eq!(
            judged(Replay::Always, &word(Class::RateLimited, false)),
            settled
        );
        assert_eq!(
            judged(Replay::Auto, &word(Class::Transient, true)),
            Judgement::Failed
        );
        assert_eq!(
            judged(Replay::Auto, &word(Class::Fatal, true)),
            Judgement::Failed
        );
        assert_eq!(
            judged(Replay::Auto, &word(Class::Ok, true)),
            Judgement::Return(None)
        );
    }

    #[test]
    fn a_key_fault_is_tried_once_on_another_key_and_never_after_a_revocation() {
        let fault = |fault| {
            Outcome::Answered(Feedback {
                class: Class::Fatal,
                fault: Some(fault),
                ..Feedback::default()
            })
        };
        let settled = Judgement::Return(Some(GaveUp::Final));
        assert_eq!(
            judged(Replay::Auto, &fault(Fault::Unauthorized)),
            Judgement::OtherKey
        );
        assert_eq!(judged(Replay::Auto, &fault(Fault::Revoked)), settled);
        let twice = Tried {
            key_faults: 1,
            ..tried(Replay::Always)
        };
        let settings = RetrySettings::default();
        assert_eq!(
            judge(&settings, twice, &fault(Fault::Unauthorized)),
            settled
        );
    }

    #[test]
    fn attempts_are_counted_apart_for_errors_and_refusals() {
        let settings = RetrySettings::default();
        let gave_up = Judgement::Return(Some(GaveUp::Attempts));
        let spent = Tried {
            errors: 3,
            ..tried(Replay::Always)
        };
        assert_eq!(judge(&settings, spent, &Outcome::Broken), gave_up);
        assert_eq!(
            judge(&settings, spent, &answer(Class::RateLimited)),
            Judgement::Refused
        );
        let spent = Tried {
            refusals: 10,
            ..tried(Replay::Always)
        };
        assert_eq!(
            judge(&settings, spent, &answer(Class::RateLimited)),
            gave_up
        );
        assert_eq!(judge(&settings, spent, &Outcome::Broken), Judgement::Failed);
    }

    #[test]
    fn what_a_used_up_key_refuses_counts_for_the_request_only_in_the_end() {
        let settings = RetrySettings::default();
        let tried = |refusals, used_up| Tried {
            refusals,
            used_up,
            ..tried(Replay::Always)
        };
        let refused = answer(Class::RateLimited);
        let gave_up = Judgement::Return(Some(GaveUp::Attempts));
        assert_eq!(
            judge(&settings, tried(40, 31), &refused),
            Judgement::Refused
        );
        assert_eq!(judge(&settings, tried(40, 30), &refused), gave_up);
        assert_eq!(judge(&settings, tried(60, 59), &refused), gave_up);
    }

    #[test]
    fn backoff_follows_the_usual_response_time_within_its_bounds() {
        let settings = RetrySettings::default();
        let millis = |retry, usual: Option<u64>| {
            backoff(&settings, retry, usual.map(Duration::from_millis), 0.0).as_millis()
        };
        assert_eq!(
            [1, 2, 3].map(|retry| millis(retry, Some(200))),
            [100, 200, 400]
        );
        assert_eq!(
            [1, 2, 3].map(|retry| millis(retry, None)),
            [1000, 2000, 4000]
        );
        assert_eq!(millis(1, Some(2)), 20);
        assert_eq!(millis(1, Some(60_000)), 1000);
    }

    #[test]
    fn backoff_is_monotone_up_to_the_cap_for_every_retry_number() {
        let settings = RetrySettings::default();
        let mut last = Duration::ZERO;
        for retry in 1..=u16::MAX {
            let delay = backoff(&settings, retry, None, 0.0);
            assert!(
                delay >= last && delay <= settings.cap,
                "retry {retry}: {delay:?}"
            );
            last = delay;
        }
        assert_eq!(last, settings.cap);
    }

    #[test]
    fn jitter_only_lengthens_and_comes_after_every_clamp() {
        let settings = RetrySettings::default();
        assert_eq!(backoff(&settings, 60, None, 1.0), Duration::from_secs(72));
        let hint = Duration::from_secs(600);
        assert_eq!(spread(&settings, hint, 0.0), hint);
        assert_eq!(spread(&settings, hint, 1.0), Duration::from_millis(606_100));
        assert_eq!(spread(&settings, Duration::MAX, 1.0), Duration::MAX);
    }

    #[test]
    fn the_budget_drains_and_refills() {
        let settings = RetrySettings::default();
        let mut budget = Budget::new();
        let spent = (0..1000)
            .filter(|_| budget.take(&settings, at(0.5)))
            .count();
        assert_eq!(spent, 100, "ten a second over ten seconds");
        for _ in 0..50 {
            budget.on_success(at(1.0));
        }
        let more = (0..1000)
            .filter(|_| budget.take(&settings, at(1.0)))
            .count();
        assert_eq!(more, 10, "a fifth of the successes");
        assert!(
            budget.take(&settings, at(30.0)),
            "what is past does not count"
        );
        assert!(
            budget.take(&settings, at(29.0)),
            "time that steps back is no panic"
        );
    }
}
