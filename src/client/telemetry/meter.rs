//! Counters, histograms and gauges, through the `metrics` facade.

use std::sync::{Arc, Once};
use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

#[cfg(feature = "reqwest")]
use metrics::Label;

use crate::scheduler::events::{Change, Fingerprint, Name, Outcome, Refusal, What};
use crate::scheduler::explain::Explanation;

#[cfg(feature = "reqwest")]
use super::labels::method;
use super::labels::{Labels, Table};

/// The instruments of one limiter.
#[derive(Debug)]
pub(super) struct Meter {
    provider: Arc<str>,
    buckets: Table,
    keys: Table,
    #[cfg(feature = "reqwest")]
    labels: Arc<Labels>,
}

impl Meter {
    pub(super) fn new(provider: &str, labels: Arc<Labels>) -> Self {
        DESCRIBED.call_once(describe);
        Self {
            provider: labels.providers.label(provider),
            buckets: Table::new(MOST_BUCKETS, &["default"]),
            keys: Table::new(Explanation::MOST_KEYS, &[]),
            #[cfg(feature = "reqwest")]
            labels,
        }
    }

    pub(super) fn bucket(&self, name: Option<&Name>) -> u8 {
        name.map_or(0, |name| self.buckets.place(name.as_str()))
    }

    fn key(&self, key: Fingerprint) -> Arc<str> {
        self.keys.label(&key.to_string())
    }

    pub(super) fn on_granted(&self, bucket: u8, level: &'static str, waited: Duration) {
        histogram!(
            "paceline.wait.duration",
            "paceline.provider" => self.provider.clone(),
            "paceline.bucket" => self.buckets.name(bucket),
            "paceline.priority" => level,
        )
        .record(waited.as_secs_f64());
    }

    pub(super) fn on_refused(&self, refusal: &Refusal) {
        counter!(
            "paceline.unsent",
            "paceline.provider" => self.provider.clone(),
            "error.type" => refusal.word(),
        )
        .increment(1);
    }

    pub(super) fn on_ended(&self, bucket: u8, key: Fingerprint, outcome: &Outcome, again: bool) {
        counter!(
            "paceline.attempts",
            "paceline.provider" => self.provider.clone(),
            "paceline.bucket" => self.buckets.name(bucket),
            "paceline.key" => self.key(key),
            "paceline.outcome" => outcome.word(),
        )
        .increment(1);
        if again {
            counter!("paceline.repeats", "paceline.provider" => self.provider.clone()).increment(1);
        }
    }

    pub(super) fn on_change(&self, change: &Change) {
        let key = change.key.map(|key| self.key(key));
        match &change.what {
            What::Parked { why, .. } => counter!(
                "paceline.penalties",
                "paceline.provider" => self.provider.clone(),
                "paceline.key" => key.unwrap_or_else(|| Arc::from("all")),
                "paceline.reason" => why.to_string(),
            )
            .increment(1),
            What::Retired(fault) => counter!(
                "paceline.keys.retired",
                "paceline.provider" => self.provider.clone(),
                "paceline.key" => key.unwrap_or_else(|| Arc::from("all")),
                "error.type" => fault.words(),
            )
            .increment(1),
            What::StoreAway { .. } => counter!(
                "paceline.store.away",
                "paceline.provider" => self.provider.clone(),
            )
            .increment(1),
            _ => {}
        }
    }

    pub(super) fn on_sample(&self, explanation: &Explanation) {
        let provider = || self.provider.clone();
        let set = |name: &'static str, value: f64| {
            gauge!(name, "paceline.provider" => provider()).set(value);
        };
        set("paceline.queue.depth", explanation.waiting as f64);
        let usable = explanation.keys.iter();
        let usable = usable.filter(|key| key.fault.is_none() && key.rests.is_empty());
        set("paceline.keys.usable", usable.count() as f64);
        set("paceline.observed.held", explanation.observed.held as f64);
        set(
            "paceline.observed.refused",
            explanation.observed.refused as f64,
        );
        for report in &explanation.keys {
            let key = self.key(report.key);
            let set = |name: &'static str, value: f64| {
                gauge!(name, "paceline.provider" => provider(), "paceline.key" => key.clone())
                    .set(value);
            };
            set("paceline.in_flight", f64::from(report.in_flight));
            report
                .limit
                .into_iter()
                .for_each(|limit| set("paceline.limit", f64::from(limit)));
            report
                .pace
                .into_iter()
                .for_each(|pace| set("paceline.pace", pace));
        }
    }

    /// An attempt over HTTP begins.
    #[cfg(feature = "reqwest")]
    pub(super) fn http(&self, request: &reqwest::Request, now: crate::Time) -> Http {
        let url = request.url();
        let port = url.port_or_known_default().unwrap_or_default();
        let host = url.host_str().unwrap_or_default();
        let http = Http {
            method: method(request.method()),
            // As one: a host may have any number of ports.
            server: self.labels.servers.label(&format!("{host}:{port}")),
            began: now,
        };
        http.active().increment(1.0);
        http
    }
}

