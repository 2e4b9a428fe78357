//! The middleware's walk: gates, keys, attempts and the report.

use std::time::Duration;

use paceline::{ApiKey, Bucket, GaveUp, Limiter, Priority, Report};

use super::provider::{Provider, ok, status};

const URL: &str = "http://api.test/hotels?page=1";

#[tokio::test(start_paused = true)]
async fn a_ceiling_spaces_requests_and_every_response_carries_a_report() {
    let provider = Provider::generous().taking(Duration::from_millis(30));
    let limiter = Limiter::builder().ceiling("1/1s+10%").build().unwrap();
    let client = provider.client([limiter]);
    let sends = (0..3).map(|_| client.get(URL).send());
    let replies = futures_util::future::join_all(sends).await;
    let times = provider.times();
    assert!((1100..1105).contains(&times[1]), "{times:?}");
    assert!((2200..2210).contains(&times[2]), "{times:?}");
    let report = replies[2]
        .as_ref()
        .unwrap()
        .extensions()
        .get::<Report>()
        .unwrap()
        .clone();
    assert_eq!((report.attempts, report.why), (1, None));
    assert!(report.queued >= Duration::from_millis(2200) && report.waited == report.queued);
}

#[tokio::test(start_paused = true)]
async fn a_refused_post_is_sent_again_with_the_same_bytes() {
    let provider = Provider::new(|_, number| if number < 2 { status(429) } else { ok() });
    let client = provider.client([Limiter::new()]);
    let reply = client
        .post(URL)
        .header("x-mine", "1")
        .body("{\"n\":1}")
        .send()
        .await
        .unwrap();
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.extensions().get::<Report>().unwrap().attempts, 3);
    let seen = provider.seen();
    assert_eq!(seen.len(), 3);
    for attempt in seen {
        assert_eq!(attempt.body, b"{\"n\":1}");
        assert_eq!(attempt.headers["x-mine"], "1");
        assert_eq!(
            (attempt.method.as_str(), attempt.url.as_str()),
            ("POST", URL)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_is_repeated_for_a_get_and_given_back_for_a_post() {
    let provider = Provider::new(|_, _| status(500));
    let client = provider.client([Limiter::new()]);
    let reply = client.get(URL).send().await.unwrap();
    assert_eq!((reply.status().as_u16(), provider.seen().len()), (500, 4));
    assert_eq!(
        reply.extensions().get::<Report>().unwrap().why,
        Some(GaveUp::Attempts)
    );
    assert_eq!(reply.text().await.unwrap(), "body");
    let reply = client.post(URL).body("x").send().await.unwrap();
    assert_eq!((reply.status().as_u16(), provider.seen().len()), (500, 5));
    assert_eq!(
        reply.extensions().get::<Report>().unwrap().why,
        Some(GaveUp::NotReplayable)
    );
}

#[tokio::test(start_paused = true)]
async fn keys_are_put_on_attempts_in_turn_and_shown_nowhere() {
    let provider = Provider::generous();
    let keys = ["one", "two"].map(|secret| ApiKey::query("key", secret));
    let limiter = Limiter::builder()
        .keys(keys)
        .ceiling("1/1s")
        .build()
        .unwrap();
    let client = provider.client([limiter]);
    for _ in 0..4 {
        client.get(URL).send().await.unwrap();
    }
    let urls: Vec<_> = provider.seen().into_iter().map(|seen| seen.url).collect();
    let with = |secret| urls.iter().filter(|url| url.ends_with(secret)).count();
    assert_eq!((with("&key=one"), with("&key=two")), (2, 2), "{urls:?}");
    let times = provider.times();
    assert!(
        times[1] < 10 && times[2] >= 1000 && times[3] < 1010,
        "{times:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_has_priority_overtakes_who_waits() {
    let provider = Provider::generous();
    let limiter = Limiter::builder().ceiling("1/1s").build().unwrap();
    let client = provider.client([limiter]);
    let send = |name: &str, priority| {
        let send = client
            .get(format!("http://api.test/{name}"))
            .with_extension(priority)
            .send();
        async move { send.await.map(drop) }
    };
    let sends = [
        send("first", Priority::BACKGROUND),
        send("background", Priority::BACKGROUND),
        send("normal", Priority::NORMAL),
        send("selected", Priority::SELECTED),
    ];
    futures_util::future::try_join_all(sends).await.unwrap();
    let order: Vec<_> = provider.seen().into_iter().map(|seen| seen.url).collect();
    let order: Vec<_> = order
        .iter()
        .map(|url| url.rsplit('/').next().unwrap())
        .collect();
    assert_eq!(order, ["first", "selected", "normal", "background"]);
}

#[tokio::test(start_paused = true)]
async fn equals_go_first_come_first_served() {
    let provider = Provider::generous().taking(Duration::from_millis(10));
    let limiter = Limiter::builder().max_concurrency(1).build().unwrap();
    let client = provider.client([limiter]);
    // Whatever they share a limit with.
    let send = |n: usize| {
        let bucket = ["a", "b", "c"][n % 3];
        let send = client.get(format!("http://api.test/{n}"));
        send.with_extension(Bucket::new(bucket)).send()
    };
    let sends = (0..6).map(send);
    futures_util::future::join_all(sends).await;
    let order: Vec<_> = provider.seen().into_iter().map(|seen| seen.url).collect();
    assert!(order.is_sorted(), "{order:?}");
}
