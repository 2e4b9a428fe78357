//! What a caller asks for: which bucket, at what cost, how soon, on whose behalf.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::feedback::Dimension;

/// What a caller wants to send.
///
/// ```
/// use paceline::{Ask, Cost, Priority};
/// let ask = Ask::new().priority(Priority::HIGH).cost(Cost::tokens(900)).bucket("gpt-5");
/// assert_eq!(ask.cost.tokens, 900);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Ask {
    /// What it shares limits with inside the provider; none is the default bucket.
    pub bucket: Option<Name>,
    /// What it is expected to use up. Default: one request.
    pub cost: Cost,
    /// The cost is an estimate: one that is larger than a whole quota waits for all of it, where a
    /// cost that is known to be larger is refused. Default: it is known.
    pub estimated: bool,
    /// Who goes first. Default [`Priority::NORMAL`].
    pub priority: Priority,
    /// On whose behalf it is made.
    pub tenant: Option<Name>,
    /// The cancellable set that it belongs to.
    pub group: Option<Name>,
    /// From submit to the headers of the last attempt, waits included. Default: none.
    pub deadline: Option<Duration>,
    /// Not to be sent sooner than this after submit. Default: at once.
    pub not_before: Option<Duration>,
    /// Whether it may be sent again after it may have been processed.
    pub replay: Replay,
    /// The only key it may go to.
    pub pin: Option<Fingerprint>,
}

impl Ask {
    /// One request of normal priority.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`Ask::bucket`].
    #[must_use]
    pub fn bucket(mut self, bucket: impl Into<Name>) -> Self {
        self.bucket = Some(bucket.into());
        self
    }

    /// Sets [`Ask::cost`].
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Sets [`Ask::cost`] to an estimate.
    #[must_use]
    pub fn estimated(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self.estimated = true;
        self
    }

    /// Sets [`Ask::priority`].
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Sets [`Ask::tenant`].
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<Name>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Sets [`Ask::group`].
    #[must_use]
    pub fn group(mut self, group: impl Into<Name>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Sets [`Ask::deadline`].
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets [`Ask::not_before`].
    #[must_use]
    pub fn not_before(mut self, not_before: Duration) -> Self {
        self.not_before = Some(not_before);
        self
    }

    /// Sets [`Ask::replay`].
    #[must_use]
    pub fn replay(mut self, replay: Replay) -> Self {
        self.replay = replay;
        self
    }

    /// Sets [`Ask::pin`].
    #[must_use]
    pub fn pin(mut self, key: Fingerprint) -> Self {
        self.pin = Some(key);
        self
    }
}

/// A name that a caller gives to a bucket, a tenant or a group.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Cow<'static, str>);

impl Name {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&'static str> for Name {
    fn from(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        Self(Cow::Owned(name))
    }
}

impl From<Cow<'static, str>> for Name {
    fn from(name: Cow<'static, str>) -> Self {
        Self(name)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

/// What a request is expected to use up, beside being one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// Tokens of a language model, input and output together.
    pub tokens: u32,
    /// Tokens in.
    pub input_tokens: u32,
    /// Tokens out.
    pub output_tokens: u32,
    /// A vendor's own unit.
    pub points: u32,
    /// Bytes.
    pub bytes: u32,
}

impl Cost {
    /// One request, nothing else.
    pub const ONE: Self = Self {
        tokens: 0,
        input_tokens: 0,
        output_tokens: 0,
        points: 0,
        bytes: 0,
    };

    /// One request of so many tokens, input and output together.
    #[must_use]
    pub const fn tokens(tokens: u32) -> Self {
        Self {
            tokens,
            ..Self::ONE
        }
    }

    /// One request with a split of its tokens; the sum counts as [`Cost::tokens`].
    #[must_use]
    pub const fn in_out(input_tokens: u32, output_tokens: u32) -> Self {
        let tokens = input_tokens.saturating_add(output_tokens);
        Self {
            tokens,
            input_tokens,
            output_tokens,
            ..Self::ONE
        }
    }

    /// One request of so many of the vendor's own units.
    #[must_use]
    pub const fn points(points: u32) -> Self {
        Self {
            points,
            ..Self::ONE
        }
    }

    /// How much of a tenant's share it takes: its tokens if it has any, else its points or bytes,
    /// and at least one.
    #[must_use]
    pub fn size(&self) -> f64 {
        let tokens = self
            .tokens
            .max(self.input_tokens.saturating_add(self.output_tokens));
        let others = if tokens > 0 {
            tokens
        } else {
            self.points.max(self.bytes)
        };
        f64::from(others.max(1))
    }

