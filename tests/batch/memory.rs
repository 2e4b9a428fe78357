//! Memory does not grow with the input, but for the index of ids; nor with what waits, is refused,
//! or has a name of its own.

use std::fs;
use std::io::Write;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use super::server::{Answer, Server};
use super::{Batch, now};

/// The most memory that a run has had within so many seconds, in bytes.
fn peak_of(run: &mut Child, seconds: f64) -> u64 {
    let status = format!("/proc/{}/status", run.id());
    let (start, mut peak) = (now(), 0);
    while run.try_wait().expect("a child").is_none() && start.elapsed_secs() < seconds {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0) * 1024);
        thread::sleep(Duration::from_millis(5));
    }
    peak
}

/// The most memory that a run over so many lines has, whose additions `more` says.
fn peak(lines: usize, more: impl Fn(usize) -> String) -> u64 {
    let server = Server::new(|_| Answer::json(200, "{}"));
    let pad = "x".repeat(500);
    let line = |n| {
        let more = more(n);
        format!("{{\"custom_id\":\"id{n}\",\"url\":\"/a\",\"body\":{{\"pad\":\"{pad}\"}}{more}}}\n")
    };
    let input: String = (0..lines).map(line).collect();
    // Nothing waits for long: what lines cost in all is what is measured.
    let batch = Batch::new(&input, &server.url()).with(&["--max-concurrency", "64"]);
    let mut run = batch.start();
    let peak = peak_of(&mut run, 300.0);
    assert_eq!(batch.records().len(), lines);
    peak
}

fn assert_flat(few: u64, many: u64, lines: u64) {
    let allowed = few + (8 << 20) + 24 * lines;
    assert!(
        many <= allowed,
        "{few} bytes and then {many}, for {lines} lines more"
    );
}

#[test]
fn twenty_thousand_lines_more_cost_their_index_and_at_most_8_mib() {
    let plain = |_| String::new();
    assert_flat(peak(4_000, plain), peak(24_000, plain), 20_000);
}

#[test]
fn names_that_come_once_each_are_not_kept() {
    let named = |n: usize| match n % 2 {
        0 => format!(",\"tenant\":\"tenant-{n}\",\"group\":\"\""),
        _ => format!(",\"group\":\"group-{n}\",\"tenant\":\"\",\"bucket\":\"\""),
    };
    assert_flat(peak(4_000, named), peak(24_000, named), 20_000);
}

#[test]
fn an_input_without_end_before_a_server_that_refuses_is_read_no_further() {
    let server = Server::new(|_| Answer::json(429, "{}"));
    let batch = Batch::new("", &server.url());
    let mut command = batch.command();
    command
        .args(["--max-concurrency", "64"])
        .stdin(Stdio::piped());
    let input = batch.input();
    fs::remove_file(&input).expect("it was written");
    std::os::unix::fs::symlink("/dev/stdin", &input).expect("linked");
    let mut run = command.spawn().expect("the command starts");
    let mut stdin = run.stdin.take().expect("a pipe");
    let written = thread::spawn(move || {
        let body = "x".repeat(1_000);
        let line = format!("{{\"url\":\"/a\",\"body\":\"{body}\"}}\n");
        let mut written = 0;
        // Until the run has ended.
        while stdin.write_all(line.as_bytes()).is_ok() {
            written += 1;
        }
        written
    });
    let peak = peak_of(&mut run, 5.0);
    run.kill().expect("it runs");
    run.wait().expect("it ends");
    let written = written.join().expect("no panic");
    assert!(
        written < 5_000,
        "{written} lines were read though nothing was served"
    );
    assert!(peak < 64 << 20, "{peak} bytes");
}

/// The most memory of a run over so many lines of this size while hardly any is served.
fn peak_of_waiting(lines: usize, bytes: usize) -> u64 {
    let server = Server::new(|_| Answer::json(200, "{}").after(Duration::from_secs(2)));
    let body = "x".repeat(bytes);
    let input: String = (0..lines)
        .map(|n| format!("{{\"custom_id\":\"{n}\",\"url\":\"/a\",\"body\":\"{body}\"}}\n"))
        .collect();
    let batch = Batch::new(&input, &server.url()).with(&["--max-concurrency", "20"]);
    let mut run = batch.start();
    let peak = peak_of(&mut run, 5.0);
    run.kill().expect("it runs");
    run.wait().expect("it ends");
    peak
}

#[test]
fn a_slow_server_costs_the_memory_of_what_is_read_ahead() {
    assert_flat(
        peak_of_waiting(2_000, 1_000),
        peak_of_waiting(40_000, 1_000),
        38_000,
    );
}

#[test]
fn large_lines_that_wait_cost_hardly_more_than_small_ones() {
    // A thousand of them were 20 MiB, and those of 32 KB 32.
    let (small, large) = (peak_of_waiting(2_000, 100), peak_of_waiting(2_000, 32_000));
    assert!(
        large <= small + (16 << 20),
        "{small} bytes and then {large}"
    );
}
