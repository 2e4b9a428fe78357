//! Rows: maps, markets, research data and exchanges.

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
        name: "infura",
        hosts: &["*.infura.io"],
        notes: "`backoff_seconds` in the body, which means nothing when the day is spent.",
        own: Own {
            codes: &[Code("-32005", Says::Rate)],
            fields: &[
                Field {
                    path: ".error.data.rate.backoff_seconds",
                    means: Told::Wait(Unit::Seconds),
                },
                Field {
                    path: ".error.data.rate.allowed_rps",
                    means: Told::Part(REQUESTS.per(SECOND), Part::Limit),
                },
            ],
            ok_bodies: true,
            anchor: Anchor::MidnightUtc,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "alpha-vantage",
        hosts: &["www.alphavantage.co"],
        notes: "Refuses with status 200 and a sentence, which repeats the key.",
        own: Own {
            texts: &[
                Text {
                    says: Some(Says::Rate),
                    ..tells("rate limit is {limit} requests per {window}", REQUESTS)
                },
                Text {
                    says: Some(Says::Rate),
                    ..tells("frequency is {limit} calls per {window}", REQUESTS)
                },
                means("higher api call frequency", Says::Rate),
                means("rate limit", Says::Rate),
                means("spreading out your free API requests", Says::Rate),
            ],
            ok_bodies: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "etherscan",
        hosts: &["api.etherscan.io"],
        notes: "Refuses with status 200 and a sentence.",
        own: Own {
            texts: &[
                means("rate limit reached", Says::Rate),
                means("max calls per sec", Says::Rate),
                means("invalid api key", Says::Unauthorized),
            ],
            ok_bodies: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "binance",
        hosts: &["api.binance.com", "*.binance.com"],
        notes: "Use by interval without a limit; 418 is a ban of the address, whose end is an epoch in \
                the text; 403 is its firewall.",
        own: Own {
            headers: &[
                header("x-mbx-used-weight", Meaning::Nothing),
                by_interval("x-mbx-used-weight-*", WEIGHT),
                by_interval("x-sapi-used-ip-weight-*", POINTS.scope("ip-weight")),
                by_interval("x-sapi-used-uid-weight-*", POINTS.scope("uid-weight")),
                by_interval("x-mbx-order-count-*", ORDERS),
            ],
            // The balance of a trader is not the money of a key.
            codes: &[
                Code("-1003", Says::Rate),
                Code("-1015", Says::Rate),
                Code("-2010", Says::Fatal),
                Code("-3041", Says::Fatal),
            ],
            texts: &[
                means("insufficient balance", Says::Fatal),
                says("banned until {instant}"),
                tells("current limit is {limit} orders per {window}", ORDERS),
                tells(
                    "current limit is {limit} request weight per {window}",
                    WEIGHT,
                ),
                tells(
                    "current limit of IP({*}) is {limit} requests per {window}",
                    REQUESTS,
                ),
            ],
            statuses: &[(418, Says::Rate), (403, Says::Rate)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "bybit",
        hosts: &["*.bybit.com", "api.bytick.com", "api.bybit.nl"],
        notes: "Status 200 with `retCode` 10006; 403 is the address, for ten minutes.",
        own: Own {
            headers: &[
                limit("x-bapi-limit", REQUESTS),
                remaining("x-bapi-limit-status", REQUESTS),
                reset("x-bapi-limit-reset-timestamp", REQUESTS),
            ],
            codes: &[
                Code("10006", Says::Rate),
                Code("10018", Says::Rate),
                Code("10016", Says::Transient),
                Code("10003", Says::Unauthorized),
            ],
            statuses: &[(403, Says::Rate)],
            ok_bodies: true,
            floors: &[(403, 600)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "kucoin",
        hosts: &["*.kucoin.com"],
        notes: "Weights; the reset is a delay in milliseconds.",
        own: Own {
            headers: &[
                limit("gw-ratelimit-limit", POINTS),
                remaining("gw-ratelimit-remaining", POINTS),
                header(
                    "gw-ratelimit-reset",
                    Meaning::Part(POINTS, Part::Reset(Unit::Millis)),
                ),
            ],
            codes: &[
                Code("429000", Says::Rate),
                Code("200002", Says::Rate),
                Code("1015", Says::Rate),
            ],
            ok_bodies: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "gate.io",
        also: &["gate"],
        hosts: &["*.gateio.ws"],
        notes: "The reset is an epoch, and now while nothing is spent.",
        headers: &[
            limit(
                "x-gate-ratelimit-limit",
                REQUESTS.family("x-gate-ratelimit"),
            ),
            remaining(
                "x-gate-ratelimit-requests-remain",
                REQUESTS.family("x-gate-ratelimit"),
            ),
            reset(
                "x-gate-ratelimit-reset-timestamp",
                REQUESTS.family("x-gate-ratelimit"),
            ),
        ],
        codes: &[Code("TOO_FAST", Says::Rate)],
        ..Vendor::NONE
    },
    Vendor {
        name: "upbit",
        hosts: &["*.upbit.com"],
        notes: "`Remaining-Req: group=default; min=1800; sec=29`: only the second counts.",
        own: Own {
            headers: &[header(
                "remaining-req",
                Meaning::Whole(REQUESTS, Form::PerSecondOfGroup),
            )],
            codes: &[Code("too_many_request", Says::Rate)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "kraken",
        hosts: &["api.kraken.com"],
        notes: "Status 200 with a sentence; a lockout lasts fifteen minutes; \"Throttled\" is too many \
                at once, until an epoch.",
        own: Own {
            texts: &[
                Text {
                    floor: 900,
                    ..means("EGeneral:Temporary lockout", Says::Rate)
                },
                means("EAPI:Rate limit exceeded", Says::Rate),
                means("EOrder:Rate limit exceeded", Says::Rate),
                means("EGeneral:Too many requests", Says::Rate),
                means("EService:Throttled", Says::Concurrency),
                means("EService: Throttled", Says::Concurrency),
                says("Throttled: {instant}"),
                means("EService:Unavailable", Says::Transient),
                means("EService:Busy", Says::Overloaded),
                means("EAPI:Invalid key", Says::Unauthorized),
            ],
            ok_bodies: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "coinbase",
        hosts: &["api.coinbase.com", "api.exchange.coinbase.com"],
        notes: "A message or an id in the body.",
        own: Own {
            // Of the account that pays, not of the one that asks.
            codes: &[Code("insufficient_funds", Says::Fatal)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "alpaca",
        hosts: &[
            "api.alpaca.markets",
            "data.alpaca.markets",
            "paper-api.alpaca.markets",
        ],
        notes: "`X-RateLimit-*` with an epoch.",
        ..Vendor::NONE
    },
    Vendor {
        name: "polygon",
        hosts: &["api.polygon.io"],
        notes: "A sentence; five per minute without a plan.",
        ..Vendor::NONE
    },
    Vendor {
        name: "bitmex",
        hosts: &["www.bitmex.com"],
        notes: "`x-ratelimit-*` with an epoch; `x-ratelimit-remaining-1s` is of a second.",
        ..Vendor::NONE
    },
    Vendor {
        name: "tado",
        hosts: &["my.tado.com"],
        notes: "`RateLimit` without a name.",
        ..Vendor::NONE
    },
];

/// Use, in the interval that ends the name.
const fn by_interval(name: &'static str, key: Key<'static>) -> Header {
    header(name, Meaning::Whole(key, Form::UsedBySuffix))
}

const WEIGHT: Key<'static> = POINTS.scope("weight");
const ORDERS: Key<'static> = REQUESTS.scope("orders");
