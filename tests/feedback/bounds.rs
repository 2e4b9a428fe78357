//! Whatever a server sends, the reader stays within its bounds.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use paceline::feedback::{self, Profile};
use proptest::prelude::*;

use super::targets::check;
use super::{NOW, read};

fn any_profile() -> impl Strategy<Value = Profile> {
    let names: Vec<_> = Profile::names().collect();
    prop::sample::select(names).prop_map(|name| Profile::by_name(name).expect("it is listed"))
}

/// Names that mean something, and some that do not.
fn any_name() -> impl Strategy<Value = String> {
    let parts = "(x-|beta-|)(rate-?limit|app-rate-limit|mbx-used-weight)(-|-limit|-remaining|-reset|-policy|-used|-after|-requests|-tokens|-day|-minute|-user|-ms){0,3}";
    prop_oneof![
        3 => prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned),
        2 => parts,
        1 => "[a-z][a-z0-9-]{0,30}",
    ]
}

/// Values in the grammars of servers, and bytes that are in none.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[0-9]{1,25}(\\.[0-9]{1,25})?".prop_map(String::into_bytes),
        "-?[0-9]{1,3}(h|m|s|ms|us|d|,| |;w=)[0-9]{0,9}(s|ms)?".prop_map(String::into_bytes),
        "\"[a-z]{0,4}\"?;(r|q|t|w|qu)=-?[0-9a-z]{0,5}(, [a-z];r=[0-9]{1,3})?".prop_map(String::into_bytes),
        "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?(\\.[0-9]{1,9})?(Z|\\+[0-9]{2}:[0-9]{2})?".prop_map(String::into_bytes),
        "\\{\"(limit|remaining|call_count|until|type)\":[0-9\"a-z\\-]{0,12}\\}?".prop_map(String::into_bytes),
        "[a-z:;/=*,0-9@() ]{0,40}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let key = prop::sample::select(KEYS.to_vec());
    let value = prop_oneof![
        "\"[A-Za-z0-9_ .#:/-]{0,60}\"",
        "-?[0-9]{1,22}(\\.[0-9]{1,12})?(e[0-9]{1,3})?",
        "\"(try again in|Limit|per|Used|Requested|retry after) ?[0-9]{1,22}(\\.[0-9]+)?(s|ms|m| hours|d|)\"",
        "\\{|\\[|\\]|\\}|true|null",
    ];
    prop_oneof![
        prop::collection::vec((key, value), 0..8).prop_map(|fields| {
            let fields: Vec<_> = fields
                .iter()
                .map(|(key, value)| format!("\"{key}\":{value}"))
                .collect();
            format!("{{\"error\":{{{}}}}}", fields.join(",")).into_bytes()
        }),
        "<[a-zA-Z]{0,8}>[ -~]{0,30}(</[A-Za-z]{0,8}>)?".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..200),
    ]
}

