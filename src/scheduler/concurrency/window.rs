//! How many may be in flight at a provider that says nothing: a little more than was seen to do no
//! harm.
//!
//! A service that never refuses gets slow when crowded. Loads are compared with each other, not
//! latency with a constant: the log of the latency at a load against the same at loads of less than
//! six tenths of it. So a long tail does not trip it, and a load at which answers were not slower is
//! *verified*; the window stays within a fifth above the largest of those. Information about a load
//! comes one latency after it was reached, which is why it grows no faster.

use crate::scheduler::events::{Because, What};
use crate::scheduler::time::Time;

use super::{Controller, Sample, Sign, changed};

/// The verified window of one provider.
#[derive(Clone, Debug)]
pub(crate) struct VerifiedWindow {
    window: f64,
    verified: f64,
    max: f64,
    /// How much slower answers are at high load than at low load, as a logarithm.
    slowdown: f64,
    classes: [Class; CLASSES],
    served: u64,
    /// Of the latest attempts the share that ended late and without an answer.
    unanswered: f64,
    /// When the window was last cut for those.
    cut: Option<Time>,
    /// How many were in flight then.
    spoiled: f64,
}

/// Log latencies at loads that differ by less than a fifth.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    count: f64,
    sum: f64,
    squares: f64,
}

/// How the latency at a load compares with that at lower loads.
struct Excess {
    by: f64,
    /// More than this is not chance.
    threshold: f64,
}

impl VerifiedWindow {
    pub(crate) fn new(max: u32) -> Self {
        let max = f64::from(max.max(1));
        Self {
            window: FIRST.min(max),
            verified: FIRST.min(max),
            max,
            slowdown: 0.0,
            classes: [Class::default(); CLASSES],
            served: 0,
            unanswered: 0.0,
            cut: None,
            spoiled: f64::INFINITY,
        }
    }

    /// Sets the most that may be in flight.
    pub(crate) fn set_most(&mut self, max: u32) {
        self.max = f64::from(max.max(1));
        self.window = self.window.min(self.max);
        self.verified = self.verified.min(self.max);
    }

    /// How many may be in flight `since_start` seconds after the first send: before the first
    /// answer a little more with time, or a service that takes long would hold up everything.
    pub(crate) fn allowance(&self, since_start: f64) -> f64 {
        if self.served > 0 || self.cut.is_some() {
            return self.window;
        }
        (self.window + UNANSWERED_RATE * (since_start - UNANSWERED_AFTER).max(0.0)).min(self.max)
    }

    /// How many may be in flight once an answer came.
    pub(crate) fn size(&self) -> f64 {
        self.window
    }

    /// The most that was seen to do no harm, if it is more than at first.
    pub(crate) fn verified(&self) -> Option<f64> {
        (self.verified > FIRST.min(self.max)).then_some(self.verified)
    }

    /// Begins with what was seen to do no harm before.
    pub(crate) fn recall(&mut self, verified: f64) {
        // Not a number is none.
        let verified = verified.max(self.verified).min(self.max);
        self.verified = verified;
        self.window = verified;
    }

    /// When one more than `in_flight` will be allowed, if time alone does it.
    pub(crate) fn next_allowance(&self, in_flight: u32, began: Time) -> Option<Time> {
        if self.served > 0 || self.cut.is_some() || f64::from(in_flight) >= self.max {
            return None;
        }
        let more = f64::from(in_flight) + 1.0 - self.window;
        Some(began.plus_secs(UNANSWERED_AFTER + more.max(0.0) / UNANSWERED_RATE + 1e-9))
    }

    /// The first answer came while so many were in flight: as many did no harm.
    pub(crate) fn raise_to(&mut self, in_flight: u32) {
        self.window = self.window.max(f64::from(in_flight)).min(self.max);
    }

    /// An attempt that was sent at `sent` with so many in flight ended without an answer. What was
    /// given up later than an answer usually comes may have waited behind the others, and the work
    /// on it was for nothing: where that happens to many, half as many go.
    pub(crate) fn on_unanswered(
        &mut self,
        in_flight: u32,
        sent: Time,
        usual: Option<f64>,
        now: Time,
    ) -> Option<What> {
        let usual = usual.unwrap_or(UNANSWERED_AFTER);
        if now.secs_since(sent) < usual || self.cut.is_some_and(|cut| sent <= cut) {
            return None;
        }
        self.unanswered += UNANSWERED_WEIGHT * (1.0 - self.unanswered);
        if self.unanswered < UNANSWERED_SHARE {
            return None;
        }
        let from = self.limit();
        self.window = (0.5 * f64::from(in_flight)).clamp(1.0, self.window);
        self.verified = self.verified.min(self.window);
        self.unanswered = 0.0;
        self.spoiled = f64::from(in_flight);
        self.cut = Some(now);
        changed(from, self.limit(), Because::Crowded)
    }

