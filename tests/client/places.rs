//! A path that is always refused: it once pulled down the rate of its whole key.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use paceline::client::Clock;
use paceline::scheduler::events::What;
use paceline::{Bucket, Limiter, Report};

use super::provider::{Provider, ok, status};

const FORBIDDEN: &str = "http://api.test/v1/forbidden-feature/7";

fn provider(wait: Option<&'static str>) -> Provider {
    let answer = move |request: &reqwest::Request, _| {
        if !request.url().path().contains("forbidden") {
            return ok();
        }
        let mut refused = status(429);
        if let Some(wait) = wait {
            refused
                .headers_mut()
                .insert("retry-after", wait.parse().unwrap());
        }
        refused
    };
    Provider::new(answer).taking(Duration::from_millis(20))
}

/// How many others are served within half a minute while somebody asks for the forbidden path again and
/// again; and how often that reached the server.
async fn served(provider: &Provider, bucket: Option<Bucket>, limiter: &Limiter) -> (usize, usize) {
    let client = provider.client([limiter.clone()]);
    let forbidden = async {
        loop {
            let mut request = client.get(FORBIDDEN);
            if let Some(bucket) = bucket.clone() {
                request = request.with_extension(bucket);
            }
            drop(request.send().await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let clock = Clock::new();
    let end = clock.now() + Duration::from_secs(30);
    let others = stream::iter(0..)
        .take_while(|_| std::future::ready(clock.now() < end))
        .map(|n| client.get(format!("http://api.test/v1/things/{n}")).send())
        .buffer_unordered(2)
        .for_each(|reply| {
            assert_eq!(reply.unwrap().status(), 200);
            std::future::ready(())
        });
    tokio::select! {
        () = forbidden => unreachable!(),
        () = others => {}
    }
    let seen = provider.seen();
    let refused = seen.iter().filter(|seen| seen.url == FORBIDDEN).count();
    (seen.len() - refused, refused)
}

fn told_apart(limiter: &Limiter) -> Vec<String> {
    let mut changes = limiter.changes();
    let told = std::iter::from_fn(|| changes.try_next());
    told.filter_map(|change| match change.what {
        What::Apart { bucket } => Some(bucket.to_string()),
        _ => None,
    })
    .collect()
}

/// What two at a time make of answers that take 20 ms.
const ALL: usize = 3000;

#[tokio::test(start_paused = true)]
async fn a_path_that_is_always_refused_slows_no_other_down() {
    for (seed, wait) in (0..4).flat_map(|seed| [(seed, Some("1")), (seed, None)]) {
        let provider = provider(wait);
        let limiter = Limiter::builder().seed(seed).build().unwrap();
        let (others, refused) = served(&provider, None, &limiter).await;
        assert!(
            others > ALL * 8 / 10,
            "{seed} {wait:?}: {others} served, {refused} refused"
        );
        assert!(refused < 300, "{wait:?}: {refused} refused");
        assert_eq!(told_apart(&limiter), ["GET /v1/forbidden-feature/*"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_named_bucket_that_is_always_refused_slows_no_other_down() {
    for (seed, wait) in (0..4).flat_map(|seed| [(seed, Some("1")), (seed, None)]) {
        let provider = provider(wait);
        let limiter = Limiter::builder().seed(seed).build().unwrap();
        let bucket = Bucket::new("feature");
        let (others, refused) = served(&provider, Some(bucket), &limiter).await;
        assert!(
            others > ALL * 8 / 10,
            "{seed} {wait:?}: {others} served, {refused} refused"
        );
        assert_eq!(told_apart(&limiter), ["feature"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_refused_by_itself_is_explained_and_known_the_next_time() {
    let first = Limiter::builder().seed(1).build().unwrap();
    served(&provider(None), None, &first).await;
    let explanation = first.explain();
    let [place] = &explanation.keys[0].apart[..] else {
        panic!("{explanation:?}")
    };
    assert_eq!(place.bucket.as_str(), "GET /v1/forbidden-feature/*");
    assert!(place.pace.is_some_and(|pace| pace < 10.0), "{place:?}");
    let text = explanation.to_string();
    assert!(
        text.contains("bucket \"GET /v1/forbidden-feature/*\" is refused by itself"),
        "{text}"
    );
    let next = Limiter::builder().seed(2).restore(first.snapshot());
    let next = next.build().unwrap();
    let (others, refused) = served(&provider(None), None, &next).await;
    assert!(others > ALL * 9 / 10, "{others} served, {refused} refused");
    assert_eq!(told_apart(&next), [""; 0], "it was known");
    let common = next.explain().keys[0].pace;
    assert!(common.is_none(), "it has never slowed the rest: {common:?}");
}

/// Once it is known that nobody is served there, its refusals are the request's own.
#[tokio::test(start_paused = true)]
async fn what_is_refused_for_ever_is_sent_as_often_as_a_request_may_be_refused() {
    let limiter = Limiter::builder().seed(3).max_wait(None).build().unwrap();
    let provider = provider(None);
    // By then it is known.
    served(&provider, None, &limiter).await;
    let client = provider.client([limiter.clone()]);
    let others = async {
        loop {
            client
                .get("http://api.test/v1/things/7")
                .send()
                .await
                .unwrap();
        }
    };
    let reply = tokio::select! {
        reply = client.get(FORBIDDEN).send() => reply.unwrap(),
        () = others => unreachable!(),
    };
    let report = reply.extensions().get::<Report>().unwrap();
    assert_eq!((reply.status().as_u16(), report.attempts), (429, 11));
}

/// A bucket of tokens behind all paths: whoever comes is as likely to be refused.
#[tokio::test(start_paused = true)]
async fn under_a_limit_of_the_key_no_path_is_told_apart() {
    let clock = Clock::new();
    let tokens = std::sync::Mutex::new((20.0, clock.now()));
    let provider = Provider::new(move |_, _| {
        let mut tokens = tokens.lock().unwrap();
        let now = clock.now();
        tokens.0 = (tokens.0 + 40.0 * now.secs_since(tokens.1)).min(20.0);
        tokens.1 = now;
        if tokens.0 < 1.0 {
            return status(429);
        }
        tokens.0 -= 1.0;
        ok()
    })
    .taking(Duration::from_millis(20));
    let limiter = Limiter::builder().seed(7).build().unwrap();
    let client = provider.client([limiter.clone()]);
    let sends = (0..4000).map(|n| {
        client
            .get(format!("http://api.test/{}", ["a", "b", "c"][n % 3]))
            .send()
    });
    stream::iter(sends)
        .buffer_unordered(50)
        .for_each(|reply| {
            reply.unwrap();
            std::future::ready(())
        })
        .await;
    assert_eq!(told_apart(&limiter), Vec::<String>::new());
}
