//! A limit that follows latency: full speed while answers take as long as ever, down in proportion
//! when they get slower.
//!
//! For services that get slow instead of refusing, and whose latency does not vary much by request.
//! Like Netflix's second gradient: a short average against a long one, with room for a queue that
//! grows as the square root of the limit.

use crate::scheduler::events::{Because, What};
use crate::scheduler::time::Time;

use super::{Controller, Episode, Sample, Sign, changed};

/// Settings of the gradient controller.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct GradientSettings {
    /// In flight per key at first, from `min` to `max`. Default 20.
    pub start: u32,
    /// In flight per key at least. At least 1. Default 1.
    pub min: u32,
    /// In flight per key at most. Default 200.
    pub max: u32,
    /// How much slower than usual answers may be before the limit falls, at least 1. Default 1.5.
    pub tolerance: f64,
    /// What a refusal leaves of the limit, above 0 and below 1. Default 0.5.
    pub backoff_factor: f64,
}

impl Default for GradientSettings {
    fn default() -> Self {
        // Start, bounds and tolerance are those of Netflix's Gradient2.
        Self {
            start: 20,
            min: 1,
            max: 200,
            tolerance: 1.5,
            backoff_factor: 0.5,
        }
    }
}

/// The gradient controller.
#[derive(Clone, Debug)]
pub(crate) struct Gradient {
    settings: GradientSettings,
    limit: f64,
    usual: Option<f64>,
    recent: f64,
    episode: Episode,
}

impl Gradient {
    pub(crate) fn new(settings: GradientSettings) -> Self {
        let min = settings.min.max(1);
        let max = settings.max.max(min);
        let settings = GradientSettings {
            min,
            max,
            ..settings
        };
        let limit = f64::from(settings.start.clamp(min, max));
        Self {
            settings,
            limit,
            usual: None,
            recent: 0.0,
            episode: Episode::default(),
        }
    }

    fn set(&mut self, limit: f64, why: Because) -> Option<What> {
        let from = self.limit();
        let (min, max) = (f64::from(self.settings.min), f64::from(self.settings.max));
        self.limit = limit.clamp(min, max);
        changed(from, self.limit(), why)
    }

    fn on_served(&mut self, sample: &Sample) -> Option<What> {
        let latency = sample.latency.max(1e-6);
        let usual = match self.usual {
            None => {
                self.recent = latency;
                latency
            }
            Some(usual) => {
                self.recent += RECENT_WEIGHT * (latency - self.recent);
                // A load that has gone leaves a long average far above the truth: let it fall.
                let usual = if usual > 2.0 * self.recent {
                    0.95 * usual
                } else {
                    usual
                };
                usual + USUAL_WEIGHT * (latency - usual)
            }
        };
        self.usual = Some(usual);
        let gradient = (self.settings.tolerance * usual / self.recent).clamp(0.5, 1.0);
        if gradient >= 1.0 && !sample.limit_was_reached {
            return None;
        }
        let target = gradient * self.limit + self.limit.sqrt();
        let why = if gradient < 1.0 {
            Because::Crowded
        } else {
            Because::Recovered
        };
        // One step per limit's worth of answers, whatever the limit.
        let step = (target - self.limit) * SMOOTHING / self.limit.max(1.0);
        self.set(self.limit + step.max(-0.5 * self.limit), why)
    }
}

impl Controller for Gradient {
    fn on_sample(&mut self, sample: &Sample, now: Time) -> Option<What> {
        match sample.sign {
            Sign::Served if self.episode.is_over_for(sample.sent) => self.on_served(sample),
            Sign::Served | Sign::Nothing => None,
            Sign::RateLimited | Sign::Overloaded => {
                if self.episode.covers(sample.sent, now) {
                    return None;
                }
                self.episode.begin(now);
                let why = match sample.sign {
                    Sign::Overloaded => Because::Overloaded,
                    _ => Because::RateLimited,
                };
                self.set((self.limit * self.settings.backoff_factor).floor(), why)
            }
        }
    }

    fn limit(&self) -> u32 {
        (self.limit as u32).max(1)
    }
}

/// About ten answers: the spread of single ones is averaged out.
const RECENT_WEIGHT: f64 = 0.2;
/// About six hundred answers, as Netflix's long window.
const USUAL_WEIGHT: f64 = 2.0 / 601.0;
/// A limit's worth of answers moves it by its square root at most: fast enough to reach the maximum
/// in the bound that all controllers keep, slow enough to see what it does.
const SMOOTHING: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn run(gradient: &mut Gradient, latency: f64, reached: bool, count: u32) -> u32 {
        for i in 0..count {
            let sent = Time::from_secs_f64(f64::from(i));
            let sample = Sample {
                limit_was_reached: reached,
                ..Sample::served(sent, latency)
            };
            gradient.on_sample(&sample, sent.plus_secs(latency));
        }
        gradient.limit()
    }

    #[test]
    fn it_grows_while_answers_take_as_long_as_ever_and_it_is_the_brake() {
        let mut gradient = Gradient::new(GradientSettings::default());
        assert_eq!(run(&mut gradient, 0.1, false, 500), 20);
        assert!(run(&mut gradient, 0.1, true, 500) > 40);
    }

    #[test]
    fn it_falls_when_answers_get_slower() {
        let mut gradient = Gradient::new(GradientSettings::default());
        run(&mut gradient, 0.1, true, 500);
        let before = gradient.limit();
        assert!(run(&mut gradient, 0.4, true, 80) < before * 3 / 4);
    }
}
