//! Rows: standards, gateways, proxies and server frameworks.

use super::*;

pub(super) static ROWS: &[Vendor] = &[
    Vendor {
        name: "standard",
        notes: "`Retry-After` (RFC 9110), every draft of `RateLimit` and `RateLimit-Policy`, and the \
                common `X-RateLimit-*` family: a number is an epoch if its size says so, else a \
                delay in seconds.",
        headers: &[
            limit("x-ratelimit-limit", REQUESTS.plain("x-ratelimit")),
            remaining("x-ratelimit-remaining", REQUESTS.plain("x-ratelimit")),
            reset("x-ratelimit-reset", REQUESTS.plain("x-ratelimit")),
            used("x-ratelimit-used", REQUESTS.plain("x-ratelimit")),
            header(
                "x-ratelimit-resource",
                Meaning::Part(REQUESTS.plain("x-ratelimit"), Part::Bucket),
            ),
            limit("ratelimit-limit", REQUESTS.plain("ratelimit")),
            remaining("ratelimit-remaining", REQUESTS.plain("ratelimit")),
            reset("ratelimit-reset", REQUESTS.plain("ratelimit")),
            header(
                "ratelimit",
                Meaning::Part(REQUESTS.plain("ratelimit"), Part::Item),
            ),
            header(
                "ratelimit-policy",
                Meaning::Part(REQUESTS.plain("ratelimit"), Part::Policy),
            ),
            header("retry-after", Meaning::RetryAfter),
            header("age", Meaning::Age),
            header("retry-after-ms", Meaning::Wait(Unit::Millis)),
            header("retryafter", Meaning::Wait(Unit::Seconds)),
            wait("x-retry-after"),
            wait("x-retry-after-seconds"),
            header("x-retry-after-ms", Meaning::Wait(Unit::Millis)),
            header("x-should-retry", Meaning::ShouldRetry),
        ],
        codes: &[
            Code("rate_limit", Says::Rate),
            Code("rate_limited", Says::Rate),
            Code("rate_limit_error", Says::Rate),
            Code("rate_limit_exceeded", Says::Rate),
            Code("ratelimited", Says::Rate),
            Code("too_many_requests", Says::Rate),
            Code("throttled", Says::Rate),
            Code("THROTTLED", Says::Rate),
            Code("RATE_LIMITED", Says::Rate),
            Code("RATELIMITED", Says::Rate),
            Code("RATE_LIMIT_REACHED", Says::Rate),
            Code("TOO_MANY_REQUESTS", Says::Rate),
            Code("TooManyRequests", Says::Rate),
            Code("RateLimitReached", Says::Rate),
            Code("RateLimitExceeded", Says::Rate),
            Code("overloaded", Says::Overloaded),
            Code("server_overloaded", Says::Overloaded),
            Code("service_overload", Says::Overloaded),
            Code("insufficient_credits", Says::Funds),
            Code("insufficient_funds", Says::Funds),
            Code("payment_required", Says::Funds),
            Code("daily_quota_exceeded", Says::Quota),
            Code("monthly_quota_exceeded", Says::Quota),
            Code("daily_limit_exceeded", Says::Quota),
            Code("monthly_limit_exceeded", Says::Quota),
            Code("quota-exceeded", Says::Rate),
            Code("temporary-reduced-capacity", Says::Overloaded),
            Code("abnormal-usage-detected", Says::Rate),
            Code("invalid_api_key", Says::Unauthorized),
            Code("invalid_token", Says::Unauthorized),
            Code("authentication_error", Says::Unauthorized),
            Code("account_deactivated", Says::Revoked),
            Code("account_suspended", Says::Revoked),
            Code("api_key_revoked", Says::Revoked),
            Code("token_revoked", Says::Revoked),
        ],
        texts: &[
            says("try again in {wait}"),
            says("try again after {wait}"),
            says("try again after {instant}"),
            says("retry in {wait}"),
            says("retry after {wait}"),
            says("retry after {instant}"),
            says("available in {wait}"),
            says("reset after {wait}"),
            says("please wait {wait}"),
            says("wait for {wait}"),
            says("must wait {wait}"),
            says("have to wait {wait}"),
            says("wait {wait} before"),
            says("wait {wait} and"),
            says("come back in {wait}"),
            says("resets in {wait}"),
            means("overloaded", Says::Overloaded),
            means("high demand", Says::Overloaded),
            means("server is busy", Says::Overloaded),
            means("too busy", Says::Overloaded),
            means("over capacity", Says::Overloaded),
            means("at capacity", Says::Overloaded),
            means("capacity exceeded", Says::Overloaded),
            means("secondary rate limit", Says::Rate),
            means("abuse detection", Says::Rate),
            means("rate limit exceeded", Says::Rate),
            means("reduce your request rate", Says::Rate),
            means("credit balance is too low", Says::Funds),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "envoy",
        notes: "Draft-03 syntax under the `X-` names: the first number is the live limit, the rest \
                are policies with `w`, and perhaps `name`.",
        headers: &[
            header("x-envoy-overloaded", Meaning::Shows(Says::Overloaded)),
            header("x-envoy-ratelimited", Meaning::Shows(Says::Rate)),
        ],
        codes: &[Code("local_rate_limited", Says::Rate)],
        ..Vendor::NONE
    },
    Vendor {
        name: "kong",
        notes: "`X-RateLimit-Limit-Minute` and its kin beside `RateLimit-*`: two families, one bucket.",
        ..Vendor::NONE
    },
    Vendor {
        name: "traefik",
        notes: "`X-Retry-In` is a duration and finer than the truncated `Retry-After`.",
        headers: &[wait("x-retry-in")],
        ..Vendor::NONE
    },
    Vendor {
        name: "tyk",
        notes: "403 with nothing left is a spent quota, 429 a rate; resets are epochs.",
        ..Vendor::NONE
    },
    Vendor {
        name: "apigee",
        notes: "The fault code tells a quota from a spike arrest; the quota's interval is not told.",
        codes: &[
            Code("policies.ratelimit.QuotaViolation", Says::Quota),
            Code("policies.ratelimit.SpikeArrestViolation", Says::Rate),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "nginx",
        notes: "Says nothing; by default it refuses with 503, which cannot be told from an outage.",
        ..Vendor::NONE
    },
    Vendor {
        name: "cloudflare",
        hosts: &["api.cloudflare.com"],
        notes: "`Ratelimit` and `Ratelimit-Policy`, whose names can differ; edge pages 1015 and 1200; \
                520 to 527 and 530 are faults of the way to the origin.",
        codes: &[Code("10429", Says::Rate)],
        ..Vendor::NONE
    },
    Vendor {
        name: "akamai",
        notes: "`X-RateLimit-Next` is when one more request is possible, not a full reset.",
        headers: &[wait("x-ratelimit-next")],
        ..Vendor::NONE
    },
    Vendor {
        name: "kubernetes",
        notes: "429 of priority and fairness means that the server is full; 429 of an eviction is a \
                disruption budget, not a rate.",
        also: &["k8s"],
        headers: &[
            header(
                "x-kubernetes-pf-flowschema-uid",
                Meaning::Shows(Says::Overloaded),
            ),
            header(
                "x-kubernetes-pf-prioritylevel-uid",
                Meaning::Shows(Says::Overloaded),
            ),
        ],
        codes: &[Code("DisruptionBudget", Says::Transient)],
        own: Own {
            codes: &[Code("TooManyRequests", Says::Overloaded)],
            statuses: &[(429, Says::Overloaded)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "grpc",
        notes: "`grpc-status` 8 and 14 with HTTP 200; `grpc-retry-pushback-ms`, negative for never.",
        headers: &[
            header("grpc-retry-pushback-ms", Meaning::Pushback),
            header("grpc-message", Meaning::Message),
            header(
                "grpc-status",
                Meaning::Outcome(&[
                    reason("4", Says::Transient),
                    reason("7", Says::Fatal),
                    reason("8", Says::Rate),
                    reason("10", Says::Transient),
                    reason("13", Says::Transient),
                    reason("14", Says::Transient),
                    reason("16", Says::Unauthorized),
                    reason("3", Says::Fatal),
                    reason("5", Says::Fatal),
                    reason("6", Says::Fatal),
                    reason("9", Says::Fatal),
                    reason("11", Says::Fatal),
                    reason("12", Says::Fatal),
                ]),
            ),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "rapidapi",
        hosts: &["*.rapidapi.com", "*.p.rapidapi.com"],
        notes: "`x-ratelimit-<object>-limit`, `-remaining`, `-reset`: delays of up to a month.",
        ..Vendor::NONE
    },
    Vendor {
        name: "express-rate-limit",
        notes: "Draft 6, 7, 8 or the older `X-RateLimit-*` with epochs; it sets `Date` itself.",
        ..Vendor::NONE
    },
    Vendor {
        name: "rack-attack",
        notes: "`Retry-After` only.",
        ..Vendor::NONE
    },
    Vendor {
        name: "django-rest-framework",
        also: &["drf"],
        notes: "`Retry-After`, and \"Expected available in 59 seconds\" in the body.",
        ..Vendor::NONE
    },
    Vendor {
        name: "laravel",
        notes: "`X-RateLimit-*` with an epoch, and `Retry-After`.",
        ..Vendor::NONE
    },
    Vendor {
        name: "flask-limiter",
        notes: "Sends `Retry-After` on successes too, where it only mirrors the reset.",
        ..Vendor::NONE
    },
    Vendor {
        name: "tower-governor",
        notes: "`x-ratelimit-after` mirrors `Retry-After`.",
        headers: &[wait("x-ratelimit-after")],
        ..Vendor::NONE
    },
    Vendor {
        name: "bucket4j",
        notes: "`X-Rate-Limit-Retry-After-Seconds`.",
        headers: &[wait("x-rate-limit-retry-after-seconds")],
        ..Vendor::NONE
    },
];
