//! The table: one row per vendor, and the index over it.
//!
//! A row is data. Its `headers`, `codes` and `texts` mean the same whoever sends them and are read
//! from every response; what stands under `own` is read only where the vendor is known. To add a
//! vendor, add a row and a fixture.

mod clouds;
mod commerce;
mod customers;
mod data;
mod exchanges;
mod gateways;
mod inference;
mod media;
mod models;
mod platforms;
mod shorthand;
mod social;
mod work;

use self::shorthand::*;
use super::values::Unit;
use super::{Dimension, Fault};

/// One vendor.
#[derive(Debug)]
pub(crate) struct Vendor {
    /// By this name a profile is asked for.
    pub(crate) name: &'static str,
    /// Other names that it goes by.
    pub(crate) also: &'static [&'static str],
    /// Hosts that it serves; `*.` stands for any labels before.
    pub(crate) hosts: &'static [&'static str],
    /// What is worth knowing about its signals, in a sentence or two.
    pub(crate) notes: &'static str,
    /// Headers whose names nobody else uses for something else.
    pub(crate) headers: &'static [Header],
    /// Error codes that nobody else uses for something else.
    pub(crate) codes: &'static [Code],
    /// Sentences that nobody else uses for something else.
    pub(crate) texts: &'static [Text],
    /// Fields of error bodies that nobody else uses for something else.
    pub(crate) fields: &'static [Field],
    /// What is read only if the response is known to come from this vendor.
    pub(crate) own: Own,
    /// Paths whose POST may be sent again after an error: generation calls, which change nothing.
    pub(crate) replays: &'static [&'static str],
    /// The header by which the server recognises a repeated request.
    pub(crate) idempotency: Option<&'static str>,
    /// It is not of the table: its user has described it.
    pub(crate) described: bool,
}

/// What a vendor is known to mean by signals that others use differently, or not at all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) headers: &'static [Header],
    pub(crate) codes: &'static [Code],
    pub(crate) texts: &'static [Text],
    pub(crate) fields: &'static [Field],
    /// Statuses that do not mean here what they mean elsewhere.
    pub(crate) statuses: &'static [(u16, Says)],
    /// What its unlabelled counts count.
    pub(crate) unit: Dimension,
    /// What its structured items count where they do not say.
    pub(crate) item_unit: Dimension,
    /// The scopes whose unlabelled counts are points, whatever `unit` says.
    pub(crate) point_scopes: &'static [&'static str],
    /// The unit of its unlabelled resets.
    pub(crate) reset_unit: Unit,
    /// The windows of its limits without one, in seconds.
    pub(crate) windows: &'static [(Dimension, u32)],
    /// The windows of the places in its lists, in seconds.
    pub(crate) places: &'static [u32],
    /// The scope of readings from its lists.
    pub(crate) list_scope: &'static str,
    /// A refusal may come with a status of success, so its bodies are read as well.
    pub(crate) ok_bodies: bool,
    /// `Retry-After` means what it says even on a success.
    pub(crate) ok_waits: bool,
    /// A limit of 0 that is used up is its word for the concurrency limit.
    pub(crate) zero_is_concurrency: bool,
    /// A reading that a refusal shows as spent comes back when the hint has passed.
    pub(crate) spent_resets_with_wait: bool,
    /// Readings without a reset take the one of the unlabelled reading.
    pub(crate) shared_reset: bool,
    /// The least wait after a refusal that brings no hint, in seconds by status (0 for all): the
    /// vendor's own rule.
    pub(crate) floors: &'static [(u16, u32)],
    /// When its long quotas come back.
    pub(crate) anchor: Anchor,
    /// What names the bucket of a request.
    pub(crate) bucket: Bucketing,
    /// Names of the cap on an answer, beside the usual ones.
    pub(crate) caps: &'static [&'static str],
}

/// What names the bucket of a request before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bucketing {
    /// Nothing: all requests share their limits, as far as is known.
    None,
    /// The `model` in its body.
    Model,
    /// The model in its path, between `/models/` and the colon.
    ModelInPath,
    /// The longest of these beginnings of its path; `*` stands for one part of a path.
    Paths(&'static [&'static str]),
}

/// When a long quota comes back whose response does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Anchor {
    /// Not known.
    #[default]
    None,
    /// At midnight in Greenwich.
    MidnightUtc,
    /// At midnight in California.
    MidnightPacific,
    /// At the next quarter of an hour; a day's quota at midnight in Greenwich.
    QuarterHour,
}

