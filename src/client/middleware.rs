//! The walk of one request through a limiter, as a middleware of `reqwest`.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, Method, header};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Error as ChainError, Middleware, Next, Result};

use crate::error::Error;
use crate::feedback::{Feedback, Profile};
use crate::scheduler::events::{Ask, Cost, GaveUp, Name, Outcome, Replay};

use super::bill::Bill;
use super::body;
use super::ear::Ear;
use super::earlier::Earlier;
use super::extension::{self, Hold, Report};
use super::limiter::Limiter;
use super::marks::{Marks, Standing};
use super::permit::{Permit, Verdict};
use super::places::Answered;
use super::running::Running;
#[cfg(feature = "tracing")]
use super::telemetry::AttemptSpan;
use super::ticket::Ticket;
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
        self.pass(request, extensions, next).await
    }
}

/// What lies beyond the limiter: it sends an attempt.
pub(super) trait Onward {
    fn send(
        &self,
        request: Request,
        extensions: &mut Extensions,
    ) -> impl Future<Output = Result<Response>> + Send;
}

impl Onward for Next<'_> {
    async fn send(&self, request: Request, extensions: &mut Extensions) -> Result<Response> {
        self.clone().run(request, extensions).await
    }
}

impl Limiter {
    /// The whole way of one request, unless it is not the limiter's.
    pub(super) async fn pass(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: impl Onward,
    ) -> Result<Response> {
        let standing = Marks::standing(extensions, self);
        if standing == Standing::Inside {
            return next.send(request, extensions).await;
        }
        let Some(profile) = self.admits(request.url()) else {
            return next.send(request, extensions).await;
        };
        let mut ask = self.ask(&request, &profile, extensions);
        if standing == Standing::Under {
            // Only the outermost limiter repeats.
            ask.replay = Replay::Never;
        }
        let model = ask.bucket.clone().filter(|_| profile.limits_models());
        let is_unnamed = ask.bucket.is_none();
        if is_unnamed {
            let places = &self.front().places;
            ask.bucket = places.bucket(request.method(), request.url().path());
        }
        let mut walk = Walk {
            limiter: self,
            model,
            is_unnamed,
            method: request.method().clone(),
            running: Marks::enter(extensions, self),
            earlier: Earlier::none(request.headers(), &profile),
            is_priced: ask.cost != Cost::ONE,
            profile,
            hold: extensions.get().copied().unwrap_or_default(),
            follows: standing == Standing::Outermost,
            hops: 0,
            request: Some(request),
            spare: None,
            bodiless: None,
            last: None,
        };
        walk.run(ask, extensions, next).await
    }

    /// What a request asks for: its extensions, else what the application's hook says, else the
    /// defaults.
    fn ask(&self, request: &Request, profile: &Profile, extensions: &Extensions) -> Ask {
        let base = match extensions.get::<Ask>() {
            Some(ask) => ask.clone(),
            None => {
                let hooked = self.hooked_ask(request);
                self.classified(hooked, request.method(), request.url().path())
            }
        };
        let mut ask = extension::over(base, extensions);
        let body = request.body().and_then(reqwest::Body::as_bytes);
        let path = request.url().path();
        if ask.bucket.is_none()
            && let Some(bucket) = profile.bucket(path, body.unwrap_or_default())
        {
            ask = ask.bucket(bucket);
        }
        if ask.cost == Cost::ONE
            && let Some(estimate) = profile.estimate(path, body.unwrap_or_default())
        {
            ask = ask.estimated(Cost::in_out(estimate.input_tokens, estimate.output_tokens));
        }
        let (method, headers) = (request.method(), request.headers());
        if ask.replay == Replay::Auto && extension::is_replayable(method, path, headers, profile) {
            ask.replay = Replay::Always;
        }
        ask
    }
}

/// The attempts of one request.
struct Walk<'a> {
    limiter: &'a Limiter,
    running: Arc<Running>,
    profile: Profile,
    /// The bucket of a model, where each model has limits of its own.
    model: Option<Name>,
    /// Nobody named a bucket, neither the caller nor the profile.
    is_unnamed: bool,
    method: Method,
    hold: Hold,
    earlier: Earlier,
    /// It is charged for more than being a request.
    is_priced: bool,
    /// Only the outermost limiter follows redirects.
    follows: bool,
    hops: usize,
    /// What to send in the next turn.
    request: Option<Request>,
    /// What to send after that, where its body can be sent twice.
    spare: Option<Request>,
    /// Else the request without its body, for a redirect that drops that.
    bodiless: Option<Request>,
    /// The last response, in case that no better one comes.
    last: Option<(Response, Report)>,
}

