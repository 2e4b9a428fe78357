//! Slots after everything that can go wrong: none is lost, and nobody who has left is waited for.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::{self, FuturesUnordered};
use paceline::client::Clock;
use paceline::{Ask, Error, Hold, Limiter, Replay, RetrySettings};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tokio::time::{sleep, timeout};

use super::provider::{Provider, ok as served, status, unlearned};
use super::server::{Server, Step, answer, ok};

const URL: &str = "http://api.test/";

fn client(limiter: &Limiter) -> ClientWithMiddleware {
    ClientBuilder::new(paceline::http_client().build().unwrap())
        .with(limiter.clone())
        .build()
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test]
async fn streams_that_are_dropped_after_two_events_leave_every_slot_free() {
    let event = |n: u32| {
        let data = format!("data: {n}\n\n");
        Step::Send(format!("{:x}\r\n{data}\r\n", data.len()).into_bytes())
    };
    let head =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let server = Server::start(move |_, _| {
        let mut steps = vec![Step::Send(head.to_vec())];
        steps.extend((0..1000).flat_map(|n| [event(n), Step::Sleep(millis(2))]));
        steps
    })
    .await;
    let limiter = unlearned().key_concurrency(3).build().unwrap();
    let client = client(&limiter);
    let streams = (0..12).map(|_| async {
        let mut reply = client.get(server.url("/")).send().await.unwrap();
        for _ in 0..2 {
            assert!(reply.chunk().await.unwrap().unwrap().starts_with(b"data"));
        }
        limiter.depth().1
    });
    let flying = timeout(Duration::from_secs(20), join_all(streams))
        .await
        .expect("it stands still");
    assert!(
        flying.iter().all(|&flying| flying <= 3),
        "each held its slot: {flying:?}"
    );
    assert_eq!(limiter.depth(), (0, 0));
}

#[tokio::test]
async fn a_storm_of_failures_of_every_kind_leaves_nothing_behind() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec();
    let server = Server::start(move |_, number| match number % 7 {
        0 => vec![answer(504, &[], b"gateway")],
        1 => vec![Step::Sleep(millis(300)), ok()],
        2 => vec![Step::Reset],
        3 => vec![Step::Close],
        4 => vec![answer(429, &[], b"")],
        5 => vec![Step::Send(half.clone()), Step::Close],
        _ => vec![ok()],
    })
    .await;
    let mut retry = RetrySettings::default();
    retry.base = Some(millis(1));
    let limiter = unlearned()
        .key_concurrency(10)
        .retry(retry)
        .attempt_timeout(millis(100));
    let limiter = limiter.build().unwrap();
    let client = client(&limiter);
    let sends = (0..200).map(|_| async {
        let Ok(reply) = client.get(server.url("/")).send().await else {
            return;
        };
        drop(reply.text().await);
    });
    timeout(Duration::from_secs(60), join_all(sends))
        .await
        .expect("it stands still");
    assert_eq!(limiter.depth(), (0, 0));
    let reply = timeout(Duration::from_secs(5), client.get(server.url("/")).send()).await;
    // Whether it is served is the dice's affair.
    drop(reply.expect("no slot is lost"));
}

