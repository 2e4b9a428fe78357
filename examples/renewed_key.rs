//! An access token that a function brings, and brings anew before it expires.
//!
//! `cargo run --example renewed_key`

#[path = "support/api.rs"]
mod api;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use paceline::{ApiKey, Limiter, Renewed};
use reqwest_middleware::ClientBuilder;

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::ZERO).await;
    let logins = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&logins);
    let limiter = Limiter::builder()
        // What is learned of the account outlives its tokens.
        .renewed_key("partner account", move || {
            let login = count.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                // Here a program asks its token endpoint, with a client of its own.
                let key = ApiKey::bearer(format!("token-{login}"));
                Ok::<_, std::io::Error>(Renewed::new(key).expires_in(Duration::from_secs(1)))
            }
        })
        .build()?;
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter)
        .build();
    for n in 0..8 {
        // None of them waits for a login but the first.
        client.get(api.url(&n.to_string())).send().await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let logins = logins.load(Ordering::SeqCst);
    println!("{} served with {logins} logins", api.counts().0.len());
    assert!((2..=3).contains(&logins));
    Ok(())
}
