//! The handle of one provider: what a program makes once, clones, and sends through.

use std::fmt;
use std::sync::Arc;
#[cfg(any(feature = "reqwest", feature = "tower"))]
use std::sync::atomic::Ordering;
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::error::{Error, Kind};
use crate::feedback::Profile;
use crate::scheduler::events::{Ask, Change, Name, Outcome, Priority, Reason};
use crate::scheduler::explain::Explanation;
use crate::scheduler::groups::Cancelled;
use crate::scheduler::history::History;
use crate::scheduler::memory::Snapshot;
use crate::scheduler::mode::Mode;

use super::builder::LimiterBuilder;
#[cfg(any(feature = "reqwest", feature = "tower"))]
use super::classifier::Classifier;
use super::ending::Tokens;
#[cfg(any(feature = "reqwest", feature = "tower"))]
use super::front::Front;
use super::gate::Gate;
use super::key::ApiKey;
use super::permit::{Leave, Permit, Verdict};
use super::running::Running;
use super::ticket::Ticket;

/// Decides when each request to one provider is sent, and on which key.
///
/// Cheap to clone: all clones are the same limiter. It is a middleware for `reqwest` (feature
/// `reqwest`), and for any other client there is [`Limiter::call`].
#[derive(Clone)]
pub struct Limiter(pub(super) Arc<Shared>, pub(super) Tokens);

pub(super) struct Shared {
    pub(super) gate: Arc<Gate>,
    pub(super) profile: Option<Profile>,
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(super) classifier: Classifier,
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(super) front: Front,
}

