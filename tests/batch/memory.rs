//! Memory does not grow with the input, but for the index of ids.

use std::fs;

use super::Batch;
use super::server::{Answer, Server};

/// The most memory that a run over so many lines had, in bytes.
fn peak(lines: usize) -> u64 {
    let server = Server::new(|_| Answer::json(200, "{}"));
    let pad = "x".repeat(500);
    let input: String = (0..lines)
        .map(|n| {
            format!("{{\"custom_id\":\"id{n}\",\"url\":\"/a\",\"body\":{{\"pad\":\"{pad}\"}}}}\n")
        })
        .collect();
    // Nothing waits for long: what lines cost in all is what is measured.
    let batch = Batch::new(&input, &server.url()).with(&["--max-concurrency", "64"]);
    let mut run = batch.start();
    let status = format!("/proc/{}/status", run.id());
    let mut peak = 0;
    while run.try_wait().expect("a child").is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0) * 1024);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(batch.records().len(), lines);
    peak
}

#[test]
fn twenty_thousand_lines_more_cost_their_index_and_at_most_8_mib() {
    let (few, many) = (peak(4_000), peak(24_000));
    let allowed = few + (8 << 20) + 24 * 20_000;
    assert!(
        many <= allowed,
        "{few} bytes for 4,000 lines, {many} for 24,000"
    );
}
