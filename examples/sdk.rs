//! SDKs that bring their own client: one takes a service of tower, the other a plain
//! `reqwest::Client`. Both go through the same limiter.
//!
//! `cargo run --features tower --example sdk`

#[path = "support/api.rs"]
mod api;
#[path = "support/sdks.rs"]
mod sdks;

use std::time::Duration;

use paceline::{Ask, Limiter, LimiterLayer, Outcome, Replay};
use sdks::{PlainSdk, TowerSdk};
use tower_layer::Layer;

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::from_millis(20)).await;
    let limiter = Limiter::builder().ceiling("1/20ms+20%").build()?;
    // An SDK's own retries would pass no gate: they are off here, and so they should be there.
    let client = paceline::http_client().build()?;

    let service = LimiterLayer::new(limiter.clone()).layer(client.clone());
    let mut tower = TowerSdk(service, api.url(""));
    let plain = PlainSdk(client, api.url(""));
    for n in 0..5 {
        let reply = tower.item(n).await.map_err(|error| error.to_string())?;
        println!("{}", reply.text().await?);
        let call = limiter.call(Ask::new().replay(Replay::Always), |leave| {
            let sent = plain.item(n);
            async move {
                match sent.await {
                    Ok(reply) => {
                        let outcome = leave.outcome(reply.status(), reply.headers(), None);
                        (outcome, Ok(reply))
                    }
                    Err(error) => (Outcome::Broken, Err(error)),
                }
            }
        });
        println!("{}", call.await??.text().await?);
    }
    println!("{} refused", api.counts().1);
    Ok(())
}
