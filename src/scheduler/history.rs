//! What happened, hour by hour and key by key: successes, refusals, and how long answers took.
//!
//! Bounded: seven days, so many keys an hour, and a histogram of the times instead of the times.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::feedback::Class;

use super::events::{Fingerprint, Outcome};
use super::time::Time;

/// What happened in the last seven days.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(transparent)
)]
pub struct History {
    hours: Vec<KeyHour>,
}

/// What happened on one key in one hour.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[non_exhaustive]
pub struct KeyHour {
    /// The hour, in hours since 1970 in UTC.
    pub hour: u64,
    /// The key.
    pub key: Fingerprint,
    /// Attempts that were served.
    pub successes: u64,
    /// Attempts that were refused for going too fast or for being too many.
    pub refusals: u64,
    /// Attempts that failed otherwise.
    pub failures: u64,
    /// How many of those served took about so long, by the number of the class.
    times: BTreeMap<u16, u32>,
}

impl History {
    /// How far it looks back, in hours.
    pub const HOURS: u64 = 7 * 24;
    /// Keys that are told apart in an hour; attempts on others are not written down.
    pub const MOST_KEYS: usize = 64;

    /// Each hour of each key, the oldest first.
    #[must_use]
    pub fn hours(&self) -> &[KeyHour] {
        &self.hours
    }

    /// An attempt on a key has ended, `took` after it was sent, in this hour since 1970.
    pub fn on_ended(&mut self, hour: u64, key: Fingerprint, outcome: &Outcome, took: Duration) {
        let Some(entry) = self.entry(hour, key) else {
            return;
        };
        let Outcome::Answered(feedback) = outcome else {
            entry.failures += 1;
            return;
        };
        match feedback.class {
            Class::Ok => {
                entry.successes += 1;
                let count = entry.times.entry(class_of(took)).or_default();
                *count = count.saturating_add(1);
            }
            Class::RateLimited | Class::QuotaExhausted | Class::Overloaded => entry.refusals += 1,
            Class::Transient | Class::Fatal => entry.failures += 1,
        }
    }

    /// Adds what another has seen.
    pub fn merge(&mut self, other: &Self) {
        for hour in &other.hours {
            let Some(entry) = self.entry(hour.hour, hour.key) else {
                continue;
            };
            entry.successes = entry.successes.saturating_add(hour.successes);
            entry.refusals = entry.refusals.saturating_add(hour.refusals);
            entry.failures = entry.failures.saturating_add(hour.failures);
            // Classes that no time has come from a stranger's file.
            for (&class, &count) in hour.times.range(..=LAST_CLASS) {
                let sum = entry.times.entry(class).or_default();
                *sum = sum.saturating_add(count);
            }
        }
    }

    fn entry(&mut self, hour: u64, key: Fingerprint) -> Option<&mut KeyHour> {
        // Mostly the last: time goes on.
        let found = self
            .hours
            .binary_search_by_key(&(hour, key), |entry| (entry.hour, entry.key));
        let index = match found {
            Ok(index) => index,
            Err(_) => {
                let newest = self.hours.last().map_or(0, |last| last.hour);
                let oldest = newest.max(hour).saturating_sub(Self::HOURS - 1);
                if hour > newest {
                    self.hours.retain(|entry| entry.hour >= oldest);
                }
                let start = self.hours.partition_point(|entry| entry.hour < hour);
                let same = self.hours[start..].partition_point(|entry| entry.hour == hour);
                if hour < oldest || same >= Self::MOST_KEYS {
                    return None;
                }
                let before =
                    self.hours[start..start + same].partition_point(|entry| entry.key < key);
                let at = start + before;
                self.hours.insert(
                    at,
                    KeyHour {
                        hour,
                        key,
                        successes: 0,
                        refusals: 0,
                        failures: 0,
                        times: BTreeMap::new(),
                    },
                );
                at
            }
        };
        Some(&mut self.hours[index])
    }
}

