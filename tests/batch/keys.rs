//! Keys that servers refuse: others do their work, people hear of it, and nobody reads them.

use std::process::Command;

use super::server::{Answer, Server};
use super::{Batch, Ended};

const KEYS: [(&str, &str); 3] = [
    ("FIRST", "sk-first-abcdefghijkl"),
    ("SECOND", "sk-second-abcdefghijkl"),
    ("THIRD", "sk-third-abcdefghijkl"),
];

fn lines(count: usize, body: &str) -> String {
    let line = |n| format!("{{\"custom_id\":\"{n}\",\"url\":\"/{n}\"{body}}}\n");
    (0..count).map(line).collect()
}

fn with_keys(batch: &Batch) -> Command {
    let mut command = batch.command();
    for (name, key) in KEYS {
        command.env(name, key).args(["--key-env", name]);
    }
    command
}

#[test]
fn a_key_that_is_forbidden_everything_is_left_out_and_named_and_costs_no_line() {
    // A third of the lines failed for good, and the summary named nobody.
    let server = Server::new(|call| match call.headers["authorization"].as_str() {
        "Bearer sk-second-abcdefghijkl" => Answer::json(
            403,
            r#"{"error":{"message":"Project has no access to it"}}"#,
        ),
        _ => Answer::json(200, "{}"),
    });
    for body in ["", ",\"body\":{}"] {
        let before = server.count();
        let batch = Batch::new(&lines(200, body), &server.url()).with(&["--max-concurrency", "6"]);
        let end = Ended::of(with_keys(&batch));
        assert_eq!(end.code(), 0, "{}", end.stderr);
        let said = "SECOND, refused by the server: it is forbidden (403) what other keys are not";
        assert!(end.stderr.contains(said), "{}", end.stderr);
        assert!(
            end.stderr.contains("(SECOND) is left out"),
            "{}",
            end.stderr
        );
        assert!(!end.stderr.contains("sk-second"), "{}", end.stderr);
        let sent = server.count() - before;
        assert!((202..230).contains(&sent), "{sent} were sent");
    }
}

#[test]
fn what_no_key_may_do_fails_alone_and_is_seldom_sent_twice() {
    let server = Server::new(
        |call| match call.path.trim_start_matches('/').parse::<u32>() {
            Ok(n) if n % 2 == 1 => Answer::json(403, r#"{"error":"this document is private"}"#),
            _ => Answer::json(200, "{}"),
        },
    );
    let batch = Batch::new(&lines(200, ""), &server.url()).with(&["--max-concurrency", "6"]);
    let end = Ended::of(with_keys(&batch));
    assert_eq!(end.code(), 1, "{}", end.stderr);
    assert!(
        end.stderr.contains("failed        100: 403 x 100\n"),
        "{}",
        end.stderr
    );
    let sent = server.count();
    assert!((200..230).contains(&sent), "{sent} were sent");
}

#[test]
fn where_nothing_may_be_sent_twice_a_forbidden_request_is_not() {
    let server = Server::new(|_| Answer::json(403, r#"{"error":"no"}"#));
    let batch = Batch::new(&lines(9, ""), &server.url()).with(&["--replay", "never"]);
    assert_eq!(
        (Ended::of(with_keys(&batch)).code(), server.count()),
        (1, 9)
    );
}

#[test]
fn a_part_of_a_key_that_a_server_repeats_is_told_to_nobody() {
    let server = Server::new(|call| {
        let key = call.headers["authorization"].trim_start_matches("Bearer ");
        let said = format!(
            r#"{{"error":{{"message":"no model for {}…ijkl, {key}"}}}}"#,
            &key[..14]
        );
        Answer::json(400, &said)
    });
    let batch = Batch::new(&lines(3, ""), &server.url());
    let end = Ended::of(with_keys(&batch));
    assert_eq!(end.code(), 1);
    assert!(
        end.stderr.contains("no model for [part of key "),
        "{}",
        end.stderr
    );
    assert!(!end.stderr.contains("sk-"), "{}", end.stderr);
    for record in batch.records() {
        let body = record["response"]["body"].to_string();
        // What the server wrote stays, but for whole keys.
        assert!(
            body.contains("no model for sk-") && body.contains("…ijkl, [key "),
            "{body}"
        );
    }
    let failed = |call: &super::server::Call| {
        let key = call.headers["authorization"].trim_start_matches("Bearer ");
        Answer::json(
            200,
            &format!(r#"{{"error":{{"message":"{} is no key"}}}}"#, &key[..14]),
        )
    };
    let server = Server::new(failed);
    let batch = Batch::new(&lines(3, ""), &server.url());
    Ended::of(with_keys(&batch));
    for record in batch.records() {
        let message = super::text(&record["error"]["message"]);
        assert!(message.starts_with("[part of key "), "{message}");
    }
}

#[test]
fn keys_that_are_all_refused_are_told_of_in_words_of_the_command() {
    let server = Server::new(|_| Answer::json(401, r#"{"error":{"message":"invalid api key"}}"#));
    let batch = Batch::new(&lines(60, ""), &server.url());
    let end = Ended::of(with_keys(&batch));
    assert_eq!(end.code(), 1);
    let said = "the server refuses every key (unauthorized): give other keys with --key-env";
    assert!(end.stderr.contains(said), "{}", end.stderr);
    assert!(!end.stderr.contains("set_keys"), "{}", end.stderr);
    for record in batch.records() {
        assert!(!record.to_string().contains("set_keys"), "{record}");
    }
}
