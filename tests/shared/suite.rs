//! What every store promises, on every store.

use std::sync::Arc;
use std::time::Duration;

use paceline::Time;
use paceline::client::Clock;
use paceline::shared::store::*;
use paceline::shared::{MemoryStore, RedisStore};
use tokio::task::JoinSet;

use super::server::{Kind, Server};
use super::slots::*;

/// Runs each claim on the memory store, the newest Valkey and the oldest Redis.
macro_rules! on_every_store {
    ($($claim:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $claim() {
                super::$claim(std::sync::Arc::new(super::MemoryStore::new())).await;
            })+
        }
        mod valkey {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $claim() {
                let server = super::Server::start(super::Kind::Valkey);
                super::$claim(super::patient(&server)).await;
                super::assert_every_key_ends(&server);
            })+
        }
        mod old_redis {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $claim() {
                let server = super::Server::start(super::Kind::OldRedis);
                super::$claim(super::patient(&server)).await;
                super::assert_every_key_ends(&server);
            })+
        }
    };
}

on_every_store!(
    many_payers_get_exactly_the_limit,
    an_ask_is_paid_from_all_its_limits_or_from_none,
    a_group_is_paid_as_far_as_it_fits,
    the_same_payment_asked_for_again_is_paid_once,
    what_was_never_sent_is_given_back_once,
    a_payment_that_was_given_back_before_it_came_pays_nothing,
    what_is_refused_fits_after_the_wait_it_was_told,
    a_slot_is_free_again_after_its_lease,
    a_slot_that_somebody_else_has_is_told_of_and_counts_beyond_the_limit,
    renewed_slots_are_never_lost_while_many_compete,
    a_slot_that_was_never_freed_ends_under_a_steady_load,
    whoever_died_is_counted_for_no_longer_than_it_said,
    shares_shrink_before_others_grow,
    what_was_sent_from_a_share_is_earned_before_others_have_it,
    an_older_fact_never_undoes_a_newer_one,
    facts_are_read_once_and_a_part_at_a_time,
    news_reach_those_who_wait,
    what_was_sent_without_the_store_is_charged_afterwards,
);

/// Machines that test may be busy: no command fails for being slow.
fn patient(server: &Server) -> Arc<RedisStore> {
    Arc::new(RedisStore::with_timeout(&server.url(), Duration::from_secs(20)).unwrap())
}

fn assert_every_key_ends(server: &Server) {
    let keys = server.keys();
    let immortal: Vec<_> = keys.iter().filter(|(_, left)| *left == -1).collect();
    assert!(immortal.is_empty(), "keys without an end: {immortal:?}");
}

pub(super) fn scope() -> Scope {
    Scope::new("api.example.com").unwrap()
}

pub(super) fn limit(name: &str, law: Law, amount: u64, millis: u64) -> Limit {
    Limit::new(name, law, amount, Duration::from_millis(millis)).unwrap()
}

pub(super) fn op(owner: u64, number: u64) -> OpId {
    OpId {
        owner: Owner::new(owner),
        number,
    }
}

/// A payment for so many equal asks.
pub(super) fn take(op: OpId, limits: &[Limit], count: u32, cost: u64) -> Take {
    Take {
        op,
        epoch: None,
        limits: limits.to_vec(),
        runs: vec![Run {
            count,
            costs: limits.iter().map(|_| cost).collect(),
        }],
        is_sent: false,
    }
}

pub(super) async fn granted(
    store: &impl Store,
    op: OpId,
    limit: &Limit,
    count: u32,
    cost: u64,
) -> u32 {
    let take = take(op, std::slice::from_ref(limit), count, cost);
    store.take(&scope(), &take).await.unwrap().granted
}

async fn many_payers_get_exactly_the_limit(store: Arc<impl Store>) {
    let laws = [
        Law::FixedWindow,
        Law::SlidingCounter,
        Law::SlidingLog,
        Law::Bucket { burst: 100 },
        Law::Slots,
    ];
    for (round, law) in (0..).zip(laws) {
        // Two hours: the asks surely fall into one window, but for the border of two.
        let limit = limit("k", law, 100, 7_200_000);
        let mut payers = JoinSet::new();
        for payer in 0..8 {
            let (store, limit) = (Arc::clone(&store), limit.clone());
            payers.spawn(async move {
                let mut paid = 0;
                for number in 0..40 {
                    paid += granted(&store, op(payer, 100 * round + number), &limit, 1, 1).await;
                }
                paid
            });
        }
        let paid: u32 = payers.join_all().await.iter().sum();
        assert_eq!(paid, 100, "{law:?}");
    }
}

