//! What the limiters of a run have decided about their keys and quotas, as far as it is shown.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Time;
use crate::feedback::{Dimension, Fault};
use crate::scheduler::events::{Change, Fingerprint, Reason, What};

use super::counted::counted;
use super::summary::{Grouped, Rounded};

/// What the limiters have decided.
#[derive(Debug, Default)]
pub(crate) struct Board {
    keys: BTreeMap<Fingerprint, KeyState>,
    /// The limits of quotas that servers report, by what they count.
    quotas: Vec<(Dimension, f64)>,
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyState {
    parked_until: Option<Time>,
    /// How often it was told to rest.
    rests: u64,
    fault: Option<Fault>,
    retired: bool,
    /// How often it was forbidden what another key was not.
    outdone: u64,
    left_out: bool,
}

impl Board {
    /// A limiter that began at `began` of our time has decided something.
    pub(crate) fn on_change(&mut self, change: &Change, began: Time) {
        if let What::Quota {
            dimension, limit, ..
        } = change.what
        {
            self.quotas.retain(|(known, _)| *known != dimension);
            self.quotas.push((dimension, limit));
        }
        let Some(key) = change.key else { return };
        let state = self.keys.entry(key).or_default();
        match change.what {
            What::Parked { until, .. } => {
                state.parked_until = Some(began + until.since(Time::START));
                state.rests += 1;
            }
            What::Suspected(fault) => state.fault = Some(fault),
            What::Retired(fault) => (state.fault, state.retired) = (Some(fault), true),
            What::Restored => (state.fault, state.retired) = (None, false),
            _ => {}
        }
    }

    /// A key was so often forbidden what another one was not. Answers whether that is why it is
    /// left out, once.
    pub(crate) fn on_outdone(&mut self, key: Fingerprint, times: u64, left_out: bool) -> bool {
        let state = self.keys.entry(key).or_default();
        state.outdone = times;
        left_out && !std::mem::replace(&mut state.left_out, true)
    }

    /// What a person should hear of at once.
    pub(crate) fn news(what: &What) -> Option<String> {
        match what {
            What::StoreAway { why } => Some(format!("{why}; going on as --when-away says")),
            What::StoreMayForget { why } => Some(why.to_string()),
            What::LimitsDiffer { .. } => Some(what.to_string()),
            What::StoreBack { after } => Some(format!(
                "the shared store answers again, after {:.1} s",
                after.as_secs_f64()
            )),
            What::StoreLost => Some(
                "the shared store had lost what it knew: until nothing of it counts any more, \
                 going on as --when-away says"
                    .to_owned(),
            ),
            What::SlotsLost(count) => Some(format!(
                "this run was halted, and {count} of its requests in flight count beyond the limit"
            )),
            _ => None,
        }
    }

    /// What a request waits for, in words. `flying` are on the wire, `waiting` are not.
    pub(crate) fn named(&self, waits_for: Option<Reason>, flying: usize, waiting: usize) -> String {
        match waits_for {
            Some(Reason::Quota(dimension)) => {
                let limit = self.quotas.iter().find(|(known, _)| *known == dimension);
                let limit = limit.filter(|(_, limit)| limit.is_finite() && *limit >= 1.0);
                let limit = limit.map(|(_, limit)| format!(" ({})", Grouped(*limit as u64)));
                format!(
                    "the quota of {}{}",
                    unit(dimension),
                    limit.unwrap_or_default()
                )
            }
            Some(reason) => reason.to_string(),
            None if flying == 0 && waiting > 0 => "pauses before repeats".to_owned(),
            None if flying == 0 => "the input".to_owned(),
            None => "the last answers".to_owned(),
        }
    }

    /// Keys that something was decided about.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Fingerprint> {
        self.keys.keys().copied()
    }

    /// What is known of a key.
    pub(crate) fn key(&self, key: Fingerprint) -> KeyState {
        self.keys.get(&key).copied().unwrap_or_default()
    }
}

