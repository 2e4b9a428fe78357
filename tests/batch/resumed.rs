//! What a second run knows of the first: what may not be sent again, what has changed, whose the
//! keys are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::server::{Answer, Gate, Server};
use super::{Batch, Ended, until};

fn ok() -> Server {
    Server::new(|_| Answer::json(200, "{}"))
}

#[test]
fn what_was_in_flight_at_a_kill_is_not_sent_again_under_never_and_the_user_is_told() {
    let (gate, count) = (Gate::default(), AtomicUsize::new(0));
    let held = gate.clone();
    let server = Server::new(move |_| {
        if count.fetch_add(1, Ordering::SeqCst) >= 3 {
            held.pass();
        }
        Answer::json(200, "{}")
    });
    let input: String = (0..12)
        .map(|n| format!("{{\"custom_id\":\"{n}\",\"url\":\"/pay\",\"body\":{n}}}\n"))
        .collect();
    let options = [
        "--replay",
        "never",
        "--max-concurrency",
        "3",
        "--ordered",
        "--summary",
        "json",
    ];
    let batch = Batch::new(&input, &server.url()).with(&options);
    let mut run = batch.start();
    until("a second round", || server.count() == 6);
    run.kill().expect("it runs");
    run.wait().expect("it ends");
    gate.open();
    let end = batch.run();
    assert_eq!(end.code(), 1, "{}", end.stderr);
    assert!(
        server.bodies().values().all(|count| *count == 1),
        "none was sent twice"
    );
    let (records, summary) = (batch.records(), end.summary());
    let unanswered: Vec<_> = records
        .iter()
        .filter(|record| record["error"]["code"] == "unanswered")
        .collect();
    assert!((3..=6).contains(&unanswered.len()), "{}", unanswered.len());
    assert!(unanswered.iter().all(|record| record["final"] == true));
    assert_eq!(summary["failed_by"]["unanswered"], unanswered.len());
    assert!(
        end.stderr.contains("--retry-failed sends them"),
        "{}",
        end.stderr
    );

    let end = batch.with(&["--retry-failed"]).run();
    assert_eq!(end.code(), 0, "whoever asks for it gets it: {}", end.stderr);
}

/// A provider that takes every first call of a path and closes the connection without an answer.
fn breaks_once() -> Server {
    let seen = std::sync::Mutex::new(std::collections::HashSet::new());
    Server::new(move |call| {
        let mut answer = Answer::json(200, "{}");
        if call.path != "/warm" && seen.lock().expect("no panic").insert(call.path.clone()) {
            answer.missing = 10;
        }
        answer
    })
}

#[test]
fn a_post_that_broke_after_it_was_sent_is_sent_again_only_where_somebody_says_so() {
    // The next run paid a second time.
    for option in ["--retry-failed", "--replay=always"] {
        let server = breaks_once();
        let line = |path: &str, more: &str| {
            format!("{{\"custom_id\":\"{path}\",\"url\":\"{path}\",\"body\":1{more}}}\n")
        };
        let input = line("/warm", "")
            + &line("/pay", "")
            + &line("/keyed", ",\"headers\":{\"Idempotency-Key\":\"7\"}")
            + &line("/put", ",\"method\":\"PUT\"");
        let calls = || {
            let mut calls: Vec<_> = server.calls().into_iter().map(|call| call.path).collect();
            calls.sort();
            calls
        };
        let batch = Batch::new(&input, &server.url()).with(&["--ordered"]);
        let end = batch.run();
        let once = ["/keyed", "/keyed", "/pay", "/put", "/put", "/warm"];
        assert_eq!((end.code(), calls()), (1, once.map(String::from).to_vec()));
        assert!(end.stderr.contains("(unanswered)"), "{}", end.stderr);
        let record = &batch.records()[1];
        assert_eq!(record["error"]["code"], "unanswered");
        assert_eq!(record["final"], true);

        let end = batch.run();
        assert_eq!((end.code(), server.count()), (1, 6), "{}", end.stderr);
        let end = batch.with(&[option]).run();
        assert_eq!((end.code(), server.count()), (0, 7), "{}", end.stderr);
        assert_eq!(calls()[2..4], ["/pay", "/pay"]);
    }
}

#[test]
fn what_was_only_refused_a_connection_was_not_sent_and_goes_out_under_never() {
    let gone = ok();
    let address = gone.address();
    let options = ["--replay", "never", "--max-outage", "0s"];
    let batch = Batch::new(
        "{\"custom_id\":\"a\",\"url\":\"/pay\",\"body\":1}",
        &gone.url(),
    );
    let batch = batch.with(&options);
    drop(gone);
    assert_eq!(batch.run().code(), 1);
    let back = Server::on(address, |_| Answer::json(200, "{}"));
    let end = batch.run();
    assert_eq!((end.code(), back.calls().len()), (0, 1), "{}", end.stderr);
}