async fn an_ask_is_paid_from_all_its_limits_or_from_none(store: Arc<impl Store>) {
    let requests = limit("requests", Law::SlidingLog, 10, 60_000);
    let tokens = limit("tokens", Law::Bucket { burst: 500 }, 500, 60_000);
    let slots = limit("slots", Law::Slots, 4, 60_000);
    let mut ask = take(
        op(1, 1),
        &[requests.clone(), tokens.clone(), slots.clone()],
        1,
        1,
    );
    ask.runs[0].costs[1] = 300;
    let scope = scope();
    assert_eq!(store.take(&scope, &ask).await.unwrap().granted, 1);
    ask.op = op(1, 2);
    let refused = store.take(&scope, &ask).await.unwrap();
    assert_eq!(refused.granted, 0);
    let wait = refused.wait.unwrap();
    assert!(
        wait > Duration::from_secs(11) && wait <= Duration::from_secs(12),
        "{wait:?}"
    );
    // The other limits do not know of the refused ask.
    assert_eq!(granted(&store, op(1, 3), &requests, 20, 1).await, 9);
    assert_eq!(granted(&store, op(1, 4), &slots, 20, 1).await, 3);
    assert_eq!(granted(&store, op(1, 5), &tokens, 1, 200).await, 1);
}

async fn a_group_is_paid_as_far_as_it_fits(store: Arc<impl Store>) {
    let limit = limit("k", Law::SlidingLog, 10, 60_000);
    assert_eq!(granted(&store, op(1, 1), &limit, 4, 1).await, 4);
    let mut group = take(op(1, 2), &[limit], 4, 1);
    group.runs.push(Run {
        count: 3,
        costs: [2].into_iter().collect(),
    });
    let taken = store.take(&scope(), &group).await.unwrap();
    assert_eq!(taken.granted, 5, "four of one and one of two");
    assert!(taken.wait.is_some());
}

async fn the_same_payment_asked_for_again_is_paid_once(store: Arc<impl Store>) {
    let limit = limit("k", Law::SlidingLog, 10, 60_000);
    for _ in 0..5 {
        assert_eq!(granted(&store, op(1, 1), &limit, 4, 1).await, 4);
    }
    assert_eq!(granted(&store, op(1, 2), &limit, 10, 1).await, 6);
}

async fn what_was_never_sent_is_given_back_once(store: Arc<impl Store>) {
    for (number, law) in [
        Law::FixedWindow,
        Law::SlidingCounter,
        Law::SlidingLog,
        Law::Bucket { burst: 10 },
        Law::Slots,
    ]
    .into_iter()
    .enumerate()
    {
        let limit = limit("k", law, 10, 7_200_000);
        let paid = op(number as u64, 1);
        assert_eq!(granted(&store, paid, &limit, 10, 1).await, 10, "{law:?}");
        let refund = Refund {
            op: paid,
            epoch: None,
            limits: vec![limit.clone()],
            items: [3, 7].map(|item| (item, [1].into_iter().collect())).into(),
        };
        for _ in 0..3 {
            store.refund(&scope(), &refund).await.unwrap();
        }
        let again = granted(&store, op(number as u64, 2), &limit, 10, 1).await;
        assert_eq!(again, 2, "{law:?}");
    }
}

async fn a_payment_that_was_given_back_before_it_came_pays_nothing(store: Arc<impl Store>) {
    let limit = limit("k", Law::SlidingLog, 10, 60_000);
    let refund = Refund {
        op: op(1, 1),
        epoch: None,
        limits: vec![limit.clone()],
        items: vec![(0, [1].into_iter().collect())],
    };
    store.refund(&scope(), &refund).await.unwrap();
    assert_eq!(granted(&store, op(1, 1), &limit, 4, 1).await, 0);
    assert_eq!(granted(&store, op(1, 2), &limit, 20, 1).await, 10);
}

