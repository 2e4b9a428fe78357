//! What a store's troubles look like to whoever asks it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use paceline::shared::RedisStore;
use paceline::shared::store::*;

use tokio::task::JoinSet;

use super::proxy::Proxy;
use super::server::{Kind, PATIENCE, Server, within};
use super::suite::{limit, op, scope, take};

fn hour(amount: u64) -> Vec<Limit> {
    vec![limit("k", Law::SlidingLog, amount, 3_600_000)]
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a command takes on a real server is what is tested"
)]
async fn timed<T>(answer: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let answer = answer.await;
    (answer, start.elapsed())
}

/// Asks until the store answers.
async fn until_back(store: &RedisStore, ask: &Take) -> Taken {
    let look = async {
        loop {
            match store.take(&scope(), ask).await {
                Ok(taken) => return taken,
                Err(error) => assert!(error.is_away(), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, look).await;
    found.expect("the store is not found again")
}

#[tokio::test]
async fn a_script_that_the_server_forgot_is_told_again() {
    // SS-08: NOSCRIPT after a restart, until the clients were restarted too.
    for kind in [Kind::Valkey, Kind::OldRedis] {
        let server = Server::start(kind);
        let store = RedisStore::new(&server.url()).unwrap();
        for number in 0..4 {
            let taken = store
                .take(&scope(), &take(op(1, number), &hour(10), 1, 1))
                .await;
            assert_eq!(taken.unwrap().granted, 1);
            server.command(&["SCRIPT", "FLUSH"]);
        }
    }
}

#[tokio::test]
async fn a_key_that_has_lost_its_end_gets_one_with_the_next_payment() {
    // SS-02: a crash between the count and its expiry, and the key was over the limit for ever.
    for kind in [Kind::Valkey, Kind::OldRedis] {
        let server = Server::start(kind);
        let store = RedisStore::new(&server.url()).unwrap();
        let limits = [Law::SlidingLog, Law::SlidingCounter, Law::FixedWindow]
            .map(|law| limit(&format!("{law:?}"), law, 10, 60_000));
        for number in 1..=2 {
            let payment = take(op(1, number), &limits, 1, 1);
            assert_eq!(store.take(&scope(), &payment).await.unwrap().granted, 1);
            if number == 1 {
                for (key, _) in server.keys() {
                    server.command(&["PERSIST", &key]);
                }
            }
        }
        let keys = server.keys().into_iter();
        let immortal: Vec<_> = keys
            .filter(|(_, left)| *left == -1)
            // The name of a payment that was made is looked at no more, and counts nothing.
            .filter(|(key, _)| !key.contains(":op:"))
            .collect();
        assert!(immortal.is_empty(), "{immortal:?}");
    }
}

#[tokio::test]
async fn a_dead_server_fails_at_once_and_is_found_again_without_a_new_handle() {
    let mut server = Server::start(Kind::Valkey);
    let store = RedisStore::new(&server.url()).unwrap();
    let first = store
        .take(&scope(), &take(op(1, 1), &hour(10), 1, 1))
        .await
        .unwrap();
    assert!(!first.standing.is_lost);
    server.stop();
    let mut quickest = PATIENCE;
    for number in 2..6 {
        let ask = take(op(1, number), &hour(10), 1, 1);
        let (answer, took) = timed(store.take(&scope(), &ask)).await;
        let error = answer.unwrap_err();
        assert!(error.is_away(), "{error}");
        quickest = quickest.min(took);
    }
    // One of them is not held up by the machine.
    assert!(quickest < Duration::from_millis(600), "{quickest:?}");
    server.run();
    let mut ask = take(op(1, 10), &hour(10), 1, 1);
    ask.epoch = Some(first.standing.epoch);
    let back = until_back(&store, &ask).await;
    assert!(back.standing.is_lost, "it came back empty");
    assert_eq!((back.granted, back.is_lost), (0, true));
}

#[tokio::test]
async fn a_flushed_server_grants_nothing_until_what_was_paid_has_run_out() {
    // SS-23: keys were evicted, and what was missing passed for unused.
    let server = Server::start(Kind::OldRedis);
    let store = RedisStore::new(&server.url()).unwrap();
    let limits = [limit("k", Law::SlidingLog, 5, 1000)];
    let first = store
        .take(&scope(), &take(op(1, 1), &limits, 5, 1))
        .await
        .unwrap();
    assert_eq!(first.granted, 5);
    server.command(&["FLUSHALL"]);
    let mut ask = take(op(1, 2), &limits, 5, 1);
    ask.epoch = Some(first.standing.epoch);
    let refused = store.take(&scope(), &ask).await.unwrap();
    assert_eq!((refused.granted, refused.is_lost), (0, true));
    // Who never knew the old state is told the same.
    let stranger = store
        .take(&scope(), &take(op(2, 1), &limits, 1, 1))
        .await
        .unwrap();
    assert!(stranger.is_lost);
    tokio::time::sleep(stranger.wait.unwrap()).await;
    assert_eq!(store.take(&scope(), &ask).await.unwrap().granted, 5);
}

#[tokio::test]
async fn an_older_copy_that_took_over_is_told_from_the_state_it_lost() {
    let server = Server::start(Kind::Valkey);
    let store = RedisStore::new(&server.url()).unwrap();
    let limits = hour(10);
    let first = store
        .take(&scope(), &take(op(1, 1), &limits, 1, 1))
        .await
        .unwrap();
    let dump = server.command(&["HGETALL", "paceline:{api.example.com}:story"]);
    let second = store
        .take(&scope(), &take(op(1, 2), &limits, 1, 1))
        .await
        .unwrap();
    assert_eq!(second.standing.epoch.id, first.standing.epoch.id);
    // A copy that had not yet heard of the second payment.
    assert!(format!("{dump:?}").contains("sequence"));
    let sequence = first.standing.epoch.sequence.to_string();
    server.command(&[
        "HSET",
        "paceline:{api.example.com}:story",
        "sequence",
        &sequence,
    ]);
    let mut ask = take(op(1, 3), &limits, 1, 1);
    ask.epoch = Some(second.standing.epoch);
    let third = store.take(&scope(), &ask).await.unwrap();
    assert!(third.is_lost && third.standing.epoch.id != first.standing.epoch.id);
}

#[tokio::test]
async fn a_call_that_timed_out_and_ran_after_all_is_paid_once() {
    // SS-09: the answer was lost after the commit, and the increment was made once more.
    let server = Server::start(Kind::Valkey);
    let store = RedisStore::new(&server.url()).unwrap();
    let ask = take(op(1, 1), &hour(10), 3, 1);
    // The connection and the script are there before the server halts.
    store
        .take(&scope(), &take(op(9, 9), &hour(10), 1, 1))
        .await
        .unwrap();
    server.signal("STOP");
    let (answer, took) = timed(store.take(&scope(), &ask)).await;
    server.signal("CONT");
    assert!(answer.unwrap_err().is_away());
    // A quarter of a second, and the machine that tests may be busy; the server would halt for ever.
    assert!(took < PATIENCE, "{took:?}");
    for _ in 0..3 {
        assert_eq!(until_back(&store, &ask).await.granted, 3);
    }
    let rest = store
        .take(&scope(), &take(op(1, 2), &hour(10), 20, 1))
        .await
        .unwrap();
    assert_eq!(rest.granted, 6);
}

#[tokio::test]
async fn a_server_that_cannot_write_refuses_and_is_not_taken_for_a_reached_limit() {
    for kind in [Kind::Valkey, Kind::OldRedis] {
        let server = Server::start(kind);
        let store = RedisStore::new(&server.url()).unwrap();
        let ask = take(op(1, 1), &hour(10), 1, 1);
        server.command(&["REPLICAOF", "127.0.0.1", "1"]);
        let error = store.take(&scope(), &ask).await.unwrap_err();
        assert!(error.is_refused() || error.is_away(), "{error}");
        server.command(&["REPLICAOF", "NO", "ONE"]);
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let error = store.take(&scope(), &ask).await.unwrap_err();
        assert!(error.is_refused(), "{error}");
        server.command(&["CONFIG", "SET", "maxmemory", "0"]);
        assert_eq!(store.take(&scope(), &ask).await.unwrap().granted, 1);
    }
}

#[tokio::test]
async fn a_connection_that_fell_silent_is_left_for_a_new_one() {
    // A host that lost its power sends no word of it, and its connections stand for a quarter of an
    // hour.
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.port());
    let store = RedisStore::new(&proxy.url()).unwrap();
    for number in 0..3 {
        let ask = take(op(1, number), &hour(10), 1, 1);
        assert_eq!(until_back(&store, &ask).await.granted, 1);
        proxy.silence();
        let answer = store.take(&scope(), &ask).await;
        assert!(answer.unwrap_err().is_away());
    }
}

#[tokio::test]
async fn a_connection_that_was_refused_at_its_greeting_is_made_anew_when_that_is_mended() {
    // What a connection was greeted with once was the answer to all that was asked of it later.
    let server = Server::start(Kind::Valkey);
    let user = ["ACL", "SETUSER", "paceline", "on", "~*", "&*", "+@all"];
    server.command(&[&user[..], &[">another"]].concat());
    let url = format!("redis://paceline:s3cret-w0rd@127.0.0.1:{}", server.port());
    let store = RedisStore::new(&url).unwrap();
    let ask = take(op(1, 1), &hour(10), 1, 1);
    for _ in 0..2 {
        assert!(store.take(&scope(), &ask).await.unwrap_err().is_refused());
    }
    server.command(&[&user[..], &[">s3cret-w0rd"]].concat());
    assert_eq!(store.take(&scope(), &ask).await.unwrap().granted, 1);
}

#[tokio::test]
async fn a_way_that_takes_longer_to_make_than_a_command_may_is_made_all_the_same() {
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.port());
    proxy.delay(50);
    let url = proxy.url();
    // A greeting is several round trips of 100 ms, and so is one asked for with its source.
    let store = RedisStore::with_timeout(&url, Duration::from_millis(150)).unwrap();
    let ask = take(op(1, 1), &hour(10), 1, 1);
    assert_eq!(until_back(&store, &ask).await.granted, 1);
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_left_for_the_one_that_took_over() {
    // Behind one address another server took over, and the old one kept its connections.
    let (old, new) = (Server::start(Kind::Valkey), Server::start(Kind::Valkey));
    let proxy = Proxy::start(old.port());
    let store = RedisStore::new(&proxy.url()).unwrap();
    let ask = |number| take(op(1, number), &hour(10), 1, 1);
    assert_eq!(store.take(&scope(), &ask(1)).await.unwrap().granted, 1);
    old.command(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    proxy.lead_to(new.port());
    let error = store.take(&scope(), &ask(2)).await.unwrap_err();
    assert!(error.is_refused(), "{error}");
    assert_eq!(store.take(&scope(), &ask(2)).await.unwrap().granted, 1);
}

#[tokio::test]
async fn ten_thousand_keys_that_come_and_go_leave_the_store_as_it_was() {
    // SS-06: what was registered without an end was walked by a script, slower every week.
    let server = Server::start(Kind::Valkey);
    let store = RedisStore::with_timeout(&server.url(), Duration::from_secs(20)).unwrap();
    let store = Arc::new(store);
    let mut payers = JoinSet::new();
    for payer in 0..20 {
        let store = Arc::clone(&store);
        payers.spawn(async move {
            for number in 0..500 {
                let name = format!("key.{payer}-{number}.requests");
                let limits = [limit(&name, Law::SlidingLog, 10, 100)];
                let ask = take(op(payer, number), &limits, 1, 1);
                assert_eq!(store.take(&scope(), &ask).await.unwrap().granted, 1);
            }
        });
    }
    payers.join_all().await;
    let most = server.keys().len();
    assert!(most > 1000, "{most}");
    // A payment is remembered for 10 s, and each key has a second to spare.
    assert!(
        within(PATIENCE, || server.keys().len() <= 1),
        "{} keys are left of {most}",
        server.keys().len()
    );
}

#[tokio::test]
async fn no_error_shows_a_password() {
    let server = Server::start(Kind::Valkey);
    server.command(&["ACL", "SETUSER", "paceline", "on", ">right", "~*", "+@all"]);
    let ask = take(op(1, 1), &hour(10), 1, 1);
    let url = format!("redis://paceline:s3cret-w0rd@127.0.0.1:{}", server.port());
    let store = RedisStore::new(&url).unwrap();
    let error = store.take(&scope(), &ask).await.unwrap_err();
    assert!(
        !format!("{error} {error:?} {store:?}").contains("s3cret"),
        "{error}"
    );
    let error = RedisStore::new("redis://paceline:s3cret-w0rd@[").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
}

#[tokio::test]
async fn callers_whose_clocks_are_5_s_apart_keep_the_limit() {
    // SS-12, SS-15: whole seconds, and ranks by the clocks of callers that were milliseconds apart.
    // SS-14: a service that forbids TIME.
    for forbids_time in [false, true] {
        let server = Server::start(Kind::Valkey);
        let mut rule = vec![
            "ACL", "SETUSER", "default", "on", "nopass", "~*", "&*", "+@all",
        ];
        rule.extend(forbids_time.then_some("-time"));
        server.command(&rule);
        let clock = Arc::new(AtomicU64::new(1_795_994_854_000_000));
        let store = |ahead: u64| {
            let clock = Arc::clone(&clock);
            let store = RedisStore::new(&server.url()).unwrap();
            store.told(move || clock.load(Ordering::SeqCst) + ahead)
        };
        let (slow, fast) = (store(0), store(5_000_000));
        let limits = [limit("k", Law::SlidingLog, 4, 1000)];
        let mut granted = 0;
        for number in 0..20 {
            for (owner, store) in [(1, &slow), (2, &fast)] {
                let ask = take(op(owner, number), &limits, 1, 1);
                granted += store.take(&scope(), &ask).await.unwrap().granted;
            }
            clock.fetch_add(2_000, Ordering::SeqCst);
        }
        // Where callers tell the time, the first word of the fastest clock moves it ahead, once.
        let expected = if forbids_time { 5 } else { 4 };
        assert_eq!(granted, expected, "TIME forbidden: {forbids_time}");
    }
}

#[tokio::test]
async fn one_scope_lies_on_one_node_of_a_cluster() {
    // SS-10, SS-11: keys on several nodes, scripts that failed for it, and a limiter that then let
    // everything through.
    let nodes: Vec<Server> = (0..3)
        .map(|_| Server::start_with(Kind::Valkey, &["--cluster-enabled", "yes"]))
        .collect();
    for (node, slots) in nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
        let mut command = vec!["CLUSTER", "ADDSLOTSRANGE"];
        command.extend(slots.split(' '));
        node.command(&command);
        let port = nodes[0].port().to_string();
        node.command(&["CLUSTER", "MEET", "127.0.0.1", &port]);
    }
    let is_whole = |node: &Server| {
        let info = format!("{:?}", node.command(&["CLUSTER", "INFO"]));
        info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
    };
    assert!(
        within(PATIENCE, || nodes.iter().all(is_whole)),
        "the cluster does not form"
    );
    let url = format!("redis+cluster://127.0.0.1:{}", nodes[0].port());
    let store = RedisStore::with_timeout(&url, Duration::from_secs(5)).unwrap();
    let limits = [
        limit("k", Law::SlidingLog, 10, 60_000),
        limit("k", Law::Bucket { burst: 10 }, 10, 60_000),
        limit("k", Law::Slots, 10, 60_000),
    ];
    for number in 0..12 {
        let scope = Scope::new(format!("provider-{number}")).unwrap();
        let taken = store
            .take(&scope, &take(op(1, 1), &limits, 20, 1))
            .await
            .unwrap();
        assert_eq!(taken.granted, 10);
        for node in &nodes {
            node.command(&["SCRIPT", "FLUSH"]);
        }
    }
    let used = nodes.iter().filter(|node| !node.keys().is_empty());
    assert_eq!(used.count(), 3, "twelve scopes use three nodes");
}
