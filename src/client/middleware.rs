//! The walk of one request through a limiter, as a middleware of `reqwest`.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Error as ChainError, Middleware, Next, Result};
use smallvec::SmallVec;

use crate::error::Error;
use crate::scheduler::events::{Ask, Cost, Fingerprint, GaveUp, Name, Outcome, Priority, Replay};

use super::limiter::Limiter;
use super::permit::{Permit, Verdict};
use super::wire;

/// What shares a limit inside the provider: an extension of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket(pub Name);

/// On whose behalf a request is made: an extension of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant(pub Name);

/// The cancellable set that a request belongs to: an extension of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group(pub Name);

/// From submit to the headers of the last attempt, waits included: an extension of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(pub Duration);

/// The only key that a request may go to: an extension of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin(pub Fingerprint);

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
    /// How many attempts were sent.
    pub attempts: u32,
    /// The key of the last one.
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

#[async_trait]
impl Middleware for Limiter {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let standing = Marks::standing(extensions, self);
        if standing == Standing::Inside {
            return next.run(request, extensions).await;
        }
        let mut ask = ask_of(&request, extensions);
        if standing == Standing::Under {
            // Only the outermost limiter repeats.
            ask.replay = Replay::Never;
        }
        let running = Marks::enter(extensions, self);
        let walk = Walk {
            limiter: self,
            last: None,
        };
        let result = walk.run(request, ask, extensions, next).await;
        drop(running);
        result
    }
}

/// The attempts of one request.
struct Walk<'a> {
    limiter: &'a Limiter,
    /// The last response, in case that no better one comes.
    last: Option<(Response, Report)>,
}

impl Walk<'_> {
    async fn run(
        mut self,
        request: Request,
        mut ask: Ask,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut spare = if ask.replay == Replay::Never {
            None
        } else {
            request.try_clone()
        };
        if spare.is_none() {
            ask.replay = Replay::Never;
        }
        let mut request = Some(request);
        let mut ticket = self.limiter.acquire(ask);
        loop {
            let permit = match ticket.await {
                Ok(permit) => permit,
                Err(error) => return self.give_up(ChainError::middleware(error), extensions),
            };
            let attempt = request.take().expect("each turn leaves one for the next");
            let (outcome, result) = self.attempt(&permit, attempt, extensions, &next).await;
            let history = *permit.history();
            let key = permit.fingerprint();
            let (retry_at, why) = match permit.complete(&outcome) {
                Verdict::Return { retry_at, why } => (retry_at, why),
                Verdict::Again(again) => {
                    ticket = again;
                    let copy = spare.as_ref().and_then(Request::try_clone);
                    request = std::mem::replace(&mut spare, copy);
                    if let Ok(response) = result {
                        let report = report(&history, key, None, None);
                        self.last = Some((response, report));
                    }
                    continue;
                }
            };
            return match result {
                Ok(response) => {
                    let report = report(&history, key, retry_at, why);
                    Ok(reported(response, report, extensions))
                }
                Err(error) => self.give_up(error, extensions),
            };
        }
    }

    /// One attempt on the permit's key.
    async fn attempt(
        &self,
        permit: &Permit,
        mut request: Request,
        extensions: &mut Extensions,
        next: &Next<'_>,
    ) -> (Outcome, Result<Response>) {
        let shown = wire::put_key(permit.key(), &mut request);
        let sent = next.clone().run(request, extensions);
        let result = match permit.deadline() {
            None => sent.await,
            Some((at, after)) => {
                let clock = self.limiter.gate().clock();
                match tokio::time::timeout_at(clock.instant(at), sent).await {
                    Ok(result) => result,
                    Err(_) => Err(ChainError::middleware(Error::timed_out(after))),
                }
            }
        };
        match result {
            Ok(response) => {
                let (response, slice) = wire::peek(response, shown).await;
                let (status, headers) = (response.status(), response.headers());
                let outcome = permit.outcome(status, headers, slice.as_deref());
                (outcome, Ok(response))
            }
            Err(error) => {
                let error = wire::hide_key(error, shown);
                (wire::outcome_of(&error), Err(error))
            }
        }
    }

    /// The last response if there was one, else the error.
    fn give_up(self, error: ChainError, extensions: &mut Extensions) -> Result<Response> {
        match self.last {
            Some((response, mut report)) => {
                report.retry_at = Error::of(&error).and_then(Error::retry_at);
                report.why = Some(GaveUp::Deadline);
                Ok(reported(response, report, extensions))
            }
            None => Err(error),
        }
    }
}

fn report(
    history: &super::permit::History,
    key: Fingerprint,
    retry_at: Option<SystemTime>,
    why: Option<GaveUp>,
) -> Report {
    Report {
        attempts: history.attempts,
        key,
        queued: history.queued,
        waited: history.waited,
        retry_at,
        why,
    }
}

fn reported(mut response: Response, report: Report, extensions: &mut Extensions) -> Response {
    extensions.insert(report.clone());
    response.extensions_mut().insert(report);
    response
}

/// What this request asks for: its extensions over the defaults.
fn ask_of(request: &Request, extensions: &Extensions) -> Ask {
    let mut ask = extensions.get::<Ask>().cloned().unwrap_or_default();
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
    if ask.replay == Replay::Auto && wire::is_replayable(request) {
        ask.replay = Replay::Always;
    }
    ask
}

/// The limiters whose attempt loops a request is running in.
///
/// Extensions outlive an attempt when a retry layer stands outside, so each mark is a weak handle
/// to its loop: a mark whose loop has ended means nothing.
#[derive(Clone, Debug, Default)]
struct Marks(SmallVec<[Weak<Loop>; 2]>);

/// An attempt loop that is running.
#[derive(Debug)]
struct Loop(Limiter);

/// Where a limiter stands in the chain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// No limiter stands outside.
    Outermost,
    /// Another limiter stands outside.
    Under,
    /// The same limiter stands outside.
    Inside,
}

impl Marks {
    fn standing(extensions: &Extensions, limiter: &Limiter) -> Standing {
        let marks = extensions.get::<Self>().into_iter();
        let alive = marks.flat_map(|marks| marks.0.iter().filter_map(Weak::upgrade));
        let mut standing = Standing::Outermost;
        for outer in alive {
            if outer.0.is_same(limiter) {
                return Standing::Inside;
            }
            standing = Standing::Under;
        }
        standing
    }

    fn enter(extensions: &mut Extensions, limiter: &Limiter) -> Arc<Loop> {
        let running = Arc::new(Loop(limiter.clone()));
        let marks = extensions.get_or_insert_default::<Self>();
        marks.0.retain(|mark| mark.strong_count() > 0);
        marks.0.push(Arc::downgrade(&running));
        running
    }
}
