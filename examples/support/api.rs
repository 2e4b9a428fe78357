//! A practice API on the loopback for the examples: it allows each key one request per interval,
//! refuses what comes sooner, and counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use paceline::Time;
use paceline::client::Clock;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// The running server. It stops when it is dropped.
pub(crate) struct Api {
    server: MockServer,
    rule: Rule,
}

#[derive(Clone)]
struct Rule {
    interval: Duration,
    clock: Clock,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    last: HashMap<String, Time>,
    served: Vec<String>,
    refused: usize,
}

impl Api {
    pub(crate) async fn start(interval: Duration) -> Self {
        let server = MockServer::start().await;
        let rule = Rule {
            interval,
            clock: Clock::new(),
            seen: Arc::default(),
        };
        Mock::given(any())
            .respond_with(rule.clone())
            .mount(&server)
            .await;
        Self { server, rule }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.server.uri())
    }

    /// The paths served, in order, and how many requests were refused.
    pub(crate) fn counts(&self) -> (Vec<String>, usize) {
        let seen = self.rule.seen.lock().expect("no panic");
        (seen.served.clone(), seen.refused)
    }
}

impl Respond for Rule {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let key = request.headers.get("authorization");
        let key = format!("{key:?} {:?}", request.url.query());
        let now = self.clock.now();
        let mut seen = self.seen.lock().expect("no panic");
        let last = seen.last.get(&key).copied();
        if last.is_some_and(|last| now < last + self.interval) {
            seen.refused += 1;
            return ResponseTemplate::new(429);
        }
        seen.last.insert(key, now);
        seen.served.push(request.url.path().to_owned());
        ResponseTemplate::new(200).set_body_string(request.url.path())
    }
}
