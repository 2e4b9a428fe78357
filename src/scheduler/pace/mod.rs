//! How fast to go where nobody says: the rate learned from refusals, or an interval that adapts.

use crate::feedback::Wait;

use super::events::{Because, Gate, KeyId, What};
use super::time::Time;
use super::timing::Timing;

mod age;
mod block;
mod bracket;
mod case;
mod evidence;
mod grouping;
mod heard;
mod holding;
mod interval;
mod knocks;
mod learned;
mod memory;
mod refusal;
mod regrowth;
mod window;

pub use heard::Rate;
pub use interval::IntervalSettings;

use interval::Interval;
use learned::Learned;
pub(super) use memory::{KeyPaceMemory, PaceMemory};

/// What sets the pace where the server reports no quota.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case", deny_unknown_fields)
)]
#[non_exhaustive]
pub enum PaceSettings {
    /// Learned from refusals. The default.
    #[default]
    Learned,
    /// A minimum interval per key that widens fast and narrows slowly.
    Interval(IntervalSettings),
    /// Nothing does.
    Off,
}

/// The pace of one provider.
#[derive(Debug)]
pub(crate) enum Pace {
    Learned(Learned),
    Interval(Interval),
    Off,
}

/// What an attempt keeps of its send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// When it was sent.
    pub(crate) at: Time,
    /// The send before it on the same key.
    pub(super) before: Option<Time>,
}

/// What the pace must know of its surroundings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    /// All keys, usable or not.
    pub(crate) keys: usize,
    /// Whether the server reports any quota.
    pub(crate) told: bool,
    /// Requests served so far.
    pub(crate) served: u64,
    /// In flight on all keys.
    pub(crate) in_flight: u32,
    /// How many wait for each key.
    pub(crate) demand: usize,
    /// Measured times.
    pub(crate) timing: &'a Timing,
}

/// A pace that was changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Changed {
    /// In sends per second and key.
    pub(crate) from: f64,
    /// In sends per second and key.
    pub(crate) to: f64,
    /// Why.
    pub(crate) why: Because,
}

/// What a refusal that no quota explains leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Refused {
    /// The pace, unless the refusal belongs to an episode that was paid for.
    pub(crate) changed: Option<Changed>,
    /// It was sent before the last cut, and says nothing new.
    pub(crate) same_episode: bool,
}

impl Pace {
    pub(crate) fn new(settings: PaceSettings, seed: u64) -> Self {
        match settings {
            PaceSettings::Learned => Self::Learned(Learned::default()),
            PaceSettings::Interval(settings) => Self::Interval(Interval::new(settings, seed)),
            PaceSettings::Off => Self::Off,
        }
    }

    /// Changes the settings for so many keys. A pace of the same kind keeps what it has learned.
    pub(crate) fn set(&mut self, settings: PaceSettings, keys: usize, seed: u64) {
        match (&mut *self, settings) {
            (Self::Learned(_), PaceSettings::Learned) | (Self::Off, PaceSettings::Off) => {}
            (Self::Interval(interval), PaceSettings::Interval(settings)) => interval.set(settings),
            (_, PaceSettings::Learned) => *self = Self::Learned(Learned::for_keys(keys)),
            (_, settings) => *self = Self::new(settings, seed),
        }
    }

    /// Whether and when the pace lets the key send.
    pub(crate) fn gate(&self, key: KeyId, timing: &Timing, now: Time) -> Gate {
        match self {
            Self::Learned(learned) => learned.gate(key, timing, now),
            Self::Interval(interval) => interval.gate(key, now),
            Self::Off => Gate::Open,
        }
    }

    /// The gate of a send that no rate should refuse, where every `turn` seconds an answer comes.
    pub(crate) fn gate_of_look(&self, key: KeyId, turn: f64, timing: &Timing, now: Time) -> Gate {
        match self {
            Self::Learned(learned) => learned.gate_of_look(key, turn, timing, now),
            Self::Interval(_) | Self::Off => self.gate(key, timing, now),
        }
    }

    /// The gate of a send of which only time may have made that it is not refused.
    pub(crate) fn gate_of_trial(&self, key: KeyId, timing: &Timing, now: Time) -> Gate {
        let gate = self.gate(key, timing, now);
        match self {
            Self::Learned(learned) => gate.and(learned.hint_gate(key, now)),
            Self::Interval(_) | Self::Off => gate,
        }
    }

    /// Whether a rate is known for the key.
    pub(crate) fn is_known(&self, key: KeyId) -> bool {
        match self {
            Self::Learned(learned) => learned.is_known(key),
            Self::Interval(_) => true,
            Self::Off => false,
        }
    }

    /// The rate of a key in requests per second; none while none is known.
    pub(crate) fn rate(&self, key: KeyId) -> Option<f64> {
        match self {
            Self::Learned(learned) => Some(learned.rate(key)).filter(|rate| rate.is_finite()),
            Self::Interval(interval) => Some(interval.rate(key)),
            Self::Off => None,
        }
    }

