//! Attempts on real sockets: what may be sent again, and what the application gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Extensions;
use paceline::{Error, GaveUp, Limiter, Replay, Report, RetrySettings};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// Counts attempts, those that never leave too.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl Middleware for Counter {
    async fn handle(
        &self,
        request: Request,
        to: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        self.0.fetch_add(1, Ordering::SeqCst);
        next.run(request, to).await
    }
}

impl Counter {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }
}

fn client_of(http: reqwest::ClientBuilder) -> (ClientWithMiddleware, Counter) {
    let mut retry = RetrySettings::default();
    retry.base = Some(Duration::from_millis(1));
    retry.refusals = 2;
    let limiter = Limiter::builder().retry(retry).build().unwrap();
    let counter = Counter::default();
    let client = ClientBuilder::new(http.build().unwrap());
    (client.with(limiter).with(counter.clone()).build(), counter)
}

fn client() -> (ClientWithMiddleware, Counter) {
    client_of(paceline::http_client())
}

/// A server that does with each connection as it is told.
async fn raw<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> String
where
    F: Future<Output = std::io::Result<()>> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // What the client makes of it is the test.
            drop(serve(stream).await);
        }
    });
    url
}

fn report(reply: &Response) -> Report {
    reply.extensions().get::<Report>().unwrap().clone()
}

#[tokio::test]
async fn what_never_left_is_sent_again_whatever_it_is() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", gone.local_addr().unwrap());
    drop(gone);
    let (client, counter) = client();
    let error = client.post(&url).body("x").send().await.unwrap_err();
    assert!(!Error::may_have_acted(&error), "{error}");
    assert_eq!(counter.take(), 4);
}

