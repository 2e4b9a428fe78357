//! The vocabulary that the parts of the scheduler and its shell exchange: plain data, no behaviour
//! beyond making and reading it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::feedback::{Dimension, Fault, Feedback};

use super::time::Time;

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

/// Who goes first: higher before lower. A waiting ask gains a point a second, so that nothing
/// starves: an ask of priority p is overtaken only by asks of priority p + d that came at most
/// d seconds later. Any number from 0 to 255; the named levels leave room between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u8);

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

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The place of a key in its limiter. Never used again for another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub(crate) u32);

impl KeyId {
    /// The place as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An ask that was accepted: waiting or in flight. Never used again for another ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// Leave to send one attempt of a ticket on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// Whose turn it is.
    pub ticket: Ticket,
    /// The key to send it on.
    pub key: KeyId,
    /// 1 for the first attempt.
    pub attempt: u32,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "one per attempt; a box would allocate for each"
)]
pub enum Outcome {
    /// An HTTP response came; this is what it said.
    Answered(Feedback),
    /// It surely never reached the server: no connection, a refused stream.
    NotSent,
    /// It may have reached the server, and no response came: a reset or a timeout.
    Broken,
}

/// What to do after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an ask that goes again keeps its ticket: wait for its next grant or cancel it"]
#[non_exhaustive]
pub enum Verdict {
    /// Give the result to the caller. The ticket has ended.
    Return {
        /// When it could be tried again, where that is known.
        retry_at: Option<Time>,
        /// Why it is not tried again; none for an answer that needs no retry.
        why: Option<GaveUp>,
    },
    /// The ticket waits again, in its old place, and is not granted before this moment.
    Again {
        /// The earliest moment of its next grant.
        not_before: Time,
    },
}

/// Why an attempt that failed is not tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum GaveUp {
    /// The answer is final: a client error, or the server said not to retry.
    Final,
    /// It may have been processed, and may not be sent twice.
    NotReplayable,
    /// The attempts allowed are used up.
    Attempts,
    /// The retry budget is empty.
    Budget,
    /// The next attempt would come after its deadline or `max_wait`.
    Deadline,
    /// No key is left that could serve it.
    NoKey,
    /// Its group was cancelled while it waited for the next attempt.
    Cancelled,
    /// The limiter was closed.
    Closed,
}

/// Why an ask was not sent. Nothing of it was sent after its last response, if it had one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// As many asks wait as may.
    QueueFull {
        /// The bound.
        limit: usize,
    },
    /// It would not be sent before its deadline, or was not.
    Deadline {
        /// The first moment at which it could have been sent, if known.
        earliest: Option<Time>,
        /// What it waited for.
        reason: Option<Reason>,
    },
    /// Every key is parked for longer than the ask may wait.
    AllKeysParked {
        /// When the first of them returns.
        until: Time,
    },
    /// Every key is refused by the server.
    AllKeysFaulty {
        /// The fault of one of them.
        fault: Fault,
    },
    /// It takes more than the whole quota or ceiling: it could never be sent.
    TooLarge {
        /// What it takes too much of.
        dimension: Dimension,
        /// What it takes.
        cost: f64,
        /// All there is.
        limit: f64,
    },
    /// It is pinned to a key that this limiter does not have.
    UnknownKey {
        /// The key.
        key: Fingerprint,
    },
    /// Its group was cancelled.
    Cancelled,
    /// The limiter was closed.
    Closed,
}

/// What an ask waits for: the gate that says "not before".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Reason {
    /// Its own start time, or its backoff after an error.
    NotBefore,
    /// Every key it may use is refused by the server.
    Fault,
    /// The key is parked on the server's word.
    Hint,
    /// The key is parked by a penalty.
    Penalty,
    /// The server reported a quota of this dimension as spent.
    Quota(Dimension),
    /// The learned rate.
    Pace,
    /// Sends start slowly again after a refusal or a stall.
    Resume,
    /// As many are in flight as the limit allows.
    Limit,
    /// A hard ceiling.
    Ceiling,
    /// The shared store has not granted it.
    Shared,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotBefore => "its own start time",
            Self::Fault => "a key that the server accepts",
            Self::Hint => "the moment that the server named",
            Self::Penalty => "the end of a penalty",
            Self::Quota(_) => "a quota that is spent",
            Self::Pace => "the learned rate",
            Self::Resume => "a slow start",
            Self::Limit => "others in flight",
            Self::Ceiling => "a ceiling",
            Self::Shared => "the shared store",
        })
    }
}

