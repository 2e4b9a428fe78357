//! A practice API on the loopback that allows everything, and notes who sent what and when.

use std::sync::{Arc, Mutex};

use paceline::Time;
use paceline::client::Clock;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

pub(crate) struct Provider {
    server: MockServer,
    audit: Audit,
}

#[derive(Clone)]
struct Audit {
    clock: Clock,
    log: Arc<Mutex<Vec<(Time, String)>>>,
}

impl Provider {
    pub(crate) async fn start() -> Self {
        let server = MockServer::start().await;
        let audit = Audit {
            clock: Clock::new(),
            log: Arc::default(),
        };
        let respond = Mock::given(any()).respond_with(audit.clone());
        respond.mount(&server).await;
        Self { server, audit }
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.address().port()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.server.uri())
    }

    /// When each of these paths was asked for.
    pub(crate) fn log<const N: usize>(&self, paths: [&str; N]) -> [Vec<Time>; N] {
        let mut log = self.audit.log.lock().expect("no panic").clone();
        log.sort_unstable();
        paths.map(|path| {
            let of_it = log.iter().filter(|(_, asked)| asked[1..] == *path);
            of_it.map(|(at, _)| *at).collect()
        })
    }
}

impl Respond for Audit {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut log = self.log.lock().expect("no panic");
        log.push((self.clock.now(), request.url.path().to_owned()));
        ResponseTemplate::new(200)
    }
}
