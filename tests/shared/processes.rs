//! Real processes that share a limit, under every trouble that a store or a process can have. What
//! counts is what the provider saw.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::provider::Provider;
use super::proxy::Proxy;
use super::server::{Kind, PATIENCE, Server, pause, signal, within};

/// Some runs of `paceline`, and the provider that they send to.
struct Fleet {
    provider: Provider,
    directory: TempDir,
    runs: Vec<Child>,
    lines: usize,
}

impl Fleet {
    fn new(takes: Duration) -> Self {
        Self {
            provider: Provider::start(takes),
            directory: tempfile::tempdir().unwrap(),
            runs: Vec::new(),
            lines: 0,
        }
    }

    /// Starts a run of so many requests that shares through a store.
    fn run(&mut self, count: usize, store: &str, options: &[&str]) -> u32 {
        let name = self.runs.len();
        let file = |kind: &str| self.directory.path().join(format!("{name}.{kind}.jsonl"));
        let lines = (0..count).map(|line| {
            format!("{{\"custom_id\":\"{line}\",\"method\":\"GET\",\"url\":\"/{name}/{line}\"}}\n")
        });
        fs::write(file("in"), lines.collect::<String>()).unwrap();
        let run = Command::new(env!("CARGO_BIN_EXE_paceline"))
            .arg("run")
            .arg(file("in"))
            .arg("-o")
            .arg(file("out"))
            .args(["--base-url", &self.provider.url(), "--shared", store])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        self.lines += count;
        self.runs.push(run);
        self.runs[name].id()
    }

    /// Starts several runs of so many requests each.
    fn start(&mut self, runs: usize, count: usize, store: &str, options: &[&str]) {
        for _ in 0..runs {
            self.run(count, store, options);
        }
    }

