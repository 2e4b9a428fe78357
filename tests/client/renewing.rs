//! Keys that a function brings: once at a time, before they expire, and never a stale one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use paceline::scheduler::events::What;
use paceline::{ApiKey, Ask, Deadline, Error, Limiter, LimiterBuilder, Renewed};
use reqwest_middleware::ClientWithMiddleware;
use tokio::time::{sleep, timeout};

use super::provider::{Provider, ok, status, unlearned};

const URL: &str = "http://api.test/";
const LIFE: Duration = Duration::from_secs(100);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Gives out tokens, the n-th call (from 1) as told: good for [`LIFE`], or why not.
#[derive(Clone)]
struct Login {
    calls: Arc<AtomicUsize>,
    is_down: Arc<Mutex<bool>>,
    took: Duration,
}

impl Login {
    fn new() -> Self {
        Self {
            calls: Arc::default(),
            is_down: Arc::default(),
            took: secs(1),
        }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn set_down(&self, is_down: bool) {
        *self.is_down.lock().unwrap() = is_down;
    }

    fn add_to(&self, builder: LimiterBuilder) -> LimiterBuilder {
        let login = self.clone();
        builder.renewed_key("partner", move || {
            let login = login.clone();
            async move {
                let call = login.calls.fetch_add(1, Ordering::SeqCst) + 1;
                sleep(login.took).await;
                if *login.is_down.lock().unwrap() {
                    let why = "the login page is down (https://id.test/t?refresh=hunter2)";
                    return Err(std::io::Error::other(why));
                }
                let key = ApiKey::bearer(format!("token-{call}"));
                Ok(Renewed::new(key).expires_in(LIFE))
            }
        })
    }
}

/// The tokens that a provider saw, in order.
fn tokens(provider: &Provider) -> Vec<String> {
    let seen = provider.seen().into_iter();
    let token = |headers: http::HeaderMap| headers["authorization"].to_str().unwrap().to_owned();
    seen.map(|seen| token(seen.headers).replace("Bearer token-", ""))
        .collect()
}

fn started() -> (Login, Provider, Limiter, ClientWithMiddleware) {
    let (login, provider) = (Login::new(), Provider::generous());
    let limiter = login.add_to(unlearned()).build().unwrap();
    let client = provider.client([limiter.clone()]);
    (login, provider, limiter, client)
}

#[tokio::test(start_paused = true)]
async fn many_who_come_first_wait_for_one_call() {
    let (login, provider, limiter, client) = started();
    assert_eq!(login.calls(), 0, "nobody is called before somebody comes");
    let sends = (0..20).map(|_| client.get(URL).send());
    for reply in join_all(sends).await {
        reply.unwrap();
    }
    assert_eq!(login.calls(), 1);
    assert_eq!(tokens(&provider), vec!["1"; 20]);
    assert_eq!(limiter.depth(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_renewed_while_the_old_one_serves() {
    let (login, provider, _, client) = started();
    client.get(URL).send().await.unwrap();
    sleep(secs(70)).await;
    client.get(URL).send().await.unwrap();
    assert_eq!(login.calls(), 1, "it is good for long");
    sleep(secs(10)).await;
    client.get(URL).send().await.unwrap();
    sleep(secs(2)).await;
    client.get(URL).send().await.unwrap();
    assert_eq!(
        (login.calls(), tokens(&provider)),
        (2, ["1", "1", "1", "2"].map(String::from).to_vec())
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_that_has_expired_is_never_sent() {
    let (login, provider, _, client) = started();
    client.get(URL).send().await.unwrap();
    for _ in 0..3 {
        sleep(secs(500)).await;
        client.get(URL).send().await.unwrap();
    }
    assert_eq!(
        (login.calls(), tokens(&provider)),
        (4, ["1", "2", "3", "4"].map(String::from).to_vec())
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_keeps_the_old_key_while_it_is_good_and_is_told() {
    let (login, provider, limiter, client) = started();
    let mut changes = limiter.changes();
    client.get(URL).send().await.unwrap();
    login.set_down(true);
    for n in 0..10 {
        // From 85 s to 98 s of its life.
        sleep(if n == 0 {
            secs(84)
        } else {
            Duration::from_millis(1400)
        })
        .await;
        client.get(URL).send().await.unwrap();
    }
    assert_eq!(tokens(&provider), vec!["1"; 11]);
    let told: Vec<_> = std::iter::from_fn(|| changes.try_next())
        .filter_map(|change| match change.what {
            What::NotRenewed { why } => Some(why),
            _ => None,
        })
        .collect();
    assert!((2..=4).contains(&told.len()), "1 s, 2 s, 4 s, …: {told:?}");
    assert_eq!(
        &*told[0],
        "renewing \"partner\" failed: the login page is down (https://id.test/t)"
    );

    sleep(secs(60)).await;
    let error = timeout(secs(20), client.get(URL).send())
        .await
        .expect("it is told");
    let error = Error::of(&error.unwrap_err()).map(ToString::to_string);
    let error = error.unwrap();
    assert_eq!(
        error,
        "there is no key: renewing \"partner\" failed: the login page is down \
         (https://id.test/t); nothing was sent"
    );
    let calls = login.calls();
    for _ in 0..100 {
        let error = client.get(URL).send().await.unwrap_err();
        let error = Error::of(&error).unwrap();
        assert!(error.is_renewal() && error.is_all_keys_faulty() && error.retry_at().is_some());
    }
    assert!(
        login.calls() <= calls + 1,
        "nobody hammers at the login page"
    );

    login.set_down(false);
    sleep(secs(61)).await;
    let reply = timeout(secs(10), client.get(URL).send()).await;
    if reply.expect("it is tried again").is_err() {
        // This one has only brought about the call.
        sleep(secs(5)).await;
        client.get(URL).send().await.unwrap();
    }
    assert_eq!(limiter.depth(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait_for_a_key_and_says_what_it_waited_for() {
    let (login, provider, limiter, client) = started();
    login.set_down(true);
    let hurried = client
        .get(URL)
        .with_extension(Deadline(Duration::from_millis(1500)));
    let error = hurried.send().await.unwrap_err();
    let error = Error::of(&error).unwrap();
    assert!(error.is_deadline() && error.is_renewal(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("a key that is being renewed: renewing"),
        "{text}"
    );
    assert_eq!((provider.seen().len(), limiter.depth()), (0, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_the_server_refuses_is_renewed_and_the_request_goes_once_more() {
    // The server has put an end to the first token before its time.
    let provider =
        Provider::new(
            |request, _| match request.headers()["authorization"].to_str().unwrap() {
                "Bearer token-1" => status(401),
                _ => ok(),
            },
        );
    let login = Login::new();
    let limiter = login.add_to(unlearned()).build().unwrap();
    let client = provider.client([limiter]);
    let first = client.post(URL).body("x").send().await.unwrap();
    assert_eq!(
        first.status(),
        401,
        "it has just come: another would be no better"
    );
    sleep(secs(20)).await;
    let sends = (0..5).map(|_| client.post(URL).body("x").send());
    for reply in join_all(sends).await {
        assert_eq!(reply.unwrap().status(), 200);
    }
    assert_eq!(login.calls(), 2);
    assert_eq!(
        tokens(&provider)
            .iter()
            .filter(|token| *token == "2")
            .count(),
        5
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_every_key_is_no_reason_to_log_in_again_and_again() {
    let provider = Provider::new(|_, _| status(401));
    let login = Login::new();
    let limiter = login.add_to(unlearned()).build().unwrap();
    let client = provider.client([limiter]);
    for _ in 0..120 {
        drop(client.get(URL).send().await);
        sleep(secs(1)).await;
    }
    // At most one in ten seconds; and a key that is out of use is not even tried.
    assert!(login.calls() <= 12, "{}", login.calls());
}

#[tokio::test(start_paused = true)]
async fn what_is_known_of_an_account_outlives_its_secrets() {
    let (login, provider) = (Login::new(), Provider::generous());
    let limiter = login.add_to(unlearned()).ceiling("1/150s").build().unwrap();
    let client = provider.client([limiter]);
    for _ in 0..3 {
        client.get(URL).send().await.unwrap();
    }
    let tokens = tokens(&provider);
    assert!(
        tokens[0] != tokens[1] && tokens[1] != tokens[2],
        "{tokens:?}"
    );
    let times = provider.times();
    assert!(times[1] >= 150_000 && times[2] >= 300_000, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_brought_leaves_the_work_to_another() {
    let (login, provider) = (Login::new(), Provider::generous());
    login.set_down(true);
    let fixed = ApiKey::bearer("token-fixed");
    let limiter = login.add_to(unlearned().key(fixed)).build().unwrap();
    let client = provider.client([limiter.clone()]);
    for _ in 0..10 {
        client.get(URL).send().await.unwrap();
        sleep(secs(5)).await;
    }
    assert_eq!(tokens(&provider), vec!["fixed"; 10]);
    limiter.set_keys([]).unwrap();
    let error = client.get(URL).send().await.unwrap_err();
    assert!(Error::of(&error).unwrap().is_renewal(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn who_is_dropped_while_it_waits_takes_no_call_along() {
    let (login, provider, _, client) = started();
    let dropped = timeout(Duration::from_millis(10), client.get(URL).send()).await;
    dropped.unwrap_err();
    sleep(secs(2)).await;
    client.get(URL).send().await.unwrap();
    assert_eq!(
        (login.calls(), tokens(&provider)),
        (1, vec!["1".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn a_function_that_panics_hangs_or_brings_nonsense_is_a_failure_like_any() {
    let call = Arc::new(AtomicUsize::new(0));
    let limiter = unlearned().renewed_key("odd", move || {
        let call = call.fetch_add(1, Ordering::SeqCst);
        async move {
            match call {
                0 => panic!("a bug of the application's"),
                1 => std::future::pending().await,
                2 => Ok::<_, std::io::Error>(Renewed::new(ApiKey::bearer("a b"))),
                3 => Ok(Renewed::new(ApiKey::bearer("x")).expires_in(Duration::ZERO)),
                _ => Ok(Renewed::new(ApiKey::bearer("x"))),
            }
        }
    });
    let limiter = limiter.build().unwrap();
    let mut changes = limiter.changes();
    while limiter.acquire(Ask::new()).await.is_err() {
        sleep(secs(1)).await;
    }
    let told: Vec<_> = std::iter::from_fn(|| changes.try_next())
        .filter_map(|change| match change.what {
            What::NotRenewed { why } => Some(why.replace("renewing \"odd\" failed: ", "")),
            _ => None,
        })
        .collect();
    let expected = [
        "its function panicked",
        "it took longer than 30s",
        "a bearer key contains a space, a control character or a character outside ASCII",
        "it is good for 0ns only",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_runtime_that_ends_takes_its_call_along_and_another_makes_it_anew() {
    let mut login = Login::new();
    login.took = Duration::from_millis(200);
    let limiter = login.add_to(unlearned()).build().unwrap();
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let first = runtime();
    let waits = limiter.acquire(Ask::new());
    first.block_on(async { timeout(Duration::from_millis(50), waits).await.unwrap_err() });
    assert_eq!(login.calls(), 1);
    let thread = std::thread::spawn({
        let limiter = limiter.clone();
        move || runtime().block_on(async { limiter.acquire(Ask::new()).await.map(drop) })
    });
    std::thread::sleep(Duration::from_millis(50));
    drop(first);
    thread.join().unwrap().unwrap();
    assert_eq!(login.calls(), 2);
}

#[test]
fn a_thread_without_a_runtime_gets_its_key_too() {
    let mut login = Login::new();
    login.took = Duration::from_millis(20);
    let limiter = login.add_to(unlearned()).build().unwrap();
    let permit = limiter.acquire_blocking(Ask::new()).unwrap();
    assert_eq!(permit.key().expose_secret(), "token-1");
    assert!(!format!("{permit:?} {limiter:?}").contains("token-1"));
}

#[test]
fn two_accounts_of_one_name_are_refused() {
    let login = Login::new();
    let error = login.add_to(login.add_to(unlearned())).build().unwrap_err();
    assert!(error.to_string().contains("\"partner\""), "{error}");
}
