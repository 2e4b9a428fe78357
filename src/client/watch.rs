//! Whether the owner of a slot listens.
//!
//! A future that was woken and is not polled holds its slot for nothing: its answer is there, and
//! nobody takes it. So every attempt is polled with a waker of its own, which writes down when it
//! was woken before it passes the word on.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use crate::Time;
use crate::scheduler::events::Loan;

use super::claim::Claim;
use super::gate::Gate;
use super::silence::{SOONEST, UNREAD};

/// Sees whether the owner of one slot listens.
#[derive(Debug)]
pub(crate) struct Watch {
    gate: Weak<Gate>,
    /// Since when the owner is to listen, in nanoseconds; [`NOBODY`] while the server is to act, and
    /// [`LENT`] from when its slot is lent until it has one again.
    since: AtomicU64,
    /// Its answer is there, and the slot is held for the body.
    holds_body: AtomicBool,
    owner: Mutex<Waker>,
}

impl Watch {
    pub(crate) fn new(gate: &Arc<Gate>) -> Arc<Self> {
        Arc::new(Self {
            gate: Arc::downgrade(gate),
            since: AtomicU64::new(NOBODY),
            holds_body: AtomicBool::new(false),
            owner: Mutex::new(Waker::noop().clone()),
        })
    }

    /// Since when it is the owner's turn; none if it is not, or if the slot is lent already.
    pub(super) fn silent_since(&self) -> Option<Time> {
        let since = self.since.load(Ordering::SeqCst);
        (since < LENT).then(|| Time::from_nanos(since))
    }

    /// Whether its answer is there, and the slot is held for the body.
    pub(super) fn holds_body(&self) -> bool {
        self.holds_body.load(Ordering::SeqCst)
    }

    /// Its slot is lent, if it has been silent since then; no answer if it listens after all.
    pub(super) fn lend(&self, since: Time) -> Option<Loan> {
        self.turn(since.as_nanos(), LENT).then(|| {
            if self.holds_body() {
                Loan::Body
            } else {
                Loan::Woken
            }
        })
    }

    /// It has a slot again, and listens.
    pub(super) fn take_back(&self) {
        self.since.store(NOBODY, Ordering::SeqCst);
    }

    /// It has a slot again: whom to tell.
    pub(super) fn give_back(&self, now: Time) -> Waker {
        self.since.store(now.as_nanos(), Ordering::SeqCst);
        self.owner()
    }

    /// Whom to wake.
    pub(super) fn owner(&self) -> Waker {
        let owner = self.owner.lock();
        owner.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on the slot is held for the body, and it is the owner's turn to read.
    #[cfg(feature = "reqwest")]
    pub(crate) fn hold_body(&self) {
        self.holds_body.store(true, Ordering::SeqCst);
        self.owners_turn();
    }

    /// The owner listens. Whether it may go on: others may have the slot that was its own.
    fn listens(&self, claim: &Claim, waker: &Waker) -> bool {
        {
            let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
            owner.clone_from(waker);
        }
        let listens = |since| (since != LENT).then_some(NOBODY);
        let since = &self.since;
        let has_slot = since.fetch_update(Ordering::SeqCst, Ordering::SeqCst, listens);
        has_slot.is_ok() || claim.reclaim()
    }

    fn owners_turn(&self) {
        let Some(gate) = self.gate.upgrade() else {
            return;
        };
        let now = gate.clock().now();
        if self.turn(NOBODY, now.as_nanos()) {
            let patience = if self.holds_body() { UNREAD } else { SOONEST };
            gate.expect_loan(now + patience);
        }
    }

    fn turn(&self, from: u64, to: u64) -> bool {
        let turned = self
            .since
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        turned.is_ok()
    }
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.owners_turn();
        // Not under the lock: a waker may poll at once.
        self.owner().wake();
    }
}

/// Polls a future, and sees whether its owner listens.
pub(crate) async fn watched<F: Future>(claim: &Claim, future: F) -> F::Output {
    let mut future = pin!(future);
    let mut own = None;
    std::future::poll_fn(|context| {
        let Some(watch) = claim.watch() else {
            return future.as_mut().poll(context);
        };
        if !watch.listens(claim, context.waker()) {
            return Poll::Pending;
        }
        let waker = own.get_or_insert_with(|| Waker::from(Arc::clone(watch)));
        future.as_mut().poll(&mut Context::from_waker(waker))
    })
    .await
}

/// The same for one step of a body, after which it is the owner's turn to ask for the next.
#[cfg(feature = "reqwest")]
pub(crate) fn watched_step<T>(
    claim: &Claim,
    context: &mut Context<'_>,
    step: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    let Some(watch) = claim.watch() else {
        return step(context);
    };
    if !watch.listens(claim, context.waker()) {
        return Poll::Pending;
    }
    let waker = Waker::from(Arc::clone(watch));
    let out = step(&mut Context::from_waker(&waker));
    if out.is_ready() {
        watch.owners_turn();
    }
    out
}

/// It is nobody's turn but the server's.
const NOBODY: u64 = u64::MAX;
/// Whoever borrowed its slot has the turn.
const LENT: u64 = NOBODY - 1;
