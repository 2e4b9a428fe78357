//! What came between us and a server: the bytes of an answer, or what went wrong, in words, and
//! whether anything of a request had left.

use std::io;

use bytes::{Bytes, BytesMut};
use reqwest::Response;

use super::record::UNSENT;

/// Why the body of an answer could not be had.
#[derive(Debug)]
pub(crate) enum Unread {
    Broken(reqwest::Error),
    TooLarge,
    /// It is not packed as its headers say.
    Undecodable(reqwest::Error),
}

/// The whole body of an answer.
///
/// # Errors
///
/// It breaks off, or is larger than `most` bytes.
pub(crate) async fn body(response: &mut Response, most: usize) -> Result<Bytes, Unread> {
    let mut body = Bytes::new();
    let mut more = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(Unread::of)? {
        if body.is_empty() {
            // Most bodies are one chunk, and need not be copied.
            body = chunk;
            continue;
        }
        if more.is_empty() {
            more.extend_from_slice(&body);
        }
        more.extend_from_slice(&chunk);
        if more.len() > most {
            return Err(Unread::TooLarge);
        }
    }
    Ok(match more.is_empty() {
        true => body,
        false => more.freeze(),
    })
}

/// Whether a transport error came before anything could be processed.
pub(crate) fn is_unsent(error: &reqwest_middleware::Error) -> bool {
    !crate::Error::may_have_acted(error)
}

/// The error and its causes, without the URL, which may hold a secret of the caller's own.
pub(crate) fn describe(error: &reqwest_middleware::Error) -> String {
    let reqwest_middleware::Error::Reqwest(error) = error else {
        return error.to_string();
    };
    describe_transport(error)
}

/// The same for an error of the transport itself.
pub(crate) fn describe_transport(error: &reqwest::Error) -> String {
    let kind = match error {
        error if error.is_connect() => UNSENT,
        error if error.is_timeout() && error.is_body() => "timed out in the middle of the answer",
        error if error.is_timeout() => "timed out",
        error if error.is_body() || error.is_decode() => "the answer broke off",
        error if error.is_redirect() => "too many redirects",
        error if error.is_builder() => "cannot be sent",
        _ => "the connection broke",
    };
    let mut text = kind.to_owned();
    let cause = last_cause(error);
    if !cause.is_empty() {
        text.push_str(": ");
        text.push_str(&cause);
    }
    // What rustls says of a plain HTTP answer.
    if text.contains("InvalidContentType") {
        text.push_str(" (it does not speak TLS there: is http:// meant?)");
    }
    text
}

/// The first cause often repeats the URL, the last one says what happened.
pub(crate) fn last_cause(error: &reqwest::Error) -> String {
    causes(error)
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first = std::error::Error::source(error);
    std::iter::successors(first, |cause| cause.source())
}

impl Unread {
    /// Why no more of a body comes. What breaks off in the middle of a packed answer is broken, not
    /// packed wrongly.
    pub(crate) fn of(error: reqwest::Error) -> Self {
        let wrong = causes(&error)
            .filter_map(|cause| cause.downcast_ref::<io::Error>())
            .any(|cause| {
                matches!(
                    cause.kind(),
                    io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
                )
            });
        match error.is_decode() && wrong {
            true => Self::Undecodable(error),
            false => Self::Broken(error),
        }
    }
}