impl Limiter {
    /// A limiter that learns everything, of the application's own credentials.
    ///
    /// # Panics
    ///
    /// Never: the defaults are within their ranges.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build().expect("the defaults are valid")
    }

    /// Everything that can be set.
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::default()
    }

    /// The same limiter for what ends with `token`: once that is cancelled, whoever waits through
    /// this handle, and whoever comes, gets an error that [`Error::is_cancelled`]. What is in
    /// flight finishes, and is not repeated. Drop its future to end that too.
    ///
    /// ```
    /// # async fn example(limiter: paceline::Limiter) {
    /// use paceline::{Ask, CancellationToken};
    /// let page = CancellationToken::new();
    /// let limiter = limiter.until(&page);
    /// page.cancel();
    /// assert!(limiter.acquire(Ask::new()).await.unwrap_err().is_cancelled());
    /// # }
    /// ```
    #[must_use]
    pub fn until(&self, token: &CancellationToken) -> Self {
        Self(Arc::clone(&self.0), self.1.and(token))
    }

    /// Sends through any client: waits for a turn, runs `send`, and repeats it where the outcome
    /// allows. `send` answers with the outcome and with what to give back.
    ///
    /// ```
    /// # async fn example(limiter: paceline::Limiter) -> Result<(), paceline::Error> {
    /// use paceline::Ask;
    /// let status = limiter
    ///     .call(Ask::new(), |leave| async move {
    ///         // … send it on leave.key(), and read the answer:
    ///         let (status, headers) = (http::StatusCode::OK, http::HeaderMap::new());
    ///         (leave.outcome(status, &headers, None), status)
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If it was never sent, or no attempt ended before its deadline: see [`Error`]. What the last
    /// attempt gave comes back as it is.
    pub async fn call<R, F>(&self, ask: Ask, mut send: impl FnMut(Leave) -> F) -> Result<R, Error>
    where
        F: Future<Output = (Outcome, R)>,
    {
        let mut ticket = Ticket::watched(self.clone(), ask);
        let (mut last, running) = (None, Running::default());
        loop {
            let permit = match (ticket.await, last.take()) {
                (Ok(permit), kept) => {
                    last = kept;
                    permit
                }
                // There is a result: it is worth more than why there is no better one.
                (Err(_), Some(result)) => return Ok(result),
                (Err(error), None) => return Err(error),
            };
            let sent = permit.run(send(permit.leave().clone()), &running);
            let (outcome, result) = match sent.await {
                Ok((outcome, result)) => (outcome, Ok(result)),
                Err(late) => (Outcome::Broken, Err(late)),
            };
            match (permit.complete(&outcome), result) {
                (Verdict::Return { .. }, Ok(result)) => return Ok(result),
                (Verdict::Return { .. }, Err(late)) => return last.ok_or(late),
                (Verdict::Again(next), result) => {
                    last = result.ok().or(last);
                    ticket = next;
                }
            }
        }
    }

    /// A place in the queue, taken when the ticket is first polled. Errors of the ticket: see
    /// [`Error`].
    pub fn acquire(&self, ask: Ask) -> Ticket {
        Ticket::new(self.clone(), ask)
    }

    /// A permit, if there is one without waiting; none if there is not.
    ///
    /// # Errors
    ///
    /// If there will be none within the time that the ask allows, or never: see [`Error`].
    pub fn try_acquire(&self, ask: Ask) -> Result<Option<Permit>, Error> {
        Ticket::new(self.clone(), ask).enter()
    }

    /// Blocks this thread until its turn. It needs no runtime, and must not be called on one's
    /// worker threads: it would hold up the tasks there.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn acquire_blocking(&self, ask: Ask) -> Result<Permit, Error> {
        let mut ticket = Ticket::new(self.clone(), ask);
        if let Some(permit) = ticket.enter()? {
            return Ok(permit);
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            if let Poll::Ready(turn) = ticket.poll_turn(&waker) {
                return turn;
            }
            // Nobody else may be there to keep the time: this thread does it for all.
            let next = self.gate().next();
            let wait = next.since(self.gate().clock().now());
            if wait.is_zero() {
                self.gate().tick();
            } else {
                thread::park_timeout(wait.min(SLICE));
                if wait > SLICE {
                    self.gate().catch_up();
                }
            }
        }
    }

    /// Cancels what waits of a group, sends nothing more of it, and tells each of its callers; what
    /// is in flight finishes. Cancelling twice is no error, and whoever names the group afterwards
    /// begins it anew.
    pub fn cancel(&self, group: impl Into<Name>) -> Cancelled {
        self.gate().cancel_group(&group.into(), None, None)
    }

    /// The same, but spares what is at or above a priority: what a user has chosen is wanted even
    /// when the page around it is left.
    pub fn cancel_below(&self, group: impl Into<Name>, spare: Priority) -> Cancelled {
        self.gate().cancel_group(&group.into(), None, Some(spare))
    }

    /// Cancels a group because another takes its place, in one step. What is at or above `spare`
    /// is spared, and belongs to the new group from now on.
    pub fn replace(
        &self,
        old: impl Into<Name>,
        new: impl Into<Name>,
        spare: impl Into<Option<Priority>>,
    ) -> Cancelled {
        let (old, new) = (old.into(), new.into());
        self.gate().cancel_group(&old, Some(&new), spare.into())
    }

    /// A tenant says that it is there, such as every 30 s while a page is open. From its first
    /// heartbeat on it is judged by when it was last heard of: quiet, its share of the capacity
    /// shrinks, and when it is gone what still waits for it is cancelled ([`Settings::tenants`]).
    pub fn heartbeat(&self, tenant: impl Into<Name>) {
        self.gate().heartbeat(tenant.into());
    }

    /// Sets how much more than others a tenant gets: twice the weight, twice the share. Kept within
    /// 0.001 to 1,000; 1 unless set. A weight is kept, in some 100 bytes, until it is set to 1 again.
    pub fn set_weight(&self, tenant: impl Into<Name>, weight: f64) {
        self.gate().set_weight(tenant.into(), weight);
    }

    /// Replaces the keys, but for those that are renewed. Those that stay keep their state; what is
    /// in flight finishes on its key, and what waits and is pinned to one that goes is refused
    /// ([`Error::is_unknown_key`]).
    ///
    /// # Errors
    ///
    /// If a key cannot be sent, or there is none at all: requests would go without. Then nothing is
    /// replaced. To send nothing more, close the limiter; for requests without a key build one.
    pub fn set_keys(&self, keys: impl IntoIterator<Item = ApiKey>) -> Result<(), Error> {
        let keys: Vec<_> = keys.into_iter().collect();
        keys.iter().try_for_each(ApiKey::check)?;
        if keys.is_empty() && !self.gate().renews() {
            return Err(Kind::NoKey("set_keys").into());
        }
        #[cfg(any(feature = "reqwest", feature = "tower"))]
        self.0
            .front
            .has_keys
            .store(!keys.is_empty() || self.gate().renews(), Ordering::Relaxed);
        self.gate().set_keys(keys);
        Ok(())
    }

    /// What the limiter decides, and why: everything from now on. The first reader is also told what
    /// was decided before, of which the newest 1,024 are kept. After that nothing is kept for readers
    /// to come: what is decided while none is held is told to nobody.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes(self.gate().subscribe())
    }

    /// What it is up to, and why: every key, who waits, and for what. Print it, or write it with
    /// the feature `serde`.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        self.gate().explain()
    }

    /// What it has learned, for a later limiter of the same provider:
    /// [`LimiterBuilder::restore`]. It holds fingerprints of keys, never keys; with the feature
    /// `serde` it can be written to a file.
    ///
    /// ```
    /// # fn example(limiter: &paceline::Limiter) -> Result<(), paceline::Error> {
    /// let learned = limiter.snapshot();
    /// let next = paceline::Limiter::builder().restore(learned).build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.gate().snapshot()
    }

    /// What happened hour by hour since it was built; nothing unless
    /// [`LimiterBuilder::keep_history`] said so.
    #[must_use]
    pub fn history(&self) -> History {
        self.gate().history()
    }

    /// Whether limits are enforced.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.gate().mode()
    }

    /// Enforces limits, only observes them, or stays out of the way, from now on. Whoever waits
    /// passes at once unless limits are enforced; nothing that was learned or charged is lost. A
    /// `Deadline` of a request ends it in every mode.
    pub fn set_mode(&self, mode: Mode) {
        self.gate().set_mode(mode);
    }

    /// The settings as they are now.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.gate().settings()
    }

    /// Changes the settings from now on. What was learned and charged stays; only a pace or a
    /// concurrency of another kind begins anew. Those who wait keep the `max_wait` that they came
    /// with.
    ///
    /// ```
    /// # fn example(limiter: &paceline::Limiter) -> Result<(), paceline::Error> {
    /// let mut settings = limiter.settings();
    /// settings.max_concurrency = Some(4);
    /// limiter.set_settings(settings)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If a setting is out of its range, or is a ceiling that other processes share; then nothing
    /// is changed.
    pub fn set_settings(&self, settings: Settings) -> Result<(), Error> {
        self.gate().set_settings(settings)
    }

    /// How many wait, and how many are granted or in flight.
    #[must_use]
    pub fn depth(&self) -> (usize, usize) {
        self.gate().depth()
    }

    /// What the first request in turn waits for; none if none waits.
    #[must_use]
    pub fn waits_for(&self) -> Option<Reason> {
        self.gate().waits_for()
    }

    /// Accepts nothing more, refuses all who wait, and waits for what is in flight. A stream, or a
    /// body with [`Hold::Body`](crate::Hold::Body), is until it was read to its end or dropped: put
    /// a timeout around this, and drop what is left.
    pub async fn close(&self) {
        self.close_now();
        std::future::poll_fn(|context| self.gate().poll_idle(context.waker())).await;
    }

    /// Accepts nothing more and refuses all who wait. What is in flight finishes, and is not
    /// repeated.
    pub fn close_now(&self) {
        self.gate().close();
        // Who called the outside may have ended with its runtime.
        self.gate().see_to_agent();
    }

    /// What was said about the vendor. Where nothing was, the middleware goes by the host of each
    /// request.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.0.profile.clone().unwrap_or_default()
    }

    /// Whether two handles are of one limiter.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(super) fn front(&self) -> &Front {
        &self.0.front
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.0.gate
    }

    pub(crate) fn max_wait(&self) -> Option<Duration> {
        self.gate().max_wait()
    }

    pub(super) fn attempt_timeout(&self) -> Option<Duration> {
        self.gate().attempt_timeout()
    }

    pub(super) fn tokens(&self) -> &Tokens {
        &self.1
    }
}

impl Default for Limiter {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (waiting, in_flight) = self.depth();
        f.debug_struct("Limiter")
            .field("profile", &self.0.profile)
            .field("waiting", &waiting)
            .field("in_flight", &in_flight)
            .finish_non_exhaustive()
    }
}

/// A reader of what a limiter decides.
#[derive(Debug)]
pub struct Changes(broadcast::Receiver<Change>);

impl Changes {
    /// The next change; none when the limiter is gone. A reader that falls more than 1,024 changes
    /// behind misses the oldest.
    pub async fn next(&mut self) -> Option<Change> {
        loop {
            match self.0.recv().await {
                Ok(change) => return Some(change),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// The next change, if there is one already.
    pub fn try_next(&mut self) -> Option<Change> {
        loop {
            match self.0.try_recv() {
                Ok(change) => return Some(change),
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return None,
            }
        }
    }
}

/// Wakes a blocked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The longest sleep: a suspended machine is noticed this soon after it wakes.
const SLICE: Duration = Duration::from_secs(30);
