//! A service: people who wait, and a nightly batch that does not, on the same five keys. A person's
//! request goes next wherever it comes, a fifth of the keys is kept for people, the batch takes what
//! is left, and what the limiter is up to is printed while it runs.
//!
//! `cargo run --example service`

#[path = "support/api.rs"]
mod api;

use std::time::Duration;

use futures_util::future::join_all;
use paceline::{ApiKey, Classifier, Limiter, Priority, Report, Reserve};
use reqwest_middleware::{ClientBuilder, Result};

#[tokio::main]
pub(crate) async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::from_millis(40)).await;
    let limiter = Limiter::builder()
        .keys((1..=5).map(|n| ApiKey::bearer(format!("key-{n}"))))
        .ceiling("1/40ms+50%")
        .classify(Classifier::new().path("/night/*", Priority::BACKGROUND))
        .reserve(Reserve::default())
        .build()?;
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter.clone())
        .build();

    let printout = tokio::spawn({
        let limiter = limiter.clone();
        async move {
            let mut changes = limiter.changes();
            loop {
                tokio::time::sleep(Duration::from_millis(300)).await;
                println!("{}\n", limiter.explain());
                while let Some(change) = changes.try_next() {
                    println!("  {change}");
                }
            }
        }
    });
    let night = (0..150).map(|n| client.get(api.url(&format!("night/{n}"))).send());
    let people = (0..20).map(|n| {
        let request = client.get(api.url(&format!("page/{n}")));
        async move {
            tokio::time::sleep(Duration::from_millis(70 * n)).await;
            request.with_extension(Priority::HIGH).send().await
        }
    });
    let (night, people) = tokio::join!(join_all(night), join_all(people));
    printout.abort();

    let (longest, longest_of_night) = (longest_wait(&people), longest_wait(&night));
    let served = night.iter().flatten().filter(|reply| reply.status() == 200);
    println!(
        "{} of the night's 150; a person waited {longest:.0?} at most, and the night \
         {longest_of_night:.0?}; {} refused",
        served.count(),
        api.counts().1
    );
    assert!(people.iter().all(Result::is_ok) && night.iter().all(Result::is_ok));
    // One interval, however long the night's queue is; the rest is the machine's own.
    assert!(longest < longest_of_night / 3, "{longest:?}");
    Ok(())
}

fn longest_wait(replies: &[Result<reqwest::Response>]) -> Duration {
    let reports = replies
        .iter()
        .flatten()
        .filter_map(|reply| reply.extensions().get::<Report>());
    reports
        .map(|report| report.waited)
        .max()
        .unwrap_or_default()
}
