//! What of the learned rates is worth knowing the next time.

use crate::scheduler::events::KeyId;
use crate::scheduler::memory::Doubt;
use crate::scheduler::time::Time;

use super::Pace;
use super::bracket::Bracket;
use super::interval::Interval;
use super::knocks::{Ban, BanMemory};
use super::learned::Learned;
use super::window::SilentWindow;

/// The learned rates of a provider, for the next time.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub(in crate::scheduler) struct PaceMemory {
    /// None is one of which nothing is known.
    rates: Vec<Option<BracketMemory>>,
    /// The server has asked to wait: it counts who does not.
    #[cfg_attr(feature = "serde", serde(default))]
    asked_to_wait: bool,
    /// Refusals that may be risked.
    #[cfg_attr(feature = "serde", serde(default))]
    budget: f64,
}

/// What was learned of one key's pace.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, default)
)]
pub(in crate::scheduler) struct KeyPaceMemory {
    /// The place of its rate.
    rate: Option<usize>,
    /// In seconds, until its next send.
    wait: f64,
    /// What its window still counts.
    counting: f64,
    /// It was banned.
    ban: Option<BanMemory>,
    /// In seconds, where a minimum interval adapts.
    interval: Option<f64>,
}

/// A learned rate.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
struct BracketMemory {
    /// In sends per second, as the bounds.
    pace: f64,
    low: f64,
    high: f64,
    /// The most that can have been saved up.
    credit: f64,
    /// The limit lets much through, then nothing for long.
    #[cfg_attr(feature = "serde", serde(default))]
    windowed: bool,
    #[cfg_attr(feature = "serde", serde(default))]
    window: Option<WindowMemory>,
}

/// So many sends within a length in seconds.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
struct WindowMemory {
    limit: f64,
    shortest: f64,
    longest: f64,
}

impl Pace {
    pub(in crate::scheduler) fn remember(&self) -> PaceMemory {
        match self {
            Self::Learned(learned) => PaceMemory {
                rates: learned.brackets.iter().map(BracketMemory::of).collect(),
                asked_to_wait: learned.asked_to_wait,
                budget: learned.budget.left(),
            },
            Self::Interval(_) | Self::Off => PaceMemory::default(),
        }
    }

    pub(in crate::scheduler) fn remember_key(
        &self,
        key: KeyId,
        now: Time,
    ) -> Option<KeyPaceMemory> {
        match self {
            Self::Learned(learned) => learned.remember_key(key, now),
            Self::Interval(interval) => interval.current(key).map(|current| KeyPaceMemory {
                interval: Some(current),
                ..KeyPaceMemory::default()
            }),
            Self::Off => None,
        }
    }

    pub(in crate::scheduler) fn recall(
        &mut self,
        memory: &PaceMemory,
        keys: &[(KeyId, &KeyPaceMemory)],
        doubt: Doubt,
        now: Time,
    ) {
        match self {
            Self::Learned(learned) => learned.recall(memory, keys, doubt, now),
            Self::Interval(interval) => recall_intervals(interval, keys, doubt),
            Self::Off => {}
        }
    }
}

fn recall_intervals(interval: &mut Interval, keys: &[(KeyId, &KeyPaceMemory)], doubt: Doubt) {
    for (key, memory) in keys {
        if let Some(seconds) = memory.interval.filter(|_| !doubt.is_whole()) {
            interval.recall(*key, seconds);
        }
    }
}

impl Learned {
    fn remember_key(&self, key: KeyId, now: Time) -> Option<KeyPaceMemory> {
        let track = self.keys.get(key.index())?;
        let bracket = &self.brackets[track.bracket];
        let ban = track.ban.map(|ban| ban.remember(now));
        if !bracket.is_known() && ban.is_none() {
            return None;
        }
        let window = bracket.window.as_ref();
        let counting = window.map_or(0.0, |window| {
            let since = now.plus_secs(-window.longest().min(LONGEST_WINDOW));
            track.evidence.sends.after(since)
        });
        Some(KeyPaceMemory {
            rate: bracket.is_known().then_some(track.bracket),
            wait: track.next.secs_since(now).max(0.0),
            counting,
            ban,
            interval: None,
        })
    }

