//! What a run has learned is there for the next.

use std::fs;

use serde_json::Value;

use super::{Batch, Ended, until};
use crate::mock::Mock;

/// A bucket that tells nothing.
const SILENT: &str = "[provider]\nlatency = '20ms'\n\
                      limits = [{ kind = 'bucket', rate = 50, burst = 10 }]\n\
                      [load]\nrequests = 1\n";

/// The same, so slow that a busy machine is faster.
const SLOW: &str = "[provider]\nlatency = '20ms'\n\
                    limits = [{ kind = 'bucket', rate = 8, burst = 4 }]\n\
                    [load]\nrequests = 1\n";

fn lines(count: usize) -> String {
    (0..count)
        .map(|n| format!("{{\"custom_id\":\"{n}\",\"url\":\"/items/{n}\"}}\n"))
        .collect()
}

fn refused(end: &Ended) -> u64 {
    end.summary()["refused"].as_u64().expect("a number")
}

fn run(mock: &Mock, state: &str, count: usize) -> Ended {
    let batch = Batch::new(&lines(count), &mock.url);
    let end = batch.with(&["--state", state, "--summary", "json"]).run();
    assert_eq!(end.code(), 0, "{}", end.stderr);
    end
}

#[test]
fn a_second_run_starts_without_the_refusals_of_the_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.json");
    let state = path.to_str().expect("UTF-8");
    let first = refused(&run(&Mock::start(SLOW, &[]), state, 60));
    let text = fs::read_to_string(&path).expect("it was written");
    assert!(text.contains("anonymous"), "{text}");
    // The name of the provider is its address: what was learned of one is moved to the other.
    let second = Mock::start(SLOW, &[]);
    let address = second.url.trim_start_matches("http://");
    let mut written: Value = serde_json::from_str(&text).expect("JSON");
    let providers = written["providers"].as_object_mut().expect("by name");
    let learned = providers.values().next().expect("one").clone();
    providers.insert(address.to_owned(), learned);
    fs::write(&path, written.to_string()).expect("written");
    let second = refused(&run(&second, state, 30));
    assert!(first >= 1, "{first} refusals in the first run");
    assert!(2 * second <= first, "{first} and {second} refusals");
}

#[test]
fn a_file_of_something_else_stops_the_run_before_it_begins() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes.json");
    fs::write(&path, "{\"mine\": 1}").expect("written");
    let mock = Mock::start(SILENT, &[]);
    let batch = Batch::new(&lines(3), &mock.url).with(&["--state", path.to_str().expect("UTF-8")]);
    for batch in [
        batch.with(&["--dry-run"]),
        Batch::new(&lines(3), &mock.url).with(&["--state", path.to_str().expect("UTF-8")]),
    ] {
        let end = batch.run();
        assert_eq!(end.code(), 2);
        assert!(
            end.stderr.contains("is no state of this paceline"),
            "{}",
            end.stderr
        );
        assert!(!batch.output().exists());
    }
    assert_eq!(fs::read_to_string(&path).expect("there"), "{\"mine\": 1}");
}

#[test]
fn a_state_that_cannot_be_written_is_told_of_once_and_stops_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("no-such-folder").join("state.json");
    let mock = Mock::start(SILENT, &[]);
    let end = run(&mock, path.to_str().expect("UTF-8"), 3);
    assert_eq!(
        end.stderr.matches("cannot write the state").count(),
        1,
        "{}",
        end.stderr
    );
}

#[cfg(unix)]
#[test]
fn a_run_that_is_interrupted_keeps_what_it_has_learned() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.json");
    let mock = Mock::start(SILENT, &[]);
    let batch = Batch::new(&lines(100_000), &mock.url).with(&[
        "--state",
        path.to_str().expect("UTF-8"),
        "--rate",
        "100000/1day",
    ]);
    let mut child = batch.start();
    let records = || fs::read_to_string(batch.output()).map_or(0, |text| text.lines().count());
    until("some requests are done", || records() > 15);
    super::signal(&child, "INT");
    until("it has ended", || {
        child.try_wait().expect("its state").is_some()
    });
    let text = fs::read_to_string(&path).expect("it was written");
    assert!(
        text.contains("\"spent\":[{\"dimension\":\"requests\""),
        "{text}"
    );
}

fn history(arguments: &[&str]) -> (i32, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_paceline"));
    let output = command.arg("history").args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code().expect("a code"),
        String::from_utf8(text).expect("text"),
    )
}

#[test]
fn what_happened_in_two_runs_is_shown_hour_by_hour_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.json");
    let state = path.to_str().expect("UTF-8");
    let mock = Mock::start(SILENT, &[]);
    let attempts = |end: &Ended| end.summary()["attempts"].as_u64().expect("a number");
    let sent = attempts(&run(&mock, state, 30)) + attempts(&run(&mock, state, 12));
    let (code, json) = history(&["--state", state, "--json"]);
    assert_eq!(code, 0, "{json}");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let hours = json.as_object().expect("by provider").values();
    let hours: Vec<&Value> = hours.flat_map(|hours| hours.as_array().unwrap()).collect();
    let sum = |field: &str| -> u64 { hours.iter().map(|hour| hour[field].as_u64().unwrap()).sum() };
    assert_eq!(sum("successes"), 42);
    for hour in &hours {
        let (half, most) = (&hour["p50_ms"], &hour["p95_ms"]);
        assert!(half.as_u64() > Some(0) && most.as_u64() >= half.as_u64());
        let at = hour["hour"].as_str().expect("a time");
        assert!(at.ends_with(":00:00Z"), "{at}");
    }
    assert_eq!(sum("successes") + sum("refusals") + sum("failures"), sent);
    let svg = folder.path().join("week.svg");
    let (code, table) = history(&["--state", state, "--svg", svg.to_str().expect("UTF-8")]);
    assert_eq!(code, 0, "{table}");
    assert!(
        table.lines().count() >= 2 && table.contains("anonymous"),
        "{table}"
    );
    assert!(table.contains(" ms"), "{table}");
    let picture = fs::read_to_string(svg).expect("it was drawn");
    assert!(
        picture.starts_with("<svg") && picture.contains("P95"),
        "{picture}"
    );
    let again = folder.path().join("again.svg");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_paceline"));
    let command = command.args(["history", "--state", state, "--svg"]);
    let mut child = command
        .arg(&again)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    assert!(
        child.wait().expect("it ends").success() && again.exists(),
        "that nobody reads the table is no reason to fail"
    );
    let (code, complaint) = history(&["--state", state, "--provider", "nobody"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("\"nobody\" is not in it"), "{complaint}");
}
