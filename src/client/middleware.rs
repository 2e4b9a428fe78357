//! The walk of one request through a limiter, as a middleware of `reqwest`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use http::{Extensions, header};
use reqwest::{Request, Response};
use reqwest_middleware::{Error as ChainError, Middleware, Next, Result};
use smallvec::SmallVec;

use crate::error::Error;
use crate::feedback::{self, Profile};
use crate::scheduler::events::{Ask, Cost, GaveUp, Outcome, Replay};

use super::body;
use super::extension::{self, Hold, Report};
use super::limiter::Limiter;
use super::permit::{Permit, Ticket, Verdict};
use super::watch::watched;
use super::wire::{self, Shown};

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
        let Some(profile) = self.admits(request.url()) else {
            return next.run(request, extensions).await;
        };
        let mut ask = self.ask(&request, &profile, extensions);
        if standing == Standing::Under {
            // Only the outermost limiter repeats.
            ask.replay = Replay::Never;
        }
        let walk = Walk {
            limiter: self,
            running: Marks::enter(extensions, self),
            profile,
            hold: extensions.get().copied().unwrap_or_default(),
            last: None,
        };
        walk.run(request, ask, extensions, next).await
    }
}

impl Limiter {
    /// What a request asks for: its extensions, else what the application's hook says, else the
    /// defaults.
    fn ask(&self, request: &Request, profile: &Profile, extensions: &Extensions) -> Ask {
        let base = match extensions.get::<Ask>() {
            Some(ask) => ask.clone(),
            None => self.hooked_ask(request),
        };
        let mut ask = extension::over(base, extensions);
        if ask.cost == Cost::ONE
            && let Some(cost) = estimated(request)
        {
            ask = ask.estimated(cost);
        }
        if ask.replay == Replay::Auto && is_replayable(request, profile) {
            ask.replay = Replay::Always;
        }
        ask
    }
}

/// What a call to a language model will take, if this is one and its body can be looked at.
fn estimated(request: &Request) -> Option<Cost> {
    let body = request.body()?.as_bytes()?;
    let estimate = feedback::estimate(request.url().path(), body)?;
    Some(Cost::in_out(estimate.input_tokens, estimate.output_tokens))
}

/// Whether a request may be sent again after it may have been processed.
fn is_replayable(request: &Request, profile: &Profile) -> bool {
    let is_keyed = |name: &str| request.headers().contains_key(name);
    request.method().is_idempotent()
        || is_keyed("idempotency-key")
        || profile.idempotency_header().is_some_and(is_keyed)
        || profile.replays(request.url().path())
}

