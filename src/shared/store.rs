//! What a store must do, and the words in which it is asked: plain data, and the trait [`Store`].
//!
//! Every call is one step for the store, on the store's clock, and may be repeated: what carries
//! an [`OpId`] acts once, however often it arrives. The memory store is the specification; the
//! suite in `tests/shared` runs on every store.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use smallvec::SmallVec;

/// What a store answers, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A place that many processes reach, and that decides for all of them.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Pays for as many of the asks as fit, in their order, each from all its limits or from none.
    fn take<'a>(&'a self, scope: &'a Scope, take: &'a Take) -> Answer<'a, Taken>;

    /// Gives back what was paid and never sent. A payment that has not arrived yet is barred.
    fn refund<'a>(&'a self, scope: &'a Scope, refund: &'a Refund) -> Answer<'a, Standing>;

    /// Says that a process lives, and renews the slots that it holds.
    fn beat<'a>(&'a self, scope: &'a Scope, beat: &'a Beat) -> Answer<'a, Alive>;

    /// Frees slots.
    fn release<'a>(&'a self, scope: &'a Scope, release: &'a Release) -> Answer<'a, Standing>;

    /// Borrows a share of a rate for a time, or gives it back.
    fn lend<'a>(&'a self, scope: &'a Scope, claim: &'a Claim) -> Answer<'a, Lent>;

    /// Tells the others something. Answers whether it was news.
    fn publish<'a>(&'a self, scope: &'a Scope, fact: &'a Fact) -> Answer<'a, bool>;

    /// The facts that still hold of those published after the first `since`, in that order: some of
    /// them, where they are many.
    fn facts<'a>(&'a self, scope: &'a Scope, since: u64) -> Answer<'a, Heard>;

    /// Waits until somebody may have published. It may answer without cause, and a store that
    /// cannot tell never answers: whoever waits also asks for [`Store::facts`] from time to time.
    fn news<'a>(&'a self, scope: &'a Scope) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

    /// Why the store may forget what it is told before its time, if it may and that can be found
    /// out.
    fn risk(&self) -> Answer<'_, Option<String>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

impl<S: Store> Store for std::sync::Arc<S> {
    fn take<'a>(&'a self, scope: &'a Scope, take: &'a Take) -> Answer<'a, Taken> {
        (**self).take(scope, take)
    }

    fn refund<'a>(&'a self, scope: &'a Scope, refund: &'a Refund) -> Answer<'a, Standing> {
        (**self).refund(scope, refund)
    }

    fn beat<'a>(&'a self, scope: &'a Scope, beat: &'a Beat) -> Answer<'a, Alive> {
        (**self).beat(scope, beat)
    }

    fn release<'a>(&'a self, scope: &'a Scope, release: &'a Release) -> Answer<'a, Standing> {
        (**self).release(scope, release)
    }

    fn lend<'a>(&'a self, scope: &'a Scope, claim: &'a Claim) -> Answer<'a, Lent> {
        (**self).lend(scope, claim)
    }

    fn publish<'a>(&'a self, scope: &'a Scope, fact: &'a Fact) -> Answer<'a, bool> {
        (**self).publish(scope, fact)
    }

    fn facts<'a>(&'a self, scope: &'a Scope, since: u64) -> Answer<'a, Heard> {
        (**self).facts(scope, since)
    }

    fn news<'a>(&'a self, scope: &'a Scope) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        (**self).news(scope)
    }

    fn risk(&self) -> Answer<'_, Option<String>> {
        (**self).risk()
    }
}

/// Whose limits: everything under one scope lies on one node of a cluster.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope(String);

