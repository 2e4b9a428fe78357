//! Waiting for a turn, and the leave to send that comes of it.
//!
//! One claim on one seat goes through all phases, and dropping it in any of them frees what it
//! holds: a [`Ticket`] that waits, a [`Permit`] in flight.

use std::fmt;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use crate::Time;
use crate::error::{Error, Kind, Patience};
use crate::feedback::{self, Profile};
use crate::scheduler::events::{self, Ask, Fingerprint, GaveUp, Outcome, Reason, Refusal};

use super::claim::Claim;
use super::driver;
use super::ending::Ending;
#[cfg(any(feature = "reqwest", feature = "tower"))]
use super::extension::{AttemptTimeout, Until};
use super::gate::Entered;
use super::key::ApiKey;
use super::limiter::Limiter;
use super::seats::Taken;
#[cfg(any(feature = "metrics", feature = "tracing"))]
use super::telemetry::Marked;
use super::watch::{Watch, watched};

/// A place in the queue: a future of the [`Permit`]. Dropping it gives the place up.
///
/// It asks for its place when it is first polled, keeps it without being polled, and may be moved
/// between tasks and runtimes. It needs a tokio runtime to wait in.
#[must_use = "a ticket asks for its turn when it is awaited"]
pub struct Ticket {
    limiter: Limiter,
    state: State,
    history: History,
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
struct History {
    submitted: Time,
    /// When its last wait began.
    since: Time,
    /// Its waits before the first attempt.
    queued: Duration,
    /// All its waits.
    waited: Duration,
    attempts: u32,
    /// Attempts of the requests that led to this one by a redirect.
    earlier: u32,
    patience: Option<Patience>,
    deadline: Option<Duration>,
    attempt_timeout: Option<Duration>,
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    marked: Marked,
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

/// Leave to send one attempt on one key, and the duty to say how it ended.
#[must_use = "dropping a permit cancels its attempt: complete it with the outcome"]
pub struct Permit {
    claim: Claim,
    leave: Leave,
    history: History,
}

impl Permit {
    /// Says how the attempt ended. The slot is free from now on.
    pub fn complete(self, outcome: &Outcome) -> Verdict {
        self.end(outcome, false).0
    }

    /// The same; where the verdict is to return and the slot is `held`, it stays taken until the
    /// claim is dropped.
    pub(crate) fn end(self, outcome: &Outcome, held: bool) -> (Verdict, Option<Claim>) {
        let (verdict, claim) = self.claim.complete(outcome, held);
        #[cfg(any(feature = "metrics", feature = "tracing"))]
        {
            let (gate, key) = (self.leave.limiter.gate(), self.leave.fingerprint());
            gate.telemetry()
                .on_ended(self.history.marked, key, outcome, &verdict);
            #[cfg(feature = "metrics")]
            gate.sample();
        }
        let clock = self.leave.limiter.gate().clock();
        match (verdict, claim) {
            (events::Verdict::Again { .. }, Some(claim)) => {
                let mut history = self.history;
                history.since = clock.now();
                let ticket = Ticket {
                    limiter: self.leave.limiter,
                    state: State::Waiting(claim),
                    history,
                    ending: None,
                };
                (Verdict::Again(ticket), None)
            }
            (events::Verdict::Return { retry_at, why }, claim) => {
                let retry_at = retry_at.filter(|&at| at != Time::NEVER);
                let retry_at = retry_at.map(|at| clock.wall_at(at));
                (Verdict::Return { retry_at, why }, claim)
            }
            (events::Verdict::Again { .. }, None) => unreachable!("its claim is on the queue"),
        }
    }

    /// Runs the attempt, at most until the ask's deadline, and no longer than an attempt may take;
    /// that is counted anew if meanwhile it `has_waited` for another limiter.
    pub(crate) async fn run<F: Future>(
        &self,
        attempt: F,
        has_waited: impl Fn() -> bool,
    ) -> Result<F::Output, Error> {
        let mut attempt = pin!(watched(&self.claim, attempt));
        let clock = self.claim.gate().clock();
        let History {
            submitted,
            deadline,
            attempt_timeout,
            ..
        } = self.history;
        let end =
            deadline.map(|deadline| (submitted + deadline, Error::timed_out as Late, deadline));
        loop {
            let slow =
                attempt_timeout.map(|most| (clock.now() + most, Error::too_slow as Late, most));
            let bounds = [end, slow].into_iter().flatten();
            let Some((at, late, limit)) = bounds.min_by_key(|&(at, ..)| at) else {
                return Ok(attempt.await);
            };
            match timeout_at(clock.instant(at), attempt.as_mut()).await {
                Ok(out) => return Ok(out),
                Err(_) if end.is_none_or(|(end, ..)| at < end) && has_waited() => {}
                Err(_) => return Err(late(limit)),
            }
        }
    }

