//! A limiter in front of a service of `reqwest` requests: the way in for SDKs that are made of one.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Error as ChainError, Result as ChainResult};
use tower_service::Service;

use crate::error::Error;

use super::marks::Marks;
use super::middleware::Onward;
use super::service::{BoxError, Limited, sent};

impl<S> Service<Request> for Limited<S>
where
    S: Service<Request, Response = Response> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    type Response = Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, BoxError>> + Send>>;

    /// Always ready: a place in the queue is taken by the call.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (limiter, inner) = (self.limiter.clone(), self.inner.clone());
        Box::pin(async move {
            let mut extensions = Extensions::new();
            let reply = limiter.pass(request, &mut extensions, Inner(inner)).await;
            reply.map_err(plain)
        })
    }
}

/// The service behind the limiter.
struct Inner<S>(S);

impl<S> Onward for Inner<S>
where
    S: Service<Request, Response = Response> + Clone + Send + Sync,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    fn send(
        &self,
        request: Request,
        extensions: &mut Extensions,
    ) -> impl Future<Output = ChainResult<Response>> + Send {
        let mut service = self.0.clone();
        let marks = extensions.get::<Marks>().cloned();
        async move {
            let sent = sent(&mut service, request, marks.as_ref()).await;
            sent.map_err(chained)
        }
    }
}

/// An error of the service, as one of a chain: an attempt that reqwest could not send is told from
/// one that may have been processed.
fn chained(error: BoxError) -> ChainError {
    match error.downcast::<reqwest::Error>() {
        Ok(error) => ChainError::Reqwest(*error),
        Err(error) => ChainError::middleware(OfService(error)),
    }
}

/// The error again, as it was.
fn plain(error: ChainError) -> BoxError {
    match error {
        ChainError::Reqwest(error) => error.into(),
        ChainError::Middleware(error) => match error.downcast::<OfService>() {
            Ok(OfService(error)) => error,
            // The limiter's own.
            Err(error) => match error.downcast::<Error>() {
                Ok(own) => own.into(),
                Err(error) => error.into(),
            },
        },
    }
}

/// An error of the service that is none of reqwest's.
#[derive(Debug)]
struct OfService(BoxError);

impl fmt::Display for OfService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for OfService {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}
