//! Whether the owner of a slot listens.
//!
//! A future that was woken and is not polled holds its slot for nothing: its answer is there, and
//! nobody takes it. So every attempt is polled with a waker of its own, which writes down when it
//! was woken before it passes the word on.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
#[cfg(feature = "reqwest")]
use std::task::Poll;
use std::task::{Context, Wake, Waker};

use crate::Time;
use crate::scheduler::events::Loan;

use super::claim::Claim;
use super::gate::Gate;
use super::seats::{SOONEST, UNREAD};

/// Sees whether the owner of one slot listens.
#[derive(Debug)]
pub(crate) struct Watch {
    gate: Weak<Gate>,
    /// Since when the owner is to listen, in nanoseconds; [`NOBODY`] while the server is to act.
    since: AtomicU64,
    /// Its answer is there, and the slot is held for the body.
    holds_body: AtomicBool,
    /// Written under the gate's lock when the slot is lent.
    lent: AtomicBool,
    owner: Mutex<Waker>,
}

impl Watch {
    pub(crate) fn new(gate: &Arc<Gate>) -> Arc<Self> {
        Arc::new(Self {
            gate: Arc::downgrade(gate),
            since: AtomicU64::new(NOBODY),
            holds_body: AtomicBool::new(false),
            lent: AtomicBool::new(false),
            owner: Mutex::new(Waker::noop().clone()),
        })
    }

    /// Since when it is the owner's turn; none if it is not, or if the slot is lent already.
    pub(super) fn silent_since(&self) -> Option<Time> {
        let since = self.since.load(Ordering::SeqCst);
        let is_silent = since != NOBODY && !self.lent.load(Ordering::SeqCst);
        is_silent.then(|| Time::from_nanos(since))
    }

    /// Whether its answer is there, and the slot is held for the body.
    pub(super) fn holds_body(&self) -> bool {
        self.holds_body.load(Ordering::SeqCst)
    }

    /// Its slot is lent.
    pub(super) fn lend(&self) -> Loan {
        self.lent.store(true, Ordering::SeqCst);
        if self.holds_body() {
            Loan::Body
        } else {
            Loan::Woken
        }
    }

    /// From now on the slot is held for the body, and it is the owner's turn to read.
    #[cfg(feature = "reqwest")]
    pub(crate) fn hold_body(&self) {
        self.holds_body.store(true, Ordering::SeqCst);
        self.owners_turn();
    }

    /// The owner listens.
    fn listens(&self, claim: &Claim, waker: &Waker) {
        self.since.store(NOBODY, Ordering::SeqCst);
        if self.lent.swap(false, Ordering::SeqCst) {
            claim.reclaim();
        }
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        owner.clone_from(waker);
    }

    fn owners_turn(&self) {
        let Some(gate) = self.gate.upgrade() else {
            return;
        };
        let now = gate.clock().now();
        let first =
            self.since
                .compare_exchange(NOBODY, now.as_nanos(), Ordering::SeqCst, Ordering::SeqCst);
        if first.is_ok() {
            let patience = if self.holds_body() { UNREAD } else { SOONEST };
            gate.expect_loan(now + patience);
        }
    }
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.owners_turn();
        // Not under the lock: a waker may poll at once.
        let owner = {
            let owner = self.owner.lock();
            owner.unwrap_or_else(PoisonError::into_inner).clone()
        };
        owner.wake();
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
        watch.listens(claim, context.waker());
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
    watch.listens(claim, context.waker());
    let waker = Waker::from(Arc::clone(watch));
    let out = step(&mut Context::from_waker(&waker));
    if out.is_ready() {
        watch.owners_turn();
    }
    out
}

/// It is nobody's turn but the server's.
const NOBODY: u64 = u64::MAX;