#[tokio::test(start_paused = true)]
async fn who_expires_in_the_queue_has_no_slot_to_lose() {
    let provider = Provider::generous().taking(millis(200));
    let limiter = unlearned()
        .key_concurrency(1)
        .max_wait(millis(50))
        .build()
        .unwrap();
    let client = provider.client([limiter.clone()]);
    for _ in 0..5 {
        let (first, second) = tokio::join!(client.get(URL).send(), client.get(URL).send());
        assert_eq!(
            first.unwrap().status(),
            200,
            "a queue's bound ends no attempt"
        );
        let error = second.unwrap_err();
        let error = Error::of(&error).unwrap();
        assert!(
            error.to_string().starts_with("`max_wait` of 50ms ended"),
            "{error}"
        );
        assert!(error.is_deadline() && !error.was_sent());
        assert_eq!(limiter.depth(), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn who_backs_off_lets_others_through() {
    let provider = Provider::new(|request, _| match request.url().path() {
        "/ill" => status(503),
        _ => served(),
    });
    let mut retry = RetrySettings::default();
    retry.base = Some(Duration::from_secs(1));
    let limiter = unlearned().key_concurrency(1).retry(retry).build().unwrap();
    let client = provider.client([limiter.clone()]);
    let clock = Clock::new();
    let healthy = async {
        sleep(millis(10)).await;
        for _ in 0..20 {
            client.get(URL).send().await.unwrap();
        }
        clock.now()
    };
    let ill = client.get(format!("{URL}ill")).send();
    let (ill, healthy) = tokio::join!(ill, healthy);
    assert_eq!(ill.unwrap().status(), 503);
    assert!(healthy.as_secs_f64() < 0.1, "they waited: {healthy:?}");
    assert!(clock.now().as_secs_f64() >= 7.0, "1 s, 2 s and 4 s");
}

#[tokio::test(start_paused = true)]
async fn a_burst_that_was_given_up_delays_nobody_who_comes_after() {
    let provider = Provider::generous();
    let limiter = unlearned().ceiling("5/1s").build().unwrap();
    let client = provider.client([limiter.clone()]);
    let burst = (0..500).map(|_| timeout(millis(300), client.get(URL).send()));
    let burst = join_all(burst).await;
    let went = burst.iter().filter(|reply| reply.is_ok()).count();
    assert_eq!((went, limiter.depth()), (5, (0, 0)));
    let clock = Clock::new();
    for _ in 0..5 {
        client.get(URL).send().await.unwrap();
    }
    assert!(
        clock.now().as_secs_f64() <= 1.0,
        "one period: {:?}",
        clock.now()
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_the_server_named_ends_at_once_when_it_is_given_up() {
    let provider = Provider::new(|_, _| {
        let mut reply = status(429);
        reply.headers_mut().insert("retry-after-ms", 500.into());
        reply
    });
    let limiter = Limiter::new();
    let client = provider.client([limiter.clone()]);
    let clock = Clock::new();
    timeout(millis(20), client.get(URL).send())
        .await
        .unwrap_err();
    assert!(clock.now().as_secs_f64() < 0.025);
    sleep(Duration::from_secs(2)).await;
    assert_eq!((provider.seen().len(), limiter.depth()), (1, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_slow_server_is_not_ended_by_the_bound_of_the_queue() {
    let provider = Provider::generous().taking(Duration::from_secs(20));
    let limiter = unlearned()
        .max_wait(Duration::from_secs(5))
        .build()
        .unwrap();
    let client = provider.client([limiter]);
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
}

/// The programs that once stood still, with a consumer that stalls for ten seconds.
#[tokio::test(start_paused = true)]
async fn a_consumer_that_stalls_for_ten_seconds_stops_nobody_and_the_peak_is_four() {
    let provider = Provider::generous().taking(millis(50));
    let flying = Arc::new(std::sync::Mutex::new((0_usize, 0_usize)));
    let limiter = unlearned().key_concurrency(4).build().unwrap();
    let count = Peak(Arc::clone(&flying));
    let client = ClientBuilder::new(reqwest::Client::new())
        .with(limiter.clone())
        .with(count)
        .with(provider.clone())
        .build();
    let mut sends = stream::iter(0..12)
        .map(|_| client.get(URL).with_extension(Hold::Headers).send())
        .buffer_unordered(8);
    let program = async {
        while let Some(reply) = sends.next().await {
            sleep(Duration::from_secs(10)).await;
            reply.unwrap().text().await.unwrap();
            client.get(URL).send().await.unwrap().text().await.unwrap();
        }
    };
    timeout(Duration::from_secs(300), program)
        .await
        .expect("it stands still");
    let joined = (0..20).map(|_| client.get(URL).send());
    let replies = timeout(Duration::from_secs(30), join_all(joined))
        .await
        .expect("it stands still");
    sleep(Duration::from_secs(10)).await;
    for reply in replies {
        reply.unwrap().text().await.unwrap();
    }
    let (_, peak) = *flying.lock().unwrap();
    println!("at most {peak} in flight at the server");
    assert_eq!((peak, limiter.depth()), (4, (0, 0)));
}

/// Counts who is at the server. A future that is not polled is not at the server any more once the
/// answer is there; here that is when its sleep is over.
struct Peak(Arc<std::sync::Mutex<(usize, usize)>>);

#[async_trait::async_trait]
impl reqwest_middleware::Middleware for Peak {
    async fn handle(
        &self,
        request: reqwest::Request,
        to: &mut http::Extensions,
        next: reqwest_middleware::Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        {
            let mut flying = self.0.lock().unwrap();
            flying.0 += 1;
            flying.1 = flying.1.max(flying.0);
        }
        let counted = Arc::clone(&self.0);
        // The server's own time goes on whether the client listens or not.
        tokio::spawn(async move {
            sleep(millis(49)).await;
            counted.lock().unwrap().0 -= 1;
        });
        next.run(request, to).await
    }
}

#[tokio::test]
async fn calls_through_other_clients_are_bound_by_the_same_rules() {
    let limiter = unlearned().key_concurrency(2).build().unwrap();
    let calls = FuturesUnordered::from_iter((0..50).map(|n| {
        let limiter = limiter.clone();
        async move {
            let call = limiter.call(Ask::new().replay(Replay::Always), |leave| async move {
                sleep(millis(5)).await;
                let status = if leave.attempt() == 1 { 429 } else { 200 };
                let status = http::StatusCode::from_u16(status).unwrap();
                (leave.outcome(status, &Default::default(), None), ())
            });
            timeout(millis(n * 2), call).await
        }
    }));
    assert_eq!(calls.count().await, 50);
    assert_eq!(limiter.depth(), (0, 0));
}
