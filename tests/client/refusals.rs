//! Refusals that look like successes: errors inside a 200, and inside a stream of events.

use std::time::Duration;

use paceline::client::Clock;
use paceline::{Limiter, Profile, RetrySettings};
use reqwest_middleware::ClientBuilder;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// Each vendor's refusal with status 200, as it stands on the wire.
const REFUSALS: [(&str, &str); 6] = [
    ("kraken", r#"{"error":["EAPI:Rate limit exceeded"]}"#),
    (
        "shopify",
        r#"{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":101,"actualQueryCost":null,"throttleStatus":{"maximumAvailable":1000.0,"currentlyAvailable":100,"restoreRate":50.0}}}}"#,
    ),
    (
        "mediawiki",
        r#"{"error":{"code":"ratelimited","info":"You've exceeded your rate limit."}}"#,
    ),
    (
        "openrouter",
        r#"{"error":{"message":"Rate limit exceeded: free-models-per-min","code":429}}"#,
    ),
    (
        "github",
        r#"{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}"#,
    ),
    ("bybit", r#"{"retCode":10006,"retMsg":"Too many visits."}"#),
];

fn limiter(vendor: Profile, api: &MockServer, refusals: u16) -> Limiter {
    let mut retry = RetrySettings::default();
    retry.base = Some(Duration::from_millis(1));
    retry.refusals = refusals;
    let host = api.address().to_string();
    let limiter = Limiter::builder().profile(vendor).hosts([host]);
    limiter.retry(retry).build().unwrap()
}

fn client(limiter: &Limiter) -> reqwest_middleware::ClientWithMiddleware {
    ClientBuilder::new(paceline::http_client().build().unwrap())
        .with(limiter.clone())
        .build()
}

async fn api(first: ResponseTemplate, then: &str) -> MockServer {
    let api = MockServer::start().await;
    let once = Mock::given(any()).respond_with(first).up_to_n_times(1);
    once.with_priority(1).mount(&api).await;
    let then = ResponseTemplate::new(200).set_body_string(then);
    Mock::given(any()).respond_with(then).mount(&api).await;
    api
}

#[tokio::test]
async fn a_refusal_with_the_status_of_a_success_goes_again() {
    // GitHub's own rule is to wait a minute.
    for (name, refusal) in REFUSALS.into_iter().filter(|(name, _)| *name != "github") {
        let first = ResponseTemplate::new(200).set_body_string(refusal);
        let api = api(first, r#"{"result":"served"}"#).await;
        let limiter = limiter(Profile::by_name(name).unwrap(), &api, 3);
        let reply = client(&limiter).get(api.uri()).send().await.unwrap();
        assert_eq!(
            reply.text().await.unwrap(),
            r#"{"result":"served"}"#,
            "{name}"
        );
        let seen = api.received_requests().await.unwrap();
        assert_eq!(seen.len(), 2, "{name}");
    }
}

#[tokio::test]
async fn a_refusal_that_is_given_back_is_equal_to_the_byte() {
    for (name, refusal) in REFUSALS {
        let long = format!("{refusal}{}", " ".repeat(50_000));
        let first = ResponseTemplate::new(200)
            .set_body_string(&long)
            .insert_header("x-own", "kept");
        let api = api(first, "").await;
        let limiter = limiter(Profile::by_name(name).unwrap(), &api, 0);
        let reply = client(&limiter).get(api.uri()).send().await.unwrap();
        assert_eq!(reply.status(), 200, "{name}");
        assert_eq!(reply.headers()["x-own"], "kept", "{name}");
        assert_eq!(reply.content_length(), Some(long.len() as u64), "{name}");
        assert_eq!(reply.bytes().await.unwrap(), long.as_bytes(), "{name}");
    }
}

/// A stream that breaks off in the middle with an error, as OpenAI and Anthropic send it.
const STREAMS: [(Profile, &str); 3] = [
    (
        Profile::OPENAI,
        "data: {\"choices\":[{\"delta\":{\"content\":\"a \\\"error\\\"\"}}]}\n\ndata: {\"error\":{\"message\":\"Rate limit reached on tokens per min (TPM): Limit 30000, Used 29800, Requested 865. Please try again in 400ms.\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}\n\n",
    ),
    (
        Profile::OPENAI,
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"error\":null}}\n\nevent: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"Please try again in 400ms.\"}}}\n\n",
    ),
    (
        Profile::ANTHROPIC,
        "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9}}}\r\n\r\nevent: error\r\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"Please try again in 400ms.\"}}\r\n\r\n",
    ),
];

#[tokio::test]
async fn an_error_in_a_stream_stops_the_next_request_and_the_stream_is_equal_to_the_byte() {
    let clock = Clock::new();
    for (vendor, stream) in STREAMS {
        let first = ResponseTemplate::new(200).set_body_raw(stream, "text/event-stream");
        let api = api(first, "served").await;
        let limiter = limiter(vendor, &api, 3);
        let client = client(&limiter);
        let reply = client.get(api.uri()).send().await.unwrap();
        assert_eq!(reply.bytes().await.unwrap(), stream.as_bytes());
        let before = clock.now();
        client.get(api.uri()).send().await.unwrap();
        let waited = clock.now().since(before);
        assert!(waited >= Duration::from_millis(390), "{waited:?}");
    }
}

#[tokio::test]
async fn a_stream_without_an_error_stops_nobody() {
    let clock = Clock::new();
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"error: try again in 9s\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":7}}\n\ndata: [DONE]\n\n";
    let first = ResponseTemplate::new(200).set_body_raw(stream, "text/event-stream");
    let api = api(first, "served").await;
    let limiter = limiter(Profile::OPENAI, &api, 3);
    let client = client(&limiter);
    let reply = client.get(api.uri()).send().await.unwrap();
    assert_eq!(reply.bytes().await.unwrap(), stream.as_bytes());
    let before = clock.now();
    client.get(api.uri()).send().await.unwrap();
    assert!(clock.now().since(before) < Duration::from_secs(5));
}

#[tokio::test]
async fn another_client_hands_the_event_over_and_the_call_goes_again() {
    use paceline::Ask;
    use paceline::feedback::Class;
    use paceline::scheduler::events::Outcome;

    let limiter = Limiter::builder()
        .profile(Profile::ANTHROPIC)
        .build()
        .unwrap();
    let event = br#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let attempts = limiter.call(Ask::new(), |leave| {
        let outcome = if leave.attempt() == 1 {
            leave.outcome_of_event(event).expect("it is an error")
        } else {
            leave.outcome(http::StatusCode::OK, &http::HeaderMap::new(), None)
        };
        if let Outcome::Answered(said) = &outcome {
            let expected = if leave.attempt() == 1 {
                Class::Overloaded
            } else {
                Class::Ok
            };
            assert_eq!(said.class, expected);
        }
        let attempt = leave.attempt();
        async move { (outcome, attempt) }
    });
    assert_eq!(attempts.await.unwrap(), 2);
}