impl KeyHour {
    /// The time within which so many of the answers came, from 0 to 1, to 5 %; none without any.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let total: u64 = self.times.values().map(|&count| u64::from(count)).sum();
        let wanted = (total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (&class, &count) in &self.times {
            seen += u64::from(count);
            if seen >= wanted {
                return Some(time_of(class));
            }
        }
        None
    }
}

/// What a scheduler writes down, if it does.
#[derive(Debug)]
pub(super) struct Diary {
    /// Seconds since 1970 at the start.
    started: u64,
    pub(super) history: History,
}

impl Diary {
    pub(super) fn on_ended(&mut self, key: Fingerprint, outcome: &Outcome, sent: Time, now: Time) {
        let seconds = self.started + now.since(Time::START).as_secs();
        let took = now.since(sent);
        self.history.on_ended(seconds / 3600, key, outcome, took);
    }
}

impl super::Scheduler {
    /// From now on it writes down what happens; the wall clock stood at so many seconds since 1970
    /// at [`Time::START`].
    pub fn keep_history(&mut self, started: u64) {
        self.diary = Some(Box::new(Diary {
            started,
            history: History::default(),
        }));
    }

    /// What happened since; nothing if it is not written down.
    #[must_use]
    pub fn history(&self) -> History {
        let diary = self.diary.as_ref();
        diary.map_or_else(History::default, |diary| diary.history.clone())
    }
}

/// Eight classes an octave of microseconds: neighbours are 9 % apart.
fn class_of(took: Duration) -> u16 {
    let micros = took.as_secs_f64() * 1e6;
    (micros.max(1.0).log2() * 8.0)
        .round()
        .min(f64::from(LAST_CLASS)) as u16
}

fn time_of(class: u16) -> Duration {
    Duration::from_secs_f64((f64::from(class) / 8.0).exp2() / 1e6)
}

/// About an hour.
const LAST_CLASS: u16 = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feedback::Feedback;

    fn key(n: u8) -> Fingerprint {
        Fingerprint::from_hash([n; 6])
    }

    fn answer(class: Class) -> Outcome {
        Outcome::Answered(Feedback {
            class,
            ..Feedback::default()
        })
    }

    #[test]
    fn percentiles_are_true_to_five_percent() {
        let mut history = History::default();
        for millis in 1..=1_000 {
            let took = Duration::from_millis(millis);
            history.on_ended(7, key(1), &answer(Class::Ok), took);
        }
        history.on_ended(7, key(1), &answer(Class::RateLimited), Duration::ZERO);
        history.on_ended(7, key(1), &Outcome::Broken, Duration::ZERO);
        let hour = &history.hours()[0];
        assert_eq!(
            (hour.successes, hour.refusals, hour.failures),
            (1_000, 1, 1)
        );
        for (share, millis) in [(0.5, 500.0), (0.95, 950.0)] {
            let found = hour.percentile(share).unwrap().as_secs_f64() * 1e3;
            assert!((found / millis - 1.0).abs() < 0.05, "{share}: {found}");
        }
        assert!(history.hours()[0].times.len() < 90);
    }

    #[test]
    fn it_keeps_seven_days_and_sixty_four_keys_and_merges() {
        let mut history = History::default();
        for hour in 0..1_000 {
            for n in 0..100 {
                history.on_ended(hour, key(n), &answer(Class::Ok), Duration::from_secs(1));
            }
        }
        assert_eq!(history.hours().len(), 168 * 64);
        assert_eq!(history.hours()[0].hour, 1_000 - 168);
        history.on_ended(3, key(1), &answer(Class::Ok), Duration::ZERO);
        assert_eq!(
            history.hours().len(),
            168 * 64,
            "what is too old is not written"
        );
        let twice = history.clone();
        history.merge(&twice);
        assert_eq!(history.hours()[5].successes, 2);
        assert_eq!(
            history.hours()[5]
                .percentile(0.5)
                .map(|t| t.as_secs_f64().round()),
            Some(1.0)
        );
    }
}
