//! The way to a server: one connection that many calls share, found again when it is lost, and
//! never waited for longer than a command may take.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig, SendError};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{
    Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, ProtocolVersion, PushInfo,
    PushKind, RedisError, ServerErrorKind,
};
use tokio::sync::{Mutex, Notify};

use super::super::store::StoreError;
use super::script::Call;

/// The connection, and who waits for news.
pub(super) struct Link {
    servers: Servers,
    /// Made by the first call, which runs where connections can live; and anew after a failure.
    line: Mutex<Option<Arc<Line>>>,
    timeout: Duration,
    news: Arc<Notify>,
    /// Where it leads, without credentials.
    address: String,
}

/// Where to connect.
enum Servers {
    One(Box<Client>),
    Cluster(Box<ClusterClient>),
}

/// A way that is used until it fails.
struct Line {
    way: Way,
    /// It has answered.
    is_made: AtomicBool,
    /// Calls that waited in vain for it to be made.
    waits: AtomicU32,
}

/// One connection, or one to every node.
#[derive(Clone)]
enum Way {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

impl Link {
    pub(super) fn open(url: &str, timeout: Duration) -> Result<Self, StoreError> {
        let (url, is_cluster) = match url.split_once("+cluster://") {
            Some((scheme, rest)) => (format!("{scheme}://{rest}"), true),
            None => (url.to_owned(), false),
        };
        let info = url.into_connection_info().map_err(|_| {
            // The text of the error repeats the URL, which may hold a password.
            StoreError::setting(
                "the store's URL is not of the form \
                 redis://[user:password@]host[:port][/db] or redis+cluster://…",
            )
        })?;
        let address = info.addr().to_string();
        let settings = info.redis_settings().clone();
        let info = info.set_redis_settings(settings.set_protocol(ProtocolVersion::RESP3));
        let news = Arc::new(Notify::new());
        let servers = if is_cluster {
            ClusterClient::builder([info])
                .use_protocol(ProtocolVersion::RESP3)
                .connection_timeout(timeout)
                .response_timeout(timeout)
                .retries(CLUSTER_RETRIES)
                .push_sender(bell(&news))
                .build()
                .map(|client| Servers::Cluster(Box::new(client)))
        } else {
            Client::open(info).map(|client| Servers::One(Box::new(client)))
        };
        Ok(Self {
            servers: servers.map_err(|error| unusable(&address, &error))?,
            line: Mutex::default(),
            timeout,
            news,
            address,
        })
    }

    async fn line(&self) -> Result<Arc<Line>, RedisError> {
        let mut line = self.line.lock().await;
        if let Some(line) = &*line {
            return Ok(Arc::clone(line));
        }
        let way = match &self.servers {
            Servers::One(client) => {
                let config = ConnectionManagerConfig::new()
                    .set_connection_timeout(Some(self.timeout))
                    .set_response_timeout(Some(self.timeout))
                    // The circuit above counts, and says when to try again.
                    .set_number_of_retries(0)
                    .set_automatic_resubscription()
                    .set_push_sender(bell(&self.news));
                let client = (**client).clone();
                Way::One(ConnectionManager::new_lazy_with_config(client, config)?)
            }
            Servers::Cluster(client) => Way::Cluster(client.get_async_connection().await?),
        };
        let made = Line {
            way,
            is_made: AtomicBool::new(false),
            waits: AtomicU32::new(0),
        };
        Ok(Arc::clone(line.insert(Arc::new(made))))
    }