impl Scope {
    /// A scope of this name, such as the provider's host. Processes that use the same name in the
    /// same store share their limits.
    ///
    /// # Errors
    ///
    /// If the name is empty, longer than 128 bytes, or holds anything but letters, digits, `.`,
    /// `_`, `:` and `-`: it becomes part of keys and of a hash tag.
    pub fn new(name: impl Into<String>) -> Result<Self, StoreError> {
        let name = name.into();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".:_-".contains(c);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
            return Err(StoreError::setting(format!(
                "scope {name:?} cannot name keys: use 1 to {LONGEST_NAME} letters, digits, '.', \
                 '_', ':' and '-'"
            )));
        }
        Ok(Self(name))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// One process, or one limiter in it: a number that nobody else has drawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(u64);

impl Owner {
    /// The owner of this number. Draw it at random.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// A part of so many, by which owners differ.
    pub(crate) const fn part(self, of: u64) -> u32 {
        (self.0 % of) as u32
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One payment. The same id means the same payment, however often it is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId {
    /// Who pays.
    pub owner: Owner,
    /// Counts the payments of that owner.
    pub number: u64,
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}", self.owner, self.number)
    }
}

impl fmt::Debug for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Law {
    /// Windows that begin at multiples of their length. Up to twice the amount can pass around the
    /// border of two windows. One small key.
    FixedWindow,
    /// The current window, and of the one before the share that still overlaps. Never far off; one
    /// small key.
    SlidingCounter,
    /// Every window of this length, wherever it begins, to 1/4,096 of its length and on the safe
    /// side. A key that grows with the amount, to 4,096 entries at most.
    SlidingLog,
    /// A bucket that refills steadily.
    Bucket {
        /// What it holds when full. At least 1.
        burst: u64,
    },
    /// So many in flight; the window is the lease after which a slot that nobody renews is free.
    Slots,
}

/// One limit that all share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// What is counted, of whom: processes that mean the same limit use the same name. No secret.
    pub name: String,
    /// How it counts.
    pub law: Law,
    /// How much passes in a window, or how many are in flight. At least 1.
    pub amount: u64,
    /// The length of the window, or the lease of a slot.
    pub window: Duration,
}

impl Limit {
    /// A limit of at most `amount` in a `window`.
    ///
    /// # Errors
    ///
    /// If the name cannot be part of a key, or a number is out of range: an amount (and burst) from
    /// 1 to 2^40, a window from 1 ms to 366 days.
    pub fn new(
        name: impl Into<String>,
        law: Law,
        amount: u64,
        window: Duration,
    ) -> Result<Self, StoreError> {
        let name = Scope::new(name)?.0;
        let burst = match law {
            Law::Bucket { burst } => burst,
            _ => 1,
        };
        let allowed = 1..=LARGEST_AMOUNT;
        if !allowed.contains(&amount) || !allowed.contains(&burst) {
            return Err(StoreError::setting(format!(
                "limit {name} of {amount} (burst {burst}) cannot be shared: use 1 to {LARGEST_AMOUNT}"
            )));
        }
        if window < SHORTEST_WINDOW || window > LONGEST_WINDOW {
            return Err(StoreError::setting(format!(
                "limit {name} over {window:?} cannot be shared: use a window from \
                 {SHORTEST_WINDOW:?} to {LONGEST_WINDOW:?}"
            )));
        }
        Ok(Self {
            name,
            law,
            amount,
            window,
        })
    }

    /// The most that one ask can take.
    pub(crate) fn largest(&self) -> u64 {
        match self.law {
            Law::Bucket { burst } => burst,
            Law::Slots => 1,
            _ => self.amount,
        }
    }

    /// How long what was paid before a loss may still count.
    pub(crate) fn memory(&self) -> Duration {
        match self.law {
            Law::Bucket { burst } => self.window.mul_f64(burst as f64 / self.amount as f64),
            _ => self.window,
        }
    }
}

/// What a process last knew of the store; a store that knows less has lost something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Drawn when the state was born.
    pub id: String,
    /// Counts the changes of the state.
    pub sequence: u64,
}