#[tokio::test]
async fn what_may_have_been_processed_is_sent_again_only_where_that_is_safe() {
    let url = raw(|mut stream| async move {
        let mut start = [0; 1024];
        stream.read(&mut start).await.map(drop)
    })
    .await;
    let (client, counter) = client();
    client.get(&url).send().await.unwrap_err();
    assert_eq!(counter.take(), 4, "a GET");
    let error = client.post(&url).body("x").send().await.unwrap_err();
    assert!(Error::may_have_acted(&error), "{error}");
    assert_eq!(counter.take(), 1, "a POST");
    let keyed = client.post(&url).header("Idempotency-Key", "1").body("x");
    keyed.send().await.unwrap_err();
    assert_eq!(counter.take(), 4, "a POST with a key");
    client
        .post(&url)
        .with_extension(Replay::Always)
        .send()
        .await
        .unwrap_err();
    assert_eq!(counter.take(), 4, "a POST that the caller vouches for");
    client
        .get(&url)
        .with_extension(Replay::Never)
        .send()
        .await
        .unwrap_err();
    assert_eq!(counter.take(), 1, "a GET that the caller forbids");
}

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// An HTTP/2 server that answers when so many streams of one connection wait for it.
async fn http2_of(crowd: usize) -> String {
    raw(move |mut stream| async move {
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await?;
        stream.write_all(&frame(4, 0, 0, &[])).await?;
        let mut waiting = Vec::new();
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            stream.read_exact(&mut payload).await?;
            match head[3] {
                1 => waiting.push(u32::from_be_bytes([head[5], head[6], head[7], head[8]])),
                4 if head[4] == 0 => stream.write_all(&frame(4, 1, 0, &[])).await?,
                _ => {}
            }
            if waiting.len() == crowd {
                for id in waiting.drain(..) {
                    // END_HEADERS and END_STREAM; 0x88 is `:status: 200` of the static table.
                    stream.write_all(&frame(1, 5, id, &[0x88])).await?;
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn one_connection_of_http2_carries_many_requests_at_once() {
    let url = http2_of(4).await;
    let http = paceline::http_client().http2_prior_knowledge();
    let (client, counter) = client_of(http);
    let sends = (0..8).map(|_| client.get(&url).send());
    let all = futures_util::future::join_all(sends);
    let replies = tokio::time::timeout(Duration::from_secs(20), all).await;
    for reply in replies.expect("four streams of one connection wait together") {
        let reply = reply.unwrap();
        assert_eq!(
            (reply.status().as_u16(), reply.version()),
            (200, http::Version::HTTP_2)
        );
        assert_eq!(report(&reply).attempts, 1);
    }
    assert_eq!(counter.take(), 8);
}

/// An HTTP/2 server that answers the first stream of each connection with a frame.
async fn http2(answer: Vec<u8>) -> String {
    raw(move |mut stream| {
        let answer = answer.clone();
        async move {
            let mut preface = [0; 24];
            stream.read_exact(&mut preface).await?;
            stream.write_all(&frame(4, 0, 0, &[])).await?;
            loop {
                let mut head = [0; 9];
                stream.read_exact(&mut head).await?;
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                let mut payload = vec![0; length as usize];
                stream.read_exact(&mut payload).await?;
                match head[3] {
                    // HEADERS: the request.
                    1 => stream.write_all(&answer).await?,
                    // SETTINGS that are not an acknowledgement.
                    4 if head[4] == 0 => stream.write_all(&frame(4, 1, 0, &[])).await?,
                    _ => {}
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_stream_that_an_http2_server_refused_is_sent_again() {
    const REFUSED_STREAM: u8 = 7;
    const CANCEL: u8 = 8;
    let refused = http2(frame(3, 0, 1, &[0, 0, 0, REFUSED_STREAM])).await;
    let cancelled = http2(frame(3, 0, 1, &[0, 0, 0, CANCEL])).await;
    // The last stream that was looked at is none; the connection ends without error.
    let going_away = http2(frame(7, 0, 0, &[0; 8])).await;
    for (url, attempts) in [(refused, 4), (going_away, 4), (cancelled, 1)] {
        let (client, counter) = client_of(
            paceline::http_client()
                .http2_prior_knowledge()
                .timeout(Duration::from_millis(500))
                .pool_max_idle_per_host(0),
        );
        let error = client.post(&url).body("x").send().await.unwrap_err();
        assert_eq!(counter.take(), attempts, "{error:?}");
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_sent_twice_is_sent_once() {
    let server = MockServer::start().await;
    Mock::given(any())
        .respond_with(ResponseTemplate::new(429))
        .mount(&server)
        .await;
    let (client, counter) = client();
    let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>("a"), Ok("b")]);
    let body = reqwest::Body::wrap_stream(chunks);
    let reply = client.post(server.uri()).body(body).send().await.unwrap();
    assert_eq!((reply.status().as_u16(), counter.take()), (429, 1));
    assert_eq!(report(&reply).why, Some(GaveUp::NotReplayable));
    assert_eq!(server.received_requests().await.unwrap()[0].body, b"ab");
}

#[tokio::test]
async fn a_refusal_reaches_the_application_as_the_server_sent_it() {
    let server = MockServer::start().await;
    for length in [0, 100, 8 * 1024, 300_000] {
        server.reset().await;
        let body: Vec<u8> = (0..length).map(|n| n as u8).collect();
        let template = ResponseTemplate::new(429).set_body_bytes(body.clone());
        Mock::given(any())
            .respond_with(template.insert_header("x-mine", "1"))
            .mount(&server)
            .await;
        let (client, counter) = client();
        let url = format!("{}/a?b=c", server.uri());
        let reply = client.get(&url).send().await.unwrap();
        assert_eq!((reply.status().as_u16(), counter.take()), (429, 3));
        assert_eq!(report(&reply).why, Some(GaveUp::Attempts));
        assert_eq!(reply.url().as_str(), url);
        assert_eq!(reply.remote_addr(), Some(*server.address()));
        assert_eq!(reply.version(), http::Version::HTTP_11);
        assert_eq!(reply.headers()["x-mine"], "1");
        assert_eq!(reply.content_length(), Some(length));
        assert_eq!(reply.bytes().await.unwrap(), body);
    }
}

#[tokio::test]
async fn a_refusal_whose_body_never_comes_holds_nothing_up() {
    let url = raw(|mut stream| async move {
        let mut start = [0; 1024];
        let _ = stream.read(&mut start).await?;
        stream
            .write_all(b"HTTP/1.1 400 No\r\ncontent-length: 9\r\n\r\nhalf")
            .await?;
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(())
    })
    .await;
    let (client, _) = client();
    let send = tokio::time::timeout(Duration::from_secs(5), client.get(&url).send());
    let mut reply = send.await.expect("it waits for the body").unwrap();
    assert_eq!(reply.status(), 400);
    assert_eq!(reply.chunk().await.unwrap().unwrap(), "half");
}

#[tokio::test]
async fn a_timeout_of_reqwest_is_one_of_an_attempt() {
    let server = MockServer::start().await;
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(5));
    Mock::given(any()).respond_with(slow).mount(&server).await;
    let (client, counter) = client();
    let send = client
        .get(server.uri())
        .timeout(Duration::from_millis(50))
        .send();
    let error = send.await.unwrap_err();
    assert!(matches!(error, reqwest_middleware::Error::Reqwest(error) if error.is_timeout()));
    assert_eq!(counter.take(), 4);
}
