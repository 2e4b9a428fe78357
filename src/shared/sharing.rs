//! What a limiter shares, through which store, at which price, and what it does without it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::client::{Buyer, LimiterBuilder, Opening};
use crate::config::Settings;
use crate::error::{Error, Kind};
use crate::feedback::Dimension;
use crate::scheduler::Scheduler;
use crate::scheduler::ceiling::Ceiling;
use crate::scheduler::events::Fingerprint;

use super::agent::Counter;
use super::desk::Desk;
use super::store::{Law, Limit, Owner, Scope, Store, StoreError};

/// How a limiter agrees with others: given to [`LimiterBuilder::shared`].
///
/// Everything that is the same for all processes must be set the same in all of them: the scope,
/// the mode, the law, and the ceilings.
///
/// [`LimiterBuilder::shared`]: crate::LimiterBuilder::shared
#[derive(Clone, Debug)]
#[must_use = "it shares nothing until a limiter is built with it"]
pub struct Sharing {
    pub(super) store: Arc<dyn Store>,
    pub(super) scope: Scope,
    pub(super) mode: Mode,
    pub(super) law: Law,
    pub(super) when_away: WhenAway,
    exceptions: Vec<(Ceiling, WhenAway)>,
    in_flight: bool,
    pub(super) lease: Duration,
    pub(super) processes: u32,
    pub(super) counts: Counts,
}

/// The price of agreeing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Every request is paid for in the store before it is sent; those that wait are paid for
    /// together. The limit holds to the letter. The default.
    #[default]
    Exact,
    /// Each process borrows a share of every rate for a time, by demand, and paces it: no request
    /// waits for the store. A process that was halted can send what one lease allowed beyond the
    /// limit. For rates of at least ten per window and process, and processes that last: each holds
    /// back its share until what it sent is earned. A rate of less than ten in a window, and what is
    /// limited in flight, is paid for exactly all the same.
    Leases,
}

/// What a limiter does while the store is away, or has lost what it knew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenAway {
    /// It keeps to its share: what it borrowed last, for its lease and one window more; else the
    /// limit divided by the processes last seen. Until that window is over all together may send
    /// less than twice the limit in one, and then the limit (or one each in a window, where there
    /// are more processes than the limit). What was sent instead of paid for is charged when the store is back. A
    /// process that never reached the store has seen no other: [`Sharing::processes`] tells it how
    /// many there are. The default.
    #[default]
    Local,
    /// Nothing is sent. Requests wait, and those whose time ends meanwhile get an error of which
    /// [`Error::is_store_away`] is true.
    ///
    /// [`Error::is_store_away`]: crate::Error::is_store_away
    Closed,
    /// As if nothing were shared: each process keeps the whole limit by itself.
    Open,
}

impl Sharing {
    /// Shares exactly, through this store, with all who use the same scope: the provider's host,
    /// say.
    ///
    /// # Errors
    ///
    /// If the scope cannot name keys: see [`Scope::new`].
    pub fn new(store: impl Store, scope: impl Into<String>) -> Result<Self, StoreError> {
        Ok(Self {
            store: Arc::new(store),
            scope: Scope::new(scope)?,
            mode: Mode::Exact,
            law: Law::SlidingLog,
            when_away: WhenAway::Local,
            exceptions: Vec::new(),
            in_flight: true,
            lease: LEASE,
            processes: 1,
            counts: Counts::default(),
        })
    }

    /// Another scope.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Whether numbers in flight that were set hold for all together. Default true; rates always
    /// do.
    pub fn in_flight(mut self, in_flight: bool) -> Self {
        self.in_flight = in_flight;
        self
    }

    /// The price of agreeing. Default [`Mode::Exact`].
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// How rates are counted where they are paid exactly. Default [`Law::SlidingLog`], which keeps
    /// a ceiling to the letter; the others are for providers that are known to count so.
    pub fn law(mut self, law: Law) -> Self {
        self.law = law;
        self
    }

    /// What happens while the store is away. Default [`WhenAway::Local`].
    pub fn when_away(mut self, when_away: WhenAway) -> Self {
        self.when_away = when_away;
        self
    }

    /// What happens to this one of the limiter's ceilings while the store is away.
    pub fn when_away_for(mut self, ceiling: Ceiling, when_away: WhenAway) -> Self {
        self.exceptions.push((ceiling, when_away));
        self
    }