async fn what_is_refused_fits_after_the_wait_it_was_told(store: Arc<impl Store>) {
    for law in [
        Law::FixedWindow,
        Law::SlidingCounter,
        Law::SlidingLog,
        Law::Bucket { burst: 2 },
    ] {
        let limit = limit("k", law, 4, 400);
        for number in 0..12 {
            let ask = take(op(1, number), std::slice::from_ref(&limit), 1, 1);
            let taken = store.take(&scope(), &ask).await.unwrap();
            let Some(wait) = taken.wait else { continue };
            assert!(wait <= Duration::from_millis(801), "{law:?} {wait:?}");
            tokio::time::sleep(wait).await;
            let taken = store.take(&scope(), &ask).await.unwrap();
            assert_eq!(taken.granted, 1, "{law:?} {number}");
        }
    }
}

/// For longer than any test takes.
fn claim(owner: u64, want: u64, has: u64) -> Claim {
    Claim {
        owner: Owner::new(owner),
        epoch: None,
        limit: limit("k", Law::SlidingLog, 100, 1000),
        want,
        has,
        lease: Duration::from_secs(600),
        owes: Duration::ZERO,
        is_last: false,
    }
}

const SHORT_LEASE: Duration = Duration::from_millis(700);

async fn shares_shrink_before_others_grow(store: Arc<impl Store>) {
    let scope = scope();
    let lend = async |claim: Claim| store.lend(&scope, &claim).await.unwrap();
    assert_eq!(lend(claim(1, 100, 0)).await.share, 100);
    let newcomer = lend(claim(2, 100, 0)).await;
    assert_eq!((newcomer.share, newcomer.is_short), (0, true));
    assert_eq!(lend(claim(1, 100, 100)).await.share, 50);
    // Until it has confirmed that it keeps to it, nobody gets the rest.
    assert_eq!(lend(claim(2, 100, 0)).await.share, 0);
    assert_eq!(lend(claim(1, 100, 50)).await.share, 50);
    // One is kept back: each of two can send one beyond its part of a window.
    assert_eq!(lend(claim(2, 100, 0)).await.share, 49);
    // What the one does not want flows to the other.
    assert_eq!(lend(claim(1, 5, 50)).await.share, 5);
    assert_eq!(lend(claim(1, 5, 5)).await.share, 5);
    assert_eq!(lend(claim(2, 100, 49)).await.share, 94);
    // What is given back is there at once, and what is not renewed after the lease.
    let mut leaves = claim(2, 0, 94);
    leaves.is_last = true;
    lend(leaves).await;
    let mut last = claim(1, 100, 5);
    last.lease = SHORT_LEASE;
    assert_eq!(lend(last).await.share, 100);
    tokio::time::sleep(SHORT_LEASE + Duration::from_millis(10)).await;
    assert_eq!(lend(claim(3, 100, 0)).await.share, 100);
}

async fn what_was_sent_from_a_share_is_earned_before_others_have_it(store: Arc<impl Store>) {
    // Thirty processes of one request each sent thirty at once where ten were allowed.
    let scope = scope();
    let clock = Clock::new();
    let lend = async |claim: Claim| store.lend(&scope, &claim).await.unwrap().share;
    // A busy machine may come round to it only when it is lent to others already.
    let is_kept = async |claim: Claim, since: Time, owes: u64| {
        let share = lend(claim).await;
        share == 0 || clock.now().since(since) >= Duration::from_millis(owes)
    };
    let leaves = |owner, owes| Claim {
        owes: Duration::from_millis(owes),
        is_last: true,
        ..claim(owner, 0, 100)
    };
    assert_eq!(lend(claim(1, 5, 0)).await, 100);
    let left = clock.now();
    lend(leaves(1, 300)).await;
    assert!(is_kept(claim(2, 100, 0), left, 300).await);
    tokio::time::sleep(Duration::from_millis(310)).await;
    assert_eq!(lend(claim(2, 100, 0)).await, 100);
    lend(leaves(2, 0)).await;
    assert_eq!(lend(claim(1, 100, 0)).await, 100);
    // One that is killed owes as much: what it sent is earned when its lease has long ended.
    let killed = Claim {
        owes: Duration::from_millis(1000),
        lease: SHORT_LEASE,
        ..claim(1, 100, 100)
    };
    let sent = clock.now();
    lend(killed).await;
    tokio::time::sleep(SHORT_LEASE + Duration::from_millis(100)).await;
    assert!(is_kept(claim(3, 100, 0), sent, 1000).await);
    tokio::time::sleep(Duration::from_millis(210)).await;
    assert_eq!(lend(claim(3, 100, 0)).await, 100);
}

