//! promptfoo's three layers: cut ahead of time when little of a quota is left, cut at once when
//! refused, grow by half after five successes.
//!
//! Its factors and roundings are kept. Its weaknesses are not: a burst of refusals cuts once, so
//! does a run of nearly empty readings, successes of before a cut do not count for recovery, and an
//! unused limit does not grow.

use crate::scheduler::events::{Because, What};
use crate::scheduler::time::Time;

use super::{Controller, Episode, Sample, Sign, changed};

/// Settings of the three-layer controller.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct AimdSettings {
    /// In flight per key at first, and at most. At least 1. Default 10.
    pub start: u32,
    /// In flight per key at least, from 1 to `start`. Default 1.
    pub min: u32,
    /// What a refusal leaves of the limit, above 0 and below 1. Default 0.5; 0.3 for a strict API.
    pub backoff_factor: f64,
    /// By what successes raise it, above 1. Default 1.5; 1.2 when careful.
    pub recovery_factor: f64,
    /// Successes for a raise, at least 1. Default 5; 10 when careful.
    pub recovery_threshold: u32,
    /// The share left of a quota below which the limit is cut ahead of time, from 0 to 1.
    /// Default 0.1; 0.2 for margin.
    pub warning_threshold: f64,
}

impl Default for AimdSettings {
    fn default() -> Self {
        // promptfoo's defaults.
        Self {
            start: 10,
            min: 1,
            backoff_factor: 0.5,
            recovery_factor: 1.5,
            recovery_threshold: 5,
            warning_threshold: 0.1,
        }
    }
}

/// The three-layer controller.
#[derive(Clone, Debug)]
pub(crate) struct Aimd {
    settings: AimdSettings,
    limit: u32,
    successes: u32,
    episode: Episode,
    warned: Episode,
}

impl Aimd {
    pub(crate) fn new(settings: AimdSettings) -> Self {
        let start = settings.start.max(1);
        let settings = AimdSettings {
            start,
            min: settings.min.clamp(1, start),
            ..settings
        };
        Self {
            settings,
            limit: start,
            successes: 0,
            episode: Episode::default(),
            warned: Episode::default(),
        }
    }

    fn cut(&mut self, factor: f64, why: Because) -> Option<What> {
        let from = self.limit;
        self.limit = ((f64::from(from) * factor).floor() as u32).clamp(self.settings.min, from);
        changed(from, self.limit, why)
    }

    fn warn(&mut self, share: f64, now: Time) -> Option<What> {
        self.warned.begin(now);
        let part = share.max(0.0) / self.settings.warning_threshold;
        self.cut(LEAST_LEFT + part * MORE_LEFT, Because::Proactive)
    }

    fn recover(&mut self) -> Option<What> {
        self.successes = 0;
        let from = self.limit;
        let raised = (f64::from(from) * self.settings.recovery_factor).ceil();
        self.limit = (raised as u32).clamp(from, self.settings.start);
        changed(from, self.limit, Because::Recovered)
    }
}

impl Controller for Aimd {
    fn on_sample(&mut self, sample: &Sample, now: Time) -> Option<What> {
        let scarce = sample
            .share_left
            .filter(|&share| share < self.settings.warning_threshold);
        match sample.sign {
            Sign::RateLimited | Sign::Overloaded => {
                self.successes = 0;
                if self.episode.covers(sample.sent, now) {
                    return None;
                }
                self.episode.begin(now);
                self.warned.begin(now);
                let why = match sample.sign {
                    Sign::Overloaded => Because::Overloaded,
                    _ => Because::RateLimited,
                };
                self.cut(self.settings.backoff_factor, why)
            }
            Sign::Served | Sign::Nothing if scarce.is_some() => {
                let share = scarce?;
                if self.warned.covers(sample.sent, now) {
                    None
                } else {
                    self.warn(share, now)
                }
            }
            Sign::Served => {
                let used = sample.limit_was_reached && self.limit < self.settings.start;
                if used && self.episode.is_over_for(sample.sent) {
                    self.successes += 1;
                    if self.successes >= self.settings.recovery_threshold {
                        return self.recover();
                    }
                }
                None
            }
            Sign::Nothing => None,
        }
    }

    fn limit(&self) -> u32 {
        self.limit
    }
}

