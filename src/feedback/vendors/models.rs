//! Rows: language models, by those who make them and their clouds.

use super::*;

pub(super) static ROWS: &[Vendor] = &[
    Vendor {
        name: "openai",
        hosts: &["api.openai.com"],
        notes: "Requests and tokens, each with a reset as a duration; `retry-after-ms`; a message \
                that names the limit, its use and the wait. 429 is also its word for no money.",
        headers: &[
            limit("x-ratelimit-limit-requests", REQUESTS.family("x-ratelimit")),
            limit("x-ratelimit-limit-tokens", TOKENS.family("x-ratelimit")),
            remaining(
                "x-ratelimit-remaining-requests",
                REQUESTS.family("x-ratelimit"),
            ),
            remaining("x-ratelimit-remaining-tokens", TOKENS.family("x-ratelimit")),
            reset("x-ratelimit-reset-requests", REQUESTS.family("x-ratelimit")),
            reset("x-ratelimit-reset-tokens", TOKENS.family("x-ratelimit")),
        ],
        codes: &[
            Code("insufficient_quota", Says::Funds),
            Code("credit_balance_exhausted", Says::Funds),
            Code("organization_spend_limit_exceeded", Says::Funds),
            Code("project_spend_limit_exceeded", Says::Funds),
            Code("billing_hard_limit_reached", Says::Funds),
            Code("billing_not_active", Says::Funds),
            Code("access_terminated", Says::Revoked),
            Code("slow_down", Says::Overloaded),
            Code("engine_overloaded", Says::Overloaded),
            Code("context_length_exceeded", Says::Fatal),
        ],
        texts: &[
            tells(
                "on {dimension} per {window} ({*}): Limit {limit}, Used {used}, Requested {cost}",
                REQUESTS,
            ),
            tells("Limit {limit}, Requested {cost}", REQUESTS),
        ],
        own: Own {
            // Its word for a lock that was not had in time: its own clients try it again.
            statuses: &[(409, Says::Transient)],
            ..BY_MODEL
        },
        replays: CHAT,
        idempotency: Some("idempotency-key"),
        ..Vendor::NONE
    },
    Vendor {
        name: "openai-codex",
        hosts: &["chatgpt.com"],
        notes: "Percentages of two windows, with the window in minutes. A `Retry-After` can be far \
                shorter than what is left of the spent window.",
        headers: &[
            header(
                "x-codex-primary-used-percent",
                Meaning::Part(PRIMARY, Part::UsedPercent),
            ),
            header(
                "x-codex-primary-window-minutes",
                Meaning::Part(PRIMARY, Part::Window(Unit::Minutes)),
            ),
            header(
                "x-codex-primary-reset-after-seconds",
                Meaning::Part(PRIMARY, Part::ResetAfter(Unit::Seconds)),
            ),
            reset("x-codex-primary-reset-at", PRIMARY),
            header(
                "x-codex-secondary-used-percent",
                Meaning::Part(SECONDARY, Part::UsedPercent),
            ),
            header(
                "x-codex-secondary-window-minutes",
                Meaning::Part(SECONDARY, Part::Window(Unit::Minutes)),
            ),
            header(
                "x-codex-secondary-reset-after-seconds",
                Meaning::Part(SECONDARY, Part::ResetAfter(Unit::Seconds)),
            ),
            reset("x-codex-secondary-reset-at", SECONDARY),
        ],
        codes: &[
            Code("usage_limit_reached", Says::Quota),
            Code("usage_not_included", Says::Fatal),
        ],
        own: Own {
            fields: &[
                Field {
                    path: "error.resets_at",
                    means: Told::Wait(Unit::Seconds),
                },
                Field {
                    path: "error.resets_in_seconds",
                    means: Told::Wait(Unit::Seconds),
                },
            ],
            ..Own::NONE
        },
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "azure-openai",
        hosts: &[
            "*.openai.azure.com",
            "*.cognitiveservices.azure.com",
            "*.services.ai.azure.com",
        ],
        notes: "OpenAI's names with resets in whole seconds, and the window as `renewalperiod`. -1 \
                means unknown, and `retry-after-ms: 0` beside `retry-after: 1` means nothing.",
        headers: &[header("x-ratelimit-key", Meaning::Nothing)],
        own: Own {
            bucket: Bucketing::ModelInPath,
            ..Own::NONE
        },
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "github-models",
        hosts: &["models.github.ai", "models.inference.ai.azure.com"],
        notes: "`x-ratelimit-type` names the limit that was hit: per minute, per day, or concurrent.",
        own: Own {
            headers: &[
                header(
                    "x-ratelimit-type",
                    Meaning::Reasons(&[
                        Reason {
                            resets_with_wait: true,
                            ..spent("*ByMinute", Says::Rate, REQUESTS.per(MINUTE))
                        },
                        Reason {
                            resets_with_wait: true,
                            ..spent("*ByDay", Says::Quota, REQUESTS.per(DAY))
                        },
                        spent("*ConcurrentRequests", Says::Concurrency, CONCURRENT),
                    ]),
                ),
                wait("x-ratelimit-timeremaining"),
            ],
            texts: &[
                Text {
                    spent: true,
                    ..tells("Rate limit of {limit} per {window} exceeded", REQUESTS)
                },
                tells(
                    "Rate limit of {limit} per 0s exceeded for {*}ConcurrentRequests",
                    CONCURRENT,
                ),
            ],
            spent_resets_with_wait: true,
            bucket: Bucketing::Model,
            ..Own::NONE
        },
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "anthropic",
        hosts: &["api.anthropic.com"],
        notes: "Requests, tokens, input and output tokens with resets as RFC 3339; `529` when it is \
                full; no money is a 400 or a 429 with `enforced_spend_limit_reached`. Subscriptions \
                tell shares of 5 hours and 7 days with epochs under the same prefix.",
        headers: &[
            limit(
                "anthropic-ratelimit-requests-limit",
                REQUESTS.family(ANTHROPIC),
            ),
            limit("anthropic-ratelimit-tokens-limit", TOKENS.family(ANTHROPIC)),
            limit(
                "anthropic-ratelimit-input-tokens-limit",
                INPUT.family(ANTHROPIC),
            ),
            limit(
                "anthropic-ratelimit-output-tokens-limit",
                OUTPUT.family(ANTHROPIC),
            ),
            remaining(
                "anthropic-ratelimit-requests-remaining",
                REQUESTS.family(ANTHROPIC),
            ),
            remaining(
                "anthropic-ratelimit-tokens-remaining",
                TOKENS.family(ANTHROPIC),
            ),
            remaining(
                "anthropic-ratelimit-input-tokens-remaining",
                INPUT.family(ANTHROPIC),
            ),
            remaining(
                "anthropic-ratelimit-output-tokens-remaining",
                OUTPUT.family(ANTHROPIC),
            ),
            reset(
                "anthropic-ratelimit-requests-reset",
                REQUESTS.family(ANTHROPIC),
            ),
            reset("anthropic-ratelimit-tokens-reset", TOKENS.family(ANTHROPIC)),
            reset(
                "anthropic-ratelimit-input-tokens-reset",
                INPUT.family(ANTHROPIC),
            ),
            reset(
                "anthropic-ratelimit-output-tokens-reset",
                OUTPUT.family(ANTHROPIC),
            ),
            limit(
                "anthropic-priority-input-tokens-limit",
                INPUT.scope("priority"),
            ),
            limit(
                "anthropic-priority-output-tokens-limit",
                OUTPUT.scope("priority"),
            ),
            remaining(
                "anthropic-priority-input-tokens-remaining",
                INPUT.scope("priority"),
            ),
            remaining(
                "anthropic-priority-output-tokens-remaining",
                OUTPUT.scope("priority"),
            ),
            reset(
                "anthropic-priority-input-tokens-reset",
                INPUT.scope("priority"),
            ),
            reset(
                "anthropic-priority-output-tokens-reset",
                OUTPUT.scope("priority"),
            ),
            header(
                "anthropic-ratelimit-unified-5h-utilization",
                Meaning::Part(FIVE_HOURS, Part::UsedShare),
            ),
            reset("anthropic-ratelimit-unified-5h-reset", FIVE_HOURS),
            header(
                "anthropic-ratelimit-unified-7d-utilization",
                Meaning::Part(SEVEN_DAYS, Part::UsedShare),
            ),
            reset("anthropic-ratelimit-unified-7d-reset", SEVEN_DAYS),
            reset("anthropic-ratelimit-unified-reset", POINTS.scope("unified")),
        ],
        codes: &[
            Code("overloaded_error", Says::Overloaded),
            Code("enforced_spend_limit_reached", Says::Funds),
            Code("billing_error", Says::Funds),
        ],
        texts: &[means(
            "reached your specified API usage limits",
            Says::Funds,
        )],
        own: Own {
            bucket: Bucketing::Model,
            ..Own::NONE
        },
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "gemini",
        hosts: &["generativelanguage.googleapis.com"],
        notes: "No headers: `google.rpc.RetryInfo` and `QuotaFailure` in the body. The wait is \
                minutes off when the violated quota is a day's; that one returns at midnight Pacific.",
        own: Own {
            anchor: Anchor::MidnightPacific,
            bucket: Bucketing::ModelInPath,
            ..Own::NONE
        },
        replays: &[
            ":generateContent",
            ":streamGenerateContent",
            ":embedContent",
            ":countTokens",
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "vertex-ai",
        hosts: &["*.aiplatform.googleapis.com", "aiplatform.googleapis.com"],
        notes: "429 without details: capacity that all share.",
        own: Own {
            anchor: Anchor::MidnightPacific,
            bucket: Bucketing::ModelInPath,
            ..Own::NONE
        },
        replays: &[
            ":generateContent",
            ":streamGenerateContent",
            ":predict",
            ":rawPredict",
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "aws-bedrock",
        hosts: &["bedrock-runtime.*.amazonaws.com"],
        notes: "`x-amzn-errortype`; a day's limit differs from a minute's only in the message.",
        codes: &[
            Code("ServiceUnavailableException", Says::Overloaded),
            Code("ModelNotReadyException", Says::Transient),
            Code("ModelTimeoutException", Says::Transient),
            Code("ModelErrorException", Says::Transient),
            Code("ServiceQuotaExceededException", Says::Rate),
        ],
        texts: &[Text {
            spent: true,
            ..tells("too many {dimension} per {window}", REQUESTS)
        }],
        own: Own {
            bucket: Bucketing::ModelInPath,
            ..Own::NONE
        },
        replays: &[
            "/invoke",
            "/converse",
            "/invoke-with-response-stream",
            "/converse-stream",
        ],
        ..Vendor::NONE
    },
];

const ANTHROPIC: &str = "anthropic-ratelimit";
const PRIMARY: Key<'static> = POINTS.scope("codex-primary");
const SECONDARY: Key<'static> = POINTS.scope("codex-secondary");
const FIVE_HOURS: Key<'static> = POINTS.per(5 * HOUR).scope("unified-5h");
const SEVEN_DAYS: Key<'static> = POINTS.per(WEEK).scope("unified-7d");
