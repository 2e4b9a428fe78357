//! Limiters among other layers: twice in a chain, two of them, retries outside, hooks that panic.

use std::time::Duration;

use http::Extensions;
use paceline::scheduler::events::{Change, What};
use paceline::{Ask, Deadline, Error, Limiter, Limiters, Profile, Report};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, Middleware, Next, Result};

use super::provider::{Provider, ok, status, unlearned};

const URL: &str = "http://api.test/";

fn told(limiter: &Limiter) -> Vec<What> {
    let mut changes = limiter.changes();
    let told = std::iter::from_fn(|| changes.try_next());
    told.map(|change: Change| change.what).collect()
}

#[tokio::test(start_paused = true)]
async fn the_same_limiter_twice_in_a_chain_acts_once() {
    let provider = Provider::new(|_, _| status(503));
    let limiter = unlearned()
        .ceiling("4/1h")
        .key_concurrency(1)
        .build()
        .unwrap();
    let client = provider.client([limiter.clone(), limiter.clone()]);
    let reply = client.get(URL).send().await.unwrap();
    assert_eq!((reply.status().as_u16(), provider.seen().len()), (503, 4));
    assert_eq!(reply.extensions().get::<Report>().unwrap().attempts, 4);
}

#[tokio::test(start_paused = true)]
async fn of_two_limiters_both_gate_and_the_outer_one_repeats() {
    let provider = Provider::new(|_, _| status(503));
    let account = unlearned().ceiling("1/1s").build().unwrap();
    let vendor = unlearned().ceiling("1/3s").build().unwrap();
    let client = provider.client([account.clone(), vendor.clone()]);
    let reply = client.get(URL).send().await.unwrap();
    assert_eq!((reply.status().as_u16(), provider.seen().len()), (503, 4));
    let times = provider.times();
    assert!(times[3] >= 9000, "the inner one gates: {times:?}");

    let provider = Provider::generous();
    let client = provider.client([vendor, account]);
    for _ in 0..3 {
        client.get(URL).send().await.unwrap();
    }
    assert!(provider.times()[2] >= 6000);
}

#[tokio::test(start_paused = true)]
async fn what_the_inner_limiter_refuses_is_not_sent_and_says_so() {
    let provider = Provider::generous();
    let outer = unlearned().build().unwrap();
    let inner = unlearned().ceiling("1/1h").build().unwrap();
    let client = provider.client([outer.clone(), inner]);
    client.get(URL).send().await.unwrap();
    let send = client
        .get(URL)
        .with_extension(Deadline(Duration::from_secs(1)))
        .send();
    let error = send.await.unwrap_err();
    let error = Error::of(&error).unwrap();
    assert!(error.is_deadline() && !error.was_sent(), "{error}");
    assert_eq!((provider.seen().len(), outer.depth()), (1, (0, 0)));
}

/// Repeats everything that is not a success, twice.
struct Stubborn;

