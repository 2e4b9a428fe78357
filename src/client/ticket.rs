//! Waiting for a turn: a place in the queue, and what has happened to its ask so far.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::Time;
use crate::error::{Error, Kind, Patience};
use crate::scheduler::events::{Ask, Reason, Refusal};

use super::claim::Claim;
use super::driver;
use super::ending::Ending;
#[cfg(any(feature = "reqwest", feature = "tower"))]
use super::extension::{AttemptTimeout, Until};
use super::gate::Entered;
use super::limiter::Limiter;
use super::permit::{Leave, Permit};
use super::seats::Taken;
#[cfg(any(feature = "metrics", feature = "tracing"))]
use super::telemetry::Marked;
use super::watch::Watch;

/// A place in the queue: a future of the [`Permit`]. Dropping it gives the place up.
///
/// It asks for its place when it is first polled, keeps it without being polled, and may be moved
/// between tasks and runtimes. It needs a tokio runtime to wait in.
#[must_use = "a ticket asks for its turn when it is awaited"]
pub struct Ticket {
    limiter: Limiter,
    state: State,
    pub(super) history: History,
    /// Wakes it when it is cancelled; made when it first waits.
    ending: Option<Ending>,
}

enum State {
    New(Ask, Option<Arc<Watch>>),
    Waiting(Claim),
    Done,
}

/// What has happened to an ask so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct History {
    pub(super) submitted: Time,
    /// When its last wait began.
    pub(super) since: Time,
    /// Its waits before the first attempt.
    pub(super) queued: Duration,
    /// All its waits.
    pub(super) waited: Duration,
    pub(super) attempts: u32,
    /// Attempts of the requests that led to this one by a redirect.
    pub(super) earlier: u32,
    pub(super) patience: Option<Patience>,
    pub(super) deadline: Option<Duration>,
    pub(super) attempt_timeout: Option<Duration>,
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    pub(super) marked: Marked,
}

impl Ticket {
    pub(crate) fn new(limiter: Limiter, ask: Ask) -> Self {
        Self::with(limiter, ask, None)
    }

    /// A ticket whose attempts are polled by paceline, so that their slots can be lent.
    pub(crate) fn watched(limiter: Limiter, ask: Ask) -> Self {
        let watch = Watch::new(limiter.gate());
        Self::with(limiter, ask, Some(watch))
    }

    fn with(limiter: Limiter, ask: Ask, watch: Option<Arc<Watch>>) -> Self {
        let deadline = ask.deadline;
        let max_wait = limiter.max_wait();
        let patience = match (deadline, max_wait) {
            (Some(deadline), max_wait) if max_wait.is_none_or(|most| deadline <= most) => {
                Some(Patience::Deadline(deadline))
            }
            _ => max_wait.map(Patience::MaxWait),
        };
        Self {
            #[cfg(any(feature = "metrics", feature = "tracing"))]
            history: History {
                patience,
                deadline,
                attempt_timeout: limiter.attempt_timeout(),
                marked: limiter.gate().telemetry().mark(&ask),
                ..History::default()
            },
            #[cfg(not(any(feature = "metrics", feature = "tracing")))]
            history: History {
                patience,
                deadline,
                attempt_timeout: limiter.attempt_timeout(),
                ..History::default()
            },
            state: State::New(ask, watch),
            limiter,
            ending: None,
        }
    }

    /// The ticket of an ask that goes again, on its old place in the queue.
    pub(super) fn again(limiter: Limiter, claim: Claim, history: History) -> Self {
        Self {
            limiter,
            state: State::Waiting(claim),
            history,
            ending: None,
        }
    }

    /// Gives up waiting when `token` is cancelled, as [`Limiter::until`].
    pub fn until(mut self, token: &CancellationToken) -> Self {
        self.limiter = self.limiter.until(token);
        self.ending = None;
        self
    }

