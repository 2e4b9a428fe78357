//! Failures seen in the field, each with what is right.

use paceline::feedback::{Cause, Class, Dimension, Profile, WaitSource};

use super::{read, read_as, reset, wait};

// HF-01: seen read as 2026 seconds.
#[test]
fn a_timestamp_is_not_read_as_its_year() {
    let said = read(
        200,
        &[("anthropic-ratelimit-requests-reset", "2026-03-10T12:00:05Z")],
        "",
    );
    assert_eq!(reset(&said.readings[0]), Some(5_000));
}

// HF-03, HF-04: seen dropped, or read without the unit.
#[test]
fn durations_keep_their_unit() {
    for (text, millis) in [("500ms", 500), ("17ms", 17), ("23h47m36.648s", 85_656_648)] {
        let said = read(200, &[("x-ratelimit-reset-requests", text)], "");
        assert_eq!(reset(&said.readings[0]), Some(millis), "{text}");
    }
    let said = read(429, &[("Retry-After", "Tue, 10 Mar 2026 12:00:07 GMT")], "");
    assert_eq!(wait(&said), Some(7_000));
}

// HF-05: the exhausted bucket was not among those that were read.
#[test]
fn every_bucket_of_a_vendor_is_read() {
    let said = read(
        429,
        &[
            ("anthropic-ratelimit-requests-remaining", "10"),
            ("anthropic-ratelimit-input-tokens-remaining", "10000"),
            ("anthropic-ratelimit-output-tokens-remaining", "0"),
            (
                "anthropic-ratelimit-output-tokens-reset",
                "2026-03-10T12:00:30Z",
            ),
        ],
        "",
    );
    let output = said
        .readings
        .iter()
        .find(|reading| reading.dimension == Dimension::OutputTokens);
    let output = output.expect("the bucket is read");
    assert_eq!((output.remaining, reset(output)), (Some(0.0), Some(30_000)));
}

// HF-06: the header raised an error that hid the 429.
#[test]
fn retry_after_may_be_a_duration() {
    let said = read(429, &[("Retry-After", "1m0s")], "");
    assert_eq!(
        (said.class, wait(&said)),
        (Class::RateLimited, Some(60_000))
    );
}

// HF-07: the raw epoch became the wait.
#[test]
fn a_past_epoch_is_no_time_at_all() {
    let said = read(429, &[("X-RateLimit-Reset", "1773143998")], "");
    assert_eq!(reset(&said.readings[0]), Some(0));
}

// HF-08, HF-10: read as decades.
#[test]
fn epochs_are_known_by_their_size() {
    for text in [
        "1773144030",
        "1773144030000",
        "1773144030000000",
        "1773144030000000000",
    ] {
        assert_eq!(
            wait(&read(429, &[("Retry-After", text)], "")),
            Some(30_000),
            "{text}"
        );
        let said = read(429, &[("X-RateLimit-Reset", text)], "");
        assert_eq!(reset(&said.readings[0]), Some(30_000), "{text}");
    }
}

