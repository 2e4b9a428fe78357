//! What became of the requests of one run, counted.

use std::collections::BTreeMap;
use std::fmt;

use crate::scheduler::events::{Fingerprint, Reason};

use super::ids::State;
use super::record::Code;

/// What became of the requests of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Lines with a final record of an earlier run.
    pub(crate) before: u64,
    /// Lines of which at least one attempt was sent.
    pub(crate) sent: u64,
    pub(crate) attempts: u64,
    /// Attempts that the server refused for going too fast or for being full.
    pub(crate) refused: u64,
    /// What answers said they used, where a budget is kept; none while none said.
    pub(crate) tokens: Option<u64>,
    /// Lines that an earlier run may have sent too, without an answer.
    pub(crate) again: u64,
    pub(crate) succeeded: u64,
    /// Final failures, by reason.
    pub(crate) failed: BTreeMap<Why, u64>,
    /// What the next run does, by reason.
    pub(crate) unfinished: BTreeMap<Why, u64>,
    /// How often a look found a request waiting, by what it waited for, and how often none waited.
    pub(crate) waits: BTreeMap<String, u64>,
    /// Successes per key.
    pub(crate) keys: BTreeMap<Fingerprint, u64>,
}

impl Tally {
    /// Counts a look at what the first request in turn waits for.
    pub(crate) fn look(&mut self, waits_for: Option<Reason>, flying: usize) {
        let reason = match (waits_for, flying) {
            (Some(Reason::Quota(dimension)), _) => format!("the quota of {dimension:?}"),
            (Some(reason), _) => reason.to_string(),
            (None, 0) => "the input".to_owned(),
            (None, _) => "the last answers".to_owned(),
        };
        *self.waits.entry(reason).or_default() += 1;
    }

    /// Counts a record.
    pub(crate) fn add(&mut self, state: State, why: Why, key: Option<Fingerprint>) {
        match state {
            State::Succeeded => {
                self.succeeded += 1;
                if let Some(key) = key {
                    *self.keys.entry(key).or_default() += 1;
                }
            }
            State::Failed => *self.failed.entry(why).or_default() += 1,
            _ => *self.unfinished.entry(why).or_default() += 1,
        }
    }

    /// Lines that got a record in this run.
    pub(crate) fn recorded(&self) -> u64 {
        self.succeeded + self.all_failed() + self.unfinished.values().sum::<u64>()
    }

    /// Final failures.
    pub(crate) fn all_failed(&self) -> u64 {
        self.failed.values().sum()
    }
}

/// Why a request ended as it did: with this status, or without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    Status(u16),
    Code(Code),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::Code(code) => f.write_str(code.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_counted_once_under_its_reason() {
        let mut tally = Tally::default();
        let key = Some(Fingerprint::from_hash([1; 6]));
        tally.add(State::Succeeded, Why::Status(200), key);
        tally.add(State::Failed, Why::Status(404), key);
        tally.add(State::Failed, Why::Code(Code::BadLine), None);
        tally.add(State::Refused, Why::Status(429), key);
        tally.add(State::Unanswered, Why::Code(Code::Network), key);
        assert_eq!(
            (tally.succeeded, tally.all_failed(), tally.recorded()),
            (1, 2, 5)
        );
        assert_eq!(tally.unfinished[&Why::Code(Code::Network)], 1);
        assert_eq!(tally.keys.into_values().sum::<u64>(), 1);
    }
}