fn fact(value: &str, age_millis: u64, lasts_millis: u64, extends: bool) -> Fact {
    Fact {
        subject: "penalty:0102".to_owned(),
        value: value.to_owned(),
        age: Duration::from_millis(age_millis),
        lasts: Duration::from_millis(lasts_millis),
        extends,
    }
}

async fn an_older_fact_never_undoes_a_newer_one(store: Arc<impl Store>) {
    let scope = scope();
    assert!(
        store
            .publish(&scope, &fact("a", 50, 60_000, false))
            .await
            .unwrap()
    );
    assert!(
        !store
            .publish(&scope, &fact("older", 10_000, 90_000, false))
            .await
            .unwrap()
    );
    assert!(
        store
            .publish(&scope, &fact("newer", 0, 50_000, false))
            .await
            .unwrap()
    );
    assert!(
        !store
            .publish(&scope, &fact("shorter", 0, 10_000, true))
            .await
            .unwrap()
    );
    let facts = store.facts(&scope, 0).await.unwrap().facts;
    assert_eq!(facts.len(), 1);
    assert_eq!(facts[0].value, "newer");
    assert!(facts[0].lasts <= Duration::from_millis(50_000));
    assert!(facts[0].lasts > Duration::from_millis(40_000));
    let short = Fact {
        subject: "short".to_owned(),
        ..fact("gone", 0, 100, false)
    };
    store.publish(&scope, &short).await.unwrap();
    tokio::time::sleep(Duration::from_millis(110)).await;
    assert_eq!(store.facts(&scope, 0).await.unwrap().facts.len(), 1);
}

async fn facts_are_read_once_and_a_part_at_a_time(store: Arc<impl Store>) {
    // With ten thousand of them reading all took so long that the store was taken to be away.
    let scope = scope();
    for number in 0..1200 {
        let mut fact = fact("a", 0, 60_000, false);
        fact.subject = format!("pace:{number}");
        assert!(store.publish(&scope, &fact).await.unwrap());
    }
    let (mut read, mut subjects) = (0, Vec::new());
    for part in [500, 500, 200, 0] {
        let heard = store.facts(&scope, read).await.unwrap();
        assert_eq!(heard.facts.len(), part);
        subjects.extend(heard.facts.into_iter().map(|fact| fact.subject));
        read = heard.version;
    }
    assert_eq!(read, 1200);
    let first = format!("{:?}", &subjects[..3]);
    assert_eq!(first, r#"["pace:0", "pace:1", "pace:2"]"#);
    // What is told anew is news; what has ended is none.
    let mut again = fact("b", 0, 60_000, false);
    again.subject = "pace:7".to_owned();
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert!(store.publish(&scope, &again).await.unwrap());
    let heard = store.facts(&scope, read).await.unwrap();
    assert_eq!((heard.facts.len(), heard.version), (1, 1201));
    assert_eq!(heard.facts[0].value, "b");
}

async fn news_reach_those_who_wait(store: Arc<impl Store>) {
    let waiting = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.news(&scope()).await })
    };
    // A subscription takes a moment; whoever publishes before is found by asking.
    for number in 0u64.. {
        store
            .publish(&scope(), &fact(&number.to_string(), 0, 60_000, false))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        if waiting.is_finished() {
            break;
        }
        assert!(number < 200, "nobody was woken");
    }
    waiting.await.unwrap();
}

async fn what_was_sent_without_the_store_is_charged_afterwards(store: Arc<impl Store>) {
    let limit = limit("k", Law::SlidingLog, 10, 60_000);
    assert_eq!(granted(&store, op(1, 1), &limit, 8, 1).await, 8);
    let mut sent = take(op(2, 1), std::slice::from_ref(&limit), 5, 1);
    sent.is_sent = true;
    for _ in 0..2 {
        assert_eq!(store.take(&scope(), &sent).await.unwrap().granted, 5);
    }
    let ask = take(op(1, 2), &[limit], 1, 1);
    let refused = store.take(&scope(), &ask).await.unwrap();
    assert!(refused.wait.unwrap() > Duration::from_secs(58));
}
