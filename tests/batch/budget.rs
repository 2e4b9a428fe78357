//! A budget of tokens: what is spent stops the run, and nothing is lost by it.

use std::time::Duration;

use super::server::{Answer, Server};
use super::{Batch, now};

fn lines(count: u32) -> String {
    let line = |n| format!("{{\"custom_id\":\"{n}\",\"url\":\"/v1/responses\",\"body\":{{}}}}\n");
    (0..count).map(line).collect()
}

fn server() -> Server {
    let body = r#"{"output":[],"usage":{"input_tokens":7,"output_tokens":3,"total_tokens":10}}"#;
    Server::new(|_| Answer::json(200, body).after(Duration::from_millis(20)))
}

#[test]
fn a_spent_budget_stops_the_run_and_the_same_command_goes_on() {
    let server = server();
    let options = ["--max-tokens", "45", "--max-concurrency", "1", "--ordered"];
    let batch = Batch::new(&lines(10), &server.url()).with(&options);
    let end = batch.run();
    let sent = server.calls().len();
    // The next request may go out while the answer before it is read.
    assert!((5..=6).contains(&sent), "{sent} were sent: {}", end.stderr);
    assert_eq!((end.code(), batch.ids().len()), (1, sent));
    let used = 10 * sent;
    for part in [
        format!("tokens used   {used}\n"),
        format!("left to do    {}\n", 10 - sent),
        format!("stopped       {used} tokens were used, of 45 that --max-tokens allows this run"),
    ] {
        assert!(
            end.stderr.contains(&part),
            "{part} is not in\n{}",
            end.stderr
        );
    }
    let end = batch.run();
    assert_eq!(
        (end.code(), server.calls().len()),
        (0, 10),
        "{}",
        end.stderr
    );
    let ids: Vec<_> = (0..10).map(|n: u32| n.to_string()).collect();
    assert_eq!(batch.ids(), ids);
}

#[test]
fn many_in_flight_do_not_go_beyond_a_budget() {
    // As many as were in flight went beyond it.
    let server = server();
    let batch = Batch::new(&lines(300), &server.url()).with(&["--max-tokens", "200"]);
    let end = batch.run();
    assert_eq!(end.code(), 1, "{}", end.stderr);
    let sent = server.calls().len();
    assert!(
        (20..=21).contains(&sent),
        "{sent} were sent: {}",
        end.stderr
    );
    assert_eq!(batch.records().len(), sent);
}

#[test]
fn what_an_answer_says_it_took_counts_before_the_next_request_is_sent() {
    // The slot was free at the headers, and the next one went before the answer was read.
    let body = r#"{"output":[],"usage":{"input_tokens":700,"output_tokens":300}}"#;
    let server = Server::new(move |_| Answer::json(200, body));
    let options = ["--rate", "1000 tokens/1h", "--max-concurrency", "1"];
    let batch = Batch::new(&lines(20), &server.url()).with(&options);
    let end = batch.with(&["--max-wait", "5s"]).run();
    assert_eq!((end.code(), server.calls().len()), (1, 1), "{}", end.stderr);
}

#[test]
fn a_request_that_is_larger_than_a_ceiling_is_told_of() {
    let line =
        r#"{"url":"/v1/responses","body":{"input":"many more than five","max_output_tokens":99}}"#;
    let batch = Batch::new(line, &server().url()).with(&["--rate", "5 tokens/1s"]);
    let end = batch.run();
    assert!(
        end.stderr.contains("--rate allows 5 at once"),
        "{}",
        end.stderr
    );
}

#[test]
fn what_has_no_room_in_a_rate_of_tokens_waits_and_is_not_failed() {
    let server = Server::new(|_| Answer::json(200, "{}"));
    let line = |n| format!("{{\"custom_id\":\"{n}\",\"url\":\"/x\",\"cost\":100}}\n");
    let input: String = (0..60).map(line).collect();
    let batch = Batch::new(&input, &server.url()).with(&["--rate", "2000 tokens/1s"]);
    let begun = now();
    let end = batch.run();
    assert_eq!((end.code(), batch.ids().len()), (0, 60), "{}", end.stderr);
    assert!(begun.elapsed_secs() >= 2.0);
}

#[test]
fn a_budget_that_the_last_line_spends_stops_nothing() {
    let server = server();
    let batch = Batch::new(&lines(3), &server.url()).with(&["--max-tokens", "30"]);
    let end = batch.run();
    assert_eq!((end.code(), batch.ids().len()), (0, 3), "{}", end.stderr);
    assert!(!end.stderr.contains("stopped"), "{}", end.stderr);
}

#[test]
fn what_is_in_flight_when_the_budget_is_spent_ends() {
    let server = server();
    let options = ["--max-tokens", "1", "--max-concurrency", "4"];
    let batch = Batch::new(&lines(40), &server.url()).with(&options);
    let end = batch.run();
    assert_eq!(end.code(), 1);
    let (calls, records) = (server.calls().len(), batch.records());
    assert!((1..=8).contains(&calls), "{calls} were sent");
    assert_eq!(records.len(), calls);
    assert!(records.iter().all(|record| record["final"] == true));
}

#[test]
fn a_budget_that_nothing_counts_against_is_said_to_be_none() {
    let server = Server::new(|_| Answer::json(200, "{}"));
    let batch = Batch::new(&lines(3), &server.url()).with(&["--max-tokens", "1"]);
    let end = batch.run();
    assert_eq!((end.code(), server.calls().len()), (0, 3));
    assert!(end.stderr.contains("nothing to count"), "{}", end.stderr);
}

#[test]
fn what_would_have_been_held_back_is_in_the_summary() {
    let server = server();
    let options = ["--observe", "--rate", "1/1h"];
    let batch = Batch::new(&lines(10), &server.url()).with(&options);
    let end = batch.run();
    assert_eq!(
        (end.code(), server.calls().len()),
        (0, 10),
        "{}",
        end.stderr
    );
    let part = "observed      10 passed, 9 would have been held";
    assert!(end.stderr.contains(part), "{}", end.stderr);
}
