//! What each call costs is said once, for all of them, SDKs' too: here the tokens of a language
//! model, of which a minute (scaled down) has so many.
//!
//! `cargo run --example token_costs`

#[path = "support/api.rs"]
mod api;

use std::time::Duration;

use futures_util::future::try_join_all;
use paceline::client::Clock;
use paceline::{Ask, Cost, Limiter, Report};
use reqwest_middleware::ClientBuilder;
use serde_json::{Value, json};

/// What the model may say, and about four letters a token for what it is asked.
fn cost(request: &reqwest::Request) -> Ask {
    let body = request.body().and_then(|body| body.as_bytes());
    let body = body.and_then(|body| serde_json::from_slice::<Value>(body).ok());
    let Some(body) = body else {
        return Ask::new();
    };
    let input = body["prompt"].as_str().map_or(0, |prompt| prompt.len() / 4);
    let output = body["max_tokens"].as_u64().unwrap_or(256);
    Ask::new().estimated(Cost::in_out(input as u32, output as u32))
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::ZERO).await;
    let limiter = Limiter::builder()
        .ceiling("2000 tokens/500ms")
        .ask_with(cost)
        .build()?;
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter)
        .build();

    let clock = Clock::new();
    let sends = (0..12).map(|n| {
        let body = json!({ "prompt": "word ".repeat(100), "max_tokens": 375 });
        client.post(api.url(&n.to_string())).json(&body).send()
    });
    let replies = try_join_all(sends).await?;
    let last = replies[11].extensions().get::<Report>();
    println!(
        "12 calls of 500 tokens, 2000 in half a second: {:.1} s",
        clock.now().as_secs_f64()
    );
    println!(
        "the last one waited {:?}",
        last.expect("each response has one").waited
    );
    println!("{} refused", api.counts().1);
    assert!(clock.now().as_secs_f64() >= 1.0);
    Ok(())
}
