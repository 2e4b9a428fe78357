//! One replica: all that a program needs to share a limit.

use std::time::Duration;

use futures_util::future::join_all;
use paceline::Limiter;
use paceline::shared::{Mode, RedisStore, Sharing};
use reqwest_middleware::ClientBuilder;

use super::Failure;

/// Sends some requests, some milliseconds apart, and gives up what is not allowed in good time.
pub(crate) async fn run(words: &[String]) -> Result<(), Failure> {
    let [mode, limit, patience, store, scope, url, count, gap] = words else {
        return Err(
            "a replica is told mode, limit, patience, store, scope, url, count and gap".into(),
        );
    };
    let builder = Limiter::builder().ceiling(limit.as_str());
    let builder = match mode.as_str() {
        "local" => builder,
        mode => {
            let mode = if mode == "leases" {
                Mode::Leases
            } else {
                Mode::Exact
            };
            let sharing = Sharing::new(RedisStore::new(store)?, scope.as_str())?;
            builder.shared(sharing.mode(mode).lease(Duration::from_secs(1)))
        }
    };
    let limiter = builder
        .max_wait(Duration::from_secs(patience.parse()?))
        .build()?;
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter.clone())
        .build();

    let gap = Duration::from_millis(gap.parse()?);
    let sends = (0..count.parse::<u32>()?).map(|number| {
        let client = client.clone();
        async move {
            tokio::time::sleep(gap * number).await;
            client.get(url).send().await.is_ok()
        }
    });
    join_all(sends).await;
    // What it holds goes to the others at once, and not only when its lease ends.
    limiter.close().await;
    Ok(())
}
