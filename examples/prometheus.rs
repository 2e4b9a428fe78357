//! Metrics for Prometheus: install an exporter, and every limiter of the program counts.
//!
//! `cargo run --example prometheus --features metrics`; a server would answer `/metrics` with what
//! is printed here. What to alert on is in the documentation of `paceline::client`.

#[path = "support/api.rs"]
mod api;

use std::time::Duration;

use futures_util::future::join_all;
use metrics_exporter_prometheus::PrometheusBuilder;
use paceline::{ApiKey, Limiter};
use reqwest_middleware::ClientBuilder;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Without buckets Prometheus gets quantiles, which cannot be added up over processes.
    let metrics = PrometheusBuilder::new()
        .set_buckets(&[0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0])?
        .install_recorder()?;
    let api = api::Api::start(Duration::from_millis(20)).await;
    let limiter = Limiter::builder()
        .name("practice")
        .keys(["secret-1", "secret-2"].map(ApiKey::bearer))
        .build()?;
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter)
        .build();
    let sends = (0..30).map(|n| client.get(api.url(&format!("item/{n}"))).send());
    join_all(sends).await;

    let (served, _) = api.counts();
    assert_eq!(served.len(), 30);
    let page = metrics.render();
    let shown = page.lines().filter(|line| !line.contains("_bucket{"));
    shown.for_each(|line| println!("{line}"));
    assert!(page.contains("paceline_attempts{paceline_provider=\"practice\""));
    assert!(page.contains("http_client_request_duration_count"));
    assert!(page.contains("paceline_wait_duration_bucket{paceline_provider=\"practice\""));
    assert!(!page.contains("secret"), "keys appear as fingerprints only");
    Ok(())
}