/// What a gate says about an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gate {
    /// It may go.
    Open,
    /// Not before this moment; [`Time::NEVER`] means: not before something else happens.
    Shut {
        /// The moment.
        until: Time,
        /// Why.
        reason: Reason,
    },
}

impl Gate {
    /// Shut until `until` because of `reason`, or open if that moment is not after `now`.
    #[must_use]
    pub fn at(until: Time, reason: Reason, now: Time) -> Self {
        if until <= now {
            Self::Open
        } else {
            Self::Shut { until, reason }
        }
    }

    /// Of two gates in a row, the one that binds.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Open, gate) | (gate, Self::Open) => gate,
            (Self::Shut { until: a, .. }, Self::Shut { until: b, .. }) => {
                if b > a {
                    other
                } else {
                    self
                }
            }
        }
    }
}

/// Something that the scheduler decided, and why.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// When.
    pub at: Time,
    /// Of which key; none if it concerns the provider.
    pub key: Option<Fingerprint>,
    /// What was decided, with its numbers.
    pub what: What,
}

/// The decisions that change something.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// The limit of requests in flight.
    Limit {
        /// Before.
        from: u32,
        /// After.
        to: u32,
        /// Why.
        why: Because,
    },
    /// The learned rate, in requests per second; infinite while nothing was learned.
    Pace {
        /// Before.
        from: f64,
        /// After.
        to: f64,
        /// Why.
        why: Because,
    },
    /// A key is not used until a moment.
    Parked {
        /// The moment.
        until: Time,
        /// Why.
        why: Because,
    },
    /// The server refuses a key; it is retired after a second, independent refusal.
    Suspected(Fault),
    /// A key is out of use, but for rare probes.
    Retired(Fault),
    /// A key is in use again.
    Restored,
    /// A slot whose owner does not listen is lent to others until it does.
    Lent(Loan),
    /// A request to a host that the limiter is not for went past it, without key and without
    /// gates. Told once per limiter.
    PassedBy {
        /// The host.
        host: Box<str>,
    },
    /// A retry layer stands outside the limiter: every attempt of it passes the gates anew. Told
    /// once per limiter.
    RetriedOutside,
    /// A hook of the application panicked; its answer counts as the default.
    HookPanicked {
        /// Which.
        hook: &'static str,
    },
    /// The machine was suspended for about so long.
    Suspended(Duration),
    /// A quota was learned or changed its limit.
    Quota {
        /// What it counts.
        dimension: Dimension,
        /// The server's limit.
        limit: f64,
        /// How it is taken to refill.
        law: &'static str,
    },
}

/// Whose slot is lent while others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Loan {
    /// A grant that its owner has not taken up; nothing was sent for it.
    Grant,
    /// An attempt that was woken, for its answer is there, and is not polled.
    Woken,
    /// A body that its owner holds and does not read.
    Body,
}

/// Why something was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Because {
    /// Little is left of a reported quota.
    Proactive,
    /// A request was refused.
    RateLimited,
    /// The server named its own overload.
    Overloaded,
    /// Enough successes came in a row.
    Recovered,
    /// The rate held, and a higher one is tried.
    Probed,
    /// A probe was refused: back to what held.
    ProbeRefused,
    /// Answers got slower with the load.
    Crowded,
    /// The number in flight was shown not to be what is limited.
    NotACap,
    /// The server said how long.
    Hint,
    /// Refusals in a row.
    Streak,
    /// Attempts in a row that nobody answered.
    Unanswered,
    /// The settings were changed.
    Settings,
}
