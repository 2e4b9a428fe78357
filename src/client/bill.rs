//! What an answer that is one JSON object says that its call used, heard on its way to the
//! application: the last thing that a language model's answer tells.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::feedback::{self, Class, Profile};
use crate::scheduler::Receipt;

use super::clock::Clock;
use super::gate::Gate;

/// The charge for one answer that is still to be read.
pub(super) struct Bill {
    gate: Arc<Gate>,
    receipt: Receipt,
    profile: Profile,
    /// What has passed: the buffers are shared, nothing is copied until the end.
    passed: Vec<Bytes>,
    length: usize,
}

impl Bill {
    pub(super) fn new(gate: Arc<Gate>, receipt: Receipt, profile: Profile) -> Self {
        Self {
            gate,
            receipt,
            profile,
            passed: Vec::new(),
            length: 0,
        }
    }

    /// Hears a piece of the body. False where it is longer than any that tells.
    pub(super) fn hear(&mut self, piece: &Bytes) -> bool {
        self.length = self.length.saturating_add(piece.len());
        if self.length <= LONGEST {
            self.passed.push(piece.clone());
        }
        self.length <= LONGEST
    }

    /// The body is whole.
    pub(super) fn settle(mut self) {
        let body = match self.passed.as_slice() {
            [one] => one.clone(),
            pieces => pieces.concat().into(),
        };
        let said = feedback::read_event(&self.profile, &body, Clock::new().wall());
        if let Some(said) = said.filter(|said| said.class == Class::Ok) {
            let receipt = &mut self.receipt;
            self.gate.act(|inner, now, wakes| {
                inner.seats.settle(receipt, &said, now);
                self.gate.pump(inner, now, wakes);
            });
        }
    }
}

impl fmt::Debug for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What passes is the application's.
        f.debug_struct("Bill").finish_non_exhaustive()
    }
}

/// The answers of language models have some kilobytes; what is longer keeps its estimate.
const LONGEST: usize = 256 * 1024;