impl KeyState {
    /// What holds it up now.
    pub(crate) fn now(&self, now: Time) -> String {
        match self.parked_until {
            _ if self.retired => "refused by the server".to_owned(),
            _ if self.left_out => "forbidden (403), left out".to_owned(),
            Some(until) if until > now => format!("rests {}", rounded(until.since(now))),
            _ => "in use".to_owned(),
        }
    }

    /// What it has been through, for the end.
    pub(crate) fn past(&self) -> Option<String> {
        if let Some(fault) = self.fault() {
            return Some(format!("refused by the server: {fault}"));
        }
        if self.outdone > 0 {
            let times = counted(self.outdone, "[time|times]");
            return Some(format!("forbidden (403) {times} what another key was not"));
        }
        match self.rests {
            0 => None,
            1 => Some("told to rest once".to_owned()),
            rests => Some(format!("told to rest {} times", Grouped(rests))),
        }
    }

    /// Why the server refuses it, if it does.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        match self.fault {
            None if self.left_out => Some("it is forbidden (403) what other keys are not"),
            fault => fault.map(said),
        }
    }
}

fn rounded(time: Duration) -> Rounded {
    Rounded(time)
}

fn said(fault: Fault) -> &'static str {
    match fault {
        Fault::Revoked => "it was revoked",
        Fault::OutOfFunds => "no credit is left on it",
        _ => "it is not valid here (401 or 403)",
    }
}

fn unit(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Requests => "requests",
        Dimension::Tokens => "tokens",
        Dimension::InputTokens => "input tokens",
        Dimension::OutputTokens => "output tokens",
        Dimension::Concurrent => "requests at the same time",
        Dimension::Points => "points",
        Dimension::Bytes => "bytes",
        Dimension::Cost => "money",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::events::Because;

    fn change(key: u8, what: What) -> Change {
        Change {
            at: Time::START,
            key: Some(Fingerprint::from_hash([key; 6])),
            what,
        }
    }

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    #[test]
    fn a_key_rests_until_its_moment_and_a_refused_one_says_why() {
        let mut board = Board::default();
        let why = Because::Hint;
        board.on_change(
            &change(
                1,
                What::Parked {
                    until: at(70.0),
                    why,
                },
            ),
            at(5.0),
        );
        board.on_change(&change(2, What::Suspected(Fault::Unauthorized)), at(5.0));
        board.on_change(&change(3, What::Retired(Fault::OutOfFunds)), at(5.0));
        let key = |n: u8| board.key(Fingerprint::from_hash([n; 6]));
        assert_eq!(key(1).now(at(10.0)), "rests 1 min 5 s");
        assert_eq!(key(1).now(at(80.0)), "in use");
        assert_eq!(key(1).past().as_deref(), Some("told to rest once"));
        assert_eq!(key(2).now(at(10.0)), "in use");
        assert!(key(2).fault().is_some_and(|why| why.contains("401")));
        assert_eq!(key(3).now(at(10.0)), "refused by the server");
        assert_eq!(key(4).past(), None);
        let four = Fingerprint::from_hash([4; 6]);
        assert!(!board.on_outdone(four, 1, false));
        let past = board.key(four).past();
        assert_eq!(
            past.as_deref(),
            Some("forbidden (403) 1 time what another key was not")
        );
        assert!(board.on_outdone(four, 2, true) && !board.on_outdone(four, 2, true));
        assert_eq!(board.key(four).now(at(1.0)), "forbidden (403), left out");
        assert!(board.key(four).fault().is_some());
    }

    #[test]
    fn a_quota_is_named_with_what_it_counts_and_its_limit() {
        let mut board = Board::default();
        let quota = What::Quota {
            dimension: Dimension::Tokens,
            limit: 30_000.0,
            law: "bucket",
        };
        let waits = Some(Reason::Quota(Dimension::Tokens));
        assert_eq!(board.named(waits, 1, 1), "the quota of tokens");
        board.on_change(&change(1, quota), Time::START);
        assert_eq!(board.named(waits, 1, 1), "the quota of tokens (30,000)");
        assert_eq!(board.named(None, 0, 0), "the input");
        assert_eq!(board.named(None, 0, 1), "pauses before repeats");
    }
}
