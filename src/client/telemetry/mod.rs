//! What a program's own telemetry is told: spans and events (feature `tracing`), counters,
//! histograms and gauges (feature `metrics`).
//!
//! Names and units are those of OpenTelemetry's HTTP client conventions where there are any, else
//! they begin with `paceline.`. A label has a bounded number of values, whatever callers and
//! servers send: what comes beyond the bound is `_OTHER`. Keys appear as fingerprints only, URLs
//! without their query.

#[cfg(feature = "metrics")]
mod labels;
#[cfg(feature = "metrics")]
mod meter;
#[cfg(all(feature = "tracing", feature = "reqwest"))]
mod span;

use std::time::Duration;

use crate::scheduler::events::{Ask, Change, Fingerprint, Outcome, Refusal, Verdict};
#[cfg(feature = "tracing")]
use crate::scheduler::events::{Loan, What};
#[cfg(feature = "metrics")]
use crate::scheduler::explain::Explanation;

#[cfg(feature = "metrics")]
pub(crate) use labels::Labels;
#[cfg(feature = "metrics")]
use meter::Meter;
#[cfg(all(feature = "tracing", feature = "reqwest"))]
pub(super) use span::AttemptSpan;

/// What one limiter tells.
#[derive(Debug)]
pub(crate) struct Telemetry {
    #[cfg(feature = "metrics")]
    meter: Meter,
    #[cfg(feature = "tracing")]
    provider: Box<str>,
}

/// The bounded labels of one ask.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marked {
    /// The place of its bucket in the table of those that are named.
    #[cfg(feature = "metrics")]
    bucket: u8,
    #[cfg(feature = "metrics")]
    level: &'static str,
}

impl Telemetry {
    pub(super) fn new(
        provider: &str,
        #[cfg(feature = "metrics")] labels: std::sync::Arc<Labels>,
    ) -> Self {
        Self {
            #[cfg(feature = "metrics")]
            meter: Meter::new(provider, labels),
            #[cfg(feature = "tracing")]
            provider: provider.into(),
        }
    }

    /// The labels of an ask.
    #[cfg_attr(
        not(feature = "metrics"),
        expect(
            unused_variables,
            clippy::unused_self,
            reason = "only meters have labels"
        )
    )]
    pub(super) fn mark(&self, ask: &Ask) -> Marked {
        Marked {
            #[cfg(feature = "metrics")]
            bucket: self.meter.bucket(ask.bucket.as_ref()),
            #[cfg(feature = "metrics")]
            level: labels::level(ask.priority),
        }
    }

    /// An ask has its turn after a wait.
    pub(super) fn on_granted(&self, marked: Marked, key: Fingerprint, waited: Duration) {
        #[cfg(feature = "metrics")]
        self.meter.on_granted(marked.bucket, marked.level, waited);
        #[cfg(feature = "tracing")]
        if !waited.is_zero() {
            tracing::debug!(
                target: "paceline",
                {
                    paceline.provider = &*self.provider,
                    paceline.key = %key,
                    paceline.waited = waited.as_secs_f64()
                },
                "a request has its turn"
            );
        }
        #[cfg(not(feature = "metrics"))]
        let _: Marked = marked;
        #[cfg(not(feature = "tracing"))]
        let _: Fingerprint = key;
    }

    /// An ask was not sent, or not sent again.
    pub(super) fn on_refused(&self, refusal: &Refusal) {
        #[cfg(feature = "metrics")]
        self.meter.on_refused(refusal);
        #[cfg(feature = "tracing")]
        tracing::debug!(
            target: "paceline",
            { paceline.provider = &*self.provider, error.type = refusal.word() },
            "a request was not sent"
        );
    }

    /// An attempt has ended.
    pub(super) fn on_ended(
        &self,
        marked: Marked,
        key: Fingerprint,
        outcome: &Outcome,
        verdict: &Verdict,
    ) {
        #[cfg(feature = "metrics")]
        {
            let again = matches!(verdict, Verdict::Again { .. });
            self.meter.on_ended(marked.bucket, key, outcome, again);
        }
        #[cfg(feature = "tracing")]
        if let Verdict::Again { not_before } = verdict {
            tracing::debug!(
                target: "paceline",
                {
                    paceline.provider = &*self.provider,
                    paceline.key = %key,
                    paceline.outcome = outcome.word(),
                    paceline.not_before = not_before.as_secs_f64()
                },
                "a request goes again"
            );
        }
        #[cfg(not(feature = "metrics"))]
        let _: (Marked, &Outcome) = (marked, outcome);
    }

    /// The limiter has decided something.
    pub(super) fn on_change(&self, change: &Change) {
        #[cfg(feature = "metrics")]
        self.meter.on_change(change);
        #[cfg(feature = "tracing")]
        {
            let provider = &*self.provider;
            match &change.what {
                What::Retired(_)
                | What::BeyondLimit
                | What::StoreAway { .. }
                | What::LimitsDiffer { .. }
                | What::StoreLost
                | What::SlotsLost(_) => {
                    tracing::warn!(target: "paceline", { paceline.provider = provider }, "{change}");
                }
                What::Lent(Loan::Grant | Loan::Woken | Loan::Body) => {
                    tracing::trace!(target: "paceline", { paceline.provider = provider }, "{change}");
                }
                What::Limit { .. } | What::Pace { .. } | What::Quota { .. } => {
                    tracing::debug!(target: "paceline", { paceline.provider = provider }, "{change}");
                }
                _ => {
                    tracing::info!(target: "paceline", { paceline.provider = provider }, "{change}")
                }
            }
        }
    }

    /// Where everything stands.
    #[cfg(feature = "metrics")]
    pub(super) fn on_sample(&self, explanation: &Explanation) {
        self.meter.on_sample(explanation);
    }

    /// An attempt over HTTP begins; it is told how it ended.
    #[cfg(all(feature = "metrics", feature = "reqwest"))]
    pub(super) fn http(&self, request: &reqwest::Request, now: crate::Time) -> meter::Http {
        self.meter.http(request, now)
    }
}
