//! Rows: software for work: documents, tasks, identity and talk.

use super::*;

pub(super) static ROWS: &[Vendor] = &[
    Vendor {
        name: "okta",
        hosts: &["*.okta.com", "*.oktapreview.com", "*.okta-emea.com"],
        notes: "Epochs, to be measured against `Date`; a limit of 0 marks the concurrency limit.",
        codes: &[Code("E0000047", Says::Rate)],
        own: Own {
            zero_is_concurrency: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "auth0",
        hosts: &["*.auth0.com"],
        notes: "`Auth0-Client-Quota-Limit` and `-Organization-` count issued access tokens, not those \
                of language models.",
        own: Own {
            headers: &[
                header(
                    "auth0-client-quota-limit",
                    Meaning::Whole(TOKENS.scope("client"), Form::Buckets),
                ),
                header(
                    "auth0-organization-quota-limit",
                    Meaning::Whole(TOKENS.scope("organization"), Form::Buckets),
                ),
            ],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "microsoft-graph",
        also: &["msgraph", "graph"],
        hosts: &["graph.microsoft.com"],
        notes: "A percentage from 0.8 on, with its scope in another header; a third names what was \
                exceeded.",
        headers: &[header(
            "x-ms-throttle-information",
            Meaning::Reasons(&[reason("*LimitExceeded", Says::Rate)]),
        )],
        own: Own {
            headers: &[
                header(
                    "x-ms-throttle-limit-percentage",
                    Meaning::Part(POINTS.plain("share"), Part::UsedShare),
                ),
                header(
                    "x-ms-throttle-scope",
                    Meaning::Part(POINTS.plain("share"), Part::Bucket),
                ),
                header("x-ms-resource-unit", Meaning::Cost(Dimension::Points)),
            ],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "sharepoint",
        hosts: &["*.sharepoint.com"],
        notes: "`RateLimit-*` from 80 % on, in resource units per minute; refused calls count.",
        own: Own {
            unit: Dimension::Points,
            item_unit: Dimension::Points,
            windows: &[(Dimension::Points, MINUTE)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "linear",
        hosts: &["api.linear.app"],
        notes: "Epoch milliseconds; 400 with `RATELIMITED`; requests, complexity, and endpoints' own.",
        headers: &[header("x-complexity", Meaning::Cost(Dimension::Points))],
        ..Vendor::NONE
    },
    Vendor {
        name: "trello",
        hosts: &["api.trello.com"],
        notes: "Per API key and per API token (which are no tokens of a language model); the window in \
                milliseconds.",
        headers: &[
            limit("x-rate-limit-api-key-max", REQUESTS.scope("api-key")),
            remaining("x-rate-limit-api-key-remaining", REQUESTS.scope("api-key")),
            header(
                "x-rate-limit-api-key-interval-ms",
                Meaning::Part(REQUESTS.scope("api-key"), Part::Window(Unit::Millis)),
            ),
            limit("x-rate-limit-api-token-max", REQUESTS.scope("api-token")),
            remaining(
                "x-rate-limit-api-token-remaining",
                REQUESTS.scope("api-token"),
            ),
            header(
                "x-rate-limit-api-token-interval-ms",
                Meaning::Part(REQUESTS.scope("api-token"), Part::Window(Unit::Millis)),
            ),
            limit("x-rate-limit-member-max", REQUESTS.scope("member")),
            remaining("x-rate-limit-member-remaining", REQUESTS.scope("member")),
            header(
                "x-rate-limit-member-interval-ms",
                Meaning::Part(REQUESTS.scope("member"), Part::Window(Unit::Millis)),
            ),
        ],
        codes: &[
            Code("API_KEY_LIMIT_EXCEEDED", Says::Rate),
            Code("API_TOKEN_LIMIT_EXCEEDED", Says::Rate),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "notion",
        hosts: &["api.notion.com"],
        notes: "`Retry-After`; 529 when it is full; \"a few minutes\" in the text is no delay.",
        ..Vendor::NONE
    },
    Vendor {
        name: "asana",
        hosts: &["app.asana.com"],
        notes: "`Retry-After`.",
        ..Vendor::NONE
    },
    Vendor {
        name: "airtable",
        hosts: &["api.airtable.com"],
        notes: "No hint: thirty seconds by its documentation; a month's limit has its own code.",
        codes: &[Code("PUBLIC_API_BILLING_LIMIT_EXCEEDED", Says::Funds)],
        own: Own {
            floors: &[(429, 30)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "monday",
        hosts: &["api.monday.com"],
        notes: "A budget of complexity, told in the body; older versions refuse with status 200.",
        own: Own {
            codes: &[
                Code("ComplexityException", Says::Rate),
                Code("COMPLEXITY_BUDGET_EXHAUSTED", Says::Rate),
                Code("maxConcurrencyExceeded", Says::Concurrency),
                Code("DAILY_LIMIT_EXCEEDED", Says::Quota),
            ],
            texts: &[tells(
                "query cost {cost} budget remaining {remaining} out of {limit} reset in {reset}",
                COMPLEXITY,
            )],
            fields: &[
                Field {
                    path: ".errors.extensions.retry_in_seconds",
                    means: Told::Wait(Unit::Seconds),
                },
                Field {
                    path: ".errors.extensions.complexity_budget_left",
                    means: Told::Part(COMPLEXITY, Part::Remaining),
                },
                Field {
                    path: ".errors.extensions.complexity_budget_limit",
                    means: Told::Part(COMPLEXITY, Part::Limit),
                },
            ],
            ok_bodies: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "clickup",
        hosts: &["api.clickup.com"],
        notes: "`X-RateLimit-*` with an epoch.",
        ..Vendor::NONE
    },
    Vendor {
        name: "miro",
        hosts: &["api.miro.com"],
        notes: "`X-RateLimit-*` with an epoch.",
        ..Vendor::NONE
    },
    Vendor {
        name: "smartsheet",
        hosts: &["api.smartsheet.com"],
        notes: "`X-RateLimit-*` with an epoch; code 4003.",
        own: Own {
            codes: &[Code("4003", Says::Rate)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "clio",
        hosts: &["app.clio.com"],
        notes: "`X-RateLimit-*` with an epoch, `Retry-After`.",
        codes: &[Code("RateLimited", Says::Rate)],
        ..Vendor::NONE
    },
    Vendor {
        name: "zoom",
        hosts: &["api.zoom.us"],
        notes: "`X-RateLimit-Type` tells a second from a day; the category names the bucket; \
                `Retry-After` is RFC 3339.",
        own: Own {
            headers: &[header(
                "x-ratelimit-type",
                Meaning::Reasons(&[
                    Reason {
                        names: Some(REQUESTS.per(DAY).plain("x-ratelimit")),
                        ..reason("Daily-limit", Says::Quota)
                    },
                    Reason {
                        names: Some(REQUESTS.per(SECOND).plain("x-ratelimit")),
                        ..reason("QPS", Says::Rate)
                    },
                    Reason {
                        names: Some(REQUESTS.per(SECOND).plain("x-ratelimit")),
                        ..reason("Per-second-limit", Says::Rate)
                    },
                ]),
            )],
            anchor: Anchor::MidnightUtc,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "dropbox",
        hosts: &["api.dropboxapi.com", "content.dropboxapi.com"],
        notes: "`retry_after` in the body; `too_many_write_operations` is contention for a folder.",
        codes: &[
            Code("too_many_write_operations", Says::Rate),
            Code("too_many_write_operations/", Says::Rate),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "box",
        hosts: &["api.box.com"],
        notes: "`Retry-After`.",
        ..Vendor::NONE
    },
    Vendor {
        name: "figma",
        hosts: &["api.figma.com"],
        notes: "`Retry-After` of up to days.",
        headers: &[header("x-figma-rate-limit-type", Meaning::Nothing)],
        ..Vendor::NONE
    },
    Vendor {
        name: "discourse",
        notes: "`Discourse-Rate-Limit-Error-Code` ends in the window; `extras.wait_seconds`.",
        headers: &[header(
            "discourse-rate-limit-error-code",
            Meaning::Reasons(&[
                reason("*day", Says::Quota),
                reason("*days", Says::Quota),
                reason("*hour", Says::Rate),
                reason("*min", Says::Rate),
                reason("*minute", Says::Rate),
                reason("*secs", Says::Rate),
                reason("*second", Says::Rate),
                reason("*seconds", Says::Rate),
            ]),
        )],
        ..Vendor::NONE
    },
    Vendor {
        name: "lark",
        also: &["feishu"],
        hosts: &["open.feishu.cn", "open.larksuite.com"],
        notes: "400 or 429 with code 99991400; `x-ogw-ratelimit-*` with a fraction of seconds.",
        own: Own {
            codes: &[Code("99991400", Says::Rate), Code("230020", Says::Rate)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "toggl",
        hosts: &["api.track.toggl.com"],
        notes: "402 is its word for an hour's limit, not for money.",
        own: Own {
            headers: &[
                remaining("x-toggl-quota-remaining", REQUESTS),
                reset("x-toggl-quota-resets-in", REQUESTS),
            ],
            statuses: &[(402, Says::Rate)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "oracle-access-governance",
        also: &["oracle"],
        hosts: &["*.oraclecloud.com"],
        notes: "`RequestLimit-<scope>-Remaining` and `-RetryAfter`, the latter in milliseconds.",
        own: Own {
            headers: &[
                remaining("requestlimit-default-remaining", REQUESTS.scope("default")),
                header(
                    "requestlimit-default-retryafter",
                    Meaning::WaitAndReset(REQUESTS.scope("default"), Unit::Millis),
                ),
                remaining("requestlimit-write-remaining", REQUESTS.scope("write")),
                header(
                    "requestlimit-write-retryafter",
                    Meaning::WaitAndReset(REQUESTS.scope("write"), Unit::Millis),
                ),
            ],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "helix-alm",
        also: &["perforce-helix-alm", "perforce"],
        notes: "`RetryAfter` without a hyphen; its documentation contradicts itself on the reset.",
        ..Vendor::NONE
    },
    Vendor {
        name: "contentful",
        hosts: &[
            "cdn.contentful.com",
            "api.contentful.com",
            "preview.contentful.com",
        ],
        notes: "An hour and a second; the reset is of whichever is spent, and 0 where none is.",
        own: Own {
            headers: &[
                limit(
                    "x-contentful-ratelimit-hour-limit",
                    REQUESTS.per(HOUR).scope("hour"),
                ),
                remaining(
                    "x-contentful-ratelimit-hour-remaining",
                    REQUESTS.per(HOUR).scope("hour"),
                ),
                limit(
                    "x-contentful-ratelimit-second-limit",
                    REQUESTS.per(SECOND).scope("second"),
                ),
                remaining(
                    "x-contentful-ratelimit-second-remaining",
                    REQUESTS.per(SECOND).scope("second"),
                ),
                header(
                    "x-contentful-ratelimit-reset",
                    Meaning::WaitUnlessZero(Unit::Seconds),
                ),
            ],
            spent_resets_with_wait: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "lokalise",
        hosts: &["api.lokalise.com"],
        notes: "As Envoy tells it, policies twice.",
        ..Vendor::NONE
    },
];

const COMPLEXITY: Key<'static> = POINTS.scope("complexity");
