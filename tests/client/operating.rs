//! What an operator does with a running limiter: looks, listens, switches, changes settings.

use std::time::Duration;

use futures_util::future::join_all;
use paceline::scheduler::events::{Reason, What};
use paceline::{ApiKey, Ask, Error, Mode, Report};
use tokio::time::timeout;

use super::provider::{Provider, ok, status, unlearned};

const URL: &str = "http://api.test/";
const LONG: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_running_limiter_explains_what_its_callers_wait_for() {
    let provider = Provider::generous();
    let limiter = unlearned().ceiling("1/10s").build().unwrap();
    let client = provider.client([limiter.clone()]);
    client.get(URL).send().await.unwrap();
    let waits = tokio::spawn(client.get(URL).send());
    tokio::time::sleep(Duration::from_secs(4)).await;
    let explanation = limiter.explain();
    let head = explanation.head().expect("one waits");
    assert_eq!(head.waits_for, Some(Reason::Ceiling));
    let opens = head.opens.expect("its end is known").as_secs_f64();
    assert!((5.9..6.1).contains(&opens), "{opens}");
    waits.await.unwrap().unwrap();
    assert_eq!(limiter.explain().head(), None);
}

/// A grant on the old key that its owner had not taken up yet was sent on it all the same.
#[tokio::test(start_paused = true)]
async fn nothing_leaves_on_a_key_that_was_taken_away() {
    let old = unlearned().key(ApiKey::bearer("old")).key_concurrency(1);
    let limiter = old.build().unwrap();
    let first = limiter.acquire(Ask::new()).await.unwrap();
    let mut waits = limiter.acquire(Ask::new());
    assert!(futures_util::poll!(&mut waits).is_pending());
    drop(first);
    assert_eq!(limiter.depth(), (0, 1), "it is granted");
    let new = ApiKey::bearer("new");
    limiter.set_keys([new.clone()]).unwrap();
    let permit = timeout(LONG, waits).await.expect("it stands still");
    assert_eq!(permit.unwrap().key(), &new);
    assert_eq!(limiter.depth(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn observed_everything_goes_at_once_on_the_keys_in_turn_and_nothing_is_repeated() {
    let provider = Provider::new(|_, n| if n == 3 { status(429) } else { ok() });
    let limiter = unlearned()
        .keys(["a", "b"].map(ApiKey::bearer))
        .ceiling("1/1h")
        .mode(Mode::Observe)
        .build()
        .unwrap();
    let client = provider.client([limiter.clone()]);
    let sends = (0..6).map(|_| client.get(URL).send());
    let replies = timeout(Duration::from_millis(10), join_all(sends)).await;
    let replies = replies.expect("nobody waits");
    let refused: Vec<_> = (replies.iter().flatten())
        .filter(|reply| reply.status() == 429)
        .collect();
    assert_eq!(refused.len(), 1, "it comes back as it is");
    let report = refused[0].extensions().get::<Report>().expect("a report");
    assert_eq!(report.attempts, 1);
    let keys: Vec<_> = (provider.seen().iter())
        .map(|seen| seen.headers["authorization"].clone())
        .collect();
    assert_eq!(keys, ["Bearer a", "Bearer b"].repeat(3));
    let observed = limiter.explain().observed;
    assert_eq!((observed.passed, observed.held), (6, 4));
    assert_eq!(observed.repeats, 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_let_go_when_the_limiter_is_switched_off_and_held_again_after() {
    let provider = Provider::generous();
    let limiter = unlearned().ceiling("2/1h").max_wait(None).build().unwrap();
    let client = provider.client([limiter.clone()]);
    let sends: Vec<_> = (0..5)
        .map(|_| tokio::spawn(client.get(URL).send()))
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(provider.seen().len(), 2);
    limiter.set_mode(Mode::Off);
    for send in sends {
        timeout(LONG, send)
            .await
            .expect("it goes")
            .unwrap()
            .unwrap();
    }
    limiter.set_mode(Mode::Enforce);
    assert_eq!(limiter.mode(), Mode::Enforce);
    let late = timeout(Duration::from_secs(60), client.get(URL).send()).await;
    assert!(late.is_err(), "what went out meanwhile counts");
}

#[tokio::test(start_paused = true)]
async fn settings_are_changed_while_callers_wait() {
    let provider = Provider::generous().taking(Duration::from_secs(1));
    let limiter = unlearned().max_concurrency(1).build().unwrap();
    let client = provider.client([limiter.clone()]);
    let sends: Vec<_> = (0..8)
        .map(|_| tokio::spawn(client.get(URL).send()))
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(provider.seen().len(), 1);
    let mut settings = limiter.settings();
    settings.max_concurrency = Some(4);
    settings.max_wait = Some(Duration::from_secs(7));
    limiter.set_settings(settings).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(provider.seen().len(), 4);
    for send in sends {
        send.await.unwrap().unwrap();
    }
    let mut wrong = limiter.settings();
    wrong.key_concurrency = 0;
    let error = limiter.set_settings(wrong).unwrap_err();
    assert!(error.is_settings(), "{error}");
    // What newcomers are told is the new wait.
    let mut settings = limiter.settings();
    settings.ceilings = vec!["1/1h".parse().unwrap()];
    limiter.set_settings(settings).unwrap();
    client.get(URL).send().await.unwrap();
    let error = client.get(URL).send().await.unwrap_err();
    let error = Error::of(&error).expect("it is ours").to_string();
    assert!(error.contains("`max_wait` of 7s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_never_reads_holds_nobody_up_and_misses_the_oldest() {
    let provider = Provider::generous();
    let limiter = unlearned().build().unwrap();
    let client = provider.client([limiter.clone()]);
    let mut never_reads = limiter.changes();
    let mut reads = limiter.changes();
    let mut read = 0;
    for n in 0..5_000 {
        // Each is a change.
        limiter.set_mode([Mode::Observe, Mode::Enforce][n % 2]);
        while reads.try_next().is_some() {
            read += 1;
        }
    }
    timeout(LONG, client.get(URL).send())
        .await
        .expect("it is served")
        .unwrap();
    assert_eq!(read, 5_000, "who reads misses nothing");
    let kept: Vec<_> = std::iter::from_fn(|| never_reads.try_next()).collect();
    assert!(kept.len() <= 1_024, "{}", kept.len());
    assert_eq!(
        kept.last().map(|last| &last.what),
        Some(&What::Mode(Mode::Enforce))
    );
}

#[test]
fn a_blocked_thread_is_let_go_by_a_switch_too() {
    let limiter = unlearned().ceiling("1/1h").max_wait(None).build().unwrap();
    let first = limiter.acquire_blocking(Ask::new()).unwrap();
    let waits = std::thread::spawn({
        let limiter = limiter.clone();
        move || limiter.acquire_blocking(Ask::new()).map(drop)
    });
    while limiter.depth().0 == 0 {
        std::thread::yield_now();
    }
    limiter.set_mode(Mode::Observe);
    waits.join().unwrap().unwrap();
    drop(first);
}
