//! Why a request has no response of its own: one opaque error that can be asked.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::config::SettingsError;
use crate::scheduler::ceiling::CeilingError;
#[cfg(any(feature = "reqwest", feature = "tower"))]
use crate::scheduler::events::GaveUp;
use crate::scheduler::events::{Reason, Refusal};

/// Why a request was not sent, or a limiter not built.
///
/// Where a server has answered, paceline gives its last response, whatever its status; so this
/// error means that there is none. Ask it what it is: [`Error::is_deadline`], [`Error::is_closed`],
/// …; when it could have been sent: [`Error::retry_at`]; and whether anything was:
/// [`Error::was_sent`].
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    retry_at: Option<SystemTime>,
    sent: bool,
    /// Why no key could be brought, where that is the cause.
    renewal: Option<Arc<str>>,
}

/// The kinds of failure.
#[derive(Debug)]
pub(crate) enum Kind {
    /// The machine would not have it, or not any longer. With the longest wait allowed.
    Refused(Refusal, Option<Patience>),
    /// The ask's deadline came while the attempt was in flight.
    TimedOut(Duration),
    /// An attempt took longer than one may.
    TooSlow(Duration),
    /// A wait outside a tokio runtime.
    NoRuntime,
    /// A key that cannot be sent.
    Key(String),
    /// A list of keys that is empty, given to this.
    NoKey(&'static str),
    /// Something that is not a host.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    Host(String),
    /// A setting out of its range.
    Settings(SettingsError),
    /// A rate that cannot be read.
    Ceiling(CeilingError),
    /// A hard limit that other processes share is not one process's to change.
    SharedCeiling,
    /// A limit that cannot be shared.
    #[cfg(feature = "shared")]
    Sharing(Box<dyn std::error::Error + Send + Sync>),
}

/// How long an ask may wait, and who says so.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    Deadline(Duration),
    MaxWait(Duration),
}

impl Error {
    pub(crate) fn refused(
        refusal: Refusal,
        patience: Option<Patience>,
        retry_at: Option<SystemTime>,
        sent: bool,
    ) -> Self {
        let kind = Kind::Refused(refusal, patience);
        Self(Box::new(Inner {
            kind,
            retry_at,
            sent,
            renewal: None,
        }))
    }

    pub(crate) fn timed_out(after: Duration) -> Self {
        Self(Box::new(Inner {
            kind: Kind::TimedOut(after),
            retry_at: None,
            sent: true,
            renewal: None,
        }))
    }

    pub(crate) fn too_slow(most: Duration) -> Self {
        Self(Box::new(Inner {
            kind: Kind::TooSlow(most),
            retry_at: None,
            sent: true,
            renewal: None,
        }))
    }

    /// The same for an attempt that never left; `sent` says whether an earlier one had.
    pub(crate) fn never_sent(mut self, sent: bool) -> Self {
        if let Kind::TimedOut(after) = self.0.kind {
            let refusal = Refusal::Deadline {
                earliest: None,
                reason: None,
            };
            self.0.kind = Kind::Refused(refusal, Some(Patience::Deadline(after)));
            self.0.sent = sent;
        }
        self
    }

    /// The error of paceline in an error of the middleware's client, if it is one.
    #[cfg(feature = "reqwest")]
    #[must_use]
    pub fn of(error: &reqwest_middleware::Error) -> Option<&Self> {
        match error {
            reqwest_middleware::Error::Middleware(error) => error.downcast_ref(),
            reqwest_middleware::Error::Reqwest(_) => None,
        }
    }

    /// Whether the server may have acted on the attempt that ended with this error, paceline's own
    /// or reqwest's: a reset or a timeout after it had left says yes, a connection that was never
    /// made or a stream that the server refused says no.
    ///
    /// ```
    /// # async fn example(client: reqwest_middleware::ClientWithMiddleware, url: &str) {
    /// match client.post(url).body("pay").send().await {
    ///     Err(error) if paceline::Error::may_have_acted(&error) => { /* look before you pay again */ }
    ///     Err(_) => { /* nothing has happened: pay again */ }
    ///     Ok(reply) => { /* … */ }
    /// }
    /// # }
    /// ```
    #[cfg(feature = "reqwest")]
    #[must_use]
    pub fn may_have_acted(error: &reqwest_middleware::Error) -> bool {
        match Self::of(error) {
            Some(own) => own.was_sent(),
            None => crate::client::may_have_acted(error),
        }
    }

