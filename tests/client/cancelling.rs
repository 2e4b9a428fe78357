//! Cancelling in every phase frees what was held, and sends nothing more.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use paceline::{
    Ask, AttemptTimeout, CancellationToken, Deadline, Error, GaveUp, Group, Limiter, Outcome,
    Priority, Report, Until, Verdict,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{sleep, timeout};

use super::provider::{Provider, ok, status, unlearned};

const URL: &str = "http://api.test/";

fn one_at_a_time() -> Limiter {
    unlearned().key_concurrency(1).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_in_any_phase_frees_its_slot_and_sends_nothing_more() {
    // Before its first poll, in the queue, in flight, in backoff, in the second attempt.
    for (phase, after) in [0, 50, 150, 250, 1450].into_iter().enumerate() {
        let provider = Provider::new(|_, _| status(503)).taking(Duration::from_millis(100));
        let limiter = one_at_a_time();
        let client = provider.client([limiter.clone()]);
        let blocker = limiter.acquire(Ask::new()).await.unwrap();
        let send = client.get(URL).send();
        let release = async {
            sleep(Duration::from_millis(100)).await;
            drop(blocker);
            sleep(Duration::from_secs(60)).await;
        };
        let (send, ()) = tokio::join!(timeout(Duration::from_millis(after), send), release);
        send.unwrap_err();
        let sent = [0, 0, 1, 1, 2][phase];
        assert_eq!(provider.seen().len(), sent, "dropped after {after} ms");
        assert_eq!(limiter.depth(), (0, 0), "dropped after {after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_head_lets_the_next_go() {
    let limiter = unlearned().ceiling("3 points/1s").build().unwrap();
    let ask = |points| Ask::new().cost(paceline::Cost::points(points));
    drop(limiter.acquire(ask(1)).await.unwrap());
    let mut head = Box::pin(limiter.acquire(ask(3)));
    assert!(futures_util::poll!(head.as_mut()).is_pending());
    let mut next = Box::pin(limiter.acquire(ask(1)));
    assert!(futures_util::poll!(next.as_mut()).is_pending());
    drop(head);
    let turn = timeout(Duration::from_millis(1), next).await;
    assert!(turn.is_ok_and(|turn| turn.is_ok()));
}

#[tokio::test(start_paused = true)]
async fn a_group_is_cancelled_where_it_waits_and_finishes_where_it_flies() {
    let provider = Provider::generous().taking(Duration::from_millis(100));
    let limiter = one_at_a_time();
    let client = provider.client([limiter.clone()]);
    let group = Group::new("map view 1");
    let send = |group: &Group| client.get(URL).with_extension(group.clone()).send();
    let sends = FuturesUnordered::from_iter((0..5).map(|_| send(&group)));
    let other = client.get(URL).send();
    let cancel = async {
        sleep(Duration::from_millis(10)).await;
        let first = limiter.cancel(&group);
        assert_eq!((first.removed, first.in_flight), (4, 1));
        let second = limiter.cancel(&group);
        assert_eq!((second.removed, second.in_flight), (0, 1));
    };
    let (replies, other, ()) = tokio::join!(sends.collect::<Vec<_>>(), other, cancel);
    other.unwrap();
    let errors: Vec<_> = replies
        .iter()
        .filter_map(|reply| reply.as_ref().err())
        .collect();
    assert_eq!((errors.len(), provider.seen().len()), (4, 2));
    for error in errors {
        let error = Error::of(error).unwrap();
        assert!(error.is_cancelled() && !error.was_sent());
        assert_eq!(error.to_string(), "it was cancelled; nothing was sent");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_refuses_who_waits_and_awaits_who_flies() {
    let provider = Provider::new(|_, _| status(503)).taking(Duration::from_millis(100));
    let limiter = one_at_a_time();
    let client = provider.client([limiter.clone()]);
    let close = async {
        sleep(Duration::from_millis(10)).await;
        limiter.close().await;
        assert_eq!((limiter.depth(), provider.seen().len()), ((0, 0), 1));
    };
    let (first, second, ()) = tokio::join!(client.get(URL).send(), client.get(URL).send(), close);
    let report = first.unwrap().extensions().get::<Report>().unwrap().clone();
    assert_eq!(report.why, Some(GaveUp::Closed), "it is not repeated");
    assert!(Error::of(&second.unwrap_err()).unwrap().is_closed());
    assert!(limiter.acquire(Ask::new()).await.unwrap_err().is_closed());
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_a_grant_that_nobody_takes_up() {
    let limiter = one_at_a_time();
    let first = limiter.acquire(Ask::new()).await.unwrap();
    let mut kept = Box::pin(limiter.acquire(Ask::new()));
    assert!(futures_util::poll!(kept.as_mut()).is_pending());
    drop(first);
    assert_eq!(limiter.depth(), (0, 1));
    timeout(Duration::from_secs(1), limiter.close())
        .await
        .expect("it waits for nobody");
    assert!(kept.await.unwrap_err().is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_covers_waits_and_attempts_and_keeps_the_last_response() {
    let limiter = one_at_a_time();
    let blocker = limiter.acquire(Ask::new()).await.unwrap();
    let ask = Ask::new().deadline(Duration::from_secs(5));
    let error = limiter.acquire(ask).await.unwrap_err();
    assert!(error.is_deadline() && !error.was_sent());
    let text = error.to_string();
    assert_eq!(
        text,
        "its deadline of 5s ended while it waited for a slot of `max_concurrency` or \
         `key_concurrency`: others are in flight, and a body that is held is until it was read or \
         dropped; nothing was sent"
    );
    drop(blocker);

    let slow = Provider::generous().taking(Duration::from_secs(10));
    let client = slow.client([limiter.clone()]);
    let send = client
        .get(URL)
        .with_extension(Deadline(Duration::from_secs(3)))
        .send();
    let error = send.await.unwrap_err();
    let error = Error::of(&error).unwrap();
    assert!(error.is_deadline() && error.was_sent(), "{error}");
    assert_eq!(limiter.depth(), (0, 0));

    let late = |_: &_, number| if number == 0 { status(503) } else { ok() };
    let late = Provider::new(late).taking(Duration::from_secs(2));
    let client = late.client([limiter.clone()]);
    let send = client
        .get(URL)
        .with_extension(Deadline(Duration::from_millis(3500)))
        .send();
    let reply = send
        .await
        .expect("the first answer is worth more than no answer");
    assert_eq!((reply.status().as_u16(), late.seen().len()), (503, 2));
    let report = reply.extensions().get::<Report>().unwrap();
    assert_eq!(report.attempts, 2, "the one that was cut counts too");
    assert!(!report.waited.is_zero(), "and the wait before it");
}

#[tokio::test(start_paused = true)]
async fn whoever_may_not_wait_goes_at_once_or_is_told() {
    let provider = Provider::generous().taking(Duration::from_millis(50));
    let limiter = unlearned().key_concurrency(1).max_wait(Duration::ZERO);
    let limiter = limiter.build().unwrap();
    let client = provider.client([limiter.clone()]);
    let (first, second) = tokio::join!(client.get(URL).send(), client.get(URL).send());
    assert_eq!(first.unwrap().status(), 200);
    assert!(Error::of(&second.unwrap_err()).unwrap().is_deadline());
    let permit = limiter.try_acquire(Ask::new()).unwrap();
    assert!(permit.is_some() && limiter.try_acquire(Ask::new()).unwrap().is_none());
    let none = client.get(URL).with_extension(Deadline(Duration::ZERO));
    let error = none.send().await.unwrap_err();
    let text = "its deadline of 0ns ended; nothing was sent";
    assert_eq!(Error::of(&error).unwrap().to_string(), text);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_requests_dropped_at_random_leave_nothing_behind() {
    let seed = 7;
    let mut rng = SmallRng::seed_from_u64(seed);
    let provider = Provider::new(|_, number| match number % 200 {
        199 => status(429),
        n if n % 7 == 0 => status(503),
        _ => ok(),
    })
    .taking(Duration::from_millis(40));
    let limiter = unlearned()
        .key_concurrency(50)
        .ceiling("400/100ms")
        .max_wait(Duration::from_secs(20))
        .build()
        .unwrap();
    let client = provider.client([limiter.clone()]);
    let (mut ended, mut dropped) = (0, 0);
    for _ in 0..100 {
        let sends = FuturesUnordered::new();
        for _ in 0..100 {
            let priority = Priority(rng.random());
            let send = client.get(URL).with_extension(priority).send();
            sends.push(timeout(
                Duration::from_millis(rng.random_range(0..400)),
                send,
            ));
        }
        let replies: Vec<_> = sends.collect().await;
        ended += replies.iter().filter(|reply| reply.is_ok()).count();
        dropped += replies.iter().filter(|reply| reply.is_err()).count();
    }
    assert!(
        ended > 1000 && dropped > 1000,
        "seed {seed}: {ended} ended, {dropped} dropped"
    );
    assert_eq!(limiter.depth(), (0, 0), "seed {seed}");
    timeout(Duration::from_secs(30), client.get(URL).send())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_permit_completes_into_the_next_ticket_and_dropping_that_cancels() {
    let limiter = one_at_a_time();
    let permit = limiter.acquire(Ask::new()).await.unwrap();
    let refused = permit.outcome(
        http::StatusCode::TOO_MANY_REQUESTS,
        &Default::default(),
        None,
    );
    let Verdict::Again(ticket) = permit.complete(&refused) else {
        panic!("a refusal is repeated");
    };
    assert_eq!(limiter.depth(), (1, 0));
    let permit = ticket.await.unwrap();
    assert_eq!(permit.attempt(), 2);
    let Verdict::Again(ticket) = permit.complete(&Outcome::NotSent) else {
        panic!("what was not sent is repeated");
    };
    drop(ticket);
    assert_eq!(limiter.depth(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_every_wait_at_once_and_lets_what_flies_finish() {
    let provider = Provider::generous().taking(Duration::from_millis(100));
    let limiter = one_at_a_time();
    let client = provider.client([limiter.clone()]);
    let clock = paceline::client::Clock::new();
    let page = CancellationToken::new();
    let scoped = limiter.until(&page);
    let send = || client.get(URL).with_extension(Until(page.clone())).send();
    let cancel = async {
        sleep(Duration::from_millis(10)).await;
        page.cancel();
    };
    let (first, second, ticket, call, ()) = tokio::join!(
        send(),
        async {
            let error = send().await.unwrap_err();
            (clock.now(), error)
        },
        limiter.acquire(Ask::new()).until(&page),
        scoped.call(Ask::new(), |_| async { (Outcome::Broken, ()) }),
        cancel
    );
    assert_eq!(first.unwrap().status(), 200);
    let (at, second) = second;
    assert!(at.as_secs_f64() < 0.02, "at once: {at:?}");
    for error in [
        Error::of(&second).unwrap(),
        &ticket.unwrap_err(),
        &call.unwrap_err(),
    ] {
        assert!(error.is_cancelled() && !error.was_sent(), "{error}");
    }
    assert!(
        Error::of(&send().await.unwrap_err())
            .unwrap()
            .is_cancelled(),
        "who comes later"
    );
    assert!(
        limiter
            .until(&page)
            .try_acquire(Ask::new())
            .unwrap_err()
            .is_cancelled()
    );
    assert!(
        limiter.acquire_blocking(Ask::new()).is_ok(),
        "the limiter itself goes on"
    );
    assert_eq!((provider.seen().len(), limiter.depth()), (1, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_a_backoff_and_the_last_response_is_given_back() {
    let provider = Provider::new(|_, _| status(503));
    let limiter = one_at_a_time();
    let scope = CancellationToken::new();
    let client = provider.client([limiter.until(&scope)]);
    let cancel = async {
        sleep(Duration::from_millis(100)).await;
        scope.cancel();
    };
    let (reply, ()) = tokio::join!(client.get(URL).send(), cancel);
    let reply = reply.unwrap();
    let report = reply.extensions().get::<Report>().unwrap();
    assert_eq!(
        (reply.status().as_u16(), report.why),
        (503, Some(GaveUp::Cancelled))
    );
    assert_eq!((provider.seen().len(), limiter.depth()), (1, (0, 0)));
}

#[test]
fn a_token_ends_a_thread_that_is_blocked() {
    let limiter = one_at_a_time();
    let blocker = limiter.try_acquire(Ask::new()).unwrap();
    let token = CancellationToken::new();
    let scoped = limiter.until(&token);
    let thread = std::thread::spawn(move || scoped.acquire_blocking(Ask::new()).map(drop));
    while limiter.depth().0 == 0 {
        std::thread::yield_now();
    }
    token.cancel();
    assert!(thread.join().unwrap().unwrap_err().is_cancelled());
    drop(blocker);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_goes_again_only_where_that_is_safe() {
    let provider = Provider::generous().taking(Duration::from_secs(10));
    let limiter = unlearned()
        .attempt_timeout(Duration::from_secs(2))
        .build()
        .unwrap();
    let client = provider.client([limiter.clone()]);
    let error = client.get(URL).send().await.unwrap_err();
    assert_eq!(provider.seen().len(), 4, "a GET");
    let error = Error::of(&error).unwrap();
    assert!(error.is_attempt_timeout() && error.was_sent() && !error.is_deadline());
    assert!(
        error.to_string().contains("`attempt_timeout` of 2s"),
        "{error}"
    );
    client.post(URL).send().await.unwrap_err();
    assert_eq!(provider.seen().len(), 5, "a POST");
    let patient = client
        .post(URL)
        .with_extension(AttemptTimeout(Duration::from_secs(20)));
    patient.send().await.unwrap();
    // The deadline is for the whole: here the second attempt has only a second left.
    let clock = paceline::client::Clock::new();
    let hurried = client
        .get(URL)
        .with_extension(Deadline(Duration::from_secs(4)));
    let error = hurried.send().await.unwrap_err();
    assert!(Error::of(&error).unwrap().is_deadline(), "{error}");
    assert_eq!(clock.now().as_secs_f64().round(), 4.0);
    assert_eq!(limiter.depth(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_wait_in_an_inner_limiter_is_no_part_of_an_attempt() {
    let provider = Provider::generous().taking(Duration::from_secs(1));
    let outer = unlearned()
        .attempt_timeout(Duration::from_secs(2))
        .build()
        .unwrap();
    let inner = unlearned().ceiling("1/7s").build().unwrap();
    let client = provider.client([outer, inner]);
    for _ in 0..3 {
        client.get(URL).send().await.unwrap();
    }
    assert_eq!(provider.seen().len(), 3);
}