    /// Waits until every run has ended, and says that all of them succeeded.
    fn all_succeed(mut self) -> Provider {
        for (name, mut run) in self.runs.drain(..).enumerate() {
            let status = run.wait().unwrap();
            let mut said = String::new();
            run.stderr
                .take()
                .unwrap()
                .read_to_string(&mut said)
                .unwrap();
            assert!(status.success(), "{said}");
            let records =
                fs::read_to_string(self.directory.path().join(format!("{name}.out.jsonl")));
            for record in records.unwrap().lines() {
                let record: serde_json::Value = serde_json::from_str(record).unwrap();
                let millis = |field: &str| record[field].as_u64().unwrap();
                let path = format!("/{name}/{}", record["custom_id"].as_str().unwrap());
                // Each is rounded to whole ones.
                let under_way = (2 + millis("took_ms")).saturating_sub(millis("waited_ms"));
                self.provider.told(path, Duration::from_millis(under_way));
            }
        }
        let mut paths = self.provider.paths();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), self.lines, "each once");
        assert_eq!(self.provider.count(), self.lines, "none twice");
        self.provider.clone()
    }

    fn wait_for(&self, count: usize) {
        assert!(
            within(PATIENCE, || self.provider.count() >= count),
            "{} of {count} after {PATIENCE:?}",
            self.provider.count()
        );
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for run in &mut self.runs {
            drop(run.kill());
            drop(run.wait());
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);
/// A limit of 30 in a second. The margin is for machines that test other things too.
const EXACT: [&str; 4] = ["--rate", "30/1s+25%", "--when-away", "closed"];

#[test]
fn eight_processes_keep_one_limit() {
    // SS-01: counters without an end came back the next day.
    let server = Server::start(Kind::Valkey);
    let mut fleet = Fleet::new(Duration::ZERO);
    fleet.start(8, 15, &server.url(), &EXACT);
    let provider = fleet.all_succeed();
    provider.assert_at_most(30, SECOND);
    // Four windows of 1.25 s, and however long a busy machine takes to start eight.
    assert!(
        provider.took() < Duration::from_secs(30),
        "{:?}",
        provider.took()
    );
    let keys = server.keys();
    assert!(keys.iter().all(|(_, left)| *left != -1), "{keys:?}");
}

#[test]
fn two_processes_on_an_old_redis_keep_one_limit() {
    let server = Server::start(Kind::OldRedis);
    let mut fleet = Fleet::new(Duration::ZERO);
    fleet.start(2, 45, &server.url(), &EXACT);
    let provider = fleet.all_succeed();
    provider.assert_at_most(30, SECOND);
}

#[test]
fn a_killed_process_gives_its_slots_back_within_a_lease() {
    // SS-05: a holder that was killed blocked everybody until somebody flushed the store.
    let server = Server::start(Kind::Valkey);
    let mut fleet = Fleet::new(Duration::from_millis(400));
    let options = ["--max-concurrency", "4", "--when-away", "closed"];
    let victim = fleet.run(40, &server.url(), &options);
    fleet.wait_for(4);
    signal(victim, "KILL");
    fleet.runs[0].wait().unwrap();
    let sent = fleet.provider.count();
    fleet.runs.clear();
    fleet.lines = 0;
    fleet.run(8, &server.url(), &options);
    let status = fleet.runs[0].wait().unwrap();
    assert!(status.success());
    assert_eq!(fleet.provider.count(), sent + 8);
    assert!(
        fleet.provider.most_at_once() <= 4,
        "{}",
        fleet.provider.most_at_once()
    );
}

#[test]
fn a_process_that_was_halted_sends_nothing_that_was_paid_for_before() {
    let server = Server::start(Kind::Valkey);
    let mut fleet = Fleet::new(Duration::ZERO);
    let halted = fleet.run(90, &server.url(), &EXACT);
    fleet.run(150, &server.url(), &EXACT);
    // Each time in the midst of those that were paid for together.
    for (count, time) in [(33, 1700), (70, 1300), (100, 4000)] {
        fleet.wait_for(count);
        signal(halted, "STOP");
        pause(Duration::from_millis(time));
        signal(halted, "CONT");
    }
    // What each of its threads was just writing to a socket, nobody can take back.
    let threads = thread::available_parallelism().unwrap().get();
    fleet.all_succeed().assert_at_most(30 + threads, SECOND);
}

#[test]
fn a_process_that_was_halted_past_its_lease_borrows_anew() {
    // SS-18: a process that was halted past its lease went on without it.
    let server = Server::start(Kind::Valkey);
    let mut fleet = Fleet::new(Duration::ZERO);
    let options = [
        "--rate",
        "100/1s+25%",
        "--shared-mode",
        "leases",
        "--when-away",
        "closed",
    ];
    let halted = fleet.run(300, &server.url(), &options);
    fleet.run(300, &server.url(), &options);
    fleet.wait_for(150);
    signal(halted, "STOP");
    pause(Duration::from_secs(4));
    signal(halted, "CONT");
    let provider = fleet.all_succeed();
    provider.assert_at_most(100, SECOND);
}

#[test]
fn a_store_that_restarts_empty_lets_no_window_exceed_the_limit() {
    let mut server = Server::start(Kind::Valkey);
    let mut fleet = Fleet::new(Duration::ZERO);
    fleet.start(3, 40, &server.url(), &EXACT);
    fleet.wait_for(40);
    server.stop();
    pause(Duration::from_millis(700));
    server.run();
    let provider = fleet.all_succeed();
    provider.assert_at_most(30, SECOND);
}

#[test]
fn a_flushed_store_lets_no_window_exceed_the_limit() {
    let server = Server::start(Kind::OldRedis);
    let mut fleet = Fleet::new(Duration::ZERO);
    fleet.start(3, 40, &server.url(), &EXACT);
    for count in [20, 50, 80] {
        fleet.wait_for(count);
        server.command(&["FLUSHALL"]);
        server.command(&["SCRIPT", "FLUSH"]);
    }
    let provider = fleet.all_succeed();
    provider.assert_at_most(30, SECOND);
}

#[test]
fn a_store_that_is_halted_costs_no_window_its_limit() {
    // SS-24: a store that accepted connections and never answered held every call up for ever.
    let server = Server::start(Kind::Valkey);
    let mut fleet = Fleet::new(Duration::ZERO);
    fleet.start(3, 40, &server.url(), &EXACT);
    for count in [40, 80] {
        fleet.wait_for(count);
        server.signal("STOP");
        pause(Duration::from_millis(1500));
        server.signal("CONT");
    }
    let provider = fleet.all_succeed();
    provider.assert_at_most(30, SECOND);
}

#[test]
fn a_store_that_cannot_write_lets_nothing_through() {
    let server = Server::start(Kind::Valkey);
    let mut fleet = Fleet::new(Duration::ZERO);
    fleet.start(2, 50, &server.url(), &EXACT);
    fleet.wait_for(30);
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    pause(Duration::from_millis(1500));
    let before = fleet.provider.count();
    pause(Duration::from_secs(2));
    assert_eq!(fleet.provider.count(), before);
    server.command(&["REPLICAOF", "NO", "ONE"]);
    let provider = fleet.all_succeed();
    provider.assert_at_most(30, SECOND);
}

#[test]
fn without_a_store_each_process_keeps_to_its_share() {
    // SS-21: each of N processes took the whole quota while the store was away.
    let mut server = Server::start(Kind::Valkey);
    let mut fleet = Fleet::new(Duration::ZERO);
    let options = ["--rate", "30/1s+25%"];
    fleet.start(3, 60, &server.url(), &options);
    fleet.wait_for(60);
    server.stop();
    let provider = fleet.all_succeed();
    // In the window in which it went away at most 30 and two thirds of 30 more.
    provider.assert_at_most(50, SECOND);
    // And they all went on: 120 more at 24 a second, on a machine that may be busy.
    assert!(
        provider.took() < Duration::from_secs(30),
        "{:?}",
        provider.took()
    );
}

#[test]
fn a_slow_way_to_the_store_that_breaks_now_and_then_breaks_no_limit() {
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.port());
    let mut fleet = Fleet::new(Duration::ZERO);
    fleet.start(3, 40, &proxy.url(), &EXACT);
    for (count, delay) in [(20, 60), (50, 400), (52, 20)] {
        fleet.wait_for(count);
        proxy.delay(delay);
        proxy.cut();
        if delay > 250 {
            // Longer than a command may take: nothing goes on.
            pause(Duration::from_secs(2));
            proxy.delay(0);
        }
    }
    let provider = fleet.all_succeed();
    provider.assert_at_most(30, SECOND);
}

