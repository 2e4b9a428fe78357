//! Answers that are streams of events: each keeps its slot until its end, or until it is dropped.
//!
//! `cargo run --example streaming`

#[path = "support/events.rs"]
mod events;

use std::time::Duration;

use futures_util::future::try_join_all;
use paceline::Limiter;
use reqwest_middleware::ClientBuilder;

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = events::serve().await?;
    let limiter = Limiter::builder().max_concurrency(2).build()?;
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter.clone())
        .build();

    // The reader has had enough after three events of twenty: dropping the stream frees its slot.
    let impatient = async {
        let mut reply = client.get(&url).send().await?;
        for _ in 0..3 {
            reply.chunk().await?;
        }
        drop(reply);
        println!("one was dropped after 3 events");
        Ok::<_, reqwest_middleware::Error>(())
    };
    let patient = (0..4).map(|n| {
        let (client, limiter, url) = (&client, &limiter, &url);
        async move {
            let mut reply = client.get(url).send().await?;
            let mut events = 0;
            while reply.chunk().await?.is_some() {
                events += 1;
                assert!(limiter.depth().1 <= 2);
            }
            println!("stream {n}: {events} events, all of them");
            Ok(())
        }
    });
    tokio::try_join!(impatient, try_join_all(patient))?;
    tokio::time::timeout(Duration::from_secs(1), limiter.close()).await?;
    println!("nothing is in flight: {:?}", limiter.depth());
    Ok(())
}
