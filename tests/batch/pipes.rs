//! Output into a pipe whose reader does not read, reads late, or goes away.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::server::{Answer, Server};
use super::{Ended, signal, until};

/// Answers that are larger together than any pipe.
fn server() -> Server {
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(20_000));
    Server::new(move |_| Answer::json(200, &body))
}

fn start(server: &Server, lines: u32, options: &[&str]) -> Child {
    let mut run = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(["run", "-", "--base-url", &server.url()])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = run.stdin.take().expect("a pipe");
    thread::spawn(move || {
        for n in 0..lines {
            // A run that has ended reads no more.
            if writeln!(stdin, "{{\"custom_id\":\"{n}\",\"url\":\"/{n}\"}}").is_err() {
                return;
            }
        }
    });
    run
}

#[test]
fn a_reader_who_does_not_read_holds_up_no_signal() {
    // The grace ends it, or else another signal.
    for grace in ["1s", "1h"] {
        let server = server();
        let mut run = start(&server, 50, &["--grace", grace]);
        until("all answers", || server.count() == 50);
        thread::sleep(Duration::from_millis(100));
        signal(&run, "INT");
        until("its end", || {
            if grace == "1h" {
                signal(&run, "INT");
            }
            run.try_wait().expect("its state").is_some()
        });
        let status = run.wait().expect("it ended");
        assert_eq!(status.code(), Some(130));
        let mut stderr = String::new();
        let pipe = run.stderr.as_mut().expect("a pipe");
        pipe.read_to_string(&mut stderr).expect("UTF-8");
        assert!(stderr.contains("were not written"), "{stderr}");
    }
}

#[test]
fn a_reader_who_reads_late_gets_every_record() {
    let server = server();
    let run = start(&server, 50, &[]);
    until("all answers", || server.count() == 50);
    thread::sleep(Duration::from_millis(100));
    let end = Ended::from(run.wait_with_output().expect("it ends"));
    assert_eq!(
        (end.code(), end.stdout.lines().count()),
        (0, 50),
        "{}",
        end.stderr
    );
    assert!(!end.stderr.contains("not written"), "{}", end.stderr);
}

#[test]
fn a_reader_who_has_gone_ends_the_run_and_is_named() {
    let server = server();
    let mut run = start(&server, 50, &[]);
    drop(run.stdout.take());
    let end = Ended::from(run.wait_with_output().expect("it ends"));
    assert_eq!(end.code(), 1, "{}", end.stderr);
    assert!(end.stderr.contains("has gone"), "{}", end.stderr);
}

#[test]
fn no_more_is_begun_than_a_slow_reader_has_room_for() {
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(50_000));
    let server = Server::new(move |_| Answer::json(200, &body));
    let run = start(&server, 2_500, &[]);
    thread::sleep(Duration::from_secs(2));
    let begun = server.count();
    // 8 MiB of records, and the most that may be in flight.
    assert!(
        begun < 170 + 1_024,
        "{begun} of 2,500 were begun while nobody read"
    );
    let end = Ended::from(run.wait_with_output().expect("it ends"));
    assert_eq!(
        (end.code(), end.stdout.lines().count()),
        (0, 2_500),
        "{}",
        end.stderr
    );
}
