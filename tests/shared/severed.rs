//! A process's way to a store, which ends with the process: what is killed tells nobody.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use paceline::shared::MemoryStore;
use paceline::shared::store::{
    Alive, Answer, Beat, Claim, Fact, Heard, Lent, Refund, Release, Scope, Standing, Store, Take,
    Taken,
};

#[derive(Debug)]
pub(super) struct Severed {
    store: Arc<MemoryStore>,
    is_killed: AtomicBool,
}

impl Severed {
    pub(super) fn new(store: &Arc<MemoryStore>) -> Self {
        Self {
            store: Arc::clone(store),
            is_killed: AtomicBool::new(false),
        }
    }

    pub(super) fn kill(&self) {
        self.is_killed.store(true, Ordering::SeqCst);
    }

    /// The answer, if the question leaves.
    fn ask<'a, T: Send + 'a>(&self, question: impl FnOnce() -> Answer<'a, T>) -> Answer<'a, T> {
        if self.is_killed.load(Ordering::SeqCst) {
            return Box::pin(pending());
        }
        question()
    }
}

impl Store for Severed {
    fn take<'a>(&'a self, scope: &'a Scope, take: &'a Take) -> Answer<'a, Taken> {
        self.ask(|| self.store.take(scope, take))
    }

    fn refund<'a>(&'a self, scope: &'a Scope, refund: &'a Refund) -> Answer<'a, Standing> {
        self.ask(|| self.store.refund(scope, refund))
    }

    fn beat<'a>(&'a self, scope: &'a Scope, beat: &'a Beat) -> Answer<'a, Alive> {
        self.ask(|| self.store.beat(scope, beat))
    }

    fn release<'a>(&'a self, scope: &'a Scope, release: &'a Release) -> Answer<'a, Standing> {
        self.ask(|| self.store.release(scope, release))
    }

    fn lend<'a>(&'a self, scope: &'a Scope, claim: &'a Claim) -> Answer<'a, Lent> {
        self.ask(|| self.store.lend(scope, claim))
    }

    fn publish<'a>(&'a self, scope: &'a Scope, fact: &'a Fact) -> Answer<'a, bool> {
        self.ask(|| self.store.publish(scope, fact))
    }

    fn facts<'a>(&'a self, scope: &'a Scope, since: u64) -> Answer<'a, Heard> {
        self.ask(|| self.store.facts(scope, since))
    }

    fn news<'a>(&'a self, scope: &'a Scope) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.store.news(scope)
    }
}
