//! The counters of one limit, as a server keeps them.
//!
//! Times are seconds since the start of the run and may be negative: windows may have opened
//! before it. A request that costs more than a whole limit counts as the whole limit, so that it
//! is admitted when all of it is there.

use std::collections::VecDeque;

use super::law::{Counts, Limit, Opens, Per};

/// One limit and how much of it is used.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    limit: Limit,
    /// Of a bucket what is left, of a window what is used.
    level: f64,
    /// When `level` was true (bucket), the window opened, or the last request was admitted.
    since: f64,
    /// What a sliding window still counts.
    log: VecDeque<(f64, f64)>,
}

/// What a server would tell about a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) counts: Counts,
    pub(super) limit: f64,
    /// Whole units.
    pub(super) remaining: f64,
    /// Seconds until more of it is there; of a bucket, until it is full.
    pub(super) reset: f64,
    /// Seconds.
    pub(super) window: f64,
}

impl Meter {
    /// A limit of which nothing is used yet. Its clocked windows open at `origin`.
    pub(super) fn new(limit: Limit, origin: f64) -> Self {
        let level = if let Limit::Bucket { burst, .. } = limit {
            burst
        } else {
            0.0
        };
        let since = match limit {
            Limit::FixedWindow {
                opens: Opens::FirstRequest,
                ..
            }
            | Limit::Interval { .. } => f64::NEG_INFINITY,
            _ => origin,
        };
        Self {
            limit,
            level,
            since,
            log: VecDeque::new(),
        }
    }

    /// Brings the counters to `now`.
    pub(super) fn roll(&mut self, now: f64) {
        match self.limit {
            Limit::Bucket { rate, burst, .. } => {
                self.level = (self.level + rate * (now - self.since).max(0.0)).min(burst);
                self.since = now;
            }
            Limit::FixedWindow { window, opens, .. } => {
                let passed = (now - self.since + EPSILON) / window.as_secs_f64();
                if passed >= 1.0 {
                    self.level = 0.0;
                    self.since = match opens {
                        Opens::Clock => self.since + passed.floor() * window.as_secs_f64(),
                        Opens::FirstRequest => now,
                    };
                }
            }
            Limit::SlidingWindow { window, .. } => {
                while let Some(&(at, cost)) = self.log.front() {
                    if now - at < window.as_secs_f64() - EPSILON {
                        break;
                    }
                    self.level -= cost;
                    self.log.pop_front();
                }
            }
            Limit::Interval { .. } | Limit::Concurrency { .. } => {}
        }
    }

    /// How long a request must wait, if it must; zero when only an answer can help. The counters
    /// must have been brought to `now`.
    pub(super) fn shut(&self, tokens: f64, in_flight: u32, now: f64) -> Option<f64> {
        let cost = self.cost(tokens);
        match self.limit {
            Limit::Bucket { rate, .. } => {
                (self.level + EPSILON < cost).then(|| (cost - self.level) / rate)
            }
            Limit::FixedWindow { limit, window, .. } => (self.level + cost > limit + EPSILON)
                .then(|| (self.since + window.as_secs_f64() - now).max(0.0)),
            Limit::SlidingWindow { limit, window, .. } => (self.level + cost > limit + EPSILON)
                .then(|| {
                    let oldest = self.log.front().map_or(now, |&(at, _)| at);
                    (oldest + window.as_secs_f64() - now).max(0.0)
                }),
            Limit::Interval { every, .. } => {
                let wait = self.since + every.as_secs_f64() - now;
                (wait > EPSILON).then_some(wait)
            }
            Limit::Concurrency { max, .. } => (in_flight >= max).then_some(0.0),
        }
    }

    /// Counts a request.
    pub(super) fn spend(&mut self, tokens: f64, now: f64) {
        let cost = self.cost(tokens);
        match self.limit {
            Limit::Bucket { .. } => self.level -= cost,
            Limit::FixedWindow { .. } => self.level += cost,
            Limit::SlidingWindow { .. } => {
                self.level += cost;
                self.log.push_back((now, cost));
            }
            Limit::Interval { .. } => self.since = now,
            Limit::Concurrency { .. } => {}
        }
    }