    fn class(load: f64) -> usize {
        ((load.max(1.0).ln() / STEP.ln()) as usize).min(CLASSES - 1)
    }

    fn excess(&self, class: usize, log_latency: f64) -> Excess {
        let lower = &self.classes[..class.saturating_sub(APART - 1)];
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for class in lower {
            count += class.count;
            sum += class.sum;
            squares += class.squares;
        }
        if count < LEAST_SAMPLES {
            return Excess {
                by: 0.0,
                threshold: LEAST_THRESHOLD,
            };
        }
        let mean = sum / count;
        let spread = (squares / count - mean * mean)
            .max(0.0)
            .sqrt()
            .max(LEAST_SPREAD);
        let chance = 3.0 * spread * (1.0 / SLOWDOWN_SAMPLES + 1.0 / count).sqrt();
        Excess {
            by: log_latency - mean,
            threshold: chance.max(LEAST_THRESHOLD),
        }
    }

    fn on_load(&mut self, load: f64, excess: &Excess) {
        self.slowdown += SLOWDOWN_WEIGHT * (excess.by - self.slowdown);
        if self.slowdown < excess.threshold {
            self.verified = self.verified.max(load);
            if self.window < (GROWTH * self.verified).max(self.verified + 1.0) {
                let room = 1.0 - self.slowdown.max(0.0) / excess.threshold;
                let step = if self.window < NEAR_SPOILED * self.spoiled {
                    STEP_UP
                } else {
                    STEP_UP / 4.0
                };
                self.window = (self.window + step * room).min(self.max);
            }
        } else if self.slowdown > 1.5 * excess.threshold {
            let uncrowded = 1.15 * load / self.slowdown.exp();
            if self.window > uncrowded {
                self.window = (self.window - 0.25).max(uncrowded).max(LEAST);
                self.verified = self.verified.min(self.window);
            }
        }
    }
}

impl Controller for VerifiedWindow {
    fn on_sample(&mut self, sample: &Sample, _: Time) -> Option<What> {
        if sample.sign != Sign::Served {
            return None;
        }
        let from = self.limit();
        let load = f64::from(sample.in_flight);
        self.served += 1;
        self.unanswered -= UNANSWERED_WEIGHT * self.unanswered;
        let class = Self::class(load);
        let log_latency = sample.latency.max(1e-6).ln();
        self.classes[class].push(log_latency);
        if load >= NEAR_FULL * f64::from(self.limit()) {
            let excess = self.excess(class, log_latency);
            self.on_load(load, &excess);
        }
        let why = if self.limit() > from {
            Because::Recovered
        } else {
            Because::Crowded
        };
        changed(from, self.limit(), why)
    }

    fn limit(&self) -> u32 {
        (self.window as u32).max(1)
    }
}

impl Class {
    fn push(&mut self, value: f64) {
        if self.count > REMEMBERED {
            self.count *= 0.5;
            self.sum *= 0.5;
            self.squares *= 0.5;
        }
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }
}

