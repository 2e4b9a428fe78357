//! The scheduler under a lock, for programs on tokio.
//!
//! | | |
//! | --- | --- |
//! | [`Limiter`] | one provider; a middleware for `reqwest`, and [`Limiter::call`] for any other client |
//! | [`Limiters`] | one for each host |
//! | [`Ticket`], [`Permit`] | what lies below: a place in the queue, leave to send one attempt |
//! | [`ApiKey`] | a credential that is shown nowhere |
//! | `guide` | what the middleware does with your requests, in eleven answers |
//!
//! A slot is held while the server works: until the headers, and until the end of the body where
//! the body is the work ([`Hold`]). Whoever holds one and does not listen does not hold the others
//! up: while they wait, a grant that is not taken up goes back in the queue, and an attempt that was
//! woken and is not polled is not counted until its owner comes back, both after half the time of an
//! answer (5 ms to 100 ms); a held body that is not read is not counted after a second. The numbers
//! in flight that you have set hold all the same: under `max_concurrency` and `key_concurrency` a
//! held body counts to its end, and under a fixed number too whoever comes back goes on when a slot
//! is free. So `join_all`, `buffer_unordered` and `select!` are safe to use with it.
//!
//! Dropping a future anywhere cancels what it stood for, frees what it held, and sends nothing
//! more.
//!
//! # Telemetry
//!
//! With the feature `metrics` every limiter counts through the facade of that name, and with
//! `tracing` each attempt is a span (`http.client`, by OpenTelemetry's conventions) and each change
//! an event of the target `paceline`. Keys appear as fingerprints, URLs without their query. The
//! name of a limiter is that of [`LimiterBuilder::name`], else of its profile, else its host.
//!
//! | metric | kind | labels beside `paceline.provider` |
//! | --- | --- | --- |
//! | `paceline.attempts` | counter | `paceline.bucket`, `paceline.key`, `paceline.outcome` (8) |
//! | `paceline.repeats` | counter | |
//! | `paceline.unsent` | counter | `error.type` (10) |
//! | `paceline.wait.duration` | histogram, s | `paceline.bucket`, `paceline.priority` (5) |
//! | `paceline.penalties` | counter | `paceline.key`, `paceline.reason` (13) |
//! | `paceline.keys.retired` | counter | `paceline.key`, `error.type` (3) |
//! | `paceline.store.away` | counter | |
//! | `paceline.in_flight`, `paceline.limit`, `paceline.pace` | gauge | `paceline.key` |
//! | `paceline.queue.depth`, `paceline.keys.usable` | gauge | |
//! | `paceline.observed.held`, `paceline.observed.refused` | gauge | |
//! | `http.client.request.duration` | histogram, s | `http.request.method` (10), `server.address` and `server.port`, `http.response.status_code`, `error.type`; not the provider |
//! | `http.client.active_requests` | gauge | `http.request.method`, `server.address`, `server.port`; not the provider |
//!
//! Tenants and groups are no labels. Of a limiter at most 31 buckets, 64 keys and 128 servers have
//! labels of their own, and of the [`Limiters`] of all hosts together at most 128 providers and 128
//! servers; all that is beyond is `_OTHER`: one value more of each, under which counters add up and a
//! gauge shows one of those that share it. So a limiter has at most 32 × 65 × 8 series of attempts,
//! and as many as the numbers in the table multiply to of the others. Gauges are set at most ten
//! times a second. The example `prometheus` exports them.
//!
//! Worth an alert, in the words of Prometheus (the histograms need buckets, as the example sets
//! them):
//!
//! ```text
//! # More than one refusal in fifty over ten minutes: a limit has changed, or others use the keys.
//! sum by (paceline_provider) (rate(paceline_attempts{paceline_outcome="rate_limited"}[10m]))
//!   > 0.02 * sum by (paceline_provider) (rate(paceline_attempts[10m]))
//! # No key can be used; or one was retired.
//! paceline_keys_usable == 0
//! increase(paceline_keys_retired[1h]) > 0
//! # People wait for longer than a second, or requests are not sent at all.
//! histogram_quantile(0.99, sum by (le, paceline_provider)
//!   (rate(paceline_wait_duration_bucket{paceline_priority=~"high|selected"}[5m]))) > 1
//! sum by (paceline_provider, error_type) (rate(paceline_unsent[5m])) > 0
//! # Processes share their limits no more.
//! increase(paceline_store_away[10m]) > 0
//! ```

mod alarms;
mod builder;
mod buyer;
mod claim;
#[cfg(any(feature = "reqwest", feature = "tower"))]
mod classifier;
mod clock;
mod driver;
mod ending;
mod errands;
mod gate;
mod key;
mod limiter;
mod operating;
mod permit;
#[cfg(all(feature = "tower", feature = "reqwest"))]
mod plain;
mod renewal;
mod running;
mod seats;
#[cfg(feature = "tower")]
mod service;
mod silence;
#[cfg(any(feature = "metrics", feature = "tracing"))]
mod telemetry;
mod ticket;
mod watch;

// The middleware of `reqwest`, and what the layer of tower shares with it.
#[cfg(feature = "reqwest")]
mod bill;
#[cfg(feature = "reqwest")]
mod body;
#[cfg(feature = "reqwest")]
mod ear;
#[cfg(any(feature = "reqwest", feature = "tower"))]
mod earlier;
#[cfg(any(feature = "reqwest", feature = "tower"))]
mod extension;
#[cfg(any(feature = "reqwest", feature = "tower"))]
mod front;
#[cfg(feature = "reqwest")]
pub mod guide;
#[cfg(feature = "reqwest")]
mod limiters;
#[cfg(any(feature = "reqwest", feature = "tower"))]
mod marks;
#[cfg(feature = "reqwest")]
mod middleware;
#[cfg(feature = "reqwest")]
mod places;
#[cfg(any(feature = "reqwest", feature = "tower"))]
mod scope;
#[cfg(feature = "reqwest")]
mod wire;

pub use builder::LimiterBuilder;
#[cfg(feature = "shared")]
pub(crate) use buyer::{Agent, Buyer, Opening, Traded};
#[cfg(any(feature = "reqwest", feature = "tower"))]
pub use classifier::Classifier;
pub use clock::Clock;
#[cfg(any(feature = "reqwest", feature = "tower"))]
pub use extension::{AttemptTimeout, Bucket, Deadline, Group, Hold, Pin, Report, Tenant, Until};
#[cfg(feature = "shared")]
pub(crate) use gate::Gate;
pub use key::ApiKey;
pub use limiter::{Changes, Limiter};
#[cfg(feature = "reqwest")]
pub use limiters::Limiters;
pub use permit::{Leave, Permit, Verdict};
pub use renewal::Renewed;
#[cfg(feature = "tower")]
pub use service::{BoxError, Limited, LimiterLayer};
pub use ticket::Ticket;
pub use tokio_util::sync::CancellationToken;
#[cfg(feature = "reqwest")]
pub use wire::http_client;
#[cfg(feature = "reqwest")]
pub(crate) use wire::may_have_acted;