    /// What headers can tell about it, if they do.
    pub(super) fn view(&self, now: f64) -> Option<View> {
        match self.limit {
            Limit::Bucket {
                rate,
                burst,
                counts,
                hidden,
                ..
            } => (!hidden).then(|| View {
                counts,
                limit: burst,
                remaining: (self.level + EPSILON).floor().max(0.0),
                reset: ((burst - self.level) / rate).max(0.0),
                window: burst / rate,
            }),
            Limit::FixedWindow {
                limit,
                window,
                counts,
                hidden,
                ..
            } => {
                let window = window.as_secs_f64();
                (!hidden).then(|| View {
                    counts,
                    limit,
                    remaining: (limit - self.level).max(0.0),
                    reset: (self.since + window - now).max(0.0),
                    window,
                })
            }
            Limit::SlidingWindow {
                limit,
                window,
                counts,
                hidden,
                ..
            } => {
                let window = window.as_secs_f64();
                (!hidden).then(|| View {
                    counts,
                    limit,
                    remaining: (limit - self.level).max(0.0),
                    reset: self
                        .log
                        .front()
                        .map_or(0.0, |&(at, _)| (at + window - now).max(0.0)),
                    window,
                })
            }
            Limit::Interval { .. } | Limit::Concurrency { .. } => None,
        }
    }

    /// Whether only the end of another request makes room.
    pub(super) fn counts_in_flight(&self) -> bool {
        matches!(self.limit, Limit::Concurrency { .. })
    }

    fn cost(&self, tokens: f64) -> f64 {
        match self.limit {
            Limit::Bucket {
                counts: Counts::Tokens,
                burst,
                ..
            } => tokens.min(burst),
            Limit::FixedWindow {
                counts: Counts::Tokens,
                limit,
                ..
            }
            | Limit::SlidingWindow {
                counts: Counts::Tokens,
                limit,
                ..
            } => tokens.min(limit),
            _ => 1.0,
        }
    }
}

impl Limit {
    /// For whom it holds.
    #[must_use]
    pub fn per(&self) -> Per {
        match *self {
            Self::Bucket { per, .. }
            | Self::FixedWindow { per, .. }
            | Self::SlidingWindow { per, .. }
            | Self::Interval { per, .. }
            | Self::Concurrency { per, .. } => per,
        }
    }

    /// The requests per second that it allows in the long run to requests of so many tokens, of
    /// which each takes so many seconds.
    #[must_use]
    pub fn rate(&self, tokens: f64, latency: f64) -> f64 {
        let each = |counts| {
            if counts == Counts::Tokens {
                tokens.max(1.0)
            } else {
                1.0
            }
        };
        match *self {
            Self::Bucket { rate, counts, .. } => rate / each(counts),
            Self::FixedWindow {
                limit,
                window,
                counts,
                ..
            }
            | Self::SlidingWindow {
                limit,
                window,
                counts,
                ..
            } => limit / window.as_secs_f64() / each(counts),
            Self::Interval { every, .. } => 1.0 / every.as_secs_f64(),
            Self::Concurrency { max, .. } => f64::from(max) / latency,
        }
    }
}