fn headers_of(pairs: &[(String, Vec<u8>)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    headers
}

proptest! {
    #[test]
    fn nothing_makes_the_reader_panic_or_leave_its_bounds(
        profile in any_profile(),
        status in 100_u16..1000,
        pairs in prop::collection::vec((any_name(), any_value()), 0..12),
        body in prop::option::of(any_body()),
        received in prop_oneof![Just(NOW.as_secs()), any::<u32>().prop_map(u64::from), Just(1 << 40)],
    ) {
        let received = SystemTime::UNIX_EPOCH + Duration::from_secs(received);
        let status = StatusCode::from_u16(status).expect("it is in range");
        let said = feedback::read(&profile, status, &headers_of(&pairs), body.as_deref(), received);
        check(&said);
    }

    #[test]
    fn garbage_in_one_header_does_not_spoil_the_others(name in any_name(), value in any_value()) {
        let good = [
            ("anthropic-ratelimit-output-tokens-limit".to_owned(), b"16000".to_vec()),
            ("anthropic-ratelimit-output-tokens-remaining".to_owned(), b"15000".to_vec()),
            ("anthropic-ratelimit-output-tokens-reset".to_owned(), b"2026-03-10T12:00:09Z".to_vec()),
        ];
// These speak of the reading itself, or of all.
        if name.contains("output-tokens") || name == "age" || name == "date" {
            return Ok(());
        }
        let mut pairs = good.to_vec();
        pairs.insert(1, (name, value));
        let received = SystemTime::UNIX_EPOCH + NOW;
        let said = feedback::read(&Profile::NONE, StatusCode::OK, &headers_of(&pairs), None, received);
        let reading = said.readings.iter().find(|reading| reading.limit == Some(16000.0));
        let reading = reading.expect("the reading is there");
        prop_assert_eq!(reading.remaining, Some(15000.0));
        prop_assert_eq!(reading.reset.map(|reset| reset.after.as_secs()), Some(9));
    }

    #[test]
    fn where_a_body_is_cut_never_invents_a_wait(cut in 0_usize..130) {
        let body = r#"{"error":{"message":"Rate limit reached. Please try again in 20s.","details":[{"retryDelay":"20s"}]},"retry_after":20}"#;
        let said = read(429, &[], &body[..cut.min(body.len())]);
        prop_assert!(said.wait.is_none_or(|wait| wait.delay == Duration::from_secs(20)));
    }
}

#[test]
fn a_thousand_limits_cost_a_bounded_number_of_readings() {
    let pairs: Vec<_> = (0..1000)
        .flat_map(|at| {
            [
                (format!("x-ratelimit-limit-object{at}"), b"5".to_vec()),
                ("ratelimit".to_owned(), b"a;r=1".to_vec()),
            ]
        })
        .collect();
    let received = SystemTime::UNIX_EPOCH + NOW;
    let said = feedback::read(
        &Profile::NONE,
        StatusCode::OK,
        &headers_of(&pairs),
        None,
        received,
    );
    check(&said);
    assert!(!said.readings.is_empty());
}

#[test]
fn only_the_first_eight_kibibytes_of_a_body_are_looked_at() {
    let body = format!(r#"{{"pad":"{}","retry_after":7}}"#, "x".repeat(9000));
    assert_eq!(read(429, &[], &body).wait, None);
    let body = format!(r#"{{"pad":"{}","retry_after":7}}"#, "x".repeat(7000));
    assert!(read(429, &[], &body).wait.is_some());
}

#[test]
fn deep_bodies_are_read_without_recursion() {
    for open in ["[", "{\"error\":", "<a>"] {
        let said = read(429, &[], &open.repeat(8000));
        assert_eq!(said.wait, None);
    }
}

const NAMES: [&str; 30] = [
    "retry-after",
    "retry-after-ms",
    "x-ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-used",
    "x-ratelimit",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-reset",
    "x-ratelimit-reset-tokens",
    "x-ratelimit-limit-tokens",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-unified-5h-utilization",
    "x-shopify-shop-api-call-limit",
    "sforce-limit-info",
    "x-sentry-rate-limits",
    "x-app-rate-limit",
    "x-app-rate-limit-count",
    "x-app-usage",
    "x-business-use-case-usage",
    "x-ms-ratelimit-remaining-resource",
    "x-ms-ratelimit-time-remaining-xrm-requests",
    "auth0-client-quota-limit",
    "zendesk-ratelimit-tickets-index",
    "remaining-req",
    "x-codex-primary-used-percent",
    "grpc-retry-pushback-ms",
    "x-rate-limit-problem",
    "date",
];

const KEYS: [&str; 22] = [
    "code",
    "type",
    "message",
    "retry_after",
    "retryDelay",
    "seconds",
    "nanos",
    "quotaId",
    "quotaValue",
    "reason",
    "backoff",
    "status",
    "violated-policies",
    "retry_in_seconds",
    "maximumAvailable",
    "currentlyAvailable",
    "restoreRate",
    "throttleStatus",
    "usage",
    "prompt_tokens",
    "metadata",
    "@type",
];
