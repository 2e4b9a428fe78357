//! Redirects on real sockets: each is a request that waits for its turn.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, StatusCode};
use paceline::client::Clock;
use paceline::{Deadline, Error, GaveUp, Limiter, LimiterBuilder, Report, Time};
use reqwest::Response;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use super::provider::unlearned;

/// Redirects `/a` to `/b` and so on to `/end`, and writes down what came and when.
#[derive(Clone)]
struct Road {
    status: u16,
    end: u16,
    clock: Clock,
    seen: Arc<Mutex<Vec<Seen>>>,
}

#[derive(Clone, Debug)]
struct Seen {
    at: Time,
    path: String,
    method: Method,
    body: Vec<u8>,
    is_typed: bool,
}

impl Respond for Road {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let path = request.url.path().to_owned();
        let mut seen = self.seen.lock().unwrap();
        let times = seen.iter().filter(|seen| seen.path == path).count();
        seen.push(Seen {
            at: self.clock.now(),
            path: path.clone(),
            method: request.method.clone(),
            body: request.body.clone(),
            is_typed: request.headers.contains_key("content-type"),
        });
        let to = match path.as_str() {
            "/a" => "/b",
            "/b" => "/end",
            "/round" => "/round",
            "/end" if times == 0 && self.end != 200 => return ResponseTemplate::new(self.end),
            _ => return ResponseTemplate::new(200).set_body_string("arrived"),
        };
        ResponseTemplate::new(self.status).insert_header("location", to)
    }
}

impl Road {
    async fn built(status: u16, end: u16) -> (Self, MockServer) {
        let server = MockServer::start().await;
        let road = Self {
            status,
            end,
            clock: Clock::new(),
            seen: Arc::default(),
        };
        Mock::given(any())
            .respond_with(road.clone())
            .mount(&server)
            .await;
        (road, server)
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn paths(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.path).collect()
    }

    /// Whether the n-th came at least n tenths of a second after this moment, as a ceiling would
    /// have it.
    fn is_spaced(&self, from: Time) -> bool {
        let seen = self.seen();
        let mut due = (0..).map(|n| from + n * Duration::from_millis(100));
        seen.iter().all(|seen| seen.at >= due.next().unwrap())
    }
}

fn client<const N: usize>(limiters: [LimiterBuilder; N]) -> ClientWithMiddleware {
    let mut client = ClientBuilder::new(paceline::http_client().build().unwrap());
    for limiter in limiters {
        client = client.with(limiter.build().unwrap());
    }
    client.build()
}

fn report(reply: &Response) -> Report {
    reply.extensions().get::<Report>().unwrap().clone()
}

#[tokio::test]
async fn every_hop_keeps_the_ceiling() {
    let (road, server) = Road::built(302, 200).await;
    // Two waits of a second, less what the hops took themselves.
    let client = client([unlearned().ceiling("1/1s")]);
    let url = format!("{}/a", server.uri());
    let start = road.clock.now();
    let reply = client.get(&url).send().await.unwrap();
    assert_eq!(reply.url().path(), "/end");
    assert_eq!(report(&reply).attempts, 3);
    assert!(report(&reply).waited >= Duration::from_millis(500));
    assert_eq!(
        report(&reply).queued,
        Duration::ZERO,
        "of the first attempt"
    );
    assert_eq!(road.paths(), ["/a", "/b", "/end"]);
    assert!(road.is_spaced(start), "{:?}", road.seen());
    assert_eq!(reply.text().await.unwrap(), "arrived");
}

#[tokio::test]
async fn of_two_limiters_both_gate_every_hop_and_one_follows() {
    let (road, server) = Road::built(302, 200).await;
    let client = client([unlearned(), unlearned().ceiling("1/100ms")]);
    let url = format!("{}/a", server.uri());
    let start = road.clock.now();
    let reply = client.get(&url).send().await.unwrap();
    assert_eq!(reply.url().path(), "/end");
    assert_eq!(road.paths(), ["/a", "/b", "/end"]);
    assert!(road.is_spaced(start), "{:?}", road.seen());
}

