//! Requests that are dropped at random in every phase: at the end nothing is queued, nothing is in
//! flight, and every slot is there.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use paceline::{
    Ask, CancellationToken, Cost, Deadline, Group, Hold, Limiter, Priority, Replay, RetrySettings,
    Tenant, Until,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tokio::time::{sleep, timeout};

use super::provider::{Provider, ok, status, unlearned};
use super::server::{self, Server, Step};

/// How many may be in flight.
const SLOTS: u32 = 50;

/// What became of the requests.
#[derive(Debug, Default)]
struct Ends {
    served: AtomicUsize,
    refused: AtomicUsize,
    dropped: AtomicUsize,
}

fn limiter() -> Limiter {
    let mut retry = RetrySettings::default();
    retry.base = Some(Duration::from_millis(20));
    unlearned()
        .key_concurrency(SLOTS)
        .ceiling("4000/1s")
        .max_wait(Duration::from_secs(20))
        .retry(retry)
        .build()
        .unwrap()
}

/// One request, by a way and with wishes of its own, dropped after a while of its own.
async fn one(
    limiter: Limiter,
    client: ClientWithMiddleware,
    url: String,
    seed: u64,
    ends: Arc<Ends>,
) {
    let mut dice = SmallRng::seed_from_u64(seed);
    // Some before their first poll, most in the queue, in flight or between attempts, some never.
    let patience = match dice.random_range(0..10) {
        0 => Duration::ZERO,
        1..8 => Duration::from_millis(dice.random_range(0..400)),
        _ => Duration::from_secs(3600),
    };
    let token = CancellationToken::new();
    let ask = Ask::new()
        .priority(Priority(dice.random()))
        .replay(Replay::Always)
        .cost(Cost::points(dice.random_range(1..4)))
        .deadline(Duration::from_millis(dice.random_range(1..5000)));
    let way: Pin<Box<dyn Future<Output = bool> + Send>> = match dice.random_range(0..10) {
        0 => Box::pin({
            let (limiter, token) = (limiter.until(&token), token.clone());
            async move {
                let call = limiter.call(ask, |leave| async move {
                    sleep(Duration::from_millis(20)).await;
                    let code = if leave.attempt() == 1 { 503 } else { 200 };
                    let code = http::StatusCode::from_u16(code).unwrap();
                    (leave.outcome(code, &Default::default(), None), ())
                });
                let ended = call.await.is_ok();
                token.cancel();
                ended
            }
        }),
        1 => Box::pin(async move {
            let Ok(permit) = limiter.acquire(ask).until(&token).await else {
                return false;
            };
            sleep(Duration::from_millis(10)).await;
            drop(permit);
            true
        }),
        n => {
            let mut request = client
                .get(url)
                .with_extension(Priority(dice.random()))
                .with_extension(Deadline(Duration::from_millis(dice.random_range(1..8000))))
                .with_extension(Tenant::new(["a", "b", "c"][n % 3]))
                .with_extension(Until(token.clone()))
                .with_extension([Hold::Auto, Hold::Body, Hold::Headers][n % 3]);
            if n == 9 {
                request = request.with_extension(Group::new("cancelled"));
            }
            if n == 8 {
                let after = Duration::from_millis(dice.random_range(0..300));
                tokio::spawn(async move {
                    sleep(after).await;
                    token.cancel();
                });
            }
            let reads_after = Duration::from_millis(dice.random_range(0..50));
            Box::pin(async move {
                let Ok(reply) = request.send().await else {
                    return false;
                };
                sleep(reads_after).await;
                let is_served = reply.status().is_success();
                drop(reply.bytes().await);
                is_served
            })
        }
    };
    let end = match timeout(patience, way).await {
        Ok(true) => &ends.served,
        Ok(false) => &ends.refused,
        Err(_) => &ends.dropped,
    };
    end.fetch_add(1, Ordering::SeqCst);
}

