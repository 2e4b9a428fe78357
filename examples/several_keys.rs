//! Five keys in a query parameter, used as one: each request goes to the key that can serve it soonest.
//!
//! `cargo run --example several_keys`

#[path = "support/api.rs"]
mod api;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use paceline::{ApiKey, Limiter, Report};
use reqwest_middleware::ClientBuilder;

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::from_millis(50)).await;

    // The rule is known here, so it is told: then nothing has to be refused to learn it.
    let limiter = Limiter::builder()
        .keys((1..=5).map(|n| ApiKey::query("applicationId", format!("key-{n}"))))
        .ceiling("1/50ms+20%")
        .build()?;
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter)
        .build();

    let sends = (0..30).map(|n| client.get(api.url(&n.to_string())).send());
    let mut by_key = BTreeMap::new();
    for reply in try_join_all(sends).await? {
        assert!(reply.url().query().is_none(), "keys are shown nowhere");
        let report = reply
            .extensions()
            .get::<Report>()
            .expect("each response has one");
        *by_key.entry(report.key.to_string()).or_insert(0) += 1;
    }
    for (key, served) in by_key {
        println!("key {key} served {served}");
    }
    println!("{} refused", api.counts().1);
    Ok(())
}
