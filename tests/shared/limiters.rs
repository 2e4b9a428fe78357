//! Several limiters that share, each with its own connection, as several processes would.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode};
use paceline::scheduler::concurrency::{Concurrency, FixedSettings};
use paceline::scheduler::events::What;
use paceline::scheduler::pace::PaceSettings;
use paceline::shared::{Counts, MemoryStore, Mode, RedisStore, Sharing, WhenAway};
use paceline::{Ask, Leave, Limiter, LimiterBuilder};
use tokio::task::JoinSet;

use super::server::{Kind, PATIENCE, Server};
use super::slow::Slow;

/// The moments of all sends, as the provider would log them.
#[derive(Clone)]
struct Audit {
    start: Instant,
    log: Arc<std::sync::Mutex<Vec<Duration>>>,
}

#[expect(clippy::disallowed_methods, reason = "real servers keep real time")]
impl Audit {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            log: Arc::default(),
        }
    }

    fn sent(&self) {
        self.log.lock().unwrap().push(self.start.elapsed());
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn count(&self) -> usize {
        self.log.lock().unwrap().len()
    }

    /// The most sends in any window of this length.
    fn most_in(&self, window: Duration) -> usize {
        self.most_since(Duration::ZERO, window)
    }

    /// The same of the sends since then.
    fn most_since(&self, since: Duration, window: Duration) -> usize {
        let mut log = self.log.lock().unwrap().clone();
        log.retain(|&at| at >= since);
        log.sort_unstable();
        let inside = |(index, &start): (usize, &Duration)| {
            log[index..]
                .iter()
                .take_while(|&&at| at < start + window)
                .count()
        };
        log.iter().enumerate().map(inside).max().unwrap_or(0)
    }
}

/// A limiter of which only what is shared holds anybody up.
pub(super) fn plain() -> LimiterBuilder {
    Limiter::builder()
        .concurrency(Concurrency::Fixed({
            let mut settings = FixedSettings::default();
            settings.limit = 1000;
            settings
        }))
        .pace(PaceSettings::Off)
}

fn connect(server: &Server) -> RedisStore {
    RedisStore::new(&server.url()).unwrap()
}

pub(super) fn sharing(server: &Server) -> Sharing {
    Sharing::new(connect(server), "api.example.com").unwrap()
}