    /// Whether its deadline, or the longest wait allowed, came first.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(
            self.0.kind,
            Kind::TimedOut(_)
                | Kind::Refused(Refusal::Deadline { .. } | Refusal::AllKeysParked { .. }, _)
        )
    }

    /// Whether its last attempt took longer than one may: see
    /// [`Settings::attempt_timeout`](crate::Settings::attempt_timeout). A timeout that was set on
    /// the `reqwest` client or request is an error of reqwest's own.
    #[must_use]
    pub fn is_attempt_timeout(&self) -> bool {
        matches!(self.0.kind, Kind::TooSlow(_))
    }

    /// Whether it waited for a shared store that is away, and may send nothing meanwhile.
    #[must_use]
    pub fn is_store_away(&self) -> bool {
        matches!(
            self.0.kind,
            Kind::Refused(
                Refusal::Deadline {
                    reason: Some(Reason::StoreAway),
                    ..
                },
                _
            )
        )
    }

    /// Whether too many wait already.
    #[must_use]
    pub fn is_queue_full(&self) -> bool {
        matches!(self.0.kind, Kind::Refused(Refusal::QueueFull { .. }, _))
    }

    /// Whether it was turned away because the queue is longer than can be served.
    #[must_use]
    pub fn is_shed(&self) -> bool {
        matches!(self.0.kind, Kind::Refused(Refusal::Shed { .. }, _))
    }

    /// How long those who wait will take, where the request was turned away because they are too
    /// many and that is known.
    #[must_use]
    pub fn expected_wait(&self) -> Option<Duration> {
        match &self.0.kind {
            Kind::Refused(Refusal::Shed { expected, .. }, _) => Some(*expected),
            Kind::Refused(Refusal::QueueFull { expected, .. }, _) => *expected,
            _ => None,
        }
    }

    /// Whether every key is parked for longer than the request may wait.
    #[must_use]
    pub fn is_all_keys_parked(&self) -> bool {
        matches!(self.0.kind, Kind::Refused(Refusal::AllKeysParked { .. }, _))
    }

    /// Whether the server refuses every key.
    #[must_use]
    pub fn is_all_keys_faulty(&self) -> bool {
        matches!(self.0.kind, Kind::Refused(Refusal::AllKeysFaulty { .. }, _))
    }

    /// Whether its group was cancelled, or the token that it was to wait until, or its tenant is
    /// gone.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self.0.kind,
            Kind::Refused(Refusal::Cancelled | Refusal::TenantGone, _)
        )
    }

    /// Whether the limiter was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.0.kind, Kind::Refused(Refusal::Closed, _))
    }

    /// Whether it takes more than a whole quota or ceiling, and so could never be sent.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        matches!(self.0.kind, Kind::Refused(Refusal::TooLarge { .. }, _))
    }

    /// Whether it is pinned to a key that the limiter does not have.
    #[must_use]
    pub fn is_unknown_key(&self) -> bool {
        matches!(self.0.kind, Kind::Refused(Refusal::UnknownKey { .. }, _))
    }

    /// Whether the limiter itself is set up wrongly: a key, a host, a rate or a setting.
    #[must_use]
    pub fn is_settings(&self) -> bool {
        !matches!(
            self.0.kind,
            Kind::Refused(..) | Kind::TimedOut(_) | Kind::TooSlow(_) | Kind::NoRuntime
        )
    }

    /// Whether the attempt had left when its time was over.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(crate) fn is_late(&self) -> bool {
        matches!(self.0.kind, Kind::TimedOut(_) | Kind::TooSlow(_))
    }

    /// Why the last response is given back instead of this error, where there is one.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(crate) fn gave_up(&self) -> Option<GaveUp> {
        match &self.0.kind {
            Kind::Refused(refusal, _) => Some(match refusal {
                Refusal::Cancelled | Refusal::TenantGone => GaveUp::Cancelled,
                Refusal::Closed => GaveUp::Closed,
                Refusal::AllKeysFaulty { .. } | Refusal::UnknownKey { .. } => GaveUp::NoKey,
                _ => GaveUp::Deadline,
            }),
            _ => None,
        }
    }

    /// The same for one whose cause is that no key could be brought, and is not tried again before.
    pub(crate) fn of_renewal(mut self, why: Arc<str>, again: SystemTime) -> Self {
        self.0.renewal = Some(why);
        self.0.retry_at = Some(again);
        self
    }

    /// Whether no key could be brought: the function of a
    /// [renewed key](crate::LimiterBuilder::renewed_key) failed. The error says what with.
    #[must_use]
    pub fn is_renewal(&self) -> bool {
        self.0.renewal.is_some()
    }

    /// The first moment at which it could be sent, where that is known.
    #[must_use]
    pub fn retry_at(&self) -> Option<SystemTime> {
        self.0.retry_at
    }

    /// Whether anything was sent: then the server may have processed it. Of an error of reqwest's
    /// own `Error::may_have_acted` says the same (feature `reqwest`).
    #[must_use]
    pub fn was_sent(&self) -> bool {
        self.0.sent
    }
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Self(Box::new(Inner {
            kind,
            retry_at: None,
            sent: false,
            renewal: None,
        }))
    }
}

