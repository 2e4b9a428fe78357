//! Leave to send one attempt, and how it ended.
//!
//! One claim on one seat goes through all phases, and dropping it in any of them frees what it
//! holds: a [`Ticket`] that waits, a [`Permit`] in flight.

use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use tokio::time::timeout_at;

use crate::Time;
use crate::error::Error;
use crate::feedback::{self, Profile};
use crate::scheduler::events::{self, Fingerprint, GaveUp, Outcome};

use super::claim::Claim;
use super::key::ApiKey;
use super::limiter::Limiter;
use super::running::Running;
use super::ticket::{History, Ticket};
use super::watch::watched;

/// Leave to send one attempt on one key, and the duty to say how it ended.
#[must_use = "dropping a permit cancels its attempt: complete it with the outcome"]
pub struct Permit {
    pub(super) claim: Claim,
    pub(super) leave: Leave,
    pub(super) history: History,
    /// When it was taken up.
    #[cfg(feature = "reqwest")]
    pub(super) taken: Time,
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
                let ticket = Ticket::again(self.leave.limiter, claim, history);
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

    /// Gives the turn back: nothing was sent with it, and nothing will be. Hard rates, quotas and
    /// limits that are shared with other processes are charged nothing, as if it had never been
    /// taken; a permit that is dropped keeps what it was charged, since the server may have counted
    /// it.
    pub fn give_back(self) {
        self.claim.take_back();
    }

    /// Runs the attempt, at most until the ask's deadline, and no longer than an attempt may take;
    /// that is counted anew if meanwhile it has waited for another limiter. While it is held back
    /// further in nothing was sent: ended then, by whatever, it is charged nothing.
    pub(super) async fn run<F: Future>(
        &self,
        attempt: F,
        running: &Running,
    ) -> Result<F::Output, Error> {
        let _unsent = Unsent(&self.claim, running);
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
                Err(_) if end.is_none_or(|(end, ..)| at < end) && running.has_waited_below() => {}
                Err(_) if running.is_held_back() => {
                    let History {
                        attempts, earlier, ..
                    } = self.history;
                    return Err(late(limit).never_sent(attempts + earlier > 1));
                }
                Err(_) => return Err(late(limit)),
            }
        }
    }

    /// The attempt was answered with a redirect: the ticket of the request that follows it.
    #[cfg(feature = "reqwest")]
    pub(super) fn redirected(self, mut ask: events::Ask, answer: &Outcome) -> Ticket {
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

/// Gives back what an attempt was charged that ends while it is held back.
struct Unsent<'a>(&'a Claim, &'a Running);

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if self.1.is_held_back() {
            self.0.take_back();
        }
    }
}

/// Makes the error of an attempt that took longer than this.
type Late = fn(Duration) -> Error;

/// What a permit allows.
#[derive(Clone)]
pub struct Leave {
    pub(super) limiter: Limiter,
    pub(super) key: ApiKey,
    pub(super) attempt: u32,
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
