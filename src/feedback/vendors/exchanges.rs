//! Rows: exchanges, chains and prices of shares.

use super::*;

pub(super) static ROWS: &[Vendor] = &[
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
];

/// Use, in the interval that ends the name.
const fn by_interval(name: &'static str, key: Key<'static>) -> Header {
    header(name, Meaning::Whole(key, Form::UsedBySuffix))
}

const WEIGHT: Key<'static> = POINTS.scope("weight");
const ORDERS: Key<'static> = REQUESTS.scope("orders");
