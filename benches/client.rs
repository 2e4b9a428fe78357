//! What a limiter costs a request: `cargo bench --bench client`.
//!
//! The bar: 2 µs for the middleware over none, before a last middleware that answers at once. A
//! turn by itself is the decision (see the bench `decisions`) and what the clocks and seats cost.

use std::hint::black_box;

use divan::Bencher;
use divan::counter::ItemsCount;
use http::Extensions;
use paceline::scheduler::concurrency::{Concurrency, FixedSettings};
use paceline::scheduler::pace::PaceSettings;
use paceline::{ApiKey, Ask, Limiter, LimiterBuilder, Mode, Outcome, Verdict};
use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};

fn main() {
    divan::main();
}

/// Nothing that is learned holds anybody back, so that only the cost is measured.
fn open() -> LimiterBuilder {
    let mut fixed = FixedSettings::default();
    fixed.limit = u32::MAX;
    Limiter::builder()
        .key(ApiKey::bearer("secret"))
        .ceiling("1000000000/1s")
        .concurrency(Concurrency::Fixed(fixed))
        .pace(PaceSettings::Off)
}

fn turn(limiter: &Limiter, outcome: &Outcome) {
    let permit = limiter
        .try_acquire(Ask::new())
        .expect("it is open")
        .expect("it is open");
    match permit.complete(outcome) {
        Verdict::Return { .. } => {}
        other => panic!("it was served: {other:?}"),
    }
}

fn served(limiter: &Limiter) -> Outcome {
    let permit = limiter
        .try_acquire(Ask::new())
        .expect("it is open")
        .expect("it is open");
    permit.outcome(http::StatusCode::OK, &http::HeaderMap::new(), None)
}

/// A permit and its end, on so many threads at once.
#[divan::bench(threads = [1, 8])]
fn acquire_and_complete(bencher: Bencher<'_, '_>) {
    let limiter = open().build().expect("valid");
    let outcome = served(&limiter);
    bencher
        .counter(ItemsCount::new(1_usize))
        .bench(|| turn(&limiter, &outcome));
}

/// Answers at once.
struct Instant;

#[async_trait::async_trait]
impl Middleware for Instant {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        Ok(http::Response::new("").into())
    }
}

fn send_many(bencher: Bencher<'_, '_>, client: &ClientWithMiddleware) {
    const MANY: usize = 100;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.expect("a runtime");
    let url: reqwest::Url = "https://api.test/v1/items?page=1".parse().expect("a URL");
    bencher.counter(ItemsCount::new(MANY)).bench(|| {
        runtime.block_on(async {
            for _ in 0..MANY {
                let reply = client.get(url.clone()).header("accept", "*/*").send().await;
                black_box(reply.expect("it answers"));
            }
        });
    });
}

/// A request through no limiter.
#[divan::bench]
fn middleware_none(bencher: Bencher<'_, '_>) {
    send_many(
        bencher,
        &ClientBuilder::new(Client::new()).with(Instant).build(),
    );
}

/// The same through one.
#[divan::bench]
fn middleware_one(bencher: Bencher<'_, '_>) {
    let limiter = open().build().expect("valid");
    let client = ClientBuilder::new(Client::new())
        .with(limiter)
        .with(Instant);
    send_many(bencher, &client.build());
}

/// The same through one that only observes: at most 5 µs more than none.
#[divan::bench]
fn middleware_observing(bencher: Bencher<'_, '_>) {
    let limiter = open().mode(Mode::Observe).build().expect("valid");
    let client = ClientBuilder::new(Client::new())
        .with(limiter)
        .with(Instant);
    send_many(bencher, &client.build());
}

/// The same through one that is off.
#[divan::bench]
fn middleware_off(bencher: Bencher<'_, '_>) {
    let limiter = open().mode(Mode::Off).build().expect("valid");
    let client = ClientBuilder::new(Client::new())
        .with(limiter)
        .with(Instant);
    send_many(bencher, &client.build());
}
