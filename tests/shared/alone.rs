//! Limiters that share through a store in their own process, on paused time: what leases and
//! absence come to, to the request.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use paceline::shared::store::Store;
use paceline::shared::{MemoryStore, Mode, Sharing, WhenAway};
use paceline::{Ask, Cost, Limiter};
use proptest::prelude::*;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::limiters::plain;
use super::severed::Severed;

/// The moments of all sends.
#[derive(Clone)]
struct Sends {
    start: Instant,
    at: Arc<Mutex<Vec<Duration>>>,
}

#[expect(clippy::disallowed_methods, reason = "the time is paused")]
impl Sends {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            at: Arc::default(),
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn send(&self, limiter: &Limiter) {
        self.send_at(limiter, Cost::ONE).await;
    }

    async fn send_at(&self, limiter: &Limiter, cost: Cost) {
        let permit = limiter.acquire(Ask::new().cost(cost)).await.unwrap();
        self.at.lock().unwrap().push(self.now());
        let answer = permit.outcome(http::StatusCode::OK, &http::HeaderMap::new(), None);
        drop(permit.complete(&answer));
    }

    fn most_in(&self, window: Duration, from: Duration) -> usize {
        let at = self.at.lock().unwrap();
        let later: Vec<_> = at.iter().filter(|at| **at >= from).collect();
        let inside = |start: &&Duration| {
            let in_window = |at: &&&Duration| **at >= *start && ***at < **start + window;
            later.iter().filter(in_window).count()
        };
        later.iter().map(inside).max().unwrap_or(0)
    }
}

fn replica(store: &Arc<MemoryStore>, ceiling: &str, mode: Mode, away: WhenAway) -> Limiter {
    replica_of(Arc::clone(store), ceiling, mode, away)
}

fn replica_of(store: impl Store, ceiling: &str, mode: Mode, away: WhenAway) -> Limiter {
    let sharing = Sharing::new(store, "api.example.com").unwrap();
    let sharing = sharing.mode(mode).when_away(away);
    plain().ceiling(ceiling).shared(sharing).build().unwrap()
}

/// One that sends as much as it may, for ever.
fn busy(limiter: Limiter, sends: &Sends) -> JoinSet<()> {
    let mut all = JoinSet::new();
    for _ in 0..60 {
        let (limiter, sends) = (limiter.clone(), sends.clone());
        all.spawn(async move {
            loop {
                sends.send(&limiter).await;
            }
        });
    }
    all
}

