//! What ends how, and what the next run does about it.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use serde_json::json;

use super::server::{Answer, Gate, Server};
use super::{Batch, Ended};

fn line(id: &str) -> String {
    format!("{{\"custom_id\":\"{id}\",\"url\":\"/{id}\",\"body\":{{}}}}\n")
}

#[test]
fn exit_codes_tell_all_some_or_none() {
    let server = Server::new(|call| match call.path.as_str() {
        "/bad" => Answer::json(400, "{\"error\":\"bad\"}"),
        _ => Answer::json(200, "{}"),
    });
    for (input, code) in [
        (line("good"), 0),
        (line("good") + &line("bad"), 1),
        (line("bad"), 1),
        (String::new(), 0),
        ("\n\n".to_owned(), 0),
        ("{bad".to_owned(), 1),
    ] {
        let end = Batch::new(&input, &server.url()).run();
        assert_eq!(end.code(), code, "{input}: {}", end.stderr);
    }
}

#[test]
fn a_refusal_is_done_again_by_the_next_run_and_a_failure_only_when_asked() {
    let server = Server::new(|call| match call.path.as_str() {
        "/bad" => Answer::json(404, "{}"),
        "/full" => Answer::json(429, "{}"),
        _ => Answer::json(200, "{}"),
    });
    let input = line("good") + &line("bad") + &line("full");
    let batch = Batch::new(&input, &server.url()).with(&["--max-attempts", "1", "--ordered"]);
    let end = batch.run();
    assert_eq!((end.code(), server.calls().len()), (1, 3), "{}", end.stderr);
    let finals: Vec<_> = batch
        .records()
        .iter()
        .map(|record| record["final"].clone())
        .collect();
    assert_eq!(finals, [true, true, false]);

    assert_eq!(batch.run().code(), 1);
    assert_eq!(
        server.bodies().values().sum::<usize>(),
        4,
        "only the refused one went out"
    );
    let batch = batch.with(&["--retry-failed"]);
    batch.run();
    assert_eq!(
        server.calls().len(),
        6,
        "the refused and the failed one went out"
    );
    assert_eq!(batch.ids(), ["good", "bad", "full"], "one record a line");
}

#[test]
fn a_run_whose_every_key_is_refused_stops_and_goes_on_with_another() {
    let server = Server::new(|call| match call.headers["authorization"].as_str() {
        "Bearer good" => Answer::json(200, "{}"),
        _ => Answer::json(401, "{\"error\":\"invalid api key\"}"),
    });
    let input: String = (0..200).map(|n| line(&n.to_string())).collect();
    let batch = Batch::new(&input, &server.url()).with(&["--key-env", "TEST_KEY"]);
    let run = |key: &str| {
        let mut command = batch.command();
        command.env("TEST_KEY", key);
        Ended::of(command)
    };
    let end = run("bad");
    assert_eq!(end.code(), 1, "{}", end.stderr);
    assert!(
        server.calls().len() < 50,
        "{} were sent",
        server.calls().len()
    );
    assert!(end.stderr.contains("refuses every key"), "{}", end.stderr);
    assert!(
        batch
            .records()
            .iter()
            .all(|record| record["final"] == false)
    );
    assert_eq!(run("bad").code(), 1);
    let (records, mut ids) = (batch.records().len(), batch.ids());
    ids.sort();
    ids.dedup();
    assert_eq!(
        ids.len(),
        records,
        "one record a line, after two such runs too"
    );
    let end = run("good");
    assert_eq!(
        (end.code(), batch.records().len()),
        (0, 200),
        "{}",
        end.stderr
    );
}

