//! The client of each host: keys go to one host only, and every other has a limiter of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Url;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

use crate::Settings;
use crate::client::{Limiter, LimiterBuilder, http_client};
use crate::feedback::Profile;
use crate::shared::Sharing;
use crate::shared::store::Scope;

use super::door::{AtTheDoor, Door};
use super::error::Error;
use super::options::Options;

/// A client behind its limiter.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) http: ClientWithMiddleware,
    pub(crate) limiter: Limiter,
    pub(crate) profile: Profile,
}

/// Every host's client.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// Where the keys go.
    home: Origin,
    main: Arc<Client>,
    http: reqwest::Client,
    door: Arc<Door>,
    settings: Settings,
    shared: Option<Sharing>,
    others: Mutex<HashMap<Origin, Arc<Client>>>,
}

/// Scheme, host and port: a key goes to no other port and never without TLS where the first had it.
type Origin = (String, String, Option<u16>);

impl Hosts {
    /// Checks keys and settings before anything else is done.
    ///
    /// # Errors
    ///
    /// The first that is not valid, by name.
    pub(crate) fn check(options: &Options) -> Result<(), Error> {
        home(options, Profile::NONE, None)?;
        Ok(())
    }

    /// Sends the keys to the host of the base URL, else of `first`, and nowhere else.
    ///
    /// # Errors
    ///
    /// A key or a setting is not valid.
    pub(crate) fn new(options: &Options, first: &Url, door: Arc<Door>) -> Result<Self, Error> {
        let http = http_client()
            .user_agent(concat!("paceline/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .tcp_nodelay(true)
            .build()
            .expect("these settings fit together");
        let first = options.base_url.as_ref().unwrap_or(first);
        let profile = options.profile.clone().unwrap_or_else(|| known(first));
        Ok(Self {
            home: origin(first),
            main: client(&http, &door, home(options, profile, Some(first))?),
            http,
            door,
            settings: options.settings.clone(),
            shared: options.shared.clone(),
            others: Mutex::new(HashMap::new()),
        })
    }

    /// Whether the keys go to a URL's host.
    pub(crate) fn is_home(&self, url: &Url) -> bool {
        let (scheme, host, port) = &self.home;
        url.scheme() == scheme
            && url.host_str() == Some(host)
            && url.port_or_known_default() == *port
    }

    /// The client of a URL's host.
    pub(crate) fn client(&self, url: &Url) -> Arc<Client> {
        if self.is_home(url) {
            return Arc::clone(&self.main);
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = origin(url);
        if let Some(client) = others.get(&origin) {
            return Arc::clone(client);
        }
        if others.len() >= MOST_HOSTS {
            others.retain(|_, client| client.limiter.depth() != (0, 0));
        }
        let limiter = Limiter::builder()
            .profile(known(url))
            .settings(self.settings.clone());
        let limiter = share(limiter, self.shared.as_ref(), url)
            .build()
            .expect("the same settings were valid for the first host");
        let client = client(&self.http, &self.door, limiter);
        others.insert(origin, Arc::clone(&client));
        client
    }

    /// The limiter of the host that has the keys.
    pub(crate) fn main(&self) -> &Limiter {
        &self.main.limiter
    }

    /// How many other hosts were called.
    pub(crate) fn others(&self) -> usize {
        let others = self.others.lock();
        others.unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Gives back what is held of limits that are shared with other runs.
    pub(crate) async fn leave(&self) {
        if self.shared.is_none() {
            return;
        }
        let mut limiters = vec![self.main.limiter.clone()];
        {
            let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            limiters.extend(others.values().map(|client| client.limiter.clone()));
        }
        let leave = async {
            for limiter in limiters {
                limiter.close().await;
            }
        };
        // What the store does not hear of ends by itself within a lease.
        drop(tokio::time::timeout(LEAVE, leave).await);
    }

    /// Refuses all who wait, everywhere.
    pub(crate) fn close(&self) {
        self.main.limiter.close_now();
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        for client in others.values() {
            client.limiter.close_now();
        }
    }
}

/// The limiter of the host that has the keys, wherever its vendor's own hosts are.
fn home(options: &Options, profile: Profile, url: Option<&Url>) -> Result<Limiter, Error> {
    let host = url.and_then(|url| {
        let (_, host, port) = origin(url);
        port.map(|port| format!("{host}:{port}"))
    });
    let limiter = Limiter::builder()
        .profile(profile)
        .settings(options.settings.clone())
        .hosts(host)
        .keys(options.keys.iter().cloned());
    let limiter = match url {
        Some(url) => share(limiter, options.shared.as_ref(), url),
        None => limiter,
    };
    Ok(limiter.build()?)
}

/// Shares the limits of a host with other runs, if any are shared.
fn share(limiter: LimiterBuilder, shared: Option<&Sharing>, url: &Url) -> LimiterBuilder {
    let Some(sharing) = shared else {
        return limiter;
    };
    let (_, host, port) = origin(url);
    let name = format!("{host}:{}", port.unwrap_or_default());
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

/// What is known about the vendor of a host.
fn known(url: &Url) -> Profile {
    url.host_str()
        .and_then(Profile::by_host)
        .unwrap_or_default()
}

fn client(http: &reqwest::Client, door: &Arc<Door>, limiter: Limiter) -> Arc<Client> {
    let profile = limiter.profile();
    let http = ClientBuilder::new(http.clone())
        .with(limiter.clone())
        .with(AtTheDoor(Arc::clone(door)))
        .build();
    Arc::new(Client {
        http,
        limiter,
        profile,
    })
}

fn origin(url: &Url) -> Origin {
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
