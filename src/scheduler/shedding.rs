//! Turning asks away at the door while the queue before them is longer than can be served.
//!
//! Each class is judged by those who wait at or above it, so the lowest is shed first, and a class
//! above only if its own are too many. Of its newcomers a growing share is turned away: it grows to
//! all in the time of `step_in` and shrinks in the longer time of `step_out`, so that a burst sheds
//! nobody and a queue that is just short enough does not swing. Whoever is turned away is told how
//! long it would have waited.

use std::time::Duration;

use smallvec::SmallVec;

use crate::config::{SettingsError, within};

use super::events::Priority;
use super::time::Time;

/// When asks are turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct Shedding {
    /// Those who wait at or above a priority are too many if they take longer than this. Default
    /// 30 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub longest: Duration,
    /// How long they must be too many for all newcomers to be turned away. Default 10 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub step_in: Duration,
    /// How long they must be few enough for all newcomers to be let in. Default 60 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub step_out: Duration,
}

impl Default for Shedding {
    fn default() -> Self {
        Self {
            longest: Duration::from_secs(30),
            step_in: Duration::from_secs(10),
            step_out: Duration::from_secs(60),
        }
    }
}

impl Shedding {
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let day = 86_400.0;
        within("shedding.longest", self.longest.as_secs_f64(), 0.001, day)?;
        within("shedding.step_in", self.step_in.as_secs_f64(), 0.0, day)?;
        within("shedding.step_out", self.step_out.as_secs_f64(), 0.0, day)
    }
}

/// How fast the queue is worked off.
#[derive(Debug, Default)]
pub(super) struct Throughput {
    /// Grants, and the seconds in which somebody waited; both fade over [`MEMORY`].
    grants: f64,
    seconds: f64,
    /// Grants since the last look.
    fresh: u32,
    looked: Time,
}

impl Throughput {
    pub(super) fn on_granted(&mut self) {
        self.fresh += 1;
    }

    /// Looks how many waited since the last look; `busy` says whether anybody did.
    pub(super) fn look(&mut self, busy: bool, now: Time) {
        let passed = now.secs_since(self.looked);
        if passed < LOOK {
            return;
        }
        self.looked = now;
        let fresh = f64::from(std::mem::take(&mut self.fresh));
        if busy {
            let kept = (-passed / MEMORY).exp();
            self.grants = self.grants * kept + fresh;
            self.seconds = self.seconds * kept + passed;
        }
    }

    /// How long so many take; none while that is not known.
    pub(super) fn time_for(&self, waiting: usize) -> Option<Duration> {
        if self.grants < LEAST_GRANTS || self.seconds <= 0.0 {
            return None;
        }
        Duration::try_from_secs_f64(waiting as f64 * self.seconds / self.grants).ok()
    }
}

/// How much is shed at the moment, class by class.
#[derive(Debug, Default)]
pub(super) struct Shedder {
    classes: SmallVec<[Class; 8]>,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    priority: Priority,
    /// The share of its newcomers that is turned away, from 0 to 1.
    level: f64,
    /// When the level was last moved.
    moved: Time,
    /// What is owed of a whole ask to be shed.
    debt: f64,
}

impl Shedder {
    /// An ask comes, and those before it take `expected`; whether the ask is turned away.
    pub(super) fn sheds(
        &mut self,
        settings: &Shedding,
        priority: Priority,
        expected: Option<Duration>,
        now: Time,
    ) -> bool {
        let known = (self.classes.iter()).position(|class| class.priority == priority);
        let index = known.unwrap_or_else(|| {
            self.classes.push(Class {
                priority,
                level: 0.0,
                moved: now,
                debt: 0.0,
            });
            self.classes.len() - 1
        });
        let class = &mut self.classes[index];
        let passed = now.secs_since(class.moved).max(0.0);
        class.moved = now;
        let step = |time: Duration| passed / time.as_secs_f64().max(1e-3);
        class.level = if expected.is_some_and(|expected| expected > settings.longest) {
            // Between two asks nobody looked: a long silence is no evidence of too many.
            let most = LONGEST_STEP / settings.step_in.as_secs_f64().max(LONGEST_STEP);
            (class.level + step(settings.step_in).min(most)).min(1.0)
        } else {
            (class.level - step(settings.step_out)).max(0.0)
        };
        class.debt += class.level;
        let sheds = class.debt >= 1.0;
        class.debt -= f64::from(u8::from(sheds));
        sheds
    }
}

/// In seconds: long enough to see the whole of a minute's window, the commonest.
const MEMORY: f64 = 60.0;
/// In seconds, between two looks at who waits.
const LOOK: f64 = 0.05;
/// Fewer say nothing about a rate.
const LEAST_GRANTS: f64 = 8.0;
/// In seconds: by so much of `step_in` one ask raises the level at most.
const LONGEST_STEP: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks ten times a second for so long; the share that is turned away.
    fn share(shedder: &mut Shedder, from: u64, seconds: u64, queue: u64) -> f64 {
        let settings = Shedding::default();
        let expected = Some(Duration::from_secs(queue));
        let mut shed = 0;
        for tenth in 0..10 * seconds {
            let now = Time::START + Duration::from_millis(from * 1_000 + tenth * 100);
            shed += u32::from(shedder.sheds(&settings, Priority::LOW, expected, now));
        }
        f64::from(shed) / (10 * seconds) as f64
    }

    #[test]
    fn newcomers_are_shed_slowly_and_let_in_again_more_slowly() {
        let mut shedder = Shedder::default();
        assert_eq!(share(&mut shedder, 0, 100, 29), 0.0);
        let first = share(&mut shedder, 100, 2, 31);
        assert!(first > 0.0 && first < 0.2, "{first}");
        let next = share(&mut shedder, 102, 8, 31);
        assert!((0.4..0.8).contains(&next), "{next}");
        assert_eq!(share(&mut shedder, 110, 5, 31), 1.0);
        let back = share(&mut shedder, 115, 30, 10);
        assert!((0.6..0.9).contains(&back), "{back}");
        let back = share(&mut shedder, 145, 30, 10);
        assert!((0.1..0.4).contains(&back), "{back}");
        assert_eq!(share(&mut shedder, 176, 10, 10), 0.0);
    }

    #[test]
    fn a_window_that_opens_once_a_minute_is_no_standstill() {
        let mut throughput = Throughput::default();
        for minute in 0..5 {
            for second in 0..60 {
                if second == 0 {
                    (0..100).for_each(|_| throughput.on_granted());
                }
                let now = Time::START + Duration::from_secs(60 * minute + second);
                throughput.look(true, now);
            }
        }
        let hundred = throughput.time_for(100).expect("known").as_secs_f64();
        assert!((40.0..110.0).contains(&hundred), "{hundred}");
        assert_eq!(Throughput::default().time_for(1), None);
    }

    #[test]
    fn time_in_which_nobody_waits_says_nothing() {
        let mut throughput = Throughput::default();
        for second in 0..20 {
            throughput.on_granted();
            throughput.look(second % 2 == 0, Time::START + Duration::from_secs(second));
        }
        let ten = throughput.time_for(10).expect("known").as_secs_f64();
        assert!((9.0..11.0).contains(&ten), "{ten}");
    }
}
