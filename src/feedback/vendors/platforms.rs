//! Rows: developer platforms and clouds.

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
        name: "azure-resource-manager",
        also: &["azure-arm", "arm"],
        hosts: &["management.azure.com"],
        notes: "`x-ms-ratelimit-remaining-<scope>`, and a list with windows in its names.",
        headers: &[
            header(
                "x-ms-ratelimit-remaining-*",
                Meaning::Part(REQUESTS, Part::Remaining),
            ),
            header(
                "x-ms-ratelimit-remaining-resource",
                Meaning::Whole(REQUESTS, Form::NamedRemaining),
            ),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "azure-cosmos",
        also: &["cosmos-db", "azure-cosmos-db"],
        hosts: &["*.documents.azure.com"],
        notes: "`x-ms-retry-after-ms`.",
        headers: &[header("x-ms-retry-after-ms", Meaning::Wait(Unit::Millis))],
        ..Vendor::NONE
    },
    Vendor {
        name: "azure-storage",
        hosts: &["*.core.windows.net"],
        notes: "`x-ms-error-code: ServerBusy`, also at an account's limits.",
        headers: &[header("x-ms-error-code", Meaning::Code)],
        codes: &[
            Code("ServerBusy", Says::Overloaded),
            Code("OperationTimedOut", Says::Transient),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "aws",
        hosts: &["*.amazonaws.com"],
        notes: "The error code alone tells a throttle, which comes with 400, 429 or 503.",
        headers: &[
            header("x-amzn-errortype", Meaning::Code),
            header("x-amzn-error-type", Meaning::Code),
        ],
        codes: &[
            Code("Throttling", Says::Rate),
            Code("ThrottlingException", Says::Rate),
            Code("ThrottledException", Says::Rate),
            Code("RequestThrottled", Says::Rate),
            Code("RequestThrottledException", Says::Rate),
            Code("RequestLimitExceeded", Says::Rate),
            Code("BandwidthLimitExceeded", Says::Rate),
            Code("ProvisionedThroughputExceededException", Says::Rate),
            Code("TooManyRequestsException", Says::Rate),
            Code("PriorRequestNotComplete", Says::Rate),
            Code("EC2ThrottledException", Says::Rate),
            Code("TransactionInProgressException", Says::Transient),
            Code("InternalFailure", Says::Transient),
            Code("InternalServerError", Says::Transient),
            Code("RequestTimeout", Says::Transient),
            Code("RequestTimeoutException", Says::Transient),
            Code("UnrecognizedClientException", Says::Unauthorized),
            Code("InvalidClientTokenId", Says::Unauthorized),
            Code("InvalidAccessKeyId", Says::Unauthorized),
            Code("InvalidSignatureException", Says::Unauthorized),
            Code("SignatureDoesNotMatch", Says::Unauthorized),
            Code("ExpiredToken", Says::Unauthorized),
            Code("ExpiredTokenException", Says::Unauthorized),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "aws-s3",
        hosts: &[
            "*.s3.amazonaws.com",
            "s3.amazonaws.com",
            "s3.*.amazonaws.com",
        ],
        notes: "503 `SlowDown` is a throttle.",
        codes: &[Code("SlowDown", Says::Rate)],
        ..Vendor::NONE
    },
    Vendor {
        name: "aws-ec2",
        hosts: &["ec2.*.amazonaws.com"],
        notes: "503 `RequestLimitExceeded` is a throttle.",
        ..Vendor::NONE
    },
    Vendor {
        name: "aws-ses",
        hosts: &["email.*.amazonaws.com"],
        notes: "One code for the rate and for the day: only the message tells.",
        ..Vendor::NONE
    },
    Vendor {
        name: "aws-lambda",
        hosts: &["lambda.*.amazonaws.com"],
        notes: "`Reason` tells a concurrency limit from a rate.",
        fields: &[Field {
            path: "Reason",
            means: Told::Reasons(&[
                spent(
                    "*ConcurrentInvocationLimitExceeded",
                    Says::Concurrency,
                    CONCURRENT,
                ),
                spent(
                    "*ConcurrentExecutionLimitExceeded",
                    Says::Concurrency,
                    CONCURRENT,
                ),
                reason("*RateLimitExceeded", Says::Rate),
            ]),
        }],
        ..Vendor::NONE
    },
    Vendor {
        name: "aws-api-gateway",
        hosts: &["*.execute-api.*.amazonaws.com"],
        notes: "`LimitExceededException` is a usage plan: a day, a week or a month.",
        codes: &[
            Code("LimitExceededException", Says::Quota),
            Code("Limit Exceeded", Says::Quota),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "amazon-sp-api",
        also: &["sp-api"],
        hosts: &[
            "sellingpartnerapi-na.amazon.com",
            "sellingpartnerapi-eu.amazon.com",
            "sellingpartnerapi-fe.amazon.com",
        ],
        notes: "`x-amzn-RateLimit-Limit` is a rate per second, often a fraction; `QuotaExceeded` is \
                an ordinary throttle.",
        headers: &[limit("x-amzn-ratelimit-limit", REQUESTS.per(SECOND))],
        codes: &[Code("QuotaExceeded", Says::Rate)],
        ..Vendor::NONE
    },
    Vendor {
        name: "amazon-mws",
        hosts: &["mws.amazonservices.com", "mws-eu.amazonservices.com"],
        notes: "`x-mws-quota-*`: requests per hour.",
        own: Own {
            headers: &[
                limit("x-mws-quota-max", REQUESTS.per(HOUR)),
                remaining("x-mws-quota-remaining", REQUESTS.per(HOUR)),
                reset("x-mws-quota-resetson", REQUESTS.per(HOUR)),
            ],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "google-apis",
        also: &["google"],
        hosts: &["*.googleapis.com", "www.googleapis.com"],
        notes: "403 or 429 with a reason: `rateLimitExceeded` is short, `quotaExceeded` and \
                `dailyLimitExceeded` last to midnight Pacific.",
        codes: &[
            Code("rateLimitExceeded", Says::Rate),
            Code("userRateLimitExceeded", Says::Rate),
            Code("concurrentLimitExceeded", Says::Concurrency),
            Code("dailyLimitExceeded", Says::Quota),
            Code("dailyLimitExceededUnreg", Says::Quota),
            Code("quotaExceeded", Says::Quota),
            Code("RESOURCE_EXHAUSTED", Says::Rate),
            Code("backendError", Says::Transient),
            Code("API_KEY_INVALID", Says::Unauthorized),
            Code("keyInvalid", Says::Unauthorized),
            Code("keyExpired", Says::Unauthorized),
            Code("authError", Says::Unauthorized),
            Code("UNAUTHENTICATED", Says::Unauthorized),
            Code("billingNotEnabled", Says::Funds),
        ],
        own: Own {
            anchor: Anchor::MidnightPacific,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "youtube",
        hosts: &["youtube.googleapis.com"],
        notes: "`quotaExceeded`: units per day, back at midnight Pacific.",
        own: Own {
            anchor: Anchor::MidnightPacific,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "google-cloud-storage",
        hosts: &["storage.googleapis.com"],
        notes: "503 `backendError` is a fault, not a limit.",
        ..Vendor::NONE
    },
    Vendor {
        name: "google-maps",
        hosts: &["maps.googleapis.com", "maps.google.com"],
        notes: "Status 200 with `OVER_QUERY_LIMIT`; a day's quota differs only in the message.",
        own: Own {
            codes: &[
                Code("OVER_QUERY_LIMIT", Says::Rate),
                Code("OVER_DAILY_LIMIT", Says::Quota),
                Code("REQUEST_DENIED", Says::Unauthorized),
                Code("UNKNOWN_ERROR", Says::Transient),
            ],
            ok_bodies: true,
            anchor: Anchor::MidnightPacific,
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
        ],
        own: Own {
            headers: &[header(
                "x-sentry-rate-limits",
                Meaning::Whole(REQUESTS, Form::Categories),
            )],
            ..Own::NONE
        },
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
        hosts: &["api.datadoghq.com", "api.datadoghq.eu"],
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
            wait("x-ratelimit-towait-sec"),
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
