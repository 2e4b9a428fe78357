//! The client of each provider: keys go to its own hosts only, and every other host has a limiter
//! of its own.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Url;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

use crate::client::{ApiKey, Changes, Clock, Hold, Limiter, LimiterBuilder, http_client};
use crate::feedback::{Dimension, Profile};
use crate::scheduler::events::Change;
use crate::shared::Sharing;
use crate::shared::store::Scope;
use crate::{Settings, Time};

use super::door::{AtTheDoor, Door};
use super::error::Error;
use super::forbidden::Forbidden;
use super::options::{Options, Provider};
use super::outage::Outage;
use super::state::StateFile;

/// A provider behind its limiter.
#[derive(Debug)]
pub(crate) struct Client {
    /// As it is shown: its host, or the name that the configuration gives it.
    pub(crate) name: String,
    pub(crate) http: ClientWithMiddleware,
    pub(crate) limiter: Limiter,
    pub(crate) profile: Profile,
    pub(crate) settings: Settings,
    pub(crate) outage: Arc<Outage>,
    keys: Vec<ApiKey>,
    /// What each of them may do.
    pub(crate) forbidden: Forbidden,
    /// How long a request holds its slot.
    pub(crate) hold: Hold,
    /// When its limiter began.
    pub(crate) began: Time,
    /// What its limiter decides.
    changes: Mutex<Changes>,
}

impl Client {
    /// What the limiter has decided since this was last asked.
    pub(crate) fn changes(&self, mut each: impl FnMut(&Change)) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(change) = changes.try_next() {
            each(&change);
        }
    }

    /// Whether its requests carry a key.
    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whether a key that fails leaves others.
    pub(crate) fn has_others(&self) -> bool {
        self.keys.len() > 1
    }

    /// Goes on without the keys that are forbidden what others are not.
    pub(crate) fn leave_out(&self) {
        let keys = self.keys.iter();
        let stay = keys.filter(|key| self.forbidden.uses(key.fingerprint()));
        let set = self.limiter.set_keys(stay.cloned());
        set.expect("they were good, and a key that does better stays");
    }
}

/// Every host's client.
#[derive(Debug)]
pub(crate) struct Hosts {
    main: Arc<Client>,
    /// What clients are made of.
    maker: Maker,
    settings: Settings,
    clients: Mutex<HashMap<Origin, Arc<Client>>>,
}

#[derive(Debug)]
struct Maker {
    http: reqwest::Client,
    door: Arc<Door>,
    clock: Clock,
    shared: Option<Sharing>,
    scope: Option<Scope>,
    patience: Option<Duration>,
    /// What earlier runs had learned.
    state: Option<Arc<StateFile>>,
}

/// Scheme, host and port: a key goes to no other port and never without TLS where the first had it.
pub(crate) type Origin = (String, String, Option<u16>);

impl Hosts {
    /// Checks keys and settings before anything else is done.
    ///
    /// # Errors
    ///
    /// The first that is not valid, by name.
    pub(crate) fn check(options: &Options) -> Result<(), Error> {
        let named = |error, key: &ApiKey| match options.key_names.get(&key.fingerprint()) {
            Some(name) => Error::Key {
                name: name.clone(),
                source: error,
            },
            None => Error::Settings(error),
        };
        let provided = options.providers.iter().flat_map(|provider| &provider.keys);
        for key in options.keys.iter().chain(provided) {
            let alone = Limiter::builder().key(key.clone()).build();
            alone.map_err(|error| named(error, key))?;
        }
        let settings = options.providers.iter().map(|provider| &provider.settings);
        for settings in settings.chain([&options.settings]) {
            Limiter::builder().settings(settings.clone()).build()?;
        }
        Ok(())
    }

