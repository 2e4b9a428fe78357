//! What kind of refusal it is.

use paceline::feedback::{Class, Fault, Profile};

use super::{read, read_as};

#[test]
fn each_status_has_its_class() {
    for (class, statuses) in [
        (Class::Ok, &[200, 201, 204, 206, 301, 304][..]),
        (Class::RateLimited, &[420, 429]),
        (Class::QuotaExhausted, &[402]),
        (Class::Overloaded, &[498, 529]),
        (
            Class::Transient,
            &[408, 425, 500, 502, 503, 504, 520, 524, 530],
        ),
        (
            Class::Fatal,
            &[400, 401, 403, 404, 405, 409, 410, 413, 422, 451, 501],
        ),
    ] {
        for status in statuses {
            assert_eq!(read(*status, &[], "").class, class, "{status}");
        }
    }
}

// CL-01, CL-02: an empty wallet was retried for a long time.
#[test]
fn an_empty_wallet_is_no_rate_limit() {
    for (status, body) in [
        (429, r#"{"error":{"code":"insufficient_quota"}}"#),
        (
            429,
            r#"{"error":{"type":"insufficient_quota","code":"credit_balance_exhausted"}}"#,
        ),
        (401, r#"{"error":{"type":"insufficient_quota","code":401}}"#),
        (
            400,
            r#"{"error":{"message":"Your credit balance is too low to access the API."}}"#,
        ),
        (402, ""),
    ] {
        let said = read(status, &[], body);
        assert_eq!(
            (said.class, said.fault),
            (Class::QuotaExhausted, Some(Fault::OutOfFunds)),
            "{body}"
        );
    }
    // The type names a family of errors; the code says that this one passes.
    let said = read(
        429,
        &[],
        r#"{"error":{"type":"insufficient_quota","code":"rate_limit_exceeded"}}"#,
    );
    assert_eq!((said.class, said.fault), (Class::RateLimited, None));
}

// CL-03: a refusal was filed as a denial.
#[test]
fn a_403_needs_a_sign_to_be_a_limit() {
    let limits: [(&[(&str, &str)], &str); 4] = [
        (
            &[("retry-after", "60"), ("x-ratelimit-remaining", "4000")],
            "",
        ),
        (&[("x-ratelimit-remaining", "0")], ""),
        (
            &[],
            r#"{"message":"You have exceeded a secondary rate limit."}"#,
        ),
        (
            &[],
            r#"{"error":{"errors":[{"reason":"userRateLimitExceeded"}]}}"#,
        ),
    ];
    for (headers, body) in limits {
        assert_eq!(
            read(403, headers, body).class,
            Class::RateLimited,
            "{headers:?} {body}"
        );
    }
    let denied = read(
        403,
        &[("x-ratelimit-remaining", "57")],
        r#"{"message":"forbidden"}"#,
    );
    assert_eq!(denied.class, Class::Fatal);
}

#[test]
fn a_refused_key_is_told_from_a_refused_request() {
    let fault = |status, body| read(status, &[], body).fault;
    assert_eq!(fault(401, ""), Some(Fault::Unauthorized));
    assert_eq!(
        fault(401, r#"{"message":"Bad credentials"}"#),
        Some(Fault::Unauthorized)
    );
    assert_eq!(
        fault(401, r#"{"error":"Your API key was revoked"}"#),
        Some(Fault::Revoked)
    );
    assert_eq!(
        fault(
            403,
            r#"{"error":{"message":"This account has been disabled."}}"#
        ),
        Some(Fault::Revoked)
    );
    assert_eq!(
        fault(403, r#"{"error":{"message":"Invalid API key."}}"#),
        Some(Fault::Unauthorized)
    );
    assert_eq!(fault(403, ""), Some(Fault::Unauthorized));
    // A permission on one thing, and a page of a firewall, are not the key's fault.
    assert_eq!(
        fault(
            403,
            r#"{"message":"Must have admin rights to Repository."}"#
        ),
        None
    );
    assert_eq!(fault(403, "<html>Forbidden</html>"), None);
    assert_eq!(fault(404, r#"{"message":"Not found"}"#), None);
}

// CL-04: a word in the data of a success is not a refusal.
#[test]
fn a_success_is_doubted_only_where_the_vendor_refuses_so_and_where_errors_stand() {
    let slack = Profile::by_name("slack").unwrap();
    let refused = r#"{"ok":false,"error":"ratelimited"}"#;
    assert_eq!(read_as(&slack, 200, &[], refused).class, Class::RateLimited);
    assert_eq!(read(200, &[], refused).class, Class::Ok);
    let data = r#"{"data":{"name":"throttled","error":"ratelimited","type":"RATE_LIMITED"},"name":"THROTTLED"}"#;
    assert_eq!(read_as(&slack, 200, &[], data).class, Class::Ok);
    assert_eq!(read_as(&Profile::GITHUB, 200, &[], data).class, Class::Ok);
}

// CL-09: an oversize request was retried though it could never pass.
#[test]
fn what_asks_for_more_than_the_whole_limit_is_final() {
    let body = r#"{"error":{"message":"Request too large on tokens per min (TPM): Limit 10000, Requested 12345.","code":"rate_limit_exceeded"}}"#;
    assert_eq!(read(429, &[], body).class, Class::Fatal);
    assert_eq!(read(413, &[], body).class, Class::Fatal);
    assert_eq!(read(413, &[], "").class, Class::Fatal);
}

// CL-11, CL-15: a hint invites another attempt, on whatever status it stands.
#[test]
fn a_hint_on_another_status_invites_an_attempt() {
    for (status, class) in [
        (403, Class::RateLimited),
        (413, Class::Transient),
        (477, Class::Transient),
        (500, Class::Transient),
        (503, Class::Overloaded),
    ] {
        assert_eq!(
            read(status, &[("Retry-After", "120")], "").class,
            class,
            "{status}"
        );
    }
}

// CL-14: a list of codes knew no bare 429.
#[test]
fn a_429_is_a_throttle_whatever_its_body() {
    for body in [
        "",
        "x",
        "<html>quota insufficient funds daily limit</html>",
        "{\"error\":\"nope\"}",
        "{\"a\":",
    ] {
        assert_eq!(read(429, &[], body).class, Class::RateLimited, "{body}");
    }
}

#[test]
fn a_spent_day_is_a_quota_and_a_long_wait_alone_is_not() {
    let day = read(
        429,
        &[("X-Limit-Per-Day", "10000"), ("X-Remaining-Today", "0")],
        "",
    );
    assert_eq!(day.class, Class::QuotaExhausted);
    assert_eq!(
        read(429, &[("Retry-After", "79642")], "").class,
        Class::RateLimited
    );
    let body =
        r#"{"__type":"ThrottlingException","message":"Too many tokens per day, please wait."}"#;
    assert_eq!(read(429, &[], body).class, Class::QuotaExhausted);
}

#[test]
fn a_full_service_is_told_from_a_spent_quota() {
    for (status, body) in [
        (
            503,
            r#"{"error":{"message":"The model is overloaded. Please try again later."}}"#,
        ),
        (
            429,
            r#"{"error":{"type":"es_rejected_execution_exception"},"status":429}"#,
        ),
        (
            429,
            r#"{"type":"service_tier_capacity_exceeded","code":"3505"}"#,
        ),
        (503, r#"<Error><Code>ServerBusy</Code></Error>"#),
    ] {
        assert_eq!(read(status, &[], body).class, Class::Overloaded, "{body}");
    }
    let slow = read(
        503,
        &[],
        "<Error><Code>SlowDown</Code><Message>x</Message></Error>",
    );
    assert_eq!(slow.class, Class::RateLimited);
    let user = read(
        400,
        &[],
        r#"{"error":{"message":"operator is overloaded for these types"}}"#,
    );
    assert_eq!(user.class, Class::Fatal);
}

#[test]
fn an_error_in_an_event_stream_is_read_like_a_body() {
    let body = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    assert_eq!(read(529, &[], body).class, Class::Overloaded);
}

#[test]
fn the_servers_word_on_retrying_is_passed_on() {
    assert_eq!(
        read(500, &[("x-should-retry", "true")], "").should_retry,
        Some(true)
    );
    assert_eq!(
        read(429, &[("Stripe-Should-Retry", "false")], "").should_retry,
        Some(false)
    );
    assert_eq!(
        read(500, &[("x-should-retry", "maybe")], "").should_retry,
        None
    );
}

// KR-05: a token that was invalidated was taken for a wrong one, and the next account was shown.
#[test]
fn a_key_that_was_taken_away_is_told_whatever_the_word() {
    for (status, body) in [
        (
            401,
            r#"{"error":{"code":"token_invalidated","message":"Your authentication token has been invalidated."}}"#,
        ),
        (401, r#"{"error":{"code":"session_invalidated"}}"#),
        (401, r#"{"error":"user_deactivated"}"#),
        (
            403,
            r#"{"error":{"message":"Your API key was reported as leaked."}}"#,
        ),
        (
            403,
            r#"{"error":{"message":"Your account has been banned."}}"#,
        ),
    ] {
        assert_eq!(
            read(status, &[], body).fault,
            Some(Fault::Revoked),
            "{body}"
        );
    }
    // Somebody else's loss, and a restriction, are not the key's.
    for body in [
        r#"{"error":{"message":"User has been suspended."}}"#,
        r#"{"error":{"status":"PERMISSION_DENIED","details":[{"reason":"API_KEY_SERVICE_BLOCKED"}]}}"#,
    ] {
        assert_ne!(read(403, &[], body).fault, Some(Fault::Revoked), "{body}");
    }
}

// CL-09: a size that the server's transport refuses came as a spent resource.
#[test]
fn a_message_that_is_too_large_is_final_at_any_status() {
    let body = r#"{"error":{"status":"RESOURCE_EXHAUSTED","message":"Received message larger than max (5243000 vs. 4194304)"}}"#;
    for status in [413, 429, 500, 503] {
        assert_eq!(read(status, &[], body).class, Class::Fatal, "{status}");
    }
    let grpc = Profile::by_name("grpc").unwrap();
    let headers = [
        ("grpc-status", "8"),
        (
            "grpc-message",
            "grpc: received message larger than max (6 vs. 4)",
        ),
    ];
    assert_eq!(read_as(&grpc, 200, &headers, "").class, Class::Fatal);
    let rate = r#"{"code":"RequestRateTooLarge","message":"Request rate is large."}"#;
    assert_eq!(read(429, &[], rate).class, Class::RateLimited);
}

// CL-01: only the words say that the purse is empty.
#[test]
fn an_empty_purse_is_known_by_its_words_where_keys_are_refused() {
    for (status, message) in [
        (
            429,
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        (429, "Insufficient balance, please recharge"),
        (403, "Your team does not have any credits yet"),
        (403, "Your account is past due"),
        (429, "账户余额不足"),
    ] {
        let body = format!(r#"{{"error":{{"message":"{message}"}}}}"#);
        assert_eq!(
            read(status, &[], &body).fault,
            Some(Fault::OutOfFunds),
            "{message}"
        );
    }
    // What comes back by itself, and what the caller deals in, are no purse of the key.
    let short = r#"{"error":{"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota, please check your plan and billing details."}}"#;
    assert_eq!(read(429, &[], short).class, Class::RateLimited);
    let day = r#"{"message":"Out of credits per minute"}"#;
    assert_eq!(read(429, &[], day).fault, None);
    let order = r#"{"code":-2010,"msg":"Account has insufficient balance for requested action."}"#;
    assert_eq!(read(400, &[], order).fault, None);
}

#[test]
fn a_gateway_that_passes_on_a_limit_is_limited() {
    let body = r#"{"error":{"code":429,"message":"Provider returned error"}}"#;
    assert_eq!(read(502, &[], body).class, Class::RateLimited);
    let body = r#"{"error":{"code":502,"message":"Provider returned error"}}"#;
    assert_eq!(read(502, &[], body).class, Class::Transient);
}
