//! A store inside one process: for several limiters that share their limits, and the
//! specification of every other store.

mod shares;
mod state;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use tokio::sync::Notify;

use crate::client::Clock;

use super::store::{
    Alive, Answer, Beat, Claim, Fact, Heard, Lent, Refund, Release, Scope, Standing, Store,
    StoreError, Take, Taken, micros,
};
use state::State;

/// Shares limits between the limiters of one process.
///
/// Nothing in it runs out of reach, unless a test says so: [`MemoryStore::set_away`] and
/// [`MemoryStore::lose`] show how a program behaves when the store is gone or has forgotten all.
pub struct MemoryStore {
    inner: Mutex<Inner>,
    news: Notify,
    now: Box<dyn Fn() -> u64 + Send + Sync>,
}

#[derive(Default)]
struct Inner {
    scopes: HashMap<Scope, State>,
    epochs: u64,
    is_away: bool,
}

impl MemoryStore {
    /// An empty store on tokio's clock.
    #[must_use]
    pub fn new() -> Self {
        let clock = Clock::new();
        let start = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::with_clock(move || micros(start) + clock.now().as_nanos() / 1_000)
    }

    /// An empty store on a clock of the caller's, in microseconds since any moment. It must not go
    /// back.
    #[must_use]
    pub fn with_clock(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self {
            inner: Mutex::default(),
            news: Notify::new(),
            now: Box::new(now),
        }
    }

    /// From now on it answers nothing, as a server that is down; or it answers again.
    pub fn set_away(&self, is_away: bool) {
        self.lock().is_away = is_away;
    }

    /// Forgets everything, as a server that was flushed.
    pub fn lose(&self) {
        self.lock().scopes.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        scope: &Scope,
        step: impl FnOnce(&mut State, &str, u64) -> T,
    ) -> Result<T, StoreError> {
        let mut inner = self.lock();
        if inner.is_away {
            return Err(StoreError::away("the memory store was set away"));
        }
        inner.epochs += 1;
        let fresh = format!("memory-{}", inner.epochs);
        // Read under the lock: the steps of a store are in the order of its clock.
        let now = (self.now)();
        let state = inner.scopes.entry(scope.clone()).or_default();
        Ok(step(state, &fresh, now))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl Store for MemoryStore {
    fn take<'a>(&'a self, scope: &'a Scope, take: &'a Take) -> Answer<'a, Taken> {
        Box::pin(async { self.with(scope, |state, fresh, now| state.take(take, fresh, now)) })
    }

    fn refund<'a>(&'a self, scope: &'a Scope, refund: &'a Refund) -> Answer<'a, Standing> {
        Box::pin(async { self.with(scope, |state, fresh, now| state.refund(refund, fresh, now)) })
    }

    fn beat<'a>(&'a self, scope: &'a Scope, beat: &'a Beat) -> Answer<'a, Alive> {
        Box::pin(async { self.with(scope, |state, fresh, now| state.beat(beat, fresh, now)) })
    }

    fn release<'a>(&'a self, scope: &'a Scope, release: &'a Release) -> Answer<'a, Standing> {
        Box::pin(async {
            self.with(scope, |state, fresh, now| {
                state.release(release, fresh, now)
            })
        })
    }

    fn lend<'a>(&'a self, scope: &'a Scope, claim: &'a Claim) -> Answer<'a, Lent> {
        Box::pin(async { self.with(scope, |state, fresh, now| state.lend(claim, fresh, now)) })
    }

    fn publish<'a>(&'a self, scope: &'a Scope, fact: &'a Fact) -> Answer<'a, bool> {
        Box::pin(async {
            let news = self.with(scope, |state, fresh, now| state.publish(fact, fresh, now))?;
            if news {
                self.news.notify_waiters();
            }
            Ok(news)
        })
    }

    fn facts<'a>(&'a self, scope: &'a Scope, since: u64) -> Answer<'a, Heard> {
        Box::pin(async move { self.with(scope, |state, _, now| state.facts(since, now)) })
    }

    fn news<'a>(&'a self, _scope: &'a Scope) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.news.notified())
    }
}