    /// Sends the keys to the host of the base URL, else of `first`, and nowhere else; those of
    /// each provider to its own hosts.
    ///
    /// # Errors
    ///
    /// A key or a setting is not valid.
    pub(crate) fn new(
        options: &Options,
        first: &Url,
        door: Arc<Door>,
        clock: Clock,
        state: Option<Arc<StateFile>>,
    ) -> Result<Self, Error> {
        let maker = Maker {
            http: http(),
            door,
            clock,
            shared: options.shared.clone(),
            scope: options.shared_scope.clone(),
            patience: options.max_outage,
            state,
        };
        let home = home_of(options, first);
        let mut clients = HashMap::new();
        let mut main = None;
        for provider in &options.providers {
            let is_home = provider.is_at(home);
            let own = options.keys.iter().filter(|_| is_home);
            let client = maker.client(
                &provider.name,
                &provider.origins,
                provider
                    .profile
                    .clone()
                    .or_else(|| options.profile.clone().filter(|_| is_home))
                    .or_else(|| provider.settings.profile.clone()),
                &provider.settings,
                own.chain(&provider.keys).cloned().collect(),
            )?;
            for url in &provider.origins {
                clients.insert(origin(url), Arc::clone(&client));
            }
            if is_home {
                main = Some(client);
            }
        }
        let main = match main {
            Some(main) => main,
            None => {
                let name = shown(home);
                let profile = options.profile.as_ref();
                let profile = profile.or(options.settings.profile.as_ref()).cloned();
                let keys = options.keys.clone();
                let urls = std::slice::from_ref(home);
                let main = maker.client(&name, urls, profile, &options.settings, keys)?;
                clients.insert(origin(home), Arc::clone(&main));
                main
            }
        };
        Ok(Self {
            main,
            maker,
            settings: options.settings.clone(),
            clients: Mutex::new(clients),
        })
    }

    /// The client of a URL's host.
    pub(crate) fn client(&self, url: &Url) -> Arc<Client> {
        let mut clients = self.lock();
        let origin = origin(url);
        if let Some(client) = clients.get(&origin) {
            return Arc::clone(client);
        }
        if clients.len() >= MOST_HOSTS {
            clients.retain(|_, client| client.has_keys() || client.limiter.depth() != (0, 0));
        }
        let name = shown(url);
        let urls = std::slice::from_ref(url);
        let client = self
            .maker
            .client(&name, urls, None, &self.settings, Vec::new())
            .expect("the same settings were valid for the first host");
        clients.insert(origin, Arc::clone(&client));
        client
    }

