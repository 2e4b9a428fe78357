//! One call to the store, and what it said.

use std::sync::Arc;

use super::super::store::{
    Alive, Beat, Claim, Lent, Refund, Release, Scope, Standing, Store, StoreError, Take, Taken,
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
}

/// What the store said to it.
#[derive(Debug)]
pub(crate) enum Said {
    Taken(Taken),
    Standing(Standing),
    Alive(Alive),
    Lent(Lent),
}

impl Call {
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
        };
        (self, heard)
    }
}

/// An answer, or none.
pub(crate) type Heard = Result<Said, StoreError>;
