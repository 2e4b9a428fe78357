//! Slots whose owner does not listen: what once made programs stand still.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{join, join_all};
use futures_util::stream::{self, FuturesUnordered};
use http::{Extensions, HeaderMap};
use paceline::client::Clock;
use paceline::scheduler::concurrency::{Concurrency, FixedSettings};
use paceline::scheduler::events::{Change, Loan, What};
use paceline::scheduler::pace::PaceSettings;
use paceline::{Ask, Deadline, Hold, Leave, Limiter};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use tokio::time::{sleep, timeout};

use super::provider::{Provider, ok, unlearned};

const URL: &str = "http://api.test/";
/// Longer than any of these takes, in paused time.
const LONG: Duration = Duration::from_secs(30);

fn four_at_a_time() -> Limiter {
    unlearned().key_concurrency(4).build().unwrap()
}

fn loans(limiter: &Limiter) -> Vec<Loan> {
    let mut changes = limiter.changes();
    let loan = |change: Change| match change.what {
        What::Lent(loan) => Some(loan),
        _ => None,
    };
    std::iter::from_fn(|| changes.try_next())
        .filter_map(loan)
        .collect()
}

/// Twenty-four sends, eight at a time, and a call for each that ends.
async fn calls_over_buffered_calls(client: &ClientWithMiddleware) {
    let mut sends = stream::iter(0..24)
        .map(|_| client.get(URL).send())
        .buffer_unordered(8);
    while let Some(reply) = sends.next().await {
        reply.unwrap();
        // Meanwhile nobody polls the other seven.
        client.get(URL).send().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn sends_that_are_joined_before_a_body_is_read_all_end() {
    let provider = Provider::generous().taking(Duration::from_millis(50));
    let limiter = four_at_a_time();
    let client = provider.client([limiter.clone()]);
    let sends = (0..20).map(|_| client.get(URL).send());
    let replies = timeout(LONG, join_all(sends))
        .await
        .expect("it stands still");
    for reply in replies {
        assert_eq!(reply.unwrap().text().await.unwrap(), "body");
    }
    assert_eq!(limiter.depth(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_in_the_loop_over_buffered_calls_is_sent() {
    let provider = Provider::generous().taking(Duration::from_millis(50));
    let limiter = four_at_a_time();
    let client = provider.client([limiter.clone()]);
    let program = calls_over_buffered_calls(&client);
    timeout(LONG, program).await.expect("it stands still");
    assert_eq!((provider.seen().len(), limiter.depth()), (48, (0, 0)));
    assert!(!loans(&limiter).is_empty(), "each loan is told");
}

/// Whoever waits for a slot that nobody uses waits about half an answer for each owner in its way.
#[tokio::test(start_paused = true)]
async fn a_call_in_the_loop_over_buffered_calls_waits_for_about_an_answer() {
    for takes in [20, 50, 200] {
        let takes = Duration::from_millis(takes);
        let provider = Provider::generous().taking(takes);
        let limiter = four_at_a_time();
        let client = provider.client([limiter.clone()]);
        client.get(URL).send().await.unwrap();
        let clock = Clock::new();
        calls_over_buffered_calls(&client).await;
        // Two answers one after the other are the least that the program itself takes.
        let each = clock.now().as_secs_f64() / 24.0;
        println!("{takes:?}: {:.1} ms an iteration", each * 1e3);
        assert!(
            each < 3.5 * takes.as_secs_f64() + 0.015,
            "{takes:?}: {each}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_kept_and_not_polled_holds_nobody_up() {
    let provider = Provider::generous().taking(Duration::from_millis(50));
    let limiter = four_at_a_time();
    let client = provider.client([limiter.clone()]);
    let mut kept: Vec<_> = (0..8).map(|_| Box::pin(client.get(URL).send())).collect();
    for send in &mut kept {
        // Polled once: four are in flight, four wait.
        tokio::select! {
            biased;
            reply = send => panic!("too early: {reply:?}"),
            () = std::future::ready(()) => {}
        }
    }
    let program = async {
        for _ in 0..4 {
            client.get(URL).send().await.unwrap();
        }
        join_all(kept).await
    };
    let replies = timeout(LONG, program).await.expect("it stands still");
    assert!(replies.iter().all(Result::is_ok));
    assert_eq!((provider.seen().len(), limiter.depth()), (12, (0, 0)));
    let loans = loans(&limiter);
    assert!(
        loans.contains(&Loan::Woken) && loans.contains(&Loan::Grant),
        "{loans:?}"
    );
}

/// Makes a connection first, and then counts what is in flight.
#[derive(Clone, Default)]
struct Connecting {
    flying: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl Middleware for Connecting {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        sleep(Duration::from_millis(80)).await;
        let flying = self.flying.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(flying, Ordering::SeqCst);
        sleep(Duration::from_millis(50)).await;
        self.flying.fetch_sub(1, Ordering::SeqCst);
        Ok(ok().into())
    }
}

/// What was woken for its connection has not been sent: when its owner comes back, others fly.
#[tokio::test(start_paused = true)]
async fn a_limit_that_was_set_holds_while_owners_without_a_connection_come_back() {
    let mut fixed = FixedSettings::default();
    fixed.limit = 4;
    let by_controller = Limiter::builder().concurrency(Concurrency::Fixed(fixed));
    for limiter in [
        unlearned().key_concurrency(4),
        unlearned().max_concurrency(4),
        by_controller.pace(PaceSettings::Off),
    ] {
        let server = Connecting::default();
        let client = ClientBuilder::new(paceline::http_client().build().unwrap())
            .with(limiter.build().unwrap())
            .with(server.clone())
            .build();
        let mut kept: Vec<_> = (0..8).map(|_| Box::pin(client.get(URL).send())).collect();
        for send in &mut kept {
            assert!(futures_util::poll!(send).is_pending());
        }
        let others = (0..40).map(|_| tokio::spawn(client.get(URL).send()));
        let others: Vec<_> = others.collect();
        sleep(Duration::from_millis(450)).await;
        assert!(server.most.load(Ordering::SeqCst) > 0, "they were lent");
        let all = join(join_all(kept), join_all(others));
        let (kept, others) = timeout(LONG, all).await.expect("it stands still");
        assert!(kept.iter().all(Result::is_ok));
        assert!(others.into_iter().all(|reply| reply.unwrap().is_ok()));
        assert_eq!(server.most.load(Ordering::SeqCst), 4);
    }
}

/// As a client of HTTP/2 does: one makes the connection, and all others wait for it.
#[tokio::test(start_paused = true)]
async fn who_came_back_and_is_waited_for_by_those_who_have_the_slots_goes_on() {
    for slots in [1, 4] {
        let limiter = unlearned().key_concurrency(slots).build().unwrap();
        let connection = tokio::sync::OnceCell::new();
        let connection = Arc::new(connection);
        let call = || {
            let (limiter, connection) = (limiter.clone(), Arc::clone(&connection));
            async move {
                let send = async |leave: Leave| {
                    let connect = || sleep(Duration::from_millis(20));
                    connection.get_or_init(connect).await;
                    sleep(Duration::from_millis(50)).await;
                    let outcome = leave.outcome(http::StatusCode::OK, &HeaderMap::new(), None);
                    (outcome, ())
                };
                limiter.call(Ask::new(), send).await
            }
        };
        let mut kept = Box::pin(call());
        assert!(futures_util::poll!(&mut kept).is_pending());
        let others: Vec<_> = (0..10).map(|_| tokio::spawn(call())).collect();
        sleep(Duration::from_secs(1)).await;
        let all = join(kept, join_all(others));
        let (kept, others) = timeout(LONG, all).await.expect("it stands still");
        kept.unwrap();
        assert!(others.into_iter().all(|call| call.unwrap().is_ok()));
        assert_eq!(limiter.depth(), (0, 0));
        let mut changes = limiter.changes();
        let mut whats = std::iter::from_fn(|| changes.try_next()).map(|change| change.what);
        assert!(whats.any(|what| what == What::BeyondLimit), "it is told");
    }
}

#[tokio::test(start_paused = true)]
async fn a_raw_ticket_that_nobody_polls_is_passed_and_keeps_its_place() {
    let limiter = unlearned().key_concurrency(1).build().unwrap();
    let first = limiter.acquire(Default::default()).await.unwrap();
    let mut asleep = Box::pin(limiter.acquire(Default::default()));
    assert!(futures_util::poll!(asleep.as_mut()).is_pending());
    let next = limiter.acquire(Default::default());
    drop(first);
    let next = timeout(LONG, next).await.expect("it stands still").unwrap();
    let last = limiter.acquire(Default::default());
    let woken = FuturesUnordered::from_iter([asleep, Box::pin(last)]);
    drop(next);
    assert_eq!(woken.map(|permit| drop(permit.unwrap())).count().await, 2);
    assert_eq!(limiter.depth(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_held_keeps_its_slot_to_its_end() {
    let provider = Provider::generous();
    let limiter = unlearned().key_concurrency(1).build().unwrap();
    let client = provider.client([limiter.clone()]);
    let reply = client
        .get(URL)
        .with_extension(Hold::Body)
        .send()
        .await
        .unwrap();
    assert_eq!(limiter.depth(), (0, 1));
    assert_eq!(reply.content_length(), Some(4));
    let other = timeout(Duration::from_secs(20), client.get(URL).send()).await;
    assert!(other.is_err(), "a ceiling in flight lends no body");
    let late = client.get(URL).with_extension(Deadline(LONG)).send().await;
    let text = late.unwrap_err().to_string();
    assert!(
        text.contains("`key_concurrency`") && text.contains("read or dropped"),
        "{text}"
    );
    assert_eq!(reply.text().await.unwrap(), "body");
    assert_eq!(limiter.depth(), (0, 0));
    let reply = client
        .get(URL)
        .with_extension(Hold::Body)
        .send()
        .await
        .unwrap();
    drop(reply);
    assert_eq!(limiter.depth(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_event_stream_is_held_by_itself_and_a_failed_one_is_not() {
    let provider = Provider::new(|_, number| {
        let mut reply = ok();
        *reply.status_mut() = [200, 400][number].try_into().unwrap();
        let kind = "text/event-stream; charset=utf-8".parse().unwrap();
        reply.headers_mut().insert("content-type", kind);
        reply
    });
    let limiter = Limiter::new();
    let client = provider.client([limiter.clone()]);
    let stream = client.get(URL).send().await.unwrap();
    assert_eq!(limiter.depth(), (0, 1));
    drop(stream);
    let failed = client.get(URL).send().await.unwrap();
    assert_eq!((failed.status().as_u16(), limiter.depth()), (400, (0, 0)));
}
