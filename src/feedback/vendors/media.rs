//! Rows: music, films, pictures and games.

use super::*;

pub(super) static ROWS: &[Vendor] = &[
    Vendor {
        name: "spotify",
        hosts: &["api.spotify.com"],
        notes: "`Retry-After` of up to 22 hours.",
        ..Vendor::NONE
    },
    Vendor {
        name: "twitch",
        hosts: &["api.twitch.tv"],
        notes: "Points that refill all the time; an epoch under the name of the standard.",
        own: Own {
            unit: Dimension::Points,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "riot-games",
        also: &["riot"],
        hosts: &["*.api.riotgames.com"],
        notes: "`20:1,100:120` are limits by window, in any order; `X-Rate-Limit-Type: service` is its \
                back end's protection.",
        own: Own {
            headers: &[
                header(
                    "x-app-rate-limit",
                    Meaning::Whole(REQUESTS.scope("app"), Form::LimitsByWindow),
                ),
                header(
                    "x-app-rate-limit-count",
                    Meaning::Whole(REQUESTS.scope("app"), Form::UsedByWindow),
                ),
                header(
                    "x-method-rate-limit",
                    Meaning::Whole(REQUESTS.scope("method"), Form::LimitsByWindow),
                ),
                header(
                    "x-method-rate-limit-count",
                    Meaning::Whole(REQUESTS.scope("method"), Form::UsedByWindow),
                ),
                header(
                    "x-rate-limit-type",
                    Meaning::Reasons(&[
                        reason("service", Says::Overloaded),
                        reason("application", Says::Rate),
                        reason("method", Says::Rate),
                    ]),
                ),
            ],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "imgur",
        hosts: &["api.imgur.com"],
        notes: "Credits per user and client; one reset an epoch, another a delay.",
        own: Own {
            headers: &[
                limit("x-ratelimit-userlimit", POINTS.scope("user")),
                remaining("x-ratelimit-userremaining", POINTS.scope("user")),
                reset("x-ratelimit-userreset", POINTS.scope("user")),
                limit("x-ratelimit-clientlimit", POINTS.per(DAY).scope("client")),
                remaining(
                    "x-ratelimit-clientremaining",
                    POINTS.per(DAY).scope("client"),
                ),
                reset("x-ratelimit-clientreset", POINTS.per(DAY).scope("client")),
                limit("x-post-rate-limit-limit", POINTS.scope("post")),
                remaining("x-post-rate-limit-remaining", POINTS.scope("post")),
                reset("x-post-rate-limit-reset", POINTS.scope("post")),
            ],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "vimeo",
        hosts: &["api.vimeo.com"],
        notes: "The reset was seen as RFC 3339, HTTP-date and epoch.",
        ..Vendor::NONE
    },
    Vendor {
        name: "trakt",
        hosts: &["api.trakt.tv"],
        notes: "`X-Ratelimit` is JSON; its `until` can be far later than `Retry-After`.",
        ..Vendor::NONE
    },
    Vendor {
        name: "discogs",
        hosts: &["api.discogs.com"],
        notes: "`X-Discogs-Ratelimit` is the limit of a minute that moves.",
        headers: &[limit(
            "x-discogs-ratelimit",
            REQUESTS.plain("x-discogs-ratelimit"),
        )],
        ..Vendor::NONE
    },
    Vendor {
        name: "musicbrainz",
        hosts: &["musicbrainz.org"],
        notes: "503 with nothing left is its word for too fast.",
        texts: &[means("exceeding the allowable rate limit", Says::Rate)],
        own: Own {
            statuses: &[(503, Says::Rate)],
            ..Own::NONE
        },
        ..Vendor::NONE
    },
    Vendor {
        name: "opensubtitles",
        hosts: &["api.opensubtitles.com"],
        notes: "406 is its word for a spent day of downloads, which only bodies tell of, those of \
                successes too.",
        own: Own {
            fields: &[
                Field {
                    path: ".requests",
                    means: Told::Part(DOWNLOADS, Part::Used),
                },
                Field {
                    path: ".remaining",
                    means: Told::Part(DOWNLOADS, Part::Remaining),
                },
                Field {
                    path: ".reset_time_utc",
                    means: Told::Part(DOWNLOADS, Part::Reset(Unit::Seconds)),
                },
            ],
            statuses: &[(406, Says::Quota)],
            ok_bodies: true,
            ..Own::NONE
        },
        ..Vendor::NONE
    },
];

const DOWNLOADS: Key<'static> = REQUESTS.per(DAY).scope("downloads");
