//! One client for three APIs: each host has a limiter of its own, made when it is first called.
//!
//! `cargo run --example three_apis`

#[path = "support/api.rs"]
mod api;

use std::time::Duration;

use futures_util::future::try_join_all;
use paceline::client::Clock;
use paceline::{Limiter, Limiters};
use reqwest_middleware::ClientBuilder;

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let maps = api::Api::start(Duration::ZERO).await;
    let hotels = api::Api::start(Duration::from_millis(20)).await;
    let mail = api::Api::start(Duration::from_millis(60)).await;

    // `Limiters::by_host()` learns them all. Here the rule of one is known.
    let slow = mail.url("").replace("http://", "").replace('/', "");
    let limiters = Limiters::by_host_with(move |host| match host {
        _ if host == slow => Limiter::builder().ceiling("1/60ms+20%"),
        _ => Limiter::builder(),
    });
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiters)
        .build();

    let clock = Clock::new();
    let ask = |name: &'static str, api: &api::Api, count: usize| {
        let sends = (0..count).map(|n| client.get(api.url(&n.to_string())).send());
        let sends = try_join_all(sends);
        async move {
            sends.await?;
            println!(
                "{name}: all {count} after {:.1} s",
                clock.now().as_secs_f64()
            );
            Ok::<_, reqwest_middleware::Error>(())
        }
    };
    // None of them waits for another.
    tokio::try_join!(
        ask("maps", &maps, 50),
        ask("hotels", &hotels, 20),
        ask("mail", &mail, 10)
    )?;
    println!("the mail API refused {}", mail.counts().1);
    Ok(())
}
