//! Rows: shops, payments and books.

use super::*;

pub(super) static ROWS: &[Vendor] = &[
    Vendor {
        name: "stripe",
        hosts: &["api.stripe.com"],
        notes: "`Stripe-Should-Retry`; `Stripe-Rate-Limited-Reason` tells rate from concurrency; 429 \
                with `lock_timeout` is contention, not a limit.",
        headers: &[header("stripe-should-retry", Meaning::ShouldRetry)],
        codes: &[
            Code("lock_timeout", Says::Transient),
            Code("idempotency_key_in_use", Says::Transient),
        ],
        own: Own {
            // A card that was declined says nothing about the key.
            statuses: &[(402, Says::Fatal)],
            headers: &[header(
                "stripe-rate-limited-reason",
                Meaning::Reasons(&[
                    spent("*concurrency", Says::Concurrency, CONCURRENT),
                    reason("*rate", Says::Rate),
                ]),
            )],
            ..Own::NONE
        },
        idempotency: Some("idempotency-key"),
        ..Vendor::NONE
    },
    Vendor {
        name: "shopify",
        hosts: &["*.myshopify.com"],
        notes: "`32/40` is used of limit, a bucket that leaks. GraphQL tells its bucket in every body \
                and refuses with status 200; the wait follows from the cost and the refill. \
                430 is its bot protection.",
        headers: &[header(
            "x-shopify-shop-api-call-limit",
            Meaning::Whole(REQUESTS, Form::UsedOfLimit),
        )],
        own: Own {
            // Its bot protection: no limit, and often gone at the next attempt ("Shopify Security
            // Rejection" in its list of response codes; shopify_graphql 38, shopify-api-js 1030).
            statuses: &[(430, Says::Transient)],
            fields: &[
                Field {
                    path: ".extensions.cost.throttleStatus.maximumAvailable",
                    means: Told::Part(POINTS, Part::Limit),
                },
                Field {
                    path: ".extensions.cost.throttleStatus.currentlyAvailable",
                    means: Told::Part(POINTS, Part::Remaining),
                },
                Field {
                    path: ".extensions.cost.throttleStatus.restoreRate",
                    means: Told::Refill(POINTS),
                },
                Field {
                    path: ".extensions.cost.requestedQueryCost",
                    means: Told::Cost(Dimension::Points),
                },
                Field {
                    path: ".extensions.cost.actualQueryCost",
                    means: Told::Cost(Dimension::Points),
                },
            ],
            ok_bodies: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "xero",
        hosts: &["api.xero.com"],
        notes: "`X-Rate-Limit-Problem` names the limit: minute, day, appminute or concurrent.",
        own: Own {
            headers: &[
                remaining("x-minlimit-remaining", REQUESTS.per(MINUTE).scope("minute")),
                remaining("x-daylimit-remaining", REQUESTS.per(DAY).scope("day")),
                remaining(
                    "x-appminlimit-remaining",
                    REQUESTS.per(MINUTE).scope("appminute"),
                ),
                header(
                    "x-rate-limit-problem",
                    Meaning::Reasons(&[
                        spent("minute", Says::Rate, REQUESTS.per(MINUTE).scope("minute")),
                        spent(
                            "appminute",
                            Says::Rate,
                            REQUESTS.per(MINUTE).scope("appminute"),
                        ),
                        spent("day", Says::Quota, REQUESTS.per(DAY).scope("day")),
                        spent("daily", Says::Quota, REQUESTS.per(DAY).scope("day")),
                        spent(
                            "concurrent",
                            Says::Concurrency,
                            CONCURRENT.scope("concurrent"),
                        ),
                    ]),
                ),
            ],
            anchor: Anchor::MidnightUtc,
            ..Own::NONE
        },
        idempotency: Some("idempotency-key"),
        ..Vendor::NONE
    },
    Vendor {
        name: "quickbooks",
        hosts: &["quickbooks.api.intuit.com"],
        notes: "No hint: sixty seconds by its documentation; code 3001.",
        codes: &[Code("ThrottleExceeded", Says::Rate)],
        own: Own {
            codes: &[Code("3001", Says::Rate)],
            floors: &[(429, 60)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "square",
        hosts: &["connect.squareup.com"],
        notes: "A code in the body.",
        idempotency: Some("idempotency-key"),
        ..Vendor::NONE
    },
    Vendor {
        name: "paypal",
        hosts: &["api-m.paypal.com", "api.paypal.com"],
        notes: "A code in the body.",
        idempotency: Some("paypal-request-id"),
        ..Vendor::NONE
    },
    Vendor {
        name: "adyen",
        hosts: &["*.adyen.com", "*.adyenpayments.com"],
        notes: "429 only.",
        idempotency: Some("idempotency-key"),
        ..Vendor::NONE
    },
    Vendor {
        name: "gocardless",
        hosts: &["api.gocardless.com"],
        notes: "`ratelimit-reset` is an HTTP-date.",
        idempotency: Some("idempotency-key"),
        ..Vendor::NONE
    },
    Vendor {
        name: "exact-online",
        hosts: &["start.exactonline.nl"],
        notes: "Epoch milliseconds; a day and a minute (`Minutely`).",
        ..Vendor::NONE
    },
    Vendor {
        name: "bigcommerce",
        hosts: &["api.bigcommerce.com"],
        notes: "`Requests-Quota`, `Requests-Left`, `Time-Window-Ms`, `Time-Reset-Ms`.",
        headers: &[
            limit(
                "x-rate-limit-requests-quota",
                REQUESTS.family("bigcommerce"),
            ),
            remaining("x-rate-limit-requests-left", REQUESTS.family("bigcommerce")),
            header(
                "x-rate-limit-time-window-ms",
                Meaning::Part(REQUESTS.family("bigcommerce"), Part::Window(Unit::Millis)),
            ),
            header(
                "x-rate-limit-time-reset-ms",
                Meaning::Part(
                    REQUESTS.family("bigcommerce"),
                    Part::ResetAfter(Unit::Millis),
                ),
            ),
        ],
        ..Vendor::NONE
    },
    Vendor {
        name: "prisjakt",
        hosts: &["*.prisjakt.nu", "*.pricespy.com"],
        notes: "The reset is a delay in milliseconds, which nothing marks; the window is an hour.",
        own: Own {
            reset_unit: Unit::Millis,
            windows: &[(Dimension::Requests, HOUR)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
];