// HF-11: an edge's seconds were read in the unit of the API's body.
#[test]
fn the_header_is_in_seconds_whatever_the_body_says() {
    let said = read(
        429,
        &[("retry-after", "3600")],
        r#"{"retry_after_ms": 650}"#,
    );
    assert_eq!(wait(&said), Some(3_600_000));
    let said = read(429, &[], r#"{"retry_after_ms": 650}"#);
    assert_eq!(wait(&said), Some(650));
}

// HF-13: clients that read the first line, or the first member, miss the tight policy.
#[test]
fn all_policies_are_read_in_one_line_or_two() {
    let one = read(200, &[("RateLimit", "p1;r=20;t=20, p2;r=121;t=300")], "");
    let two = read(
        200,
        &[
            ("RateLimit", "p1;r=20;t=20"),
            ("RateLimit", "p2;r=121;t=300"),
        ],
        "",
    );
    assert_eq!(one.readings, two.readings);
    let left: Vec<_> = one
        .readings
        .iter()
        .map(|reading| reading.remaining)
        .collect();
    assert_eq!(left, [Some(20.0), Some(121.0)]);
}

// HF-14: two bytes were taken for two requests.
#[test]
fn an_ambiguous_unit_never_feeds_the_requests() {
    let said = read(
        200,
        &[
            (
                "RateLimit-Policy",
                "100;w=10;unit=requests, 100;w=10;unit=bytes",
            ),
            ("RateLimit-Limit", "100"),
            ("RateLimit-Remaining", "2"),
        ],
        "",
    );
    let two = said
        .readings
        .iter()
        .find(|reading| reading.remaining == Some(2.0));
    assert_ne!(two.expect("it is read").dimension, Dimension::Requests);
}

// HF-15: read as "exhausted, resets now".
#[test]
fn a_negative_limit_is_no_limit() {
    let said = read(
        429,
        &[
            ("x-ratelimit-limit-tokens", "-1"),
            ("x-ratelimit-remaining-tokens", "-1"),
            ("x-ratelimit-reset-tokens", "0"),
        ],
        "",
    );
    assert!(said.readings.is_empty());
}

// HF-16: a reader that needs the limit got nothing.
#[test]
fn each_header_counts_alone() {
    let said = read(200, &[("x-ratelimit-remaining-requests", "79")], "");
    assert_eq!(said.readings[0].remaining, Some(79.0));
    assert_eq!(said.readings[0].limit, None);
}

// HF-17, HF-18: an empty list applied to nothing; a generic handler stood above the precise one.
#[test]
fn scoped_limits_name_their_scopes_and_an_empty_list_is_all() {
    let sentry = Profile::by_name("sentry").unwrap();
    let all = read_as(
        &sentry,
        429,
        &[("X-Sentry-Rate-Limits", "123::project")],
        "",
    );
    assert_eq!(all.readings[0].scope.as_deref(), Some("*@project"));
    let some = read_as(
        &sentry,
        429,
        &[
            ("X-Sentry-Rate-Limits", "60:transaction;span:org"),
            ("Retry-After", "60"),
        ],
        "",
    );
    let scopes: Vec<_> = some
        .readings
        .iter()
        .filter_map(|reading| reading.scope.as_deref())
        .collect();
    assert_eq!(scopes, ["transaction@org", "span@org"]);
}

// HF-19: one clock for two budgets.
#[test]
fn each_dimension_has_its_own_reset() {
    let said = read(
        429,
        &[
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ],
        "",
    );
    let resets: Vec<_> = said.readings.iter().map(reset).collect();
    assert_eq!(resets, [Some(1_000), Some(360_000)]);
}

// HF-20: an extra hyphen hid the hint.
#[test]
fn both_hyphenations_are_known_in_any_case() {
    let said = read(429, &[("X-Rate-Limit-Reset-Tokens", "55")], "");
    assert_eq!(said.readings[0].dimension, Dimension::Tokens);
    assert_eq!(reset(&said.readings[0]), Some(55_000));
}

// HF-21, CL-12: absent headers led to arithmetic on defaults, an empty body to a parse error.
#[test]
fn a_response_without_anything_is_judged_by_its_status() {
    let error = read(500, &[], "");
    assert_eq!((error.class, error.readings.len()), (Class::Transient, 0));
    let refused = read(429, &[("content-length", "0")], "");
    assert_eq!((refused.class, refused.wait), (Class::RateLimited, None));
}

// HF-22, HF-23: limits were read after the success check, or needed a reset.
#[test]
fn limits_are_read_whatever_the_status() {
    for status in [200, 304, 403, 404, 429, 500, 503] {
        let said = read(status, &[("X-RateLimit-Remaining", "0")], "");
        assert_eq!(said.readings[0].remaining, Some(0.0), "{status}");
    }
}

// NP-01, NP-02, NP-07: a number from the server went into a constructor that panics.
#[test]
fn no_number_of_the_server_can_do_harm() {
    let text = r#"{"error":{"message":"Please try again in 99999999999999999999s."}}"#;
    assert_eq!(wait(&read(429, &[], text)), Some(1000 << 31));
    for text in [
        "-5",
        "-0",
        "NaN",
        "inf",
        "1e308",
        "18446744073709551616",
        "0.00000000000000000001",
    ] {
        let said = read(
            429,
            &[("Retry-After", text)],
            &format!(r#"{{"retry_after":{text}}}"#),
        );
        assert!(
            wait(&said).is_none_or(|millis| millis <= 1000 << 31),
            "{text}"
        );
    }
    assert_eq!(wait(&read(429, &[], r#"{"retry_after": -1.0}"#)), None);
}

// SL-01, SL-02, SL-03: a hint of 26 s became a lock-out of 19 hours.
#[test]
fn hints_in_structured_bodies_are_read_to_the_nanosecond() {
    let body = |detail: &str, text: &str| {
        format!(
            r#"{{"error":{{"code":429,"message":"{text}","status":"RESOURCE_EXHAUSTED","details":[{detail}]}}}}"#
        )
    };
    let retry = r#"{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"26s"}"#;
    let said = read(429, &[], &body(retry, "Please retry in 26.66s."));
    assert_eq!(
        (said.class, wait(&said)),
        (Class::RateLimited, Some(26_000))
    );
    let nanos =
        r#"{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"45.837906927s"}"#;
    assert_eq!(wait(&read(429, &[], &body(nanos, "x"))), Some(45_838));
    let info = r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","metadata":{"quotaResetDelay":"373.801628ms"}}"#;
    assert_eq!(wait(&read(429, &[], &body(info, "x"))), Some(374));
    let said = read(429, &[], &body("{}", "Your quota will reset after 42s."));
    assert_eq!(wait(&said), Some(42_000));
    assert_eq!(said.wait.map(|wait| wait.source), Some(WaitSource::Text));
}

// SL-06: only one class carried its hint.
#[test]
fn a_hint_counts_on_every_refusal() {
    for status in [408, 425, 429, 500, 502, 503, 504, 529] {
        assert_eq!(
            wait(&read(status, &[("Retry-After", "7.5")], "")),
            Some(7_500),
            "{status}"
        );
    }
}

// RA-04, RA-17, RA-19, RA-20: absent, zero, unreadable and beyond a ceiling are four things.
#[test]
fn a_hint_is_told_as_it_stands_and_what_is_none_is_none() {
    assert_eq!(wait(&read(429, &[], "")), None);
    assert_eq!(wait(&read(429, &[("Retry-After", "0")], "")), Some(0));
    assert_eq!(wait(&read(429, &[("Retry-After", "soon")], "")), None);
    assert_eq!(
        wait(&read(429, &[("Retry-After", "7200")], "")),
        Some(7_200_000)
    );
    assert_eq!(
        wait(&read(429, &[("Retry-After", "4294967295")], "")),
        Some(1000 << 31)
    );
}

// RA-14, RA-15: an unrelated reset blocked for an hour; without a hint it was retried at once.
#[test]
fn a_secondary_limit_waits_a_minute_and_not_for_the_primary_reset() {
    let said = read_as(
        &Profile::GITHUB,
        403,
        &[
            ("X-RateLimit-Remaining", "4210"),
            ("X-RateLimit-Reset", "1773147480"),
        ],
        r#"{"message":"You have exceeded a secondary rate limit."}"#,
    );
    assert_eq!((said.class, said.wait), (Class::RateLimited, None));
    assert_eq!(said.floor.map(|floor| floor.as_secs()), Some(60));
}

// TB-04: small bodies, and 100,000 cached tokens billed.
#[test]
fn usage_counts_what_a_cache_added() {
    let body = r#"{"usage":{"input_tokens":12,"cache_creation_input_tokens":2000,"cache_read_input_tokens":98000,"output_tokens":5}}"#;
    let said = read_as(&Profile::ANTHROPIC, 200, &[], body);
    assert!(said.cost.contains(&(Dimension::InputTokens, 100_012.0)));
    assert!(said.cost.contains(&(Dimension::OutputTokens, 5.0)));
    assert!(said.cost.contains(&(Dimension::Tokens, 100_017.0)));
    let body = r#"{"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}"#;
    let said = read_as(&Profile::OPENAI, 200, &[], body);
    assert!(said.cost.contains(&(Dimension::Tokens, 120.0)));
}

// CL-13: waiting for the bucket that was told loops, for another was hit.
#[test]
fn a_refusal_beside_a_bucket_with_room_is_still_a_refusal() {
    let said = read(429, &[("X-Shopify-Shop-Api-Call-Limit", "3/40")], "");
    assert_eq!(said.class, Class::RateLimited);
    assert_eq!(said.readings[0].remaining, Some(37.0));
}

#[test]
fn a_refusal_that_names_concurrency_says_so() {
    let stripe = Profile::STRIPE;
    let said = read_as(
        &stripe,
        429,
        &[("Stripe-Rate-Limited-Reason", "global-concurrency")],
        "",
    );
    assert_eq!(said.cause, Some(Cause::Concurrency));
    let said = read_as(
        &stripe,
        429,
        &[("Stripe-Rate-Limited-Reason", "endpoint-rate")],
        "",
    );
    assert_eq!(said.cause, Some(Cause::Rate));
    let said = read(
        429,
        &[],
        r#"{"error":{"message":"Too many concurrent requests"}}"#,
    );
    assert_eq!(said.cause, Some(Cause::Concurrency));
    assert_eq!(read(429, &[], "").cause, None);
}

#[test]
fn headers_that_name_a_bucket_are_told() {
    let said = read(
        200,
        &[
            ("x-ratelimit-remaining", "1"),
            ("x-ratelimit-resource", "search"),
        ],
        "",
    );
    assert_eq!(said.bucket.as_deref(), Some("search"));
    let said = read(
        200,
        &[
            ("X-RateLimit-Remaining", "1"),
            ("X-RateLimit-Bucket", "abcd1234"),
        ],
        "",
    );
    assert_eq!(said.bucket.as_deref(), Some("abcd1234"));
}

#[test]
fn long_quotas_come_back_at_the_vendors_midnight() {
    let body = r#"{"error":{"errors":[{"reason":"quotaExceeded"}],"code":403,"message":"x"}}"#;
    // 12:00 in Greenwich on 10 March is 5:00 in California, whose summer has just begun.
    let youtube = Profile::by_name("youtube").unwrap();
    let said = read_as(&youtube, 403, &[], body);
    assert_eq!(said.floor.map(|floor| floor.as_secs()), Some(19 * 3600));
    let said = read_as(
        &Profile::OPENROUTER,
        429,
        &[],
        r#"{"error":{"message":"Rate limit exceeded: free-models-per-day","code":429}}"#,
    );
    assert_eq!(said.floor.map(|floor| floor.as_secs()), Some(12 * 3600));
}

// Xero's day is any 24 hours, and its Retry-After says when the first call of them is forgotten:
// waiting for midnight instead lost up to a day.
#[test]
fn a_header_that_says_when_a_day_is_over_is_believed_and_a_few_seconds_are_not() {
    let xero = Profile::by_name("xero").unwrap();
    let day = |wait| {
        let headers = [("X-Rate-Limit-Problem", "day"), ("Retry-After", wait)];
        let said = read_as(&xero, 429, &headers, "");
        assert_eq!(said.class, Class::QuotaExhausted);
        said.floor.map(|floor| floor.as_secs())
    };
    assert_eq!(day("3600"), None);
    assert_eq!(day("30"), Some(12 * 3600));
}

#[test]
fn what_a_message_names_does_not_override_what_a_header_told() {
    let body = r#"{"error":{"message":"Rate limit reached on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s.","code":"rate_limit_exceeded"}}"#;
    let said = read(
        429,
        &[
            ("retry-after", "7"),
            ("x-ratelimit-limit-requests", "3"),
            ("x-ratelimit-remaining-requests", "0"),
        ],
        body,
    );
    assert_eq!(said.readings.len(), 1);
    assert_eq!(wait(&said), Some(7_000));
}

// HF-11: an edge and the API behind it name different waits.
#[test]
fn the_longer_of_header_and_body_counts() {
    let both = |header, body: &str| wait(&read(429, &[("Retry-After", header)], body));
    assert_eq!(both("2", r#"{"retry_after": 4.0}"#), Some(4_000));
    assert_eq!(both("2", r#"{"retry_after": 1.53}"#), Some(2_000));
    let discord = Profile::by_name("discord").unwrap();
    let said = read_as(
        &discord,
        429,
        &[("Retry-After", "2")],
        r#"{"retry_after": 4.0}"#,
    );
    assert_eq!(wait(&said), Some(4_000));
}

// SL-03, KR-10: what a person is told was read in JSON only.
#[test]
fn a_wait_in_words_is_read_in_a_text_and_not_in_a_page() {
    let as_kind = |kind, body: &str| read(429, &[("content-type", kind)], body);
    for (kind, body, millis) in [
        (
            "text/plain",
            "Too many requests, try again in 3 seconds",
            3_000,
        ),
        ("text/plain", "retry after 20s", 20_000),
        ("text/plain", "Please try again in ~162 min.", 9_720_000),
    ] {
        let said = as_kind(kind, body);
        assert_eq!(wait(&said), Some(millis), "{body}");
        assert_eq!(said.class, Class::RateLimited, "{body}");
    }
    // What a gateway's page says is not the API's word, and a number in it may mean anything.
    for body in [
        "<html>Please try again in 20 seconds</html>",
        "try again in 20 seconds",
    ] {
        assert_eq!(wait(&as_kind("text/html", body)), None, "{body}");
    }
    assert_eq!(wait(&as_kind("text/plain", "try again in 2")), None);
    // Words of a page are no sign that a denial is a limit.
    let denied = read(
        403,
        &[("content-type", "text/html")],
        "<html>try again in 3 seconds</html>",
    );
    assert_eq!(denied.class, Class::Fatal);
}

// SL-02: a day's quota was retried after the 2 s of its hint.
#[test]
fn a_day_of_google_ends_at_midnight_in_california_without_a_profile() {
    let body = |detail: &str| {
        format!(
            r#"{{"error":{{"status":"RESOURCE_EXHAUSTED","details":[{detail},{{"retryDelay":"2s"}}]}}}}"#
        )
    };
    for detail in [
        r#"{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}"#,
        r#"{"domain":"googleapis.com","metadata":{"quota_limit":"RequestsPerDayPerProject"}}"#,
    ] {
        let said = read(429, &[], &body(detail));
        assert_eq!(said.class, Class::QuotaExhausted, "{detail}");
        assert_eq!(said.floor.map(|floor| floor.as_secs()), Some(19 * 3600));
    }
    let minute = body(r#"{"violations":[{"quotaId":"GenerateRequestsPerMinute"}]}"#);
    let said = read(429, &[], &minute);
    assert_eq!((said.class, said.floor), (Class::RateLimited, None));
}

#[test]
fn categories_of_limits_are_read_without_a_profile() {
    let said = read(429, &[("X-Sentry-Rate-Limits", "3::organization")], "");
    assert_eq!(reset(&said.readings[0]), Some(3_000));
}
