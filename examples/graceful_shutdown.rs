//! Shutting down without losing or doubling anything: what waits is told at once, what is in flight
//! finishes, for so long as there is time.
//!
//! `cargo run --example graceful_shutdown`

#[path = "support/api.rs"]
mod api;

use std::time::Duration;

use paceline::{CancellationToken, Error, Limiter};
use reqwest_middleware::ClientBuilder;
use tokio::task::JoinSet;

/// What a service has for those who still work when it is told to stop.
const GRACE: Duration = Duration::from_secs(2);

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::from_millis(30)).await;
    let limiter = Limiter::builder().ceiling("1/30ms+20%").build()?;
    // A program's own token: SIGTERM cancels it, say.
    let stop = CancellationToken::new();
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter.until(&stop))
        .build();

    let mut workers = JoinSet::new();
    for n in 0..50 {
        let send = client.get(api.url(&n.to_string())).send();
        workers.spawn(send);
    }
    while api.counts().0.len() < 5 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    stop.cancel();
    // Whoever comes by another way is refused too, and what flies is waited for.
    tokio::time::timeout(GRACE, limiter.close()).await?;
    let (mut served, mut refused, mut told) = (0, 0, 0);
    for result in workers.join_all().await {
        match result {
            Ok(reply) if reply.status() == 200 => served += 1,
            // The API had refused it, and it is not sent again.
            Ok(_) => refused += 1,
            // Nothing of these was sent: another process may take them up.
            Err(error) => told += i32::from(Error::of(&error).is_some_and(|e| !e.was_sent())),
        }
    }
    println!(
        "{served} served, {refused} refused, {told} told that they were not sent, {:?} left",
        limiter.depth()
    );
    assert!(served > 0 && told > 0 && served + refused + told == 50);
    assert_eq!(api.counts().0.len(), served as usize);
    Ok(())
}