/// A header, and what its value says. A name that ends in `*` stands for all that begin so; what
/// the star stands for names the reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) name: &'static str,
    pub(crate) means: Meaning<'static>,
}

/// What a header's value says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Meaning<'a> {
    /// A part of a reading.
    Part(Key<'a>, Part),
    /// Whole readings in one value.
    Whole(Key<'a>, Form),
    /// `Retry-After`.
    RetryAfter,
    /// How long a cache kept the response.
    Age,
    /// How long to wait, in a header of the vendor's own.
    Wait(Unit),
    /// The same; 0 is none.
    WaitUnlessZero(Unit),
    /// The same, and the reset of a reading too.
    WaitAndReset(Key<'a>, Unit),
    /// Whether to retry.
    ShouldRetry,
    /// How long to wait in milliseconds; a negative number means: do not retry.
    Pushback,
    /// An error code.
    Code,
    /// Why it was refused.
    Reasons(&'static [Reason]),
    /// A sentence about the refusal.
    Message,
    /// How the call ended, whatever the status of the response.
    Outcome(&'static [Reason]),
    /// What its mere presence on a refusal says.
    Shows(Says),
    /// What this call cost.
    Cost(Dimension),
    /// Nothing that is needed, although the name looks so.
    Nothing,
}

/// Which reading a header speaks of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Key<'a> {
    /// The spelling that its companions share.
    pub(crate) family: &'a str,
    pub(crate) dimension: Dimension,
    /// Seconds; 0 if the name does not say.
    pub(crate) window: u32,
    /// Empty if the name does not say.
    pub(crate) scope: &'a str,
    /// The name says neither dimension nor window nor scope: companions speak of it.
    pub(crate) plain: bool,
    /// The number that all equal keys of the table have; 0 for one that is not of the table.
    pub(crate) id: u16,
}

/// Which part of a reading a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub(crate) enum Part {
    Limit,
    Remaining,
    /// Remaining, with commas between thousands.
    GroupedRemaining,
    Used,
    /// Used, in percent.
    UsedPercent,
    /// Used, as a share of 1.
    UsedShare,
    Reset(Unit),
    /// A reset that is a delay by its name: it beats one that needs a clock.
    ResetAfter(Unit),
    /// A reset as a date beside one as a number.
    ResetDate,
    Window(Unit),
    /// What names the bucket.
    Bucket,
    /// Whose limit it is; a bucket's name beats it.
    Scope,
    /// Which limit a refusal hit.
    Reason,
    /// Structured: the policies.
    Policy,
    /// Structured: what is left now.
    Item,
}

/// A value that holds whole readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub(crate) enum Form {
    /// `32/40`: used of limit.
    UsedOfLimit,
    /// `api-usage=18/15000; per-app-api-usage=17/250(appName=x)`
    NamedUsage,
    /// `total=100; remaining=99; resets=41`
    Assignments,
    /// `b=per_hour;q=100;r=90;t=3600,b=per_day;…`
    Buckets,
    /// `20:1,100:120`: limits by window.
    LimitsByWindow,
    /// `3:1,57:120`: use by window.
    UsedByWindow,
    /// `Area/Name3Min;133,Area/Name30Min;657`
    NamedRemaining,
    /// `60:transaction;span:key, 2700::organization:reason`
    Categories,
    /// `group=default; min=1800; sec=29`
    PerSecondOfGroup,
    /// JSON with percentages by name.
    Percentages,
    /// Used, in the window that ends the header's name: `x-used-1m`.
    UsedBySuffix,
}

/// A word in a reason header, and what it says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reason {
    /// The whole value, in any case; with a `*` before it, its end.
    pub(crate) word: &'static str,
    pub(crate) says: Says,
    /// The reading that it names.
    pub(crate) names: Option<Key<'static>>,
    /// Nothing is left of that reading.
    pub(crate) spent: bool,
    /// It comes back when the hint has passed.
    pub(crate) resets_with_wait: bool,
}

/// An error code, and what it says. Compared to the letter: `QuotaExceeded` is a second at one
/// vendor, `quotaExceeded` a day at another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code(pub(crate) &'static str, pub(crate) Says);

/// A sentence in a message, with places for what it tells: `{wait}`, `{instant}`, `{limit}`,
/// `{used}`, `{remaining}`, `{cost}`, `{dimension}`, `{window}`, `{reset}`, and `{*}` for anything
/// up to the next word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    pub(crate) words: &'static str,
    pub(crate) says: Option<Says>,
    pub(crate) names: Key<'static>,
    pub(crate) spent: bool,
    /// The least wait that the vendor's documentation asks for, in seconds.
    pub(crate) floor: u32,
}