#[tokio::test]
async fn a_post_becomes_a_get_where_the_status_says_so_and_is_the_same_where_not() {
    for (status, is_same) in [
        (301, false),
        (302, false),
        (303, false),
        (307, true),
        (308, true),
    ] {
        let (road, server) = Road::built(status, 200).await;
        let post = client([unlearned()]).post(format!("{}/a", server.uri()));
        let reply = post.json(&["x"]).send().await.unwrap();
        assert_eq!(reply.status(), 200);
        for hop in &road.seen()[1..] {
            let (method, body) = if is_same {
                (Method::POST, &b"[\"x\"]"[..])
            } else {
                (Method::GET, &b""[..])
            };
            assert_eq!((&hop.method, &hop.body[..]), (&method, body), "{status}");
            assert_eq!(hop.is_typed, is_same, "{status}");
        }
    }
}

#[tokio::test]
async fn what_is_refused_at_the_end_of_the_road_goes_again_there() {
    let (road, server) = Road::built(302, 429).await;
    let url = format!("{}/a", server.uri());
    let reply = client([unlearned()]).get(&url).send().await.unwrap();
    assert_eq!(road.paths(), ["/a", "/b", "/end", "/end"]);
    assert_eq!((reply.status().as_u16(), report(&reply).attempts), (200, 4));
}

#[tokio::test]
async fn a_road_without_an_end_is_left_after_three_hops_and_its_last_answer_given_back() {
    let (road, server) = Road::built(302, 200).await;
    let url = format!("{}/round", server.uri());
    let reply = client([unlearned()]).get(&url).send().await.unwrap();
    assert_eq!((reply.status().as_u16(), road.paths().len()), (302, 4));
    assert_eq!(report(&reply).why, Some(GaveUp::Attempts));
}

#[tokio::test]
async fn a_hop_that_comes_too_late_is_an_error_that_says_that_something_was_sent() {
    let (road, server) = Road::built(302, 200).await;
    let send = client([unlearned().ceiling("1/1h")]).get(format!("{}/a", server.uri()));
    let send = send.with_extension(Deadline(Duration::from_millis(300)));
    let error = send.send().await.unwrap_err();
    let error = Error::of(&error).unwrap();
    assert!(error.is_deadline() && error.was_sent(), "{error}");
    assert!(error.to_string().contains("300ms"), "{error}");
    assert_eq!(road.paths(), ["/a"]);
}

#[tokio::test]
async fn a_body_that_cannot_be_sent_twice_is_not_sent_on() {
    for (status, ends_with) in [(303, 200), (307, 307)] {
        let (_, server) = Road::built(status, 200).await;
        let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>("a")]);
        let body = reqwest::Body::wrap_stream(chunks);
        let post = client([unlearned()]).post(format!("{}/a", server.uri()));
        let reply = post.body(body).send().await.unwrap();
        assert_eq!(reply.status().as_u16(), ends_with);
    }
}

#[tokio::test]
async fn a_client_of_ones_own_follows_by_itself_and_is_charged_for_it() {
    let (road, server) = Road::built(302, 200).await;
    let limiter = unlearned().ceiling("2/1h").max_wait(None).build().unwrap();
    let client = ClientBuilder::new(reqwest::Client::new()).with(limiter.clone());
    let reply = client
        .build()
        .get(format!("{}/b", server.uri()))
        .send()
        .await;
    assert_eq!(
        (reply.unwrap().status(), road.paths().len()),
        (StatusCode::OK, 2)
    );
    assert!(limiter.try_acquire(Default::default()).unwrap().is_none());
}

#[tokio::test]
async fn without_a_limiter_the_client_follows_within_its_origin_alone() {
    let (_, server) = Road::built(302, 200).await;
    let client = paceline::http_client().build().unwrap();
    let reply = client.get(format!("{}/a", server.uri())).send().await;
    assert_eq!(reply.unwrap().url().path(), "/end");
    let round = client.get(format!("{}/round", server.uri())).send().await;
    assert!(round.unwrap_err().is_redirect());
    let client =
        ClientBuilder::new(client).with(Limiter::builder().hosts(["api.test"]).build().unwrap());
    let passed = client
        .build()
        .get(format!("{}/a", server.uri()))
        .send()
        .await;
    assert_eq!(
        passed.unwrap().url().path(),
        "/end",
        "it is not for that host"
    );
}
