//! A limiter as a layer of tower, for clients that are made of its services.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, Uri};
use tower_layer::Layer;
use tower_service::Service;

use crate::error::Error;
use crate::feedback::Profile;
use crate::scheduler::events::{Ask, Outcome, Replay};

use super::earlier::Earlier;
use super::extension::{self, Report};
use super::key::ApiKey;
use super::limiter::Limiter;
use super::marks::{Marks, Standing};
use super::permit::Verdict;
use super::ticket::Ticket;

/// Puts a [`Limiter`] in front of a service of `http` requests, or (with the feature `reqwest`) of
/// one of `reqwest` requests, such as a plain `reqwest::Client`.
///
/// A `reqwest` request goes the same way as through the middleware, but carries no extensions: what
/// it asks for is said by [`ask_with`](crate::LimiterBuilder::ask_with).
///
/// Of an `http` request every attempt passes the gates, too. It says what it asks for by its
/// extensions, as with the middleware; its response carries the [`Report`]. It goes past a limiter
/// that is for other [`hosts`](crate::LimiterBuilder::hosts), without key and without gates; one
/// whose URI has no host is the limiter's, for only the service knows where it goes. The same
/// limiter twice acts once. A slot is held until the headers, and a refusal is classified by status
/// and headers alone. A service that fails before it is ready has sent nothing, and ends the request;
/// any other error of it counts as sent, so only idempotent requests are repeated after it, and
/// those with [`Replay::Always`]. Redirects are the service's own affair: one
/// that follows them must not carry keys to other hosts.
///
/// ```
/// # fn layered<S>(inner: S) -> impl Sized {
/// use tower_layer::Layer;
/// paceline::LimiterLayer::new(paceline::Limiter::new()).layer(inner)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LimiterLayer(Limiter);

impl LimiterLayer {
    /// A layer of this limiter.
    #[must_use]
    pub fn new(limiter: Limiter) -> Self {
        Self(limiter)
    }
}

impl<S> Layer<S> for LimiterLayer {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited {
            limiter: self.0.clone(),
            inner,
        }
    }
}

/// A service behind a [`Limiter`].
#[derive(Clone)]
pub struct Limited<S> {
    pub(super) limiter: Limiter,
    pub(super) inner: S,
}

/// An error of the service, or paceline's own [`Error`].
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<S, B, R> Service<Request<B>> for Limited<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Clone + Send + 'static,
    R: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, BoxError>> + Send>>;

    /// Always ready: a place in the queue is taken by the call, so that nothing is held between
    /// the two, and the service is asked once the turn has come.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (limiter, inner) = (self.limiter.clone(), self.inner.clone());
        Box::pin(walk(limiter, inner, request))
    }
}

/// The attempts of one request.
async fn walk<S, B, R>(
    limiter: Limiter,
    mut inner: S,
    mut request: Request<B>,
) -> Result<Response<R>, BoxError>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    B: Clone,
{
    let standing = Marks::standing(request.extensions(), &limiter);
    let own = (standing != Standing::Inside).then(|| limiter.admits(request.uri()));
    let Some(profile) = own.flatten() else {
        let marks = request.extensions().get::<Marks>().cloned();
        return sent(&mut inner, request, marks.as_ref()).await;
    };
    let mut ask = ask_of(&limiter, &request, &profile);
    if standing == Standing::Under {
        // Only the outermost limiter repeats.
        ask.replay = Replay::Never;
    }
    let mut earlier = Earlier::none(request.headers(), &profile);
    let running = Marks::enter(request.extensions_mut(), &limiter);
    let mut ticket = Ticket::watched(limiter, ask).timed(request.extensions());
    let mut last = None;
    loop {
        Marks::waits(request.extensions(), &running, true);
        let turn = (&mut ticket).await;
        Marks::waits(request.extensions(), &running, false);
        let permit = match turn {
            Ok(permit) => permit,
            Err(error) => return give_up(last, error.into(), ticket.so_far()),
        };
        let so_far = (permit.attempts(), permit.waited());
        let unsent = (permit.attempts() - 1, permit.waited());
        let mut attempt = request.clone();
        if let Err(error) = put_key(permit.key(), &mut attempt) {
            permit.give_back();
            return give_up(last, error.into(), unsent);
        }
        let sent = sent(&mut inner, attempt, request.extensions().get());
        let result = match permit.run(sent, &running).await {
            Ok(result) => result,
            Err(late) => Err(late.into()),
        };
        let result = match result {
            Err(error) if running.is_held_back() || is_of_another(&error) => {
                permit.give_back();
                return give_up(last, error, unsent);
            }
            result => result,
        };
        let mut outcome = match &result {
            Ok(reply) => permit.outcome_by(&profile, reply.status(), reply.headers(), None),
            Err(_) => Outcome::Broken,
        };
        if let (Outcome::Answered(said), Ok(reply)) = (&mut outcome, &result) {
            earlier.explain(reply.status(), said);
        }
        earlier.on_ended(&outcome);
        let mut report = Report::of(&permit);
        match (permit.complete(&outcome), result) {
            (Verdict::Return { retry_at, why }, Ok(response)) => {
                (report.retry_at, report.why) = (retry_at, why);
                return Ok(reported(response, report));
            }
            (Verdict::Return { .. }, Err(error)) => return give_up(last, error, so_far),
            (Verdict::Again(again), result) => {
                ticket = again;
                if let Ok(response) = result {
                    last = Some(reported(response, report));
                }
            }
        }
    }
}