/// A field of a body: its path ends so, with dots between names; with a dot before it, it is the
/// whole path. Where bodies of successes are read only whole paths are safe: an application's data
/// can have any name somewhere inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) path: &'static str,
    pub(crate) means: Told,
}

/// What a body's field says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Told {
    Part(Key<'static>, Part),
    Wait(Unit),
    /// What the call costs.
    Cost(Dimension),
    /// The pace at which a bucket refills, per second.
    Refill(Key<'static>),
    /// An HTTP status.
    Status,
    /// Why it was refused.
    Reasons(&'static [Reason]),
    /// An error code.
    Code,
}

/// What a code, a reason or a sentence says about a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Says {
    /// Too fast.
    Rate,
    /// Too many at once.
    Concurrency,
    /// The service is full.
    Overloaded,
    /// It may work the next time.
    Transient,
    /// A long quota is spent.
    Quota,
    /// No money is left.
    Funds,
    /// The key is not accepted.
    Unauthorized,
    /// The key was taken away.
    Revoked,
    /// It will never work.
    Fatal,
}

impl Says {
    /// Why the key itself is refused, if that is what it says.
    pub(crate) const fn fault(self) -> Option<Fault> {
        match self {
            Self::Funds => Some(Fault::OutOfFunds),
            Self::Unauthorized => Some(Fault::Unauthorized),
            Self::Revoked => Some(Fault::Revoked),
            _ => None,
        }
    }
}

impl Vendor {
    /// A row that says nothing.
    pub(crate) const NONE: Self = Self {
        name: "none",
        also: &[],
        hosts: &[],
        notes: "",
        headers: &[],
        codes: &[],
        texts: &[],
        fields: &[],
        own: Own::NONE,
        replays: &[],
        idempotency: None,
        described: false,
    };
}

impl Own {
    /// Nothing is known.
    pub(crate) const NONE: Self = Self {
        headers: &[],
        codes: &[],
        texts: &[],
        fields: &[],
        statuses: &[],
        unit: Dimension::Requests,
        item_unit: Dimension::Requests,
        point_scopes: &[],
        reset_unit: Unit::Seconds,
        windows: &[],
        places: &[],
        list_scope: "",
        ok_bodies: false,
        ok_waits: false,
        zero_is_concurrency: false,
        spent_resets_with_wait: false,
        shared_reset: false,
        floors: &[],
        anchor: Anchor::None,
        bucket: Bucketing::None,
        caps: &[],
    };
}

impl Key<'static> {
    /// A reading of a dimension.
    pub(crate) const fn of(dimension: Dimension) -> Self {
        Self {
            family: "",
            dimension,
            window: 0,
            scope: "",
            plain: false,
            id: 0,
        }
    }

    /// Per so many seconds.
    pub(crate) const fn per(self, window: u32) -> Self {
        Self { window, ..self }
    }

    /// Of a scope.
    pub(crate) const fn scope(self, scope: &'static str) -> Self {
        Self { scope, ..self }
    }

    /// Told by a family of headers.
    pub(crate) const fn family(self, family: &'static str) -> Self {
        Self { family, ..self }
    }

    /// The reading that a family's unlabelled counts make up.
    pub(crate) const fn plain(self, family: &'static str) -> Self {
        Self {
            family,
            plain: true,
            ..self
        }
    }
}

/// All rows, in the order of the files.
pub(crate) static VENDORS: [&[Vendor]; 12] = [
    gateways::ROWS,
    models::ROWS,
    inference::ROWS,
    platforms::ROWS,
    clouds::ROWS,
    commerce::ROWS,
    customers::ROWS,
    work::ROWS,
    social::ROWS,
    media::ROWS,
    data::ROWS,
    exchanges::ROWS,
];

/// The row of this name. Does not compile where none has it.
pub(crate) const fn row(name: &str) -> &'static Vendor {
    let mut file = 0;
    while file < VENDORS.len() {
        let mut at = 0;
        while at < VENDORS[file].len() {
            if same(VENDORS[file][at].name.as_bytes(), name.as_bytes()) {
                return &VENDORS[file][at];
            }
            at += 1;
        }
        file += 1;
    }
    panic!("no vendor has this name")
}

/// Whether two names are equal, for the compiler.
pub(crate) const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// The rows one after the other.
pub(crate) fn all() -> impl Iterator<Item = &'static Vendor> {
    VENDORS.iter().copied().flatten()
}