#[test]
fn a_run_ends_soon_after_its_last_row() {
    // SS-26: the open connection to the store kept a short script alive.
    let server = Server::start(Kind::Valkey);
    for mode in ["exact", "leases"] {
        let mut fleet = Fleet::new(Duration::ZERO);
        let options = ["--rate", "30/1s", "--shared-mode", mode];
        fleet.run(5, &server.url(), &options);
        fleet.wait_for(5);
        let first = fleet.provider.elapsed();
        // A second; and the machine that tests may be busy. It was for ever.
        let provider = fleet.all_succeed();
        let took = provider.elapsed() - first;
        assert!(took < Duration::from_secs(20), "{mode}: {took:?}");
    }
}

#[test]
fn no_secret_reaches_the_store() {
    let server = Server::start(Kind::Valkey);
    let mut fleet = Fleet::new(Duration::ZERO);
    let keys = fleet.directory.path().join("keys.txt");
    fs::write(&keys, "s3cret-w0rd\n").unwrap();
    let mut options = EXACT.to_vec();
    options.extend(["--key-file", keys.to_str().unwrap()]);
    fleet.run(5, &server.url(), &options);
    drop(fleet.all_succeed());
    let everything = server.everything();
    assert!(everything.contains("requests"), "{everything}");
    assert!(!everything.contains("s3cret"), "{everything}");
}