#[tokio::test(start_paused = true)]
async fn many_that_come_and_go_borrow_no_more_than_the_limit() {
    // Thirty processes of one request each sent thirty at once where ten were allowed in ten
    // seconds: each was gone with its debt before it was earned.
    for at_once in [1, 3, 30] {
        let (store, sends) = (Arc::new(MemoryStore::new()), Sends::new());
        let mut all = JoinSet::new();
        for _ in 0..at_once {
            let (store, sends) = (Arc::clone(&store), sends.clone());
            all.spawn(async move {
                for _ in 0..30 / at_once {
                    let limiter = replica(&store, "10/10s", Mode::Leases, WhenAway::Closed);
                    sends.send(&limiter).await;
                    limiter.close().await;
                }
            });
        }
        all.join_all().await;
        let most = sends.most_in(Duration::from_secs(10), Duration::ZERO);
        assert!(most <= 10, "{most} by {at_once} at once");
        let took = sends.now();
        // Thirty of ten in ten seconds: beside others each takes its part of the limit twice, before
        // it is sent and after, and some of it is kept back.
        assert!(
            took < Duration::from_secs(100),
            "{took:?} for {at_once} at once"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_of_which_there_is_nothing_to_share_serves_all_in_either_mode() {
    // Whoever had borrowed the one request a second kept it as long as it was busy.
    let (store, sends) = (Arc::new(MemoryStore::new()), Sends::new());
    let mut all = JoinSet::new();
    for _ in 0..3 {
        let limiter = replica(&store, "1/1s", Mode::Leases, WhenAway::Closed);
        let sends = sends.clone();
        all.spawn(async move {
            sends.send(&limiter).await;
            let first = sends.now();
            for _ in 0..20 {
                sends.send(&limiter).await;
            }
            first
        });
    }
    let first = all.join_all().await.into_iter().max().unwrap();
    assert!(first < Duration::from_secs(15), "one waited for {first:?}");
    assert_eq!(sends.most_in(Duration::from_secs(1), Duration::ZERO), 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_store_those_who_borrowed_and_those_who_had_not_keep_the_limit_together() {
    // Who held all of it kept all of it, and who had given back took an equal part besides.
    let (store, sends) = (Arc::new(MemoryStore::new()), Sends::new());
    let lease = Mode::Leases;
    let replicas = [(); 3].map(|()| replica(&store, "100/1s", lease, WhenAway::Local));
    let mut loads = vec![busy(replicas[0].clone(), &sends)];
    for idle in &replicas[1..] {
        sends.send(idle).await;
    }
    // The idle ones have given back.
    sleep(Duration::from_secs(20)).await;
    store.set_away(true);
    let away = sends.now();
    loads.extend(replicas[1..].iter().map(|idle| busy(idle.clone(), &sends)));
    sleep(Duration::from_secs(30)).await;
    let most = sends.most_in(Duration::from_secs(1), Duration::ZERO);
    assert!(most < 200, "{most} in a window");
    // The lease and a window later.
    let from = away + Duration::from_secs(4);
    let most = sends.most_in(Duration::from_secs(1), from);
    assert!(
        (90..=100).contains(&most),
        "{most} in a window without the store"
    );
    // And back again.
    store.set_away(false);
    let back = sends.now() + Duration::from_secs(5);
    sleep(Duration::from_secs(15)).await;
    let most = sends.most_in(Duration::from_secs(1), back);
    assert!(
        (80..=100).contains(&most),
        "{most} in a window with the store again"
    );
    drop(loads);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_has_forgotten_those_who_live_leaves_none_of_them_alone_with_the_limit() {
    // The first to be heard was told that it was the only one, the second that there were two.
    let (store, sends) = (Arc::new(MemoryStore::new()), Sends::new());
    let replicas = [(); 4].map(|()| replica(&store, "40/1s", Mode::Exact, WhenAway::Local));
    let loads: Vec<_> = replicas
        .iter()
        .map(|one| busy(one.clone(), &sends))
        .collect();
    let window = Duration::from_secs(1);
    for round in 0..2 {
        sleep(Duration::from_secs(10)).await;
        let before = sends.now();
        store.lose();
        sleep(Duration::from_secs(3)).await;
        let most = sends.most_in(window, before.saturating_sub(window));
        assert!(most < 80, "{most} in a window when it forgot, {round}");
        sleep(Duration::from_secs(10)).await;
        let before = sends.now();
        store.set_away(true);
        sleep(Duration::from_secs(5)).await;
        let most = sends.most_in(window, before + window);
        assert!(most <= 40, "{most} in a window when it was away, {round}");
        store.set_away(false);
        sleep(Duration::from_secs(3)).await;
        let most = sends.most_in(window, before + window);
        assert!(most <= 40, "{most} in a window when it was back, {round}");
    }
    drop(loads);
}

#[tokio::test(start_paused = true)]
async fn a_long_absence_does_not_make_an_empty_store_pass_for_a_new_one() {
    let (store, sends) = (Arc::new(MemoryStore::new()), Sends::new());
    let replicas = [(); 2].map(|()| replica(&store, "3/24h", Mode::Exact, WhenAway::Closed));
    for limiter in [&replicas[0], &replicas[0], &replicas[1]] {
        sends.send(limiter).await;
    }
    store.set_away(true);
    sleep(Duration::from_secs(2 * 3600)).await;
    store.lose();
    store.set_away(false);
    sleep(Duration::from_secs(60)).await;
    let ask = Ask::new().deadline(Duration::from_secs(3600));
    let error = replicas[1].acquire(ask).await.unwrap_err();
    assert!(error.is_store_away(), "{error}");
}

/// With more than half as many as the limit some never had a share.
#[tokio::test(start_paused = true)]
async fn where_there_are_fewer_shares_than_processes_they_take_turns() {
    for count in [8, 15] {
        let (store, sends) = (Arc::new(MemoryStore::new()), Sends::new());
        let own = (0..count).map(|_| Sends::new());
        let all: Vec<_> = own
            .map(|own| {
                let limiter = replica(&store, "12/1s", Mode::Leases, WhenAway::Closed);
                let (all, started) = (sends.clone(), own.clone());
                let task = tokio::spawn(async move {
                    loop {
                        own.send(&limiter).await;
                        let now = all.now();
                        all.at.lock().unwrap().push(now);
                    }
                });
                (started, task)
            })
            .collect();
        sleep(Duration::from_secs(120)).await;
        let sent: Vec<_> = all
            .iter()
            .map(|(own, _)| own.at.lock().unwrap().len())
            .collect();
        assert!(sent.iter().all(|&sent| sent >= 120 / count), "{sent:?}");
        assert!(sends.most_in(Duration::from_secs(1), Duration::ZERO) <= 12);
        all.iter().for_each(|(_, task)| task.abort());
    }
}

/// A process that comes at a moment, sends from so many tasks at once with a pause between, and
/// goes after a time, or is killed. In hundredths of the window.
#[derive(Clone, Debug)]
struct Visit {
    comes: u32,
    stays: u32,
    tasks: usize,
    pause: u32,
    is_killed: bool,
}

impl Visit {
    fn any(is_killed: impl Strategy<Value = bool>) -> impl Strategy<Value = Self> {
        let pause = prop_oneof![2 => Just(0u32), 1 => 1..60u32];
        let visit = (0..300u32, 1..250u32, 1..6usize, pause, is_killed);
        visit.prop_map(|(comes, stays, tasks, pause, is_killed)| Self {
            comes,
            stays,
            tasks,
            pause,
            is_killed,
        })
    }

    async fn make(
        self,
        store: Arc<Severed>,
        ceiling: &str,
        cost: Cost,
        sends: &Sends,
        window: Duration,
    ) {
        sleep(window * self.comes / 100).await;
        let limiter = replica_of(Arc::clone(&store), ceiling, Mode::Leases, WhenAway::Closed);
        let mut all = JoinSet::new();
        for _ in 0..self.tasks {
            let (limiter, sends) = (limiter.clone(), sends.clone());
            let pause = window * self.pause / 100;
            all.spawn(async move {
                loop {
                    sends.send_at(&limiter, cost).await;
                    if !pause.is_zero() {
                        sleep(pause).await;
                    }
                }
            });
        }
        sleep(window * self.stays / 100).await;
        if self.is_killed {
            store.kill();
        }
        all.shutdown().await;
        if !self.is_killed {
            limiter.close().await;
        }
    }
}

/// The most requests in any window of seconds while these come and go.
fn most_of(visits: Vec<Visit>, ceiling: &'static str, cost: Cost, window: u64) -> usize {
    let window = Duration::from_secs(window);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (store, sends) = (Arc::new(MemoryStore::new()), Sends::new());
        let mut all = JoinSet::new();
        for visit in visits {
            let (way, sends) = (Arc::new(Severed::new(&store)), sends.clone());
            all.spawn(async move { visit.make(way, ceiling, cost, &sends, window).await });
        }
        all.join_all().await;
        sends.most_in(window, Duration::ZERO)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// One who held all of it had sent for that when others came, and each of those sent its first
    /// at once.
    #[test]
    fn whoever_comes_and_goes_no_window_of_what_is_borrowed_exceeds_the_limit(
        (ceiling, amount, window) in prop_oneof![
            Just(("10/1s", 10, 1)),
            Just(("100/1s", 100, 1)),
            Just(("12/10s", 12, 10)),
            Just(("40/10s", 40, 10)),
        ],
        visits in proptest::collection::vec(Visit::any(Just(false)), 2..8),
    ) {
        let most = most_of(visits, ceiling, Cost::ONE, window);
        prop_assert!(most <= amount, "{most} in a window of {ceiling}");
    }

    #[test]
    fn each_that_is_killed_puts_a_window_over_by_one_at_most(
        (ceiling, amount, window) in prop_oneof![
            Just(("10/1s", 10, 1)),
            Just(("100/1s", 100, 1)),
            Just(("40/10s", 40, 10)),
        ],
        visits in proptest::collection::vec(Visit::any(any::<bool>()), 2..8),
    ) {
        let killed = visits.iter().filter(|visit| visit.is_killed).count();
        let most = most_of(visits, ceiling, Cost::ONE, window);
        prop_assert!(most <= amount + killed, "{most} in a window of {ceiling}, {killed} killed");
    }

    #[test]
    fn each_process_puts_a_window_of_tokens_over_by_one_request_at_most(
        tokens in 1..60_u32,
        visits in proptest::collection::vec(Visit::any(Just(false)), 2..8),
    ) {
        let (processes, each) = (visits.len(), tokens as usize);
        let most = most_of(visits, "100 tokens/1s", Cost::tokens(tokens), 1) * each;
        let bound = 100 + processes * each;
        prop_assert!(most <= bound, "{most} in a window of 100 by {processes}, {each} each");
    }
}
