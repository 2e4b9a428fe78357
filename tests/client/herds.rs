//! What a server sees after it has refused somebody: nobody comes too soon, and not all at once.

use std::time::Duration;

use futures_util::future::join_all;
use http::{HeaderMap, Response, StatusCode};
use paceline::client::Clock;
use paceline::{Ask, Bucket, Limiter, Outcome, Replay, RetrySettings};

use super::provider::{Provider, ok, status, unlearned};

const URL: &str = "http://api.test/";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn told(code: u16, name: &'static str, value: &str) -> Response<&'static str> {
    let mut reply = status(code);
    reply.headers_mut().insert(name, value.parse().unwrap());
    reply
}

/// The gaps between requests as the server saw them, in milliseconds.
fn gaps(provider: &Provider) -> Vec<u64> {
    provider
        .times()
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect()
}

#[tokio::test(start_paused = true)]
async fn no_attempt_comes_before_the_time_that_the_server_named() {
    for (code, name, value, least) in [
        (429, "retry-after", "3", 3000),
        (503, "retry-after", "3", 3000),
        (529, "retry-after", "2", 2000),
        (429, "retry-after-ms", "1500", 1500),
        (429, "retry-after", "45", 45_000),
    ] {
        let provider = Provider::new(move |_, _| told(code, name, value));
        let client = provider.client([Limiter::builder().max_wait(None).build().unwrap()]);
        let reply = client.get(URL).send().await.unwrap();
        assert_eq!(reply.status().as_u16(), code);
        let gaps = gaps(&provider);
        assert!(gaps.len() >= 3, "{code} {name}: it is repeated");
        assert!(
            gaps.iter().all(|&gap| gap >= least),
            "{code} {name}: {gaps:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_holds_for_all_who_wait_on_the_key() {
    let provider = Provider::new(|_, number| match number {
        0 => told(429, "retry-after", "60"),
        _ => ok(),
    });
    let limiter = unlearned().key_concurrency(1).build().unwrap();
    let client = provider.client([limiter]);
    let sends = join_all((0..16).map(|_| client.get(URL).send())).await;
    assert!(
        sends
            .iter()
            .all(|reply| reply.as_ref().unwrap().status() == 200)
    );
    let times = provider.times();
    assert!(times[1..].iter().all(|&at| at >= 60_000), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_block_they_come_one_after_another() {
    let provider = Provider::new(|_, number| match number {
        0 => told(429, "retry-after", "60"),
        _ => ok(),
    })
    .taking(Duration::from_millis(100));
    let client = provider.client([Limiter::new()]);
    join_all((0..60).map(|_| client.get(URL).send())).await;
    let times = provider.times();
    let opened = times
        .iter()
        .filter(|&&at| (60_000..60_050).contains(&at))
        .count();
    let first: Vec<_> = times.iter().filter(|&&at| at < 60_000).collect();
    assert!(opened <= 3, "{opened} came at once: {times:?}");
    assert!(first.len() <= 10, "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn no_more_than_what_is_left_are_let_through() {
    // A window of 5 that says so, and refuses what comes beyond.
    let clock = Clock::new();
    let windows = std::sync::Mutex::new((0_u64, 0_u32));
    let provider = Provider::new(move |_, _| {
        let now = clock.now().as_secs_f64();
        let second = now as u64;
        let mut window = windows.lock().unwrap();
        if window.0 != second {
            *window = (second, 0);
        }
        window.1 += 1;
        let mut reply = if window.1 > 5 { status(429) } else { ok() };
        let left = 5_u32.saturating_sub(window.1);
        let headers = reply.headers_mut();
        headers.insert("x-ratelimit-limit", 5.into());
        headers.insert("x-ratelimit-remaining", left.into());
        let reset = format!("{:.3}", now.floor() + 1.0 - now);
        headers.insert("x-ratelimit-reset-after", reset.parse().unwrap());
        reply
    })
    .taking(Duration::from_millis(20));
    let client = provider.client([Limiter::new()]);
    let replies = join_all((0..100).map(|_| client.get(URL).send())).await;
    assert!(
        replies
            .iter()
            .all(|reply| reply.as_ref().unwrap().status() == 200)
    );
    let refused = provider.seen().len() - 100;
    assert!(refused <= 10, "{refused} of 100 were refused");
}

#[tokio::test(start_paused = true)]
async fn every_attempt_takes_a_token_while_the_server_refuses_everything() {
    let provider = Provider::new(|_, _| status(429));
    let limiter = unlearned()
        .ceiling("10/1s")
        .max_wait(secs(30))
        .build()
        .unwrap();
    let client = provider.client([limiter]);
    join_all((0..50).map(|_| client.get(URL).send())).await;
    let times = provider.times();
    for window in times.windows(11) {
        assert!(
            window[10] - window[0] >= 1000,
            "11 within a second: {window:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_is_refused_holds_no_other_up() {
    let provider = Provider::new(|request, _| match request.url().path() {
        "/a" => {
            let mut reply = told(429, "retry-after", "20");
            let bucket = "a".parse().unwrap();
            reply.headers_mut().insert("x-ratelimit-resource", bucket);
            reply
        }
        _ => ok(),
    });
    let client = provider.client([Limiter::builder().max_wait(secs(30)).build().unwrap()]);
    let send = |bucket: &'static str| {
        let send = client.get(format!("{URL}{bucket}"));
        send.with_extension(Bucket::new(bucket)).send()
    };
    let clock = Clock::new();
    let fine = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        for _ in 0..5 {
            send("b").await.unwrap();
        }
        clock.now()
    };
    let (_, fine) = tokio::join!(join_all((0..5).map(|_| send("a"))), fine);
    assert!(
        fine.as_secs_f64() < 5.0,
        "it waited for the other: {fine:?}"
    );
}

/// The same refusals through each way in, to the same gaps.
#[tokio::test(start_paused = true)]
async fn every_way_in_hears_the_hint() {
    let hint = || {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", 45.into());
        headers
    };
    let clock = Clock::new();
    let limiter = unlearned().build().unwrap();
    let call = limiter.call(Ask::new().replay(Replay::Always), |leave| {
        let status = match leave.attempt() {
            1 => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::OK,
        };
        let outcome = leave.outcome(status, &hint(), None);
        async move { (outcome, ()) }
    });
    call.await.unwrap();
    assert!(clock.now().as_secs_f64() >= 45.0, "call");

    let clock = Clock::new();
    let limiter = unlearned().build().unwrap();
    let permit = limiter.acquire(Ask::new()).await.unwrap();
    let outcome: Outcome = permit.outcome(StatusCode::TOO_MANY_REQUESTS, &hint(), None);
    let paceline::Verdict::Again(ticket) = permit.complete(&outcome) else {
        panic!("a refusal is repeated");
    };
    drop(ticket.await.unwrap());
    assert!(clock.now().as_secs_f64() >= 45.0, "acquire");

    let clock = Clock::new();
    let provider = Provider::new(move |_, number| match number {
        0 => told(429, "retry-after", "45"),
        _ => ok(),
    });
    let client = provider.client([unlearned().build().unwrap()]);
    client.post(URL).send().await.unwrap();
    assert!(clock.now().as_secs_f64() >= 45.0, "the middleware");
}

#[tokio::test(start_paused = true)]
async fn a_gate_of_our_own_that_opens_later_is_waited_for_and_is_no_failure() {
    let provider = Provider::generous();
    let limiter = unlearned()
        .ceiling("1/60s")
        .max_wait(secs(700))
        .build()
        .unwrap();
    let client = provider.client([limiter]);
    let replies = join_all((0..10).map(|_| client.get(URL).send())).await;
    assert!(
        replies
            .iter()
            .all(|reply| reply.as_ref().unwrap().status() == 200)
    );
    assert!(gaps(&provider).iter().all(|&gap| gap >= 60_000));
}

#[tokio::test(start_paused = true)]
async fn reqwest_retry_outside_passes_the_gates_with_every_attempt() {
    use reqwest_middleware::ClientBuilder;
    use reqwest_retry::RetryTransientMiddleware;
    use reqwest_retry::policies::ExponentialBackoff;

    let provider = Provider::new(|_, _| status(500));
    let limiter = unlearned().ceiling("1/1s").max_wait(None).build().unwrap();
    let policy = ExponentialBackoff::builder()
        .retry_bounds(Duration::from_millis(1), Duration::from_millis(2))
        .build_with_max_retries(2);
    let mut retry = RetrySettings::default();
    retry.errors = 1;
    let own = unlearned().retry(retry).ceiling("1/1s").max_wait(None);
    for (limiter, attempts) in [(limiter, 12), (own.build().unwrap(), 6)] {
        let before = provider.seen().len();
        let client = ClientBuilder::new(paceline::http_client().build().unwrap())
            .with(RetryTransientMiddleware::new_with_policy(policy))
            .with(limiter.clone())
            // A second time in the chain it acts once.
            .with(limiter)
            .with(provider.clone())
            .build();
        assert_eq!(client.get(URL).send().await.unwrap().status(), 500);
        let times = &provider.times()[before..];
        assert_eq!(times.len(), attempts, "3 times what the limiter alone does");
        for pair in times.windows(2) {
            assert!(pair[1] - pair[0] >= 1000, "{times:?}");
        }
    }
}
