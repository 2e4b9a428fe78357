//! One call to the store, and what it said.

use std::sync::Arc;

use crate::Time;
use crate::scheduler::told::Told;

use super::super::store::{
    self, Alive, Beat, Claim, Fact, Lent, Refund, Release, Scope, Standing, Store, StoreError,
    Take, Taken,
};

/// What the desk wants of the store.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// Payment for those who wait in a line.
    Take {
        line: usize,
        take: Take,
    },
    /// What was sent without the store.
    Report(Take),
    Refund(Refund),
    Release(Release),
    Beat(Beat),
    Lend {
        place: usize,
        claim: Claim,
    },
    Publish {
        fact: Fact,
        told: Told,
        observed: Time,
    },
    /// By which limits this process goes.
    Terms(Fact),
    /// Those published after so many.
    Facts(u64),
    /// Whether it may forget.
    Risk,
}

/// What the store said to it.
#[derive(Debug)]
pub(crate) enum Said {
    Taken(Taken),
    Standing(Standing),
    Alive(Alive),
    Lent(Lent),
    Published,
    Facts(store::Heard),
    Risk(Option<String>),
}

impl Call {
    /// Whether the store would miss something if nobody heard of it.
    pub(super) fn is_owed(&self) -> bool {
        matches!(
            self,
            Self::Report(_) | Self::Refund(_) | Self::Release(_) | Self::Publish { .. }
        )
    }

    /// Makes the call.
    pub(crate) async fn make(self, store: Arc<dyn Store>, scope: Scope) -> (Self, Heard) {
        let heard = match &self {
            Self::Take { take, .. } | Self::Report(take) => {
                store.take(&scope, take).await.map(Said::Taken)
            }
            Self::Refund(refund) => store.refund(&scope, refund).await.map(Said::Standing),
            Self::Release(release) => store.release(&scope, release).await.map(Said::Standing),
            Self::Beat(beat) => store.beat(&scope, beat).await.map(Said::Alive),
            Self::Lend { claim, .. } => store.lend(&scope, claim).await.map(Said::Lent),
            Self::Publish { fact, .. } | Self::Terms(fact) => {
                store.publish(&scope, fact).await.map(|_| Said::Published)
            }
            Self::Facts(since) => store.facts(&scope, *since).await.map(Said::Facts),
            Self::Risk => store.risk().await.map(Said::Risk),
        };
        (self, heard)
    }
}

/// An answer, or none.
pub(crate) type Heard = Result<Said, StoreError>;
