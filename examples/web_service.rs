//! A web service that calls an API for its own callers, and turns what paceline says into answers
//! of its own: whose fault it was, and when to come back.
//!
//! `cargo run --example web_service`

#[path = "support/api.rs"]
mod api;
#[path = "support/http.rs"]
mod http_server;

use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use http::StatusCode;
use paceline::{Deadline, Error, Limiter, Report};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

async fn handle(client: ClientWithMiddleware, url: String) -> (StatusCode, Option<SystemTime>) {
    let request = client.get(url);
    let request = request.with_extension(Deadline(Duration::from_secs(1)));
    let error = match request.send().await {
        Ok(reply) if reply.status().is_success() => return (StatusCode::OK, None),
        // The API has refused it to the end, and said when there is a point in asking again.
        Ok(reply) => {
            let report = reply.extensions().get::<Report>();
            return (StatusCode::BAD_GATEWAY, report.and_then(|it| it.retry_at));
        }
        Err(error) => error,
    };
    match Error::of(&error) {
        // Our own limits: nothing was sent, so our caller may come again without fear.
        Some(own) if own.is_deadline() && !own.was_sent() => {
            (StatusCode::TOO_MANY_REQUESTS, own.retry_at())
        }
        Some(own) if !own.was_sent() => (StatusCode::SERVICE_UNAVAILABLE, own.retry_at()),
        Some(_) => (StatusCode::GATEWAY_TIMEOUT, None),
        None => (StatusCode::BAD_GATEWAY, None),
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::from_millis(300)).await;
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(Limiter::builder().ceiling("1/300ms+20%").build()?)
        .build();
    let url = api.url("hotels");
    let service = http_server::serve(move || handle(client.clone(), url.clone())).await?;
    let mut answered = 0;
    for reply in join_all((0..8).map(|_| reqwest::get(&service))).await {
        let reply = reply?;
        let again = reply.headers().get("retry-after");
        println!("{} {again:?}", reply.status());
        answered += usize::from(reply.status() == StatusCode::OK);
    }
    let (served, refused) = api.counts();
    println!("the API served {}, and refused {refused}", served.len());
    assert!(answered > 0 && answered <= served.len());
    Ok(())
}
