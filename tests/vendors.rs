//! Every recorded response is read as its vendor means it.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use paceline::feedback::{self, Feedback, Profile};
use serde_json::{Value, json};

#[test]
fn every_recorded_response_is_read_as_its_vendor_means_it() {
    let mut misses = String::new();
    let mut count = 0;
    for case in cases() {
        count += 1;
        let expected = quotas_of(&case["expect"]);
        let said = read(&case);
        let got = summary(&said);
        let mut wrong = |what: &str, expected: &Value, got: &Value| {
            if expected != got {
                writeln!(
                    misses,
                    "{} {what}: expected {expected}, got {got}",
                    case["id"]
                )
                .unwrap();
            }
        };
        for what in ["class", "retry_after_ms", "should_retry"] {
            wrong(what, &case["expect"][what], &got[what]);
        }
        wrong("quotas", &expected, &quotas_of(&got));
    }
    assert!(count >= 1000, "only {count} cases were found");
    assert!(misses.is_empty(), "{}", misses);
}

// Nobody promises blanks, the order of headers and fields, or what else stands beside them.
#[test]
fn a_response_means_the_same_however_it_is_written() {
    let meaning = |case: &Value| {
        let said = summary(&read(case));
        let of = |what: &str| said[what].clone();
        [
            of("class"),
            of("retry_after_ms"),
            of("should_retry"),
            quotas_of(&said),
        ]
    };
    for case in cases() {
        let meant = meaning(&case);
        let headers = case["headers"].as_array().unwrap();
        let mut names: Vec<_> = headers.iter().map(|pair| lower(&pair[0])).collect();
        names.sort();
        names.dedup();
        let mut same = Vec::new();
        let mut with_headers = |headers: Vec<Value>| {
            let mut case = case.clone();
            case["headers"] = headers.into();
            same.push(case);
        };
        let blank = |pair: &Value| json!([pair[0], format!(" {}\t", pair[1].as_str().unwrap())]);
        with_headers(headers.iter().map(blank).collect());
        with_headers(
            BESIDE
                .map(|pair| json!(pair))
                .into_iter()
                .chain(headers.clone())
                .collect(),
        );
        if names.len() == headers.len() {
            with_headers(headers.iter().rev().cloned().collect());
        }
        if let Some(Ok(body)) = case["body"].as_str().map(serde_json::from_str::<Value>)
            && (body.is_object() || body.is_array())
            // serde writes a number of twenty digits as another one.
            && !body.to_string().contains("e+")
        {
            for text in [
                body.to_string(),
                format!("\r\n{body:#}\n"),
                backwards(&body),
            ] {
                let mut case = case.clone();
                case["body"] = text.into();
                same.push(case);
            }
        }
        for other in same {
            assert_eq!(meaning(&other), meant, "{} as {other}", case["id"]);
        }
    }
}

/// Headers that speak of no limit, though some of their names have words of those that do.
const BESIDE: [[&str; 2]; 8] = [
    ["cache-control", "max-age=600"],
    ["server", "nginx"],
    ["set-cookie", "limit=10; Path=/"],
    ["x-page-limit", "20"],
    ["x-total-remaining-pages", "3"],
    ["link", "<https://api.test/?page=2>; rel=\"next\""],
    ["via", "1.1 google"],
    ["x-reset-password-url", "/reset"],
];

fn lower(name: &Value) -> String {
    name.as_str().unwrap().to_ascii_lowercase()
}

/// The same value with the last field of each object first.
fn backwards(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().rev();
            let fields: Vec<_> = fields
                .map(|(name, value)| format!("{}: {}", json!(name), backwards(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(backwards).collect();
            format!("[{}]", items.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// All cases of all vendors.
pub(crate) fn cases() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vendors");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    let lines = files.iter().flat_map(|file| {
        let text = std::fs::read_to_string(file).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect::<Vec<Value>>()
    });
    lines.collect()
}

/// Reads the response of a case.
pub(crate) fn read(case: &Value) -> Feedback {
    let profile = case["profile"]
        .as_str()
        .and_then(Profile::by_name)
        .unwrap_or_default();
    let mut headers = HeaderMap::new();
    for pair in case["headers"].as_array().unwrap() {
        let name = HeaderName::from_bytes(pair[0].as_str().unwrap().as_bytes()).unwrap();
        let value = HeaderValue::from_bytes(pair[1].as_str().unwrap().as_bytes()).unwrap();
        headers.append(name, value);
    }
    let status = StatusCode::from_u16(case["status"].as_u64().unwrap() as u16).unwrap();
    let body = case["body"].as_str().map(str::as_bytes);
    feedback::read(
        &profile,
        status,
        &headers,
        body,
        instant(case["now"].as_str().unwrap()),
    )
}

/// `2026-03-10T12:00:00Z`
fn instant(text: &str) -> SystemTime {
    humantime::parse_rfc3339(text).unwrap()
}

/// A feedback in the form in which cases state what is expected.
fn summary(said: &Feedback) -> Value {
    let millis = |time: Duration| Value::from(time.as_millis() as u64);
    let quotas: Vec<Value> = said
        .readings
        .iter()
        .map(|reading| {
            serde_json::json!({
                "dimension": reading.dimension,
                "limit": reading.limit,
                "remaining": reading.remaining,
                "used": reading.used,
                "reset_ms": reading.reset.map(|reset| millis(reset.after)),
                "window_ms": reading.window.map(millis),
                "scope": reading.scope,
            })
        })
        .collect();
    serde_json::json!({
        "class": said.class,
        "retry_after_ms": said.wait.map(|wait| millis(wait.delay)),
        "should_retry": said.should_retry,
        "quotas": quotas,
    })
}

/// The quotas in an order of their own, every number a float and every part named.
pub(crate) fn quotas_of(expect: &Value) -> Value {
    let mut quotas: Vec<String> = expect["quotas"]
        .as_array()
        .unwrap()
        .iter()
        .map(|quota| {
            let number = |part: &str| quota[part].as_f64();
            format!(
                "{} {:?}/{:?} used {:?} reset {:?} window {:?} scope {:?}",
                quota["dimension"],
                number("limit"),
                number("remaining"),
                number("used"),
                number("reset_ms"),
                number("window_ms"),
                quota["scope"].as_str(),
            )
        })
        .collect();
    quotas.sort();
    Value::from(quotas)
}
