//! What comes with a success and is none.

use std::io::Write;

use serde_json::Value;

use super::Batch;
use super::server::{Answer, Server};

fn of(kind: &str, body: &str) -> Answer {
    let mut answer = Answer::json(200, body);
    answer.headers = vec![("content-type", kind.to_owned())];
    answer
}

fn post(path: &str) -> String {
    format!("{{\"custom_id\":\"{path}\",\"url\":\"{path}\",\"body\":{{}}}}\n")
}

/// A provider that answers with streams of events, the first of each path `first`.
fn streams(first: &'static str, then: &'static str) -> Server {
    let begun = std::sync::atomic::AtomicBool::new(false);
    Server::new(move |_| {
        let again = begun.swap(true, std::sync::atomic::Ordering::SeqCst);
        of("text/event-stream", if again { then } else { first })
    })
}

fn get(path: &str) -> String {
    format!("{{\"custom_id\":\"{path}\",\"url\":\"{path}\"}}\n")
}

/// A provider whose every other path answers with something else than an answer.
fn odd() -> Server {
    Server::new(|call| match call.path.split('?').next().expect("a path") {
        "/page" | "/login" => of("text/html", "<html><title>Sign\n in</title><p>"),
        "/sent-on" => {
            let mut answer = Answer::json(302, "");
            answer
                .headers
                .push(("location", "/login?from=%2Fsent-on".to_owned()));
            answer
        }
        "/elsewhere" => {
            let mut answer = Answer::json(307, "");
            let target = "https://other.example/v2?token=secret".to_owned();
            answer.headers.push(("location", target));
            answer
        }
        "/error" => Answer::json(200, "{\"error\":{\"message\":\"no such model\"}}"),
        "/full" => Answer::json(200, "{\"error\":{\"code\":\"rate_limit_exceeded\"}}"),
        "/csv" => of("text/csv", "a,b\n"),
        _ => Answer::json(200, "{\"error\":null}"),
    })
}

#[test]
fn a_success_that_is_no_answer_is_a_failure_with_its_reason_and_its_body() {
    // All of these were successes, and --retry-failed left them as they were.
    let server = odd();
    let input = [
        get("/page"),
        get("/csv"),
        post("/fine"),
        post("/page#"),
        get("/sent-on"),
        post("/error"),
        post("/full"),
        get("/elsewhere"),
    ];
    let input = input
        .concat()
        .replace("page#\",\"url\":\"/page#", "pages\",\"url\":\"/page");
    let options = ["--ordered", "--max-attempts", "1", "--summary", "json"];
    let batch = Batch::new(&input, &server.url()).with(&options);
    let end = batch.run();
    assert_eq!(end.code(), 1, "{}", end.stderr);
    let records = batch.records();
    let codes: Vec<_> = records
        .iter()
        .map(|record| record["error"]["code"].clone())
        .collect();
    let failed = ["html", "html", "failed", "failed"].map(Value::from);
    assert_eq!(codes[..3], [Value::Null, Value::Null, Value::Null]);
    assert_eq!(codes[3..7], failed);
    let finals: Vec<_> = records
        .iter()
        .map(|record| record["final"] == true)
        .collect();
    assert_eq!(finals, [true, true, true, true, true, true, false, true]);
    let said = |at: usize| records[at]["error"]["message"].as_str().expect("a message");
    assert!(
        said(3).contains("a web page (\u{201c}Sign in\u{201d}) came"),
        "{}",
        said(3)
    );
    assert!(
        said(4).contains("/login:") && !said(4).contains("from="),
        "{}",
        said(4)
    );
    assert_eq!(said(5), "no such model");
    assert!(
        records[3]["response"]["body"]
            .as_str()
            .expect("text")
            .starts_with("<html>")
    );
    assert_eq!(records[5]["response"]["status_code"], 200);
    assert!(
        end.stderr
            .contains("it redirects to https://other.example/v2\""),
        "{}",
        end.stderr
    );

    let before = server.count();
    assert_eq!(batch.run().code(), 1);
    assert_eq!(server.count() - before, 1, "what was refused is done again");
    let before = server.count();
    let batch = batch.with(&["--retry-failed"]);
    assert_eq!(batch.run().code(), 1);
    // One of the five is sent on and so asks twice.
    assert_eq!(
        server.count() - before,
        6,
        "so are failures, when that is asked for"
    );
}

