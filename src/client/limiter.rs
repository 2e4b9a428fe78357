//! The handle of one provider: what a program makes once, clones, and sends through.

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "reqwest")]
use std::sync::atomic::Ordering;
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use rand::RngExt;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::error::{Error, Kind};
use crate::feedback::Profile;
use crate::scheduler::ceiling::Ceiling;
use crate::scheduler::concurrency::Concurrency;
use crate::scheduler::events::{Ask, Change, Name, Outcome, Priority, Reason};
use crate::scheduler::explain::Explanation;
use crate::scheduler::groups::Cancelled;
use crate::scheduler::keys::{HintScope, Penalty};
use crate::scheduler::memory::Snapshot;
use crate::scheduler::mode::Mode;
use crate::scheduler::pace::PaceSettings;
use crate::scheduler::reserve::Reserve;
use crate::scheduler::retry::RetrySettings;
use crate::scheduler::shedding::Shedding;
use crate::scheduler::{Delays, Scheduler, TenantSettings, Time};

use super::buyer::Opening;
#[cfg(any(feature = "reqwest", feature = "tower"))]
use super::classifier::Classifier;
use super::clock::{Clock, seconds};
use super::ending::Tokens;
#[cfg(feature = "reqwest")]
use super::front::{AskWith, Front};
use super::gate::Gate;
use super::key::ApiKey;
use super::permit::{Leave, Permit, Ticket, Verdict};
use super::renewal::{Renewal, Renewals, Renewed};

/// Decides when each request to one provider is sent, and on which key.
///
/// Cheap to clone: all clones are the same limiter. It is a middleware for `reqwest` (feature
/// `reqwest`), and for any other client there is [`Limiter::call`].
#[derive(Clone)]
pub struct Limiter(pub(super) Arc<Shared>, Tokens);

