//! A run that would burn its input, or stand still for nothing, stops and says what to do.

use std::collections::HashSet;
use std::fs;
use std::thread;
use std::time::Duration;

use super::server::{Answer, Server};
use super::{Batch, Ended};

fn lines(count: usize) -> String {
    (0..count)
        .map(|n| format!("{{\"custom_id\":\"{n}\",\"url\":\"/v1/x\",\"body\":{n}}}\n"))
        .collect()
}

fn ok() -> Server {
    Server::new(|_| Answer::json(200, "{}"))
}

fn html() -> Answer {
    let mut page = Answer::json(200, "<html><title>Welcome</title>");
    page.headers = vec![("content-type", "text/html".to_owned())];
    page
}

#[test]
fn a_slip_burns_some_lines_only_and_the_mended_command_does_them_too() {
    let wrong: [(Answer, &str); 5] = [
        (Answer::json(403, "{\"error\":\"no\"}"), "--key-env NAME"),
        (
            Answer::json(404, "{}"),
            "/v1/x, or nothing of what is asked for",
        ),
        (Answer::json(405, "{}"), "/v1/x takes no POST"),
        (Answer::json(401, "{}"), "--key-env NAME"),
        (html(), "(\u{201c}Welcome\u{201d})"),
    ];
    for (answer, part) in wrong {
        let server = Server::new(move |_| answer.clone().after(Duration::from_millis(5)));
        let mut batch = Batch::new(&lines(300), &server.url()).with(&["--max-concurrency", "8"]);
        let end = batch.run();
        assert_eq!(end.code(), 1, "{}", end.stderr);
        assert!(end.stderr.contains(part), "{part} is not in {}", end.stderr);
        assert!(end.stderr.contains("--keep-going"), "{}", end.stderr);
        let sent = server.count();
        assert!((20..60).contains(&sent), "{sent} were sent: {}", end.stderr);

        let right = ok();
        batch.base = right.url();
        let end = batch.run();
        assert_eq!((end.code(), right.count()), (0, 300), "{}", end.stderr);
        let ids: HashSet<_> = batch.ids().into_iter().collect();
        assert_eq!((ids.len(), batch.records().len()), (300, 300));
    }
}

#[test]
fn what_is_an_answer_for_each_line_stops_nothing() {
    // Each of these stopped the run after twenty.
    let private = Answer::json(403, "{\"error\":\"this document is private\"}");
    let wants_page = ",\"headers\":{\"accept\":\"text/html\"}";
    for (answer, url, more, code) in [
        (private, "/documents/", "", 1),
        (Answer::json(404, "{}"), "/search?q=", "", 1),
        (html(), "/page/", wants_page, 0),
    ] {
        let server = Server::new(move |_| answer.clone());
        let line = |n| format!("{{\"url\":\"{url}{n}\"{more}}}\n");
        let input: String = (0..60).map(line).collect();
        let batch = Batch::new(&input, &server.url());
        let end = batch.run();
        assert_eq!((end.code(), server.count()), (code, 60), "{}", end.stderr);
        assert!(
            batch
                .records()
                .iter()
                .all(|record| record["error"].is_null())
        );
    }
}

#[test]
fn who_wants_to_go_on_goes_on_and_few_answers_are_told_at_the_end() {
    let server = Server::new(|_| Answer::json(404, "{}"));
    let batch = Batch::new(&lines(60), &server.url()).with(&["--keep-going"]);
    let end = batch.run();
    assert_eq!((end.code(), server.count()), (1, 60), "{}", end.stderr);
    let batch = Batch::new(&lines(3), &server.url());
    let end = batch.run();
    assert_eq!(end.code(), 1);
    assert!(
        end.stderr.contains("all 3 answers were 404: nothing is at"),
        "{}",
        end.stderr
    );
    assert!(batch.records().iter().all(|record| record["final"] == true));
}

#[test]
fn no_credit_on_any_key_ends_the_run_at_once_and_loses_nothing() {
    let body = "{\"error\":{\"message\":\"Insufficient Balance\"}}";
    let server = Server::new(move |_| Answer::json(402, body));
    let mut batch = Batch::new(&lines(100), &server.url()).with(&["--key-env", "TEST_KEY"]);
    let run = |batch: &Batch| {
        let mut command = batch.command();
        command.env("TEST_KEY", "sk-one-of-them");
        Ended::of(command)
    };
    let end = run(&batch);
    assert_eq!(end.code(), 1, "{}", end.stderr);
    let said = ["no key has credit left", "every key (out of funds)"];
    assert!(
        said.iter().any(|part| end.stderr.contains(part)),
        "{}",
        end.stderr
    );
    assert!(server.count() < 30, "{} were sent", server.count());
    let right = ok();
    batch.base = right.url();
    let end = run(&batch);
    assert_eq!(
        (end.code(), batch.records().len()),
        (0, 100),
        "{}",
        end.stderr
    );
}

#[cfg(unix)]
#[test]
fn a_long_wait_is_told_once_with_its_reason_and_its_end() {
    let server = Server::new(|_| {
        let mut answer = Answer::json(429, "{}");
        answer.headers.push(("retry-after", "3600".to_owned()));
        answer
    });
    let batch = Batch::new(&lines(50), &server.url());
    let mut run = batch.start_heard();
    run.until_said("until 2");
    thread::sleep(Duration::from_secs(3));
    super::signal(&run.child, "INT");
    let end = run.end();
    let told: Vec<_> = end
        .stderr
        .lines()
        .filter(|line| line.contains("until 2"))
        .collect();
    assert_eq!(told.len(), 1, "{}", end.stderr);
    assert!(
        told[0].contains("the moment that the server named"),
        "{}",
        told[0]
    );
    assert!(
        told[0].contains("59 min") || told[0].contains("1 h"),
        "{}",
        told[0]
    );
}

#[test]
fn a_line_is_refused_as_often_as_it_takes_while_others_are_served() {
    // It was given up after ten refusals, though the provider served the others.
    let refused = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::new(move |call| {
        let unlucky = call.body == "7";
        let count = || refused.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if unlucky && count() < 25 {
            return Answer::json(429, "{}");
        }
        Answer::json(200, "{}").after(Duration::from_millis(20))
    });
    let batch = Batch::new(&lines(400), &server.url()).with(&["--max-concurrency", "2"]);
    // Else its pauses, and the rate that is learned from the refusals of one, would take minutes.
    let config = batch.dir.path().join("limits.toml");
    fs::write(
        &config,
        "pace = \"off\"\n[retry]\nbase = \"1ms\"\ncap = \"5ms\"\n",
    )
    .expect("written");
    let batch = batch.with(&["--config", config.to_str().expect("UTF-8")]);
    let end = batch.run();
    assert_eq!(end.code(), 0, "{}", end.stderr);
    assert_eq!(server.bodies()["7"], 26);
}

#[test]
fn a_line_that_is_always_refused_holds_up_nobody_and_is_sent_as_often_as_the_user_says() {
    let server = Server::new(move |call| match call.body.as_str() {
        "0" => Answer::json(429, "{\"error\":\"too many active series\"}"),
        _ => Answer::json(200, "{}"),
    });
    let batch = Batch::new(&lines(100), &server.url()).with(&["--max-attempts", "3"]);
    let end = batch.run();
    assert_eq!(end.code(), 1, "{}", end.stderr);
    assert_eq!((server.bodies()["0"], server.count()), (3, 102));
    let records = batch.records();
    let open: Vec<_> = records
        .iter()
        .filter(|record| record["final"] == false)
        .collect();
    assert_eq!((open.len(), &open[0]["custom_id"]), (1, &"0".into()));
}
