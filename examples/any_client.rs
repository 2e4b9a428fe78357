//! Any other client goes through `call`: here a plain TCP stream that speaks HTTP by hand.
//!
//! `cargo run --example any_client`

#[path = "support/api.rs"]
mod api;

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use paceline::{Ask, Limiter, Outcome, Replay};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends one request, and reads the status of the answer.
async fn send(host: &str, path: &str) -> std::io::Result<StatusCode> {
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await?;
    let status = reply
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    status.ok_or_else(|| std::io::Error::other("that is no HTTP"))
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = api::Api::start(Duration::from_millis(50)).await;
    let url = api.url("");
    let host = url.trim_start_matches("http://").trim_end_matches('/');

    let limiter = Limiter::builder().ceiling("1/50ms+20%").build()?;
    for n in 0..5 {
        let path = n.to_string();
        // paceline cannot see that this is a GET, so it is told that it may be repeated.
        let ask = Ask::new().replay(Replay::Always);
        let reply = limiter.call(ask, |leave| {
            let reply = send(host, &path);
            async move {
                match reply.await {
                    Ok(status) => (leave.outcome(status, &HeaderMap::new(), None), Ok(status)),
                    Err(error) => (Outcome::Broken, Err(error)),
                }
            }
        });
        println!("{path}: {}", reply.await??);
    }
    println!("{} refused", api.counts().1);
    Ok(())
}
