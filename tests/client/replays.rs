//! What is sent again, byte for byte, and what is sent once: on real sockets.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use paceline::{GaveUp, Limiter, Replay, Report, RetrySettings};
use reqwest::Response;
use reqwest::multipart::{Form, Part};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

use super::provider::unlearned;
use super::server::{Seen, Server, Step, answer, ok};

fn quick() -> RetrySettings {
    let mut retry = RetrySettings::default();
    retry.base = Some(Duration::from_millis(1));
    retry
}

fn client() -> ClientWithMiddleware {
    let limiter = unlearned().retry(quick()).build().unwrap();
    ClientBuilder::new(paceline::http_client().build().unwrap())
        .with(limiter)
        .build()
}

fn report(reply: &Response) -> Report {
    reply.extensions().get::<Report>().unwrap().clone()
}

/// Refuses the first two, and serves the third.
async fn twice_refused(status: u16) -> Server {
    Server::start(move |_, number| match number {
        0 | 1 => vec![answer(status, &[], b"later")],
        _ => vec![ok()],
    })
    .await
}

/// Sent three times, each time the same.
fn assert_equal(seen: &[Seen]) {
    assert_eq!(seen.len(), 3);
    for attempt in seen {
        assert_eq!(
            (&attempt.method, &attempt.path),
            (&seen[0].method, &seen[0].path)
        );
        assert_eq!(
            (&attempt.head, &attempt.body),
            (&seen[0].head, &seen[0].body)
        );
    }
}

#[tokio::test]
async fn every_attempt_has_the_same_method_address_headers_and_body() {
    for status in [429, 503] {
        let server = twice_refused(status).await;
        let post = client()
            .post(server.url("/pay?to=me"))
            .json(&vec!["x"; 1000]);
        let post = post.header("idempotency-key", "7").header("x-mine", "1");
        assert_eq!(post.send().await.unwrap().status(), 200);
        let seen = server.seen();
        assert_equal(&seen);
        assert_eq!(seen[0].header("idempotency-key"), Some("7"));
        assert_eq!(seen[0].body.len(), 4001);
    }
}

#[tokio::test]
async fn a_form_of_parts_in_memory_is_sent_again_whole() {
    let server = twice_refused(429).await;
    let parts = || {
        Form::new()
            .text("a", "1")
            .part("b", Part::bytes(vec![7; 5000]))
    };
    // A form of reqwest's is a stream, which can be sent once: here it is sent, and says so.
    let reply = client()
        .post(server.url("/"))
        .multipart(parts())
        .send()
        .await
        .unwrap();
    assert_eq!(
        (reply.status().as_u16(), report(&reply).why),
        (429, Some(GaveUp::NotReplayable))
    );
    assert!(server.seen()[0].body.len() > 5000, "it was sent whole");

    // Of a form in memory the bytes can be taken first.
    let form = parts();
    let kind = format!("multipart/form-data; boundary={}", form.boundary());
    let bytes = http_body_util::BodyExt::collect(reqwest::Body::wrap_stream(form.into_stream()));
    let bytes = bytes.await.unwrap().to_bytes();
    let server = twice_refused(429).await;
    let post = client()
        .post(server.url("/"))
        .header(CONTENT_TYPE, kind)
        .body(bytes);
    assert_eq!(post.send().await.unwrap().status(), 200);
    assert_equal(&server.seen());
}

#[tokio::test]
async fn an_upload_that_streams_is_sent_once_and_whole() {
    let server = twice_refused(429).await;
    let chunks =
        futures_util::stream::iter((0..100).map(|n| Ok::<_, std::io::Error>(vec![n; 1000])));
    let post = client()
        .post(server.url("/"))
        .body(reqwest::Body::wrap_stream(chunks));
    let reply = post.send().await.unwrap();
    assert_eq!(
        (reply.status().as_u16(), report(&reply).why),
        (429, Some(GaveUp::NotReplayable))
    );
    let seen = server.seen();
    assert_eq!((seen.len(), seen[0].body.len()), (1, 100_000));
}

#[tokio::test]
async fn a_conflict_with_ones_own_earlier_attempt_is_waited_out() {
    // The first attempt was cut off while the server went on working on it.
    let script = |_: &Seen, number| match number {
        0 => vec![Step::Close],
        1 | 2 => vec![answer(409, &[], b"in use")],
        _ => vec![ok()],
    };
    let server = Server::start(script).await;
    let post = client()
        .post(server.url("/pay"))
        .header("idempotency-key", "7");
    assert_eq!(post.send().await.unwrap().status(), 200);
    assert_eq!(server.count(), 4);
    // A conflict with somebody else's work is an answer.
    let server = Server::start(|_, _| vec![answer(409, &[], b"taken")]).await;
    let post = client()
        .post(server.url("/pay"))
        .header("idempotency-key", "7");
    assert_eq!(post.send().await.unwrap().status(), 409);
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_payment_that_was_cut_off_is_never_sent_twice_by_itself() {
    let cut: [fn() -> Vec<Step>; 4] = [
        || vec![Step::Close],
        || vec![Step::Reset],
        || vec![Step::Send(b"HTTP/1.1 200 OK\r\n".to_vec()), Step::Close],
        || {
            vec![
                Step::Send(b"HTTP/1.1 200 OK\r\ncontent-len".to_vec()),
                Step::Reset,
            ]
        },
    ];
    for steps in cut {
        let server = Server::start(move |_, _| steps()).await;
        client()
            .post(server.url("/pay"))
            .body("1")
            .send()
            .await
            .unwrap_err();
        assert_eq!(server.count(), 1);
        let vouched = client()
            .post(server.url("/pay"))
            .with_extension(Replay::Always);
        vouched.send().await.unwrap_err();
        assert_eq!(server.count(), 5);
    }
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_meanwhile_loses_nothing() {
    // Every connection serves one request and is closed without a word soon after.
    let server =
        Server::start(|_, _| vec![ok(), Step::Sleep(Duration::from_millis(5)), Step::Close]).await;
    let client = client();
    for _ in 0..20 {
        assert_eq!(
            client.get(server.url("/")).send().await.unwrap().status(),
            200
        );
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_reaches_the_application_as_far_as_it_came() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec();
    let steps = vec![
        Step::Send(head),
        Step::Sleep(Duration::from_millis(20)),
        Step::Reset,
    ];
    let server = Server::start(move |_, _| steps.clone()).await;
    let limiter = Limiter::new();
    let client = ClientBuilder::new(paceline::http_client().build().unwrap());
    let client = client.with(limiter.clone()).build();
    let mut reply = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(reply.chunk().await.unwrap().unwrap(), "half");
    reply.chunk().await.unwrap_err();
    assert_eq!((server.count(), limiter.depth()), (1, (0, 0)));
}