/// An attempt over HTTP that is under way.
#[cfg(feature = "reqwest")]
#[derive(Debug)]
pub(in crate::client) struct Http {
    method: &'static str,
    server: Arc<str>,
    began: crate::Time,
}

#[cfg(feature = "reqwest")]
impl Http {
    fn labels(&self) -> Vec<Label> {
        let mut labels = vec![Label::new("http.request.method", self.method)];
        match self.server.rsplit_once(':') {
            Some((host, port)) => {
                labels.push(Label::new("server.address", host.to_owned()));
                labels.push(Label::new("server.port", port.to_owned()));
            }
            None => labels.push(Label::new("server.address", self.server.clone())),
        }
        labels
    }

    fn active(&self) -> metrics::Gauge {
        gauge!("http.client.active_requests", self.labels())
    }

    /// It has ended with a status, or without a response.
    pub(in crate::client) fn ends(&self, status: Option<u16>, now: crate::Time) {
        let mut labels = self.labels();
        match status {
            Some(status) => {
                labels.push(Label::new("http.response.status_code", status.to_string()));
                if status >= 400 {
                    labels.push(Label::new("error.type", status.to_string()));
                }
            }
            None => labels.push(Label::from_static_parts("error.type", "transport")),
        }
        histogram!("http.client.request.duration", labels).record(now.secs_since(self.began));
    }
}

/// However it ends, dropped in the middle too.
#[cfg(feature = "reqwest")]
impl Drop for Http {
    fn drop(&mut self) {
        self.active().decrement(1.0);
    }
}

fn describe() {
    for (name, what) in COUNTERS {
        describe_counter!(name, Unit::Count, what);
    }
    for (name, what) in HISTOGRAMS {
        describe_histogram!(name, Unit::Seconds, what);
    }
    for (name, unit, what) in GAUGES {
        describe_gauge!(name, unit, what);
    }
}

const COUNTERS: [(&str, &str); 6] = [
    (
        "paceline.attempts",
        "Attempts that have ended, by what came of them.",
    ),
    ("paceline.repeats", "Attempts that are made once more."),
    ("paceline.unsent", "Requests that were not sent (again)."),
    ("paceline.penalties", "Times that a key was put to rest."),
    ("paceline.keys.retired", "Keys that the server refuses."),
    (
        "paceline.store.away",
        "Times that the shared store went away.",
    ),
];
const HISTOGRAMS: [(&str, &str); 2] = [
    (
        "paceline.wait.duration",
        "How long a request waited for its turn.",
    ),
    (
        "http.client.request.duration",
        "Duration of HTTP client requests, to the headers.",
    ),
];
const GAUGES: [(&str, Unit, &str); 8] = [
    (
        "http.client.active_requests",
        Unit::Count,
        "HTTP requests in flight.",
    ),
    ("paceline.queue.depth", Unit::Count, "Requests that wait."),
    (
        "paceline.in_flight",
        Unit::Count,
        "Requests in flight on a key.",
    ),
    (
        "paceline.limit",
        Unit::Count,
        "How many may be in flight on a key.",
    ),
    ("paceline.pace", Unit::CountPerSecond, "The rate of a key."),
    (
        "paceline.keys.usable",
        Unit::Count,
        "Keys that neither rest nor are refused.",
    ),
    (
        "paceline.observed.held",
        Unit::Count,
        "Requests that would have been held, while limits are only observed.",
    ),
    (
        "paceline.observed.refused",
        Unit::Count,
        "Requests that would have been refused, while limits are only observed.",
    ),
];
static DESCRIBED: Once = Once::new();
/// Buckets with a label of their own, the default one included. Providers have tens.
const MOST_BUCKETS: usize = 32;
