//! Programs of a user's against a server that does everything wrong: nothing hangs, leaks, doubles
//! or lies.

use std::time::Duration;

use futures_util::future::join_all;
use paceline::{AttemptTimeout, Deadline, Error, GaveUp, Limiter, Report, RetrySettings};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tokio::time::timeout;

use super::provider::unlearned;
use super::server::{Seen, Server, Step, answer, ok};

/// A body that says when to come back, as gzip.
fn gzipped(text: &str) -> Vec<u8> {
    // Stored, not compressed: RFC 1952 and RFC 1951 3.2.4.
    let length = u16::try_from(text.len()).unwrap();
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    bytes.extend(length.to_le_bytes());
    bytes.extend((!length).to_le_bytes());
    bytes.extend(text.as_bytes());
    let mut crc = !0_u32;
    for byte in text.bytes() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (!(crc & 1)).wrapping_add(1));
        }
    }
    bytes.extend((!crc).to_le_bytes());
    bytes.extend(u32::from(length).to_le_bytes());
    bytes
}

fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

fn pause(millis: u64) -> Step {
    Step::Sleep(Duration::from_millis(millis))
}

const TEN_MEGABYTES: usize = 10 << 20;

fn misbehave(seen: &Seen, number: usize) -> Vec<Step> {
    let is_first = number == 0;
    match seen.path.trim_start_matches('/') {
        "reset-in-the-body" => vec![
            send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"),
            pause(20),
            Step::Reset,
        ],
        "half-a-head" if is_first => vec![send("HTTP/1.1 200 O"), Step::Close],
        "refused-with-ten-megabytes" if is_first => {
            vec![answer(429, &["retry-after: 0"], &vec![b'x'; TEN_MEGABYTES])]
        }
        "always-ten-megabytes" => vec![answer(429, &[], &vec![b'x'; TEN_MEGABYTES])],
        "slow-head" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nserved";
            head.chars()
                .flat_map(|c| [send(&c.to_string()), pause(2)])
                .collect()
        }
        "head-that-never-ends" => {
            let mut steps = vec![send("HTTP/1.1 200 OK\r\nx-long: ")];
            steps.extend((0..2000).flat_map(|_| [send("x"), pause(20)]));
            steps
        }
        "go-on" => vec![
            send("HTTP/1.1 100 Continue\r\n\r\n"),
            pause(10),
            send("HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n"),
            pause(10),
            ok(),
        ],
        "gzip" if is_first => {
            let body = gzipped(r#"{"error":{"message":"Please retry in 0.3s","code":429}}"#);
            vec![answer(
                429,
                &["content-encoding: gzip", "content-type: application/json"],
                &body,
            )]
        }
        "gzip" => vec![answer(200, &["content-encoding: gzip"], &gzipped("served"))],
        "gzip-that-is-none" if is_first => {
            vec![answer(429, &["content-encoding: gzip"], b"this is no gzip")]
        }
        "trailers" => vec![send(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-end\r\n\r\n6\r\nserved\r\n0\r\nx-end: 1\r\n\r\n",
        )],
        "chunks-that-break-off" => vec![
            send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
            Step::Close,
        ],
        "old" => vec![send("HTTP/1.0 200 OK\r\n\r\nserved"), Step::Close],
        "old-refusal" if is_first => vec![
            send("HTTP/1.0 429 No\r\nretry-after: 0\r\n\r\nlater"),
            Step::Close,
        ],
        "refusal-that-never-ends" if is_first => {
            let mut steps = vec![send(
                "HTTP/1.1 429 No\r\ntransfer-encoding: chunked\r\n\r\n",
            )];
            steps.extend((0..1000).flat_map(|_| [send("1\r\nx\r\n"), pause(20)]));
            steps
        }
        "two-lengths" => vec![
            send("HTTP/1.1 200 OK\r\ncontent-length: 6\r\ncontent-length: 7\r\n\r\nserved"),
            Step::Close,
        ],
        "odd-status" => vec![answer(799, &[], b"odd")],
        "nothing" => vec![answer(204, &["retry-after: 5"], b"")],
        _ => vec![ok()],
    }
}

struct Program {
    server: Server,
    limiter: Limiter,
    client: ClientWithMiddleware,
}

impl Program {
    async fn start() -> Self {
        Self::with(misbehave).await
    }

    async fn with(script: impl Fn(&Seen, usize) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let mut retry = RetrySettings::default();
        retry.base = Some(Duration::from_millis(1));
        retry.refusals = 2;
        // What is learned of a server whose refusals mean nothing is another matter.
        let limiter = unlearned().retry(retry).build().unwrap();
        let client = ClientBuilder::new(paceline::http_client().build().unwrap());
        Self {
            server: Server::start(script).await,
            client: client.with(limiter.clone()).build(),
            limiter,
        }
    }

    /// One request, its answer and its body; nothing takes longer than this.
    async fn get(&self, path: &str) -> Result<(u16, Report, reqwest::Result<Vec<u8>>), String> {
        let send = self.client.get(self.server.url(path)).send();
        let reply = timeout(Duration::from_secs(8), send)
            .await
            .expect("it hangs");
        let reply = reply.map_err(|error| format!("{error:?}"))?;
        let report = reply.extensions().get::<Report>().unwrap().clone();
        let status = reply.status().as_u16();
        let body = timeout(Duration::from_secs(8), reply.bytes())
            .await
            .expect("it hangs");
        assert_eq!(self.limiter.depth(), (0, 0), "{path}");
        Ok((status, report, body.map(|body| body.to_vec())))
    }
}