    /// The attempt was answered with a redirect: the ticket of the request that follows it.
    #[cfg(feature = "reqwest")]
    pub(super) fn redirected(self, mut ask: Ask, answer: &Outcome) -> Ticket {
        let limiter = self.leave.limiter.clone();
        let before = self.history;
        let passed = limiter.gate().clock().now().since(before.submitted);
        ask.deadline = before.deadline.map(|left| left.saturating_sub(passed));
        let mut ticket = Ticket::watched(limiter, ask);
        ticket.history = History {
            deadline: ticket.history.deadline,
            earlier: before.earlier + before.attempts,
            attempts: 0,
            ..before
        };
        match self.complete(answer) {
            Verdict::Return { .. } => {}
            // Whatever else it said, the server has told where to go.
            Verdict::Again(again) => drop(again),
        }
        ticket
    }

    /// How many attempts were sent for the caller's request.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(super) fn attempts(&self) -> u32 {
        self.history.earlier + self.history.attempts
    }

    /// How long it waited for its first attempt.
    #[must_use]
    pub fn queued(&self) -> Duration {
        self.history.queued
    }

    /// How long it waited in all.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.history.waited
    }

    pub(crate) fn leave(&self) -> &Leave {
        &self.leave
    }

    #[cfg(feature = "reqwest")]
    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }
}

impl Deref for Permit {
    type Target = Leave;

    fn deref(&self) -> &Leave {
        &self.leave
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("key", &self.leave.key)
            .field("attempt", &self.leave.attempt)
            .finish_non_exhaustive()
    }
}

/// Makes the error of an attempt that took longer than this.
type Late = fn(Duration) -> Error;

/// What a permit allows.
#[derive(Clone)]
pub struct Leave {
    limiter: Limiter,
    key: ApiKey,
    attempt: u32,
}

impl Leave {
    /// The key to send it on.
    #[must_use]
    pub fn key(&self) -> &ApiKey {
        &self.key
    }

    /// What may be shown of the key.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.key.fingerprint()
    }

    /// 1 for the first attempt.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Reads a response that was received just now. `body` is as much of it as you have; it is
    /// worth having where the status is an error.
    #[must_use]
    pub fn outcome(&self, status: StatusCode, headers: &HeaderMap, body: Option<&[u8]>) -> Outcome {
        self.outcome_by(&self.limiter.profile(), status, headers, body)
    }

    /// Reads the data of an event of a stream that was answered with a success: an outcome if it is
    /// an error. Where nothing of the stream was delivered yet, end the attempt with it, and it goes
    /// again as a refused request would.
    #[must_use]
    pub fn outcome_of_event(&self, data: &[u8]) -> Option<Outcome> {
        let received = self.limiter.gate().clock().wall();
        let said = feedback::read_event(&self.limiter.profile(), data, received)?;
        (said.class != feedback::Class::Ok).then_some(Outcome::Answered(said))
    }

    pub(crate) fn outcome_by(
        &self,
        profile: &Profile,
        status: StatusCode,
        headers: &HeaderMap,
        body: Option<&[u8]>,
    ) -> Outcome {
        let received = self.limiter.gate().clock().wall();
        Outcome::Answered(feedback::read(profile, status, headers, body, received))
    }
}

impl fmt::Debug for Leave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leave")
            .field("key", &self.key)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// What to do after an attempt.
#[derive(Debug)]
#[must_use = "an ask that goes again waits for its turn: await its ticket or drop it"]
#[expect(
    clippy::large_enum_variant,
    reason = "it is matched where it was made; a box would be in every caller's way"
)]
#[non_exhaustive]
pub enum Verdict {
    /// Give the result to the caller.
    Return {
        /// When it could be tried again, where that is known.
        retry_at: Option<SystemTime>,
        /// Why it is not tried again; none for an answer that needs no retry.
        why: Option<GaveUp>,
    },
    /// It goes again, in its old place: the ticket gives the permit of the next attempt.
    Again(Ticket),
}
