//! A provider at the end of the middleware chain: it answers without a socket, on tokio's clock,
//! and writes down what it was sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Extensions;
use paceline::client::Clock;
use paceline::scheduler::concurrency::{Concurrency, FixedSettings};
use paceline::scheduler::pace::PaceSettings;
use paceline::{Limiter, LimiterBuilder, Time};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};

type Answer = dyn Fn(&Request, usize) -> http::Response<&'static str> + Send + Sync;

/// A limiter that learns nothing, so that only the gates of a test's own making hold.
pub(super) fn unlearned() -> LimiterBuilder {
    let mut fixed = FixedSettings::default();
    fixed.limit = 1024;
    Limiter::builder()
        .concurrency(Concurrency::Fixed(fixed))
        .pace(PaceSettings::Off)
}

/// Answers each request after a while.
#[derive(Clone)]
pub(super) struct Provider {
    answer: Arc<Answer>,
    took: Duration,
    clock: Clock,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// One request as the provider saw it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) at: Time,
    pub(super) method: http::Method,
    pub(super) url: String,
    pub(super) headers: http::HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Provider {
    /// Answers the n-th request (from 0) as told.
    pub(super) fn new(
        answer: impl Fn(&Request, usize) -> http::Response<&'static str> + Send + Sync + 'static,
    ) -> Self {
        Self {
            answer: Arc::new(answer),
            took: Duration::ZERO,
            clock: Clock::new(),
            seen: Arc::default(),
        }
    }

    /// Serves everything.
    pub(super) fn generous() -> Self {
        Self::new(|_, _| ok())
    }

    /// Each answer takes so long.
    pub(super) fn taking(mut self, took: Duration) -> Self {
        self.took = took;
        self
    }

    /// A client whose requests go through these limiters, and end here.
    pub(super) fn client(
        &self,
        limiters: impl IntoIterator<Item = Limiter>,
    ) -> ClientWithMiddleware {
        let client = paceline::http_client().build().expect("a client");
        let mut builder = ClientBuilder::new(client);
        for limiter in limiters {
            builder = builder.with(limiter);
        }
        builder.with(self.clone()).build()
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// How long after the first request each came, in milliseconds.
    pub(super) fn times(&self) -> Vec<u64> {
        let seen = self.seen();
        let first = seen.first().map(|seen| seen.at);
        let since = |seen: &Seen| seen.at.since(first.unwrap()).as_millis() as u64;
        seen.iter().map(since).collect()
    }
}

#[async_trait::async_trait]
impl Middleware for Provider {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let number = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(Seen {
                at: self.clock.now(),
                method: request.method().clone(),
                url: request.url().to_string(),
                headers: request.headers().clone(),
                body: request
                    .body()
                    .and_then(|b| b.as_bytes())
                    .unwrap_or_default()
                    .to_vec(),
            });
            seen.len() - 1
        };
        if !self.took.is_zero() {
            tokio::time::sleep(self.took).await;
        }
        Ok((self.answer)(&request, number).into())
    }
}

pub(super) fn ok() -> http::Response<&'static str> {
    status(200)
}

pub(super) fn status(status: u16) -> http::Response<&'static str> {
    http::Response::builder()
        .status(status)
        .body("body")
        .unwrap()
}
