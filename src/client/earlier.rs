//! What a server may still be doing of the earlier attempts of one request.

use http::{HeaderMap, StatusCode};

use crate::feedback::{Class, Feedback, Profile};
use crate::scheduler::events::Outcome;

use super::extension;

/// The earlier attempts of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Earlier {
    /// The server can tell that it is sent again.
    is_keyed: bool,
    /// One may still be at work there.
    may_run: bool,
}

impl Earlier {
    /// None yet, of a request with these headers.
    pub(super) fn none(headers: &HeaderMap, profile: &Profile) -> Self {
        Self {
            is_keyed: extension::is_keyed(headers, profile),
            may_run: false,
        }
    }

    /// A conflict of a request with itself is no answer to it: the server is still at work on an
    /// earlier attempt.
    pub(super) fn explain(self, status: StatusCode, said: &mut Feedback) {
        if status == StatusCode::CONFLICT && self.is_keyed && self.may_run {
            said.class = Class::Transient;
        }
    }

    /// An attempt has ended.
    pub(super) fn on_ended(&mut self, outcome: &Outcome) {
        self.may_run |= match outcome {
            Outcome::Broken => true,
            Outcome::Answered(said) => said.class == Class::Transient,
            Outcome::NotSent => false,
        };
    }
}
