//! What the fuzzers of `fuzz/` do with their input, and what must hold whatever it is. The tests do
//! the same for a moment.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use paceline::feedback::{self, Class, Feedback, Profile};

/// A single value, in each place where values stand. It spoils nothing beside it.
pub(crate) fn values(data: &[u8]) {
    let Some((&choice, value)) = data.split_first() else {
        return;
    };
    let name = VALUES[usize::from(choice) % VALUES.len()];
    let mut headers = HeaderMap::new();
    let Ok(value) = HeaderValue::from_bytes(value) else {
        return;
    };
    headers.append(name, value);
    headers.append("x-other-ratelimit-limit", HeaderValue::from_static("7"));
    headers.append("x-other-ratelimit-remaining", HeaderValue::from_static("5"));
    let said = read(&Profile::NONE, 429, &headers, None);
    check(&said);
    let beside = |reading: &feedback::Reading| (reading.limit, reading.remaining);
    assert!(
        name == "age"
            || said
                .readings
                .iter()
                .any(|r| beside(r) == (Some(7.0), Some(5.0))),
        "{name} spoiled what stood beside it: {said:?}"
    );
}

/// Structured fields and lists: a line each, in turn under each name.
pub(crate) fn fields(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for (at, line) in data.split(|&byte| byte == b'\n').enumerate().take(12) {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(FIELDS[at % FIELDS.len()], value);
        }
    }
    check(&read(&Profile::NONE, 200, &headers, None));
    check(&read(
        &Profile::by_name("strava").unwrap_or_default(),
        429,
        &headers,
        None,
    ));
}

/// A body, of a refusal and of a success, as each vendor's.
pub(crate) fn body(data: &[u8]) {
    let Some((&[vendor, status], body)) = data.split_first_chunk::<2>() else {
        return;
    };
    let profile = profile(vendor);
    let mut headers = HeaderMap::new();
    headers.append("x-ratelimit-remaining", HeaderValue::from_static("5"));
    let said = read(&profile, 200 + 3 * u16::from(status), &headers, Some(body));
    check(&said);
    let left = said.readings.iter().any(|r| r.remaining == Some(5.0));
    assert!(left, "a body spoiled a header: {said:?}");
}

/// A whole response: vendor, status, headers a line each, an empty line, and a body.
pub(crate) fn response(data: &[u8]) {
    let Some((&[vendor, high, low], rest)) = data.split_first_chunk::<3>() else {
        return;
    };
    let status = 100 + u16::from_be_bytes([high, low]) % 900;
    let end = rest.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = rest.split_at(end.unwrap_or(rest.len()));
    let mut headers = HeaderMap::new();
    for line in head.split(|&byte| byte == b'\n').take(100) {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let body = Some(body.get(2..).unwrap_or_default()).filter(|body| !body.is_empty());
    let profile = profile(vendor);
    let said = read(&profile, status, &headers, body);
    check(&said);
    // Reading is a function: the same response says the same again.
    assert_eq!(said, read(&profile, status, &headers, body));
}

/// The data of one event of a stream, as each vendor's, and the end of a body. It is told only if it
/// says something, and a word of an answer says nothing.
pub(crate) fn event(data: &[u8]) {
    let Some((&vendor, event)) = data.split_first() else {
        return;
    };
    let profile = profile(vendor);
    let said = feedback::read_event(&profile, event, received());
    if let Some(said) = feedback::read_usage(event) {
        check(&said);
        assert!(!said.cost.is_empty(), "{said:?}");
    }
    if let Some(said) = &said {
        check(said);
        assert!(said.class != Class::Ok || !said.cost.is_empty(), "{said:?}");
    }
    assert_eq!(said, feedback::read_event(&profile, event, received()));
    let word = format!(
        r#"{{"choices":[{{"delta":{{"content":"{}"}}}}]}}"#,
        event.escape_ascii().to_string().replace('\\', "/")
    );
    assert_eq!(
        feedback::read_event(&profile, word.as_bytes(), received()),
        None,
        "{word}"
    );
}

fn profile(number: u8) -> Profile {
    let name = Profile::names().nth(usize::from(number));
    name.and_then(Profile::by_name).unwrap_or_default()
}

fn read(profile: &Profile, status: u16, headers: &HeaderMap, body: Option<&[u8]>) -> Feedback {
    let status = StatusCode::from_u16(status).expect("it is in range");
    feedback::read(profile, status, headers, body, received())
}

/// 2026-03-10T12:00:00Z
fn received() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_773_144_000)
}

/// Everything that leaves the reader is finite, not negative and bounded.
pub(crate) fn check(said: &Feedback) {
    for reading in &said.readings {
        for number in [reading.limit, reading.remaining, reading.used]
            .into_iter()
            .flatten()
        {
            assert!(number.is_finite() && number >= 0.0, "{reading:?}");
        }
        if let Some(reset) = reading.reset {
            assert!(
                reset.after <= TEN_YEARS && reset.grain <= Duration::from_secs(60),
                "{reading:?}"
            );
        }
        assert!(
            reading
                .window
                .is_none_or(|window| !window.is_zero() && window <= TEN_YEARS),
            "{reading:?}"
        );
        assert!(
            reading
                .scope
                .as_ref()
                .is_none_or(|scope| scope.len() <= 200),
            "{reading:?}"
        );
    }
    assert!(said.readings.len() <= 32);
    assert!(said.wait.is_none_or(|wait| wait.delay <= LONGEST_WAIT));
    assert!(
        said.floor
            .is_none_or(|floor| floor <= Duration::from_secs(25 * 3600))
    );
    assert!(
        said.cost
            .iter()
            .all(|(_, cost)| cost.is_finite() && *cost >= 0.0)
    );
    assert!(
        said.bucket
            .as_ref()
            .is_none_or(|bucket| bucket.len() <= 200)
    );
}

/// A name for each grammar of values.
const VALUES: [&str; 22] = [
    "retry-after",
    "retry-after-ms",
    "x-retry-in",
    "x-ratelimit-reset",
    "x-ratelimit-reset-requests",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-used",
    "x-ratelimit-period",
    "x-ratelimit-interval-ms",
    "anthropic-ratelimit-tokens-reset",
    "ratelimit-resettime",
    "x-ratelimit",
    "x-shopify-shop-api-call-limit",
    "sforce-limit-info",
    "zendesk-ratelimit-x",
    "x-ms-ratelimit-remaining-resource",
    "x-amzn-errortype",
    "x-should-retry",
    "x-ratelimit-credits",
    "date",
    "age",
];

/// The structured fields and the lists of the older names.
const FIELDS: [&str; 6] = [
    "ratelimit",
    "ratelimit-policy",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-usage",
];

const TEN_YEARS: Duration = Duration::from_secs(10 * 31_557_600 + 1);
const LONGEST_WAIT: Duration = Duration::from_secs(1 << 31);
