//! A practice API on the loopback that answers with twenty events, one each 5 ms.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Serves until the program ends, at this address.
pub(crate) async fn serve() -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/events", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // That a reader goes away in the middle is its right.
            tokio::spawn(async move { drop(answer(stream).await) });
        }
    });
    Ok(url)
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = [0; 2048];
    let _ = stream.read(&mut request).await?;
    stream
        .write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
        )
        .await?;
    for n in 0..20 {
        stream
            .write_all(format!("data: {n}\n\n").as_bytes())
            .await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
