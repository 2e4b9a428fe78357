//! Slots whose owner does not listen: what once made programs stand still.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::{self, FuturesUnordered};
use paceline::client::Clock;
use paceline::scheduler::events::{Change, Loan, What};
use paceline::{Deadline, Hold, Limiter};
use tokio::time::timeout;

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
    let program = async {
        let mut sends = stream::iter(0..24)
            .map(|_| client.get(URL).send())
            .buffer_unordered(8);
        while let Some(reply) = sends.next().await {
            reply.unwrap();
            // Meanwhile nobody polls the other seven.
            client.get(URL).send().await.unwrap();
        }
    };
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
        let mut sends = stream::iter(0..24)
            .map(|_| client.get(URL).send())
            .buffer_unordered(8);
        while let Some(reply) = sends.next().await {
            reply.unwrap();
            client.get(URL).send().await.unwrap();
        }
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
