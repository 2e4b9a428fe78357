//! A scheduler with explicit instants.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use paceline::feedback::{self, Profile};
use paceline::scheduler::events::{Grant, Outcome, Refusal, Ticket, Verdict};
use paceline::{Ask, Fingerprint, Scheduler, Settings, Time};

/// Seconds after the start.
pub(crate) fn at(seconds: f64) -> Time {
    Time::from_secs_f64(seconds)
}

pub(crate) fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub(crate) fn fingerprint(n: u8) -> Fingerprint {
    Fingerprint::from_hash([n; 6])
}

/// One machine and the moment it is at.
pub(crate) struct Machine {
    pub(crate) scheduler: Scheduler,
    pub(crate) now: Time,
}

impl Machine {
    /// A machine with keys 1 to `keys`.
    pub(crate) fn new(settings: Settings, keys: u8) -> Self {
        let keys: Vec<_> = (1..=keys).map(fingerprint).collect();
        let scheduler = Scheduler::new(settings, &keys, 7).expect("the settings are sound");
        Self {
            scheduler,
            now: Time::START,
        }
    }

    pub(crate) fn submit(&mut self, ask: Ask) -> Ticket {
        self.scheduler
            .submit(ask, self.now)
            .expect("it is accepted")
    }

    /// The next grant of this moment, started at once.
    pub(crate) fn grant(&mut self) -> Option<Grant> {
        let grant = self.scheduler.poll_grant(self.now)?;
        self.scheduler.start(grant.ticket, self.now);
        Some(grant)
    }

    /// The next grant, at whatever moment it comes; none if there would be none in ten minutes.
    pub(crate) fn next_grant(&mut self) -> Option<Grant> {
        let end = self.now + Duration::from_secs(600);
        loop {
            if let Some(grant) = self.grant() {
                return Some(grant);
            }
            if self.scheduler.poll_refusal(self.now).is_some() {
                continue;
            }
            let next = self.scheduler.poll_timeout()?;
            if next > end {
                return None;
            }
            assert!(
                next > self.now,
                "a machine that asks to be polled at {next:?} spins"
            );
            self.now = next;
        }
    }

    pub(crate) fn end(&mut self, ticket: Ticket, outcome: &Outcome) -> Verdict {
        self.scheduler.complete(ticket, outcome, self.now)
    }

    /// Ends an attempt; whether its ticket waits again.
    pub(crate) fn settle(&mut self, ticket: Ticket, outcome: &Outcome) -> bool {
        matches!(self.end(ticket, outcome), Verdict::Again { .. })
    }

    pub(crate) fn refusal(&mut self) -> Option<(Ticket, Refusal)> {
        self.scheduler.poll_refusal(self.now)
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, seconds: f64) {
        self.now = self.now + secs(seconds);
    }
}

/// What the reader makes of an answer with these headers.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Outcome {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| {
            let name: HeaderName = name.parse().expect("a header name");
            (name, HeaderValue::from_str(value).expect("a header value"))
        })
        .collect();
    let status = StatusCode::from_u16(status).expect("a status");
    let received = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let profile = Profile::NONE;
    Outcome::Answered(feedback::read(
        &profile,
        status,
        &headers,
        Some(body.as_bytes()),
        received,
    ))
}

/// A 200 without a word about limits.
pub(crate) fn served() -> Outcome {
    answer(200, &[], "")
}

/// A 429 with a whole-second `Retry-After`.
pub(crate) fn refused(seconds: u64) -> Outcome {
    answer(429, &[("retry-after", &seconds.to_string())], "")
}