pub(super) struct Shared {
    gate: Arc<Gate>,
    profile: Option<Profile>,
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(super) classifier: Classifier,
    #[cfg(feature = "reqwest")]
    front: Front,
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
        let mut last = None;
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
            let (outcome, result) = match permit.run(send(permit.leave().clone()), || false).await {
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
    /// If there never will be one: see [`Error`].
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
    /// 0.001 to 1,000; 1 unless set.
    pub fn set_weight(&self, tenant: impl Into<Name>, weight: f64) {
        self.gate().set_weight(tenant.into(), weight);
    }

    /// Replaces the keys, but for those that are renewed. Those that stay keep their state; what is
    /// in flight finishes on its key.
    ///
    /// # Errors
    ///
    /// If a key cannot be sent; then nothing is replaced.
    pub fn set_keys(&self, keys: impl IntoIterator<Item = ApiKey>) -> Result<(), Error> {
        let keys: Vec<_> = keys.into_iter().collect();
        keys.iter().try_for_each(ApiKey::check)?;
        #[cfg(feature = "reqwest")]
        self.0
            .front
            .has_keys
            .store(!keys.is_empty() || self.gate().renews(), Ordering::Relaxed);
        self.gate().set_keys(keys);
        Ok(())
    }

    /// What the limiter decides, and why: everything from now on, and what nobody has read yet.
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

    /// Accepts nothing more, refuses all who wait, and waits for what is in flight.
    pub async fn close(&self) {
        self.close_now();
        std::future::poll_fn(|context| self.gate().poll_idle(context.waker())).await;
    }

    /// Accepts nothing more and refuses all who wait. What is in flight finishes, and is not
    /// repeated.
    pub fn close_now(&self) {
        self.gate().close();
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

    #[cfg(feature = "reqwest")]
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

/// Sets up a [`Limiter`]. Every part is optional.
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until it is built"]
pub struct LimiterBuilder {
    settings: Settings,
    profile: Option<Profile>,
    keys: Vec<ApiKey>,
    renewals: Renewals,
    seed: Option<u64>,
    learned: Option<Snapshot>,
    name: Option<String>,
    #[cfg(feature = "reqwest")]
    hosts: Vec<String>,
    #[cfg(feature = "reqwest")]
    ask_with: Option<AskWith>,
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    classifier: Classifier,
    /// Where grants are paid for outside.
    pub(crate) buyer: Option<Opening>,
    /// The first rate that could not be read.
    fault: Option<Error>,
}

impl LimiterBuilder {
    /// What is known about the vendor: a known one, or one that you describe with
    /// [`Description`](crate::feedback::Description). Default: what its host says.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Adds a key. The same secret twice is one key.
    pub fn key(mut self, key: ApiKey) -> Self {
        self.keys.push(key);
        self
    }

    /// Adds keys.
    pub fn keys(mut self, keys: impl IntoIterator<Item = ApiKey>) -> Self {
        self.keys.extend(keys);
        self
    }

    /// Adds a key that `renew` brings, and brings anew before it expires: an access token of OAuth
    /// 2.0, say. `name` is the account, and what is learned of it outlives its secrets; the
    /// fingerprint is one of the name.
    ///
    /// The first request calls `renew`, and all wait for the one call. Later calls come when four
    /// fifths of the life are over, if there are requests then, and when the server refuses a secret
    /// that is older than 10 s (that request goes once more with the new one). A call may take 30 s.
    /// After a failure the old secret is used as long as it is good, and the next call comes after
    /// 1 s, then 2 s, at most 60 s; each failure is a change. Where there is no secret, and no other
    /// key, requests are refused with [`Error::is_renewal`] from the third failure in a row until
    /// one succeeds.
    ///
    /// ```
    /// use paceline::{ApiKey, Limiter, Renewed};
    /// use std::time::Duration;
    ///
    /// # async fn log_in() -> Result<String, std::io::Error> { Ok("token".to_owned()) }
    /// let limiter = Limiter::builder()
    ///     .renewed_key("partner account", || async {
    ///         let token = log_in().await?;
    ///         let key = Renewed::new(ApiKey::bearer(token));
    ///         Ok::<_, std::io::Error>(key.expires_in(Duration::from_secs(3600)))
    ///     })
    ///     .build()?;
    /// # Ok::<(), paceline::Error>(())
    /// ```
    pub fn renewed_key<F, E>(
        mut self,
        name: impl Into<Name>,
        renew: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Renewed, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.renewals.add(Renewal::new(name.into(), renew));
        self
    }

    /// Adds a hard rate that each key keeps for itself, such as `"1/1s+10%"`.
    pub fn ceiling<C>(mut self, ceiling: C) -> Self
    where
        C: TryInto<Ceiling>,
        C::Error: Into<Error>,
    {
        match ceiling.try_into() {
            Ok(ceiling) => self.settings.ceilings.push(ceiling),
            Err(error) => self.fault = self.fault.or_else(|| Some(error.into())),
        }
        self
    }

    /// Adds a hard rate that all keys keep together (an account's).
    pub fn shared_ceiling<C>(mut self, ceiling: C) -> Self
    where
        C: TryInto<Ceiling>,
        C::Error: Into<Error>,
    {
        match ceiling.try_into() {
            Ok(ceiling) => self.settings.shared_ceilings.push(ceiling),
            Err(error) => self.fault = self.fault.or_else(|| Some(error.into())),
        }
        self
    }

    /// Sets [`Settings::mode`].
    pub fn mode(mut self, mode: Mode) -> Self {
        self.settings.mode = mode;
        self
    }

    /// Sets [`Settings::key_concurrency`].
    pub fn key_concurrency(mut self, most: u32) -> Self {
        self.settings.key_concurrency = most;
        self
    }

    /// Sets [`Settings::max_concurrency`].
    pub fn max_concurrency(mut self, most: impl Into<Option<u32>>) -> Self {
        self.settings.max_concurrency = most.into();
        self
    }

    /// Sets [`Settings::concurrency`].
    pub fn concurrency(mut self, concurrency: Concurrency) -> Self {
        self.settings.concurrency = concurrency;
        self
    }

    /// Sets [`Settings::pace`].
    pub fn pace(mut self, pace: PaceSettings) -> Self {
        self.settings.pace = pace;
        self
    }

    /// Sets [`Settings::max_wait`]; `None` waits for ever.
    pub fn max_wait(mut self, most: impl Into<Option<Duration>>) -> Self {
        self.settings.max_wait = most.into();
        self
    }

    /// Sets [`Settings::attempt_timeout`].
    pub fn attempt_timeout(mut self, most: impl Into<Option<Duration>>) -> Self {
        self.settings.attempt_timeout = most.into();
        self
    }

    /// Sets [`Settings::reserve`].
    pub fn reserve(mut self, reserve: impl Into<Option<Reserve>>) -> Self {
        self.settings.reserve = reserve.into();
        self
    }

    /// Sets [`Settings::shedding`].
    pub fn shedding(mut self, shedding: impl Into<Option<Shedding>>) -> Self {
        self.settings.shedding = shedding.into();
        self
    }

    /// Sets [`Settings::delays`].
    pub fn delays(mut self, delays: impl Into<Option<Delays>>) -> Self {
        self.settings.delays = delays.into();
        self
    }

    /// Sets [`Settings::tenants`].
    pub fn tenants(mut self, tenants: TenantSettings) -> Self {
        self.settings.tenants = tenants;
        self
    }

    /// Sets [`Settings::queue`].
    pub fn queue(mut self, bound: usize) -> Self {
        self.settings.queue = bound;
        self
    }

    /// Sets [`Settings::retry`].
    pub fn retry(mut self, retry: RetrySettings) -> Self {
        self.settings.retry = retry;
        self
    }

    /// Sets [`Settings::penalty`].
    pub fn penalty(mut self, penalty: Penalty) -> Self {
        self.settings.penalty = penalty;
        self
    }

    /// Sets [`Settings::hint_scope`].
    pub fn hint_scope(mut self, scope: HintScope) -> Self {
        self.settings.hint_scope = scope;
        self
    }

    /// Sets [`Settings::longest_park`].
    pub fn longest_park(mut self, longest: Duration) -> Self {
        self.settings.longest_park = longest;
        self
    }

    /// Sets all settings at once, such as those of a file; ceilings that were added before are
    /// replaced too.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Adds hosts that the limiter is for, such as `"api.example.com"`; requests to others pass it
    /// by, without key and without gates. Default: those of the profile, else for a limiter with
    /// keys the host of its first request, else all.
    #[cfg(feature = "reqwest")]
    pub fn hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.hosts.extend(hosts.into_iter().map(Into::into));
        self
    }

    /// Says what each request asks for that carries no [`Ask`] of its own, those of SDKs too. If
    /// it panics the request asks for the default, and a change says so.
    #[cfg(feature = "reqwest")]
    pub fn ask_with(
        mut self,
        ask_with: impl Fn(&reqwest::Request) -> Ask + Send + Sync + 'static,
    ) -> Self {
        self.ask_with = Some(AskWith(Box::new(ask_with)));
        self
    }

    /// Begins with what another limiter of the same provider had learned: it starts without the
    /// refusals that cost it, holds the waits that the server asked for, and counts what was spent
    /// of the ceilings. What is old is believed less ([`Snapshot`]), and what is about keys that
    /// this limiter does not have is passed over.
    pub fn restore(mut self, learned: Snapshot) -> Self {
        self.learned = Some(learned);
        self
    }

    /// What it is called in spans and metrics (features `tracing` and `metrics`). Default: the name
    /// of its profile, and for a limiter of [`Limiters`](crate::Limiters) its host.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The same where it has none yet.
    #[cfg(feature = "reqwest")]
    pub(super) fn named(mut self, name: &str) -> Self {
        self.name.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Says what priority a request has that names none itself: by its method, by its path.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub fn classify(mut self, classifier: Classifier) -> Self {
        self.classifier = classifier;
        self
    }

    /// Decides the jitter. Default: another one each time.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Checks everything, and starts.
    ///
    /// # Errors
    ///
    /// The first key, rate or setting that is not valid, by name.
    pub fn build(self) -> Result<Limiter, Error> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.keys.iter().try_for_each(ApiKey::check)?;
        let profile = self.profile.or_else(|| self.settings.profile.clone());
        #[cfg(feature = "reqwest")]
        let front = Front::new(
            &self.hosts,
            profile.clone(),
            self.ask_with,
            !self.keys.is_empty() || !self.renewals.is_empty(),
        )?;
        let seed = self.seed.unwrap_or_else(|| rand::rng().random());
        if let Some(name) = self.renewals.double() {
            return Err(Kind::Key(format!("two renewed keys are named {name:?}")).into());
        }
        let fixed = self.keys.iter().map(ApiKey::fingerprint);
        let fingerprints: Vec<_> = fixed.chain(self.renewals.fingerprints()).collect();
        let settings = self.settings.clone();
        let mut machine = Scheduler::new(self.settings, &fingerprints, seed)?;
        self.renewals
            .fingerprints()
            .for_each(|key| machine.await_secret(key));
        if let Some(learned) = self.learned {
            let now = seconds(Clock::new().wall());
            let age = Duration::from_secs(now.saturating_sub(learned.taken()));
            machine.restore(&learned, age, Time::START);
        }
        let buyer = match self.buyer {
            Some(Opening(open)) => Some(open(settings, &mut machine)?),
            None => None,
        };
        let known = profile.as_ref().map(Profile::name);
        let name = self.name.as_deref().or(known).unwrap_or("unnamed");
        let shared = Shared {
            gate: Gate::new(machine, self.keys, self.renewals, buyer, name),
            profile,
            #[cfg(any(feature = "reqwest", feature = "tower"))]
            classifier: self.classifier,
            #[cfg(feature = "reqwest")]
            front,
        };
        Ok(Limiter(Arc::new(shared), Tokens::default()))
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
