//! An operator replaces the keys while the program runs.
//!
//! `cargo run --example key_rotation`

#[path = "support/api.rs"]
mod api;

use std::time::Duration;

use paceline::{ApiKey, Limiter, Report};
use reqwest_middleware::ClientBuilder;

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::ZERO).await;
    let limiter = Limiter::builder().key(ApiKey::bearer("old")).build()?;
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter.clone())
        .build();

    let mut used = Vec::new();
    for n in 0..6 {
        if n == 3 {
            // Those that stay keep what is known of them; what is in flight finishes on its key.
            limiter.set_keys([ApiKey::bearer("new"), ApiKey::bearer("newer")])?;
        }
        let reply = client.get(api.url(&n.to_string())).send().await?;
        let report = reply.extensions().get::<Report>();
        used.push(report.expect("each response has one").key);
    }
    for key in &used {
        println!("{key}");
    }
    println!("{} served", api.counts().0.len());
    assert_eq!(used[..3], [ApiKey::bearer("old").fingerprint(); 3]);
    assert!(!used[3..].contains(&used[0]));
    Ok(())
}