    /// How long a share or a slot is lent; it is renewed three times as often. The time after
    /// which others have what a killed process held, or a little later: when a share has earned
    /// what was sent from it. Default 3 s; 100 ms to 1 h.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.clamp(SHORTEST_LEASE, LONGEST_LEASE);
        self
    }

    /// How many processes are expected to share, until the store has told. Default 1.
    pub fn processes(mut self, processes: u32) -> Self {
        self.processes = processes.max(1);
        self
    }

    /// What sharing has cost and done so far. The counts go on while the limiter lives.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// Opens the desk of a limiter.
    fn open(self, settings: Settings, machine: &mut Scheduler) -> Result<Box<dyn Buyer>, Error> {
        let owner = Owner::new(rand::random());
        let desk = Desk::new(self.clone(), settings, owner);
        if desk.sells()? {
            machine.sell();
        }
        machine.tell();
        Ok(Box::new(Counter::new(desk, self)))
    }

    /// What is shared of a key.
    pub(super) fn limits(
        &self,
        settings: &Settings,
        key: Fingerprint,
    ) -> Result<Vec<Shared>, StoreError> {
        let mut shared = Vec::new();
        for ceiling in &settings.ceilings {
            self.add_rate(&mut shared, &format!("key.{key}"), ceiling)?;
        }
        for ceiling in &settings.shared_ceilings {
            self.add_rate(&mut shared, "all", ceiling)?;
        }
        if !self.in_flight {
            return Ok(shared);
        }
        if settings.key_concurrency < Settings::default().key_concurrency {
            let most = settings.key_concurrency;
            shared.push(self.slots(format!("key.{key}.slots"), most)?);
        }
        if let Some(most) = settings.max_concurrency {
            shared.push(self.slots("all.slots".to_owned(), most)?);
        }
        Ok(shared)
    }

    fn add_rate(
        &self,
        shared: &mut Vec<Shared>,
        whose: &str,
        ceiling: &Ceiling,
    ) -> Result<(), StoreError> {
        let dimension = ceiling.dimension();
        let name = format!("{whose}.{}", unit(dimension));
        let law = match self.law {
            Law::Slots => Law::SlidingLog,
            law => law,
        };
        let limit = Limit::new(name, law, ceiling.amount(), ceiling.window())?;
        let is_lent = self.mode == Mode::Leases && limit.amount >= LEAST_LENT;
        let mut exceptions = self.exceptions.iter();
        let when_away = exceptions
            .find(|(other, _)| other == ceiling)
            .map_or(self.when_away, |(_, when_away)| *when_away);
        // Two ceilings that count the same are one, the lower.
        let same = |other: &&mut Shared| {
            other.limit.name == limit.name && other.limit.window == limit.window
        };
        match shared.iter_mut().find(same) {
            Some(other) if other.limit.amount <= limit.amount => {}
            Some(other) => (other.limit, other.is_lent) = (limit, is_lent),
            None => shared.push(Shared {
                limit,
                dimension: Some(dimension),
                when_away,
                is_lent,
            }),
        }
        Ok(())
    }

    fn slots(&self, name: String, most: u32) -> Result<Shared, StoreError> {
        Ok(Shared {
            limit: Limit::new(name, Law::Slots, most.into(), self.lease)?,
            dimension: None,
            when_away: self.when_away,
            is_lent: false,
        })
    }
}

impl LimiterBuilder {
    /// Agrees with other processes: ceilings, and numbers in flight that were set, then hold for
    /// all of them together.
    pub fn shared(mut self, sharing: Sharing) -> Self {
        let open = |settings, machine: &mut Scheduler| sharing.open(settings, machine);
        self.buyer = Some(Opening(Box::new(open)));
        self
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Kind::Sharing(Box::new(error)).into()
    }
}

/// One limit that is shared.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) limit: Limit,
    /// What a rate counts; none for what is limited in flight.
    pub(super) dimension: Option<Dimension>,
    pub(super) when_away: WhenAway,
    /// Shares of it are borrowed; else it is paid for exactly.
    pub(super) is_lent: bool,
}

pub(super) fn unit(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Requests => "requests",
        Dimension::Tokens => "tokens",
        Dimension::InputTokens => "input",
        Dimension::OutputTokens => "output",
        Dimension::Concurrent => "concurrent",
        Dimension::Points => "points",
        Dimension::Bytes => "bytes",
        Dimension::Cost => "cost",
    }
}

/// What sharing has cost and done. All clones are the same counts.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Counters>);

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) calls: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) granted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) without: AtomicU64,
    pub(super) times_away: AtomicU64,
    pub(super) times_lost: AtomicU64,
    trouble: Mutex<Option<Box<str>>>,
}

impl Counts {
    pub(super) fn add(&self, which: impl Fn(&Counters) -> &AtomicU64, count: u64) {
        which(&self.0).fetch_add(count, Ordering::Relaxed);
    }

    fn of(&self, which: impl Fn(&Counters) -> &AtomicU64) -> u64 {
        which(&self.0).load(Ordering::Relaxed)
    }

    /// Round trips to the store.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.of(|counters| &counters.calls)
    }

    /// Those of them that failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.of(|counters| &counters.failures)
    }

    /// Requests that the store, or a share that it lent, allowed.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.of(|counters| &counters.granted)
    }

    /// Times that a request was told to wait for the shared limit.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.of(|counters| &counters.refused)
    }

    /// Requests that were sent without the store while it was away.
    #[must_use]
    pub fn without_store(&self) -> u64 {
        self.of(|counters| &counters.without)
    }

    /// How often the store went away.
    #[must_use]
    pub fn times_away(&self) -> u64 {
        self.of(|counters| &counters.times_away)
    }

    /// Why the store went away last, or would not.
    #[must_use]
    pub fn last_trouble(&self) -> Option<String> {
        let trouble = self
            .0
            .trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        trouble.as_deref().map(str::to_owned)
    }

    pub(super) fn trouble(&self, why: &str) {
        let mut trouble = self
            .0
            .trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *trouble = Some(why.into());
    }

    /// How often it had lost what it knew.
    #[must_use]
    pub fn times_lost(&self) -> u64 {
        self.of(|counters| &counters.times_lost)
    }
}

/// Of less there is nothing to share: whoever came first would hold it as long as it is busy.
const LEAST_LENT: u64 = 10;
/// Long enough that renewing costs one call a second, short enough that what a killed process held
/// is missed for no longer than a retry.
const LEASE: Duration = Duration::from_secs(3);
/// Below it renewals come later than the lease ends on a busy machine.
const SHORTEST_LEASE: Duration = Duration::from_millis(100);
/// Beyond it a killed process's share is as good as lost.
const LONGEST_LEASE: Duration = Duration::from_secs(3600);
