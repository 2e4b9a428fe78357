//! `paceline mock` behind real HTTP: it refuses as its scenario says, tells keys and requests
//! apart, and counts what it served.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A running `paceline mock`, killed at the end.
pub(crate) struct Mock {
    child: Child,
    pub(crate) url: String,
}

impl Mock {
    pub(crate) fn start(scenario: &str, arguments: &[&str]) -> Self {
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        std::fs::write(file.path(), scenario).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_paceline"))
            .args(["mock", file.path().to_str().unwrap(), "--port", "0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Self {
            child,
            url: url.trim().to_owned(),
        }
    }

    async fn stats(&self) -> Value {
        reqwest::get(format!("{}/__stats", self.url))
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

async fn send(mock: &Mock, key: &str, id: &str) -> reqwest::Response {
    reqwest::Client::new()
        .post(format!("{}/v1/chat/completions", mock.url))
        .bearer_auth(key)
        .json(&serde_json::json!({ "custom_id": id, "max_tokens": 5 }))
        .send()
        .await
        .unwrap()
}

const TWO_A_MINUTE: &str = "[provider]\nheaders = 'openai'\n\
    limits = [{ kind = 'fixed-window', limit = 2, window = '60s', opens = 'first-request' }]\n\
    [load]\nrequests = 10\nkeys = 2\n";

#[tokio::test]
async fn the_mock_refuses_beyond_the_limit_of_each_key() {
    let mock = Mock::start(TWO_A_MINUTE, &[]);
    let mut statuses = Vec::new();
    for (key, id) in [
        ("one", "a"),
        ("one", "b"),
        ("one", "c"),
        ("two", "c"),
        ("three", "d"),
    ] {
        statuses.push(send(&mock, key, id).await.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429, 200, 401]);
    let refused = send(&mock, "one", "c").await;
    assert_eq!(refused.headers()["x-ratelimit-remaining-requests"], "0");
    assert!(refused.headers().contains_key("retry-after-ms"));
    let stats = mock.stats().await;
    assert_eq!(stats["total"]["served"], 3);
    assert_eq!(stats["total"]["refused"], 2);
    assert_eq!(stats["total"]["unauthorized"], 1);
    assert_eq!(stats["keys"][1]["served"], 1);
    assert_eq!(stats["in_flight"], 0);
}

#[tokio::test]
async fn the_mock_knows_a_repetition_and_writes_each_request_down() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mock = Mock::start(TWO_A_MINUTE, &["--log", log.path().to_str().unwrap()]);
    let reply: Value = send(&mock, "one", "a").await.json().await.unwrap();
    assert_eq!(reply["usage"]["total_tokens"], 5);
    send(&mock, "one", "a").await;
    assert_eq!(mock.stats().await["total"]["twice"], 1);
    let lines = std::fs::read_to_string(log.path()).unwrap();
    let lines: Vec<Vec<&str>> = lines
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0][1..], ["0", "a", "200"]);
}

#[tokio::test]
async fn a_caller_that_hangs_up_is_no_longer_in_flight() {
    let slow = "[provider]\nlatency = '30s'\n[load]\nrequests = 1\n";
    let mock = Mock::start(slow, &[]);
    let in_flight = async |count| {
        while mock.stats().await["in_flight"] != count {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        _ = send(&mock, "one", "a") => panic!("it was answered"),
        () = in_flight(1) => {}
    }
    // Long before it would have been answered.
    let gone = tokio::time::timeout(std::time::Duration::from_secs(20), in_flight(0)).await;
    assert!(gone.is_ok(), "it is still in flight");
}

#[test]
fn a_scenario_that_cannot_be_read_is_wrong_usage_and_named() {
    let missing = PathBuf::from("no-such-scenario.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(["mock", missing.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("no-such-scenario.toml")
    );
}