/// The state of the store behind an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The store's clock, in microseconds since the Unix epoch.
    pub now: u64,
    /// Give it back with the next call.
    pub epoch: Epoch,
    /// Whether the state was born of a loss, so that what was paid before is unknown.
    pub is_lost: bool,
    /// When the state was born.
    pub born: u64,
    /// Counts the facts published.
    pub facts: u64,
}

/// A payment for some asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Take {
    /// Which payment.
    pub op: OpId,
    /// What the payer last knew of the store.
    pub epoch: Option<Epoch>,
    /// What each ask is charged to.
    pub limits: Vec<Limit>,
    /// The asks, in order.
    pub runs: Vec<Run>,
    /// It was sent already, without the store: charge it whatever is left.
    pub is_sent: bool,
}

/// Equal asks in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// How many.
    pub count: u32,
    /// What each costs, in the order of the limits.
    pub costs: SmallVec<[u64; 4]>,
}

/// What was paid.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// How many asks were paid for, counted from the first.
    pub granted: u32,
    /// When the next one may fit, if one was refused.
    pub wait: Option<Duration>,
    /// Whether it was refused because the state was lost, and not because the limit is reached.
    pub is_lost: bool,
    /// How long ago it was paid: more than zero where it was asked for again.
    pub age: Duration,
    /// The state after it.
    pub standing: Standing,
}

/// A payment of which something was never sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Refund {
    /// Which payment.
    pub op: OpId,
    /// What the payer last knew of the store.
    pub epoch: Option<Epoch>,
    /// The limits of the payment, in its order.
    pub limits: Vec<Limit>,
    /// Which of its asks, counted from 0, and what each cost.
    pub items: Vec<(u32, SmallVec<[u64; 4]>)>,
}

/// One slot in flight: an ask of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Which payment.
    pub op: OpId,
    /// Which of its asks, counted from 0.
    pub item: u32,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.op, self.item)
    }
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq)]
pub struct Beat {
    /// Whose.
    pub owner: Owner,
    /// What it last knew of the store.
    pub epoch: Option<Epoch>,
    /// How long it counts as alive without another. Zero: it leaves.
    pub lasts: Duration,
    /// The limits of which it holds slots.
    pub limits: Vec<Limit>,
    /// The slots, each with the place of its limit.
    pub slots: Vec<(u32, Slot)>,
}

/// Who lives, and which slots have gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Alive {
    /// How many owners, this one included.
    pub owners: u32,
    /// Slots whose lease had ended before they were renewed. Somebody else may have their places;
    /// what holds them is in flight all the same, so they count beyond the amount.
    pub gone: Vec<Slot>,
    /// The state after it.
    pub standing: Standing,
}

/// Slots that are free again.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// The limits.
    pub limits: Vec<Limit>,
    /// The slots, each with the place of its limit.
    pub slots: Vec<(u32, Slot)>,
}

/// A wish for a share of a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Who borrows.
    pub owner: Owner,
    /// What it last knew of the store.
    pub epoch: Option<Epoch>,
    /// Of what.
    pub limit: Limit,
    /// How much it could use in a window. Zero keeps nothing.
    pub want: u64,
    /// How much it holds. It is sent at this rate at most already, so the store can count on it.
    pub has: u64,
    /// How long it borrows.
    pub lease: Duration,
    /// How long its share takes to earn what was sent from it. For so long nobody else gets it,
    /// even if its owner leaves or is killed: whoever comes and goes would send its first at once,
    /// every time.
    pub owes: Duration,
    /// It gives everything back and is gone.
    pub is_last: bool,
}

/// A share of a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Lent {
    /// How much of it in a window.
    pub share: u64,
    /// For how long, from when the claim was sent.
    pub lasts: Duration,
    /// How many borrow.
    pub owners: u32,
    /// Its due is more, but others have not given it back yet.
    pub is_short: bool,
    /// The state after it.
    pub standing: Standing,
}

