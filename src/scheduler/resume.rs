//! Sends start slowly again after a refusal or a stall.
//!
//! Five hundred requests at the start of a window take sixty milliseconds this way, and a wrong
//! belief about that start costs one to four refusals instead of five hundred.

use super::events::{Gate, Reason};
use super::time::Time;

/// How many sends a key may make until the next refusal could be heard: 1, 2, 4 … then any number.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlowResume {
    /// Sends allowed in this step; none for any number.
    allowed: Option<u32>,
    used: u32,
    step_ends: Option<Time>,
    rest_until: Time,
    last_sent: Option<Time>,
}

impl SlowResume {
    /// Whether a send may go now.
    pub(crate) fn gate(&self, now: Time) -> Gate {
        let full = self.allowed.is_some_and(|allowed| self.used >= allowed);
        let step = if full {
            self.step_ends.unwrap_or(Time::START)
        } else {
            Time::START
        };
        Gate::at(step.max(self.rest_until), Reason::Resume, now)
    }

    /// A send goes. `hearing` is how long it takes to hear of a refusal; `stalls_count` whether a
    /// pause in sending was a stall of a reported quota, not a lack of work or a learned pace.
    pub(crate) fn on_sent(&mut self, hearing: f64, stalls_count: bool, now: Time) {
        let stalled = self
            .last_sent
            .replace(now)
            .is_some_and(|last| now.secs_since(last) > STALL.max(1.5 * hearing));
        if stalls_count && stalled && self.allowed.is_none_or(|allowed| allowed > AFTER_STALL) {
            self.restart(AFTER_STALL);
        }
        let Some(allowed) = self.allowed else { return };
        if self.step_ends.is_none_or(|end| now >= end) {
            let doubled = if self.used > 0 { 2 * allowed } else { allowed };
            self.allowed = (doubled < FREE).then_some(doubled);
            self.used = 0;
            self.step_ends = Some(now.plus_secs(hearing));
        }
        self.used += 1;
    }

    /// A refusal came: nothing goes until others of its episode are heard, then one.
    pub(crate) fn on_refused(&mut self, hearing: f64, now: Time) {
        self.restart(1);
        self.rest(hearing, now);
    }

    /// Nothing goes until a refusal of what was sent would be heard.
    pub(crate) fn rest(&mut self, hearing: f64, now: Time) {
        self.rest_until = self.rest_until.max(now.plus_secs(hearing));
    }

    fn restart(&mut self, allowed: u32) {
        self.allowed = Some(allowed);
        self.used = 0;
        self.step_ends = None;
    }
}

/// In seconds: at any rate that a start could flood, sends are closer together.
const STALL: f64 = 0.02;
/// After a stall nothing has been refused yet, so it begins with what a wrong belief may cost.
const AFTER_STALL: u32 = 4;
/// Doubling from here would allow more than a step's worth of sends on any real link.
const FREE: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    /// How many can be sent in each of the next steps of 10 ms.
    fn steps(resume: &mut SlowResume, from: u64, count: u64) -> Vec<u32> {
        let step = |resume: &mut SlowResume, now| {
            let mut sent = 0;
            while resume.gate(now) == Gate::Open && sent < 1000 {
                resume.on_sent(0.01, false, now);
                sent += 1;
            }
            sent
        };
        (0..count)
            .map(|i| step(resume, at(from + 10 * i)))
            .collect()
    }

    #[test]
    fn sends_double_with_each_step_after_a_refusal_then_are_free() {
        let mut resume = SlowResume::default();
        resume.on_refused(0.01, at(0));
        assert!(matches!(
            resume.gate(at(9)),
            Gate::Shut {
                reason: Reason::Resume,
                ..
            }
        ));
        assert_eq!(steps(&mut resume, 10, 8), [1, 2, 4, 8, 16, 32, 64, 1000]);
    }

    #[test]
    fn a_stall_of_a_reported_quota_begins_with_four() {
        let mut resume = SlowResume::default();
        resume.on_sent(0.01, true, at(0));
        resume.on_sent(0.01, true, at(500));
        assert_eq!(steps(&mut resume, 500, 3), [3, 8, 16]);
    }

    #[test]
    fn a_pause_for_lack_of_work_changes_nothing() {
        let mut resume = SlowResume::default();
        resume.on_sent(0.01, false, at(0));
        assert_eq!(steps(&mut resume, 500, 1), [1000]);
    }
}
