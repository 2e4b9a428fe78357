//! Rows: developer platforms.

use super::*;

pub(super) static ROWS: &[Vendor] = &[
    Vendor {
        name: "github",
        hosts: &["api.github.com", "uploads.github.com"],
        notes: "`x-ratelimit-resource` names the bucket. A secondary limit shows a full primary quota \
                and may bring no hint: then a minute. GraphQL refuses with status 200 and counts points.",
        own: Own {
            point_scopes: &["graphql"],
            ok_bodies: true,
            floors: &[(403, 60), (429, 60)],
            bucket: Bucketing::Paths(&["/search", "/search/code", "/graphql"]),
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "gitlab",
        hosts: &["gitlab.com"],
        notes: "`RateLimit-*` with an epoch; `Observed` can exceed the limit.",
        idempotency: None,
        ..Vendor::NONE
    },
    Vendor {
        name: "bitbucket",
        hosts: &["api.bitbucket.org"],
        notes: "`X-RateLimit-Limit`, `-Resource`, `-NearLimit`, and nothing on what is left.",
        ..Vendor::NONE
    },
    Vendor {
        name: "atlassian",
        also: &["jira", "confluence"],
        hosts: &["*.atlassian.net", "api.atlassian.com"],
        notes: "`RateLimit-Reason` names the limit; resets without seconds; `Beta-RateLimit` counts points.",
        headers: &[header(
            "ratelimit-reason",
            Meaning::Part(REQUESTS.plain(""), Part::Reason),
        )],
        own: Own {
            item_unit: Dimension::Points,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "azure-devops",
        hosts: &["dev.azure.com", "*.visualstudio.com"],
        notes: "`Retry-After` counts on successes too; the unit is a throughput unit.",
        own: Own {
            unit: Dimension::Points,
            ok_waits: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "docker-hub",
        also: &["docker"],
        hosts: &["hub.docker.com", "registry-1.docker.io", "auth.docker.io"],
        notes: "`;w=` hangs on the remaining count too; `X-Retry-After` is an epoch.",
        ..Vendor::NONE
    },
    Vendor {
        name: "crates.io",
        hosts: &["crates.io"],
        notes: "An HTTP-date in header and text; 24 hours only in the text.",
        ..Vendor::NONE
    },
    Vendor {
        name: "npm",
        hosts: &["registry.npmjs.org"],
        notes: "`Retry-After` only.",
        ..Vendor::NONE
    },
    Vendor {
        name: "fastly",
        hosts: &["api.fastly.com"],
        notes: "`Fastly-RateLimit-Remaining` and `-Reset` (epoch), no limit.",
        ..Vendor::NONE
    },
    Vendor {
        name: "digitalocean",
        hosts: &["api.digitalocean.com"],
        notes: "`ratelimit-*` with an epoch.",
        ..Vendor::NONE
    },
    Vendor {
        name: "heroku",
        hosts: &["api.heroku.com"],
        notes: "`RateLimit-Remaining` and nothing else.",
        ..Vendor::NONE
    },
    Vendor {
        name: "vercel",
        hosts: &["api.vercel.com"],
        notes: "`X-RateLimit-*` with an epoch, told again in the body.",
        own: Own {
            fields: &[
                Field {
                    path: ".error.limit.total",
                    means: Told::Part(REQUESTS, Part::Limit),
                },
                Field {
                    path: ".error.limit.remaining",
                    means: Told::Part(REQUESTS, Part::Remaining),
                },
                Field {
                    path: ".error.limit.reset",
                    means: Told::Part(REQUESTS, Part::Reset(Unit::Seconds)),
                },
            ],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "sentry",
        hosts: &["sentry.io", "*.sentry.io", "*.ingest.sentry.io"],
        notes: "`X-Sentry-Rate-Limits` names categories and scopes, on successes too; an empty list is \
                everything; `*_usage_exceeded` is a spent plan. The API tells its concurrency.",
        headers: &[
            limit("x-sentry-rate-limit-concurrentlimit", CONCURRENT),
            remaining("x-sentry-rate-limit-concurrentremaining", CONCURRENT),
            header(
                "x-sentry-rate-limits",
                Meaning::Whole(REQUESTS, Form::Categories),
            ),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "pagerduty",
        hosts: &["api.pagerduty.com"],
        notes: "`ratelimit-*` with delays.",
        ..Vendor::NONE
    },
    Vendor {
        name: "datadog",
        hosts: &["*.datadoghq.com", "*.datadoghq.eu"],
        notes: "`X-RateLimit-Period` is the window, `-Reset` a delay, `-Name` the bucket.",
        ..Vendor::NONE
    },
    Vendor {
        name: "newrelic",
        hosts: &["api.newrelic.com"],
        notes: "A code in the body.",
        ..Vendor::NONE
    },
    Vendor {
        name: "algolia",
        hosts: &["*.algolia.net", "*.algolianet.com"],
        notes: "429 only.",
        ..Vendor::NONE
    },
    Vendor {
        name: "elasticsearch",
        hosts: &["*.es.io", "*.elastic-cloud.com"],
        notes: "429 means that a queue of the cluster is full, not that a quota is spent.",
        codes: &[
            Code("es_rejected_execution_exception", Says::Overloaded),
            Code("circuit_breaking_exception", Says::Overloaded),
        ],
        own: Own {
            statuses: &[(429, Says::Overloaded)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "crowdstrike",
        hosts: &[
            "api.crowdstrike.com",
            "api.us-2.crowdstrike.com",
            "api.eu-1.crowdstrike.com",
        ],
        notes: "`X-RateLimit-RetryAfter` is an epoch.",
        headers: &[wait("x-ratelimit-retryafter")],
        ..Vendor::NONE
    },
    Vendor {
        name: "qualys",
        hosts: &["*.qualys.com"],
        notes: "409 is its word for a spent limit; the wait is `X-RateLimit-ToWait-Sec`.",
        headers: &[
            // 0 beside a refusal for too many at once: it is not the rate that must be waited for.
            header(
                "x-ratelimit-towait-sec",
                Meaning::WaitUnlessZero(Unit::Seconds),
            ),
            limit("x-concurrency-limit-limit", CONCURRENT),
            used("x-concurrency-limit-running", CONCURRENT),
        ],
        own: Own {
            statuses: &[(409, Says::Rate)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
];
