//! The layer of tower.

use std::future::{Future, poll_fn, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use paceline::{ApiKey, Error, GaveUp, LimiterBuilder, LimiterLayer, Priority, Report};
use tower_layer::Layer;
use tower_service::Service;

use super::provider::unlearned;

/// Answers with these statuses in turn (0 is an error), and writes down what it was sent.
#[derive(Clone, Debug, Default)]
struct Fake {
    statuses: Arc<Mutex<Vec<u16>>>,
    seen: Arc<Mutex<Vec<Request<String>>>>,
}

impl Fake {
    fn answering(statuses: &[u16]) -> Self {
        let fake = Self::default();
        fake.statuses.lock().unwrap().extend(statuses.iter().rev());
        fake
    }

    fn uris(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .map(|request| request.uri().to_string())
            .collect()
    }
}

impl Service<Request<String>> for Fake {
    type Response = Response<&'static str>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        self.seen.lock().unwrap().push(request);
        let status = self.statuses.lock().unwrap().pop().unwrap_or(200);
        Box::pin(ready(match status {
            0 => Err(std::io::Error::other("cut off")),
            status => Ok(Response::builder().status(status).body("body").unwrap()),
        }))
    }
}

async fn send(
    fake: &Fake,
    limiter: LimiterBuilder,
    method: &str,
) -> Result<Response<&'static str>, paceline::client::BoxError> {
    let mut service = LimiterLayer::new(limiter.build().unwrap()).layer(fake.clone());
    let request = Request::builder()
        .method(method)
        .uri("http://api.test/a?b=c");
    let request = request
        .extension(Priority::HIGH)
        .body("x".to_owned())
        .unwrap();
    poll_fn(|context| service.poll_ready(context)).await?;
    service.call(request).await
}