/// The attempts of one request.
struct Walk<'a> {
    limiter: &'a Limiter,
    running: Arc<Running>,
    profile: Profile,
    hold: Hold,
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
        let copy = |request: &Request| request.try_clone();
        let mut spare = (ask.replay != Replay::Never)
            .then(|| copy(&request))
            .flatten();
        if spare.is_none() {
            // A body that cannot be sent twice is sent once.
            ask.replay = Replay::Never;
        }
        let mut request = Some(request);
        let mut ticket = Ticket::watched(self.limiter.clone(), ask);
        loop {
            Marks::waits(extensions, &self.running, true);
            let turn = ticket.await;
            Marks::waits(extensions, &self.running, false);
            let permit = match turn {
                Ok(permit) => permit,
                Err(error) => return self.give_up(ChainError::middleware(error), None),
            };
            let attempt = request.take().expect("each turn leaves one for the next");
            let (outcome, result) = match self.attempt(&permit, attempt, extensions, &next).await {
                (Some(outcome), result) => (outcome, result),
                (None, Ok(response)) => return Ok(response),
                (None, Err(error)) => return self.give_up(error, None),
            };
            let mut report = Report::of(&permit);
            let held = result.as_ref().is_ok_and(|response| self.holds(response));
            let (verdict, claim) = permit.end(&outcome, held);
            match (verdict, result) {
                (Verdict::Return { retry_at, why }, Ok(response)) => {
                    (report.retry_at, report.why) = (retry_at, why);
                    let response = match claim {
                        Some(claim) => body::holding(response, claim),
                        None => response,
                    };
                    return Ok(reported(response, report));
                }
                (Verdict::Return { why, .. }, Err(error)) => {
                    return self.give_up(error, why);
                }
                (Verdict::Again(again), result) => {
                    ticket = again;
                    request = std::mem::take(&mut spare);
                    spare = request.as_ref().and_then(copy);
                    if let Ok(response) = result {
                        self.last = Some((response, report));
                    }
                }
            }
        }
    }

    /// One attempt on the permit's key. No outcome: another limiter has refused it, which says
    /// nothing about the provider and is not repeated.
    async fn attempt(
        &self,
        permit: &Permit,
        mut request: Request,
        extensions: &mut Extensions,
        next: &Next<'_>,
    ) -> (Option<Outcome>, Result<Response>) {
        let shown = Shown::put_key(permit.key(), &mut request);
        let sent = wire::counting(next.clone().run(request, extensions));
        let (result, mut hops) = match permit.run(sent).await {
            Ok(ended) => ended,
            Err(late) if self.running.waits_below.load(Ordering::Relaxed) => {
                // Another limiter further in had not let it through.
                let late = ChainError::middleware(late.never_sent(permit.attempt() > 1));
                return (None, Err(late));
            }
            Err(late) => (Err(ChainError::middleware(late)), 0),
        };
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                permit.claim().charge(hops);
                return (wire::outcome_of(&error), Err(shown.error(error)));
            }
        };
        if hops == 0 && shown.was_redirected(&response) {
            // A client that paceline has not made does not say how many.
            hops = 1;
        }
        permit.claim().charge(hops);
        let mut response = shown.response(response);
        let mut slice = None;
        if self.wants_body(&response) {
            let (whole, start) = watched(permit.claim(), body::peek(response)).await;
            response = whole;
            slice = Some(start);
        }
        let (status, headers) = (response.status(), response.headers());
        let outcome = permit.outcome_by(&self.profile, status, headers, slice.as_deref());
        (Some(outcome), Ok(response))
    }

    /// Whether the start of the body helps to classify a response.
    fn wants_body(&self, response: &Response) -> bool {
        // Nobody waits for the first event of a stream that is served.
        let is_served_stream = response.status().is_success() && is_event_stream(response);
        self.profile.wants_body(response.status()) && !is_served_stream
    }

    /// Whether the slot is held to the end of the body, because that is the work.
    fn holds(&self, response: &Response) -> bool {
        response.status().is_success()
            && match self.hold {
                Hold::Auto => is_event_stream(response),
                Hold::Headers => false,
                Hold::Body => true,
            }
    }

    /// The last response if there was one, else the error.
    fn give_up(self, error: ChainError, why: Option<GaveUp>) -> Result<Response> {
        match self.last {
            Some((response, mut report)) => {
                let own = Error::of(&error);
                report.retry_at = own.and_then(Error::retry_at);
                report.why = why.or_else(|| own.and_then(Error::gave_up));
                Ok(reported(response, report))
            }
            None => Err(error),
        }
    }
}

fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

fn reported(mut response: Response, report: Report) -> Response {
    response.extensions_mut().insert(report);
    response
}

/// The limiters whose attempt loops a request is running in.
///
/// Extensions outlive an attempt when a retry layer stands outside, so each mark is a weak handle
/// to its loop: a mark whose loop has ended means nothing but that there is such a layer.
#[derive(Clone, Debug, Default)]
struct Marks(SmallVec<[Mark; 2]>);

#[derive(Clone, Debug)]
struct Mark {
    limiter: u64,
    running: Weak<Running>,
}

/// An attempt loop that is running.
#[derive(Debug, Default)]
struct Running {
    /// A limiter further in holds the attempt back.
    waits_below: AtomicBool,
}

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
        let mut standing = Standing::Outermost;
        for mark in extensions
            .get::<Self>()
            .into_iter()
            .flat_map(|marks| &marks.0)
        {
            let is_running = mark.running.strong_count() > 0;
            match (is_running, mark.limiter == limiter.id()) {
                (true, true) => return Standing::Inside,
                (true, false) => standing = Standing::Under,
                (false, true) => limiter.on_retried_outside(),
                (false, false) => {}
            }
        }
        standing
    }

    fn enter(extensions: &mut Extensions, limiter: &Limiter) -> Arc<Running> {
        let running = Arc::new(Running::default());
        let marks = extensions.get_or_insert_default::<Self>();
        marks.0.retain(|mark| mark.running.strong_count() > 0);
        marks.0.push(Mark {
            limiter: limiter.id(),
            running: Arc::downgrade(&running),
        });
        running
    }
    /// Tells the loops further out that this one waits, or does not any more.
    fn waits(extensions: &Extensions, own: &Arc<Running>, waits: bool) {
        let marks = extensions
            .get::<Self>()
            .into_iter()
            .flat_map(|marks| &marks.0);
        for mark in marks.filter(|mark| mark.running.as_ptr() != Arc::as_ptr(own)) {
            if let Some(outer) = mark.running.upgrade() {
                outer.waits_below.store(waits, Ordering::Relaxed);
            }
        }
    }
}
