//! One request and its answer: what is read of a request, and what an answer looks like.

use std::borrow::Cow;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use serde::Deserialize;

use super::practice::Practice;

type Response = hyper::Response<Full<Bytes>>;

/// What is read of a JSON body. Other fields, and bodies that are not JSON, are passed over.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body<'a> {
    #[serde(borrow)]
    custom_id: Option<Cow<'a, str>>,
    max_tokens: Option<f64>,
}

/// Answers one request. There is no error: what goes wrong is an answer too.
pub(super) async fn answer(
    practice: &Practice,
    request: hyper::Request<Incoming>,
) -> Result<Response, Infallible> {
    let (head, body) = request.into_parts();
    if head.method == Method::GET && head.uri.path() == "/__stats" {
        return Ok(json(StatusCode::OK, practice.stats()));
    }
    let Ok(body) = Limited::new(body, LARGEST_BODY).collect().await else {
        return Ok(json(
            StatusCode::PAYLOAD_TOO_LARGE,
            r#"{"error":"body too large"}"#,
        ));
    };
    let body = body.to_bytes();
    let said: Body<'_> = serde_json::from_slice(&body).unwrap_or_default();
    let tokens = text(&head.headers, &X_COST_TOKENS).and_then(|tokens| tokens.parse().ok());
    let tokens: f64 = tokens
        .or(said.max_tokens)
        .filter(|tokens| *tokens >= 0.0)
        .unwrap_or(1.0);
    let id = text(&head.headers, &X_REQUEST_ID)
        .map(Cow::Borrowed)
        .or(said.custom_id)
        .unwrap_or_else(|| Cow::Owned(described(&head.uri, &body)));
    let number = hash(id.as_bytes());

    let mut visit = practice.decide(credential(&head.headers, &head.uri), &id, number, tokens);
    if visit.reply.delay == Duration::MAX {
        std::future::pending::<()>().await;
    }
    if !visit.reply.delay.is_zero() {
        tokio::time::sleep(visit.reply.delay).await;
    }
    let status = StatusCode::from_u16(visit.reply.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = match visit.reply.body {
        "" => json(status, completion(number, tokens)),
        body if body.starts_with('{') => json(status, body),
        body => hyper::Response::new(Full::from(body)),
    };
    *response.status_mut() = status;
    response
        .headers_mut()
        .extend(std::mem::take(&mut visit.reply.headers));
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(X_REQUEST_ID, id);
    }
    Ok(response)
}

/// The secret that a request came with; the empty one if it came with none.
fn credential<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> &'a str {
    let bearer = text(headers, &AUTHORIZATION).map(|value| {
        let scheme = value.get(..BEARER.len()).unwrap_or_default();
        if scheme.eq_ignore_ascii_case(BEARER) {
            &value[BEARER.len()..]
        } else {
            value
        }
    });
    let in_header = || {
        let mut names = headers.iter().filter(|(name, _)| is_key(name.as_str()));
        names.next()?.1.to_str().ok()
    };
    let in_query = || {
        let mut pairs = uri.query()?.split('&');
        pairs.find_map(|pair| pair.split_once('=').filter(|(name, _)| is_key(name)))
    };
    bearer
        .or_else(in_header)
        .or_else(|| in_query().map(|(_, secret)| secret))
        .unwrap_or_default()
}

/// Whether a header or a query parameter of this name holds a key, as vendors name them.
fn is_key(name: &str) -> bool {
    let letters: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    KEYS.contains(&letters.as_str()) || KEY_ENDS.iter().any(|end| letters.ends_with(end))
}

/// What a request without an id is known by. A key in its query is not part of it.
fn described(uri: &Uri, body: &[u8]) -> String {
    let mut id = uri.path().to_owned();
    for pair in uri.query().into_iter().flat_map(|query| query.split('&')) {
        if !pair.split_once('=').is_some_and(|(name, _)| is_key(name)) {
            id.push('&');
            id.push_str(pair);
        }
    }
    if !body.is_empty() {
        id.push_str(&format!("#{:016x}", hash(body)));
    }
    id
}

fn hash(bytes: &[u8]) -> u64 {
    // The default hasher is made with fixed keys, so the same id is the same in every run.
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn json(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = hyper::Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// A success in the shape of a chat completion, so that clients of such APIs can read it.
fn completion(number: u64, tokens: f64) -> String {
    format!(
        concat!(
            r#"{{"id":"mock-{:016x}","object":"chat.completion","model":"mock","#,
            r#""choices":[{{"index":0,"message":{{"role":"assistant","content":"ok"}},"#,
            r#""finish_reason":"stop"}}],"usage":{{"total_tokens":{}}}}}"#
        ),
        number, tokens
    )
}

/// The largest body that is read: more than any request of a batch, less than what would hurt.
const LARGEST_BODY: usize = 16 << 20;

const BEARER: &str = "Bearer ";

/// Names of keys in headers and queries, letters and digits only: plain ones, OpenWeather's
/// `appid`, Rakuten's `applicationId`, Azure's `subscription-key`, and the like.
const KEYS: [&str; 10] = [
    "key",
    "auth",
    "appid",
    "applicationid",
    "clientid",
    "clientsecret",
    "password",
    "secret",
    "signature",
    "sig",
];

/// How such names end: `x-api-key`, `x-goog-api-key`, `access_token`.
const KEY_ENDS: [&str; 4] = ["apikey", "subscriptionkey", "token", "accesskey"];

const X_COST_TOKENS: HeaderName = HeaderName::from_static("x-cost-tokens");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_wherever_it_may_stand() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        let plain = uri("/v1/x?a=1&max_tokens=5");
        for (name, value) in [
            ("authorization", "Bearer one"),
            ("authorization", "bearer one"),
            ("authorization", "one"),
            ("x-api-key", "one"),
            ("api-key", "one"),
            ("x-goog-api-key", "one"),
            ("ocp-apim-subscription-key", "one"),
            ("x-auth-token", "one"),
        ] {
            let name = HeaderName::from_static(name);
            let headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static(value))]);
            assert_eq!(credential(&headers, &plain), "one", "{name}: {value}");
        }
        for name in [
            "key",
            "api_key",
            "apikey",
            "appid",
            "applicationId",
            "access_token",
            "token",
        ] {
            let uri = uri(&format!("/v1/x?a=1&{name}=two"));
            assert_eq!(credential(&HeaderMap::new(), &uri), "two", "{name}");
            assert_eq!(described(&uri, b""), "/v1/x&a=1", "{name}");
        }
        assert_eq!(credential(&HeaderMap::new(), &plain), "");
    }

    #[test]
    fn what_is_asked_for_is_what_a_request_is_known_by() {
        let described = |text: &str, body: &[u8]| described(&text.parse().unwrap(), body);
        assert_eq!(
            described("/x?key=a&page=2&max_tokens=5", b""),
            "/x&page=2&max_tokens=5"
        );
        assert_ne!(described("/x?page=1", b""), described("/x?page=2", b""));
        assert_ne!(described("/x", b"{\"a\":1}"), described("/x", b"{\"a\":2}"));
    }
}