/// Sends through a limiter until it must stop; how many were sent.
async fn send_all(limiter: Limiter, count: usize, audit: Audit) -> usize {
    let mut sends = JoinSet::new();
    for _ in 0..count {
        let (limiter, audit) = (limiter.clone(), audit.clone());
        sends.spawn(async move {
            let sent = limiter
                .call(Ask::new(), |leave| {
                    audit.sent();
                    let outcome = leave.outcome(StatusCode::OK, &HeaderMap::new(), None);
                    async move { (outcome, ()) }
                })
                .await;
            usize::from(sent.is_ok())
        });
    }
    sends.join_all().await.iter().sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_send_exactly_the_limit_together_and_twice_it_alone() {
    // SS-04: the check read local memory and the write went to the store, so three processes sent
    // three times the limit. SS-27: a limit under a key that never matched did not bite.
    for kind in [Kind::Valkey, Kind::OldRedis] {
        let server = Server::start(kind);
        for (is_shared, expected) in [(false, [100, 100]), (true, [0, 0])] {
            let audit = Audit::new();
            let replica = |sharing: Option<Sharing>| {
                let builder = plain()
                    .ceiling("100/1h")
                    .max_wait(Duration::from_millis(1500));
                match sharing {
                    Some(sharing) => builder.shared(sharing).build().unwrap(),
                    None => builder.build().unwrap(),
                }
            };
            let replicas = [(); 2].map(|()| replica(is_shared.then(|| sharing(&server))));
            let [a, b] =
                replicas.map(|limiter| tokio::spawn(send_all(limiter, 125, audit.clone())));
            let sent = [a.await.unwrap(), b.await.unwrap()];
            if is_shared {
                assert_eq!(sent[0] + sent[1], 100, "{sent:?}");
            } else {
                assert_eq!(sent, expected);
            }
            assert_eq!(audit.count(), sent[0] + sent[1]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_window_holds_more_than_the_limit_and_hardly_less() {
    let server = Server::start(Kind::Valkey);
    let audit = Audit::new();
    let mut replicas = JoinSet::new();
    for _ in 0..4 {
        let limiter = plain()
            // A request leaves at most 0.1 s and two round trips after it was paid for.
            .ceiling("50/250ms+60%")
            .shared(sharing(&server))
            .build()
            .unwrap();
        replicas.spawn(send_all(limiter, 100, audit.clone()));
    }
    let sent: usize = replicas.join_all().await.iter().sum();
    assert_eq!(sent, 400);
    assert!(audit.most_in(Duration::from_millis(250)) <= 50);
    // Eight windows of 400 ms, less the last; the machine that tests may be busy.
    assert!(
        audit.elapsed() < Duration::from_millis(4500),
        "{:?}",
        audit.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_asks_are_paid_for_in_groups() {
    let server = Server::start(Kind::Valkey);
    let sharing = sharing(&server);
    let counts: Counts = sharing.counts();
    let limiter = plain()
        .ceiling("1000000/1h")
        .shared(sharing)
        .build()
        .unwrap();
    let sent = send_all(limiter, 2000, Audit::new()).await;
    assert_eq!(sent, 2000);
    // What could not leave in time on a busy machine is paid for anew.
    assert!(counts.granted() >= 2000, "{}", counts.granted());
    assert!(
        counts.calls() < 400,
        "{} calls for 2000 grants",
        counts.calls()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_in_flight_holds_for_all_together() {
    let server = Server::start(Kind::Valkey);
    let (flying, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut all = JoinSet::new();
    for _ in 0..3 {
        let limiter = plain()
            .max_concurrency(4)
            .shared(sharing(&server))
            .build()
            .unwrap();
        for _ in 0..12 {
            let (limiter, flying, most) = (limiter.clone(), Arc::clone(&flying), Arc::clone(&most));
            all.spawn(async move {
                limiter
                    .call(Ask::new(), |leave| {
                        let (flying, most) = (Arc::clone(&flying), Arc::clone(&most));
                        async move {
                            let now = flying.fetch_add(1, Ordering::SeqCst) + 1;
                            most.fetch_max(now, Ordering::SeqCst);
                            tokio::time::sleep(Duration::from_millis(30)).await;
                            flying.fetch_sub(1, Ordering::SeqCst);
                            (leave.outcome(StatusCode::OK, &HeaderMap::new(), None), ())
                        }
                    })
                    .await
                    .unwrap();
            });
        }
    }
    all.join_all().await;
    assert_eq!(most.load(Ordering::SeqCst), 4);
}

/// The store held the slots of those who did not listen, and no other call was ever sent.
#[tokio::test(start_paused = true)]
async fn a_shared_slot_whose_owner_does_not_listen_is_lent_too() {
    let store = Arc::new(MemoryStore::new());
    let replicas = [(); 2].map(|()| {
        let sharing = Sharing::new(Arc::clone(&store), "s").unwrap();
        let limiter = plain().key_concurrency(4).shared(sharing);
        limiter.build().unwrap()
    });
    let call = |limiter: &Limiter| {
        let limiter = limiter.clone();
        async move {
            let send = async |leave: Leave| {
                tokio::time::sleep(Duration::from_millis(30)).await;
                let outcome = leave.outcome(StatusCode::OK, &HeaderMap::new(), None);
                (outcome, ())
            };
            limiter.call(Ask::new(), send).await
        }
    };
    let mut kept = [(); 4].map(|()| Box::pin(call(&replicas[0])));
    for call in &mut kept {
        let polled = tokio::time::timeout(Duration::from_millis(10), call).await;
        assert!(polled.is_err(), "each is sent");
    }
    for limiter in &replicas {
        let other = tokio::time::timeout(Duration::from_secs(10), call(limiter));
        other.await.expect("it stands still").unwrap();
    }
    for call in kept {
        call.await.unwrap();
    }
    assert_eq!(replicas.map(|limiter| limiter.depth()), [(0, 0); 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_that_is_dropped_unsent_gives_its_payment_back() {
    let server = Server::start(Kind::Valkey);
    let replica = || {
        let builder = plain().ceiling("3/1h").max_wait(Duration::from_millis(500));
        builder.shared(sharing(&server)).build().unwrap()
    };
    for n in 0..6 {
        let limiter = replica();
        let permit = limiter.acquire(Ask::new()).await.unwrap();
        match n % 2 {
            0 => drop(permit.complete(&paceline::Outcome::NotSent)),
            _ => permit.give_back(),
        }
        limiter.close().await;
    }
    let other = replica();
    assert_eq!(send_all(other, 4, Audit::new()).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_each_policy_does_what_it_says() {
    // SS-22: an outage of the store refused everything, whatever mattered more.
    for (when_away, expected) in [
        (WhenAway::Closed, 0),
        (WhenAway::Local, 5),
        (WhenAway::Open, 10),
    ] {
        let mut server = Server::start(Kind::Valkey);
        let sharing = sharing(&server).when_away(when_away).processes(2);
        let counts = sharing.counts();
        let limiter = plain()
            .ceiling("10/1h")
            .max_wait(Duration::from_millis(700))
            .shared(sharing)
            .build()
            .unwrap();
        let mut changes = limiter.changes();
        server.stop();
        let audit = Audit::new();
        let sent = send_all(limiter.clone(), 20, audit.clone()).await;
        assert_eq!(sent, expected, "{when_away:?}");
        let error = limiter.acquire(Ask::new()).await.unwrap_err();
        assert_eq!(
            error.is_store_away(),
            when_away != WhenAway::Open,
            "{error}"
        );
        server.run();
        // Back without a restart, and what was sent meanwhile is charged.
        let rest = send_all(limiter.clone(), 20, audit).await;
        assert_eq!(rest, 10 - expected, "{when_away:?} {counts:?}");
        let mut seen = Vec::new();
        // Whoever is refused here at once waits for no store.
        for _ in 0..100 {
            while let Some(change) = changes.try_next() {
                seen.push(change.what);
            }
            if let Some(What::StoreBack { .. }) = seen.last() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(
            seen.iter()
                .any(|what| matches!(what, What::StoreAway { .. })),
            "{seen:?}"
        );
        assert!(
            seen.iter()
                .any(|what| matches!(what, What::StoreBack { .. })),
            "{seen:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_limiter_leaves_nothing_behind_but_what_is_still_earned() {
    let server = Server::start(Kind::Valkey);
    for mode in [Mode::Exact, Mode::Leases] {
        let limiter = plain()
            .ceiling("100/1s")
            .shared(sharing(&server).mode(mode))
            .build()
            .unwrap();
        assert_eq!(send_all(limiter.clone(), 10, Audit::new()).await, 10);
        tokio::time::timeout(Duration::from_secs(1), limiter.close())
            .await
            .unwrap();
        for (key, _) in server.keys() {
            assert!(!key.ends_with(":alive"), "{key}");
            if key.contains(":lent:") {
                // Nothing but what is earned within a moment, wanted by nobody.
                let lent = format!("{:?}", server.command(&["HVALS", &key]));
                assert!(lent.contains(" 0 "), "{lent}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_let_the_busy_have_what_the_idle_leave_and_never_more_than_the_limit() {
    let server = Server::start(Kind::Valkey);
    let audit = Audit::new();
    let replica = || {
        let sharing = sharing(&server)
            .mode(Mode::Leases)
            .lease(Duration::from_millis(600));
        let counts = sharing.counts();
        (
            plain()
                .ceiling("100/500ms")
                .shared(sharing)
                .build()
                .unwrap(),
            counts,
        )
    };
    let (busy, counts) = replica();
    let (idle, _) = replica();
    let (idle_audit, over) = (audit.clone(), paceline::CancellationToken::new());
    let until = over.clone();
    let seldom = tokio::spawn(async move {
        while !until.is_cancelled() {
            send_all(idle.clone(), 1, idle_audit.clone()).await;
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    });
    // Who comes first may have all of it, before the other is known.
    let mut sent = send_all(busy.clone(), 200, audit.clone()).await;
    let both = audit.elapsed();
    // With half of the limit each there were 50 of the busy one in a window, or 60 where a grant is
    // taken up late, and 2 of the other.
    while audit.most_since(both, Duration::from_millis(500)) < 80 {
        sent += send_all(busy.clone(), 200, audit.clone()).await;
        assert!(audit.elapsed() < PATIENCE, "the busy one has its half only");
    }
    over.cancel();
    seldom.await.unwrap();
    // A grant is taken up within 100 ms, or asked for anew: a busy machine is that late.
    assert!(audit.most_in(Duration::from_millis(400)) <= 100);
    let calls = counts.calls();
    assert!(calls < sent as u64 / 5, "{calls} calls for {sent}");
}

#[tokio::test(start_paused = true)]
async fn a_memory_store_shares_in_one_process_on_paused_time() {
    let store = Arc::new(MemoryStore::new());
    let audit = Arc::new(AtomicU64::new(0));
    let mut replicas = JoinSet::new();
    for _ in 0..3 {
        let sharing = Sharing::new(Arc::clone(&store), "api.example.com").unwrap();
        let limiter = plain().ceiling("10/1m").shared(sharing).build().unwrap();
        let audit = Arc::clone(&audit);
        replicas.spawn(async move {
            for _ in 0..10 {
                let permit = limiter.acquire(Ask::new()).await.unwrap();
                audit.fetch_add(1, Ordering::SeqCst);
                drop(permit);
            }
        });
    }

    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(audit.load(Ordering::SeqCst), 10);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(audit.load(Ordering::SeqCst), 20);
    replicas.join_all().await;
    assert_eq!(audit.load(Ordering::SeqCst), 30);
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the time is paused")]
async fn a_payment_that_is_heard_of_late_is_made_anew() {
    let store = Arc::new(Slow::new(Duration::from_secs(4), Duration::ZERO));
    let replica = || {
        let sharing = Sharing::new(Arc::clone(&store), "api.example.com").unwrap();
        plain().ceiling("2/10s").shared(sharing).build().unwrap()
    };
    let start = tokio::time::Instant::now();
    let [halted, other] = [replica(), replica()];
    let permits = tokio::join!(halted.acquire(Ask::new()), halted.acquire(Ask::new()));
    assert!(permits.0.is_ok() && permits.1.is_ok());
    let sent = start.elapsed();
    assert!(sent < Duration::from_millis(4100), "{sent:?}");
    drop(other.acquire(Ask::new()).await.unwrap());
    let next = start.elapsed() - sent;
    assert!(next > Duration::from_millis(9900), "{next:?}");
}