#[test]
fn json_that_ends_too_soon_is_asked_for_again_if_it_may_be() {
    let server = Server::new(|call| match call.path.as_str() {
        "/v1/responses" | "/orders" => Answer::json(200, "{\"output\":[{\"te"),
        _ => Answer::json(200, "{}"),
    });
    let input = post("/v1/responses") + &post("/orders");
    let batch = Batch::new(&input, &server.url()).with(&["--max-attempts", "2", "--ordered"]);
    let end = batch.run();
    assert_eq!(end.code(), 1, "{}", end.stderr);
    let records = batch.records();
    let expected = [(2, "network", false), (1, "unanswered", true)];
    for (record, (attempts, code, last)) in records.iter().zip(expected) {
        assert_eq!(record["attempts"], attempts);
        assert_eq!(record["error"]["code"], code);
        assert_eq!(record["response"]["body"], "{\"output\":[{\"te");
        assert_eq!(record["final"], last);
    }
}

#[test]
fn an_answer_that_is_not_packed_as_it_says_is_not_paid_for_again() {
    // It was generated four times a line.
    let server = Server::new(|call| {
        let mut answer = Answer::json(200, "{\"output\":[]}");
        answer.headers.push(("content-encoding", "gzip".to_owned()));
        if call.path == "/cut/v1/responses" {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
            gzip.write_all(&[b'x'; 1_000]).expect("memory");
            answer.body = gzip.finish().expect("memory");
            answer.body.truncate(500);
            answer.missing = 500;
        }
        answer
    });
    let input = post("/v1/responses") + &post("/cut/v1/responses");
    let batch = Batch::new(&input, &server.url()).with(&["--ordered", "--max-attempts", "2"]);
    let end = batch.run();
    assert_eq!((end.code(), server.calls().len()), (1, 3), "{}", end.stderr);
    let records = batch.records();
    assert_eq!(records[0]["error"]["code"], "undecodable");
    assert_eq!(records[0]["final"], true);
    assert_eq!(records[1]["error"]["code"], "network", "{}", records[1]);
}

const WHOLE: &str = "event: message_start\ndata: {\"type\":\"message_start\"}\n\n\
    data: {\"type\":\"content_block_delta\"}\n\ndata: {\"type\":\"message_stop\"}\n\n";

#[test]
fn a_stream_that_is_nothing_but_an_error_is_asked_for_again() {
    // Its record was final, and counted as a success.
    for error in [
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
        "data: {\"type\":\"response.created\"}\n\ndata: {\"type\":\"response.failed\",\
         \"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"x\"}}}\n\n",
    ] {
        let server = streams(error, WHOLE);
        let end = Batch::new(&post("/v1/messages"), &server.url()).run();
        assert_eq!((end.code(), server.count()), (0, 2), "{}", end.stderr);
    }
}

#[test]
fn a_stream_that_ends_in_an_error_keeps_what_came_and_is_no_success() {
    for (error, last) in [("rate_limit_exceeded", false), ("invalid_prompt", true)] {
        let part = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
        let error = format!(
            "data: {{\"error\":{{\"code\":\"{error}\",\"type\":\"invalid_request_error\",\
             \"message\":\"why\"}}}}\n\n"
        );
        let body = format!("{part}{error}");
        let server = Server::new(move |_| of("text/event-stream", &body));
        let batch = Batch::new(&post("/v1/chat/completions"), &server.url());
        let end = batch.run();
        assert_eq!((end.code(), server.count()), (1, 1), "{}", end.stderr);
        let record = &batch.records()[0];
        assert_eq!(
            (&record["error"]["code"], &record["final"]),
            (&"failed".into(), &last.into())
        );
        let said = record["error"]["message"].as_str().expect("a message");
        assert!(
            said.starts_with("a part of the answer came") && said.ends_with("why"),
            "{said}"
        );
        let kept = record["response"]["body"].as_str().expect("text");
        assert!(kept.contains("Hi"), "{kept}");
    }
}

#[test]
fn a_stream_that_is_always_refused_is_left_for_the_next_run() {
    let error = "data: {\"error\":{\"code\":\"rate_limit_exceeded\"}}\n\n";
    let server = streams(error, error);
    let batch = Batch::new(&post("/v1/messages"), &server.url());
    let batch = batch.with(&["--max-attempts", "2", "--summary", "json"]);
    let end = batch.run();
    assert_eq!((end.code(), server.count()), (1, 2), "{}", end.stderr);
    assert_eq!(batch.records()[0]["final"], false);
    assert_eq!(end.summary()["refused"], 2);
}
