//! The walk of one request through a limiter, as a middleware of `reqwest`.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use http::{Extensions, header};
use reqwest::{Request, Response};
use reqwest_middleware::{Error as ChainError, Middleware, Next, Result};
use smallvec::SmallVec;

use crate::error::Error;
use crate::scheduler::events::{Ask, GaveUp, Outcome, Replay};

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
        if standing == Standing::Inside || !self.admits(request.url()) {
            return next.run(request, extensions).await;
        }
        let mut ask = self.ask(&request, extensions);
        if standing == Standing::Under {
            // Only the outermost limiter repeats.
            ask.replay = Replay::Never;
        }
        let running = Marks::enter(extensions, self);
        let walk = Walk {
            limiter: self,
            hold: extensions.get().copied().unwrap_or_default(),
            last: None,
        };
        let result = walk.run(request, ask, extensions, next).await;
        drop(running);
        result
    }
}

impl Limiter {
    /// What a request asks for: its extensions, else what the application's hook says, else the
    /// defaults.
    fn ask(&self, request: &Request, extensions: &Extensions) -> Ask {
        let base = match extensions.get::<Ask>() {
            Some(ask) => ask.clone(),
            None => self.hooked_ask(request),
        };
        let mut ask = extension::over(base, extensions);
        let safe =
            request.method().is_idempotent() || request.headers().contains_key("idempotency-key");
        if ask.replay == Replay::Auto && safe {
            ask.replay = Replay::Always;
        }
        ask
    }
}

/// The attempts of one request.
struct Walk<'a> {
    limiter: &'a Limiter,
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
            let permit = match ticket.await {
                Ok(permit) => permit,
                Err(error) => {
                    let why = error.gave_up();
                    return self.give_up(ChainError::middleware(error), why, extensions);
                }
            };
            let attempt = request.take().expect("each turn leaves one for the next");
            let (outcome, result) = attempt_on(&permit, attempt, extensions, &next).await;
            let mut report = report_of(&permit);
            let held = result.as_ref().is_ok_and(|response| self.holds(response));
            let (verdict, claim) = permit.end(&outcome, held);
            match (verdict, result) {
                (Verdict::Return { retry_at, why }, Ok(response)) => {
                    (report.retry_at, report.why) = (retry_at, why);
                    let response = match claim {
                        Some(claim) => body::holding(response, claim),
                        None => response,
                    };
                    return Ok(reported(response, report, extensions));
                }
                (Verdict::Return { why, .. }, Err(error)) => {
                    return self.give_up(error, why, extensions);
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

    /// Whether the slot is held to the end of the body, because that is the work.
    fn holds(&self, response: &Response) -> bool {
        let is_stream = || {
            let kind = response.headers().get(header::CONTENT_TYPE);
            kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
        };
        response.status().is_success()
            && match self.hold {
                Hold::Auto => is_stream(),
                Hold::Headers => false,
                Hold::Body => true,
            }
    }

    /// The last response if there was one, else the error.
    fn give_up(
        self,
        error: ChainError,
        why: Option<GaveUp>,
        extensions: &mut Extensions,
    ) -> Result<Response> {
        match self.last {
            Some((response, mut report)) => {
                report.retry_at = Error::of(&error).and_then(Error::retry_at);
                report.why = why;
                Ok(reported(response, report, extensions))
            }
            None => Err(error),
        }
    }
}

/// One attempt on the permit's key.
async fn attempt_on(
    permit: &Permit,
    mut request: Request,
    extensions: &mut Extensions,
    next: &Next<'_>,
) -> (Outcome, Result<Response>) {
    let shown = Shown::put_key(permit.key(), &mut request);
    let sent = wire::counting(next.clone().run(request, extensions));
    let (result, mut hops) = match permit.run(sent).await {
        Ok(ended) => ended,
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
    if response.status().is_client_error() || response.status().is_server_error() {
        let (whole, start) = watched(permit.claim(), body::peek(response)).await;
        response = whole;
        slice = Some(start);
    }
    let outcome = permit.outcome(response.status(), response.headers(), slice.as_deref());
    (outcome, Ok(response))
}

fn report_of(permit: &Permit) -> Report {
    Report {
        attempts: permit.attempt(),
        key: permit.fingerprint(),
        queued: permit.queued(),
        waited: permit.waited(),
        retry_at: None,
        why: None,
    }
}

fn reported(mut response: Response, report: Report, extensions: &mut Extensions) -> Response {
    extensions.insert(report.clone());
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
    running: Weak<()>,
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

    fn enter(extensions: &mut Extensions, limiter: &Limiter) -> Arc<()> {
        let running = Arc::new(());
        let marks = extensions.get_or_insert_default::<Self>();
        marks.0.retain(|mark| mark.running.strong_count() > 0);
        marks.0.push(Mark {
            limiter: limiter.id(),
            running: Arc::downgrade(&running),
        });
        running
    }
}
