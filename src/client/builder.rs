//! Everything that can be set of a limiter, before it starts.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;

use crate::config::Settings;
use crate::error::{Error, Kind};
use crate::feedback::Profile;
use crate::scheduler::Scheduler;
use crate::scheduler::ceiling::Ceiling;
use crate::scheduler::concurrency::Concurrency;
#[cfg(feature = "reqwest")]
use crate::scheduler::events::Ask;
use crate::scheduler::events::Name;
use crate::scheduler::keys::{HintScope, Penalty};
use crate::scheduler::memory::Snapshot;
use crate::scheduler::mode::Mode;
use crate::scheduler::pace::PaceSettings;
use crate::scheduler::reserve::Reserve;
use crate::scheduler::retry::RetrySettings;
use crate::scheduler::shedding::Shedding;
use crate::scheduler::{Delays, TenantSettings, Time};

use super::buyer::Opening;
#[cfg(any(feature = "reqwest", feature = "tower"))]
use super::classifier::Classifier;
use super::clock::{Clock, seconds};
use super::ending::Tokens;
#[cfg(feature = "reqwest")]
use super::front::AskWith;
#[cfg(any(feature = "reqwest", feature = "tower"))]
use super::front::Front;
use super::gate::Gate;
use super::key::ApiKey;
use super::limiter::{Limiter, Shared};
use super::renewal::{Renewal, Renewals, Renewed};
#[cfg(feature = "metrics")]
use super::telemetry::Labels;
#[cfg(any(feature = "metrics", feature = "tracing"))]
use super::telemetry::Telemetry;

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
    #[cfg(feature = "metrics")]
    labels: Arc<Labels>,
    keeps_history: bool,
    #[cfg(any(feature = "reqwest", feature = "tower"))]
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

    /// Adds keys, at least one: an empty list is an error of [`LimiterBuilder::build`], because
    /// requests would go without a key. Leave this out where they are to.
    pub fn keys(mut self, keys: impl IntoIterator<Item = ApiKey>) -> Self {
        let before = self.keys.len();
        self.keys.extend(keys);
        if self.keys.len() == before {
            self.fault = self.fault.or_else(|| Some(Kind::NoKey("keys").into()));
        }
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
    #[cfg(any(feature = "reqwest", feature = "tower"))]
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

    /// Writes down what happens, hour by hour and key by key: see [`Limiter::history`].
    pub fn keep_history(mut self) -> Self {
        self.keeps_history = true;
        self
    }

    /// The same where it has none yet.
    #[cfg(feature = "reqwest")]
    pub(super) fn named(mut self, name: &str) -> Self {
        self.name.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Its metrics share their labels with those of others.
    #[cfg(all(feature = "metrics", feature = "reqwest"))]
    pub(super) fn labelled(mut self, labels: &Arc<Labels>) -> Self {
        self.labels = Arc::clone(labels);
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
        #[cfg(any(feature = "reqwest", feature = "tower"))]
        let front = Front::new(
            &self.hosts,
            profile.clone(),
            #[cfg(feature = "reqwest")]
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
            #[cfg(feature = "reqwest")]
            front.places.recall(machine.apart());
        }
        let buyer = match self.buyer {
            Some(Opening(open)) => Some(open(settings, &mut machine)?),
            None => None,
        };
        if self.keeps_history {
            machine.keep_history(seconds(Clock::new().wall()));
        }
        #[cfg(any(feature = "metrics", feature = "tracing"))]
        let telemetry = {
            let known = profile.as_ref().map(Profile::name);
            let name = self.name.as_deref().or(known).unwrap_or("unnamed");
            Telemetry::new(
                name,
                #[cfg(feature = "metrics")]
                self.labels,
            )
        };
        let shared = Shared {
            gate: Gate::new(
                machine,
                self.keys,
                self.renewals,
                buyer,
                #[cfg(any(feature = "metrics", feature = "tracing"))]
                telemetry,
            ),
            profile,
            #[cfg(any(feature = "reqwest", feature = "tower"))]
            classifier: self.classifier,
            #[cfg(any(feature = "reqwest", feature = "tower"))]
            front,
        };
        Ok(Limiter(Arc::new(shared), Tokens::default()))
    }
}
