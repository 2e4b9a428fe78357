//! `paceline inspect`, as a user calls it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn inspect(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .arg("inspect")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // Another thread writes, so that neither side waits for a full pipe.
    let writer = std::thread::spawn(move || {
        // Where the command ends early the pipe is closed, which is no failure of the test.
        drop(stdin.write_all(&input));
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn answers(input: &[u8]) -> Vec<Value> {
    let output = inspect(&["--jsonl"], input);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_recorded_response_is_answered_in_order() {
    let cases = super::vendors::cases();
    let input: Vec<String> = cases.iter().map(Value::to_string).collect();
    let answers = answers(input.join("\n").as_bytes());
    assert_eq!(answers.len(), cases.len());
    for (case, answer) in cases.iter().zip(&answers) {
        let (expect, id) = (&case["expect"], &case["id"]);
        assert_eq!(answer["class"], expect["class"], "{id}");
        assert_eq!(answer["retry_after_ms"], expect["retry_after_ms"], "{id}");
        // What the wire does not say has no field.
        assert_eq!(
            answer.get("should_retry"),
            expect.get("should_retry"),
            "{id}"
        );
        assert_eq!(
            super::vendors::quotas_of(answer),
            super::vendors::quotas_of(expect),
            "{id}"
        );
        assert_eq!(fields(answer), fields(expect), "{id}");
    }
}

/// The names of the fields of an answer and of its quotas, which are as much of its form as their
/// values are.
fn fields(answer: &Value) -> Vec<String> {
    let names = |object: &Value| {
        let object = object.as_object().unwrap();
        let mut names: Vec<_> = object.keys().map(String::as_str).collect();
        names.sort_unstable();
        names.join(" ")
    };
    let mut all: Vec<_> = answer["quotas"]
        .as_array()
        .unwrap()
        .iter()
        .map(names)
        .collect();
    all.sort_unstable();
    all.push(names(answer));
    all
}

#[test]
fn a_line_that_cannot_be_read_is_answered_with_an_error_and_stops_nothing() {
    let input = b"nonsense\n[]\n{\"status\":\"a\"}\n{\"headers\":[]}\n{\"status\":200,\"headers\":7}\n\xff\xfe\n\n{\"status\":200,\"now\":\"soon\"}\n{\"status\":429,\"headers\":[[\"bad name\",\"x\"],[\"Retry-After\",\"7\"]],\"profile\":\"nobody\",\"extra\":1}";
    let answers = answers(input);
    assert_eq!(answers.len(), 8);
    for (at, answer) in answers[..7].iter().enumerate() {
        assert!(
            answer["error"]
                .as_str()
                .is_some_and(|text| text.starts_with("line ")),
            "{at}: {answer}"
        );
    }
    let last = json!({ "class": "rate_limited", "retry_after_ms": 7000, "quotas": [] });
    assert_eq!(answers[7], last);
}

#[test]
fn now_may_have_an_offset() {
    let case = json!({
        "status": 429,
        "headers": [["Retry-After", "Tue, 10 Mar 2026 12:01:00 GMT"]],
        "now": "2026-03-10T13:00:00+01:00",
    });
    assert_eq!(
        answers(case.to_string().as_bytes())[0]["retry_after_ms"],
        60_000
    );
}

#[test]
fn a_response_of_curl_is_explained_in_words() {
    let response = b"HTTP/2 429 \r\nretry-after: 20\r\nx-ratelimit-limit-requests: 3\r\nx-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: 20s\r\n\r\n{\"error\":{\"code\":\"rate_limit_exceeded\"}}";
    let output = inspect(&["--profile", "openai"], response);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for words in [
        "429 Too Many Requests, read as openai",
        "rate limited",
        "20s, says Retry-After",
        "0 of 3 requests left, back in 20s",
        "it goes again after",
    ] {
        assert!(text.contains(words), "{words:?} is missing in:\n{text}");
    }
}

/// The page that explains a response.
fn page(profile: &str, response: &str) -> String {
    let output = inspect(&["--profile", profile], response.as_bytes());
    String::from_utf8(output.stdout).unwrap()
}

// The refused request was said to go again after a second, and the next one after half an hour.
#[test]
fn one_time_is_told_for_a_request_and_for_those_after_it() {
    let spent = "HTTP/2 403 \r\nx-ratelimit-limit: 60\r\nx-ratelimit-remaining: 0\r\nx-ratelimit-reset: 1800\r\nx-ratelimit-resource: core\r\n\r\n{\"message\":\"API rate limit exceeded.\"}";
    let page = page("github", spent);
    let times: Vec<_> = page
        .lines()
        .filter_map(|line| line.split_once("after "))
        .map(|(_, time)| time.split('m').next().unwrap().to_owned())
        .collect();
    assert_eq!(times, ["30", "30"], "{page}");
    // Half an hour is longer than a program's request waits unless told otherwise.
    assert!(
        page.contains("a program gets this answer at once"),
        "{page}"
    );
}

#[test]
fn it_is_told_by_whose_word_a_key_rests() {
    let secondary =
        "HTTP/2 403 \r\n\r\n{\"message\":\"You have exceeded a secondary rate limit.\"}";
    let page_of =
        |status: &str, text: &str| page("github", &format!("HTTP/1.1 {status}\r\n{text}\r\n\r\n"));
    let page = page("github", secondary);
    assert!(page.contains("the vendor's rules say how long"), "{page}");
    let page = page_of("429 x", "retry-after: 30");
    assert!(page.contains("the server says how long"), "{page}");
    let page = page_of("402 x", "");
    assert!(page.contains("nobody says how long"), "{page}");
    assert!(page_of("529 x", "").contains("529, read"));
}

#[test]
fn json_tells_what_comes_next() {
    let output = inspect(&["--json"], b"HTTP/1.1 503 Service Unavailable\n\n");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["class"], "transient");
    assert_eq!(answer["next"]["repeatable"]["do"], "again");
    assert_eq!(answer["next"]["once"]["do"], "return");
    assert_eq!(answer["next"]["once"]["why"], "not_replayable");
}

#[test]
fn wrong_usage_is_told_with_what_to_do() {
    let output = inspect(&[], b"{\"not\": \"a response\"}");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("curl -si")
    );
    let output = inspect(&["--profile", "opena"], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("openai"));
}

#[test]
fn limits_are_told_as_one_says_them() {
    let of =
        |profile: &str, headers: &str| page(profile, &format!("HTTP/1.1 429 x\n{headers}\n\n"));
    for (profile, headers, words) in [
        ("etsy", "X-Remaining-Today: 0", "0 requests left, per day"),
        (
            "stripe",
            "stripe-rate-limited-reason: endpoint-concurrency",
            "no more at the same time",
        ),
        (
            "sentry",
            "x-sentry-rate-limits: 60::organization",
            "(everything of the organization)",
        ),
        (
            "sentry",
            "x-sentry-rate-limits: 60:error:key",
            "(error of the key)",
        ),
        (
            "sentry",
            "x-sentry-rate-limits: 60:error:key",
            "only the sender knows its own",
        ),
        (
            "github",
            "retry-after: 172800",
            "no server is believed for longer",
        ),
    ] {
        let page = of(profile, headers);
        assert!(page.contains(words), "{words:?} is missing in:\n{page}");
    }
}

#[test]
fn what_speaks_of_limits_and_tells_nothing_is_named() {
    let explained = |args: &[&str], response: &str| {
        let output = inspect(args, response.as_bytes());
        String::from_utf8(output.stdout).unwrap()
    };
    let page = explained(
        &["--profile", "bitbucket"],
        "HTTP/2 429\nx-ratelimit-nearlimit: true\nretry-after: 3\n\n",
    );
    let beside = "beside  x-ratelimit-nearlimit speaks of limits and tells nothing to act on";
    assert!(page.contains(beside), "{page}");
    // One quota that is told twice is told by both, and a label by what it names.
    let page = explained(
        &[],
        "HTTP/2 200\nx-ratelimit-limit: 5\nx-ratelimit-remaining: 4\nx-ratelimit-resource: core\n\
         ratelimit-limit: 5\nratelimit-remaining: 4\n\n",
    );
    assert!(!page.contains("beside"), "{page}");
    assert!(!page.contains("wait"), "{page}");
}
