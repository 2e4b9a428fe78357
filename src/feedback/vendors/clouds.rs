//! Rows: clouds and their services.

use super::*;

pub(super) static ROWS: &[Vendor] = &[
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
        notes: "`x-ms-retry-after-ms`; `x-ms-request-charge` is what the call cost, in request units.",
        headers: &[
            header("x-ms-retry-after-ms", Meaning::Wait(Unit::Millis)),
            header("x-ms-request-charge", Meaning::Cost(Dimension::Points)),
        ],
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
];
