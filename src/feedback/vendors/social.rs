//! Rows: social networks, and what people ask and review.

use super::*;

pub(super) static ROWS: &[Vendor] = &[
    Vendor {
        name: "discord",
        hosts: &["discord.com", "discordapp.com"],
        notes: "`Reset-After` is better than `Reset`; `Bucket` names the limit; a global refusal stops \
                every route; the body's `retry_after` is finer than the header.",
        own: Own {
            headers: &[header(
                "x-ratelimit-global",
                Meaning::Reasons(&[Reason {
                    resets_with_wait: true,
                    ..spent("true", Says::Rate, REQUESTS.scope("global"))
                }]),
            )],
            bucket: Bucketing::Paths(&[
                "/api/*/channels/*/messages",
                "/api/*/channels/*",
                "/api/*/guilds/*/members",
                "/api/*/guilds/*",
                "/api/*/webhooks/*/*",
            ]),
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "slack",
        hosts: &["slack.com"],
        notes: "`Retry-After`; proxies deliver `ratelimited` with status 200.",
        own: Own {
            codes: &[
                Code("ratelimited", Says::Rate),
                Code("invalid_auth", Says::Unauthorized),
                Code("not_authed", Says::Unauthorized),
                Code("token_expired", Says::Unauthorized),
                Code("token_revoked", Says::Revoked),
                Code("account_inactive", Says::Revoked),
                Code("internal_error", Says::Transient),
                Code("fatal_error", Says::Transient),
                Code("request_timeout", Says::Transient),
                Code("service_unavailable", Says::Transient),
            ],
            ok_bodies: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "x-twitter",
        also: &["twitter", "x"],
        hosts: &["api.x.com", "api.twitter.com"],
        notes: "Epochs; fifteen minutes, and 24 hours for user and app; `UsageCapExceeded` is a month; \
                420 in old versions.",
        headers: &[
            limit("x-user-limit-24hour-limit", REQUESTS.per(DAY).scope("user")),
            remaining(
                "x-user-limit-24hour-remaining",
                REQUESTS.per(DAY).scope("user"),
            ),
            reset("x-user-limit-24hour-reset", REQUESTS.per(DAY).scope("user")),
            limit("x-app-limit-24hour-limit", REQUESTS.per(DAY).scope("app")),
            remaining(
                "x-app-limit-24hour-remaining",
                REQUESTS.per(DAY).scope("app"),
            ),
            reset("x-app-limit-24hour-reset", REQUESTS.per(DAY).scope("app")),
        ],
        codes: &[
            Code("UsageCapExceeded", Says::Quota),
            Code("usage-capped", Says::Quota),
        ],
        own: Own {
            statuses: &[(420, Says::Rate)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "reddit",
        hosts: &["oauth.reddit.com", "www.reddit.com"],
        notes: "Used and remaining with fractions, a delay, no limit.",
        ..Vendor::NONE
    },
    Vendor {
        name: "mastodon",
        notes: "`X-RateLimit-*`; the reset is RFC 3339 with microseconds.",
        ..Vendor::NONE
    },
    Vendor {
        name: "meta",
        also: &["facebook", "instagram"],
        hosts: &["graph.facebook.com", "graph.instagram.com"],
        notes: "Percentages as JSON, which can exceed 100; 400 or 403 with codes 4, 17, 32, 613 and \
                80000 to 80014; the time to regain access is in minutes.",
        own: Own {
            headers: &[
                header(
                    "x-app-usage",
                    Meaning::Whole(POINTS.per(HOUR).scope("app"), Form::Percentages),
                ),
                header(
                    "x-business-use-case-usage",
                    Meaning::Whole(POINTS.per(HOUR), Form::Percentages),
                ),
                header(
                    "x-page-usage",
                    Meaning::Whole(POINTS.per(HOUR).scope("page"), Form::Percentages),
                ),
                header(
                    "x-ad-account-usage",
                    Meaning::Whole(POINTS.scope("ad-account"), Form::Percentages),
                ),
                header(
                    "x-fb-ads-insights-throttle",
                    Meaning::Whole(POINTS.scope("ads-insights"), Form::Percentages),
                ),
            ],
            codes: &[
                Code("1", Says::Transient),
                Code("2", Says::Transient),
                Code("4", Says::Rate),
                Code("17", Says::Rate),
                Code("32", Says::Rate),
                Code("341", Says::Rate),
                Code("613", Says::Rate),
                Code("80000", Says::Rate),
                Code("80001", Says::Rate),
                Code("80002", Says::Rate),
                Code("80003", Says::Rate),
                Code("80004", Says::Rate),
                Code("80005", Says::Rate),
                Code("80006", Says::Rate),
                Code("80008", Says::Rate),
                Code("80009", Says::Rate),
                Code("80014", Says::Rate),
                Code("190", Says::Unauthorized),
            ],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "linkedin",
        hosts: &["api.linkedin.com"],
        notes: "No headers; the message says DAY; back at midnight UTC.",
        own: Own {
            anchor: Anchor::MidnightUtc,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "pinterest",
        hosts: &["api.pinterest.com"],
        notes: "As Envoy tells it; code 8.",
        own: Own {
            codes: &[Code("8", Says::Rate)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "tiktok",
        hosts: &["open.tiktokapis.com"],
        notes: "A code in the body; a day's has its own.",
        codes: &[Code("daily_quota_limit_exceeded", Says::Quota)],
        own: Own {
            anchor: Anchor::MidnightUtc,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "strava",
        hosts: &["www.strava.com"],
        notes: "Limits and use as lists: a quarter of an hour and a day, which return at the quarters \
                and at midnight UTC; reads have their own.",
        own: Own {
            headers: &[
                limit(
                    "x-readratelimit-limit",
                    REQUESTS.plain("x-readratelimit").scope("read"),
                ),
                used(
                    "x-readratelimit-usage",
                    REQUESTS.plain("x-readratelimit").scope("read"),
                ),
            ],
            places: &[900, DAY],
            list_scope: "overall",
            anchor: Anchor::QuarterHour,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "basecamp",
        also: &["hey"],
        hosts: &["3.basecampapi.com", "app.hey.com"],
        notes: "`X-Ratelimit` is JSON.",
        ..Vendor::NONE
    },
    Vendor {
        name: "stackexchange",
        hosts: &["api.stackexchange.com"],
        notes: "400 `throttle_violation`; `backoff` on a success demands a pause; a day's quota in \
                every body.",
        codes: &[Code("throttle_violation", Says::Rate)],
        own: Own {
            fields: &[
                Field {
                    path: ".backoff",
                    means: Told::Wait(Unit::Seconds),
                },
                Field {
                    path: ".quota_max",
                    means: Told::Part(REQUESTS.per(DAY), Part::Limit),
                },
                Field {
                    path: ".quota_remaining",
                    means: Told::Part(REQUESTS.per(DAY), Part::Remaining),
                },
            ],
            ok_bodies: true,
            ok_waits: true,
            anchor: Anchor::MidnightUtc,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "yelp",
        hosts: &["api.yelp.com"],
        notes: "A day, which returns at midnight UTC, and per second only as a code; some resources \
                have a day of their own.",
        headers: &[
            limit("ratelimit-dailylimit", REQUESTS.per(DAY).plain("ratelimit")),
            header(
                "ratelimit-resettime",
                Meaning::Part(REQUESTS.plain("ratelimit"), Part::ResetDate),
            ),
        ],
        codes: &[
            Code("ACCESS_LIMIT_REACHED", Says::Quota),
            Code("TOO_MANY_REQUESTS_PER_SECOND", Says::Rate),
        ],
        own: Own {
            headers: &[
                limit(
                    "ratelimit-resourcedailylimit",
                    REQUESTS.per(DAY).scope("resource"),
                ),
                remaining(
                    "ratelimit-resourceremaining",
                    REQUESTS.per(DAY).scope("resource"),
                ),
            ],
            shared_reset: true,
            anchor: Anchor::MidnightUtc,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
];
