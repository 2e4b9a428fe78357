//! Whatever kills a run, and whenever: the next one finishes, once each.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::server::{Answer, Gate, Server};
use super::{Batch, Ended, is_empty_folder_beside, now, until};

/// An input with everything that inputs have: a BOM, CRLF, blank and bad lines, long lines, lines
/// without an id and no newline at the end. Answers it with the number of lines that count.
fn untidy(lines: usize) -> (String, usize) {
    let mut input = String::from("\u{feff}");
    let mut count = 0;
    for n in 0..lines {
        let pad = if n % 50 == 7 {
            "x".repeat(20_000)
        } else {
            String::new()
        };
        let line = match n % 20 {
            3 => "   ".to_owned(),
            9 => format!("{{\"custom_id\": \"broken{n}\", "),
            14 => format!("{{\"url\":\"/a\",\"body\":{{\"n\":{n},\"pad\":\"{pad}\"}}}}"),
            _ => format!(
                "{{\"custom_id\":\"id{n}\",\"url\":\"/a\",\"body\":{{\"n\":{n},\"pad\":\"{pad}\"}}}}"
            ),
        };
        count += usize::from(n % 20 != 3);
        input.push_str(&line);
        if n + 1 < lines {
            input.push_str(if n % 3 == 0 { "\r\n" } else { "\n" });
        }
    }
    (input, count)
}

#[test]
fn after_a_hundred_kills_every_line_has_exactly_one_record_in_order() {
    let (lines, kills) = (4_000, 100_u64);
    let (input, count) = untidy(lines);
    let server = Server::new(|call| {
        let delay = Duration::from_millis(2 + call.body.len() as u64 % 7);
        Answer::json(200, &call.body).after(delay)
    });
    let batch = Batch::new(&input, &server.url()).with(&["--ordered", "--max-concurrency", "4"]);
    let mut done = HashMap::new();
    for kill in 0..kills {
        let mut run = batch.start();
        let before = server.count();
        if kill % 2 == 0 {
            // While it starts, most often.
            thread::sleep(Duration::from_millis(5 + kill * 37 % 131));
        } else {
            // In the middle of its work, however long a busy machine takes to get there.
            until("a few requests", || {
                server.count() >= before + 1 + kill as usize * 7 % 23
            });
            thread::sleep(Duration::from_millis(kill % 8));
        }
        run.kill().expect("it runs or has run");
        run.wait().expect("it ends");
        done.extend(answered(&batch, &server));
    }
    let end = batch.run();
    assert_eq!(end.code(), 1, "bad lines are failures: {}", end.stderr);

    let served = server.bodies();
    assert!(!done.is_empty(), "something was done between two kills");
    for (body, times) in done {
        assert_eq!(
            served[&body], times,
            "it was answered and recorded, and sent again"
        );
    }
    let twice: usize = served.values().map(|times| times - 1).sum();
    assert!(
        twice <= 4 * kills as usize,
        "{twice} were served again after {kills} kills with 4 in flight"
    );

    let records = batch.records();
    assert_eq!(records.len(), count);
    assert!(records.iter().all(|record| record["final"] == true));
    let ids: HashSet<String> = batch.ids().into_iter().collect();
    assert_eq!(ids.len(), count, "no id stands twice");
    let bodies = records.iter().map(|record| &record["response"]["body"]);
    let numbers: Vec<u64> = bodies.filter_map(|body| body["n"].as_u64()).collect();
    assert!(
        numbers.is_sorted(),
        "the output is in the order of the input"
    );
    assert_eq!(
        numbers.len(),
        count - lines / 20,
        "all but the bad lines were answered"
    );
    assert!(is_empty_folder_beside(
        &batch.output(),
        &["in.jsonl", "out.jsonl"]
    ));
}

