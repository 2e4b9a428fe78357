//! The way to a server: one connection that many calls share, found again when it is lost, and
//! never waited for longer than a command may take.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// Made by the first call, which runs where connections can live; and anew when it leads
    /// nowhere any more.
    line: Mutex<Option<(Line, u64)>>,
    /// How many were made.
    lines: AtomicU64,
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

/// One connection, or one to every node. Both find the way again when it is lost.
#[derive(Clone)]
enum Line {
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
            lines: AtomicU64::new(0),
            timeout,
            news,
            address,
        })
    }

    /// The connection, and which one it is.
    async fn line(&self) -> Result<(Line, u64), RedisError> {
        let mut line = self.line.lock().await;
        if let Some(line) = &*line {
            return Ok(line.clone());
        }
        let made = match &self.servers {
            Servers::One(client) => {
                let config = ConnectionManagerConfig::new()
                    .set_connection_timeout(Some(self.timeout))
                    .set_response_timeout(Some(self.timeout))
                    // The circuit above counts, and says when to try again.
                    .set_number_of_retries(0)
                    .set_automatic_resubscription()
                    .set_push_sender(bell(&self.news));
                let client = (**client).clone();
                Line::One(ConnectionManager::new_lazy_with_config(client, config)?)
            }
            Servers::Cluster(client) => Line::Cluster(client.get_async_connection().await?),
        };
        let number = self.lines.fetch_add(1, Ordering::Relaxed);
        Ok(line.insert((made, number)).clone())
    }

    /// Makes the next call connect anew. What a cluster's nodes are, its own connections find out.
    async fn leave(&self, number: u64) {
        let mut line = self.line.lock().await;
        if line
            .as_ref()
            .is_some_and(|(line, current)| *current == number && matches!(line, Line::One(_)))
        {
            *line = None;
            // Whoever listens there hears nothing any more.
            self.news.notify_waiters();
        }
    }

    pub(super) async fn call<T: FromRedisValue>(&self, call: Call) -> Result<T, StoreError> {
        match self.send(call.by_hash()).await {
            // It was not run, so running it now is no second time.
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.send(call.by_source()).await
            }
            answer => answer,
        }
        .map_err(|error| self.explain(&error))
    }

    async fn send<T: FromRedisValue>(&self, command: Cmd) -> Result<T, RedisError> {
        let mut sent_on = None;
        let answer = async {
            let (line, number) = self.line().await?;
            sent_on = Some(number);
            match line {
                Line::One(mut line) => command.query_async(&mut line).await,
                Line::Cluster(mut line) => command.query_async(&mut line).await,
            }
        };
        // The connection has timeouts of its own for each of its steps; the sum is bounded here.
        let answer = match tokio::time::timeout(self.timeout, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        };
        if let (Err(error), Some(number)) = (&answer, sent_on)
            && leads_nowhere(error)
        {
            self.leave(number).await;
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
        match self.line().await?.0 {
            Line::One(mut line) => line.subscribe(channel).await,
            Line::Cluster(mut line) => line.subscribe(channel).await,
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

/// Whether the other end may be somebody else by now: a server that died without a word, or that
/// another has taken over from behind the same address, leaves its connections standing.
fn leads_nowhere(error: &RedisError) -> bool {
    let is_replica = matches!(
        error.kind(),
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown)
    );
    error.is_timeout() || is_replica
}

fn unusable(address: &str, error: &RedisError) -> StoreError {
    StoreError::setting(format!("store {address} cannot be used: {error}"))
}

/// A server that forbids a key or a channel does not say which.
const NEEDS: &str = "; its user needs ~paceline:* &paceline:* and some commands: see \
    paceline::shared::LEAST_PRIVILEGES";
/// A call that finds a slot moved or a node gone asks this many times more, within its timeout.
const CLUSTER_RETRIES: u32 = 2;