#[tokio::test]
async fn whatever_comes_in_the_end_is_served() {
    for (path, attempts) in [
        ("/half-a-head", 2),
        ("/refused-with-ten-megabytes", 2),
        ("/slow-head", 1),
        ("/go-on", 1),
        ("/gzip", 2),
        ("/gzip-that-is-none", 2),
        ("/trailers", 1),
        ("/old", 1),
        ("/old-refusal", 2),
        ("/refusal-that-never-ends", 2),
        ("/", 1),
    ] {
        let program = Program::start().await;
        let (status, report, body) = program
            .get(path)
            .await
            .unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(
            (status, report.attempts, report.why),
            (200, attempts, None),
            "{path}"
        );
        assert_eq!(body.unwrap(), b"served", "{path}");
        assert_eq!(program.server.count(), attempts as usize, "{path}");
    }
}

#[tokio::test]
async fn a_hint_in_a_body_that_was_packed_is_kept() {
    let program = Program::start().await;
    drop(program.get("/gzip").await.unwrap());
    let gap = program.server.gaps()[0];
    assert!(gap >= Duration::from_millis(300), "{gap:?}");
}

#[tokio::test]
async fn what_breaks_off_in_the_body_is_an_error_of_the_body_and_is_sent_once() {
    for path in ["/reset-in-the-body", "/chunks-that-break-off"] {
        let program = Program::start().await;
        let (status, report, body) = program.get(path).await.unwrap();
        assert_eq!((status, report.why), (200, None), "{path}");
        body.unwrap_err();
        assert_eq!(program.server.count(), 1, "{path}");
    }
}

#[tokio::test]
async fn what_is_no_http_is_an_error_and_odd_answers_are_given_back() {
    let program = Program::start().await;
    program.get("/two-lengths").await.unwrap_err();
    let (status, report, _) = program.get("/odd-status").await.unwrap();
    assert_eq!(status, 799);
    assert!(report.why.is_some());
    assert_eq!(program.get("/nothing").await.unwrap().0, 204);
}

#[tokio::test]
async fn ten_megabytes_of_refusal_reach_the_application_whole_when_they_are_the_last() {
    let program = Program::start().await;
    let (status, report, body) = program.get("/always-ten-megabytes").await.unwrap();
    assert_eq!((status, report.why), (429, Some(GaveUp::Attempts)));
    assert_eq!(body.unwrap().len(), TEN_MEGABYTES);
    assert_eq!(program.server.count(), 3);
}

#[tokio::test]
async fn a_head_that_never_ends_is_ended_by_each_kind_of_timeout() {
    let program = Program::start().await;
    let url = program.server.url("/head-that-never-ends");
    let send = program
        .client
        .get(&url)
        .with_extension(Deadline(Duration::from_millis(300)));
    let error = timeout(Duration::from_secs(2), send.send())
        .await
        .expect("it hangs")
        .unwrap_err();
    let error = Error::of(&error).unwrap();
    assert!(error.is_deadline() && error.was_sent(), "{error}");
    let send = program
        .client
        .post(&url)
        .with_extension(AttemptTimeout(Duration::from_millis(100)));
    let error = timeout(Duration::from_secs(2), send.send())
        .await
        .expect("it hangs")
        .unwrap_err();
    assert!(Error::of(&error).unwrap().is_attempt_timeout(), "{error}");
    assert_eq!(
        (program.server.count(), program.limiter.depth()),
        (2, (0, 0))
    );
}

#[tokio::test]
async fn a_redirect_to_another_port_is_an_answer() {
    let other = Server::start(|_, _| vec![ok()]).await;
    let there = format!("location: {}", other.url("/"));
    let program = Program::with(move |_, _| vec![answer(302, &[&there], b"")]).await;
    assert_eq!(program.get("/").await.unwrap().0, 302);
    assert_eq!(other.count(), 0);
}

#[tokio::test]
async fn a_crowd_among_all_of_this_ends_and_every_request_was_sent_as_often_as_it_says() {
    let program = Program::start().await;
    let paths = [
        "/reset-in-the-body",
        "/always-ten-megabytes",
        "/slow-head",
        "/go-on",
        "/trailers",
        "/old",
        "/odd-status",
        "/",
    ];
    let sends = (0..80).map(|n| {
        let url = program.server.url(paths[n % paths.len()]);
        async {
            let reply = program.client.get(url).send().await.unwrap();
            let attempts = reply.extensions().get::<Report>().unwrap().attempts;
            drop(reply.bytes().await);
            attempts as usize
        }
    });
    let ended = timeout(Duration::from_secs(60), join_all(sends))
        .await
        .expect("it hangs");
    let sent: usize = ended.into_iter().sum();
    assert_eq!(program.server.count(), sent);
    assert_eq!(program.limiter.depth(), (0, 0));
    // The answers were read to their end, so their connections serve again.
    let (before, peak) = (program.server.connections(), program.server.peak());
    for _ in 0..10 {
        drop(program.get("/").await.unwrap());
    }
    assert!(
        program.server.connections() <= before + 1,
        "{before} for {peak} at once"
    );
}
