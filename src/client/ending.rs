//! Until when a handle of a limiter is good: the tokens that end it.
//!
//! A token ends waits at once and lets what is in flight finish: whether the server has processed
//! that is not known, so giving its answer away would help nobody.

use std::pin::Pin;
use std::task::{Context, Waker};

use smallvec::SmallVec;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The tokens of a handle; any of them ends it.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens(SmallVec<[CancellationToken; 1]>);

impl Tokens {
    pub(super) fn and(&self, token: &CancellationToken) -> Self {
        let mut tokens = self.clone();
        tokens.0.push(token.clone());
        tokens
    }

    /// Whether one was cancelled.
    pub(super) fn are_over(&self) -> bool {
        self.0.iter().any(CancellationToken::is_cancelled)
    }

    /// What wakes a waiter when one is cancelled.
    pub(super) fn ending(&self) -> Ending {
        let tokens = self.0.iter().cloned();
        Ending(
            tokens
                .map(|token| Box::pin(token.cancelled_owned()))
                .collect(),
        )
    }
}

/// Waits for one of the tokens.
pub(super) struct Ending(SmallVec<[Pin<Box<WaitForCancellationFutureOwned>>; 1]>);

impl Ending {
    /// Whether one was cancelled; if not, `waker` is woken when one is.
    pub(super) fn is_over(&mut self, waker: &Waker) -> bool {
        let mut context = Context::from_waker(waker);
        self.0
            .iter_mut()
            .any(|token| token.as_mut().poll(&mut context).is_ready())
    }
}
