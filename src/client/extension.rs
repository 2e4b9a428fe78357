//! What travels with one request and its response: the extensions of an ask, and the report.

use std::time::{Duration, SystemTime};

use http::Extensions;
use tokio_util::sync::CancellationToken;

#[cfg(any(feature = "reqwest", feature = "tower"))]
use super::limiter::Limiter;
#[cfg(any(feature = "reqwest", feature = "tower"))]
use super::permit::Permit;
#[cfg(any(feature = "reqwest", feature = "tower"))]
use crate::feedback::Profile;
use crate::scheduler::events::{Ask, Cost, Fingerprint, GaveUp, Name, Priority, Replay};

/// What a request shares a limit with inside the provider: an extension of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket(pub Name);

/// On whose behalf a request is made: an extension of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant(pub Name);

/// The cancellable set that a request belongs to: an extension of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group(pub Name);

/// How long a request may take from submit to the headers of its last attempt, waits included: an
/// extension of the request. The per-attempt timeout of `reqwest` stays what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(pub Duration);

/// How long each attempt may take to the headers of its answer, waits not included: an extension
/// of the request, over [`Settings::attempt_timeout`](crate::Settings::attempt_timeout). An attempt
/// that takes longer is dropped and counts as one that nobody answered: it may have been processed,
/// so it goes again only where [`Replay`] allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptTimeout(pub Duration);

/// The token that ends a request's waits: an extension of the request. See
/// [`Limiter::until`](crate::Limiter::until).
#[derive(Clone, Debug)]
pub struct Until(pub CancellationToken);

/// The only key that a request may go to: an extension of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin(pub Fingerprint);

/// How long a request holds its slot: an extension of the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hold {
    /// Until the headers, and for an event stream until the end of the body: there the body is
    /// the work.
    #[default]
    Auto,
    /// Until the headers.
    Headers,
    /// Until the end of the body.
    Body,
}

macro_rules! named {
    ($($kind:ident),*) => {$(
        impl $kind {
            /// Of this name.
            #[must_use]
            pub fn new(name: impl Into<Name>) -> Self {
                Self(name.into())
            }
        }
    )*};
}

named!(Bucket, Tenant, Group);

impl From<Group> for Name {
    fn from(group: Group) -> Self {
        group.0
    }
}

impl From<&Group> for Name {
    fn from(group: &Group) -> Self {
        group.0.clone()
    }
}

/// What became of a request: an extension of its response.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// How many attempts were sent, those that followed redirects too.
    pub attempts: u32,
    /// The key of the one that was answered with this response.
    pub key: Fingerprint,
    /// How long it waited for its first attempt.
    pub queued: Duration,
    /// How long it waited in all.
    pub waited: Duration,
    /// When it could be tried again, where that is known.
    pub retry_at: Option<SystemTime>,
    /// Why it was not tried again; none if it was served.
    pub why: Option<GaveUp>,
}

impl Report {
    /// The response of an earlier attempt is given back: what came after it counts too.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(super) fn count(&mut self, (attempts, waited): (u32, Duration)) {
        self.attempts = self.attempts.max(attempts);
        self.waited = self.waited.max(waited);
    }

    /// What is known of an attempt before it ends.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(super) fn of(permit: &Permit) -> Self {
        Self {
            attempts: permit.attempts(),
            key: permit.fingerprint(),
            queued: permit.queued(),
            waited: permit.waited(),
            retry_at: None,
            why: None,
        }
    }
}

#[cfg(any(feature = "reqwest", feature = "tower"))]
impl Limiter {
    /// What a request asks for by its method and path, where it has no priority of its own.
    pub(super) fn classified(&self, mut ask: Ask, method: &http::Method, path: &str) -> Ask {
        if ask.priority == Priority::default() {
            ask.priority = self.0.classifier.of(method, path).unwrap_or_default();
        }
        ask
    }
}

/// Whether a request may be sent again after it may have been processed, by itself.
#[cfg(any(feature = "reqwest", feature = "tower"))]
pub(super) fn is_replayable(
    method: &http::Method,
    path: &str,
    headers: &http::HeaderMap,
    profile: &Profile,
) -> bool {
    method.is_idempotent() || is_keyed(headers, profile) || profile.replays(path)
}

/// Whether the server can tell that a request is sent again.
#[cfg(any(feature = "reqwest", feature = "tower"))]
pub(super) fn is_keyed(headers: &http::HeaderMap, profile: &Profile) -> bool {
    let has = |name: &str| headers.contains_key(name);
    has(IDEMPOTENCY_KEY) || profile.idempotency_header().is_some_and(has)
}

/// What the extensions of a request ask for, over `base`.
#[cfg(any(feature = "reqwest", feature = "tower"))]
pub(super) fn over(base: Ask, extensions: &Extensions) -> Ask {
    let mut ask = base;
    if let Some(&priority) = extensions.get::<Priority>() {
        ask.priority = priority;
    }
    if let Some(&cost) = extensions.get::<Cost>() {
        ask.cost = cost;
    }
    if let Some(Bucket(name)) = extensions.get() {
        ask.bucket = Some(name.clone());
    }
    if let Some(Tenant(name)) = extensions.get() {
        ask.tenant = Some(name.clone());
    }
    if let Some(Group(name)) = extensions.get() {
        ask.group = Some(name.clone());
    }
    if let Some(&Deadline(after)) = extensions.get() {
        ask.deadline = Some(after);
    }
    if let Some(&replay) = extensions.get::<Replay>() {
        ask.replay = replay;
    }
    if let Some(&Pin(key)) = extensions.get() {
        ask.pin = Some(key);
    }
    ask
}

/// The header by which most servers know a request again: draft-ietf-httpapi-idempotency-key.
#[cfg(any(feature = "reqwest", feature = "tower"))]
const IDEMPOTENCY_KEY: &str = "idempotency-key";
