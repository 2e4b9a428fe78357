//! What a key, a request and a response look like to `reqwest`.

use bytes::{Bytes, BytesMut};
use http::Method;
use http_body_util::BodyExt;
use reqwest::{Body, Request, Response, ResponseBuilderExt, Url};
use reqwest_middleware::Error as ChainError;

use crate::scheduler::events::Outcome;

use super::key::ApiKey;
use super::rest::Rest;

/// A client builder set as paceline needs it: no retries of its own, which would pass no gate; no
/// `Referer`, which would carry a key in a query elsewhere; and redirects only within the same
/// origin, at most three.
pub fn http_client() -> reqwest::ClientBuilder {
    let policy = reqwest::redirect::Policy::custom(|attempt| {
        let from = attempt.previous().last();
        if from.is_none_or(|from| from.origin() != attempt.url().origin()) {
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

/// An attempt's URL with a secret in it, and the one to show for it.
pub(super) struct Shown {
    with_key: Url,
    shown: Url,
}

/// Puts the key on an attempt. Where that changes the URL, answers what to show instead.
pub(super) fn put_key(key: &ApiKey, request: &mut Request) -> Option<Shown> {
    key.put_on(request.headers_mut());
    let (name, secret) = key.query_pair()?;
    let shown = request.url().clone();
    request
        .url_mut()
        .query_pairs_mut()
        .append_pair(name, secret);
    let with_key = request.url().clone();
    Some(Shown { with_key, shown })
}

/// The error with no key in its URL.
pub(super) fn hide_key(error: ChainError, shown: Option<Shown>) -> ChainError {
    match (error, shown) {
        (ChainError::Reqwest(error), Some(shown)) => {
            ChainError::Reqwest(error.with_url(shown.shown))
        }
        (error, _) => error,
    }
}

/// Whether a request may be sent again after it may have been processed.
pub(super) fn is_replayable(request: &Request) -> bool {
    let idempotent = [
        Method::GET,
        Method::HEAD,
        Method::PUT,
        Method::DELETE,
        Method::OPTIONS,
        Method::TRACE,
    ];
    idempotent.contains(request.method()) || request.headers().contains_key("idempotency-key")
}

/// What a transport error says about whether the request has left.
pub(super) fn outcome_of(error: &ChainError) -> Outcome {
    match error {
        ChainError::Reqwest(error) if error.is_connect() || error.is_builder() => Outcome::NotSent,
        _ => Outcome::Broken,
    }
}

/// Reads the start of the body of an answer that refuses, and gives the answer back as it was.
pub(super) async fn peek(response: Response, shown: Option<Shown>) -> (Response, Option<Bytes>) {
    let wants_body = response.status().is_client_error() || response.status().is_server_error();
    let url = match shown {
        Some(shown) if *response.url() == shown.with_key => Some(shown.shown),
        _ => None,
    };
    if !wants_body && url.is_none() {
        return (response, None);
    }
    let url = url.unwrap_or_else(|| response.url().clone());
    let (mut parts, mut body) = http::Response::<Body>::from(response).into_parts();
    // The conversion leaves the URL behind; this puts it back for the way home.
    let carrier = http::Response::builder().url(url).body(());
    let carrier = carrier.expect("an empty response with a URL is valid");
    parts.extensions.extend(carrier.into_parts().0.extensions);
    if !wants_body {
        return (http::Response::from_parts(parts, body).into(), None);
    }
    let mut slice = BytesMut::new();
    let mut frames = Vec::new();
    while slice.len() < SLICE {
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    slice.extend_from_slice(data);
                }
                frames.push(Ok(frame));
            }
            Some(Err(error)) => {
                frames.push(Err(error));
                break;
            }
            None => break,
        }
    }
    slice.truncate(SLICE);
    let body = Body::wrap(Rest::new(frames, body));
    (
        http::Response::from_parts(parts, body).into(),
        Some(slice.freeze()),
    )
}

/// The most hops that a redirect may lead within one origin.
const REDIRECTS: usize = 3;
/// As much of a body as classification looks at.
const SLICE: usize = 8 * 1024;