/// Below this, in seconds or units, two numbers are the same: sums of decimal fractions differ by
/// about 1e-16 of their size, and no limit here is as fine as a nanosecond.
const EPSILON: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(text: &str) -> Meter {
        Meter::new(toml::from_str(text).unwrap(), -0.05)
    }

    fn admit(meter: &mut Meter, now: f64) -> Option<f64> {
        meter.roll(now);
        let wait = meter.shut(1.0, 0, now);
        if wait.is_none() {
            meter.spend(1.0, now);
        }
        wait
    }

    #[test]
    fn a_bucket_admits_its_burst_and_then_its_rate() {
        let mut bucket = meter("kind='bucket'\nrate=10\nburst=3");
        assert!((0..3).all(|_| admit(&mut bucket, 0.0).is_none()));
        assert!((admit(&mut bucket, 0.0).unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(admit(&mut bucket, 0.1), None);
        assert_eq!(bucket.view(0.1).unwrap().remaining, 0.0);
        assert!((bucket.view(0.1).unwrap().reset - 0.3).abs() < 1e-9);
    }

    #[test]
    fn a_clocked_window_rolls_over_at_its_edge_whoever_asks() {
        let mut window = meter("kind='fixed-window'\nlimit=2\nwindow='1s'");
        assert_eq!(admit(&mut window, 0.9), None);
        assert_eq!(admit(&mut window, 0.9), None);
        assert!((admit(&mut window, 0.9).unwrap() - 0.05).abs() < 1e-9);
        assert_eq!(admit(&mut window, 0.96), None);
        assert!((window.view(0.96).unwrap().reset - 0.99).abs() < 1e-9);
    }

    #[test]
    fn whoever_comes_on_the_edge_is_in_the_new_window() {
        let mut window = meter("kind='fixed-window'\nlimit=1\nwindow='1s'");
        assert_eq!(admit(&mut window, 0.5), None);
        // 0.1 + 0.1 + … falls short of 0.95 by rounding.
        assert_eq!(admit(&mut window, 0.95 - 1e-13), None);
        assert!(admit(&mut window, 0.95 + 1e-13).is_some());
    }

    #[test]
    fn a_window_opened_by_requests_starts_with_the_first() {
        let mut window = meter("kind='fixed-window'\nlimit=1\nwindow='1s'\nopens='first-request'");
        assert_eq!(admit(&mut window, 5.3), None);
        assert!((admit(&mut window, 5.5).unwrap() - 0.8).abs() < 1e-9);
        assert_eq!(admit(&mut window, 6.4), None);
    }

    #[test]
    fn a_sliding_window_never_holds_more_than_its_limit() {
        let mut window = meter("kind='sliding-window'\nlimit=3\nwindow='1s'");
        let mut admitted: Vec<f64> = Vec::new();
        for step in 0..1000 {
            let now = f64::from(step) * 0.007;
            if admit(&mut window, now).is_none() {
                admitted.push(now);
            }
        }
        assert!(admitted.len() > 15);
        assert!(
            admitted
                .windows(4)
                .all(|four| four[3] - four[0] >= 1.0 - 1e-6)
        );
    }

    /// Sends at these gaps in milliseconds, and answers when each was admitted.
    fn admitted(mut meter: Meter, gaps: &[u16]) -> Vec<f64> {
        let mut now = 0.0;
        let mut moments = Vec::new();
        for gap in gaps {
            now += f64::from(*gap) / 1e3;
            if admit(&mut meter, now).is_none() {
                moments.push(now);
            }
        }
        moments
    }

    proptest::proptest! {
        #[test]
        fn no_limit_ever_admits_more_than_it_says(
            gaps in proptest::collection::vec(0_u16..400, 1..300),
        ) {
            let bucket = admitted(meter("kind='bucket'\nrate=10\nburst=3"), &gaps);
            let sliding = admitted(meter("kind='sliding-window'\nlimit=4\nwindow='1s'"), &gaps);
            let fixed = admitted(meter("kind='fixed-window'\nlimit=4\nwindow='1s'"), &gaps);
            let interval = admitted(meter("kind='interval'\nevery='200ms'"), &gaps);
            for (first, &from) in bucket.iter().enumerate() {
                for (more, &to) in bucket[first..].iter().enumerate() {
                    proptest::prop_assert!((more + 1) as f64 <= 3.0 + 10.0 * (to - from) + 1e-6);
                }
            }
            proptest::prop_assert!(sliding.windows(5).all(|five| five[4] - five[0] > 1.0 - 1e-6));
            // Windows open at -0.05 s and every second after that.
            let mut in_window = std::collections::HashMap::new();
            for at in fixed {
                *in_window.entry((at + 0.05 + EPSILON).floor() as i64).or_insert(0) += 1;
            }
            proptest::prop_assert!(in_window.values().all(|count| *count <= 4));
            proptest::prop_assert!(interval.windows(2).all(|two| two[1] - two[0] > 0.2 - 1e-6));
        }
    }

    #[test]
    fn an_interval_counts_from_the_last_admitted_request() {
        let mut interval = meter("kind='interval'\nevery='100ms'");
        assert_eq!(admit(&mut interval, 0.0), None);
        assert!(admit(&mut interval, 0.05).is_some());
        assert_eq!(admit(&mut interval, 0.1), None);
    }
}