    /// Whether a refusal of the key may be risked for a trial.
    pub(crate) fn may_try(&self, key: KeyId, now: Time) -> bool {
        match self {
            Self::Learned(learned) => learned.may_try(key.index(), now),
            Self::Interval(_) | Self::Off => false,
        }
    }

    /// Whether what is learned is a window, which is used in bursts.
    pub(crate) fn is_window(&self, key: KeyId) -> bool {
        match self {
            Self::Learned(learned) => learned.is_window(key),
            Self::Interval(_) | Self::Off => false,
        }
    }

    /// Whether sends must keep to the pace even where something else sets the clock.
    pub(crate) fn is_strict(&self, key: KeyId) -> bool {
        match self {
            Self::Learned(learned) => learned.was_asked_to_wait() || learned.is_window(key),
            Self::Interval(_) => true,
            Self::Off => false,
        }
    }

    /// A request was sent on a key.
    pub(crate) fn on_sent(&mut self, key: KeyId, timing: &Timing, now: Time) -> Stamp {
        match self {
            Self::Learned(learned) => learned.on_sent(key, timing, now),
            Self::Interval(interval) => {
                interval.on_sent(key, now);
                Stamp {
                    at: now,
                    before: None,
                }
            }
            Self::Off => Stamp {
                at: now,
                before: None,
            },
        }
    }

    /// A request was served after `took` seconds.
    pub(crate) fn on_success(
        &mut self,
        key: KeyId,
        stamp: &Stamp,
        took: f64,
        scene: &Scene<'_>,
        now: Time,
    ) -> Option<Changed> {
        match self {
            Self::Learned(learned) => learned.on_success(key, stamp, scene, now),
            Self::Interval(interval) => interval.on_success(key, stamp.at, took),
            Self::Off => None,
        }
    }

    /// Whether nothing was accepted between the last refusal of the key and this send.
    pub(crate) fn is_in_a_row(&self, key: KeyId, stamp: &Stamp) -> Option<bool> {
        match self {
            Self::Learned(learned) => Some(learned.is_in_a_row(key, stamp)),
            Self::Interval(_) | Self::Off => None,
        }
    }

    /// A request was refused and something else explains it, or it never left.
    pub(crate) fn on_explained(&mut self, key: KeyId, stamp: &Stamp) {
        if let Self::Learned(learned) = self {
            learned.on_explained(key, stamp);
        }
    }

    /// A request was refused that looked for more than a known cap: what it cost is paid for.
    pub(crate) fn on_look_refused(&mut self, key: KeyId, stamp: &Stamp) {
        if let Self::Learned(learned) = self {
            learned.on_explained(key, stamp);
            learned.on_look_refused();
        }
    }

    /// The first refusals of the key were those of a cap.
    pub(crate) fn on_cap_found(&mut self, key: KeyId) {
        if let Self::Learned(learned) = self {
            learned.on_cap_found(key);
        }
    }

    /// The server refused the key itself; `out` says whether it is out of use now.
    pub(crate) fn on_fault(&mut self, key: KeyId, out: bool, now: Time) {
        if let Self::Learned(learned) = self {
            learned.on_fault(key);
            learned.on_denied(key, now);
            learned.set_out(key, out);
        }
    }

    /// The server denied a request for good.
    pub(crate) fn on_denied(&mut self, key: KeyId, now: Time) {
        if let Self::Learned(learned) = self {
            learned.on_denied(key, now);
        }
    }

    /// Refusals that it has learned from had another reason.
    pub(crate) fn doubt(&mut self) {
        if let Self::Learned(learned) = self {
            learned.doubt();
        }
    }

    /// The key is in use again.
    pub(crate) fn on_restored(&mut self, key: KeyId) {
        if let Self::Learned(learned) = self {
            learned.set_out(key, false);
        }
    }

    /// A request was refused and nothing told explains it. `in_flight` is how many others were in
    /// flight, on all keys, when it was sent.
    pub(crate) fn on_refused(
        &mut self,
        key: KeyId,
        stamp: &Stamp,
        wait: Option<Wait>,
        in_flight: u32,
        scene: &Scene<'_>,
        now: Time,
    ) -> Refused {
        match self {
            Self::Learned(learned) => learned.on_refused(key, stamp, wait, in_flight, scene, now),
            Self::Interval(interval) => interval.on_refused(key, stamp.at, now),
            Self::Off => Refused {
                changed: None,
                same_episode: false,
            },
        }
    }
}

impl Changed {
    pub(crate) fn into_what(self) -> What {
        What::Pace {
            from: self.from,
            to: self.to,
            why: self.why,
        }
    }
}

/// In seconds: bans seen in the wild count refusals over seconds to tens of seconds.
const KNOCK_MEMORY: f64 = 5.0;
/// Blocked for longer than this many periods although the mean is fine: a window.
const WINDOW_BLOCK: f64 = 30.0;
/// Periods of what was let through before a block: a bucket would have had one back after the first,
/// and credit of which nothing is known may be two more.
const PERIODS: f64 = 3.0;
/// With other keys beside, fewer accepted may be their doing: they share an account's tokens.
const POOLED_COUNTS: f64 = 6.0;
