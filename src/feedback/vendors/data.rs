//! Rows: maps, markets and data of research.

use super::*;

pub(super) static ROWS: &[Vendor] = &[
    Vendor {
        name: "etsy",
        hosts: &["openapi.etsy.com", "api.etsy.com"],
        notes: "Per second and per day; `Retry-After` speaks of the second even when the day is spent.",
        headers: &[
            limit("x-limit-per-second", REQUESTS.per(SECOND)),
            remaining("x-remaining-this-second", REQUESTS.per(SECOND)),
            remaining("x-remaining-this-secon", REQUESTS.per(SECOND)),
            limit("x-limit-per-day", REQUESTS.per(DAY)),
            remaining("x-remaining-today", REQUESTS.per(DAY)),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "ebay",
        hosts: &["api.ebay.com"],
        notes: "A code in the body.",
        ..Vendor::NONE
    },
    Vendor {
        name: "rakuten",
        hosts: &["app.rakuten.co.jp", "openapi.rakuten.co.jp"],
        notes: "One request a second and key, told only by `too_many_requests`.",
        own: Own {
            floors: &[(0, 1)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "mapbox",
        hosts: &["api.mapbox.com"],
        notes: "`X-Rate-Limit-Interval`, `-Limit` and `-Reset` (epoch), nothing on what is left.",
        ..Vendor::NONE
    },
    Vendor {
        name: "graphhopper",
        hosts: &["graphhopper.com"],
        notes: "Credits per day with a delay; `X-RateLimit-Credits` is what the call cost.",
        own: Own {
            unit: Dimension::Points,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "api.data.gov",
        also: &["nasa"],
        hosts: &["api.data.gov", "api.nasa.gov"],
        notes: "A limit and what is left, per hour; `OVER_RATE_LIMIT`.",
        codes: &[
            Code("OVER_RATE_LIMIT", Says::Rate),
            Code("API_KEY_DISABLED", Says::Revoked),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "openalex",
        hosts: &["api.openalex.org"],
        notes: "A day to midnight UTC in credits or in dollars; the reset is a delay.",
        headers: &[header(
            "x-ratelimit-credits-used",
            Meaning::Cost(Dimension::Points),
        )],
        own: Own {
            headers: &[
                limit("x-ratelimit-limit-usd", MONEY),
                remaining("x-ratelimit-remaining-usd", MONEY),
                header("x-ratelimit-cost-usd", Meaning::Cost(Dimension::Cost)),
            ],
            shared_reset: true,
            anchor: Anchor::MidnightUtc,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "crossref",
        hosts: &["api.crossref.org"],
        notes: "A rate, its interval, and how many at once, per pool.",
        headers: &[limit("x-concurrency-limit", CONCURRENT)],
        own: Own {
            headers: &[header(
                "x-api-pool",
                Meaning::Part(REQUESTS.plain("*"), Part::Bucket),
            )],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "semantic-scholar",
        hosts: &["api.semanticscholar.org"],
        notes: "429 only; without a key the pool is shared.",
        ..Vendor::NONE
    },
    Vendor {
        name: "ncbi",
        hosts: &["eutils.ncbi.nlm.nih.gov"],
        notes: "`X-RateLimit-Limit` and `-Remaining` per second; the body repeats the key.",
        ..Vendor::NONE
    },
    Vendor {
        name: "mediawiki",
        also: &["wikipedia", "wikimedia"],
        hosts: &["*.wikipedia.org", "*.wikimedia.org", "www.wikidata.org"],
        notes: "Refuses with status 200: `maxlag` is overload, `ratelimited` a rate.",
        own: Own {
            headers: &[header("mediawiki-api-error", Meaning::Code)],
            codes: &[
                Code("maxlag", Says::Overloaded),
                Code("ratelimited", Says::Rate),
                Code("readonly", Says::Transient),
            ],
            ok_bodies: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "lens.org",
        hosts: &["api.lens.org"],
        notes: "What is left of a minute, and a wait that only a spent month explains.",
        own: Own {
            headers: &[header("x-rate-limit-reset-date", Meaning::Nothing)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "opensky",
        hosts: &["opensky-network.org"],
        notes: "`X-Rate-Limit-Retry-After-Seconds`.",
        ..Vendor::NONE
    },
    Vendor {
        name: "brave-search",
        also: &["brave"],
        hosts: &["api.search.brave.com"],
        notes: "Limit, remaining, reset and policy as lists: a second and a month; 0 is unlimited.",
        own: Own {
            codes: &[
                Code("QUOTA_LIMITED", Says::Quota),
                Code("QUOTA_EXCEEDED", Says::Quota),
            ],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "tado",
        hosts: &["my.tado.com"],
        notes: "`RateLimit` without a name.",
        ..Vendor::NONE
    },
];