/// In flight at first. Fewer are too few for a concurrency cap or a knee to be found in time
/// (10 misses the knee's bar, 4 misses both), more bring nothing.
const FIRST: f64 = 16.0;
/// The window is never smaller.
const LEAST: f64 = 4.0;
/// Above the largest verified load: the most that keeps a knee within 1.5 × it, as detecting takes
/// another fifth.
const GROWTH: f64 = 1.2;
/// Only answers to a load this near the window say something about it.
const NEAR_FULL: f64 = 0.7;
/// Loads of one class differ by less than this factor.
const STEP: f64 = 1.19;
/// Classes: up to 1.19^64, which is 68,000 in flight.
const CLASSES: usize = 64;
/// Classes this far below: under 0.6 of the load.
const APART: usize = 3;
const LEAST_SAMPLES: f64 = 5.0;
/// Of the logarithm: five samples can look alike by chance.
const LEAST_SPREAD: f64 = 0.12;
/// Answers a tenth slower are not crowding.
const LEAST_THRESHOLD: f64 = 0.1;
const SLOWDOWN_WEIGHT: f64 = 0.1;
/// As many samples as the average of that weight is worth.
const SLOWDOWN_SAMPLES: f64 = 19.0;
/// Then the older half of a class is forgotten: services change with the time of day.
const REMEMBERED: f64 = 400.0;
/// Per second, once [`UNANSWERED_AFTER`] seconds have gone by: a client may not sit on sixteen
/// requests for the five seconds of a first answer, nor put half a knee more on one of a second.
const UNANSWERED_RATE: f64 = 25.0;
const UNANSWERED_AFTER: f64 = 0.2;
/// Of the latest ten, about: fewer hang at a provider that is not crowded at all.
const UNANSWERED_SHARE: f64 = 0.35;
const UNANSWERED_WEIGHT: f64 = 0.1;
/// Of a number that was too many; from there on the window grows at a quarter of its step: work that
/// nobody waits for is worse than a place that is free.
const NEAR_SPOILED: f64 = 0.75;
/// For every answer that was not slower.
const STEP_UP: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    /// A service with a knee: beyond it every answer takes in proportion longer. A full window all
    /// the time.
    fn crowd(window: &mut VerifiedWindow, knee: f64, rounds: u32) -> f64 {
        let mut most = 0.0_f64;
        for round in 0..rounds {
            let load = window.limit();
            most = most.max(f64::from(load));
            for i in 0..load {
                // A spread of a tenth, the same for every run.
                let wobble = 1.0 + 0.1 * (f64::from(round * 31 + i * 17) % 11.0 / 11.0 - 0.5);
                let latency = 0.1 * wobble * (f64::from(load) / knee).max(1.0);
                let sample = Sample {
                    in_flight: load,
                    ..Sample::served(Time::START, latency)
                };
                window.on_sample(&sample, Time::START);
            }
        }
        most
    }

    #[test]
    fn it_grows_to_a_knee_and_stays_near_it() {
        let mut window = VerifiedWindow::new(1024);
        let most = crowd(&mut window, 32.0, 60);
        assert!(most <= 48.0, "{most}");
        assert!(window.window > 28.0, "{}", window.window);
    }

    #[test]
    fn without_a_knee_it_grows_to_its_maximum() {
        let mut window = VerifiedWindow::new(200);
        crowd(&mut window, 1e9, 100);
        assert_eq!(window.limit(), 200);
    }

    #[test]
    fn where_many_wait_in_vain_fewer_go_and_one_may_always() {
        let mut window = VerifiedWindow::new(1024);
        let at = Time::from_secs_f64;
        window.on_sample(&Sample::served(Time::START, 1.0), at(1.0));
        let give_up = |window: &mut VerifiedWindow, sent: f64| {
            window.on_unanswered(16, at(sent), Some(1.0), at(sent + 1.5));
        };
        (0..4).for_each(|_| give_up(&mut window, 1.0));
        assert_eq!(window.limit(), 16, "four may be chance");
        give_up(&mut window, 1.0);
        assert_eq!(window.limit(), 8);
        (0..16).for_each(|_| give_up(&mut window, 1.5));
        assert_eq!(window.limit(), 8, "they were sent before that");
        (0..9).for_each(|round| {
            (0..8).for_each(|_| {
                let load = window.limit();
                let sent = at(10.0 * f64::from(round));
                window.on_unanswered(load, sent, Some(1.0), sent.plus_secs(1.5));
            });
        });
        assert_eq!(window.limit(), 1);
    }

    #[test]
    fn connections_that_break_at_once_are_no_crowd() {
        let mut window = VerifiedWindow::new(1024);
        let at = Time::from_secs_f64;
        window.on_sample(&Sample::served(Time::START, 1.0), at(1.0));
        (0..99).for_each(|_| {
            window.on_unanswered(16, at(2.0), Some(1.0), at(2.1));
        });
        assert_eq!(window.limit(), 16);
    }

    #[test]
    fn before_the_first_answer_a_little_more_may_go_with_time() {
        let window = VerifiedWindow::new(1024);
        assert_eq!(window.allowance(0.1), 16.0);
        assert_eq!(window.allowance(1.2), 41.0);
    }
}