/// What has a whole record, as the server knows it, and how often it was served until now.
fn answered(batch: &Batch, server: &Server) -> Vec<(String, usize)> {
    let served = server.bodies();
    let output = fs::read_to_string(batch.output()).unwrap_or_default();
    let whole = output
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    whole
        .filter_map(|line| {
            let record: Value = serde_json::from_str(line).expect("only the last line is torn");
            let body = record["response"].get("body")?.to_string();
            Some((body.clone(), *served.get(&body)?))
        })
        .collect()
}

#[test]
fn what_was_in_flight_at_a_kill_is_sent_again_with_the_same_key_and_counted() {
    let input: String = (0..40)
        .map(|n| format!("{{\"custom_id\":\"id{n}\",\"url\":\"/a\",\"body\":{n}}}\n"))
        .collect();
    let (gate, count) = (Gate::default(), AtomicUsize::new(0));
    let held = gate.clone();
    let server = Server::new(move |_| {
        if count.fetch_add(1, Ordering::SeqCst) >= 12 {
            held.pass();
        }
        Answer::json(200, "{}")
    });
    let batch = Batch::new(&input, &server.url()).with(&[
        "--max-concurrency",
        "8",
        "--idempotency-header",
        "Idempotency-Key",
        "--summary",
        "json",
    ]);
    let mut run = batch.start();
    until("eight in flight", || server.count() == 12 + 8);
    run.kill().expect("it runs");
    run.wait().expect("it ends");
    gate.open();

    let end = batch.run();
    assert_eq!(end.code(), 0, "{}", end.stderr);
    let twice: Vec<_> = server
        .bodies()
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .collect();
    let again = end.summary()["sent_again"].as_u64().expect("a number") as usize;
    assert!(
        !twice.is_empty() && twice.len() <= again && again <= 16,
        "{twice:?} but {again}"
    );
    for (body, count) in twice {
        assert_eq!(count, 2, "{body}");
        let keys: HashSet<_> = server
            .calls()
            .into_iter()
            .filter(|call| call.body == body)
            .map(|call| call.headers["idempotency-key"].clone())
            .collect();
        assert_eq!(keys.len(), 1, "{body} went out under {keys:?}");
    }
    assert_eq!(batch.records().len(), 40);
}

#[test]
fn half_a_record_at_the_end_is_cut_off_and_done_again() {
    let server = Server::new(|_| Answer::json(200, "{}"));
    let input = "{\"custom_id\":\"a\",\"url\":\"/a\"}\n{\"custom_id\":\"b\",\"url\":\"/b\"}\n";
    let batch = Batch::new(input, &server.url());
    assert_eq!(batch.run().code(), 0);
    let whole = fs::read(batch.output()).expect("an output");
    fs::write(batch.output(), &whole[..whole.len() - 40]).expect("written");
    let end = batch.run();
    assert_eq!(end.code(), 0, "{}", end.stderr);
    assert!(end.stderr.contains("torn"), "{}", end.stderr);
    let mut ids = batch.ids();
    ids.sort();
    assert_eq!(
        (ids, server.calls().len()),
        (vec!["a".to_owned(), "b".to_owned()], 3)
    );
}

#[cfg(unix)]
#[test]
fn the_zeros_that_a_loss_of_power_leaves_are_cut_off_and_done_again() {
    // The output was refused as none of ours.
    let server = Server::new(|_| Answer::json(200, "{}"));
    let input: String = (0..4).map(|n| format!("{{\"url\":\"/{n}\"}}\n")).collect();
    let batch = Batch::new(&input, &server.url()).with(&["--max-concurrency", "1"]);
    assert_eq!(batch.run().code(), 0);
    let whole = fs::read(batch.output()).expect("an output");
    let lines: Vec<_> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    for (kept, torn) in [(3, 0), (3, 20), (0, 0), (0, 20)] {
        let mut left = lines[..kept].concat();
        left.extend(&lines[kept][..torn]);
        left.extend([0; 5_000]);
        fs::write(batch.output(), left).expect("written");
        let before = server.count();
        let end = batch.run();
        assert_eq!(
            (end.code(), server.count() - before),
            (0, 4 - kept),
            "{}",
            end.stderr
        );
        assert!(
            end.stderr.contains("5,000 zero bytes were cut off"),
            "{}",
            end.stderr
        );
        assert_eq!((batch.records().len(), batch.ids().len()), (4, 4));
    }
}