    /// Another timeout for each of its attempts than the limiter's.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(super) fn timed(mut self, extensions: &http::Extensions) -> Self {
        if let Some(&AttemptTimeout(most)) = extensions.get() {
            self.history.attempt_timeout = Some(most);
        }
        match extensions.get() {
            Some(Until(token)) => self.until(token),
            None => self,
        }
    }

    /// How often its ask was sent, and how long it has waited.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(super) fn so_far(&self) -> (u32, Duration) {
        let History {
            since,
            waited,
            attempts,
            earlier,
            ..
        } = self.history;
        let now = self.limiter.gate().clock().now();
        (attempts + earlier, waited + now.since(since))
    }

    /// Takes its place in the queue; the permit, if there is one at once.
    pub(crate) fn enter(&mut self) -> Result<Option<Permit>, Error> {
        let State::New(ask, watch) = std::mem::replace(&mut self.state, State::Done) else {
            return Ok(None);
        };
        if self.limiter.tokens().are_over() {
            return Err(self.refused(Refusal::Cancelled));
        }
        let entered = self.limiter.gate().enter(ask, watch);
        let (claim, entered, now) = entered.map_err(|refusal| self.refused(refusal))?;
        self.history.submitted = now;
        self.history.since = now;
        match entered {
            Entered::Granted(taken) => Ok(Some(self.permit(claim, taken))),
            Entered::Waiting => {
                self.state = State::Waiting(claim);
                Ok(None)
            }
        }
    }

    /// Whether its turn has come.
    pub(crate) fn poll_turn(&mut self, waker: &Waker) -> Poll<Result<Permit, Error>> {
        let State::Waiting(claim) = &self.state else {
            panic!("a ticket was polled after it had given its permit");
        };
        let tokens = self.limiter.tokens();
        if self
            .ending
            .get_or_insert_with(|| tokens.ending())
            .is_over(waker)
        {
            self.state = State::Done;
            return Poll::Ready(Err(self.refused(Refusal::Cancelled)));
        }
        let Poll::Ready(turn) = claim.poll(waker) else {
            return Poll::Pending;
        };
        let State::Waiting(claim) = std::mem::replace(&mut self.state, State::Done) else {
            unreachable!("it was just seen");
        };
        Poll::Ready(match turn {
            Ok(taken) => Ok(self.permit(claim, taken)),
            Err(refusal) => Err(self.refused(refusal)),
        })
    }

    fn permit(&self, claim: Claim, taken: Taken) -> Permit {
        let mut history = self.history;
        let waited = taken.at.since(history.since);
        if history.attempts + history.earlier == 0 {
            history.queued = waited;
        }
        history.waited += waited;
        history.attempts = taken.attempt;
        #[cfg(any(feature = "metrics", feature = "tracing"))]
        {
            let gate = self.limiter.gate();
            let key = taken.key.fingerprint();
            gate.telemetry().on_granted(history.marked, key, waited);
            #[cfg(feature = "metrics")]
            gate.sample();
        }
        Permit {
            claim,
            leave: Leave {
                limiter: self.limiter.clone(),
                key: taken.key,
                attempt: taken.attempt,
            },
            history,
            #[cfg(feature = "reqwest")]
            taken: taken.at,
        }
    }

    fn refused(&self, refusal: Refusal) -> Error {
        let gate = self.limiter.gate();
        #[cfg(any(feature = "metrics", feature = "tracing"))]
        gate.telemetry().on_refused(&refusal);
        let clock = gate.clock();
        let retry_at = match &refusal {
            Refusal::Deadline { earliest, .. } => *earliest,
            Refusal::AllKeysParked { until } => Some(*until),
            Refusal::Shed { expected, .. } => Some(clock.now() + *expected),
            Refusal::QueueFull { expected, .. } => expected.map(|wait| clock.now() + wait),
            _ => None,
        };
        let may_be_renewal = matches!(
            refusal,
            Refusal::AllKeysFaulty { .. }
                | Refusal::Deadline {
                    reason: Some(Reason::Renewal),
                    ..
                }
        );
        let trouble = may_be_renewal.then(|| gate.renewal_trouble()).flatten();
        let retry_at = retry_at.filter(|&at| at != Time::NEVER);
        let error = Error::refused(
            refusal,
            self.history.patience,
            retry_at.map(|at| clock.wall_at(at)),
            self.history.attempts + self.history.earlier > 0,
        );
        match trouble {
            Some((why, again)) => error.of_renewal(why, clock.wall_at(again)),
            None => error,
        }
    }
}

impl Future for Ticket {
    type Output = Result<Permit, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if matches!(self.state, State::New(..)) {
            if tokio::runtime::Handle::try_current().is_err() {
                return Poll::Ready(Err(Kind::NoRuntime.into()));
            }
            if let Some(permit) = self.enter()? {
                return Poll::Ready(Ok(permit));
            }
        }
        let turn = self.poll_turn(context.waker());
        if turn.is_pending() && !driver::ensure(self.limiter.gate()) {
            return Poll::Ready(Err(Kind::NoRuntime.into()));
        }
        turn
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}
