//! A provider as its user describes it, in the vocabulary of the built-in table.
//!
//! A description becomes a row like any other: the reader cannot tell them apart. It is checked
//! once, and what is wrong is told with the place where it stands. A row is never given back, so
//! describe a provider once, not once a request.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Dimension;

pub use super::values::Unit;
pub use super::vendors::{Anchor, Says};

/// A provider that no row of the table knows, or knows too little of.
///
/// ```
/// use paceline::feedback::{Description, Profile, Rule, Tells};
/// let mut acme = Description::new("acme");
/// acme.hosts = vec!["api.acme.example".into()];
/// acme.headers.insert("x-acme-left".into(), Rule::new(Tells::Remaining));
/// let profile = acme.profile()?;
/// assert!(profile.serves("api.acme.example"));
/// # Ok::<(), paceline::feedback::DescriptionError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct Description {
    /// What it is called. Must not be empty.
    pub name: String,
    /// A known vendor whose own meanings hold too, where this says nothing else.
    pub like: Option<String>,
    /// The hosts that it serves; one `*` in a name stands for one or more labels.
    pub hosts: Vec<String>,
    /// What headers tell, by their names; a name that ends in `*` stands for all that begin so, and
    /// what the star stands for is the scope.
    pub headers: BTreeMap<String, Rule>,
    /// What fields of bodies tell, by their paths: names with dots between them. A path is the end
    /// of one, with a dot before it the whole.
    pub fields: BTreeMap<String, Rule>,
    /// What error codes say, compared to the letter.
    pub codes: BTreeMap<String, Says>,
    /// What statuses say that mean something else elsewhere.
    pub statuses: BTreeMap<String, Says>,
    /// What sentences of messages say.
    pub sentences: Vec<Sentence>,
    /// What counts count that do not say. Default: requests.
    pub counts: Option<Dimension>,
    /// The unit of resets in headers that many vendors use (`X-RateLimit-Reset`). Default: seconds.
    pub reset_unit: Unit,
    /// The windows of quotas that do not say theirs.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "spans"))]
    pub windows: BTreeMap<Dimension, Duration>,
    /// The windows of the places in lists such as `X-RateLimit-Limit: 200, 2000`.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "list_of_spans"))]
    pub places: Vec<Duration>,
    /// It refuses with statuses of success, so bodies of successes are read as well. Every path in
    /// `fields` must then be a whole one.
    pub read_successes: bool,
    /// `Retry-After` means what it says even on a success.
    pub waits_on_success: bool,
    /// The least wait after a refusal that brings no hint, by status; `any` for all others.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "spans"))]
    pub least_wait: BTreeMap<String, Duration>,
    /// When its long quotas come back.
    pub returns: Anchor,
    /// Ends of paths whose POST may be sent again after an error, because it changes nothing.
    pub replays: Vec<String>,
    /// The header by which it recognises a repeated request.
    pub idempotency_header: Option<String>,
    /// The limits are per model: the `model` in the body of a request names its bucket.
    pub bucket_by_model: bool,
    /// The limits are per path: the longest of these beginnings names the bucket of a request; `*`
    /// stands for one part of a path.
    pub bucket_by_path: Vec<String>,
    /// Names of the cap on an answer in requests, beside the usual ones: what a call costs is
    /// estimated by it before it is sent.
    pub output_caps: Vec<String>,
}

/// What a header or a field tells.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct Rule {
    /// Which part of what.
    pub tells: Tells,
    /// Of which dimension. Default: what the description's `counts` says.
    pub of: Option<Dimension>,
    /// The window of the quota, if it is known. Those that tell of one quota share it.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "crate::config::optional_duration::deserialize")
    )]
    pub per: Option<Duration>,
    /// Which of several quotas, or whose. Default: none.
    pub scope: String,
    /// The unit of a time. Default: seconds.
    pub unit: Unit,
    /// For [`Tells::Reason`]: what each word says; one that begins with `*` is the end of a word.
    pub words: BTreeMap<String, Says>,
}

/// Which part of what a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Tells {
    /// The limit of a quota.
    Limit,
    /// What is left of it.
    Remaining,
    /// What was used of it.
    Used,
    /// What was used of it, in percent.
    UsedPercent,
    /// What was used of it, as a share of 1.
    UsedShare,
    /// Used and limit: `32/40`.
    UsedOfLimit,
    /// Limits by window: `20:1,100:120`. Only in headers.
    LimitsByWindow,
    /// Use by window. Only in headers.
    UsedByWindow,
    /// When it comes back: a delay, an epoch or a date, by its form and size.
    Reset,
    /// The length of its window.
    Window,
    /// The name of the bucket that the request was counted in. Only in headers.
    Bucket,
    /// How long to wait.
    Wait,
    /// What the call cost.
    Cost,
    /// An error code.
    Code,
    /// Why it was refused, in words of its own.
    Reason,
    /// Whether to retry: `true` or `false`. Only in headers.
    ShouldRetry,
    /// An HTTP status. Only in fields.
    Status,
    /// Nothing that is needed, although the name looks so.
    #[default]
    Nothing,
}

/// A sentence in a message, with places for what it tells: `{wait}`, `{instant}`, `{limit}`,
/// `{used}`, `{remaining}`, `{cost}`, `{dimension}`, `{window}`, `{reset}`, and `{*}` for anything
/// up to the next word.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct Sentence {
    /// The words, in any case.
    pub words: String,
    /// What they say of the refusal.
    pub says: Option<Says>,
    /// What the counts in it count. Default: what the description's `counts` says.
    pub of: Option<Dimension>,
    /// Nothing is left of the quota that it names.
    pub spent: bool,
    /// The least wait after it. Default: none.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "crate::config::optional_duration::deserialize")
    )]
    pub least_wait: Option<Duration>,
}

/// What is wrong with a description, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct DescriptionError {
    pub(super) place: String,
    pub(super) problem: String,
}

impl DescriptionError {
    /// Where it stands: the name of a field, with dots before those inside.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }
}

impl Rule {
    /// A rule that says nothing more.
    #[must_use]
    pub fn new(tells: Tells) -> Self {
        Self {
            tells,
            ..Self::default()
        }
    }
}

impl Sentence {
    /// A sentence that tells what stands at its places.
    #[must_use]
    pub fn new(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            ..Self::default()
        }
    }
}

impl Description {
    /// A description that says nothing but a name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }
}

#[cfg(feature = "serde")]
fn spans<'de, K, D>(from: D) -> Result<BTreeMap<K, Duration>, D::Error>
where
    K: serde::Deserialize<'de> + Ord,
    D: serde::Deserializer<'de>,
{
    let spans = <BTreeMap<K, Span> as serde::Deserialize>::deserialize(from)?;
    Ok(spans.into_iter().map(|(key, span)| (key, span.0)).collect())
}

#[cfg(feature = "serde")]
fn list_of_spans<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Duration>, D::Error> {
    let spans = <Vec<Span> as serde::Deserialize>::deserialize(from)?;
    Ok(spans.into_iter().map(|span| span.0).collect())
}

/// A duration as files write it.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Span(#[serde(with = "crate::config::duration")] Duration);