/// Everybody has gone: the limiter is as it was in the beginning.
async fn assert_nothing_is_left(limiter: &Limiter, ends: &Ends, count: usize) {
    assert_eq!(limiter.depth(), (0, 0), "{ends:?}");
    // A slow start after the last refusal may still hold some back for a while, never for good.
    let all = (0..SLOTS).map(|_| limiter.acquire(Ask::new()));
    let all = timeout(Duration::from_secs(60), try_join_all(all)).await;
    let all = all.unwrap_or_else(|_| panic!("a slot is lost: {}", limiter.explain()));
    let all = all.unwrap_or_else(|error| panic!("{error}: {}", limiter.explain()));
    let more = timeout(
        Duration::from_secs(60),
        limiter.acquire(Ask::new().deadline(Duration::from_secs(1))),
    )
    .await;
    assert!(!matches!(more, Ok(Ok(_))), "a slot too many");
    drop(all);
    assert_eq!(limiter.depth(), (0, 0));
    let ends = [&ends.served, &ends.refused, &ends.dropped].map(|end| end.load(Ordering::SeqCst));
    println!("{count} requests: {ends:?} served, refused, dropped");
    assert_eq!(ends.iter().sum::<usize>(), count);
    assert!(
        ends.iter().all(|&end| end > count / 100),
        "every end is met"
    );
}

async fn soak(count: usize, seed: u64) {
    println!("seed {seed}");
    let provider = Provider::new(|_, number| match number % 100 {
        99 => status(429),
        n if n % 9 == 0 => status(503),
        n if n % 7 == 0 => {
            let mut reply = ok();
            let kind = "text/event-stream".parse().unwrap();
            reply.headers_mut().insert("content-type", kind);
            reply
        }
        _ => ok(),
    })
    .taking(Duration::from_millis(40));
    let limiter = limiter();
    let client = provider.client([limiter.clone()]);
    run(count, seed, limiter, client, "http://api.test/").await;
}

/// Up to a thousand at a time, and a group of them is cancelled now and then.
async fn run(count: usize, seed: u64, limiter: Limiter, client: ClientWithMiddleware, url: &str) {
    let ends = Arc::new(Ends::default());
    let mut running = FuturesUnordered::new();
    for n in 0..count {
        let (limiter, client) = (limiter.clone(), client.clone());
        let one = one(
            limiter.clone(),
            client,
            url.to_owned(),
            seed + n as u64,
            Arc::clone(&ends),
        );
        running.push(tokio::spawn(one));
        if n % 500 == 0 {
            limiter.cancel("cancelled");
            sleep(Duration::from_millis(5)).await;
        }
        if running.len() >= 1000 {
            running.next().await.unwrap().unwrap();
        }
    }
    while let Some(ended) = running.next().await {
        ended.unwrap();
    }
    assert_nothing_is_left(&limiter, &ends, count).await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_dropped_in_every_phase_leave_nothing_behind() {
    soak(100_000, 11).await;
}

async fn soak_on_sockets(count: usize) {
    let server = Server::start(|_, number| {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let event = Step::Send(b"9\r\ndata: 1\n\n\r\n".to_vec());
        match number % 60 {
            59 => vec![server::answer(429, &[], b"")],
            n if n % 11 == 0 => vec![server::answer(503, &[], b"later")],
            n if n % 13 == 0 => vec![Step::Reset],
            n if n % 17 == 0 => vec![Step::Sleep(Duration::from_millis(200)), server::ok()],
            n if n % 7 == 0 => {
                let mut steps = vec![Step::Send(head.to_vec())];
                steps.extend((0..5).flat_map(|_| [event.clone(), Step::Sleep(Duration::from_millis(3))]));
                steps.push(Step::Send(b"0\r\n\r\n".to_vec()));
                steps
            }
            _ => vec![Step::Sleep(Duration::from_millis(2)), server::ok()],
        }
    })
    .await;
    let limiter = limiter();
    let client = ClientBuilder::new(paceline::http_client().build().unwrap())
        .with(limiter.clone())
        .build();
    run(count, 13, limiter, client, &server.url("/")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_on_sockets_and_two_threads() {
    soak_on_sockets(100_000).await;
}
