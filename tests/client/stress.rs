//! Many threads at one gate: no wake-up is lost, nobody is let in too many, and nothing is left.
//!
//! These are real threads and real time, with the dice on the operating system's side.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use paceline::{ApiKey, Ask, CancellationToken, Limiter, Replay};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::provider::unlearned;

const LONG: Duration = Duration::from_secs(60);

/// Counts who is in flight.
#[derive(Default)]
struct Flying {
    now: AtomicUsize,
    most: AtomicUsize,
    ended: AtomicUsize,
}

impl Flying {
    fn enter(self: &Arc<Self>) -> Landing {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Landing(Arc::clone(self))
    }
}

struct Landing(Arc<Flying>);

impl Drop for Landing {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

fn runtime(threads: usize) -> Runtime {
    match threads {
        0 => Builder::new_current_thread().enable_all().build().unwrap(),
        _ => Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
            .unwrap(),
    }
}

/// Takes permits one after another, gives some of the waits up, and holds each for a moment.
async fn take(limiter: Limiter, flying: Arc<Flying>, times: usize, seed: u64) {
    let mut dice = SmallRng::seed_from_u64(seed);
    for n in 0..times {
        let ask = Ask::new().group(["a", "b"][n % 2]);
        let ticket = limiter.acquire(ask);
        let permit = if dice.random_range(0..4) == 0 {
            let patience = Duration::from_micros(dice.random_range(0..300));
            timeout(patience, ticket).await.ok().and_then(Result::ok)
        } else {
            ticket.await.ok()
        };
        let Some(permit) = permit else { continue };
        let landing = flying.enter();
        for _ in 0..dice.random_range(0..3) {
            tokio::task::yield_now().await;
        }
        drop(landing);
        if dice.random() {
            let outcome = permit.outcome(http::StatusCode::OK, &Default::default(), None);
            drop(permit.complete(&outcome));
        }
    }
}

#[test]
fn threads_and_runtimes_of_every_kind_share_one_gate() {
    const SLOTS: u32 = 3;
    let keys = [ApiKey::bearer("one"), ApiKey::bearer("two")];
    let limiter = unlearned()
        .keys(keys.clone())
        .max_concurrency(SLOTS)
        .build()
        .unwrap();
    let flying = Arc::new(Flying::default());
    let is_over = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for n in 0..6 {
        let (limiter, flying) = (limiter.clone(), Arc::clone(&flying));
        threads.push(thread::spawn(move || match n {
            0..3 => {
                for _ in 0..300 {
                    let Ok(permit) = limiter.acquire_blocking(Ask::new()) else {
                        continue;
                    };
                    let landing = flying.enter();
                    thread::yield_now();
                    drop(landing);
                    drop(permit);
                }
            }
            n => runtime((n - 3) % 3).block_on(async {
                let takes = (0..8).map(|task| {
                    let (limiter, flying) = (limiter.clone(), Arc::clone(&flying));
                    tokio::spawn(take(limiter, flying, 200, (10 * n + task) as u64))
                });
                let takes = timeout(LONG, join_all(takes))
                    .await
                    .expect("a wake-up was lost");
                takes.into_iter().for_each(Result::unwrap);
            }),
        }));
    }
    let meddler = thread::spawn({
        let (limiter, is_over) = (limiter.clone(), Arc::clone(&is_over));
        move || {
            let mut n = 0_usize;
            while !is_over.load(Ordering::SeqCst) {
                n += 1;
                limiter.cancel(["a", "b"][n % 2]);
                limiter.set_keys(keys[..1 + n % 2].to_vec()).unwrap();
                drop(limiter.explain());
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    for thread in threads {
        thread.join().unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    meddler.join().unwrap();
    assert_eq!(limiter.depth(), (0, 0));
    let most = flying.most.load(Ordering::SeqCst);
    assert!(most <= SLOTS as usize, "{most} at once");
    assert!(flying.ended.load(Ordering::SeqCst) > 1000);
}

#[test]
fn slots_that_are_lent_and_come_back_are_neither_lost_nor_doubled() {
    let limiter = unlearned().key_concurrency(4).build().unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let runtime = runtime(4);
    // The server: a thread that answers each attempt after a while.
    let (attempts, server) = std::sync::mpsc::channel::<oneshot::Sender<()>>();
    let server = thread::spawn(move || {
        while let Ok(answer) = server.recv() {
            thread::sleep(Duration::from_micros(200));
            if answer.send(()).is_err() {
                // Whoever has left needs no answer.
                continue;
            }
        }
    });
    runtime.block_on(async {
        let calls = (0..60_u64).map(|n| {
            let (limiter, served, attempts) =
                (limiter.clone(), Arc::clone(&served), attempts.clone());
            tokio::spawn(async move {
                let mut dice = SmallRng::seed_from_u64(n);
                for _ in 0..6 {
                    let ask = Ask::new().replay(Replay::Always);
                    let mut call = Box::pin(limiter.call(ask, |leave| {
                        let (answer, answered) = oneshot::channel();
                        attempts.send(answer).unwrap();
                        async move {
                            answered.await.unwrap();
                            (
                                leave.outcome(http::StatusCode::OK, &Default::default(), None),
                                (),
                            )
                        }
                    }));
                    // Some are polled once and then left alone for longer than a slot waits.
                    if dice.random_range(0..6) == 0 {
                        drop(futures_util::poll!(call.as_mut()));
                        tokio::time::sleep(Duration::from_millis(dice.random_range(90..130))).await;
                    }
                    if dice.random_range(0..10) == 0 {
                        continue;
                    }
                    call.await.unwrap();
                    served.fetch_add(1, Ordering::SeqCst);
                }
            })
        });
        let calls = timeout(LONG, join_all(calls))
            .await
            .expect("a slot or a wake-up was lost");
        calls.into_iter().for_each(Result::unwrap);
    });
    drop(attempts);
    drop(runtime);
    server.join().unwrap();
    assert_eq!(limiter.depth(), (0, 0));
    let all: Vec<_> = (0..4)
        .map(|_| {
            limiter
                .try_acquire(Ask::new())
                .unwrap()
                .expect("a slot is lost")
        })
        .collect();
    assert!(
        limiter.try_acquire(Ask::new()).unwrap().is_none(),
        "a slot too many"
    );
    drop(all);
    assert!(served.load(Ordering::SeqCst) > 250);
}

#[test]
fn closing_among_many_threads_waits_for_all_that_fly_and_for_no_more() {
    for seed in 0..20 {
        let limiter = unlearned().key_concurrency(5).build().unwrap();
        let flying = Arc::new(Flying::default());
        let runtime = runtime(2);
        runtime.block_on(async {
            let token = CancellationToken::new();
            let takes: Vec<_> = (0..10)
                .map(|n| {
                    let limiter = if n == 0 {
                        limiter.until(&token)
                    } else {
                        limiter.clone()
                    };
                    tokio::spawn(take(limiter, Arc::clone(&flying), 50, seed * 100 + n))
                })
                .collect();
            tokio::time::sleep(Duration::from_micros(300 * seed)).await;
            token.cancel();
            timeout(LONG, limiter.close())
                .await
                .expect("it waits for nobody");
            assert_eq!(limiter.depth(), (0, 0));
            for take in takes {
                take.await.unwrap();
            }
            assert_eq!(flying.now.load(Ordering::SeqCst), 0);
        });
    }
}
