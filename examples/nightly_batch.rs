//! A nightly batch: 2,100 hotels, 5 keys, one request per second and key, with time scaled down
//! fiftyfold.
//!
//! `cargo run --release --example nightly_batch`

#[path = "support/api.rs"]
mod api;

use std::time::Duration;

use futures_util::{StreamExt, stream};
use paceline::client::Clock;
use paceline::{ApiKey, Ceiling, Limiter, Priority, RetrySettings};
use reqwest_middleware::ClientBuilder;

const HOTELS: usize = 2_100;
/// A second of this night.
const SECOND: Duration = Duration::from_millis(20);

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(SECOND).await;
    let mut retry = RetrySettings::default();
    retry.refusals = 20;
    let limiter = Limiter::builder()
        .keys((1..=5).map(|n| ApiKey::query("applicationId", format!("key-{n}"))))
        // A tenth more than the rule: the network may bring two requests closer together.
        .ceiling(Ceiling::new(1, SECOND)?.margin(0.1)?)
        .max_wait(None)
        .retry(retry)
        .build()?;
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter)
        .build();

    let clock = Clock::new();
    let served = stream::iter(0..HOTELS)
        .map(|hotel| {
            let request = client.get(api.url(&format!("hotels/{hotel}")));
            request.with_extension(Priority::BACKGROUND).send()
        })
        // So many futures at a time; how many requests fly is the limiter's business.
        .buffer_unordered(200)
        .filter(|reply| std::future::ready(reply.as_ref().is_ok_and(|r| r.status() == 200)))
        .count()
        .await;
    assert_eq!(served, HOTELS, "nothing is lost");
    let took = clock.now().as_secs_f64() / SECOND.as_secs_f64() / 60.0;
    println!(
        "{served} hotels in {took:.1} minutes of this night, {} refused",
        api.counts().1
    );
    Ok(())
}
