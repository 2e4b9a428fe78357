//! What a key and an error look like to `reqwest`, and a client that keeps a key where it belongs.

use std::cell::RefCell;
use std::error::Error as _;
use std::pin::pin;

use http::{HeaderMap, Method, StatusCode, header};
use reqwest::{Request, Response, Url};
use reqwest_middleware::Error as ChainError;

use crate::error::Error;
use crate::scheduler::events::Outcome;

use super::body;
use super::key::ApiKey;

/// A client builder set as paceline needs it: no retries of its own, which would pass no gate; no
/// `Referer`, which would carry a key in a query elsewhere; and redirects only within the same
/// origin, at most three. Under a limiter each of them waits for a turn of its own, as any request.
/// A redirect that is not followed is given back as the answer it is.
///
/// With a client of your own paceline cannot change these. reqwest's default follows redirects to
/// other hosts with every header but `Authorization` and cookies, so a key in another header, or
/// in a query, needs a client made here or one that follows no redirects; and what it follows is
/// only counted once it was sent.
pub fn http_client() -> reqwest::ClientBuilder {
    let policy = reqwest::redirect::Policy::custom(|attempt| {
        let from = attempt.previous().last();
        if from.is_none_or(|from| from.origin() != attempt.url().origin()) {
            return attempt.stop();
        }
        let is_limited = ATTEMPT.with_borrow_mut(|running| {
            let running = running.as_mut();
            running.map(|running| running.next = Some(attempt.url().clone()))
        });
        if is_limited.is_some() {
            // The limiter follows it.
            attempt.stop()
        } else if attempt.previous().len() > REDIRECTS {
            attempt.error("too many redirects")
        } else {
            attempt.follow()
        }
    });
    reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .referer(false)
        .redirect(policy)
}

thread_local! {
    /// The attempt within whose poll the client runs. The redirect policy is called inside it, and
    /// has no other way to say whose request it is about.
    static ATTEMPT: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// An attempt that is being polled.
#[derive(Default)]
struct Running {
    /// Where the server wants it sent next.
    next: Option<Url>,
}

/// Runs an attempt, and says where it was redirected to within its origin.
pub(super) async fn redirected<F: Future>(attempt: F) -> (F::Output, Option<Url>) {
    let mut attempt = pin!(attempt);
    let mut next = None;
    let out = std::future::poll_fn(|context| {
        let outer = ATTEMPT.replace(Some(Running::default()));
        let poll = attempt.as_mut().poll(context);
        let running = ATTEMPT.replace(outer).unwrap_or_default();
        next = running.next.or_else(|| next.take());
        // A limiter further out is the one that follows.
        ATTEMPT.with_borrow_mut(|outer| {
            if let Some(outer) = outer {
                outer.next.clone_from(&next);
            }
        });
        poll
    })
    .await;
    (out, next)
}

/// The request without its body.
pub(super) fn bodiless(request: &Request) -> Request {
    let mut head = Request::new(request.method().clone(), request.url().clone());
    head.headers_mut().clone_from(request.headers());
    *head.timeout_mut() = request.timeout().copied();
    *head.version_mut() = request.version();
    head
}

/// The request that follows a redirect; none if that is not to be followed. As every browser does
/// (RFC 9110 15.4), a POST becomes a GET unless the status says that it stays what it is.
pub(super) fn hop(mut request: Request, status: StatusCode, to: &Url) -> Option<Request> {
    let becomes_get = match status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => request.method() == Method::POST,
        StatusCode::SEE_OTHER => request.method() != Method::HEAD,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => false,
        _ => return None,
    };
    if becomes_get {
        *request.method_mut() = Method::GET;
        *request.body_mut() = None;
        for name in [
            header::CONTENT_TYPE,
            header::CONTENT_LENGTH,
            header::CONTENT_ENCODING,
            header::TRANSFER_ENCODING,
        ] {
            request.headers_mut().remove(name);
        }
    }
    *request.url_mut() = to.clone();
    Some(request)
}

/// The URL of an attempt as it is shown: without a key in it.
pub(super) struct Shown<'a> {
    key: &'a ApiKey,
    /// As it was sent.
    sent: Url,
    /// As it was before the key was put on, where that is another.
    given: Option<Url>,
    /// By the caller, who has seen it; not by a redirect.
    by_caller: bool,
}

impl<'a> Shown<'a> {
    /// Puts the key on an attempt.
    pub(super) fn put_key(key: &'a ApiKey, request: &mut Request, by_caller: bool) -> Self {
        key.put_on(request.headers_mut());
        let given = key.query_pair().map(|(name, secret)| {
            let given = request.url().clone();
            // One of the caller's own would be sent beside it, and servers differ in which counts.
            retain_pairs(request.url_mut(), |pair| {
                let own = pair.split_once('=').map_or(pair, |(own, _)| own);
                decoded(own) != name.as_bytes()
            });
            request
                .url_mut()
                .query_pairs_mut()
                .append_pair(name, secret);
            given
        });
        let sent = request.url().clone();
        Self {
            key,
            sent,
            given,
            by_caller,
        }
    }

