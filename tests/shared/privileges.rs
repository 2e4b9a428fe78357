//! What a user of the store must be allowed: exactly what is documented.

use std::sync::Arc;
use std::time::Duration;

use paceline::shared::store::*;
use paceline::shared::{LEAST_PRIVILEGES, RedisStore};

use super::server::{Kind, Server, pause};
use super::suite::{limit, op, scope, take};

/// Makes a user who may do so much, and answers with how that user connects.
fn user<'a>(
    server: &Server,
    name: &'a str,
    privileges: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut rule: Vec<&str> = privileges.into_iter().collect();
    rule.splice(0..0, ["ACL", "SETUSER", name, "on", ">s3cret-w0rd"]);
    server.command(&rule);
    format!("{name}:s3cret-w0rd@127.0.0.1:{}", server.port())
}

/// Asks a store for everything once.
async fn everything(store: &Arc<RedisStore>) -> Result<(), StoreError> {
    let limits = [
        limit("k", Law::SlidingLog, 100, 60_000),
        limit("k", Law::FixedWindow, 100, 60_000),
        limit("k", Law::SlidingCounter, 100, 60_000),
        limit("k", Law::Bucket { burst: 50 }, 100, 60_000),
        limit("k", Law::Slots, 100, 60_000),
        limit("short", Law::SlidingLog, 100, 1),
    ];
    let payment = rand::random();
    for number in 0..2 {
        store
            .take(&scope(), &take(op(payment, number), &limits, 3, 1))
            .await?;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let refund = Refund {
        op: op(payment, 0),
        epoch: None,
        limits: limits.to_vec(),
        items: vec![(0, [1; 6].into_iter().collect())],
    };
    store.refund(&scope(), &refund).await?;
    let slots = limits[4..5].to_vec();
    let slot = Slot {
        op: op(payment, 0),
        item: 1,
    };
    let beat = Beat {
        owner: Owner::new(1),
        epoch: None,
        lasts: Duration::from_secs(1),
        limits: slots.clone(),
        slots: vec![(0, slot)],
    };
    assert_eq!(store.beat(&scope(), &beat).await?.gone, vec![]);
    let release = Release {
        limits: slots,
        slots: vec![(0, slot)],
    };
    store.release(&scope(), &release).await?;
    for is_last in [false, true] {
        let claim = Claim {
            owner: Owner::new(1),
            epoch: None,
            limit: limits[0].clone(),
            want: 5,
            has: 0,
            lease: Duration::from_secs(1),
            owes: Duration::ZERO,
            is_last,
        };
        store.lend(&scope(), &claim).await?;
    }
    store.facts(&scope(), 0).await.map(drop)
}

/// Whether news reach whoever waits for them.
async fn hears_news(store: &Arc<RedisStore>) -> bool {
    let listener = Arc::clone(store);
    let waiting = tokio::spawn(async move { listener.news(&scope()).await });
    for _ in 0..15 {
        let fact = Fact {
            subject: "a".to_owned(),
            value: "b".to_owned(),
            age: Duration::ZERO,
            lasts: Duration::from_secs(60),
            extends: false,
        };
        store.publish(&scope(), &fact).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        if waiting.is_finished() {
            return true;
        }
    }
    waiting.abort();
    false
}

fn words(kind: Kind) -> Vec<&'static str> {
    let all = LEAST_PRIVILEGES.split_whitespace();
    // An old server knows no such command.
    all.filter(|word| kind == Kind::Valkey || *word != "+client|setinfo")
        .collect()
}

#[tokio::test]
async fn a_user_with_the_least_privileges_can_do_everything() {
    for kind in [Kind::Valkey, Kind::OldRedis] {
        let server = Server::start(kind);
        let user = user(&server, "paceline", words(kind));
        let store = Arc::new(RedisStore::new(&format!("redis://{user}")).unwrap());
        everything(&store).await.unwrap();
        assert!(hears_news(&store).await, "{kind:?} tells no news");
        assert_eq!(store.facts(&scope(), 0).await.unwrap().facts.len(), 1);
        assert!(!format!("{store:?}").contains("s3cret"));
    }
}

#[tokio::test]
async fn such_a_user_can_do_everything_in_a_cluster() {
    let server = Server::start_with(Kind::Valkey, &["--cluster-enabled", "yes"]);
    server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    while !format!("{:?}", server.command(&["CLUSTER", "INFO"])).contains("cluster_state:ok") {
        pause(Duration::from_millis(20));
    }
    let user = user(&server, "paceline", words(Kind::Valkey));
    let url = format!("redis+cluster://{user}");
    let store = RedisStore::with_timeout(&url, Duration::from_secs(5)).unwrap();
    everything(&Arc::new(store)).await.unwrap();
}

#[tokio::test]
async fn without_any_one_of_them_something_fails_and_the_error_names_it() {
    let server = Server::start(Kind::Valkey);
    // What only a cluster needs, and what only makes a connection known by its name.
    let elsewhere = ["+cluster|slots", "+ping", "+client|setinfo"];
    for missing in words(Kind::Valkey) {
        if !missing.starts_with('+') || elsewhere.contains(&missing) {
            continue;
        }
        let others = words(Kind::Valkey)
            .into_iter()
            .filter(|word| *word != missing);
        let user = user(&server, &format!("without-{}", &missing[1..]), others);
        let store = Arc::new(RedisStore::new(&format!("redis://{user}")).unwrap());
        let command = &missing[1..];
        // The server's clock has another way, and news have one that takes longer.
        match (command, everything(&store).await) {
            ("time", answer) => answer.unwrap(),
            ("publish" | "subscribe", answer) => {
                answer.unwrap();
                assert!(!hears_news(&store).await, "{command}");
            }
            (_, Ok(())) => panic!("nothing needs {command}"),
            (_, Err(error)) => {
                let said = error.to_string().to_lowercase();
                assert!(said.contains(command), "{command}: {said}");
            }
        }
        server.command(&["FLUSHALL"]);
        server.command(&["SCRIPT", "FLUSH"]);
    }
}

#[test]
fn the_documentation_and_the_constant_say_the_same() {
    let documented = include_str!("../../src/shared/mod.rs");
    let start = documented
        .find("ACL SETUSER paceline on >PASSWORD")
        .unwrap();
    let rule = documented[start..].split("```").next().unwrap();
    let words = rule
        .split_whitespace()
        .filter(|word| *word != "//!")
        .skip(5);
    assert_eq!(
        words.collect::<Vec<_>>(),
        LEAST_PRIVILEGES.split_whitespace().collect::<Vec<_>>()
    );
}
