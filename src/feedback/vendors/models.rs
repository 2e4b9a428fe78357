//! Rows: language models and inference.

use super::*;

/// The paths of generation calls in the form that most vendors share.
const CHAT: &[&str] = &[
    "/chat/completions",
    "/completions",
    "/responses",
    "/embeddings",
    "/messages",
];

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
        replays: CHAT,
        idempotency: Some("idempotency-key"),
        ..Vendor::NONE
    },
    Vendor {
        name: "openai-codex",
        hosts: &["chatgpt.com"],
        notes: "Percentages of two windows, with the window in minutes. A `Retry-After` can be far \
                shorter than what is left of the spent window.",
        codes: &[
            Code("usage_limit_reached", Says::Quota),
            Code("usage_not_included", Says::Fatal),
        ],
        own: Own {
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
            fields: &[Field {
                path: "error.resets_in_seconds",
                means: Told::Wait(Unit::Seconds),
            }],
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
            texts: &[tells(
                "Rate limit of {limit} per {window} exceeded",
                REQUESTS,
            )],
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
        ],
        codes: &[
            Code("overloaded_error", Says::Overloaded),
            Code("enforced_spend_limit_reached", Says::Funds),
            Code("billing_error", Says::Funds),
        ],
        own: Own {
            headers: &[
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
        replays: &[
            "/invoke",
            "/converse",
            "/invoke-with-response-stream",
            "/converse-stream",
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "groq",
        hosts: &["api.groq.com"],
        notes: "OpenAI's names, but requests are per day and tokens per minute; 498 when the flexible \
                tier is full; tokens per day only in the message.",
        own: Own {
            windows: &[(Dimension::Requests, DAY), (Dimension::Tokens, MINUTE)],
            ..Own::NONE
        },
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "mistral",
        hosts: &["api.mistral.ai"],
        notes: "`req-minute`, `tokens-minute`, `tokens-month`, without resets; code 3505 is a full \
                tier, not a quota; the older family counts tokens as `ratelimitbysize`.",
        headers: &[header(
            "x-ratelimit-tokens-query-cost",
            Meaning::Cost(Dimension::Tokens),
        )],
        codes: &[Code("service_tier_capacity_exceeded", Says::Overloaded)],
        own: Own {
            headers: &[
                limit("ratelimitbysize-limit", TOKENS.per(MINUTE)),
                remaining("ratelimitbysize-remaining", TOKENS.per(MINUTE)),
                reset("ratelimitbysize-reset", TOKENS.per(MINUTE)),
                header(
                    "ratelimitbysize-query-cost",
                    Meaning::Cost(Dimension::Tokens),
                ),
                limit(
                    "x-ratelimitbysize-limit-minute",
                    TOKENS.per(MINUTE).family("x-"),
                ),
                remaining(
                    "x-ratelimitbysize-remaining-minute",
                    TOKENS.per(MINUTE).family("x-"),
                ),
                limit("x-ratelimitbysize-limit-month", TOKENS.per(MONTH)),
                remaining("x-ratelimitbysize-remaining-month", TOKENS.per(MONTH)),
            ],
            codes: &[Code("1300", Says::Rate), Code("3505", Says::Overloaded)],
            ..Own::NONE
        },
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "cohere",
        hosts: &["api.cohere.com", "api.cohere.ai"],
        notes: "Headers on trial keys only, and none on 429: minute or month is in the message.",
        texts: &[tells("limited to {limit} API calls / {window}", REQUESTS)],
        own: Own {
            headers: &[
                limit(
                    "x-endpoint-monthly-call-limit",
                    REQUESTS.per(MONTH).scope("endpoint-monthly"),
                ),
                limit(
                    "x-trial-endpoint-call-limit",
                    REQUESTS.per(MINUTE).scope("trial-endpoint"),
                ),
                remaining(
                    "x-trial-endpoint-call-remaining",
                    REQUESTS.per(MINUTE).scope("trial-endpoint"),
                ),
            ],
            ..Own::NONE
        },
        replays: &["/chat", "/generate", "/embed", "/rerank", "/classify"],
        ..Vendor::NONE
    },
    Vendor {
        name: "together",
        hosts: &["api.together.xyz", "api.together.ai"],
        notes: "Counts per second that change with demand; tokens as `x-tokenlimit-*`.",
        headers: &[
            limit("x-tokenlimit-limit", TOKENS),
            remaining("x-tokenlimit-remaining", TOKENS),
            reset("x-tokenlimit-reset", TOKENS),
        ],
        codes: &[Code("model_rate_limit", Says::Rate)],
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "fireworks",
        hosts: &["api.fireworks.ai"],
        notes: "Limits that shrink after bursts; `x-ratelimit-over-limit` on a success is a warning.",
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "cerebras",
        hosts: &["api.cerebras.ai"],
        notes: "The window is in the name, resets are seconds with a fraction; `queue_exceeded` is \
                overload, `token_quota_exceeded` a minute's limit.",
        codes: &[
            Code("queue_exceeded", Says::Overloaded),
            Code("token_quota_exceeded", Says::Rate),
            Code("request_quota_exceeded", Says::Rate),
            Code("too_many_tokens_error", Says::Rate),
            Code("too_many_requests_error", Says::Rate),
        ],
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "sambanova",
        hosts: &["api.sambanova.ai"],
        notes: "OpenAI's names and `-requests-day`; resets in whole seconds and as durations.",
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "digitalocean-inference",
        hosts: &["inference.do-ai.run"],
        notes: "OpenAI's names with epochs; a reset is projected for a request of this size.",
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "xai",
        hosts: &["api.x.ai"],
        notes: "OpenAI's names without resets.",
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "deepseek",
        hosts: &["api.deepseek.com"],
        notes: "No headers by design; 402 is an empty balance.",
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "perplexity",
        hosts: &["api.perplexity.ai"],
        notes: "Spent credits are a 401 with `insufficient_quota`.",
        codes: &[Code("request_rate_limit_exceeded", Says::Rate)],
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "openrouter",
        hosts: &["openrouter.ai"],
        notes: "Resets in epoch milliseconds, repeated inside the body; a failure of the upstream can \
                come with status 200; `free-models-per-day` returns at midnight UTC.",
        own: Own {
            fields: &[
                Field {
                    path: "error.metadata.headers.X-RateLimit-Limit",
                    means: Told::Part(REQUESTS, Part::Limit),
                },
                Field {
                    path: "error.metadata.headers.X-RateLimit-Remaining",
                    means: Told::Part(REQUESTS, Part::Remaining),
                },
                Field {
                    path: "error.metadata.headers.X-RateLimit-Reset",
                    means: Told::Part(REQUESTS, Part::Reset(Unit::Seconds)),
                },
                Field {
                    path: "error.code",
                    means: Told::Status,
                },
            ],
            ok_bodies: true,
            anchor: Anchor::MidnightUtc,
            ..Own::NONE
        },
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "huggingface",
        hosts: &[
            "huggingface.co",
            "*.huggingface.co",
            "router.huggingface.co",
        ],
        notes: "`RateLimit` and `RateLimit-Policy`, whose members have two strings and are no valid \
                structured fields; no `Retry-After`.",
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "replicate",
        hosts: &["api.replicate.com"],
        notes: "The wait is a sentence: \"Expected available in 1 second.\"",
        ..Vendor::NONE
    },
    Vendor {
        name: "voyage",
        hosts: &["api.voyageai.com"],
        notes: "Speaks of billing on a plain limit per minute.",
        replays: &["/embeddings", "/rerank"],
        ..Vendor::NONE
    },
    Vendor {
        name: "alibaba-dashscope",
        hosts: &["dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"],
        notes: "Codes: `Throttling.RateQuota`, `Throttling.AllocationQuota` (tokens per minute).",
        codes: &[
            Code("Throttling.RateQuota", Says::Rate),
            Code("Throttling.AllocationQuota", Says::Rate),
            Code("Throttling.BurstRate", Says::Rate),
            Code("Arrearage", Says::Funds),
        ],
        replays: CHAT,
        ..Vendor::NONE
    },
];

const ANTHROPIC: &str = "anthropic-ratelimit";
const PRIMARY: Key<'static> = POINTS.scope("codex-primary");
const SECONDARY: Key<'static> = POINTS.scope("codex-secondary");
const FIVE_HOURS: Key<'static> = POINTS.per(5 * HOUR).scope("unified-5h");
const SEVEN_DAYS: Key<'static> = POINTS.per(WEEK).scope("unified-7d");