#[test]
fn a_request_that_was_changed_is_told_and_one_that_had_failed_is_done_again() {
    let server = Server::new(|call| match call.body.contains("bad") {
        true => Answer::json(400, "{}"),
        false => Answer::json(200, "{}"),
    });
    let line = |id: &str, body: &str| {
        format!("{{\"custom_id\":\"{id}\",\"url\":\"/x\",\"body\":\"{body}\"}}\n")
    };
    let batch = Batch::new(
        &(line("a", "one") + &line("b", "bad") + &line("c", "three")),
        &server.url(),
    );
    assert_eq!((batch.run().code(), server.calls().len()), (1, 3));
    let end = batch.run();
    assert!(!end.stderr.contains("changed"), "{}", end.stderr);

    batch.write(&(line("a", "uno") + &line("b", "two") + &line("c", "three")));
    for rewritten in [false, true] {
        let end = batch.run();
        assert_eq!((end.code(), server.calls().len()), (0, 4), "{}", end.stderr);
        assert!(
            end.stderr
                .contains("1 request was changed since it succeeded")
                && end.stderr.contains("`a` on line 1"),
            "{}",
            end.stderr
        );
        assert_eq!(
            end.stderr.contains("had failed was changed"),
            !rewritten,
            "{}",
            end.stderr
        );
    }
    let again = batch.with(&["--retry-failed"]).run();
    assert_eq!((again.code(), server.calls().len()), (0, 4));
}

#[test]
fn keys_stay_with_the_host_of_the_first_line_when_it_is_done() {
    let (home, other) = (ok(), Server::new(|_| Answer::json(429, "{}")));
    let line = |url: String| format!("{{\"custom_id\":\"{url}\",\"url\":\"{url}\"}}\n");
    let input = line(home.url() + "/1") + &line(other.url() + "/2");
    let batch = Batch::new(&input, "").with(&["--key-env", "TEST_KEY"]);
    let run = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_paceline"));
        command
            .arg("run")
            .arg(batch.input())
            .arg("-o")
            .arg(batch.output());
        command
            .args(&batch.options)
            .args(["--max-attempts", "1"])
            .args(more);
        command.env("TEST_KEY", "secret-of-home");
        Ended::of(command)
    };
    for _ in 0..2 {
        assert_eq!(run(&[]).code(), 1);
    }
    assert_eq!((home.calls().len(), other.calls().len()), (1, 2));
    assert!(
        home.calls()
            .iter()
            .all(|call| call.headers.contains_key("authorization"))
    );
    assert!(
        other
            .calls()
            .iter()
            .all(|call| !call.headers.contains_key("authorization"))
    );
    let end = run(&["--dry-run", "--rate", "2/1m"]);
    let host = other.url().replace("http://", "");
    assert!(
        end.stdout.contains(&format!("1 to {host}, without a key")),
        "{}",
        end.stdout
    );
    assert!(
        end.stdout.contains("at least 0.0 s at the ceilings"),
        "{}",
        end.stdout
    );
}

#[test]
fn a_refused_key_is_named_by_its_variable() {
    let server = Server::new(|call| match call.headers["authorization"].as_str() {
        "Bearer good-key-1" => Answer::json(200, "{}").after(Duration::from_millis(10)),
        _ => Answer::json(401, "{\"error\":{\"message\":\"invalid api key\"}}"),
    });
    let input: String = (0..60).map(|n| format!("{{\"url\":\"/{n}\"}}\n")).collect();
    let keys = [
        "--key-env",
        "GOOD",
        "--key-env",
        "STALE",
        "--max-concurrency",
        "2",
    ];
    let batch = Batch::new(&input, &server.url()).with(&keys);
    let mut command = batch.command();
    command
        .env("GOOD", "good-key-1")
        .env("STALE", "stale-key-1");
    let end = Ended::of(command);
    assert_eq!(end.code(), 0, "{}", end.stderr);
    assert!(
        end.stderr
            .contains("STALE, refused by the server: it is not valid here (401 or 403)"),
        "{}",
        end.stderr
    );
    let mut command = batch.command();
    command.env("GOOD", "good key").env("STALE", "stale-key-1");
    let end = Ended::of(command);
    assert!(
        end.code() == 2 && end.stderr.contains("the key of GOOD: "),
        "{}",
        end.stderr
    );
}

#[test]
fn options_that_need_the_whole_output_are_refused_without_one() {
    let server = ok();
    for option in ["--ordered", "--retry-failed"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.args(["run", "-", option, "--base-url", &server.url()]);
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let end = Ended::with_stdin(command, "");
        assert!(
            end.code() == 2 && end.stderr.contains("give one with -o FILE"),
            "{}",
            end.stderr
        );
    }
    assert_eq!(server.calls().len(), 0);
}

#[test]
fn an_attempt_that_takes_too_long_is_made_again() {
    let slow = std::sync::atomic::AtomicBool::new(true);
    let server = Server::new(move |_| {
        let delay = if slow.swap(false, Ordering::SeqCst) {
            5_000
        } else {
            0
        };
        Answer::json(200, "{}").after(Duration::from_millis(delay))
    });
    let input = "{\"custom_id\":\"a\",\"method\":\"GET\",\"url\":\"/a\"}";
    let batch = Batch::new(input, &server.url()).with(&["--timeout", "500ms"]);
    let end = batch.run();
    assert_eq!(end.code(), 0, "{}", end.stderr);
    // A busy machine may be as slow as the server was.
    assert!(server.count() >= 2, "{}", end.stderr);
}
