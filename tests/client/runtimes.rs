//! Runtimes of every kind, several at once, and none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use paceline::client::Clock;
use paceline::{Ask, Limiter};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::provider::unlearned;

const LONG: Duration = Duration::from_secs(20);

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn ten_a_second() -> Limiter {
    unlearned().ceiling("1/100ms").build().unwrap()
}

async fn take(limiter: &Limiter, count: usize) {
    let tickets = (0..count).map(|_| limiter.acquire(Ask::new()));
    for permit in join_all(tickets).await {
        drop(permit.unwrap());
    }
}

#[test]
fn a_limiter_outlives_the_runtimes_that_it_was_used_on() {
    let limiter = ten_a_second();
    for _ in 0..3 {
        current_thread().block_on(async { timeout(LONG, take(&limiter, 3)).await.unwrap() });
    }
    assert_eq!(limiter.depth(), (0, 0));
}

#[test]
fn a_runtime_that_nobody_drives_any_more_holds_nobody_up() {
    let limiter = ten_a_second();
    let idle = current_thread();
    // The driver of this runtime is alive, and never polled again.
    let waiting = idle.spawn({
        let limiter = limiter.clone();
        async move { take(&limiter, 5).await }
    });
    idle.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
    let other = current_thread();
    other.block_on(async {
        timeout(LONG, take(&limiter, 3))
            .await
            .expect("it stands still")
    });
    // And dropping it gives up what waited there.
    drop(idle);
    drop(waiting);
    assert_eq!(limiter.depth(), (0, 0));
}

#[test]
fn waiters_of_a_runtime_that_ends_leave_the_queue_to_the_others() {
    let limiter = ten_a_second();
    let ending = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    ending.spawn({
        let limiter = limiter.clone();
        async move { take(&limiter, 1_000).await }
    });
    let other = current_thread();
    other.block_on(async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let take = take(&limiter, 2);
        ending.shutdown_background();
        timeout(LONG, take).await.expect("it stands still");
    });
}

#[test]
fn a_future_may_begin_on_one_runtime_and_end_on_another() {
    let limiter = ten_a_second();
    let first = current_thread();
    let mut ticket = Box::pin(limiter.acquire(Ask::new()));
    first.block_on(async {
        take(&limiter, 1).await;
        assert!(futures_util::poll!(ticket.as_mut()).is_pending());
    });
    drop(first);
    let permit = current_thread().block_on(async { timeout(LONG, ticket).await.unwrap() });
    drop(permit.unwrap());
}

#[test]
fn threads_without_a_runtime_keep_their_own_time() {
    let limiter = ten_a_second();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let limiter = limiter.clone();
            thread::spawn(move || drop(limiter.acquire_blocking(Ask::new()).unwrap()))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(limiter.depth(), (0, 0));
    let late = limiter.acquire_blocking(Ask::new().deadline(Duration::from_millis(20)));
    assert!(late.unwrap_err().is_deadline());
}

#[test]
fn waiting_outside_tokio_is_an_error_that_says_so() {
    let limiter = ten_a_second();
    let mut ticket = Box::pin(limiter.acquire(Ask::new()));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(error)) = ticket.as_mut().poll(&mut context) else {
        panic!("it waits for nothing");
    };
    assert!(
        error.to_string().contains("needs a tokio runtime"),
        "{error}"
    );
    assert!(!error.was_sent());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_share_one_limit_and_leave_nothing_behind() {
    let limiter = unlearned().key_concurrency(7).build().unwrap();
    let (flying, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (limiter, flying, most) = (limiter.clone(), flying.clone(), most.clone());
            tokio::spawn(async move {
                for _ in 0..500 {
                    let permit = limiter.acquire(Ask::new()).await.unwrap();
                    most.fetch_max(flying.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    flying.fetch_sub(1, Ordering::SeqCst);
                    drop(permit);
                }
            })
        })
        .collect();
    for task in tasks {
        timeout(LONG, task).await.expect("it stands still").unwrap();
    }
    assert_eq!(limiter.depth(), (0, 0));
    // Whether the last slot is ever needed is the operating system's affair.
    let most = most.load(Ordering::SeqCst);
    assert!((2..=7).contains(&most), "{most} at once");
}

#[tokio::test]
async fn a_driver_ends_with_its_limiter() {
    let before = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    let limiter = ten_a_second();
    take(&limiter, 2).await;
    drop(limiter);
    tokio::time::sleep(Duration::from_millis(10)).await;
    let after = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    assert_eq!(before, after);
}

#[tokio::test]
async fn short_intervals_do_not_lose_what_timers_round_up() {
    const INTERVAL: Duration = Duration::from_millis(20);
    let limiter = unlearned().ceiling("1/20ms").build().unwrap();
    let clock = Clock::new();
    let mut times = Vec::new();
    for _ in 0..40 {
        drop(limiter.acquire(Ask::new()).await.unwrap());
        times.push(clock.now());
    }
    let mut late: Vec<_> = times
        .windows(2)
        .map(|pair| pair[1].since(pair[0]).saturating_sub(INTERVAL))
        .collect();
    late.sort();
    // A plain timer is at least a millisecond late each time. That a few are not shows that this is
    // none; a machine that is busy with other tests may be late by any time at all.
    assert!(late[3] < Duration::from_micros(700), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_paused_day_passes_in_no_time() {
    // With the wrong clock a waiter spins while the time stands still.
    let clock = Clock::new();
    let (wall, start) = (clock.wall(), clock.now());
    let limiter = unlearned().ceiling("1/1h").max_wait(None).build().unwrap();
    for _ in 0..25 {
        drop(limiter.acquire(Ask::new()).await.unwrap());
    }
    assert_eq!(clock.now().since(start).as_secs(), 24 * 3600);
    assert!(clock.wall().duration_since(wall).unwrap() < LONG);
}
