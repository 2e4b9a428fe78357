//! What limiters tell each other through a store.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use paceline::scheduler::events::{Because, What};
use paceline::scheduler::pace::PaceSettings;
use paceline::shared::store::{Scope, Store};
use paceline::shared::{MemoryStore, Mode, Sharing};
use paceline::{Ask, Changes, Limiter, Permit};

use super::limiters::{plain, sharing};
use super::server::{Kind, Server};
use super::slow::Slow;

/// Sends once and answers with what the provider says.
async fn send(limiter: &Limiter, status: u16, headers: &[(&'static str, &'static str)]) {
    let ask = Ask::new().replay(paceline::Replay::Never);
    answer(limiter.acquire(ask).await.unwrap(), status, headers);
}

fn answer(permit: Permit, status: u16, headers: &[(&'static str, &'static str)]) {
    let headers: HeaderMap = headers
        .iter()
        .map(|&(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
        .collect();
    let outcome = permit.outcome(StatusCode::from_u16(status).unwrap(), &headers, None);
    drop(permit.complete(&outcome));
}

/// How a limiter receives an ask that may wait for 50 ms.
async fn refusal(limiter: &Limiter) -> Option<paceline::Error> {
    let ask = Ask::new().deadline(Duration::from_millis(50));
    limiter.acquire(ask).await.err()
}

async fn eventually(limiter: &Limiter, is_so: impl Fn(&Option<paceline::Error>) -> bool) {
    for _ in 0..100 {
        let refusal = refusal(limiter).await;
        if is_so(&refusal) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", refusal(limiter).await);
}

async fn penalties_and_faults_are_known_everywhere(sharing: impl Fn() -> Sharing) {
    let key = || paceline::ApiKey::bearer("s3cret-w0rd");
    let replica = || plain().key(key()).shared(sharing()).build().unwrap();
    let (a, b) = (replica(), replica());
    // Both are there before anything is known.
    send(&a, 200, &[]).await;
    send(&b, 200, &[]).await;
    send(&a, 429, &[("retry-after", "30")]).await;
    eventually(&b, |error| {
        error
            .as_ref()
            .is_some_and(paceline::Error::is_all_keys_parked)
    })
    .await;
    // Who comes later knows it too.
    let late = replica();
    eventually(&late, |error| {
        error
            .as_ref()
            .is_some_and(paceline::Error::is_all_keys_parked)
    })
    .await;
    // Another key knows nothing of it.
    let other = plain()
        .key(paceline::ApiKey::bearer("0ther"))
        .shared(sharing())
        .build()
        .unwrap();
    assert!(refusal(&other).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn penalties_reach_all_through_a_server() {
    for kind in [Kind::Valkey, Kind::OldRedis] {
        let server = Server::start(kind);
        penalties_and_faults_are_known_everywhere(|| sharing(&server)).await;
        let keys = server.keys();
        assert!(keys.iter().all(|(_, left)| *left != -1), "{keys:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn penalties_reach_all_in_one_process() {
    let store = Arc::new(MemoryStore::new());
    let sharing = || Sharing::new(Arc::clone(&store), "api.example.com").unwrap();
    penalties_and_faults_are_known_everywhere(sharing).await;
}

/// The limits of others that have been told of since.
fn told_limits(changes: &mut Changes) -> Vec<String> {
    let other = |what| match what {
        What::LimitsDiffer { other, .. } => Some(other.into_string()),
        _ => None,
    };
    let whats = std::iter::from_fn(|| changes.try_next()).map(|change| change.what);
    whats.filter_map(other).collect()
}

async fn limits_that_differ_are_told_by_all(sharing: impl Fn() -> Sharing) {
    let replica = |ceiling: &str, sharing: Sharing| {
        let limiter = plain().key(paceline::ApiKey::bearer("s3cret-w0rd"));
        limiter.ceiling(ceiling).shared(sharing).build().unwrap()
    };
    let all = [
        replica("90/1s", sharing()),
        replica("90/1s", sharing()),
        replica("50/1s", sharing()),
        replica("90/1s", sharing().mode(Mode::Leases)),
    ];
    let exact = "each key: 90 requests in 1s, sliding log";
    let half = "each key: 50 requests in 1s, sliding log";
    let lent = "each key: 90 requests in 1s, lent";
    let expected = [[half, lent], [half, lent], [lent, exact], [half, exact]];
    let mut changes = all.each_ref().map(Limiter::changes);
    let mut told = [(); 4].map(|()| Vec::new());
    let all_told = async {
        while told != expected {
            for ((limiter, changes), told) in all.iter().zip(&mut changes).zip(&mut told) {
                send(limiter, 200, &[]).await;
                told.extend(told_limits(changes));
                told.sort_unstable();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(20), all_told).await;
    assert!(in_time.is_ok(), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_differ_are_told_through_a_server() {
    for kind in [Kind::Valkey, Kind::OldRedis] {
        let server = Server::start(kind);
        limits_that_differ_are_told_by_all(|| sharing(&server)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn limits_that_differ_are_told_in_one_process() {
    let store = Arc::new(MemoryStore::new());
    let sharing = || Sharing::new(Arc::clone(&store), "api.example.com").unwrap();
    limits_that_differ_are_told_by_all(sharing).await;
    // Nobody goes by them any more, so nobody hears of them.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let late = plain().ceiling("7/1s").shared(sharing()).build().unwrap();
    let mut changes = late.changes();
    for _ in 0..5 {
        send(&late, 200, &[]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(told_limits(&mut changes), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_revoked_for_one_is_revoked_for_all_until_it_is_restored() {
    let server = Server::start(Kind::Valkey);
    let keys = || ["first", "second"].map(paceline::ApiKey::bearer);
    let replica = || {
        plain()
            .keys(keys())
            .shared(sharing(&server))
            .build()
            .unwrap()
    };
    let (a, b) = (replica(), replica());
    send(&a, 200, &[]).await;
    send(&b, 200, &[]).await;
    let mut changes = b.changes();
    let permit = a.acquire(Ask::new()).await.unwrap();
    let body = br#"{"error":{"message":"this API key has been revoked"}}"#;
    let outcome = permit.outcome(StatusCode::UNAUTHORIZED, &HeaderMap::new(), Some(body));
    drop(permit.complete(&outcome));
    let mut retired = false;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        while let Some(change) = changes.try_next() {
            retired |= matches!(change.what, What::Retired(_));
        }
        if retired {
            break;
        }
    }
    assert!(retired, "the other does not hear of it");
    // The other key serves all that is sent from now on.
    for _ in 0..4 {
        send(&b, 200, &[]).await;
    }
}

async fn what_one_learned_is_known_everywhere(sharing: impl Fn() -> Sharing) {
    let key = || paceline::ApiKey::bearer("s3cret-w0rd");
    let replica = || {
        let builder = plain().pace(PaceSettings::Learned).key(key());
        builder.shared(sharing()).build().unwrap()
    };
    let (a, beside) = (replica(), replica());
    // The server says what is left; and it refuses without a word what is sent beside that.
    let told = [
        ("x-ratelimit-limit-requests", "100"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "40s"),
    ];
    send(&a, 200, &told).await;
    let knows =
        |error: &Option<paceline::Error>| error.as_ref().is_some_and(paceline::Error::is_deadline);
    eventually(&beside, knows).await;
    a.close().await;
    beside.close().await;
    // It restarts, and another process begins: both know.
    for _ in 0..2 {
        let late = replica();
        eventually(&late, knows).await;
        late.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_told_one_survives_restarts_and_reaches_all_through_a_server() {
    for kind in [Kind::Valkey, Kind::OldRedis] {
        let server = Server::start(kind);
        what_one_learned_is_known_everywhere(|| sharing(&server)).await;
        let keys = server.keys();
        assert!(keys.iter().all(|(_, left)| *left != -1), "{keys:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_that_one_learned_survives_its_end() {
    let server = Server::start(Kind::Valkey);
    let replica = || {
        let builder = plain().pace(PaceSettings::Learned);
        builder.shared(sharing(&server)).build().unwrap()
    };
    let first = replica();
    let mut changes = first.changes();
    let mut learned = false;
    for round in 0..200 {
        send(&first, if round % 10 == 9 { 429 } else { 200 }, &[]).await;
        while let Some(change) = changes.try_next() {
            learned |= matches!(change.what, What::Pace { .. });
        }
        if learned && round > 40 {
            break;
        }
    }
    assert!(learned, "nothing was learned");
    first.close().await;
    let second = replica();
    let mut changes = second.changes();
    let from_others =
        |what: &What| matches!(what, What::Pace { why: Because::Shared, to, .. } if to.is_finite());
    for _ in 0..100 {
        send(&second, 200, &[]).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        while let Some(change) = changes.try_next() {
            if from_others(&change.what) {
                return;
            }
        }
    }
    panic!("the second hears of no rate");
}

#[tokio::test(start_paused = true)]
async fn what_was_read_last_has_been_told_when_the_limiter_is_closed() {
    let left = |left: &'static str| {
        [
            ("x-ratelimit-limit-requests", "100"),
            ("x-ratelimit-remaining-requests", left),
            ("x-ratelimit-reset-requests", "40s"),
        ]
    };
    let scope = Scope::new("api.example.com").unwrap();
    // Before the end, and after it by a request that was in flight.
    for is_late in [false, true] {
        let store = Arc::new(Slow::new(Duration::ZERO, Duration::from_millis(200)));
        let sharing = Sharing::new(Arc::clone(&store), "api.example.com").unwrap();
        let limiter = plain().key(paceline::ApiKey::bearer("s3cret-w0rd"));
        let limiter = limiter.shared(sharing).build().unwrap();
        send(&limiter, 200, &left("90")).await;
        // What changes with every answer is told now and then.
        tokio::time::sleep(Duration::from_secs(1)).await;
        if is_late {
            let permit = limiter.acquire(Ask::new()).await.unwrap();
            limiter.close_now();
            tokio::time::sleep(Duration::from_millis(500)).await;
            answer(permit, 200, &left("7"));
        } else {
            send(&limiter, 200, &left("7")).await;
        }
        limiter.close().await;
        let facts = store.facts(&scope, 0).await.unwrap().facts;
        let told = facts.iter().any(|fact| fact.value.contains('7'));
        assert!(told, "{facts:?}");
    }
}

#[test]
fn a_limiter_whose_runtime_is_gone_still_leaves() {
    let store = Arc::new(MemoryStore::new());
    let sharing = Sharing::new(Arc::clone(&store), "api.example.com").unwrap();
    let limiter = plain().ceiling("10/1s").shared(sharing).build().unwrap();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap()
    };
    runtime().block_on(send(&limiter, 200, &[]));
    let ended = runtime()
        .block_on(async { tokio::time::timeout(Duration::from_secs(5), limiter.close()).await });
    assert!(ended.is_ok(), "it waits for a task that is gone");
}
