//! What one HTTP response says about limits: bytes in, [`Feedback`] out.
//!
//! Invariants: nothing here panics, allocates without bound, reads a clock or guesses. A value
//! that cannot be read is unknown, never zero; numbers from a server are matched as a whole by a
//! grammar first and saturate afterwards. Absolute times end here: everything that leaves this
//! module is a duration from the moment the response was received.
//!
//! Which vendors are known, and by what, stands in the [`catalogue`].

mod body;
mod buckets;
pub mod catalogue;
mod classify;
mod codes;
mod dates;
mod describing;
mod description;
mod draft;
mod durations;
mod estimate;
mod events;
mod fields;
mod findings;
mod forms;
mod headers;
mod index;
mod json;
mod names;
mod profile;
mod prose;
mod scope;
mod sentence;
mod spending;
mod tally;
mod text;
mod usage;
mod values;
mod vendors;
mod wordings;
mod xml;

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header};
use smallvec::SmallVec;

use self::findings::Findings;
use self::vendors::{Part, Vendor};

pub use description::{Anchor, Description, DescriptionError, Rule, Says, Sentence, Tells, Unit};
pub use estimate::{Estimate, estimate};
pub use events::read_event;
pub use profile::Profile;
pub use usage::read_usage;

/// Reads one response.
///
/// `body` is as much of the body as the caller has; only its first 8 KiB are looked at, and only
/// where [`Profile::wants_body`] says so, or where a language model tells its usage. `received` is
/// the wall clock at the moment the headers came: absolute times are measured against the
/// response's own `Date`, and against `received` where it has none.
#[must_use]
pub fn read(
    profile: &Profile,
    status: StatusCode,
    headers: &HeaderMap,
    body: Option<&[u8]>,
    received: SystemTime,
) -> Feedback {
    let vendor = profile.vendor();
    let refused = status.as_u16() >= 400;
    let date = headers.get(header::DATE).and_then(|date| {
        dates::imf(date.as_bytes())
            .or_else(|| dates::read(date.as_bytes(), nanos(received) / 1_000_000_000))
    });
    let now = date.map_or_else(
        || nanos(received),
        |secs| secs.saturating_mul(1_000_000_000),
    );
    let mut found = Findings::new(now);
    headers::read(&mut found, vendor, headers);
    if let Some(body) = body {
        let kind = headers
            .get(header::CONTENT_TYPE)
            .map_or(&b""[..], |kind| kind.as_bytes());
        let page = codes::contains(kind, b"text/html");
        if !page && (refused || vendor.own.ok_bodies || !vendor.replays.is_empty()) {
            body::read(&mut found, vendor, refused, body);
        }
        found.evidence.spoke |= page;
    }
    conclude(&mut found, vendor, status.as_u16(), date)
}

/// Puts the findings together.
fn conclude(found: &mut Findings<'_>, vendor: &Vendor, status: u16, date: Option<i64>) -> Feedback {
    let own = &vendor.own;
    if found.cached {
        found.tally.drafts.clear();
        found.tally.lists.clear();
    }
    if !found.tally.lists.is_empty() {
        fields::settle(&mut found.tally, own);
    }
    let mut wait = found.wait();
    // A wait may be absurd, and is only cut; as a reset it would be unknown.
    let plausible = wait.filter(|wait| wait.delay <= values::LONGEST_RESET);
    if let (Some(key), Some(wait)) = (found.resets_with_wait, plausible) {
        found.tally.reset_at(&key, wait.delay, wait.grain);
    }
    for policy in std::mem::take(&mut found.violated) {
        found.tally.violated(policy);
    }
    if let Some(wait) = plausible.filter(|_| own.spent_resets_with_wait && status >= 400) {
        found.tally.reset_spent(wait.delay, wait.grain);
    }
    found.tally.settle(own, status < 400);
    let (class, fault, cause) = classify::classify(status, own, found);
    // On a success a delay counts where something is still to come, or where the vendor says so:
    // some servers mirror a reset there.
    let heard = class != Class::Ok || status == 202 || (300..400).contains(&status) || own.ok_waits;
    wait = wait.filter(|_| heard);
    let mut said = Feedback {
        class,
        fault,
        cause,
        wait,
        should_retry: found.should_retry,
        bucket: found.tally.label(Part::Bucket).and_then(scope::owned),
        date: date.and_then(|date| u64::try_from(date).ok()),
        ..Feedback::default()
    };
    if class != Class::Ok {
        said.floor = floor(found, vendor, status, class, wait);
    }
    if !found.cost.is_empty() {
        said.cost = std::mem::take(&mut found.cost);
    }
    found.tally.tell(&mut said.readings);
    said
}

