//! A minimum interval per key that widens fast and narrows slowly: the adaptive limiter of the
//! system for the Rakuten Travel API.
//!
//! For APIs that state an interval and punish whoever goes below it. It never learns to go faster
//! than it was told; the learned rate does.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::scheduler::concurrency::Latencies;
use crate::scheduler::events::{Because, Gate, KeyId, Reason};
use crate::scheduler::time::Time;

use super::{Changed, Refused};

/// Settings of the adaptive interval.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct IntervalSettings {
    /// What the API demands between two requests of a key. Default 1 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub rule: Duration,
    /// The shortest interval. Default 1,100 ms: exactly 1,000 ms fails, the network brings two
    /// requests closer together than they left.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub min: Duration,
    /// The longest interval, at least `min`. Default 2,500 ms.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub max: Duration,
    /// What a refusal adds. Default 200 ms; each further one in a row half as much again.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub widen: Duration,
    /// What successes take off. Default 60 ms.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub narrow: Duration,
    /// How many successes in a row. At least 1. Default 8.
    pub narrow_after: u32,
    /// By how much a wait may be lengthened at random. Default 100 ms.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub jitter: Duration,
}

impl Default for IntervalSettings {
    fn default() -> Self {
        // All of the Rakuten system.
        Self {
            rule: Duration::from_millis(1000),
            min: Duration::from_millis(1100),
            max: Duration::from_millis(2500),
            widen: Duration::from_millis(200),
            narrow: Duration::from_millis(60),
            narrow_after: 8,
            jitter: Duration::from_millis(100),
        }
    }
}

/// The adaptive intervals of a provider's keys.
#[derive(Debug)]
pub(crate) struct Interval {
    settings: IntervalSettings,
    keys: Vec<KeyInterval>,
    rng: SmallRng,
}

#[derive(Debug)]
struct KeyInterval {
    /// In seconds.
    current: f64,
    refusals: u32,
    successes: u32,
    latencies: Latencies,
    next: Time,
    cut: Option<Time>,
}

impl Interval {
    pub(crate) fn new(settings: IntervalSettings, seed: u64) -> Self {
        Self {
            settings,
            keys: Vec::new(),
            rng: SmallRng::seed_from_u64(seed),
        }
    }

    /// Changes the settings; each key keeps its interval, within the new bounds.
    pub(crate) fn set(&mut self, settings: IntervalSettings) {
        self.settings = settings;
        let (least, most) = (settings.min.as_secs_f64(), settings.max.as_secs_f64());
        for key in &mut self.keys {
            key.current = key.current.max(least).min(most.max(least));
        }
    }

    /// The interval of a key in seconds, if it was used.
    pub(crate) fn current(&self, key: KeyId) -> Option<f64> {
        self.keys.get(key.index()).map(|key| key.current)
    }

    /// Begins with an interval that was found before, within the bounds.
    pub(crate) fn recall(&mut self, key: KeyId, seconds: f64) {
        let (least, most) = (
            self.settings.min.as_secs_f64(),
            self.settings.max.as_secs_f64(),
        );
        // Not a number is the shortest.
        self.key(key).current = seconds.max(least).min(most.max(least));
    }

    /// The rate of a key in requests per second.
    pub(crate) fn rate(&self, key: KeyId) -> f64 {
        let interval = match self.keys.get(key.index()) {
            Some(key) => key.interval(&self.settings),
            None => self.settings.min.as_secs_f64(),
        };
        interval.max(1e-9).recip()
    }

    pub(crate) fn gate(&self, key: KeyId, now: Time) -> Gate {
        let next = self
            .keys
            .get(key.index())
            .map_or(Time::START, |key| key.next);
        Gate::at(next, Reason::Pace, now)
    }

    pub(crate) fn on_sent(&mut self, key: KeyId, now: Time) {
        let jitter = self.settings.jitter.as_secs_f64() * self.rng.random::<f64>();
        let settings = self.settings;
        let key = self.key(key);
        key.next = now.plus_secs(key.interval(&settings) + jitter);
    }

    pub(crate) fn on_success(&mut self, key: KeyId, sent: Time, took: f64) -> Option<Changed> {
        let settings = self.settings;
        let key = self.key(key);
        if key.cut.is_some_and(|cut| sent <= cut) {
            return None;
        }
        let before = key.interval(&settings);
        key.refusals = 0;
        key.latencies.push(took);
        key.successes += 1;
        if key.successes >= settings.narrow_after.max(1) {
            key.successes = 0;
            let narrowed = key.current - settings.narrow.as_secs_f64();
            key.current = narrowed.max(settings.min.as_secs_f64());
        }
        key.changed(before, &settings, Because::Recovered)
    }

