//! What a key and an error look like to `reqwest`, and a client that keeps a key where it belongs.

use std::cell::Cell;
use std::error::Error as _;
use std::pin::pin;

use reqwest::{Request, Response, Url};
use reqwest_middleware::Error as ChainError;

use crate::error::Error;
use crate::scheduler::events::Outcome;

use super::body;
use super::key::ApiKey;

/// A client builder set as paceline needs it: no retries of its own, which would pass no gate; no
/// `Referer`, which would carry a key in a query elsewhere; and redirects only within the same
/// origin, at most three, each of which is charged.
///
/// With a client of your own paceline cannot change these. reqwest's default follows redirects to
/// other hosts with every header but `Authorization` and cookies, so a key in another header, or
/// in a query, needs a client made here or one that follows no redirects.
pub fn http_client() -> reqwest::ClientBuilder {
    let policy = reqwest::redirect::Policy::custom(|attempt| {
        let from = attempt.previous().last();
        if from.is_none_or(|from| from.origin() != attempt.url().origin()) {
            attempt.stop()
        } else if attempt.previous().len() > REDIRECTS {
            attempt.error("too many redirects")
        } else {
            HOPS.set(HOPS.get() + 1);
            attempt.follow()
        }
    });
    reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .referer(false)
        .redirect(policy)
}

thread_local! {
    /// Redirects followed within the poll that is running. The policy is called inside it, and
    /// has no other way to say whose request it follows.
    static HOPS: Cell<u32> = const { Cell::new(0) };
}

/// Runs an attempt, and counts the redirects that it follows.
pub(super) async fn counting<F: Future>(attempt: F) -> (F::Output, u32) {
    let mut attempt = pin!(attempt);
    let mut hops = 0;
    let out = std::future::poll_fn(|context| {
        let outer = HOPS.replace(0);
        let poll = attempt.as_mut().poll(context);
        let followed = HOPS.get();
        // A limiter further out counts them too.
        HOPS.set(outer + followed);
        hops += followed;
        poll
    })
    .await;
    (out, hops)
}

/// The URL of an attempt as it is shown: without a key in it.
pub(super) struct Shown<'a> {
    key: &'a ApiKey,
    /// As it was sent.
    sent: Url,
    /// As the caller gave it, where that is another.
    given: Option<Url>,
}

impl<'a> Shown<'a> {
    /// Puts the key on an attempt.
    pub(super) fn put_key(key: &'a ApiKey, request: &mut Request) -> Self {
        key.put_on(request.headers_mut());
        let given = key.query_pair().map(|(name, secret)| {
            let given = request.url().clone();
            request
                .url_mut()
                .query_pairs_mut()
                .append_pair(name, secret);
            given
        });
        let sent = request.url().clone();
        Self { key, sent, given }
    }

    /// Whether a response shows that it came after a redirect.
    pub(super) fn was_redirected(&self, response: &Response) -> bool {
        // A response that a cache or a test has made has no URL of its own.
        *response.url() != self.sent && response.url().host_str() != Some(NO_URL)
    }

    /// The response with a URL that can be shown.
    pub(super) fn response(&self, response: Response) -> Response {
        match self.clean(response.url()) {
            Some(url) => body::with_url(response, url),
            None => response,
        }
    }

    /// The error with a URL that can be shown.
    pub(super) fn error(&self, error: ChainError) -> ChainError {
        match error {
            ChainError::Reqwest(error) => match error.url().and_then(|url| self.clean(url)) {
                Some(url) => ChainError::Reqwest(error.with_url(url)),
                None => ChainError::Reqwest(error),
            },
            other => other,
        }
    }

    /// What to show for a URL that must not be shown.
    fn clean(&self, url: &Url) -> Option<Url> {
        if *url == self.sent {
            return self.given.clone();
        }
        // A redirect may carry the parameters along, and a server repeat what it was sent.
        let secret = self.key.expose_secret();
        let encoded = form_urlencoded(secret);
        let shows = |text: &str| text.contains(secret) || text.contains(&*encoded);
        if secret.len() < SHORTEST_SECRET || !shows(url.as_str()) {
            return None;
        }
        let mut url = url.clone();
        let pairs = url.query().unwrap_or_default().split('&');
        let rest: Vec<_> = pairs.filter(|pair| !shows(pair)).collect();
        let rest = (!rest.is_empty()).then(|| rest.join("&"));
        url.set_query(rest.as_deref());
        if shows(url.as_str()) {
            url.set_path("/");
            url.set_fragment(None);
        }
        Some(url)
    }
}

/// A secret as it stands in a query.
fn form_urlencoded(secret: &str) -> String {
    let mut url = Url::parse("http://a/").expect("a URL");
    url.query_pairs_mut().append_key_only(secret);
    url.query().unwrap_or_default().to_owned()
}

/// What an error says about whether the request has left; none if it is a limiter's own.
pub(super) fn outcome_of(error: &ChainError) -> Option<Outcome> {
    if Error::of(error).is_some_and(|error| !error.is_late()) {
        return None;
    }
    let never_left = match error {
        ChainError::Reqwest(error) => {
            error.is_connect() || error.is_builder() || is_refused_stream(error)
        }
        ChainError::Middleware(_) => false,
    };
    Some(if never_left {
        Outcome::NotSent
    } else {
        Outcome::Broken
    })
}

/// Whether an HTTP/2 server said that it has not looked at the request: RFC 9113 8.7 lets such a
/// request be repeated. The `h2` crate says so in words only, unless one depends on it.
fn is_refused_stream(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if REFUSED.iter().any(|refused| text.contains(refused)) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The host that reqwest gives to a response without a URL.
const NO_URL: &str = "no.url.provided.local";
/// A shorter text occurs in URLs by chance.
const SHORTEST_SECRET: usize = 6;
/// The most redirects that are followed within one origin.
const REDIRECTS: usize = 3;
/// `h2`'s words for RST_STREAM with REFUSED_STREAM, and for a GOAWAY without error from the server
/// that leaves this stream out.
const REFUSED: [&str; 2] = [
    "refused stream before processing any application logic",
    "connection error received: not a result of an error",
];