#[async_trait::async_trait]
impl Middleware for Stubborn {
    async fn handle(
        &self,
        request: Request,
        to: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let copy = request.try_clone().expect("no stream");
        let reply = next.clone().run(request, to).await?;
        if reply.status().is_success() {
            return Ok(reply);
        }
        next.run(copy, to).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_layer_outside_passes_the_gates_anew_and_that_is_told_once() {
    let provider = Provider::new(|_, number| if number % 2 == 0 { status(404) } else { ok() });
    let limiter = unlearned().ceiling("1/1s").build().unwrap();
    let client = ClientBuilder::new(paceline::http_client().build().unwrap())
        .with(Stubborn)
        .with(limiter.clone())
        .with(provider.clone())
        .build();
    for _ in 0..2 {
        assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
    }
    let times = provider.times();
    assert!(times[3] >= 3000 && times.len() == 4, "{times:?}");
    let told = told(&limiter);
    let outside = |what: &&What| matches!(what, What::RetriedOutside);
    assert_eq!(told.iter().filter(outside).count(), 1, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hook_says_what_requests_ask_for_and_its_panic_is_told() {
    let provider = Provider::generous();
    let limiter = unlearned()
        .ceiling("3 points/1s")
        .ask_with(|request| match request.url().path() {
            "/big" => Ask::new().cost(paceline::Cost::points(3)),
            "/panic" => panic!("a bug of the application's"),
            _ => Ask::new(),
        })
        .build()
        .unwrap();
    let client = provider.client([limiter.clone()]);
    for path in ["panic", "big", "big", "small"] {
        client.get(format!("{URL}{path}")).send().await.unwrap();
    }
    let times = provider.times();
    assert!(
        times[1] >= 1000 && times[2] >= 2000 && times[3] >= 3000,
        "{times:?}"
    );
    assert!(told(&limiter).contains(&What::HookPanicked { hook: "ask_with" }));
}

#[tokio::test(start_paused = true)]
async fn all_limiters_are_closed_together_and_those_of_new_hosts_too() {
    let provider = Provider::generous().taking(Duration::from_secs(1));
    let limiters = Limiters::by_host();
    let client = ClientBuilder::new(paceline::http_client().build().unwrap())
        .with(limiters.clone())
        .with(provider.clone())
        .build();
    let flies = tokio::spawn(client.get("http://a.test/").send());
    tokio::task::yield_now().await;
    let known = limiters.known();
    assert_eq!(
        (known.len(), &*known[0].0, known[0].1.depth()),
        (1, "a.test", (0, 1))
    );
    limiters.close().await;
    assert_eq!(
        flies.await.unwrap().unwrap().status(),
        200,
        "what flies ends"
    );
    for host in ["http://a.test/", "http://b.test/"] {
        let error = client.get(host).send().await.unwrap_err();
        assert!(Error::of(&error).unwrap().is_closed());
    }
}

#[tokio::test(start_paused = true)]
async fn each_host_has_a_limiter_of_its_own() {
    let provider = Provider::generous();
    let limiters = Limiters::by_host_with(|_| unlearned().ceiling("1/1s"));
    let client = ClientBuilder::new(paceline::http_client().build().unwrap())
        .with(limiters)
        .with(provider.clone())
        .build();
    for host in ["a", "b", "c", "a"] {
        client
            .get(format!("http://{host}.test/"))
            .send()
            .await
            .unwrap();
    }
    let times = provider.times();
    assert!(times[2] < 10 && times[3] >= 1000, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn generation_calls_of_a_known_vendor_are_sent_again_after_errors() {
    let provider = Provider::new(|_, number| if number == 0 { status(500) } else { ok() });
    let client = provider.client([Limiter::new()]);
    let send = |path| {
        client
            .post(format!("https://api.openai.com/v1/{path}"))
            .body("{}")
            .send()
    };
    assert_eq!(send("chat/completions").await.unwrap().status(), 200);
    let provider = Provider::new(|_, _| status(500));
    let limiter = Limiter::builder().profile(Profile::OPENAI).build().unwrap();
    let client = provider.client([limiter]);
    let send = |path| {
        client
            .post(format!("http://proxy.test/v1/{path}"))
            .body("{}")
            .send()
    };
    assert_eq!(send("files").await.unwrap().status(), 500);
    assert_eq!(provider.seen().len(), 1);
    assert_eq!(send("responses").await.unwrap().status(), 500);
    assert_eq!(provider.seen().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn any_client_is_called_through_the_same_gates() {
    let limiter = unlearned().ceiling("1/1s").build().unwrap();
    let mut statuses = [503, 429, 200].into_iter();
    let clock = paceline::client::Clock::new();
    let send = |leave: paceline::Leave| {
        let status = http::StatusCode::from_u16(statuses.next().unwrap()).unwrap();
        let outcome = leave.outcome(status, &Default::default(), None);
        async move { (outcome, (status.as_u16(), leave.attempt())) }
    };
    let ask = Ask::new().replay(paceline::Replay::Always);
    assert_eq!(limiter.call(ask, send).await.unwrap(), (200, 3));
    assert!(clock.now().as_secs_f64() >= 2.0);
    assert_eq!(limiter.depth(), (0, 0));

    let never = |_: paceline::Leave| async {
        std::future::pending::<()>().await;
        unreachable!()
    };
    let ask = Ask::new().deadline(Duration::from_secs(5));
    let late: std::result::Result<(), _> = limiter.call(ask, never).await;
    let late = late.unwrap_err();
    assert!(late.is_deadline() && late.was_sent(), "{late}");
    assert_eq!(limiter.depth(), (0, 0));
}
