//! Whether the store answers: a store that is away costs nothing but a probe now and then.

use std::time::Duration;

use crate::Time;

/// Opens at a failure, and closes at the first answer.
#[derive(Debug, Default)]
pub(super) struct Circuit {
    away_since: Option<Time>,
    failures: u32,
    probe_at: Time,
    is_probing: bool,
}

impl Circuit {
    /// Whether the store is asked nothing but a probe.
    pub(super) fn is_open(&self) -> bool {
        self.away_since.is_some()
    }

    /// When the next probe is due; not while one is on its way.
    pub(super) fn probe_at(&self) -> Time {
        if self.is_probing {
            Time::NEVER
        } else {
            self.probe_at
        }
    }

    /// A call failed for good. Whether that opened the circuit.
    pub(super) fn on_failure(&mut self, now: Time) -> bool {
        let was_open = self.is_open();
        if was_open && !self.is_probing {
            // A call that left before it opened.
            return false;
        }
        self.is_probing = false;
        self.away_since.get_or_insert(now);
        let wait = FIRST_PROBE * 2u32.pow(self.failures.min(DOUBLINGS));
        self.failures += 1;
        self.probe_at = now + wait;
        !was_open
    }

    /// A probe leaves: no other while it is on its way.
    pub(super) fn on_probe(&mut self) {
        self.is_probing = true;
    }

    /// The store answered. For how long it was away, if it was.
    pub(super) fn on_answer(&mut self, now: Time) -> Option<Duration> {
        self.failures = 0;
        self.is_probing = false;
        let since = self.away_since.take()?;
        Some(now.since(since))
    }
}

/// A restart takes tens of milliseconds.
const FIRST_PROBE: Duration = Duration::from_millis(50);
/// 50 ms, 100, 200 and then 400: a store that is back is found before anybody wonders.
const DOUBLINGS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn failures_of_calls_that_were_on_their_way_count_once() {
        let mut circuit = Circuit::default();
        assert!(circuit.on_failure(at(1000)));
        assert!(!circuit.on_failure(at(1001)));
        assert_eq!(circuit.probe_at(), at(1050));
        circuit.on_probe();
        assert_eq!(circuit.probe_at(), Time::NEVER);
        assert!(!circuit.on_failure(at(1050)));
        assert_eq!(circuit.probe_at(), at(1150));
        assert_eq!(
            circuit.on_answer(at(1200)),
            Some(Duration::from_millis(200))
        );
        assert!(!circuit.is_open());
        assert!(circuit.on_failure(at(2000)));
        assert_eq!(circuit.probe_at(), at(2050));
    }

    #[test]
    fn probes_never_come_further_apart_than_400_ms() {
        let mut circuit = Circuit::default();
        let mut now = at(0);
        for _ in 0..40 {
            circuit.on_probe();
            circuit.on_failure(now);
            assert!(circuit.probe_at().since(now) <= Duration::from_millis(400));
            now = circuit.probe_at();
        }
    }
}
