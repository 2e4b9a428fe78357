//! A store whose answers take their time, as over a bad way or for a process that was halted.

use std::pin::Pin;
use std::sync::Once;
use std::time::Duration;

use paceline::shared::MemoryStore;
use paceline::shared::store::{
    Alive, Answer, Beat, Claim, Fact, Heard, Lent, Refund, Release, Scope, Standing, Store, Take,
    Taken,
};

#[derive(Debug)]
pub(super) struct Slow {
    store: MemoryStore,
    /// How long the answer to the first payment takes, which is made at once.
    payment: Duration,
    has_paid: Once,
    /// How long each telling takes to arrive.
    telling: Duration,
}

impl Slow {
    pub(super) fn new(payment: Duration, telling: Duration) -> Self {
        Self {
            store: MemoryStore::new(),
            payment,
            has_paid: Once::new(),
            telling,
        }
    }
}

impl Store for Slow {
    fn take<'a>(&'a self, scope: &'a Scope, take: &'a Take) -> Answer<'a, Taken> {
        let answer = self.store.take(scope, take);
        Box::pin(async move {
            let answer = answer.await;
            let mut is_first = false;
            self.has_paid.call_once(|| is_first = true);
            if is_first {
                tokio::time::sleep(self.payment).await;
            }
            answer
        })
    }

    fn refund<'a>(&'a self, scope: &'a Scope, refund: &'a Refund) -> Answer<'a, Standing> {
        self.store.refund(scope, refund)
    }

    fn beat<'a>(&'a self, scope: &'a Scope, beat: &'a Beat) -> Answer<'a, Alive> {
        self.store.beat(scope, beat)
    }

    fn release<'a>(&'a self, scope: &'a Scope, release: &'a Release) -> Answer<'a, Standing> {
        self.store.release(scope, release)
    }

    fn lend<'a>(&'a self, scope: &'a Scope, claim: &'a Claim) -> Answer<'a, Lent> {
        self.store.lend(scope, claim)
    }

    fn publish<'a>(&'a self, scope: &'a Scope, fact: &'a Fact) -> Answer<'a, bool> {
        Box::pin(async move {
            tokio::time::sleep(self.telling).await;
            self.store.publish(scope, fact).await
        })
    }

    fn facts<'a>(&'a self, scope: &'a Scope, since: u64) -> Answer<'a, Heard> {
        self.store.facts(scope, since)
    }

    fn news<'a>(&'a self, scope: &'a Scope) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.store.news(scope)
    }
}
