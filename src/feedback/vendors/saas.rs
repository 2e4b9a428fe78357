//! Rows: business software.

use super::*;

pub(super) static ROWS: &[Vendor] = &[
    Vendor {
        name: "stripe",
        hosts: &["api.stripe.com"],
        notes: "`Stripe-Should-Retry`; `Stripe-Rate-Limited-Reason` tells rate from concurrency; 429 \
                with `lock_timeout` is contention, not a limit.",
        headers: &[header("stripe-should-retry", Meaning::ShouldRetry)],
        codes: &[Code("lock_timeout", Says::Transient)],
        own: Own {
            headers: &[header(
                "stripe-rate-limited-reason",
                Meaning::Reasons(&[
                    spent("*concurrency", Says::Concurrency, CONCURRENT),
                    reason("*rate", Says::Rate),
                ]),
            )],
            ..Own::NONE
        },
        idempotency: Some("idempotency-key"),
        ..Vendor::NONE
    },
    Vendor {
        name: "shopify",
        hosts: &["*.myshopify.com"],
        notes: "`32/40` is used of limit, a bucket that leaks. GraphQL tells its bucket in every body \
                and refuses with status 200; the wait follows from the cost and the refill.",
        headers: &[header(
            "x-shopify-shop-api-call-limit",
            Meaning::Whole(REQUESTS, Form::UsedOfLimit),
        )],
        own: Own {
            fields: &[
                Field {
                    path: "throttleStatus.maximumAvailable",
                    means: Told::Part(POINTS, Part::Limit),
                },
                Field {
                    path: "throttleStatus.currentlyAvailable",
                    means: Told::Part(POINTS, Part::Remaining),
                },
                Field {
                    path: "throttleStatus.restoreRate",
                    means: Told::Refill(POINTS),
                },
                Field {
                    path: "cost.requestedQueryCost",
                    means: Told::Cost(Dimension::Points),
                },
                Field {
                    path: "cost.actualQueryCost",
                    means: Told::Cost(Dimension::Points),
                },
            ],
            ok_bodies: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "zendesk",
        hosts: &["*.zendesk.com"],
        notes: "`X-Rate-Limit` is the limit; two families tell one bucket; endpoints have their own \
                header with `total`, `remaining` and `resets`.",
        headers: &[
            limit("x-rate-limit", REQUESTS.plain("x-rate-limit")),
            header(
                "zendesk-ratelimit-*",
                Meaning::Whole(REQUESTS, Form::Assignments),
            ),
        ],
        codes: &[Code("APIRateLimitExceeded", Says::Rate)],
        idempotency: Some("idempotency-key"),
        ..Vendor::NONE
    },
    Vendor {
        name: "hubspot",
        hosts: &["api.hubapi.com", "api.hubspot.com"],
        notes: "Per day, per interval in milliseconds, and per second; `policyName` tells which was \
                hit; 477 is a migration.",
        headers: &[
            limit(
                "x-hubspot-ratelimit-daily",
                REQUESTS.per(DAY).scope("daily"),
            ),
            remaining(
                "x-hubspot-ratelimit-daily-remaining",
                REQUESTS.per(DAY).scope("daily"),
            ),
            limit(
                "x-hubspot-ratelimit-secondly",
                REQUESTS.per(SECOND).scope("secondly"),
            ),
            remaining(
                "x-hubspot-ratelimit-secondly-remaining",
                REQUESTS.per(SECOND).scope("secondly"),
            ),
        ],
        codes: &[
            Code("RATE_LIMIT", Says::Rate),
            Code("RATE_LIMITS", Says::Rate),
        ],
        fields: &[Field {
            path: "policyName",
            means: Told::Reasons(&[reason("DAILY", Says::Quota), reason("*LY", Says::Rate)]),
        }],
        ..Vendor::NONE
    },
    Vendor {
        name: "okta",
        hosts: &["*.okta.com", "*.oktapreview.com"],
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
        name: "salesforce",
        hosts: &["*.salesforce.com", "*.force.com"],
        notes: "`Sforce-Limit-Info: api-usage=18/15000`, a day that rolls; one code for the day and for \
                too many at once.",
        headers: &[header(
            "sforce-limit-info",
            Meaning::Whole(REQUESTS, Form::NamedUsage),
        )],
        codes: &[Code("REQUEST_LIMIT_EXCEEDED", Says::Quota)],
        ..Vendor::NONE
    },
    Vendor {
        name: "microsoft-graph",
        hosts: &["graph.microsoft.com"],
        notes: "A percentage from 0.8 on, with its scope in another header.",
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
        name: "dynamics-365",
        hosts: &["*.dynamics.com"],
        notes: "Requests and seconds of work per five minutes, the latter with a comma between thousands.",
        codes: &[
            Code("0x80072321", Says::Rate),
            Code("0x80072322", Says::Rate),
            Code("0x80072326", Says::Concurrency),
        ],
        own: Own {
            headers: &[
                remaining(
                    "x-ms-ratelimit-burst-remaining-xrm-requests",
                    REQUESTS.per(300).scope("xrm-burst"),
                ),
                header(
                    "x-ms-ratelimit-time-remaining-xrm-requests",
                    Meaning::Part(
                        POINTS.per(300).scope("xrm-time-seconds"),
                        Part::GroupedRemaining,
                    ),
                ),
            ],
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
                    path: "extensions.retry_in_seconds",
                    means: Told::Wait(Unit::Seconds),
                },
                Field {
                    path: "extensions.complexity_budget_left",
                    means: Told::Part(COMPLEXITY, Part::Remaining),
                },
                Field {
                    path: "extensions.complexity_budget_limit",
                    means: Told::Part(COMPLEXITY, Part::Limit),
                },
            ],
            ok_bodies: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "intercom",
        hosts: &["api.intercom.io"],
        notes: "Epochs; the limit is per minute and enforced per ten seconds.",
        idempotency: Some("idempotency-key"),
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
        name: "sendgrid",
        hosts: &["api.sendgrid.com"],
        notes: "`X-RateLimit-*` with an epoch, or with a delay.",
        ..Vendor::NONE
    },
    Vendor {
        name: "twilio",
        hosts: &["api.twilio.com", "*.twilio.com"],
        notes: "Tells how many are in flight, without a limit; code 20429.",
        own: Own {
            headers: &[used("twilio-concurrent-requests", CONCURRENT)],
            codes: &[Code("20429", Says::Rate), Code("20003", Says::Unauthorized)],
            ..Own::NONE
        },
        idempotency: Some("i-twilio-idempotency-token"),
        ..Vendor::NONE
    },
    Vendor {
        name: "mailgun",
        hosts: &["api.mailgun.net", "api.eu.mailgun.net"],
        notes: "`X-RateLimit-*`; the unit of the reset is read from its size.",
        ..Vendor::NONE
    },
    Vendor {
        name: "brevo",
        hosts: &["api.brevo.com", "api.sendinblue.com"],
        notes: "`x-sib-ratelimit-*` with delays.",
        ..Vendor::NONE
    },
    Vendor {
        name: "resend",
        hosts: &["api.resend.com"],
        notes: "`ratelimit-*` with delays; `daily_quota_exceeded` is a day.",
        idempotency: Some("idempotency-key"),
        ..Vendor::NONE
    },
    Vendor {
        name: "klaviyo",
        hosts: &["a.klaviyo.com"],
        notes: "`RateLimit-*` with delays, `Retry-After`.",
        ..Vendor::NONE
    },
    Vendor {
        name: "xero",
        hosts: &["api.xero.com"],
        notes: "`X-Rate-Limit-Problem` names the limit: minute, day, appminute or concurrent.",
        own: Own {
            headers: &[
                remaining("x-minlimit-remaining", REQUESTS.per(MINUTE).scope("minute")),
                remaining("x-daylimit-remaining", REQUESTS.per(DAY).scope("day")),
                remaining(
                    "x-appminlimit-remaining",
                    REQUESTS.per(MINUTE).scope("appminute"),
                ),
                header(
                    "x-rate-limit-problem",
                    Meaning::Reasons(&[
                        spent("minute", Says::Rate, REQUESTS.per(MINUTE).scope("minute")),
                        spent(
                            "appminute",
                            Says::Rate,
                            REQUESTS.per(MINUTE).scope("appminute"),
                        ),
                        spent("day", Says::Quota, REQUESTS.per(DAY).scope("day")),
                        spent("daily", Says::Quota, REQUESTS.per(DAY).scope("day")),
                        spent(
                            "concurrent",
                            Says::Concurrency,
                            CONCURRENT.scope("concurrent"),
                        ),
                    ]),
                ),
            ],
            anchor: Anchor::MidnightUtc,
            ..Own::NONE
        },
        idempotency: Some("idempotency-key"),
        ..Vendor::NONE
    },
    Vendor {
        name: "quickbooks",
        hosts: &["quickbooks.api.intuit.com"],
        notes: "No hint: sixty seconds by its documentation; code 3001.",
        codes: &[Code("ThrottleExceeded", Says::Rate)],
        own: Own {
            codes: &[Code("3001", Says::Rate)],
            floors: &[(429, 60)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "square",
        hosts: &["connect.squareup.com"],
        notes: "A code in the body.",
        idempotency: Some("idempotency-key"),
        ..Vendor::NONE
    },
    Vendor {
        name: "paypal",
        hosts: &["api-m.paypal.com", "api.paypal.com"],
        notes: "A code in the body.",
        idempotency: Some("paypal-request-id"),
        ..Vendor::NONE
    },
    Vendor {
        name: "adyen",
        hosts: &["*.adyen.com", "*.adyenpayments.com"],
        notes: "429 only.",
        idempotency: Some("idempotency-key"),
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
        name: "servicenow",
        hosts: &["*.service-now.com"],
        notes: "`X-RateLimit-Rule` names the limit; an epoch, and `Retry-After`.",
        ..Vendor::NONE
    },
    Vendor {
        name: "gocardless",
        hosts: &["api.gocardless.com"],
        notes: "`ratelimit-reset` is an HTTP-date.",
        idempotency: Some("idempotency-key"),
        ..Vendor::NONE
    },
    Vendor {
        name: "exact-online",
        hosts: &["start.exactonline.nl"],
        notes: "Epoch milliseconds; a day and a minute (`Minutely`).",
        ..Vendor::NONE
    },
    Vendor {
        name: "bigcommerce",
        hosts: &["api.bigcommerce.com"],
        notes: "`Requests-Quota`, `Requests-Left`, `Time-Window-Ms`, `Time-Reset-Ms`.",
        headers: &[
            limit(
                "x-rate-limit-requests-quota",
                REQUESTS.family("bigcommerce"),
            ),
            remaining("x-rate-limit-requests-left", REQUESTS.family("bigcommerce")),
            header(
                "x-rate-limit-time-window-ms",
                Meaning::Part(REQUESTS.family("bigcommerce"), Part::Window(Unit::Millis)),
            ),
            header(
                "x-rate-limit-time-reset-ms",
                Meaning::Part(
                    REQUESTS.family("bigcommerce"),
                    Part::ResetAfter(Unit::Millis),
                ),
            ),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "freshdesk",
        hosts: &["*.freshdesk.com"],
        notes: "`Total`, `Remaining`, and `Used-CurrentRequest`, which is a cost.",
        headers: &[header(
            "x-ratelimit-used-currentrequest",
            Meaning::Cost(Dimension::Requests),
        )],
        ..Vendor::NONE
    },
    Vendor {
        name: "pipedrive",
        hosts: &["api.pipedrive.com", "*.pipedrive.com"],
        notes: "Delays; `x-daily-ratelimit-token-*` counts units of cost per day.",
        own: Own {
            headers: &[
                limit(
                    "x-daily-ratelimit-token-limit",
                    POINTS.per(DAY).scope("daily"),
                ),
                remaining(
                    "x-daily-ratelimit-token-remaining",
                    POINTS.per(DAY).scope("daily"),
                ),
                reset(
                    "x-daily-ratelimit-token-reset",
                    POINTS.per(DAY).scope("daily"),
                ),
            ],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "ringcentral",
        hosts: &["platform.ringcentral.com"],
        notes: "`X-Rate-Limit-Group` names the bucket, `-Window` is in seconds.",
        codes: &[Code("CMN-301", Says::Rate)],
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
        name: "affinity",
        hosts: &["api.affinity.co"],
        notes: "`-Limit-<scope>`, `-Limit-<scope>-Remaining`, `-Limit-<scope>-Reset`.",
        ..Vendor::NONE
    },
    Vendor {
        name: "lemlist",
        hosts: &["api.lemlist.com"],
        notes: "The reset is a JavaScript date.",
        ..Vendor::NONE
    },
    Vendor {
        name: "prisjakt",
        hosts: &["*.prisjakt.nu", "*.pricespy.com"],
        notes: "The reset is a delay in milliseconds, which nothing marks; the window is an hour.",
        own: Own {
            reset_unit: Unit::Millis,
            windows: &[(Dimension::Requests, HOUR)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "oracle-access-governance",
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
        notes: "`RetryAfter` without a hyphen; its documentation contradicts itself on the reset.",
        ..Vendor::NONE
    },
    Vendor {
        name: "helpscout",
        hosts: &["api.helpscout.net"],
        notes: "`X-RateLimit-Retry-After`, and counts per minute.",
        headers: &[wait("x-ratelimit-retry-after")],
        ..Vendor::NONE
    },
    Vendor {
        name: "mailerlite",
        hosts: &["connect.mailerlite.com", "api.mailerlite.com"],
        notes: "`X-RateLimit-Retry-After`; the reset is a date and time without a zone, in UTC.",
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
