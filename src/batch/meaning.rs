//! What the content of an answer says of its line: served, refused, failed, and whether that is the
//! last word.

use std::time::Duration;

use crate::feedback::{Class, Feedback};
use crate::scheduler::events::GaveUp;

use super::content::Failure;
use super::ids::State;
use super::record::Code;
use super::said;

/// What an answer means.
#[derive(Debug)]
pub(super) struct Meaning {
    pub(super) state: State,
    pub(super) class: Class,
    /// Why it is none, though its status says so.
    pub(super) flaw: Option<(Code, String)>,
    /// How long the server asked to wait, where a success holds nothing but an error.
    pub(super) declined: Option<Duration>,
}

impl Meaning {
    pub(super) fn new(state: State, class: Class) -> Self {
        Self {
            state,
            class,
            flaw: None,
            declined: None,
        }
    }

    /// Of an answer that says by its status or its body that it failed.
    pub(super) fn of_error(said: &Feedback, why: Option<GaveUp>) -> Self {
        let of_the_key = said.fault.is_some();
        let state = refused_or_failed(said.class, of_the_key, why);
        let wait = said.wait.map_or(Duration::ZERO, |wait| wait.delay);
        Self {
            declined: (!of_the_key).then_some(wait),
            ..Self::new(state, said.class)
        }
    }

    /// Of a stream of events that ends in an error.
    pub(super) fn of_failure(failure: &Failure, why: Option<GaveUp>) -> Self {
        let meaning = match &failure.said {
            Some(said) => Self::of_error(said, why),
            None => Self::new(State::Failed, Class::Transient),
        };
        meaning.said(failure.data.as_bytes(), failure.is_all)
    }

    pub(super) fn flawed(self, code: Code, said: String) -> Self {
        Self {
            flaw: Some((code, said)),
            declined: None,
            ..self
        }
    }

    /// That a success says in `data` that it failed, and whether that is all of it.
    pub(super) fn said(self, data: &[u8], is_all: bool) -> Self {
        let said = said::message(data).unwrap_or_else(|| NAMELESS.to_owned());
        let (said, declined) = match is_all {
            true => (said, self.declined),
            false => (format!("{PARTLY}{said}"), None),
        };
        Self {
            declined,
            ..self.flawed(Code::Failed, said)
        }
    }
}

/// Whether a failed answer is the last word about its line.
fn refused_or_failed(class: Class, of_the_key: bool, why: Option<GaveUp>) -> State {
    match class {
        _ if of_the_key => State::Refused,
        Class::RateLimited | Class::QuotaExhausted | Class::Overloaded => State::Refused,
        // Its attempts were not its own to use up: others had spent the budget, or time ran out.
        Class::Transient => match why {
            Some(
                GaveUp::Budget
                | GaveUp::Deadline
                | GaveUp::NoKey
                | GaveUp::Closed
                | GaveUp::NotEnforced,
            ) => State::Refused,
            _ => State::Failed,
        },
        _ => State::Failed,
    }
}

/// What is said of an error without a message.
const NAMELESS: &str = "it says so itself";

/// How the message of an error begins that came after a part of the answer.
const PARTLY: &str = "a part of the answer came, and then: ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_error_of_its_own_that_used_up_its_attempts_is_final() {
        use Class::{Fatal, Overloaded, QuotaExhausted, RateLimited, Transient};
        for (class, of_the_key, why, state) in [
            (Fatal, false, Some(GaveUp::Final), State::Failed),
            (Fatal, true, Some(GaveUp::Final), State::Refused),
            (RateLimited, false, Some(GaveUp::Attempts), State::Refused),
            (
                QuotaExhausted,
                false,
                Some(GaveUp::Attempts),
                State::Refused,
            ),
            (Overloaded, false, Some(GaveUp::Attempts), State::Refused),
            (Transient, false, Some(GaveUp::Attempts), State::Failed),
            (Transient, false, Some(GaveUp::NotReplayable), State::Failed),
            (Transient, false, Some(GaveUp::Budget), State::Refused),
            (Transient, false, Some(GaveUp::Deadline), State::Refused),
        ] {
            assert_eq!(
                refused_or_failed(class, of_the_key, why),
                state,
                "{class:?} {why:?}"
            );
        }
    }
}