    /// Takes so much of one dimension instead; what is beyond any number of units is the most.
    pub(crate) fn set(&mut self, dimension: Dimension, amount: f64) {
        let place = match dimension {
            Dimension::Tokens => &mut self.tokens,
            Dimension::InputTokens => &mut self.input_tokens,
            Dimension::OutputTokens => &mut self.output_tokens,
            Dimension::Points => &mut self.points,
            Dimension::Bytes => &mut self.bytes,
            Dimension::Requests | Dimension::Concurrent | Dimension::Cost => return,
        };
        *place = amount.ceil() as u32;
    }

    /// What it takes of one dimension. A request is one request; of a vendor's unit it takes one
    /// unless told otherwise, of everything else nothing unless told.
    #[must_use]
    pub fn of(&self, dimension: Dimension) -> f64 {
        match dimension {
            Dimension::Requests => 1.0,
            Dimension::Tokens => f64::from(self.tokens),
            Dimension::InputTokens => f64::from(self.input_tokens),
            Dimension::OutputTokens => f64::from(self.output_tokens),
            Dimension::Points => f64::from(self.points.max(1)),
            Dimension::Bytes => f64::from(self.bytes),
            Dimension::Concurrent | Dimension::Cost => 0.0,
        }
    }
}

/// Who goes first: higher before lower. Any number from 0 to 255; the named levels leave room
/// between them.
///
/// Nothing starves, and how far a lower class is overtaken is bounded: while asks `d` points above
/// it wait for all there is, it has one grant at least every `d` seconds, counted from its last one
/// (or from its oldest ask, if it had none since). So [`BACKGROUND`](Self::BACKGROUND) has one every
/// 75 s behind [`HIGH`](Self::HIGH), [`LOW`](Self::LOW) one every 20 s behind
/// [`NORMAL`](Self::NORMAL), and whatever those above leave. In turn a queue below, however long and
/// old, costs those above no more than that grant. Within a class [tenants](Ask::tenant) take turns.
/// What is kept by a [`Reserve`](crate::Reserve) is never lent to those below for having waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(transparent))]
pub struct Priority(pub u8);

/// A number, or the name of a level.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Priority {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u8),
            Text(String),
        }
        match Written::deserialize(from)? {
            Written::Number(number) => Ok(Self(number)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl Priority {
    /// A person has chosen this and waits.
    pub const SELECTED: Self = Self(100);
    /// A person waits.
    pub const HIGH: Self = Self(85);
    /// The default.
    pub const NORMAL: Self = Self(50);
    /// May be wanted soon.
    pub const LOW: Self = Self(30);
    /// Nobody waits.
    pub const BACKGROUND: Self = Self(10);

    /// The named levels, the highest first.
    pub const LEVELS: [(&'static str, Self); 5] = [
        ("selected", Self::SELECTED),
        ("high", Self::HIGH),
        ("normal", Self::NORMAL),
        ("low", Self::LOW),
        ("background", Self::BACKGROUND),
    ];
}

impl fmt::Display for Priority {
    /// The name of its level, or its number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::LEVELS.iter().find(|(_, level)| level == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for Priority {
    type Err = PriorityError;

    /// The name of a level, or a number from 0 to 255.
    fn from_str(text: &str) -> Result<Self, PriorityError> {
        let named = Self::LEVELS.iter().find(|(name, _)| *name == text);
        if let Some(&(_, level)) = named {
            return Ok(level);
        }
        text.parse().map(Self).map_err(|_| PriorityError {
            text: text.chars().take(40).collect(),
        })
    }
}

/// What is no priority.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no priority: give a number from 0 to 255, or selected, high, normal, low or \
     background"
)]
pub struct PriorityError {
    text: String,
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// Whether a request may be sent again. Connect errors are never sent, and so always repeated
/// while the body can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Replay {
    /// After a refusal always; after an error that may have come after the work was done only if
    /// the method is idempotent or the request carries an `Idempotency-Key`. An ask made without a
    /// request counts as not idempotent.
    #[default]
    Auto,
    /// After refusals and errors.
    Always,
    /// Send it once, whatever comes back.
    Never,
}

/// A key as it may be shown: a hash of its secret, as twelve hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 6]);

impl Fingerprint {
    /// The anonymous key of a limiter without keys.
    pub const ANONYMOUS: Self = Self([0; 6]);

    /// A fingerprint from the first bytes of a cryptographic hash of the secret.
    #[must_use]
    pub const fn from_hash(hash: [u8; 6]) -> Self {
        Self(hash)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ANONYMOUS {
            return f.write_str("anonymous");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Fingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(from)?;
        let wrong = || {
            serde::de::Error::custom(format!(
                "{text:?} is no fingerprint of a key: twelve hexadecimal digits, or anonymous"
            ))
        };
        if text == "anonymous" {
            return Ok(Self::ANONYMOUS);
        }
        if text.len() != 12 || !text.is_ascii() {
            return Err(wrong());
        }
        let mut bytes = [0; 6];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