#[tokio::test(start_paused = true)]
async fn every_attempt_passes_the_gates_and_the_response_reports() {
    let fake = Fake::answering(&[503, 429, 200]);
    let reply = send(&fake, unlearned().ceiling("1/1s"), "GET")
        .await
        .unwrap();
    let report = reply.extensions().get::<Report>().unwrap();
    assert_eq!(
        (reply.status().as_u16(), report.attempts, report.why),
        (200, 3, None)
    );
    assert!(report.waited >= Duration::from_secs(2));
    let seen = fake.seen.lock().unwrap();
    assert!(seen.iter().all(|request| request.body() == "x"));
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_repeated_is_given_back() {
    let fake = Fake::answering(&[503]);
    let reply = send(&fake, unlearned(), "POST").await.unwrap();
    let report = reply.extensions().get::<Report>().unwrap();
    assert_eq!(report.why, Some(GaveUp::NotReplayable));
    let fake = Fake::answering(&[0]);
    let error = send(&fake, unlearned(), "POST").await.unwrap_err();
    assert_eq!(error.to_string(), "cut off");
    let fake = Fake::answering(&[503, 0, 0, 0, 0]);
    let reply = send(&fake, unlearned(), "GET")
        .await
        .expect("there was a response");
    assert_eq!((reply.status().as_u16(), fake.uris().len()), (503, 4));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_with_ones_own_earlier_attempt_is_waited_out() {
    for (statuses, ends_with, sent) in [([0, 409, 200], 200, 3), ([409, 200, 200], 409, 1)] {
        let fake = Fake::answering(&statuses);
        let layer = LimiterLayer::new(unlearned().build().unwrap());
        let request = Request::post("http://api.test/pay").header("idempotency-key", "7");
        let reply = layer
            .layer(fake.clone())
            .call(request.body(String::new()).unwrap());
        assert_eq!(reply.await.unwrap().status().as_u16(), ends_with);
        assert_eq!(fake.uris().len(), sent);
    }
}

#[tokio::test(start_paused = true)]
async fn keys_are_put_on_attempts_and_errors_are_paceline_s_own() {
    let fake = Fake::default();
    let key = ApiKey::query("api key", "a&b=c");
    send(&fake, unlearned().key(key), "GET").await.unwrap();
    assert_eq!(fake.uris(), ["http://api.test/a?b=c&api%20key=a%26b%3Dc"]);
    let closed = unlearned().build().unwrap();
    closed.close_now();
    let mut service = LimiterLayer::new(closed).layer(fake);
    let error = service.call(Request::new(String::new())).await.unwrap_err();
    assert!(error.downcast_ref::<Error>().unwrap().is_closed());
}

#[tokio::test(start_paused = true)]
async fn another_host_is_passed_by_without_key_and_gates() {
    let fake = Fake::default();
    let limiter = unlearned().key(ApiKey::bearer("s3cret")).ceiling("1/1h");
    let limiter = limiter
        .hosts(["api.test", "v2.api.test:8443"])
        .build()
        .unwrap();
    let mut service = LimiterLayer::new(limiter.clone()).layer(fake.clone());
    let get = |uri: &str| Request::get(uri).body(String::new()).unwrap();
    let mut reports = Vec::new();
    for uri in [
        "http://API.test/a",
        "http://evil.test/a",
        "http://api.test.evil.test/a",
        "http://api.test@evil.test/a",
        "https://v2.api.test/a",
    ] {
        let reply = service.call(get(uri)).await.unwrap();
        reports.push(reply.extensions().get::<Report>().is_some());
    }
    assert_eq!(reports, [true, false, false, false, false]);
    let seen = fake.seen.lock().unwrap().clone();
    let has_key = |request: &Request<String>| request.headers().contains_key("authorization");
    assert_eq!(
        Vec::from_iter(seen.iter().map(has_key)),
        [true, false, false, false, false]
    );
    // Where a path is all there is the service alone knows the host.
    let late = service.call(get("/a")).await.unwrap_err();
    let late = late.downcast_ref::<Error>().unwrap();
    assert!(late.is_deadline(), "there is one an hour: {late}");
    // Of two that nobody has named the first one is the key's.
    let fake = Fake::default();
    let first = unlearned()
        .key(ApiKey::query("key", "s3cret"))
        .build()
        .unwrap();
    let mut service = LimiterLayer::new(first).layer(fake.clone());
    for uri in ["http://api.test/", "http://evil.test/", "https://api.test/"] {
        service.call(get(uri)).await.unwrap();
    }
    assert_eq!(
        fake.uris(),
        [
            "http://api.test/?key=s3cret",
            "http://evil.test/",
            "https://api.test/"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn one_limiter_twice_acts_once_and_of_two_the_outer_one_repeats() {
    let fake = Fake::answering(&[503; 20]);
    let limiter = unlearned().ceiling("1/1s").build().unwrap();
    let layer = LimiterLayer::new(limiter.clone());
    let mut twice = layer.layer(layer.layer(fake.clone()));
    let request = || {
        Request::get("http://api.test/")
            .body(String::new())
            .unwrap()
    };
    let reply = twice.call(request()).await.unwrap();
    let report = reply.extensions().get::<Report>().unwrap().clone();
    assert_eq!((report.attempts, fake.uris().len()), (4, 4));
    let other = unlearned().ceiling("1/2s").build().unwrap();
    let mut two = layer.layer(LimiterLayer::new(other.clone()).layer(fake.clone()));
    let clock = paceline::client::Clock::new();
    two.call(request()).await.unwrap();
    assert_eq!(fake.uris().len(), 8, "one of them repeats");
    assert!(clock.now().as_secs_f64() >= 6.0, "and both gate");
    other.close_now();
    let error = two.call(request()).await.unwrap_err();
    assert!(
        error.downcast_ref::<Error>().unwrap().is_closed(),
        "{error}"
    );
    assert_eq!((fake.uris().len(), limiter.depth()), (8, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn being_ready_holds_nothing() {
    let limiter = unlearned().key_concurrency(1).build().unwrap();
    let layer = LimiterLayer::new(limiter.clone());
    let mut services: Vec<_> = (0..3).map(|_| layer.layer(Fake::default())).collect();
    for service in &mut services {
        poll_fn(|context| service.poll_ready(context))
            .await
            .unwrap();
    }
    assert_eq!(limiter.depth(), (0, 0));
    for service in &mut services {
        service.call(Request::new(String::new())).await.unwrap();
    }
}

/// A service of reqwest's requests that always fails in its own way.
#[derive(Clone)]
struct Broken;

impl Service<reqwest::Request> for Broken {
    type Response = reqwest::Response;
    type Error = std::io::Error;
    type Future = std::future::Ready<Result<reqwest::Response, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: reqwest::Request) -> Self::Future {
        ready(Err(std::io::Error::other("its own way")))
    }
}

fn get(url: String) -> reqwest::Request {
    reqwest::Request::new(http::Method::GET, url.parse().unwrap())
}

#[tokio::test]
async fn a_plain_client_of_reqwest_goes_the_same_way_as_with_the_middleware() {
    let server = super::server::Server::start(|seen, number| match (number, &*seen.path) {
        (0, _) => vec![super::server::answer(429, &[], b"")],
        (1, _) => vec![super::server::answer(302, &["location: /end"], b"")],
        _ => vec![super::server::ok()],
    })
    .await;
    let key = ApiKey::query("key", "hunter2");
    let limiter = unlearned().key(key).build().unwrap();
    let client = paceline::http_client().build().unwrap();
    let mut service = LimiterLayer::new(limiter.clone()).layer(client);
    let reply = service.call(get(server.url("/start"))).await.unwrap();
    assert_eq!(reply.url().as_str(), server.url("/end"));
    let report = reply.extensions().get::<Report>().unwrap();
    assert_eq!((report.attempts, server.count()), (3, 3));
    assert!(
        server
            .seen()
            .iter()
            .all(|seen| seen.path.ends_with("?key=hunter2"))
    );
    limiter.close_now();
    let error = service.call(get(server.url("/"))).await.unwrap_err();
    assert!(error.downcast_ref::<Error>().unwrap().is_closed());
}

#[tokio::test(start_paused = true)]
async fn an_error_of_such_a_service_comes_back_as_it_was() {
    let mut service = LimiterLayer::new(unlearned().build().unwrap()).layer(Broken);
    let error = service
        .call(get("http://api.test/".to_owned()))
        .await
        .unwrap_err();
    let error = error.downcast::<std::io::Error>().unwrap();
    assert_eq!(error.to_string(), "its own way");
}
