//! A cache in front: what was answered within six hours is not asked again, and costs no quota;
//! of many who want the same at once one asks.
//!
//! `cargo run --example cache`

#[path = "support/api.rs"]
mod api;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use moka::future::Cache;
use paceline::Limiter;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error};

/// As long as the Rakuten system keeps the prices of a hotel.
const KEPT: Duration = Duration::from_secs(6 * 3600);

struct Hotels {
    client: ClientWithMiddleware,
    cache: Cache<String, String>,
}

impl Hotels {
    /// The answer for a URL: kept, or asked for once, however many wait for it.
    async fn price(&self, url: String) -> Result<String, Arc<Error>> {
        let ask = async {
            let reply = self.client.get(&url).send().await?;
            Ok(reply.error_for_status()?.text().await?)
        };
        self.cache.try_get_with(url.clone(), ask).await
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::from_millis(20)).await;
    let limiter = Limiter::builder().ceiling("1/20ms+50%").build()?;
    let hotels = Hotels {
        client: ClientBuilder::new(paceline::http_client().build()?)
            .with(limiter)
            .build(),
        cache: Cache::builder()
            .max_capacity(10_000)
            .time_to_live(KEPT)
            .build(),
    };
    let asks = (0..60).map(|n| hotels.price(api.url(&format!("hotel/{}", n % 6))));
    let answers = join_all(asks).await;
    assert!(answers.iter().all(Result::is_ok));

    let (served, refused) = api.counts();
    println!("60 wanted, {} asked, {refused} refused", served.len());
    assert_eq!(served.len(), 6, "each was asked for once");
    Ok(())
}