#[test]
fn a_signal_ends_a_run_within_its_grace_and_nothing_is_lost() {
    let signals = [("INT", 130), ("TERM", 143), ("HUP", 129)];
    // Who is started with it ignored, by nohup say, leaves it so.
    let heard = |(name, _): &(&str, i32)| *name != "HUP" || !is_hangup_ignored();
    for (name, code) in signals.into_iter().filter(heard) {
        let input: String = (0..50)
            .map(|n| format!("{{\"custom_id\":\"{n}\",\"url\":\"/a\"}}\n"))
            .collect();
        let slow = Server::new(|_| Answer::json(200, "{}").after(Duration::from_secs(20)));
        let batch = Batch::new(&input, &slow.url()).with(&["--max-concurrency", "5"]);
        let run = batch.start();
        until("requests in flight", || slow.count() == 5);
        let start = now();
        super::signal(&run, name);
        let end = Ended::from(run.wait_with_output().expect("it ends"));
        let took = start.elapsed_secs();
        // The grace of a second, and not the answers, which take twenty.
        assert!((0.9..10.0).contains(&took), "{name} took {took} s");
        assert_eq!(end.code(), code, "{}", end.stderr);
        let records = batch.records();
        assert_eq!(records.len(), 5, "only what was sent has a record");
        assert!(
            records
                .iter()
                .all(|record| record["error"]["code"] == "cancelled")
        );
        assert!(records.iter().all(|record| record["final"] == false));

        let fast = Server::new(|_| Answer::json(200, "{}"));
        let mut batch = batch.with(&["--summary", "json"]);
        batch.base = fast.url();
        let end = batch.run();
        assert_eq!((end.code(), fast.calls().len()), (0, 50), "{}", end.stderr);
        assert_eq!(end.summary()["sent_again"], 5);
        assert_eq!(batch.records().len(), 50);
    }
}

/// Whether this process has SIGHUP, the first of all signals, ignored.
fn is_hangup_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_some_and(|mask| mask.ends_with(['1', '3', '5', '7', '9', 'b', 'd', 'f']))
}

#[cfg(unix)]
#[test]
fn a_second_signal_stops_at_once() {
    let server = Server::new(|_| Answer::json(200, "{}").after(Duration::from_secs(20)));
    let batch = Batch::new("{\"url\":\"/a\"}", &server.url()).with(&["--grace", "1h"]);
    let mut run = batch.start_heard();
    until("a request in flight", || server.count() == 1);
    super::signal(&run.child, "INT");
    run.until_said("1 in flight have 1h to end");
    let start = now();
    super::signal(&run.child, "INT");
    let end = run.end();
    let took = start.elapsed_secs();
    assert!(took < 10.0, "not the grace and not the answer: {took} s");
    assert_eq!(end.code(), 130, "{}", end.stderr);
}

#[test]
fn what_comes_back_within_the_grace_is_kept() {
    let gate = Gate::default();
    let held = gate.clone();
    let server = Server::new(move |_| {
        held.pass();
        Answer::json(200, "{}")
    });
    let input = "{\"url\":\"/a\"}\n{\"url\":\"/b\"}\n";
    let options = ["--max-concurrency", "1", "--grace", "1h"];
    let batch = Batch::new(input, &server.url()).with(&options);
    let mut run = batch.start_heard();
    until("a request in flight", || server.count() == 1);
    super::signal(&run.child, "INT");
    run.until_said("1 in flight have 1h to end");
    gate.open();
    let end = run.end();
    assert_eq!(
        (end.code(), server.calls().len()),
        (130, 1),
        "{}",
        end.stderr
    );
    assert_eq!(batch.records()[0]["response"]["status_code"], 200);
}
