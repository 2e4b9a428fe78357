//! The vocabulary that the parts of the scheduler and its shell exchange: plain data, no behaviour
//! beyond making and reading it.

use std::fmt;
use std::time::Duration;

use crate::feedback::{Class, Dimension, Fault, Feedback};

pub use super::ask::{Ask, Cost, Fingerprint, Name, Priority, PriorityError, Replay};
use super::mode::Mode;
use super::time::Time;

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
    /// It surely never reached the server: no connection, a refused stream. Quotas get back what it
    /// was charged, a hard rate does not: it was tried. What was not even tried is given back as a
    /// permit (`Permit::give_back`).
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
    /// Its group was cancelled.
    Cancelled,
    /// The limiter was closed.
    Closed,
    /// The limiter only observes, or is off: it repeats nothing.
    NotEnforced,
}

/// Why an ask was not sent. Nothing of it was sent after its last response, if it had one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// As many asks wait as may.
    QueueFull {
        /// The bound.
        limit: usize,
        /// How long those who wait will take, if that is known.
        expected: Option<Duration>,
    },
    /// The queue before it is longer than can be served, and it is shed.
    Shed {
        /// How long those who wait at or above its priority will take; less than `longest` where
        /// the queue has become short again just now.
        expected: Duration,
        /// How long they may take.
        longest: Duration,
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
    /// Its tenant was not heard of for too long.
    TenantGone,
    /// The limiter was closed.
    Closed,
}

impl Refusal {
    /// Its kind in a word, for labels.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::QueueFull { .. } => "queue_full",
            Self::Shed { .. } => "shed",
            Self::Deadline { .. } => "deadline",
            Self::AllKeysParked { .. } => "all_keys_parked",
            Self::AllKeysFaulty { .. } => "all_keys_faulty",
            Self::TooLarge { .. } => "too_large",
            Self::UnknownKey { .. } => "unknown_key",
            Self::Cancelled => "cancelled",
            Self::TenantGone => "tenant_gone",
            Self::Closed => "closed",
        }
    }
}

impl Outcome {
    /// Its kind in a word, for labels.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Answered(feedback) => match feedback.class {
                Class::Ok => "ok",
                Class::RateLimited => "rate_limited",
                Class::QuotaExhausted => "quota_exhausted",
                Class::Overloaded => "overloaded",
                Class::Transient => "transient",
                Class::Fatal => "fatal",
            },
            Self::NotSent => "not_sent",
            Self::Broken => "broken",
        }
    }
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
    /// Its own start time.
    NotBefore,
    /// Its own pause after an attempt that failed or was refused.
    Backoff,
    /// Every key it may use is refused by the server.
    Fault,
    /// The key is parked on the server's word.
    Hint,
    /// The key is parked by a penalty.
    Penalty,
    /// The key is parked because nobody answers on it.
    Unanswered,
    /// The server reported a quota of this dimension as spent.
    Quota(Dimension),
    /// The learned rate.
    Pace,
    /// Sends start slowly again after a refusal or a stall.
    Resume,
    /// As many are in flight as the limit allows.
    Limit,
    /// A hard rate.
    Ceiling,
    /// As many are in flight as a hard number allows: `max_concurrency` or `key_concurrency`.
    Slots,
    /// Every key it may use waits for its secret.
    Renewal,
    /// What is left is kept for a higher priority.
    Reserved,
    /// The shared store has not granted it.
    Shared,
    /// The shared store is away, or has lost what it knew.
    StoreAway,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotBefore => "its own start time",
            Self::Backoff => "the end of its pause after an attempt that failed",
            Self::Fault => "a key that the server accepts",
            Self::Hint => "the moment that the server named",
            Self::Penalty => "the end of a penalty",
            Self::Unanswered => "a key on which nobody has answered lately",
            Self::Quota(_) => "a quota that is spent",
            Self::Pace => "the learned rate",
            Self::Resume => "a slow start",
            Self::Limit => "others in flight",
            Self::Ceiling => "a ceiling",
            Self::Slots => "a slot of `max_concurrency` or `key_concurrency`",
            Self::Renewal => "a key that is being renewed",
            Self::Reserved => "capacity that is not kept for a higher priority",
            Self::Shared => "a limit that is shared with other processes",
            Self::StoreAway => "the shared store, which is away",
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
    /// A bucket is refused again and again while its key serves others: it goes by a pace and
    /// penalties of its own for an hour, and its refusals do not count against the key.
    Apart {
        /// Which.
        bucket: Name,
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
    /// A key has a new secret.
    Renewed,
    /// The function that brings a key's secret has failed. The old secret is used as long as it is
    /// good.
    NotRenewed {
        /// What it said, without what stands in queries.
        why: Box<str>,
    },
    /// A slot whose owner does not listen is lent to others until it does.
    Lent(Loan),
    /// A request whose slot was lent goes on beside those who have the slots, beyond a limit in
    /// flight that was set: none came free for long, and they may be waiting for it, as for a
    /// connection that it is making for all.
    BeyondLimit,
    /// A request to a host that the limiter is not for went past it, without key and without
    /// gates. Told once per host, of 32 hosts at most.
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
    /// The shared store does not answer, or will not.
    StoreAway {
        /// What it, or the way to it, said.
        why: Box<str>,
    },
    /// The shared store answers again.
    StoreBack {
        /// How long it was away.
        after: Duration,
    },
    /// The shared store may forget what it is told before its time.
    StoreMayForget {
        /// Why, and what to do.
        why: Box<str>,
    },
    /// Another process shares other limits in the same scope, or did half a minute ago: other numbers, windows or laws, another
    /// mode or lease. Each is held to its own, so together they may send more than either says. Each
    /// of them tells it, once for each other set of limits.
    LimitsDiffer {
        /// Those of this process.
        own: Box<str>,
        /// Those of the other.
        other: Box<str>,
    },
    /// The shared store has lost what it knew: it was flushed, or an older copy took over.
    StoreLost,
    /// So many slots of requests in flight were given to others: this process was halted for
    /// longer than their lease, and these requests are beyond the limit.
    SlotsLost(u32),
    /// The machine was suspended for about so long.
    Suspended(Duration),
    /// What happens to requests that would have to wait.
    Mode(Mode),
    /// The settings were changed.
    SettingsChanged,
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
    /// An attempt that was woken and is not polled. Most likely its answer is there; where it is not,
    /// because a connection was, a limit in flight that was set holds all the same: it goes on when
    /// it has a slot again, but see [`What::BeyondLimit`].
    Woken,
    /// A body that its owner holds and does not read. It is lent within what was learned;
    /// `max_concurrency` and `key_concurrency` count it until it has ended.
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
    /// Another process that shares the provider said so.
    Shared,
    /// The settings were changed.
    Settings,
}
