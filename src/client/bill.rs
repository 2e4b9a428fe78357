//! What an answer that is one JSON object says that its call used, heard on its way to the
//! application: the last thing that a language model's answer tells.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::feedback;
use crate::scheduler::Receipt;

use super::gate::Gate;

/// The charge for one answer that is still to be read.
pub(super) struct Bill {
    gate: Arc<Gate>,
    receipt: Receipt,
    /// What passed last. The buffers are the application's, nothing is copied before the end.
    passed: VecDeque<Bytes>,
    length: usize,
}

impl Bill {
    pub(super) fn new(gate: Arc<Gate>, receipt: Receipt) -> Self {
        Self {
            gate,
            receipt,
            passed: VecDeque::new(),
            length: 0,
        }
    }

    /// Hears a piece of the body.
    pub(super) fn hear(&mut self, piece: &Bytes) {
        self.length += piece.len();
        self.passed.push_back(piece.clone());
        while let Some(oldest) = self.passed.front().map(Bytes::len)
            && self.length - oldest >= TAIL
        {
            self.length -= oldest;
            self.passed.pop_front();
        }
    }

    /// The body is whole.
    pub(super) fn settle(mut self) {
        let pieces = self.passed.make_contiguous();
        let tail = match pieces {
            [one] => one.clone(),
            pieces => pieces.concat().into(),
        };
        let Some(said) = feedback::read_usage(&tail) else {
            return;
        };
        let receipt = &mut self.receipt;
        self.gate.act(|inner, now, wakes| {
            inner.seats.settle(receipt, &said, now);
            self.gate.pump(inner, now, wakes);
        });
    }
}

impl fmt::Debug for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What passes is the application's.
        f.debug_struct("Bill").finish_non_exhaustive()
    }
}

/// As much of a body's end as is looked at: usage stands in its last kilobyte.
const TAIL: usize = 8 * 1024;