/// How an attempt ended.
struct Ended {
    /// None: nothing was sent, since another limiter has refused it, or whoever was to send it
    /// cannot. That says nothing about the provider, and is not repeated.
    outcome: Option<Outcome>,
    result: Result<Response>,
    /// Where it was redirected to.
    to: Option<Url>,
}

impl Walk<'_> {
    async fn run(
        &mut self,
        mut ask: Ask,
        extensions: &mut Extensions,
        next: impl Onward,
    ) -> Result<Response> {
        self.spare = self.request.as_ref().and_then(Request::try_clone);
        if self.spare.is_none() {
            // A body that cannot be sent twice is sent once.
            ask.replay = Replay::Never;
            self.bodiless = self.request.as_ref().map(wire::bodiless);
        }
        let mut ticket = Ticket::watched(self.limiter.clone(), ask).timed(extensions);
        loop {
            Marks::waits(extensions, &self.running, true);
            let turn = (&mut ticket).await;
            Marks::waits(extensions, &self.running, false);
            let permit = match turn {
                Ok(permit) => permit,
                Err(error) => {
                    self.count(ticket.so_far());
                    return self.give_up(ChainError::middleware(error), None);
                }
            };
            let (attempts, waited) = (permit.attempts(), permit.waited());
            let attempt = self.request.take();
            let attempt = attempt.expect("each turn leaves one for the next");
            let ended = self.attempt(&permit, attempt, extensions, &next).await;
            let Some(outcome) = &ended.outcome else {
                permit.give_back();
                self.count((attempts - 1, waited));
                return ended.result.or_else(|error| self.give_up(error, None));
            };
            self.count((attempts, waited));
            self.earlier.on_ended(outcome);
            if let Some(hop) = self.hop(&ended) {
                let ask = self.limiter.ask(&hop, &self.profile, extensions);
                ticket = permit.redirected(ask, outcome).timed(extensions);
                self.spare = hop.try_clone();
                self.request = Some(hop);
                continue;
            }
            let mut report = Report::of(&permit);
            let held = ended.result.as_ref().is_ok_and(|reply| self.holds(reply));
            let bill = self.bill(&permit, &ended);
            let (verdict, claim) = permit.end(outcome, held);
            match (verdict, ended.result) {
                (Verdict::Return { retry_at, why }, Ok(response)) => {
                    let too_far = ended.to.filter(|_| self.hops == wire::REDIRECTS);
                    (report.retry_at, report.why) =
                        (retry_at, why.or_else(|| too_far.map(|_| GaveUp::Attempts)));
                    let hears = claim.is_some() && is_event_stream(&response);
                    let ear = hears.then(|| Ear::new(self.profile.clone()));
                    let response = body::accompanied(response, claim, ear, bill);
                    return Ok(reported(response, report));
                }
                (Verdict::Return { why, .. }, Err(error)) => {
                    return self.give_up(error, why);
                }
                (Verdict::Again(again), result) => {
                    ticket = again;
                    self.request = self.spare.take();
                    self.spare = self.request.as_ref().and_then(Request::try_clone);
                    if let Ok(response) = result {
                        self.last = Some((response, report));
                    }
                }
            }
        }
    }

    /// One attempt on the permit's key.
    async fn attempt(
        &self,
        permit: &Permit,
        mut request: Request,
        extensions: &mut Extensions,
        next: &impl Onward,
    ) -> Ended {
        let shown = Shown::put_key(permit.key(), &mut request, self.hops == 0);
        #[cfg(feature = "tracing")]
        let span = AttemptSpan::new(&request, permit);
        #[cfg(feature = "metrics")]
        let http = {
            let gate = self.limiter.gate();
            gate.telemetry().http(&request, gate.clock().now())
        };
        // Pinned here, since whatever takes a future by value has room for it twice.
        let sent = pin!(next.send(request, extensions));
        let sent = wire::redirected(sent);
        #[cfg(feature = "tracing")]
        let sent = span.around(sent);
        let (result, to) = match permit.run(sent, &self.running).await {
            Ok(ended) => ended,
            Err(late) => (Err(ChainError::middleware(late)), None),
        };
        #[cfg(feature = "tracing")]
        span.ends(result.as_ref().ok());
        #[cfg(feature = "metrics")]
        {
            let status = result.as_ref().ok().map(|reply| reply.status().as_u16());
            http.ends(status, self.limiter.gate().clock().now());
        }
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                let was_tried = !self.running.is_held_back();
                return Ended {
                    outcome: wire::outcome_of(&error).filter(|_| was_tried),
                    result: Err(shown.error(error)),
                    to: None,
                };
            }
        };
        if shown.was_redirected(&response) {
            // By a client that paceline has not made: it does not say how often.
            permit.claim().charge(1);
        }
        let mut response = shown.response(response);
        let mut slice = None;
        if self.wants_body(&response) {
            // Boxed, since few answers need it.
            let peeked = Box::pin(body::peek(response));
            let (whole, start) = watched(permit.claim(), peeked).await;
            response = whole;
            slice = Some(start);
        }
        let (status, headers) = (response.status(), response.headers());
        let mut outcome = permit.outcome_by(&self.profile, status, headers, slice.as_deref());
        if let Outcome::Answered(said) = &mut outcome {
            self.earlier.explain(status, said);
            if let Some(model) = &self.model {
                said.count_in(model.as_str());
            }
            self.see_place(permit, shown.path(), said);
        }
        Ended {
            outcome: Some(outcome),
            result: Ok(response),
            to: to.map(|to| shown.next(to)),
        }
    }

    /// Whether it is the place that is refused, and not the key.
    fn see_place(&self, permit: &Permit, path: &str, said: &mut Feedback) {
        let places = &self.limiter.front().places;
        let answered = Answered {
            method: &self.method,
            path,
            key: permit.fingerprint(),
            sent: permit.taken,
            is_unnamed: self.is_unnamed,
        };
        let gate = self.limiter.gate();
        let found = places.on_answer(&answered, said, || gate.clock().now());
        let Some((bucket, is_new)) = found else {
            return;
        };
        if is_new {
            gate.part(&bucket, answered.key);
        }
        said.count_in(bucket.as_str());
    }

    /// What to send where an answer redirects to, if that is to be followed.
    fn hop(&mut self, ended: &Ended) -> Option<Request> {
        let (to, response) = (ended.to.as_ref()?, ended.result.as_ref().ok()?);
        if !self.follows || self.hops == wire::REDIRECTS {
            return None;
        }
        let from = self.spare.as_ref().and_then(Request::try_clone);
        let hop = wire::hop(
            from.or_else(|| self.bodiless.take())?,
            response.status(),
            to,
        )?;
        self.hops += 1;
        self.last = None;
        Some(hop)
    }

    /// Whether the start of the body helps to classify a response.
    fn wants_body(&self, response: &Response) -> bool {
        // Nobody waits for the first event of a stream that is served.
        let is_served_stream = response.status().is_success() && is_event_stream(response);
        self.profile.wants_body(response.status()) && !is_served_stream
    }

    /// What is to be settled when the body of an answer has passed, if it may tell.
    fn bill(&self, permit: &Permit, ended: &Ended) -> Option<Bill> {
        let served = ended.result.as_ref().ok()?;
        if !self.is_priced || !served.status().is_success() || !is_json(served) {
            return None;
        }
        let receipt = permit.claim().receipt()?;
        let gate = Arc::clone(permit.claim().gate());
        Some(Bill::new(gate, receipt))
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

    /// What came after the last response belongs to its report.
    fn count(&mut self, so_far: (u32, Duration)) {
        if let Some((_, report)) = &mut self.last {
            report.count(so_far);
        }
    }

    /// The last response if there was one, else the error.
    fn give_up(&mut self, error: ChainError, why: Option<GaveUp>) -> Result<Response> {
        match self.last.take() {
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
    is_of_kind(response, b"text/event-stream")
}

fn is_json(response: &Response) -> bool {
    is_of_kind(response, b"application/json")
}

fn is_of_kind(response: &Response, kind: &[u8]) -> bool {
    let told = response.headers().get(header::CONTENT_TYPE);
    told.is_some_and(|told| told.as_bytes().starts_with(kind))
}

fn reported(mut response: Response, report: Report) -> Response {
    response.extensions_mut().insert(report);
    response
}