    /// The path that it was sent to.
    pub(super) fn path(&self) -> &str {
        self.sent.path()
    }

    /// Whether a response shows that it came after a redirect.
    pub(super) fn was_redirected(&self, response: &Response) -> bool {
        // A response that a cache or a test has made has no URL of its own.
        *response.url() != self.sent && response.url().host_str() != Some(NO_URL)
    }

    /// Where to follow a redirect to: a key that the server repeats there is put on anew.
    pub(super) fn next(&self, mut to: Url) -> Url {
        if let Some((name, secret)) = self.key.query_pair() {
            retain_pairs(&mut to, |pair| {
                let (own, value) = pair.split_once('=').unwrap_or((pair, ""));
                decoded(own) != name.as_bytes() || decoded(value) != secret.as_bytes()
            });
        }
        to
    }

    /// The response with a URL and headers that can be shown.
    pub(super) fn response(&self, mut response: Response) -> Response {
        self.mark_echoes(response.headers_mut());
        match self.clean(response.url()) {
            Some(url) => body::with_url(response, url),
            None => response,
        }
    }

    /// A server may repeat what it was sent, in the address of a redirect to elsewhere, say. The
    /// application gets that as it came, and printing the response does not show it.
    fn mark_echoes(&self, headers: &mut HeaderMap) {
        let Some(telltale) = self.key.telltale() else {
            return;
        };
        for value in headers.values_mut() {
            let text = value.as_bytes();
            let shows = text.len() >= telltale.len()
                && (contains(text, telltale)
                    || text.contains(&b'%') && contains(&decoded(text), telltale));
            if shows {
                value.set_sensitive(true);
            }
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
        let given = self.given.as_ref().filter(|_| *url == self.sent);
        if self.by_caller && *url == self.sent {
            return given.cloned();
        }
        // A redirect may carry the parameters along, and a server repeat what it was sent.
        let mut shown = given.unwrap_or(url).clone();
        if let Some(telltale) = self.key.telltale() {
            let shows = |text: &str| text.contains(telltale) || contains(&decoded(text), telltale);
            if shows(shown.as_str()) {
                retain_pairs(&mut shown, |pair| !shows(pair));
            }
            if shows(shown.as_str()) {
                shown.set_path("/");
                shown.set_fragment(None);
            }
        }
        (shown != *url).then_some(shown)
    }
}

/// Leaves out some of the pairs of a URL's query, and the others as they stand.
fn retain_pairs(url: &mut Url, keep: impl Fn(&str) -> bool) {
    let Some(query) = url.query() else { return };
    if query.split('&').all(&keep) {
        return;
    }
    let rest: Vec<_> = query.split('&').filter(|pair| keep(pair)).collect();
    let rest = (!rest.is_empty()).then(|| rest.join("&"));
    url.set_query(rest.as_deref());
}

/// Text of a URL without its percent signs, whichever of the letters it escapes.
fn decoded(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    let mut bytes = text.iter().copied();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let mut digit = || char::from(ahead.next()?).to_digit(16);
        match (byte, digit(), digit()) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                bytes = ahead;
            }
            _ => decoded.push(byte),
        }
    }
    decoded
}

fn contains(text: &[u8], part: &str) -> bool {
    text.windows(part.len())
        .any(|window| window == part.as_bytes())
}

/// What an error says about whether the request has left; none if nobody has tried to send it: a
/// limiter has refused it, or it is none that can be sent.
pub(super) fn outcome_of(error: &ChainError) -> Option<Outcome> {
    if Error::of(error).is_some_and(|error| !error.is_late()) || is_unfit(error) {
        return None;
    }
    let never_left = match error {
        ChainError::Reqwest(error) => error.is_connect() || is_refused_stream(error),
        ChainError::Middleware(_) => false,
    };
    Some(if never_left {
        Outcome::NotSent
    } else {
        Outcome::Broken
    })
}

/// Whether the server may have acted on an attempt that ended with this error of the transport.
pub(crate) fn may_have_acted(error: &ChainError) -> bool {
    outcome_of(error).is_some_and(|outcome| outcome != Outcome::NotSent)
}

/// Whether it is none that can be sent, however often it is tried: a URL that the client does not
/// take, say.
fn is_unfit(error: &ChainError) -> bool {
    matches!(error, ChainError::Reqwest(error) if error.is_builder())
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
/// The most redirects that are followed within one origin.
pub(super) const REDIRECTS: usize = 3;
/// `h2`'s words for RST_STREAM with REFUSED_STREAM, and for a GOAWAY without error from the server
/// that leaves this stream out.
const REFUSED: [&str; 2] = [
    "refused stream before processing any application logic",
    "connection error received: not a result of an error",
];