impl From<SettingsError> for Error {
    fn from(error: SettingsError) -> Self {
        Kind::Settings(error).into()
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl From<CeilingError> for Error {
    fn from(error: CeilingError) -> Self {
        Kind::Ceiling(error).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sent = if self.0.sent {
            "an earlier attempt was sent"
        } else {
            "nothing was sent"
        };
        match &self.0.kind {
            Kind::Refused(refusal, patience) => {
                match (&self.0.renewal, refusal) {
                    (None, _) => refused(refusal, *patience, f)?,
                    (Some(why), Refusal::AllKeysFaulty { .. }) => {
                        write!(f, "there is no key: {why}")?;
                    }
                    (Some(why), _) => {
                        refused(refusal, *patience, f)?;
                        write!(f, ": {why}")?;
                    }
                }
                write!(f, "; {sent}")
            }
            Kind::TimedOut(after) => write!(
                f,
                "no response within its deadline of {after:?}; it was sent, and may have been \
                 processed"
            ),
            Kind::TooSlow(most) => write!(
                f,
                "no response within `attempt_timeout` of {most:?}; it was sent, and may have been \
                 processed"
            ),
            Kind::NoRuntime => f.write_str(
                "waiting for a turn needs a tokio runtime: call it inside one, or use \
                 acquire_blocking; nothing was sent",
            ),
            Kind::Key(what) => f.write_str(what),
            Kind::NoKey(to) => write!(
                f,
                "`{to}` was given an empty list of keys, and requests would go without one: look \
                 where the list comes from, or leave the call out if they are to"
            ),
            #[cfg(any(feature = "reqwest", feature = "tower"))]
            Kind::Host(text) => write!(
                f,
                "{text:?} is not a host: give a name such as \"api.example.com\", with a port if \
                 only that one is meant"
            ),
            Kind::Settings(error) => error.fmt(f),
            Kind::Ceiling(error) => error.fmt(f),
            Kind::SharedCeiling => f.write_str(
                "ceilings and numbers in flight are shared with other processes, and cannot be \
                 changed while the limiter runs: build a new one in every process",
            ),
            #[cfg(feature = "shared")]
            Kind::Sharing(error) => error.fmt(f),
        }
    }
}

fn refused(
    refusal: &Refusal,
    patience: Option<Patience>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match refusal {
        Refusal::QueueFull { limit, expected } => {
            write!(
                f,
                "{limit} requests wait already, as many as `queue` allows: start fewer at a time, \
                 or raise it"
            )?;
            match expected {
                Some(expected) => write!(f, "; they will take about {expected:.1?}"),
                None => Ok(()),
            }
        }
        Refusal::Shed { expected, longest } => write!(
            f,
            "it was turned away: those before it will take about {expected:.1?}, and took longer \
             than the {longest:?} of `shedding.longest`"
        ),
        Refusal::Deadline { reason, .. } => {
            waited(patience, f)?;
            match reason {
                Some(Reason::Slots) => write!(
                    f,
                    " while it waited for {}: others are in flight, and a body that is held is \
                     until it was read or dropped",
                    Reason::Slots
                ),
                Some(reason) => write!(f, " while it waited for {reason}"),
                None => Ok(()),
            }
        }
        Refusal::AllKeysParked { .. } => {
            f.write_str("every key is parked for longer than ")?;
            allowed(patience, f)
        }
        Refusal::AllKeysFaulty { fault } => {
            let why = fault.words();
            write!(
                f,
                "the server refuses every key ({why}): check them at the provider, or use others"
            )
        }
        Refusal::TooLarge {
            dimension,
            cost,
            limit,
        } => write!(
            f,
            "it takes {cost} {dimension:?} of a limit of {limit} and could never be sent: split it"
        ),
        Refusal::UnknownKey { key } => {
            write!(
                f,
                "it is pinned to key {key}, which this limiter does not have: pin it to the \
                 `Report::key` of an answer, or to none"
            )
        }
        Refusal::Cancelled => f.write_str("it was cancelled"),
        Refusal::TenantGone => f.write_str(
            "its tenant sent no heartbeat and asked for nothing for longer than `tenants.gone`: \
             send heartbeats while it is there",
        ),
        Refusal::Closed => f.write_str("the limiter was closed: build another for what comes now"),
    }
}

fn waited(patience: Option<Patience>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match patience {
        Some(Patience::Deadline(limit)) => write!(f, "its deadline of {limit:?} ended"),
        Some(Patience::MaxWait(limit)) => write!(f, "`max_wait` of {limit:?} ended"),
        None => f.write_str("its time ended"),
    }
}

fn allowed(patience: Option<Patience>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match patience {
        Some(Patience::Deadline(limit)) => write!(f, "its deadline of {limit:?}"),
        Some(Patience::MaxWait(limit)) => write!(f, "the `max_wait` of {limit:?}"),
        None => f.write_str("it may wait"),
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("retry_at", &self.0.retry_at)
            .field("was_sent", &self.0.sent)
            .finish()
    }
}

impl std::error::Error for Error {}
