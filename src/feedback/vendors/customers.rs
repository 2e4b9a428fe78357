//! Rows: customers, and messages to them.

use super::*;

pub(super) static ROWS: &[Vendor] = &[
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
        name: "salesforce",
        hosts: &["*.salesforce.com", "*.force.com"],
        notes: "`Sforce-Limit-Info: api-usage=18/15000`, a day that rolls; one code for the day and for \
                too many at once.",
        headers: &[header(
            "sforce-limit-info",
            Meaning::Whole(REQUESTS, Form::NamedUsage),
        )],
        codes: &[
            Code("REQUEST_LIMIT_EXCEEDED", Says::Quota),
            Code("UNABLE_TO_LOCK_ROW", Says::Transient),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "dynamics-365",
        also: &["dynamics", "dataverse"],
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
        name: "intercom",
        hosts: &["api.intercom.io", "api.*.intercom.io"],
        notes: "Epochs; the limit is per minute and enforced per ten seconds.",
        idempotency: Some("idempotency-key"),
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
        name: "servicenow",
        hosts: &["*.service-now.com"],
        notes: "`X-RateLimit-Rule` names the limit; an epoch, and `Retry-After`.",
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
];
