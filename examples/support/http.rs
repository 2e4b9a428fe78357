//! The smallest web server: one handler, whose answers are a status and when to come back.

use std::time::SystemTime;

use http::StatusCode;
use paceline::client::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Serves until the program ends, at this address.
pub(crate) async fn serve<F>(
    handler: impl Fn() -> F + Clone + Send + Sync + 'static,
) -> std::io::Result<String>
where
    F: Future<Output = (StatusCode, Option<SystemTime>)> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let handler = handler.clone();
            tokio::spawn(async move {
                let mut request = [0; 2048];
                let _ = stream.read(&mut request).await?;
                let (status, at) = handler().await;
                let later = at.and_then(|at| at.duration_since(Clock::new().wall()).ok());
                let later = later.map_or(String::new(), |wait| {
                    // Rounded up: sooner would be too soon.
                    format!("retry-after: {}\r\n", wait.as_secs() + 1)
                });
                let head = format!("HTTP/1.1 {status}\r\n{later}content-length: 0\r\n\r\n");
                stream.write_all(head.as_bytes()).await
            });
        }
    });
    Ok(url)
}