#[test]
fn an_answer_is_kept_as_json_text_or_bytes() {
    let server = Server::new(|call| {
        let mut answer = Answer::json(200, "");
        (answer.headers, answer.body) = match call.path.as_str() {
            "/pretty" => (vec![], b"{\n  \"n\": 1.50\n}\n".to_vec()),
            "/text" => (
                vec![("content-type", "text/plain".into())],
                "\"é\"\n".into(),
            ),
            _ => (vec![("x-request-id", "r9".into())], vec![0, 255]),
        };
        answer
    });
    let input = line("pretty") + &line("text") + &line("bytes");
    let batch = Batch::new(&input, &server.url()).with(&["--ordered"]);
    assert_eq!(batch.run().code(), 0);
    let records = batch.records();
    assert_eq!(records[0]["response"]["body"], json!({"n": 1.5}));
    assert_eq!(records[1]["response"]["body"], json!("\"é\"\n"));
    assert_eq!(records[2]["response"]["body"], json!({"base64": "AP8="}));
    assert_eq!(records[2]["response"]["request_id"], "r9");
    assert_eq!(records[0]["error"], json!(null));
}

#[test]
fn nothing_there_is_a_network_error_that_says_so_and_is_done_again() {
    let address = Server::new(|_| Answer::json(200, "{}")).url();
    let options = ["--max-attempts", "1", "--max-outage", "0s"];
    let batch = Batch::new(&line("a"), &address).with(&options);
    let end = batch.run();
    assert_eq!(end.code(), 1, "{}", end.stderr);
    let record = &batch.records()[0];
    assert_eq!(record["error"]["code"], "network");
    assert_eq!(record["final"], false);
    let message = record["error"]["message"].as_str().expect("a message");
    assert!(message.starts_with("cannot connect: "), "{message}");
    assert!(
        end.stderr.contains("because     network: cannot connect: "),
        "{}",
        end.stderr
    );
}

#[test]
fn max_wait_ends_a_wait_with_a_deadline() {
    let server = Server::new(|_| Answer::json(200, "{}").after(Duration::from_secs(6)));
    let input = line("a") + &line("b");
    let options = ["--max-wait", "2s", "--max-concurrency", "1", "--ordered"];
    let batch = Batch::new(&input, &server.url()).with(&options);
    let end = batch.run();
    assert_eq!(end.code(), 1, "{}", end.stderr);
    let records = batch.records();
    assert_eq!(records[0]["response"]["status_code"], 200);
    assert_eq!(records[1]["error"]["code"], "deadline");
    assert_eq!(records[1]["final"], false);
    let message = records[1]["error"]["message"].as_str().expect("a message");
    assert!(message.contains("max_wait"), "{message}");
    assert_eq!(server.calls().len(), 1);
}

#[test]
fn a_wait_of_exactly_max_wait_is_waited_and_served() {
    // It was waited out, and then given up.
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    let wait = || vec![("retry-after", "2".to_owned())];
    let first = [
        Answer::json(429, "{}"),
        Answer::json(403, "{}"),
        Answer::json(529, "{}"),
        Answer::json(200, busy),
    ];
    std::thread::scope(|scope| {
        for mut answer in first {
            answer.headers.extend(wait());
            scope.spawn(move || {
                let begun = std::sync::atomic::AtomicBool::new(false);
                let said = format!("{answer:?}");
                let server = Server::new(move |_| match begun.swap(true, SeqCst) {
                    false => answer.clone(),
                    true => Answer::json(200, "{}"),
                });
                let batch = Batch::new("{\"url\":\"/v1/messages\",\"body\":{}}", &server.url());
                let end = batch.with(&["--max-wait", "2s"]).run();
                assert_eq!(
                    (end.code(), server.count()),
                    (0, 2),
                    "{said}: {}",
                    end.stderr
                );
            });
        }
    });
}

#[test]
fn an_answer_that_breaks_off_is_asked_for_again() {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::new(move |_| {
        let mut answer = Answer::json(200, "{}");
        if calls.fetch_add(1, SeqCst) == 0 {
            // Two lengths that differ are an error of the message.
            answer.headers.push(("content-length", "5000".into()));
        }
        answer
    });
    let input = "{\"custom_id\":\"a\",\"method\":\"GET\",\"url\":\"/a\"}";
    let batch = Batch::new(input, &server.url());
    let end = batch.run();
    assert_eq!((end.code(), server.calls().len()), (0, 2), "{}", end.stderr);
}

