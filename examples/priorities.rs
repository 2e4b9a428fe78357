//! A map: what the user has chosen goes first, the neighbourhood when there is room, and when the
//! map moves on, what still waits for the old view is cancelled.
//!
//! `cargo run --example priorities`

#[path = "support/api.rs"]
mod api;

use std::time::Duration;

use futures_util::future::join_all;
use paceline::{Error, Group, Limiter, Priority};
use reqwest_middleware::ClientBuilder;

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::from_millis(40)).await;
    let limiter = Limiter::builder().ceiling("1/40ms+50%").build()?;
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter.clone())
        .build();
    let send = |path: String, priority, view: &Group| {
        let request = client.get(api.url(&path)).with_extension(priority);
        request.with_extension(view.clone()).send()
    };

    let old = Group::new("Kyoto");
    let nearby = join_all((0..20).map(|n| send(format!("nearby/{n}"), Priority::LOW, &old)));
    let user = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let chosen = send("chosen".to_owned(), Priority::SELECTED, &old).await;
        // The map moves on.
        let cancelled = limiter.cancel(&old);
        let next = Group::new("Osaka");
        let there = send("osaka".to_owned(), Priority::NORMAL, &next).await;
        (chosen, cancelled, there)
    };
    let (nearby, (chosen, cancelled, there)) = tokio::join!(nearby, user);

    assert!(chosen.is_ok() && there.is_ok());
    let is_cancelled = |error| Error::of(error).is_some_and(Error::is_cancelled);
    // Whoever had an answer already, if only a refusal, is given that.
    let gone = nearby.iter().filter(|reply| match reply {
        Ok(reply) => !reply.status().is_success(),
        Err(error) => is_cancelled(error),
    });
    assert_eq!(gone.count(), cancelled.removed);
    println!(
        "{} of 20 cancelled; served in this order:",
        cancelled.removed
    );
    println!("{}", api.counts().0.join(" "));
    Ok(())
}
