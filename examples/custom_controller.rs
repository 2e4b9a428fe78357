//! A controller of one's own: as many in flight as answers came in the last second, and a few more.
//!
//! `cargo run --example custom_controller`

#[path = "support/api.rs"]
mod api;

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::try_join_all;
use paceline::scheduler::concurrency::{Concurrency, Controller, CustomController, Sample};
use paceline::scheduler::events::{Because, What};
use paceline::{Limiter, Time};
use reqwest_middleware::ClientBuilder;

#[derive(Debug, Default)]
struct AsManyAsCame {
    answers: VecDeque<Time>,
}

impl Controller for AsManyAsCame {
    fn on_sample(&mut self, sample: &Sample, now: Time) -> Option<What> {
        let from = self.limit();
        if sample.share_left != Some(0.0) {
            self.answers.push_back(now);
        }
        self.answers.retain(|&at| at + Duration::from_secs(1) > now);
        let to = self.limit();
        let why = Because::Recovered;
        (to != from).then_some(What::Limit { from, to, why })
    }

    fn limit(&self) -> u32 {
        2 + self.answers.len() as u32
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::ZERO).await;
    let limiter = Limiter::builder()
        .concurrency(Concurrency::Custom(CustomController::new(
            AsManyAsCame::default,
        )))
        .build()?;
    let mut changes = limiter.changes();
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter)
        .build();
    try_join_all((0..20).map(|n| client.get(api.url(&n.to_string())).send())).await?;
    while let Some(change) = changes.try_next() {
        println!("{:?}: {:?}", change.at, change.what);
    }
    println!("{} served", api.counts().0.len());
    Ok(())
}