#[test]
fn without_an_output_file_records_go_to_stdout_and_the_rest_to_stderr() {
    let server = Server::new(|_| Answer::json(200, "{}"));
    let batch = Batch::new("", &server.url());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.args(["run", "-", "--base-url", &batch.base]);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let input = line("a") + &line("b") + &line("a");
    let end = Ended::with_stdin(command, &input);
    assert_eq!(end.code(), 1, "{}", end.stderr);
    assert_eq!(end.stdout.lines().count(), 3);
    assert!(
        end.stdout.contains("custom_id `a` stands on line 1 too"),
        "{}",
        end.stdout
    );
    assert_eq!(server.calls().len(), 2);
    assert!(end.stderr.contains("succeeded"), "{}", end.stderr);
}

#[test]
fn stdin_is_resumed_by_its_ids() {
    let server = Server::new(|_| Answer::json(200, "{}"));
    let batch = Batch::new("", &server.url());
    let run = |input: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.args(["run", "-", "--ordered", "--base-url", &batch.base, "-o"]);
        command.arg(batch.output());
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        Ended::with_stdin(command, input)
    };
    let first = line("b") + "{\"url\":\"/made\"}\n";
    assert_eq!(run(&first).code(), 0);
    let end = run(&(line("a") + &first + &line("c")));
    assert_eq!((end.code(), server.calls().len()), (0, 4), "{}", end.stderr);
    let ids = batch.ids();
    assert_eq!(
        (ids.len(), &ids[..2]),
        (4, &["a".to_owned(), "b".to_owned()][..])
    );
    assert!(ids[2].starts_with("line-3-"), "{ids:?}");
}

#[test]
fn a_high_priority_that_stands_behind_goes_first() {
    let server = Server::new(|_| Answer::json(200, "{}").after(Duration::from_millis(20)));
    let mut input: String = (0..50).map(|n| line(&n.to_string())).collect();
    input.push_str("{\"custom_id\":\"urgent\",\"url\":\"/urgent\",\"priority\":\"high\"}\n");
    let batch = Batch::new(&input, &server.url()).with(&["--max-concurrency", "1"]);
    assert_eq!(batch.run().code(), 0);
    let place = server
        .calls()
        .iter()
        .position(|call| call.path == "/urgent");
    assert!(place < Some(5), "it went out as number {place:?}");
}

#[test]
fn a_slow_request_holds_up_none_of_the_others() {
    let gate = Gate::default();
    let held = gate.clone();
    let server = Server::new(move |call| {
        if call.path == "/0" {
            held.pass();
        }
        Answer::json(200, "{}")
    });
    let input: String = (0..100).map(|n| line(&n.to_string())).collect();
    let batch = Batch::new(&input, &server.url()).with(&["--max-concurrency", "2"]);
    let run = batch.start();
    let done = || std::fs::read_to_string(batch.output()).map_or(0, |text| text.lines().count());
    super::until("all but the slow one", || done() == 99);
    gate.open();
    let end = Ended::from(run.wait_with_output().expect("it ends"));
    assert_eq!(
        (end.code(), batch.records().len()),
        (0, 100),
        "{}",
        end.stderr
    );
}

#[test]
fn failures_alone_are_told_as_failures() {
    let server = Server::new(|call| match call.path.as_str() {
        "/good" => Answer::json(200, "{}"),
        _ => Answer::json(400, "{\"error\":{\"message\":\"no such model\"}}"),
    });
    let mut input: String = (0..8).map(|n| line(&n.to_string())).collect();
    for (last, succeeded) in [("bad", 0), ("good", 1)] {
        input.push_str(&line(last));
        let batch = Batch::new(&input, &server.url()).with(&["--summary", "json"]);
        let end = batch.run();
        let summary = end.summary();
        assert_eq!((end.code(), &summary["succeeded"]), (1, &json!(succeeded)));
        assert_eq!(summary["failed_by"]["400"], json!(9));
        assert_eq!(summary["causes"][0]["message"], "no such model");
        assert_eq!(batch.records().len(), input.lines().count());
    }
}