/// Sends it as soon as the service is ready; the loops of these marks hear when that is.
pub(super) async fn sent<S, Q>(
    service: &mut S,
    request: Q,
    marks: Option<&Marks>,
) -> Result<S::Response, BoxError>
where
    S: Service<Q>,
    S::Error: Into<BoxError>,
{
    let tell = |is_ready| {
        marks
            .into_iter()
            .for_each(|marks| marks.set_ready(is_ready))
    };
    tell(false);
    let ready = poll_fn(|context| service.poll_ready(context)).await;
    // Where it never will be, nothing is ever sent.
    ready.map_err(Into::into)?;
    tell(true);
    service.call(request).await.map_err(Into::into)
}

/// Whether another limiter, further in, has refused it: that says nothing about the provider.
fn is_of_another(error: &BoxError) -> bool {
    let own = error.downcast_ref::<Error>();
    own.is_some_and(|error| !error.is_late())
}

/// The last response if there was one, else the error.
fn give_up<R>(
    last: Option<Response<R>>,
    error: BoxError,
    so_far: (u32, Duration),
) -> Result<Response<R>, BoxError> {
    let Some(mut response) = last else {
        return Err(error);
    };
    if let Some(report) = response.extensions_mut().get_mut::<Report>() {
        report.count(so_far);
        let own = error.downcast_ref::<Error>();
        report.retry_at = own.and_then(Error::retry_at);
        report.why = own.and_then(Error::gave_up);
    }
    Ok(response)
}

fn ask_of<B>(limiter: &Limiter, request: &Request<B>, profile: &Profile) -> Ask {
    let path = request.uri().path();
    let base = match request.extensions().get::<Ask>() {
        Some(ask) => ask.clone(),
        None => limiter.classified(Ask::new(), request.method(), path),
    };
    let mut ask = extension::over(base, request.extensions());
    // What the body says is not known here: it may be a stream.
    ask.bucket = ask
        .bucket
        .or_else(|| profile.bucket(path, &[]).map(Into::into));
    let (method, headers) = (request.method(), request.headers());
    if ask.replay == Replay::Auto && extension::is_replayable(method, path, headers, profile) {
        ask.replay = Replay::Always;
    }
    ask
}

fn put_key<B>(key: &ApiKey, request: &mut Request<B>) -> Result<(), http::Error> {
    key.put_on(request.headers_mut());
    let Some((name, secret)) = key.query_pair() else {
        return Ok(());
    };
    let uri = request.uri();
    let path = uri.path();
    let name = escaped(name).to_string();
    let pair = format!("{name}={}", escaped(secret));
    // One of the caller's own would be sent beside it, and servers differ in which counts.
    let is_other = |own: &&str| !own.is_empty() && own.split('=').next() != Some(&name);
    let others = uri.query().unwrap_or_default().split('&').filter(is_other);
    let query: Vec<_> = others.chain([pair.as_str()]).collect();
    let path_and_query = format!("{path}?{}", query.join("&"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path_and_query.try_into()?);
    *request.uri_mut() = Uri::from_parts(parts)?;
    Ok(())
}

/// A name or value as it may stand in a query: everything but RFC 3986's unreserved characters is
/// escaped.
fn escaped(text: &str) -> impl fmt::Display + '_ {
    struct Escaped<'a>(&'a str);
    impl fmt::Display for Escaped<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.bytes().try_for_each(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    write!(f, "{}", char::from(byte))
                }
                _ => write!(f, "%{byte:02X}"),
            })
        }
    }
    Escaped(text)
}

fn reported<R>(mut response: Response<R>, report: Report) -> Response<R> {
    response.extensions_mut().insert(report);
    response
}

impl<S: fmt::Debug> fmt::Debug for Limited<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited")
            .field("limiter", &self.limiter)
            .field("inner", &self.inner)
            .finish()
    }
}
