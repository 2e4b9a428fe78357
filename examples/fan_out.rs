//! Many calls at once, with a call in the loop over their answers: the program that stands still
//! with a plain semaphore in a middleware.
//!
//! `cargo run --example fan_out`

#[path = "support/api.rs"]
mod api;

use std::time::Duration;

use futures_util::{StreamExt, stream};
use paceline::Limiter;
use reqwest_middleware::ClientBuilder;

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::ZERO).await;
    let limiter = Limiter::builder().max_concurrency(4).build()?;
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter.clone())
        .build();

    let mut pages = stream::iter(0..40)
        .map(|page| client.get(api.url(&format!("pages/{page}"))).send())
        // So many futures at a time; how many requests fly is the limiter's business.
        .buffer_unordered(16);
    while let Some(page) = pages.next().await {
        let page = page?.text().await?;
        // The futures in the buffer are not polled meanwhile. They hold nobody up.
        client
            .get(api.url(&format!("details{page}")))
            .send()
            .await?;
    }

    let (served, _) = api.counts();
    println!("{} served, four at a time", served.len());
    assert_eq!((served.len(), limiter.depth()), (80, (0, 0)));
    Ok(())
}
