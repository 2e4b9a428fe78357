//! One line in front of a `reqwest` client. Nothing is configured: the API allows 20 requests a
//! second, says so nowhere, and paceline finds out.
//!
//! `cargo run --example quickstart`

#[path = "support/api.rs"]
mod api;

use std::time::Duration;

use futures_util::future::try_join_all;
use paceline::{Limiter, Report};
use reqwest_middleware::ClientBuilder;

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::from_millis(50)).await;

    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(Limiter::new())
        .build();

    let sends = (0..30).map(|n| client.get(api.url(&n.to_string())).send());
    let replies = try_join_all(sends).await?;

    assert!(replies.iter().all(|reply| reply.status() == 200));
    let report = replies[29]
        .extensions()
        .get::<Report>()
        .expect("each response has one");
    println!(
        "the last one waited {:?}, {} attempts",
        report.waited, report.attempts
    );
    let (served, refused) = api.counts();
    println!("{} served, {refused} refused on the way", served.len());
    Ok(())
}
