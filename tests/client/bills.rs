//! What calls really took, told at the end of their answers, under a ceiling of tokens.

use std::time::Duration;

use paceline::client::Clock;
use paceline::{Limiter, Profile};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

async fn api(usage: &str) -> MockServer {
    let api = MockServer::start().await;
    // Longer than what is kept of it, with something before the end that only looks like usage.
    let text = "\\\"usage\\\": {\\\"total_tokens\\\": 9999} ".repeat(1000);
    let body = format!(r#"{{"choices":[{{"message":{{"content":"{text}"}}}}],{usage}}}"#);
    let answer = ResponseTemplate::new(200).set_body_raw(body, "application/json");
    Mock::given(any()).respond_with(answer).mount(&api).await;
    api
}

fn client(api: &MockServer, ceiling: &str) -> ClientWithMiddleware {
    let limiter = Limiter::builder()
        .profile(Profile::OPENAI)
        .hosts([api.address().to_string()])
        .ceiling(ceiling)
        .build()
        .unwrap();
    ClientBuilder::new(paceline::http_client().build().unwrap())
        .with(limiter)
        .build()
}

async fn ask(client: &ClientWithMiddleware, api: &MockServer, most: u32) {
    let body = format!(r#"{{"model":"m","max_tokens":{most},"messages":[]}}"#);
    let url = format!("{}/v1/chat/completions", api.uri());
    let request = client.post(url).header("content-type", "application/json");
    let reply = request.body(body).send().await.unwrap();
    let text = reply.text().await.unwrap();
    assert!(text.starts_with(r#"{"choices""#) && text.ends_with('}'));
}

#[tokio::test]
async fn what_was_reserved_and_not_used_is_given_back() {
    let usage = r#""usage":{"prompt_tokens":15,"completion_tokens":5,"total_tokens":20}"#;
    let api = api(usage).await;
    let client = client(&api, "25000 tokens/1h");
    // Two of the estimates fill the hour; a third would be refused at once.
    for _ in 0..12 {
        ask(&client, &api, 10_000).await;
    }
}

#[tokio::test]
async fn what_was_used_beyond_the_estimate_is_owed() {
    let usage = r#""usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":100000}"#;
    let api = api(usage).await;
    let client = client(&api, "100000 tokens/1s");
    let clock = Clock::new();
    let begun = clock.now();
    ask(&client, &api, 50).await;
    ask(&client, &api, 50).await;
    assert!(clock.now().since(begun) >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_stream_of_an_unknown_vendor_tells_its_usage_too() {
    let api = MockServer::start().await;
    let events = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n\
                  data: {\"choices\":[],\"usage\":{\"prompt_tokens\":15,\"completion_tokens\":5}}\n\n\
                  data: [DONE]\n\n";
    let answer = ResponseTemplate::new(200).set_body_raw(events, "text/event-stream");
    Mock::given(any()).respond_with(answer).mount(&api).await;
    let limiter = Limiter::builder()
        .ceiling("25000 tokens/1h")
        .build()
        .unwrap();
    let client = ClientBuilder::new(paceline::http_client().build().unwrap())
        .with(limiter)
        .build();
    // Two of the estimates fill the hour; a third would be refused at once.
    for _ in 0..6 {
        let url = format!("{}/v1/chat/completions", api.uri());
        let body = r#"{"model":"m","stream":true,"max_tokens":10000,"messages":[]}"#;
        let request = client.post(url).header("content-type", "application/json");
        let reply = request.body(body).send().await.unwrap();
        assert!(reply.text().await.unwrap().ends_with("[DONE]\n\n"));
    }
}
