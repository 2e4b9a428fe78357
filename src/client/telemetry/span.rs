//! A span for each attempt over HTTP, as OpenTelemetry's conventions want it.

use reqwest::{Request, Response};
use tracing::Span;
use tracing::field::Empty;

use crate::client::Permit;

/// The span of one attempt.
#[derive(Debug)]
pub(in crate::client) struct AttemptSpan(Span);

impl AttemptSpan {
    pub(in crate::client) fn new(request: &Request, permit: &Permit) -> Self {
        let url = request.url();
        // Without query, fragment and user: they may hold secrets. Made only for who listens.
        let shown = || format!("{}{}", url.origin().ascii_serialization(), url.path());
        let resent = permit.attempt().saturating_sub(1);
        let span = tracing::info_span!(
            target: "paceline",
            "http.client",
            otel.name = request.method().as_str(),
            otel.kind = "client",
            http.request.method = request.method().as_str(),
            server.address = url.host_str(),
            server.port = url.port_or_known_default(),
            url.full = shown(),
            http.request.resend_count = (resent > 0).then_some(resent),
            http.response.status_code = Empty,
            error.type = Empty,
            paceline.key = %permit.fingerprint(),
            paceline.waited = permit.waited().as_secs_f64(),
        );
        Self(span)
    }

    /// Runs the attempt inside it.
    pub(in crate::client) fn around<F: Future>(
        &self,
        attempt: F,
    ) -> tracing::instrument::Instrumented<F> {
        tracing::Instrument::instrument(attempt, self.0.clone())
    }

    /// What came back; nothing is an error of the transport.
    pub(in crate::client) fn ends(&self, response: Option<&Response>) {
        match response {
            Some(response) => {
                let status = response.status().as_u16();
                self.0.record("http.response.status_code", status);
                if status >= 400 {
                    self.0.record("error.type", status);
                }
            }
            None => {
                self.0.record("error.type", "transport");
            }
        }
    }
}
