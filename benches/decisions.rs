//! What a decision costs: the lock included, the time given.
//!
//! `cargo bench --bench decisions`. Machines differ and are shared: compare within one run, against
//! the rows of a bare lock and of a tokio semaphore. The bars: 250 ns for an uncontended acquire
//! and complete with one key, a ceiling and a quota; 1 us with 8 threads; 1 us to queue and 1 us to
//! release each of 100,000 waiters, and 256 bytes for each.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher, black_box};
use http::{HeaderMap, HeaderValue, StatusCode};
use paceline::feedback::{self, Profile};
use paceline::scheduler::events::Ticket;
use paceline::{Ask, Ceiling, Fingerprint, Outcome, Scheduler, Settings, Time};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Ten microseconds a request: 100,000 a second, below every limit here.
const STEP: u64 = 10_000;
/// When the quota has been told, in nanoseconds.
const TOLD: u64 = 1_100_000_000;

fn settings() -> Settings {
    let mut settings = Settings::default();
    let ceiling = Ceiling::new(1_000_000, Duration::from_secs(1)).expect("a sound ceiling");
    settings.ceilings = vec![ceiling];
    settings
}

/// An answer that tells a window of a minute with hardly anything taken.
fn answer() -> Outcome {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("x-ratelimit-limit-requests", "1000000000"),
        ("x-ratelimit-remaining-requests", "999999990"),
        ("x-ratelimit-reset-requests", "60s"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let received = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    Outcome::Answered(feedback::read(
        &Profile::NONE,
        StatusCode::OK,
        &headers,
        None,
        received,
    ))
}

/// A scheduler that has been told its quota.
fn told() -> Scheduler {
    let key = [Fingerprint::from_hash([1; 6])];
    let mut scheduler = Scheduler::new(settings(), &key, 1).expect("the settings are sound");
    let answer = answer();
    for n in 0..1000 {
        cycle(&mut scheduler, &answer, Time::from_nanos(n * 1_000_000));
    }
    // After a pause sends start slowly: the measured ones must follow at their own pace.
    for n in 0..10_000 {
        cycle(
            &mut scheduler,
            &answer,
            Time::from_nanos(TOLD - (10_000 - n) * STEP),
        );
    }
    scheduler
}

/// One request from ask to answer; whether it was granted at once.
fn cycle(scheduler: &mut Scheduler, answer: &Outcome, now: Time) -> bool {
    let ticket = scheduler.submit(Ask::new(), now).expect("there is room");
    let Some(grant) = scheduler.poll_grant(now) else {
        scheduler.cancel(ticket);
        return false;
    };
    scheduler.start(grant.ticket, now);
    let verdict = scheduler.complete(grant.ticket, answer, now + Duration::from_micros(1));
    black_box(&verdict);
    true
}

#[divan::bench]
fn acquire_and_complete_uncontended(bencher: Bencher<'_, '_>) {
    let scheduler = Mutex::new(told());
    let answer = answer();
    let clock = AtomicU64::new(TOLD);
    bencher.bench_local(|| {
        let now = Time::from_nanos(clock.fetch_add(STEP, Ordering::Relaxed));
        let granted = cycle(&mut scheduler.lock().expect("no panic"), &answer, now);
        assert!(granted, "the bench must not measure waiting");
    });
}

#[divan::bench(threads = [8])]
fn acquire_and_complete_from_eight_threads(bencher: Bencher<'_, '_>) {
    let scheduler = Mutex::new(told());
    let answer = answer();
    let clock = AtomicU64::new(TOLD);
    bencher.bench(|| {
        let mut scheduler = scheduler.lock().expect("no panic");
        let now = Time::from_nanos(clock.fetch_add(STEP, Ordering::Relaxed));
        cycle(&mut scheduler, &answer, now)
    });
}

/// The floor: a lock and nothing else.
#[divan::bench]
fn a_bare_lock(bencher: Bencher<'_, '_>) {
    let count = Mutex::new(0_u64);
    bencher.bench_local(|| *count.lock().expect("no panic") += 1);
}

/// For comparison: a number in flight and nothing else.
#[divan::bench]
fn a_tokio_semaphore(bencher: Bencher<'_, '_>) {
    let semaphore = tokio::sync::Semaphore::new(10);
    bencher.bench_local(|| drop(black_box(semaphore.try_acquire())));
}

const WAITERS: u64 = 100_000;

/// A scheduler that lets nobody through: its only place is taken.
fn blocked() -> Scheduler {
    let mut settings = settings();
    settings.max_concurrency = Some(1);
    settings.queue = WAITERS as usize + 1;
    let mut scheduler = Scheduler::new(settings, &[], 1).expect("the settings are sound");
    let now = Time::START;
    let first = scheduler.submit(Ask::new(), now).expect("there is room");
    scheduler.poll_grant(now).expect("it is the first");
    scheduler.start(first, now);
    scheduler
}

fn fill(scheduler: &mut Scheduler) -> Vec<Ticket> {
    let ask = |n| {
        scheduler
            .submit(Ask::new(), Time::from_nanos(n))
            .expect("there is room")
    };
    (0..WAITERS).map(ask).collect()
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn queue_a_hundred_thousand(bencher: Bencher<'_, '_>) {
    bencher
        .counter(ItemsCount::new(WAITERS))
        .with_inputs(blocked)
        .bench_local_values(|mut scheduler| {
            let tickets = fill(&mut scheduler);
            (scheduler, tickets)
        });
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn release_a_hundred_thousand(bencher: Bencher<'_, '_>) {
    bencher
        .counter(ItemsCount::new(WAITERS))
        .with_inputs(|| {
            let mut scheduler = blocked();
            let tickets = fill(&mut scheduler);
            (scheduler, tickets)
        })
        .bench_local_values(|(mut scheduler, tickets)| {
            tickets
                .into_iter()
                .for_each(|ticket| scheduler.cancel(ticket));
            scheduler
        });
}

/// Asks that are served one after the other, while the others wait in so many buckets: what a
/// decision costs must not depend on these.
#[divan::bench(args = [1, 50, 2_000], sample_count = 20, sample_size = 1)]
fn serve_from_buckets(bencher: Bencher<'_, '_>, buckets: u64) {
    const ASKS: u64 = 2_000;
    let answer = answer();
    bencher
        .counter(ItemsCount::new(ASKS))
        .with_inputs(|| {
            let mut settings = settings();
            settings.max_concurrency = Some(4);
            settings.max_wait = None;
            let mut scheduler = Scheduler::new(settings, &[], 1).expect("the settings are sound");
            for n in 0..ASKS {
                let ask = Ask::new().bucket(format!("bucket {}", n % buckets));
                scheduler
                    .submit(ask, Time::from_nanos(n))
                    .expect("there is room");
            }
            scheduler
        })
        .bench_local_values(|mut scheduler| {
            let (mut now, mut served) = (Time::START, 0);
            let mut in_flight = Vec::new();
            while served < ASKS {
                now = now + Duration::from_millis(20);
                while let Some(grant) = scheduler.poll_grant(now) {
                    scheduler.start(grant.ticket, now);
                    in_flight.push(grant.ticket);
                }
                if let Some(ticket) = in_flight.pop() {
                    let verdict = scheduler.complete(ticket, &answer, now);
                    black_box(&verdict);
                    served += 1;
                }
            }
            scheduler
        });
}

/// A tenth of those who wait belong to a group, which is cancelled: the bar is 5 ms for 10,000.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn cancel_a_group_of_ten_thousand(bencher: Bencher<'_, '_>) {
    bencher
        .counter(ItemsCount::new(WAITERS / 10))
        .with_inputs(|| {
            let mut scheduler = blocked();
            for n in 0..WAITERS {
                let ask = Ask::new().tenant(format!("tenant {}", n % 1_000));
                let ask = if n % 10 == 0 { ask.group("page") } else { ask };
                scheduler
                    .submit(ask, Time::from_nanos(n))
                    .expect("there is room");
            }
            scheduler
        })
        .bench_local_values(|mut scheduler| {
            let cancelled = scheduler.cancel_group(&"page".into(), None);
            assert_eq!(cancelled.removed as u64, WAITERS / 10);
            while scheduler.poll_refusal(Time::START).is_some() {}
            scheduler
        });
}

/// The same as a program sees it: 10,000 tasks that wait are told.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn cancel_ten_thousand_tasks(bencher: Bencher<'_, '_>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    bencher
        .with_inputs(|| {
            let limiter = paceline::Limiter::builder()
                .max_concurrency(1)
                .build()
                .expect("valid");
            runtime.block_on(async {
                let held = limiter.acquire(Ask::new()).await.expect("it is free");
                for _ in 0..WAITERS / 10 {
                    let waits = limiter.acquire(Ask::new().group("page"));
                    tokio::spawn(async { assert!(waits.await.is_err()) });
                }
                tokio::task::yield_now().await;
                while limiter.depth().0 < WAITERS as usize / 10 {
                    tokio::task::yield_now().await;
                }
                (limiter, held)
            })
        })
        .bench_local_values(|(limiter, held)| {
            assert_eq!(limiter.cancel("page").removed as u64, WAITERS / 10);
            (limiter, held)
        });
}
