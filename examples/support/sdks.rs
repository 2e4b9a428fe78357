//! Two SDKs as they are found: one is made of any service for requests, the other takes a client.

use paceline::client::BoxError;
use reqwest::{Client, Request, Response};
use tower_service::Service;

pub(crate) struct TowerSdk<S>(pub(crate) S, pub(crate) String);

impl<S> TowerSdk<S>
where
    S: Service<Request, Response = Response, Error = BoxError>,
{
    pub(crate) async fn item(&mut self, n: usize) -> Result<Response, BoxError> {
        std::future::poll_fn(|context| self.0.poll_ready(context)).await?;
        let url = format!("{}tower/{n}", self.1).parse()?;
        self.0.call(Request::new(http::Method::GET, url)).await
    }
}

pub(crate) struct PlainSdk(pub(crate) Client, pub(crate) String);

impl PlainSdk {
    pub(crate) async fn item(&self, n: usize) -> reqwest::Result<Response> {
        self.0.get(format!("{}plain/{n}", self.1)).send().await
    }
}