/// The least wait that the vendor is known to want where the response brings no hint.
fn floor(
    found: &Findings<'_>,
    vendor: &Vendor,
    status: u16,
    class: Class,
    wait: Option<Wait>,
) -> Option<Duration> {
    let own = &vendor.own;
    let now = found.tally.now.div_euclid(1_000_000_000);
    // A header that names minutes or more was reckoned; seconds, or a field of the body, are the pause
    // that the same server asks for after any refusal (Infura, Gemini).
    let is_reckoned = wait.is_some_and(|wait| {
        let header = matches!(
            wait.source,
            WaitSource::VendorHeader | WaitSource::RetryAfter
        );
        header && wait.delay >= LEAST_RECKONED
    });
    match class {
        Class::QuotaExhausted if is_reckoned => None,
        Class::QuotaExhausted if own.anchor != Anchor::None => {
            classify::returns_at(own.anchor, now)
        }
        Class::QuotaExhausted if found.evidence.of_google => {
            classify::returns_at(Anchor::MidnightPacific, now)
        }
        Class::RateLimited if wait.is_none() => {
            let rule = own
                .floors
                .iter()
                .find(|(known, _)| *known == status || *known == 0);
            let seconds = rule.map_or(0, |(_, seconds)| *seconds).max(found.floor);
            let spent = found
                .tally
                .drafts
                .iter()
                .any(|draft| draft.spent() && draft.reset.is_some());
            match seconds {
                _ if spent => None,
                0 => classify::next_quarter(own.anchor, now),
                seconds => Some(Duration::from_secs(u64::from(seconds))),
            }
        }
        _ => None,
    }
}

/// Pauses after any refusal are shorter: 30 s at Infura, 31 s at Gemini.
const LEAST_RECKONED: Duration = Duration::from_secs(60);

/// Nanoseconds since 1970, saturated.
fn nanos(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
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

impl Feedback {
    /// Whether the quota that is spent is everybody's who shares an account or an address, and not
    /// the key's alone.
    #[must_use]
    pub fn is_account_wide(&self) -> bool {
        self.spent_scopes().any(scope::is_account)
    }

    /// A refusal of a vendor whose limits are per model, where it names no other bucket.
    #[cfg(feature = "reqwest")]
    pub(crate) fn count_in(&mut self, bucket: &str) {
        let limited = matches!(self.class, Class::RateLimited | Class::QuotaExhausted);
        let elsewhere = self.bucket.is_some() || self.spent_scopes().next().is_some();
        if limited && self.fault.is_none() && !elsewhere {
            self.bucket = scope::owned(bucket);
        }
    }

    fn spent_scopes(&self) -> impl Iterator<Item = &str> {
        let spent = |reading: &&Reading| reading.remaining == Some(0.0);
        self.readings
            .iter()
            .filter(spent)
            .filter_map(|reading| reading.scope.as_deref())
    }
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

impl Fault {
    /// In words, for messages.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::Revoked => "revoked",
            Self::OutOfFunds => "out of funds",
        }
    }
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

impl Reading {
    /// Whether it speaks of some of the requests only, which the server tells apart by what is in
    /// them (a category of Sentry's: `error@organization`), and says nothing of the others.
    pub(crate) fn is_of_a_part(&self) -> bool {
        let category = self
            .scope
            .as_deref()
            .and_then(|scope| scope.split_once('@'));
        category.is_some_and(|(category, _)| category != "*")
    }
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

impl Dimension {
    /// In words, for messages.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::InputTokens => "input tokens",
            Self::OutputTokens => "output tokens",
            Self::Concurrent => "requests at once",
            Self::Points => "points",
            Self::Bytes => "bytes",
            Self::Cost => "money",
        }
    }
}