    /// After a failure the next call connects anew, whatever it was: a server that died without a
    /// word or became a replica leaves its connections standing while another has taken over behind
    /// its address, and one that was greeted wrongly is never greeted again. What became of a
    /// cluster's nodes its own connections find out.
    async fn leave(&self, line: &Arc<Line>, error: &RedisError) {
        let is_being_made = error.is_timeout()
            && !line.is_made.load(Ordering::Relaxed)
            && line.waits.fetch_add(1, Ordering::Relaxed) < LONG_WAYS;
        if is_being_made || matches!(line.way, Way::Cluster(_)) {
            return;
        }
        let mut current = self.line.lock().await;
        if current
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, line))
        {
            *current = None;
            // Whoever listens there hears nothing any more.
            self.news.notify_waiters();
        }
    }

    pub(super) async fn call<T: FromRedisValue>(&self, call: Call) -> Result<T, StoreError> {
        match self.send(call.by_hash()).await {
            // It was not run, so running it now is no second time.
            Err(error) if is_unknown_script(&error) => self.send(call.by_source()).await,
            answer => answer,
        }
        .map_err(|error| self.explain(&error))
    }

    async fn send<T: FromRedisValue>(&self, command: Cmd) -> Result<T, RedisError> {
        let mut sent_on = None;
        let answer = async {
            let line = sent_on.insert(self.line().await?);
            match line.way.clone() {
                Way::One(mut way) => command.query_async(&mut way).await,
                Way::Cluster(mut way) => command.query_async(&mut way).await,
            }
        };
        // The connection has timeouts of its own for each of its steps; the sum is bounded here.
        let answer = match tokio::time::timeout(self.timeout, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        };
        match (&answer, &sent_on) {
            (Err(error), Some(line)) if !is_unknown_script(error) => self.leave(line, error).await,
            (_, Some(line)) => line.is_made.store(true, Ordering::Relaxed),
            (_, None) => {}
        }
        answer
    }

    /// Asks the server about itself.
    pub(super) async fn ask(&self, name: &str, about: &str) -> Result<String, RedisError> {
        let mut command = redis::cmd(name);
        command.arg(about);
        self.send(command).await
    }

    /// Waits for news on a channel.
    pub(super) async fn news(&self, channel: &str) {
        let heard = self.news.notified();
        // Where it cannot be subscribed to, whoever waits asks from time to time.
        drop(self.subscribe(channel).await);
        heard.await;
    }

    async fn subscribe(&self, channel: &str) -> Result<(), RedisError> {
        match self.line().await?.way.clone() {
            Way::One(mut way) => way.subscribe(channel).await,
            Way::Cluster(mut way) => way.subscribe(channel).await,
        }
    }

    fn explain(&self, error: &RedisError) -> StoreError {
        let address = &self.address;
        let is_io = error.is_io_error() || error.is_timeout() || error.is_connection_dropped();
        let is_loading = matches!(
            error.kind(),
            ErrorKind::Server(
                ServerErrorKind::BusyLoading
                    | ServerErrorKind::TryAgain
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::MasterDown
            )
        );
        if is_io || is_loading {
            StoreError::away(format!("store {address} does not answer: {error}"))
        } else {
            let what = format!("store {address} refuses: {error}");
            let is_forbidden = error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
                || what.contains("ACL failure");
            let needs = if is_forbidden { NEEDS } else { "" };
            StoreError::refused(what + needs)
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Wakes those who wait for news.
fn bell(news: &Arc<Notify>) -> impl Fn(PushInfo) -> Result<(), SendError> + Send + Sync + 'static {
    let news = Arc::clone(news);
    move |push| {
        // After a lost connection news may have been missed.
        if matches!(push.kind, PushKind::Message | PushKind::Disconnection) {
            news.notify_waiters();
        }
        Ok(())
    }
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

fn unusable(address: &str, error: &RedisError) -> StoreError {
    StoreError::setting(format!("store {address} cannot be used: {error}"))
}

/// A server that forbids a key or a channel does not say which.
const NEEDS: &str = "; its user needs ~paceline:* &paceline:* and some commands: see \
    paceline::shared::LEAST_PRIVILEGES";
/// Where the way is so long that greetings take longer than a command may, they go on while so many
/// calls wait in vain.
const LONG_WAYS: u32 = 8;
/// A call that finds a slot moved or a node gone asks this many times more, within its timeout.
const CLUSTER_RETRIES: u32 = 2;
