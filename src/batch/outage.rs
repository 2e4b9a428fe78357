//! Waits while the provider cannot be reached, so that an hour without a network does not leave
//! the rest of the night's requests undone.
//!
//! It is an outage when several requests in a row end without an answer though there were answers
//! before: where nothing ever answered, the address is wrong. One request probes at growing
//! intervals; the first answer ends it. After [`PATIENCE`] every request gets its own error again.

use std::time::Duration;

use crate::Time;

/// Whether the provider can be reached.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    answered: bool,
    in_row: u32,
    /// Since when it lasts.
    since: Option<Time>,
    probe_at: Time,
    probes: u32,
}

/// What a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Go.
    Open,
    /// Ask again then, or when the outage has ended.
    Wait(Time),
}

impl Outage {
    /// A request got an answer, whatever its status. True if this ends an outage.
    pub(crate) fn on_answer(&mut self) -> bool {
        self.answered = true;
        self.in_row = 0;
        self.probes = 0;
        self.since.take().is_some()
    }

    /// A request ended without an answer. True if it should be made again when the outage is over.
    pub(crate) fn on_failure(&mut self, now: Time) -> bool {
        self.in_row = self.in_row.saturating_add(1);
        if !self.answered || self.in_row < ENOUGH {
            return false;
        }
        if self.since.is_none() {
            self.since = Some(now);
            self.probe_at = now + FIRST_PROBE;
        }
        self.lasts(now) < PATIENCE
    }

    /// Whether a request may go now.
    pub(crate) fn pass(&mut self, now: Time) -> Pass {
        if self.since.is_none() || self.lasts(now) >= PATIENCE {
            return Pass::Open;
        }
        if now < self.probe_at {
            return Pass::Wait(self.probe_at);
        }
        self.probes += 1;
        let step = FIRST_PROBE.saturating_mul(1 << self.probes.min(16));
        self.probe_at = now + step.min(LAST_PROBE);
        Pass::Open
    }

    /// How long it has lasted; zero if there is none.
    pub(crate) fn lasts(&self, now: Time) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.since(since))
    }
}

/// How many failures in a row are an outage: the attempts of two or three requests can all fall
/// into a restart of a server, those of ten seldom do.
const ENOUGH: u32 = 10;

/// A restart takes seconds.
const FIRST_PROBE: Duration = Duration::from_secs(1);

/// Once a minute costs nothing and loses at most a minute.
const LAST_PROBE: Duration = Duration::from_secs(60);

/// A script that nobody watches should end on the day on which its server went for good.
const PATIENCE: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn broken_at(seconds: f64) -> Outage {
        let mut outage = Outage::default();
        outage.on_answer();
        for _ in 1..ENOUGH {
            assert!(!outage.on_failure(at(seconds)));
        }
        assert!(outage.on_failure(at(seconds)));
        outage
    }

    #[test]
    fn what_never_answered_is_no_outage() {
        let mut outage = Outage::default();
        assert!((0..1_000).all(|_| !outage.on_failure(at(1.0))));
        assert_eq!(outage.pass(at(1.0)), Pass::Open);
    }

    #[test]
    fn an_answer_in_between_makes_failures_each_their_own() {
        let mut outage = Outage::default();
        for _ in 0..100 {
            assert!(!outage.on_answer());
            assert!((1..ENOUGH).all(|_| !outage.on_failure(at(1.0))));
        }
    }

    #[test]
    fn one_request_probes_at_growing_intervals_and_the_first_answer_opens() {
        let mut outage = broken_at(10.0);
        assert_eq!(outage.pass(at(10.5)), Pass::Wait(at(11.0)));
        assert_eq!(outage.pass(at(11.0)), Pass::Open);
        assert_eq!(outage.pass(at(11.0)), Pass::Wait(at(13.0)));
        assert_eq!(outage.pass(at(500.0)), Pass::Open);
        assert!(matches!(outage.pass(at(500.0)), Pass::Wait(until) if until <= at(560.0)));
        assert!(outage.on_answer());
        assert_eq!(outage.pass(at(500.0)), Pass::Open);
        assert_eq!(outage.lasts(at(500.0)), Duration::ZERO);
    }

    #[test]
    fn patience_ends() {
        let mut outage = broken_at(10.0);
        assert!(outage.on_failure(at(3_000.0)));
        assert!(!outage.on_failure(at(3_611.0)));
        assert_eq!(outage.pass(at(3_611.0)), Pass::Open);
    }
}