    /// Begins with the rates that others had learned, for keys that were not used yet.
    fn recall(
        &mut self,
        memory: &PaceMemory,
        keys: &[(KeyId, &KeyPaceMemory)],
        doubt: Doubt,
        now: Time,
    ) {
        let first = self.brackets.len();
        if !doubt.is_whole() {
            let rates = memory.rates.iter().take(MOST_RATES);
            let aged = rates.map(|rate| rate.as_ref().and_then(|rate| rate.aged(doubt)));
            self.brackets.extend(aged.map(Option::unwrap_or_default));
        }
        self.asked_to_wait |= memory.asked_to_wait;
        if self.brackets.iter().any(Bracket::is_known) {
            self.budget.recall(memory.budget * (1.0 - doubt.share()));
        }
        for (key, memory) in keys {
            let track = self.track(*key);
            track.ban = memory
                .ban
                .as_ref()
                .and_then(|ban| Ban::recall(ban, doubt.age));
            let place = memory.rate.and_then(|rate| first.checked_add(rate));
            let Some(bracket) = place.filter(|&place| place < self.brackets.len()) else {
                continue;
            };
            if !self.brackets[bracket].is_known() {
                continue;
            }
            let length = self.brackets[bracket]
                .window
                .as_ref()
                .map(SilentWindow::longest);
            let track = self.track(*key);
            track.bracket = bracket;
            track.evidence.slowest = f64::INFINITY;
            let left = memory.wait - doubt.age.as_secs_f64();
            track.next = now.plus_secs(left.clamp(0.0, LONGEST_WINDOW));
            if length.is_some_and(|length| length > doubt.age.as_secs_f64()) {
                // When they were sent is before our time; they return as if they were sent now.
                track.evidence.sends.push(sane(memory.counting), now);
            }
        }
    }
}

impl BracketMemory {
    fn of(bracket: &Bracket) -> Option<Self> {
        let Bracket {
            pace,
            low,
            high,
            credit,
            ..
        } = *bracket;
        let known = [pace, low, high, credit]
            .iter()
            .all(|number| number.is_finite());
        known.then(|| Self {
            pace: bracket.before_probe.unwrap_or(pace),
            // A limit that fell a moment ago leaves bounds that have crossed.
            low: low.min(high),
            high,
            credit,
            windowed: bracket.windowed,
            window: bracket.window.as_ref().and_then(WindowMemory::of),
        })
    }

    /// The bracket as it is believed after a time; none if the numbers make no sense.
    fn aged(&self, doubt: Doubt) -> Option<Bracket> {
        let Self {
            pace,
            low,
            high,
            credit,
            ..
        } = *self;
        let sound = [pace, low, high, credit]
            .iter()
            .all(|number| number.is_finite())
            && 0.0 <= low
            && low <= high
            && SLOWEST < pace
            && pace < FASTEST
            && credit >= 0.0;
        let window = match &self.window {
            Some(window) => Some(window.aged(doubt)?),
            None => None,
        };
        let slower = 1.0 - doubt.quarter();
        let pace = match &window {
            Some(window) => window.rate(),
            None => pace * slower,
        };
        sound.then(|| {
            let mut bracket = Bracket::default();
            bracket.pace = pace;
            bracket.low = (low * (1.0 - doubt.share())).min(pace);
            bracket.high = (high * (1.0 + doubt.quarter())).max(pace);
            bracket.credit = credit;
            bracket.windowed = self.windowed;
            bracket.window = window;
            bracket
        })
    }
}

impl WindowMemory {
    fn of(window: &SilentWindow) -> Option<Self> {
        let (shortest, longest) = window.length();
        longest.is_finite().then_some(Self {
            limit: window.limit,
            shortest,
            longest,
        })
    }

    fn aged(&self, doubt: Doubt) -> Option<SilentWindow> {
        let Self {
            limit,
            shortest,
            longest,
        } = *self;
        let sound = (1.0..FASTEST).contains(&limit)
            && 0.0 <= shortest
            && shortest <= longest
            && longest > 0.0
            && longest <= LONGEST_WINDOW;
        let longer = 1.0 + doubt.quarter();
        sound.then(|| SilentWindow::new(limit, shortest * (1.0 - doubt.share()), longest * longer))
    }
}

/// A count that came from outside.
fn sane(count: f64) -> f64 {
    if count > 0.0 { count.min(FASTEST) } else { 0.0 }
}

/// In seconds: nobody waits for a rate longer than a day.
const LONGEST_WINDOW: f64 = 86_400.0;
/// In sends per second: less than one a day is a budget, not a rate.
const SLOWEST: f64 = 1.0 / LONGEST_WINDOW;
/// In sends per second: no client is as fast.
const FASTEST: f64 = 1e9;
/// As many as keys are remembered.
const MOST_RATES: usize = 1024;
