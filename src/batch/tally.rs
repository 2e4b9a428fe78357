//! What became of the requests of one run, counted.

use std::collections::BTreeMap;
use std::fmt;

use crate::scheduler::events::Fingerprint;

use super::done::Recorded;
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
    /// Lines that an earlier run had sent too, and that were not sent again because they must not.
    pub(crate) not_repeated: u64,
    /// What servers and networks said about what did not succeed: the first few, and how often.
    pub(crate) causes: Vec<(Why, String, u64)>,
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
    /// Counts a look that found a request waiting for this.
    pub(crate) fn on_wait(&mut self, reason: String) {
        *self.waits.entry(reason).or_default() += 1;
    }

    /// Counts a record.
    pub(crate) fn add(&mut self, record: &Recorded) {
        let (state, why, key) = (record.state, record.why, record.key);
        if let Some(cause) = &record.cause {
            let room = self.causes.len() < CAUSES;
            let known = self
                .causes
                .iter_mut()
                .find(|(of, said, _)| *of == why && said == cause);
            match known {
                Some((_, _, count)) => *count += 1,
                None if room => self.causes.push((why, cause.clone(), 1)),
                None => {}
            }
        }
        match state {
            State::Succeeded => {
                self.succeeded += 1;
                if let Some(key) = key {
                    *self.keys.entry(key).or_default() += 1;
                }
            }
            State::Failed | State::Doubtful => *self.failed.entry(why).or_default() += 1,
            _ => *self.unfinished.entry(why).or_default() += 1,
        }
    }

    /// Failures are none any longer: the next run does them again. Bad lines, and lines that must
    /// not be sent twice, stay what they are.
    pub(crate) fn take_back(&mut self) {
        let stay = [Code::BadLine, Code::Unanswered].map(Why::Code);
        let (stay, failed): (BTreeMap<_, _>, _) = std::mem::take(&mut self.failed)
            .into_iter()
            .partition(|(why, _)| stay.contains(why));
        self.failed = stay;
        for (why, count) in failed {
            *self.unfinished.entry(why).or_default() += count;
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

/// How many causes are kept.
const CAUSES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(state: State, why: Why, key: Option<Fingerprint>) -> Recorded {
        Recorded {
            line: Vec::new(),
            state,
            why,
            cause: (state == State::Failed).then(|| "said so".to_owned()),
            key,
        }
    }

    #[test]
    fn every_record_is_counted_once_under_its_reason() {
        let mut tally = Tally::default();
        let key = Some(Fingerprint::from_hash([1; 6]));
        tally.add(&recorded(State::Succeeded, Why::Status(200), key));
        tally.add(&recorded(State::Failed, Why::Status(404), key));
        tally.add(&recorded(State::Failed, Why::Code(Code::BadLine), None));
        tally.add(&recorded(State::Refused, Why::Status(429), key));
        tally.add(&recorded(State::Unanswered, Why::Code(Code::Network), key));
        assert_eq!(
            (tally.succeeded, tally.all_failed(), tally.recorded()),
            (1, 2, 5)
        );
        assert_eq!(tally.unfinished[&Why::Code(Code::Network)], 1);
        assert_eq!(tally.keys.values().sum::<u64>(), 1);
        tally.add(&recorded(State::Failed, Why::Status(404), key));
        assert_eq!(tally.causes[0], (Why::Status(404), "said so".to_owned(), 2));
        assert_eq!(tally.causes.len(), 2);
    }
}
