//! A provider that is away for a while costs time, not lines.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::server::{Answer, Server};
use super::{Batch, Ended, now, until};

fn lines(count: usize) -> String {
    (0..count)
        .map(|n| format!("{{\"custom_id\":\"{n}\",\"method\":\"GET\",\"url\":\"/{n}\"}}\n"))
        .collect()
}

fn ok() -> Answer {
    Answer::json(200, "{}")
}

fn assert_all_done(batch: &Batch, end: &Ended, count: usize) {
    assert_eq!(end.code(), 0, "{}", end.stderr);
    let records = batch.records();
    assert_eq!(records.len(), count);
    assert!(records.iter().all(|record| record["final"] == true));
}

#[test]
fn a_server_that_stops_and_comes_back_costs_no_line() {
    // A hundred repeats in ten seconds were allowed, and what came after that was given up.
    let server = Server::new(|_| ok().after(Duration::from_millis(20)));
    // So many that they are not done before somebody looks, however busy the machine is.
    let batch = Batch::new(&lines(2_000), &server.url()).with(&["--max-concurrency", "64"]);
    let mut run = batch.start_heard();
    until("some of the work", || server.count() > 100);
    let address = server.address();
    drop(server);
    run.until_said("trying again for up to");
    thread::sleep(Duration::from_secs(5));
    let back = Server::on(address, |_| ok());
    let end = run.end();
    assert_all_done(&batch, &end, 2_000);
    assert!(back.count() > 0);
    assert!(end.stderr.contains("answers again after"), "{}", end.stderr);
    assert!(
        end.stderr.contains("away          the provider, 1 time"),
        "{}",
        end.stderr
    );
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for() {
    let gone = Server::new(|_| ok());
    let address = gone.address();
    let batch = Batch::new(&lines(20), &gone.url());
    drop(gone);
    let mut run = batch.start_heard();
    run.until_said("is the address right?");
    let _server = Server::on(address, |_| ok());
    assert_all_done(&batch, &run.end(), 20);
}

#[test]
fn a_server_that_answers_errors_only_for_a_while_costs_no_line() {
    for (concurrency, status) in [("1", 500), ("16", 503)] {
        let broken = std::sync::Arc::new(AtomicBool::new(true));
        let flag = std::sync::Arc::clone(&broken);
        let server = Server::new(move |_| match flag.load(Ordering::SeqCst) {
            true => Answer::json(status, "{}"),
            false => ok(),
        });
        let batch = Batch::new(&lines(60), &server.url()).with(&["--max-concurrency", concurrency]);
        let run = batch.start();
        thread::sleep(Duration::from_secs(5));
        broken.store(false, Ordering::SeqCst);
        let end = Ended::from(run.wait_with_output().expect("it ends"));
        assert_all_done(&batch, &end, 60);
    }
}

#[test]
fn a_server_that_only_ever_answers_errors_is_given_up_and_named() {
    let server = Server::new(|_| Answer::json(500, "{\"error\":\"database is down\"}"));
    let batch = Batch::new(&lines(300), &server.url()).with(&["--max-outage", "3s"]);
    let end = batch.run();
    assert_eq!(end.code(), 1, "{}", end.stderr);
    for part in [
        "has not served a single request",
        "it answers 500",
        "run the same command again",
        "because     500: database is down",
    ] {
        assert!(end.stderr.contains(part), "{part} is not in {}", end.stderr);
    }
    let records = batch.records();
    assert!(records.iter().all(|record| record["final"] == false));

    let back = Server::on(server_gone(server), |_| ok());
    let end = batch.run();
    assert_all_done(&batch, &end, 300);
    drop(back);
}

fn server_gone(server: Server) -> std::net::SocketAddr {
    let address = server.address();
    drop(server);
    address
}

#[test]
fn a_line_that_always_fails_fails_alone() {
    let server = Server::new(|call| match call.path.as_str() {
        "/7" => Answer::json(500, "{}"),
        _ => ok(),
    });
    for concurrency in ["1", "8"] {
        let batch = Batch::new(&lines(40), &server.url()).with(&["--max-concurrency", concurrency]);
        let end = batch.run();
        assert_eq!(end.code(), 1, "{}", end.stderr);
        let failed: Vec<_> = batch
            .records()
            .into_iter()
            .filter(|record| record["response"]["status_code"] == 500)
            .collect();
        assert_eq!((batch.records().len(), failed.len()), (40, 1));
        assert_eq!(
            (&failed[0]["custom_id"], &failed[0]["final"]),
            (&"7".into(), &true.into())
        );
    }
}

#[test]
fn no_line_is_given_up_because_others_have_used_up_the_repeats() {
    let seen = Mutex::new(HashSet::new());
    let server =
        Server::new(
            move |call| match seen.lock().expect("no panic").insert(call.path.clone()) {
                true => Answer::json(500, "{}"),
                false => ok(),
            },
        );
    let batch = Batch::new(&lines(300), &server.url()).with(&["--max-concurrency", "32"]);
    let end = batch.run();
    assert_all_done(&batch, &end, 300);
    assert_eq!(server.calls().len(), 600);
}

#[test]
fn a_body_that_is_always_cut_is_asked_for_with_pauses_and_not_for_ever() {
    let server = Server::new(|_| {
        let mut answer = ok();
        answer.missing = 5_000;
        answer
    });
    let batch = Batch::new(&lines(1), &server.url());
    let start = now();
    let end = batch.run();
    assert_eq!((end.code(), server.calls().len()), (1, 4), "{}", end.stderr);
    assert!(
        start.elapsed_secs() > 6.5,
        "it took {} s",
        start.elapsed_secs()
    );
    assert_eq!(batch.records()[0]["final"], false);
}

#[test]
fn one_provider_that_is_away_does_not_keep_another() {
    let gone = Server::new(|_| ok());
    let (away, address) = (gone.url(), gone.address());
    drop(gone);
    let here = Server::new(|_| ok());
    let input: String = (0..40)
        .map(|n| {
            let base = if n % 4 == 0 { &away } else { &here.url() };
            format!("{{\"custom_id\":\"{n}\",\"url\":\"{base}/{n}\"}}\n")
        })
        .collect();
    let batch = Batch::new(&input, &here.url()).with(&["--max-outage", "4s"]);
    let end = batch.run();
    assert_eq!((end.code(), here.calls().len()), (1, 30), "{}", end.stderr);
    let left = batch
        .records()
        .iter()
        .filter(|record| record["final"] == false)
        .count();
    assert_eq!((batch.records().len(), left), (40, 10));
    let _back = Server::on(address, |_| ok());
    let end = batch.run();
    assert_all_done(&batch, &end, 40);
}

#[test]
fn requests_that_must_not_be_repeated_are_not_burnt_in_an_outage() {
    let calls = AtomicUsize::new(0);
    let broken = std::sync::Arc::new(AtomicBool::new(true));
    let flag = std::sync::Arc::clone(&broken);
    let server = Server::new(move |_| {
        let served = calls.fetch_add(1, Ordering::SeqCst) < 50;
        match served || !flag.load(Ordering::SeqCst) {
            true => ok(),
            false => Answer::json(503, "{}"),
        }
    });
    let input: String = (0..400)
        .map(|n| format!("{{\"custom_id\":\"{n}\",\"url\":\"/orders\",\"body\":{n}}}\n"))
        .collect();
    let batch = Batch::new(&input, &server.url()).with(&["--max-concurrency", "8"]);
    let (run, start) = (batch.start(), now());
    thread::sleep(Duration::from_secs(4));
    broken.store(false, Ordering::SeqCst);
    let seconds = start.elapsed_secs().ceil() as usize;
    let end = Ended::from(run.wait_with_output().expect("it ends"));
    let records = batch.records();
    let failed = records
        .iter()
        .filter(|record| record["response"]["status_code"] == 503)
        .count();
    // Seven may fail before the last of the answers that began earlier, ten make an outage, seven
    // are on the wire by then, and a probe goes each second.
    let most = 7 + 10 + 7 + seconds;
    assert!((1..=most).contains(&failed), "{failed}: {}", end.stderr);
    assert_eq!(records.len(), 400);
    assert!(
        server.bodies().values().all(|count| *count == 1),
        "none was sent twice"
    );
}

#[test]
fn a_probe_does_not_wait_for_all_that_were_queued_before_it() {
    // One failure at the start, where an error comes sooner than an answer: the whole batch was
    // turned back at its rate before anything was sent again.
    let calls = AtomicUsize::new(0);
    let server = Server::new(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        3 => Answer::json(500, "{}"),
        _ => ok().after(Duration::from_millis(100)),
    });
    let input: String = (0..600)
        .map(|n| format!("{{\"custom_id\":\"{n}\",\"url\":\"/orders\",\"body\":{n}}}\n"))
        .collect();
    let batch = Batch::new(&input, &server.url());
    let end = batch.with(&["--rate", "40/1s", "--summary", "json"]).run();
    let summary = end.summary();
    assert_eq!(
        (&summary["outages"], &summary["left"]),
        (&1.into(), &1.into()),
        "{}",
        end.stderr
    );
    // The first probe goes after a second; all the others would take fourteen.
    assert!(
        summary["outage_ms"].as_u64() < Some(7_000),
        "{}",
        end.stderr
    );
}

#[test]
fn what_an_outage_sends_back_takes_nothing_of_a_rate() {
    // The first two of an hour's thirty failed, and the others were sent back until all thirty were
    // used up.
    let calls = AtomicUsize::new(0);
    let server = Server::new(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Answer::json(500, "{}"),
        _ => ok(),
    });
    let input: String = (0..28)
        .map(|n| format!("{{\"custom_id\":\"{n}\",\"url\":\"/orders\",\"body\":{n}}}\n"))
        .collect();
    let batch = Batch::new(&input, &server.url()).with(&["--max-concurrency", "1"]);
    let limits = ["--rate", "30/1h", "--max-wait", "30s", "--summary", "json"];
    let end = batch.with(&limits).run();
    let summary = end.summary();
    assert_eq!(
        (server.count(), &summary["succeeded"], &summary["left"]),
        (28, &26.into(), &2.into()),
        "{}",
        end.stderr
    );
}