    pub(crate) fn on_refused(&mut self, key: KeyId, sent: Time, now: Time) -> Refused {
        let settings = self.settings;
        let key = self.key(key);
        if key.cut.is_some_and(|cut| sent <= cut) {
            return Refused {
                changed: None,
                same_episode: true,
            };
        }
        let before = key.interval(&settings);
        key.cut = Some(now);
        key.successes = 0;
        let widened = settings.widen.as_secs_f64() * 1.5_f64.powi(key.refusals.min(64) as i32);
        key.refusals = key.refusals.saturating_add(1);
        key.current = (key.current + widened).min(settings.longest());
        if key.refusals >= FORGET_AFTER {
            key.latencies.forget();
        }
        // The wait that runs was made for the old interval.
        key.next = key.next.max(sent.plus_secs(key.interval(&settings)));
        let changed = key.changed(before, &settings, Because::RateLimited);
        Refused {
            changed,
            same_episode: false,
        }
    }

    fn key(&mut self, key: KeyId) -> &mut KeyInterval {
        let shortest = self.settings.min.as_secs_f64();
        if self.keys.len() <= key.index() {
            self.keys
                .resize_with(key.index() + 1, || KeyInterval::new(shortest));
        }
        &mut self.keys[key.index()]
    }
}

impl IntervalSettings {
    fn longest(&self) -> f64 {
        self.max.max(self.min).as_secs_f64()
    }
}

impl KeyInterval {
    fn new(current: f64) -> Self {
        Self {
            current,
            refusals: 0,
            successes: 0,
            latencies: Latencies::default(),
            next: Time::START,
            cut: None,
        }
    }

    /// In seconds: what the refusals made it, and a tenth more than answers take at their slowest.
    fn interval(&self, settings: &IntervalSettings) -> f64 {
        let rule = settings.rule.as_secs_f64();
        let slowest = self.latencies.p95().unwrap_or(self.current);
        let safe = (SAFETY * rule.max(slowest) * 1e3 - 1e-6).ceil() / 1e3;
        // Without history the interval itself stands in for it, and must not raise itself.
        let safe = if self.latencies.p95().is_some() {
            safe
        } else {
            0.0
        };
        self.current
            .max(safe)
            .clamp(settings.min.as_secs_f64(), settings.longest())
    }

    fn changed(&self, before: f64, settings: &IntervalSettings, why: Because) -> Option<Changed> {
        let after = self.interval(settings);
        (after != before).then(|| Changed {
            from: before.recip(),
            to: after.recip(),
            why,
        })
    }
}

/// The safe interval: a tenth more.
const SAFETY: f64 = 1.1;
/// Refusals in a row after which the response times of before say nothing any more.
const FORGET_AFTER: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KeyId = KeyId(0);

    fn quiet() -> Interval {
        Interval::new(
            IntervalSettings {
                jitter: Duration::ZERO,
                ..IntervalSettings::default()
            },
            1,
        )
    }

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    /// The interval in milliseconds after a send at `seconds`.
    fn interval(pace: &mut Interval, seconds: f64) -> u64 {
        pace.on_sent(KEY, at(seconds));
        match pace.gate(KEY, at(seconds)) {
            Gate::Shut { until, .. } => (until.secs_since(at(seconds)) * 1e3).round() as u64,
            Gate::Open => 0,
        }
    }

    #[test]
    fn refusals_widen_it_faster_and_faster_up_to_the_most() {
        let mut pace = quiet();
        let mut intervals = vec![interval(&mut pace, 0.0)];
        for i in 1..7 {
            let sent = 10.0 * f64::from(i);
            pace.on_refused(KEY, at(sent), at(sent + 0.1));
            intervals.push(interval(&mut pace, sent + 5.0));
        }
        assert_eq!(intervals, [1100, 1300, 1600, 2050, 2500, 2500, 2500]);
    }

    #[test]
    fn eight_successes_take_sixty_milliseconds_off() {
        let mut pace = quiet();
        pace.on_refused(KEY, at(0.0), at(0.1));
        for i in 1..=16 {
            pace.on_success(KEY, at(f64::from(i)), 0.2);
        }
        assert_eq!(interval(&mut pace, 20.0), 1180);
    }

    #[test]
    fn slow_answers_widen_it_and_two_refusals_in_a_row_forget_them() {
        let mut pace = quiet();
        pace.on_success(KEY, at(1.0), 1.5);
        assert_eq!(interval(&mut pace, 2.0), 1650);
        pace.on_refused(KEY, at(3.0), at(3.1));
        pace.on_refused(KEY, at(4.0), at(4.1));
        assert_eq!(interval(&mut pace, 5.0), 1600);
    }

    #[test]
    fn refusals_of_one_episode_widen_it_once() {
        let mut pace = quiet();
        for _ in 0..9 {
            pace.on_refused(KEY, at(0.0), at(0.1));
        }
        assert_eq!(interval(&mut pace, 1.0), 1300);
    }

    #[test]
    fn jitter_only_lengthens() {
        let mut pace = Interval::new(IntervalSettings::default(), 7);
        for i in 0..50 {
            let interval = interval(&mut pace, 10.0 * f64::from(i));
            assert!((1100..=1200).contains(&interval), "{interval}");
        }
    }
}