/// A fifth is left of the limit when nothing is left of the quota …
const LEAST_LEFT: f64 = 0.2;
/// … and three fifths just under the threshold (promptfoo: 0.2 + ratio ÷ 0.1 × 0.4).
const MORE_LEFT: f64 = 0.4;

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples far enough apart that each is an episode of its own.
    struct Driver {
        aimd: Aimd,
        now: f64,
    }

    impl Driver {
        fn new(settings: AimdSettings) -> Self {
            Self {
                aimd: Aimd::new(settings),
                now: 0.0,
            }
        }

        fn sample(&mut self, sign: Sign, share_left: Option<f64>) -> Option<What> {
            self.now += 2.0;
            let sent = Time::from_secs_f64(self.now - 0.5);
            let sample = Sample {
                sign,
                share_left,
                limit_was_reached: true,
                ..Sample::served(sent, 0.5)
            };
            self.aimd.on_sample(&sample, Time::from_secs_f64(self.now))
        }

        fn limits(&mut self, signs: &[Sign]) -> Vec<u32> {
            signs
                .iter()
                .map(|&sign| {
                    self.sample(sign, None);
                    self.aimd.limit()
                })
                .collect()
        }
    }

    fn from(start: u32, min: u32) -> Driver {
        Driver::new(AimdSettings {
            start,
            min,
            ..AimdSettings::default()
        })
    }

    #[test]
    fn refusals_halve_and_round_down() {
        assert_eq!(from(10, 1).limits(&[Sign::RateLimited; 3]), [5, 2, 1]);
        assert_eq!(from(9, 1).limits(&[Sign::RateLimited]), [4]);
        assert_eq!(
            from(100, 1).limits(&[Sign::RateLimited; 7]),
            [50, 25, 12, 6, 3, 1, 1]
        );
        assert_eq!(from(10, 3).limits(&[Sign::RateLimited; 3]), [5, 3, 3]);
    }

    #[test]
    fn bounds_are_mended_not_believed() {
        assert_eq!(from(5, 0).aimd.settings.min, 1);
        assert_eq!(from(5, 10).aimd.settings.min, 5);
        assert_eq!(from(0, 0).aimd.limit(), 1);
    }

    #[test]
    fn from_one_to_ten_takes_twenty_five_successes() {
        let mut driver = from(10, 1);
        driver.limits(&[Sign::RateLimited; 4]);
        let limits = driver.limits(&[Sign::Served; 25]);
        let steps: Vec<u32> = limits.chunks(5).map(|five| five[4]).collect();
        assert_eq!(steps, [2, 3, 5, 8, 10]);
        assert_eq!(limits[3], 1, "not before the fifth");
    }

    #[test]
    fn a_refusal_starts_the_count_anew_and_other_errors_do_not() {
        let mut driver = from(10, 1);
        driver.limits(&[Sign::RateLimited]);
        driver.limits(&[Sign::Served; 3]);
        driver.limits(&[Sign::RateLimited]);
        assert_eq!(driver.limits(&[Sign::Served; 5]), [2, 2, 2, 2, 3]);
        let mut driver = from(10, 1);
        driver.limits(&[Sign::RateLimited]);
        driver.limits(&[Sign::Served; 4]);
        assert_eq!(driver.limits(&[Sign::Nothing, Sign::Served]), [5, 8]);
    }

    #[test]
    fn little_left_cuts_ahead_of_time() {
        for (share, limit) in [
            (0.15, 10),
            (0.1, 10),
            (0.099, 5),
            (0.075, 5),
            (0.05, 4),
            (0.01, 2),
            (0.0, 2),
            (-0.01, 2),
        ] {
            let mut driver = from(10, 1);
            let what = driver.sample(Sign::Served, Some(share));
            assert_eq!(driver.aimd.limit(), limit, "{share}");
            let why = matches!(
                what,
                Some(What::Limit {
                    why: Because::Proactive,
                    ..
                })
            );
            assert_eq!(why, limit < 10, "{share}");
        }
    }

    #[test]
    fn a_run_of_nearly_empty_readings_cuts_once() {
        // Per reply it went 8, 3, 1, 1, 2, 1 … although the rest of the window was free to use.
        let mut aimd = Aimd::new(AimdSettings {
            start: 20,
            ..AimdSettings::default()
        });
        let mut sample = Sample {
            share_left: Some(0.05),
            ..Sample::served(Time::START, 0.1)
        };
        for i in 1..12_u32 {
            sample.sent = Time::from_secs_f64(0.05 * f64::from(i));
            aimd.on_sample(&sample, Time::from_secs_f64(0.05 * f64::from(i) + 0.04));
        }
        assert_eq!(aimd.limit(), 8);
    }

    #[test]
    fn thirty_two_late_refusals_of_one_burst_cut_once() {
        let mut aimd = Aimd::new(AimdSettings {
            start: 32,
            ..AimdSettings::default()
        });
        let sample = Sample {
            sign: Sign::RateLimited,
            ..Sample::served(Time::START, 0.1)
        };
        for i in 0..32_u32 {
            aimd.on_sample(&sample, Time::from_secs_f64(0.1 * f64::from(i)));
        }
        assert_eq!(aimd.limit(), 16);
    }

    #[test]
    fn successes_of_before_the_cut_do_not_recover_it() {
        let mut aimd = Aimd::new(AimdSettings::default());
        let at = Time::from_secs_f64;
        let served = Sample {
            limit_was_reached: true,
            ..Sample::served(at(1.0), 1.0)
        };
        aimd.on_sample(
            &Sample {
                sign: Sign::RateLimited,
                ..served
            },
            at(2.0),
        );
        for _ in 0..20 {
            aimd.on_sample(&served, at(2.5));
        }
        assert_eq!(aimd.limit(), 5);
    }
}