    /// Every provider that was called or has keys, each once.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        let mut all: Vec<_> = self.lock().values().cloned().collect();
        all.sort_by_key(Arc::as_ptr);
        all.dedup_by_key(|client| Arc::as_ptr(client));
        all
    }

    /// Whether there is one provider only, so that what it does not do, nobody does.
    pub(crate) fn is_single(&self) -> bool {
        self.all().len() == 1
    }

    /// How many hosts were called that have no keys, beside the one that the keys are for.
    pub(crate) fn others(&self) -> usize {
        let main = Arc::as_ptr(&self.main);
        let clients = self.lock();
        let others = clients
            .values()
            .filter(|client| Arc::as_ptr(client) != main);
        others.filter(|client| !client.has_keys()).count()
    }

    /// Gives back what is held of limits that are shared with other runs.
    pub(crate) async fn leave(&self) {
        if self.maker.shared.is_none() {
            return;
        }
        let leave = async {
            for client in self.all() {
                client.limiter.close().await;
            }
        };
        // What the store does not hear of ends by itself within a lease.
        drop(tokio::time::timeout(LEAVE, leave).await);
    }

    /// Refuses all who wait, everywhere.
    pub(crate) fn close(&self) {
        for client in self.all() {
            client.limiter.close_now();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Origin, Arc<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Provider {
    /// Whether a URL's requests go to it.
    fn is_at(&self, url: &Url) -> bool {
        self.origins.iter().any(|own| origin(own) == origin(url))
    }
}

/// Which of two has the keys of the command line: the base URL, else the first line's.
pub(crate) fn home_of<'a>(options: &'a Options, first: &'a Url) -> &'a Url {
    options.base_url.as_ref().unwrap_or(first)
}

/// Where a URL's requests are counted, with how many keys, and under which settings.
pub(crate) fn place_of<'a>(
    options: &'a Options,
    first: &Url,
    url: &Url,
) -> (String, usize, &'a Settings) {
    let is_home = origin(url) == origin(home_of(options, first));
    let own = options.keys.iter().filter(|_| is_home);
    // The same secret twice is one key.
    let count = |keys: &mut dyn Iterator<Item = &ApiKey>| {
        keys.map(ApiKey::fingerprint).collect::<BTreeSet<_>>().len()
    };
    let is_there = |provider: &&Provider| provider.is_at(url);
    match options.providers.iter().find(is_there) {
        Some(provider) => {
            let name = format!("{} ({})", shown(url), provider.name);
            let keys = count(&mut own.chain(&provider.keys));
            (name, keys, &provider.settings)
        }
        None => (shown(url), count(&mut own.into_iter()), &options.settings),
    }
}

impl Maker {
    /// A client of one provider, wherever its vendor's own hosts are.
    fn client(
        &self,
        name: &str,
        urls: &[Url],
        profile: Option<Profile>,
        settings: &Settings,
        keys: Vec<ApiKey>,
    ) -> Result<Arc<Client>, Error> {
        let hosts = urls.iter().filter_map(|url| {
            let (_, host, port) = origin(url);
            port.map(|port| format!("{host}:{port}"))
        });
        let profile = profile
            .or_else(|| urls.first().map(known))
            .unwrap_or_default();
        let limiter = Limiter::builder()
            .profile(profile)
            .settings(settings.clone())
            .hosts(hosts);
        let limiter = keys.iter().cloned().fold(limiter, LimiterBuilder::key);
        let limiter = match &self.state {
            Some(_) => limiter.keep_history(),
            None => limiter,
        };
        let known = self.state.as_ref().and_then(|state| state.known(name));
        let limiter = match known {
            Some(known) => limiter.restore(known.clone()),
            None => limiter,
        };
        let limiter = match urls.first() {
            Some(url) => share(limiter, self.shared.as_ref(), self.scope.as_ref(), url),
            None => limiter,
        };
        let began = self.clock.now();
        let limiter = limiter.build()?;
        let outage = Arc::new(Outage::new(name.to_owned(), self.patience));
        let http = ClientBuilder::new(self.http.clone())
            .with(limiter.clone())
            .with(AtTheDoor {
                door: Arc::clone(&self.door),
                outage: Arc::clone(&outage),
                clock: self.clock,
            })
            .build();
        Ok(Arc::new(Client {
            name: name.to_owned(),
            http,
            profile: limiter.profile(),
            settings: settings.clone(),
            outage,
            forbidden: Forbidden::new(keys.iter().map(ApiKey::fingerprint)),
            keys,
            hold: hold(settings),
            began,
            changes: Mutex::new(limiter.changes()),
            limiter,
        }))
    }
}

/// The client below all limiters.
fn http() -> reqwest::Client {
    http_client()
        .user_agent(concat!("paceline/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE)
        .tcp_nodelay(true)
        .build()
        .expect("these settings fit together")
}

/// Shares the limits of a host with other runs, if any are shared.
fn share(
    limiter: LimiterBuilder,
    shared: Option<&Sharing>,
    scope: Option<&Scope>,
    url: &Url,
) -> LimiterBuilder {
    let Some(sharing) = shared else {
        return limiter;
    };
    let (_, host, port) = origin(url);
    let before = scope.map_or_else(String::new, |scope| format!("{}:", scope.as_str()));
    let name = format!("{before}{host}:{}", port.unwrap_or_default());
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || ".:-".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(plain).take(LONGEST_SCOPE).collect();
    let scope = Scope::new(name).expect("every other sign was replaced");
    limiter.shared(sharing.clone().scope(scope))
}

/// Where a ceiling counts more than requests, what a request has taken is told at the end of its
/// answer: the next one is decided about after that.
fn hold(settings: &Settings) -> Hold {
    let mut ceilings = settings.ceilings.iter().chain(&settings.shared_ceilings);
    match ceilings.any(|ceiling| ceiling.dimension() != Dimension::Requests) {
        true => Hold::Body,
        false => Hold::Auto,
    }
}

/// What is known about the vendor of a host.
fn known(url: &Url) -> Profile {
    url.host_str()
        .and_then(Profile::by_host)
        .unwrap_or_default()
}

/// A host as it is shown, with its port where that is an unusual one.
fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

pub(crate) fn origin(url: &Url) -> Origin {
    let host = url.host_str().unwrap_or_default().to_owned();
    (url.scheme().to_owned(), host, url.port_or_known_default())
}

/// A host that is there answers a connection within this on any network.
const CONNECT: Duration = Duration::from_secs(10);

/// The longest silence of a server: long generations say nothing for minutes, and the SDKs of
/// language models give up after this too.
const SILENCE: Duration = Duration::from_secs(600);

/// A store that does not answer must not keep a run that is done.
const LEAVE: Duration = Duration::from_millis(500);

/// What a scope may hold; hosts are shorter.
const LONGEST_SCOPE: usize = 128;

/// Hosts beyond this lose what was learned about idle ones.
const MOST_HOSTS: usize = 1_024;
