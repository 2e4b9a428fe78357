//! What one HTTP response says about limits: bytes in, [`Feedback`] out.
//!
//! Invariants: nothing here panics, allocates without bound, reads a clock or guesses. A value
//! that cannot be read is unknown, never zero; numbers from a server are matched as a whole by a
//! grammar first and saturate afterwards. Absolute times end here: everything that leaves this
//! module is a duration from the moment the response was received.

mod profile;

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use smallvec::SmallVec;

pub use profile::Profile;

/// Reads one response.
///
/// `body` is as much of the body as the caller has; only its first 8 KiB are looked at. `received`
/// is the wall clock at the moment the headers came.
#[must_use]
pub fn read(
    _profile: &Profile,
    status: StatusCode,
    _headers: &HeaderMap,
    _body: Option<&[u8]>,
    _received: SystemTime,
) -> Feedback {
    let class = match status.as_u16() {
        0..400 => Class::Ok,
        429 => Class::RateLimited,
        529 => Class::Overloaded,
        408 | 425 | 500.. => Class::Transient,
        _ => Class::Fatal,
    };
    Feedback {
        class,
        ..Feedback::default()
    }
}

/// What one response said.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Feedback {
    /// What kind of answer it was.
    pub class: Class,
    /// Why the key itself was refused, if it was.
    pub fault: Option<Fault>,
    /// What a refusal named as its cause, if it named one.
    pub cause: Option<Cause>,
    /// How long the server asked to wait.
    pub wait: Option<Wait>,
    /// The least wait that the profile knows for this refusal: a vendor's rule where the wire is
    /// silent, or the moment at which an exhausted budget comes back.
    pub floor: Option<Duration>,
    /// The server's own word on whether a retry makes sense (`x-should-retry` and its kin).
    pub should_retry: Option<bool>,
    /// Every quota that the response told, in the order in which they were read.
    pub readings: SmallVec<[Reading; 4]>,
    /// What this call cost, per dimension, where the response says so.
    pub cost: SmallVec<[(Dimension, f64); 2]>,
    /// The bucket that the server says the request was counted in.
    pub bucket: Option<Cow<'static, str>>,
    /// The server's `Date` as seconds since 1970, if it had a readable one.
    pub date: Option<u64>,
}

/// What kind of answer a response was. It decides who is spared and who waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Class {
    /// It was served.
    #[default]
    Ok,
    /// Refused for going too fast: wait, and go on.
    RateLimited,
    /// Refused for a budget that does not come back soon: a day's quota, or money.
    QuotaExhausted,
    /// The service is full, whoever asks.
    Overloaded,
    /// A fault that may be gone at the next attempt.
    Transient,
    /// Refused for good.
    Fatal,
}

/// Why a key itself is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Fault {
    /// 401 or 403 of the key, without more words.
    Unauthorized,
    /// The text says that the key was revoked, disabled or deleted: never try it elsewhere.
    Revoked,
    /// No money or credit is left.
    OutOfFunds,
}

/// What a refusal named as the limit that was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Cause {
    /// Too many requests, tokens or bytes for the time.
    Rate,
    /// Too many requests at the same time.
    Concurrency,
}

/// How long a server asked to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// From the moment the response was received. Never shortened by paceline.
    pub delay: Duration,
    /// How far the true delay may lie below `delay` because the server rounded up: one second for
    /// a whole-second `Retry-After`, one millisecond for `retry-after-ms`.
    pub grain: Duration,
    /// Where it stood.
    pub source: WaitSource,
}

/// Where a wait hint was found. Earlier ones win over later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum WaitSource {
    /// A vendor's own header (`retry-after-ms`, `x-retry-in`, …).
    VendorHeader,
    /// `Retry-After`.
    RetryAfter,
    /// A field of a structured body.
    Body,
    /// A sentence in a structured body.
    Text,
}

/// One quota as a response told it. Every part may be missing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reading {
    /// What is counted.
    pub dimension: Dimension,
    /// The server's limit: finite, not negative, may be a fraction.
    pub limit: Option<f64>,
    /// What is left of it: finite, not negative.
    pub remaining: Option<f64>,
    /// What was used of it, where the wire states it.
    pub used: Option<f64>,
    /// When it comes back.
    pub reset: Option<Reset>,
    /// The length of the window, where the wire or a profile states it.
    pub window: Option<Duration>,
    /// Which of the server's limits this is, or for whom it counts: "user", "search", "global".
    pub scope: Option<Cow<'static, str>>,
}

/// When a quota comes back. The true moment lies in `(after - grain, after]` from the moment the
/// response was made, which for [`Clock::Server`] also carries the error of comparing clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reset {
    /// From the moment of receipt, rounded up to a millisecond.
    pub after: Duration,
    /// How coarsely the server rounded.
    pub grain: Duration,
    /// What it was measured by.
    pub clock: Clock,
}

/// What the time of a [`Reset`] was measured by.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Clock {
    /// A duration: no clock is involved.
    Delta,
    /// An instant on the server's clock, in seconds since 1970. `after` is that instant measured
    /// against `Date` (whole seconds), else against the time of receipt.
    Server(f64),
}

/// What a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Dimension {
    /// Requests.
    Requests,
    /// Tokens of a language model, input and output together.
    Tokens,
    /// Tokens in.
    InputTokens,
    /// Tokens out.
    OutputTokens,
    /// Requests at the same time.
    Concurrent,
    /// A vendor's own unit, or percent of an unknown one.
    Points,
    /// Bytes.
    Bytes,
    /// Money.
    Cost,
}
