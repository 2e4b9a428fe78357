//! What goes out on the wire, and what never does.

use std::collections::HashSet;

use super::server::{Answer, Server};
use super::{Batch, Ended};

const SECRET: &str = "sk-test-4f9a1c77e2";

#[test]
fn each_form_of_line_becomes_its_request() {
    let server = Server::new(|_| Answer::json(200, "{}"));
    let input = concat!(
        r#"{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}"#,
        "\n",
        r#"{"custom_id":"b","params":{"model":"m","max_tokens":5}}"#,
        "\n",
        r#"{"custom_id":"c","url":"/v1/things?x=1","headers":{"x-mine":"yes"}}"#,
    );
    let base = format!("{}/v1", server.url());
    let batch = Batch::new(input, &base).with(&["--max-concurrency", "1"]);
    let end = batch.run();
    assert_eq!(end.code(), 0, "{}", end.stderr);
    let calls = server.calls();
    let paths: Vec<_> = calls.iter().map(|call| call.path.as_str()).collect();
    assert_eq!(
        paths,
        ["/v1/chat/completions", "/v1/messages", "/v1/things?x=1"]
    );
    assert_eq!(calls[0].body, r#"{"model":"m"}"#);
    assert_eq!(calls[0].headers["content-type"], "application/json");
    assert_eq!(calls[1].body, r#"{"model":"m","max_tokens":5}"#);
    assert_eq!(calls[1].headers["anthropic-version"], "2023-06-01");
    assert_eq!(calls[2].headers["x-mine"], "yes");
}

#[test]
fn a_key_goes_where_it_belongs_and_is_seen_nowhere_else() {
    let server = Server::new(|call| match call.path.as_str() {
        path if path.starts_with("/bad") => Answer::json(403, "{\"error\":\"no\"}"),
        // Some servers repeat what they were sent.
        path => Answer::json(
            200,
            &format!(
                "{{\"you\":\"{:?} {path}\"}}",
                call.headers.get("authorization")
            )
            .replace("Some(\"", "(")
            .replace("\")", ")"),
        ),
    });
    let gone = Server::new(|_| Answer::json(200, "{}")).url();
    for auth in ["bearer", "header:x-api-key", "query:key"] {
        for base in [server.url(), gone.clone()] {
            let input = "{\"url\":\"/good\"}\n{\"url\":\"/bad\"}\n";
            let options = [
                "--auth",
                auth,
                "--key-env",
                "TEST_KEY",
                "--max-attempts",
                "1",
                "--max-outage",
                "0s",
            ];
            let batch = Batch::new(input, &base)
                .with(&options)
                .with(&["--progress", "always"]);
            let mut command = batch.command();
            command.env("TEST_KEY", SECRET);
            let end = Ended::of(command);
            let output = std::fs::read_to_string(batch.output()).expect("an output");
            for shown in [&end.stdout, &end.stderr, &output] {
                assert!(!shown.contains(SECRET), "{auth} at {base}: {shown}");
            }
        }
        let call = server.calls().pop().expect("a call");
        let sent = match auth {
            "bearer" => call.headers["authorization"] == format!("Bearer {SECRET}"),
            "header:x-api-key" => call.headers["x-api-key"] == SECRET,
            _ => call.path.ends_with(&format!("?key={SECRET}")),
        };
        assert!(sent, "{auth}: {call:?}");
    }
}

#[test]
fn keys_go_to_one_host_only() {
    let home = Server::new(|_| Answer::json(200, "{}"));
    let other = Server::new(|_| Answer::json(200, "{}"));
    let input = format!("{{\"url\":\"/a\"}}\n{{\"url\":\"{}/b\"}}\n", other.url());
    let batch = Batch::new(&input, &home.url()).with(&["--key-env", "TEST_KEY"]);
    let mut command = batch.command();
    command.env("TEST_KEY", SECRET);
    let end = Ended::of(command);
    assert_eq!(end.code(), 0, "{}", end.stderr);
    assert!(home.calls()[0].headers.contains_key("authorization"));
    assert!(!other.calls()[0].headers.contains_key("authorization"));
    assert!(end.stderr.contains("1 other host"), "{}", end.stderr);
}

#[test]
fn keys_of_a_file_share_the_work_and_records_name_them_by_fingerprint() {
    let server = Server::new(|_| Answer::json(200, "{}"));
    let input: String = (0..40).map(|n| format!("{{\"url\":\"/{n}\"}}\n")).collect();
    let batch = Batch::new(&input, &server.url());
    let keys = batch.dir.path().join("keys");
    std::fs::write(&keys, "# mine\nalpha-1\n\nbeta-2\r\n").expect("written");
    let batch = batch.with(&["--key-file", keys.to_str().expect("UTF-8")]);
    let end = batch.run();
    assert_eq!(end.code(), 0, "{}", end.stderr);
    let seen: HashSet<String> = server
        .calls()
        .iter()
        .map(|call| call.headers["authorization"].clone())
        .collect();
    assert_eq!(
        seen,
        HashSet::from(["Bearer alpha-1".to_owned(), "Bearer beta-2".to_owned()])
    );
    let named: HashSet<String> = batch
        .records()
        .iter()
        .map(|record| super::text(&record["key"]))
        .collect();
    assert_eq!(named.len(), 2);
    assert!(
        named
            .iter()
            .all(|key| key.len() == 12 && !key.contains("alpha"))
    );
}

#[test]
fn a_rate_is_kept_per_key() {
    let server = Server::new(|_| Answer::json(200, "{}"));
    let input: String = (0..9).map(|n| format!("{{\"url\":\"/{n}\"}}\n")).collect();
    let batch = Batch::new(&input, &server.url()).with(&["--rate", "1/100ms+10%"]);
    let start = super::now();
    let end = batch.run();
    assert_eq!(end.code(), 0, "{}", end.stderr);
    let took = start.elapsed_secs();
    assert!(took >= 0.88, "9 requests took {took} s");
}

#[test]
fn a_post_that_may_have_been_done_is_sent_once_unless_it_generates_or_is_allowed() {
    let server = Server::new(|_| Answer::json(500, "{}"));
    let count = |path: &str, options: &[&str]| {
        let before = server.calls().len();
        let input = format!("{{\"url\":\"{path}\",\"body\":{{}}}}");
        Batch::new(&input, &server.url()).with(options).run();
        server.calls().len() - before
    };
    assert_eq!(count("/orders", &[]), 1);
    assert_eq!(
        count("/orders", &["--replay", "always", "--max-attempts", "3"]),
        3
    );
    assert_eq!(count("/v1/chat/completions", &["--max-attempts", "2"]), 2);
    assert_eq!(count("/v1/chat/completions", &["--replay", "never"]), 1);
    assert_eq!(
        count(
            "/orders",
            &["--idempotency-header", "x-once", "--max-attempts", "2"]
        ),
        2
    );
}

#[test]
fn a_vendor_gets_its_key_where_it_wants_it() {
    let server = Server::new(|_| Answer::json(200, "{}"));
    for (profile, name) in [("anthropic", "x-api-key"), ("gemini", "x-goog-api-key")] {
        let options = ["--profile", profile, "--key-env", "TEST_KEY"];
        let batch = Batch::new("{\"url\":\"/a\"}", &server.url()).with(&options);
        let mut command = batch.command();
        command.env("TEST_KEY", SECRET);
        let end = Ended::of(command);
        assert_eq!(end.code(), 0, "{}", end.stderr);
        assert_eq!(server.calls().pop().expect("a call").headers[name], SECRET);
    }
}

#[test]
fn every_sample_input_is_understood_and_sent_whole() {
    let server = Server::new(|_| Answer::json(200, "{}"));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/batch");
    let mut samples = 0;
    for file in std::fs::read_dir(folder).expect("a folder") {
        let path = file.expect("an entry").path();
        if path.extension().is_none_or(|ending| ending != "jsonl") {
            continue;
        }
        let input = std::fs::read_to_string(&path).expect("UTF-8");
        // No test leaves this machine.
        let input = input.replace("https://elsewhere.example", &server.url());
        let before = server.calls().len();
        let end = Batch::new(&input, &server.url()).run();
        assert_eq!(end.code(), 0, "{}: {}", path.display(), end.stderr);
        assert_eq!(
            server.calls().len() - before,
            input.lines().count(),
            "{}",
            path.display()
        );
        samples += 1;
    }
    assert!(samples >= 3);
}