/// Something that a process tells the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// What about: the next fact about it takes its place.
    pub subject: String,
    /// What is said. No secret.
    pub value: String,
    /// How long ago it was observed. An older one never undoes a newer one.
    pub age: Duration,
    /// How long it holds from now.
    pub lasts: Duration,
    /// It never shortens what is known: of two, the one that holds longer stays.
    pub extends: bool,
}

/// A fact as the store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// What about.
    pub subject: String,
    /// What is said.
    pub value: String,
    /// How long ago it was observed.
    pub age: Duration,
    /// How long it still holds.
    pub lasts: Duration,
}

/// Some facts.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// Those that hold.
    pub facts: Vec<Known>,
    /// How many had been published up to the last of them, counted as [`Standing::facts`] does:
    /// ask for those after it.
    pub version: u64,
}

/// Why a store gave no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}")]
pub struct StoreError {
    kind: Kind,
    what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// No answer in time, or no connection.
    Away,
    /// The store answered and refused: read only, out of memory, not permitted.
    Refused,
    /// It is asked wrongly.
    Setting,
}

impl StoreError {
    pub(crate) fn away(what: impl Into<String>) -> Self {
        Self {
            kind: Kind::Away,
            what: what.into(),
        }
    }

    pub(crate) fn refused(what: impl Into<String>) -> Self {
        Self {
            kind: Kind::Refused,
            what: what.into(),
        }
    }

    pub(crate) fn setting(what: impl Into<String>) -> Self {
        Self {
            kind: Kind::Setting,
            what: what.into(),
        }
    }

    /// The store could not be reached or did not answer in time. What was asked may still happen.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.kind == Kind::Away
    }

    /// The store answered that it will not: it is read only, out of memory, or forbids it.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.kind == Kind::Refused
    }
}

/// Facts that are read at once, at most: nobody else is served meanwhile.
pub(crate) const FACTS_AT_ONCE: usize = 500;
/// Facts that are kept, at most: what was told longest ago gives way. Twice what three thousand keys
/// tell at once, and two megabytes.
pub(crate) const MOST_FACTS: usize = 10_000;

/// How long a payment from these limits is remembered, in microseconds.
pub(crate) fn remembered(limits: &[Limit]) -> u64 {
    let windows = limits.iter().map(|limit| limit.memory().max(limit.window));
    micros(windows.fold(SHORTEST_MEMORY, Duration::max))
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Keys stay short; longer names are no names.
const LONGEST_NAME: usize = 128;
/// Sums of it and of microseconds stay below 2^53, which the scripts' numbers hold exactly.
const LARGEST_AMOUNT: u64 = 1 << 40;
/// Below it the way to the store is longer than the window.
const SHORTEST_WINDOW: Duration = Duration::from_millis(1);
/// A call that timed out may still run: long after its caller has given up, but not longer than
/// a connection stands unused.
const SHORTEST_MEMORY: Duration = Duration::from_secs(10);
/// Longer ones are a budget, not a rate (as for ceilings).
const LONGEST_WINDOW: Duration = Duration::from_secs(366 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_their_hash_tag_are_refused() {
        for bad in ["", "a}b", "{a", "a b", "é", "a\n"] {
            assert!(Scope::new(bad).is_err(), "{bad:?}");
        }
        assert!(Scope::new("x".repeat(129)).is_err());
        assert_eq!(
            Scope::new("api.example.com:8080").unwrap().as_str(),
            "api.example.com:8080"
        );
    }

    #[test]
    fn limits_that_cannot_bite_are_refused_with_their_name() {
        let second = Duration::from_secs(1);
        for (law, amount, window) in [
            (Law::FixedWindow, 0, second),
            (Law::FixedWindow, u64::MAX, second),
            (Law::Bucket { burst: 0 }, 1, second),
            (Law::SlidingLog, 1, Duration::from_micros(10)),
            (Law::SlidingLog, 1, Duration::MAX),
        ] {
            let error = Limit::new("k", law, amount, window).unwrap_err();
            assert!(error.to_string().starts_with("limit k"), "{error}");
        }
    }
}
