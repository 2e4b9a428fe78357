//! Rows: inference as a service.

use super::*;

pub(super) static ROWS: &[Vendor] = &[
    Vendor {
        name: "groq",
        hosts: &["api.groq.com"],
        notes: "OpenAI's names, but requests are per day and tokens per minute; 498 when the flexible \
                tier is full; tokens per day only in the message.",
        own: Own {
            windows: &[(Dimension::Requests, DAY), (Dimension::Tokens, MINUTE)],
            bucket: Bucketing::Model,
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
            bucket: Bucketing::Model,
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
            bucket: Bucketing::Model,
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
        own: BY_MODEL,
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "fireworks",
        hosts: &["api.fireworks.ai"],
        notes: "Limits that shrink after bursts; `x-ratelimit-over-limit` on a success is a warning.",
        headers: &[
            limit(
                "x-ratelimit-limit-tokens-cache-adjusted-prompt",
                INPUT.scope("cache-adjusted"),
            ),
            remaining(
                "x-ratelimit-remaining-tokens-cache-adjusted-prompt",
                INPUT.scope("cache-adjusted"),
            ),
            reset(
                "x-ratelimit-reset-tokens-cache-adjusted-prompt",
                INPUT.scope("cache-adjusted"),
            ),
            header(
                "fireworks-prompt-tokens",
                Meaning::Cost(Dimension::InputTokens),
            ),
        ],
        own: BY_MODEL,
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
        own: BY_MODEL,
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "sambanova",
        hosts: &["api.sambanova.ai"],
        notes: "OpenAI's names and `-requests-day`; resets in whole seconds and as durations.",
        own: BY_MODEL,
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "digitalocean-inference",
        hosts: &["inference.do-ai.run"],
        notes: "OpenAI's names with epochs; a reset is projected for a request of this size.",
        own: BY_MODEL,
        replays: CHAT,
        ..Vendor::NONE
    },
    Vendor {
        name: "xai",
        hosts: &["api.x.ai"],
        notes: "OpenAI's names without resets.",
        own: BY_MODEL,
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
        own: BY_MODEL,
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
                    path: ".error.metadata.headers.X-RateLimit-Limit",
                    means: Told::Part(REQUESTS, Part::Limit),
                },
                Field {
                    path: ".error.metadata.headers.X-RateLimit-Remaining",
                    means: Told::Part(REQUESTS, Part::Remaining),
                },
                Field {
                    path: ".error.metadata.headers.X-RateLimit-Reset",
                    means: Told::Part(REQUESTS, Part::Reset(Unit::Seconds)),
                },
                Field {
                    path: ".error.code",
                    means: Told::Status,
                },
                Field {
                    path: ".choices.error.code",
                    means: Told::Status,
                },
            ],
            // A cap on what one key may spend, with status 403.
            texts: &[means("Key limit exceeded", Says::Funds)],
            ok_bodies: true,
            anchor: Anchor::MidnightUtc,
            bucket: Bucketing::Model,
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
        own: BY_MODEL,
        replays: &["/embeddings", "/rerank"],
        ..Vendor::NONE
    },
    Vendor {
        name: "alibaba-dashscope",
        also: &["dashscope"],
        hosts: &["dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"],
        notes: "Codes: `Throttling.RateQuota`, `Throttling.AllocationQuota` (tokens per minute).",
        codes: &[
            Code("Throttling.RateQuota", Says::Rate),
            Code("Throttling.AllocationQuota", Says::Rate),
            Code("Throttling.BurstRate", Says::Rate),
            Code("Arrearage", Says::Funds),
        ],
        own: BY_MODEL,
        replays: CHAT,
        ..Vendor::NONE
    },
];
