//! What other processes learned of a rate that nobody tells.
//!
//! It is adopted where nothing is known here, and followed downwards where it is newer than the
//! last refusal seen here. It is never followed upwards: what is known here is found to be too low
//! by trying, and whoever heard of a higher rate tries soon enough.

use crate::scheduler::events::{Because, KeyId};
use crate::scheduler::time::Time;

use super::bracket::Bracket;
use super::learned::Learned;
use super::{Changed, Pace};

/// A learned rate in sends per second, and the bounds between which it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rate {
    /// The rate.
    pub pace: f64,
    /// It is at least this.
    pub low: f64,
    /// It is below this; infinite if nothing bounds it.
    pub high: f64,
}

impl Rate {
    /// A rate that somebody else may have learned; none if that cannot be.
    #[must_use]
    pub fn new(pace: f64, low: f64, high: f64) -> Option<Self> {
        let can_be = pace.is_finite() && pace > 0.0 && (0.0..=pace).contains(&low) && high >= pace;
        can_be.then_some(Self { pace, low, high })
    }

    /// The same of several processes together, or of one of them.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            pace: self.pace * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }
}

impl Pace {
    /// What others can use of what was learned of a key.
    pub(crate) fn told(&self, key: KeyId) -> Option<Rate> {
        let Self::Learned(learned) = self else {
            return None;
        };
        let track = learned.keys.get(key.index())?;
        let bracket = &learned.brackets[track.bracket];
        let is_plain = bracket.window.is_none() && !bracket.windowed;
        is_plain.then(|| Rate::new(bracket.pace, bracket.low.min(bracket.pace), bracket.high))?
    }

    /// Somebody else learned this of a key, at `observed`.
    pub(crate) fn hear(&mut self, key: KeyId, rate: Rate, observed: Time) -> Option<Changed> {
        match self {
            Self::Learned(learned) => learned.hear(key, rate, observed),
            Self::Interval(_) | Self::Off => None,
        }
    }
}

impl Learned {
    fn hear(&mut self, key: KeyId, rate: Rate, observed: Time) -> Option<Changed> {
        let track = self.track(key);
        let (index, cut) = (track.bracket, track.cut);
        let bracket = &mut self.brackets[index];
        if bracket.windowed || bracket.window.is_some() {
            return None;
        }
        let from = bracket.pace;
        if !bracket.is_known() {
            *bracket = Bracket::default();
            bracket.pace = rate.pace;
            bracket.low = rate.low;
            bracket.high = rate.high;
        } else if rate.pace < FOLLOWED * from && cut.is_none_or(|cut| cut < observed) {
            bracket.pace = rate.pace;
            bracket.low = bracket.low.min(rate.pace);
            bracket.before_probe = None;
            bracket.restart();
        } else {
            return None;
        }
        Some(Changed {
            from,
            to: rate.pace,
            why: Because::Shared,
        })
    }
}

/// What differs by less is the same rate, found in other steps.
const FOLLOWED: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::super::PaceSettings;
    use super::*;
    use crate::scheduler::timing::Timing;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn rate(pace: f64) -> Rate {
        Rate::new(pace, 0.5 * pace, 1.1 * pace).unwrap()
    }

    #[test]
    fn who_knows_nothing_begins_with_what_others_learned() {
        let (mut pace, key) = (Pace::new(PaceSettings::Learned, 1), KeyId(0));
        assert_eq!(pace.told(key), None);
        assert!(pace.hear(key, rate(50.0), at(1.0)).is_some());
        assert_eq!(pace.told(key), Some(rate(50.0)));
        let timing = Timing::default();
        pace.on_sent(key, &timing, at(2.0));
        pace.on_sent(key, &timing, at(2.0));
        let next = pace.gate(key, &timing, at(2.0));
        assert_ne!(next, crate::scheduler::events::Gate::Open);
    }

    #[test]
    fn a_lower_rate_is_followed_and_a_higher_one_is_not() {
        let (mut pace, key) = (Pace::new(PaceSettings::Learned, 1), KeyId(0));
        pace.hear(key, rate(50.0), at(1.0));
        assert!(pace.hear(key, rate(80.0), at(2.0)).is_none());
        assert!(
            pace.hear(key, rate(48.0), at(2.0)).is_none(),
            "much the same"
        );
        assert!(pace.hear(key, rate(20.0), at(3.0)).is_some());
        assert_eq!(pace.rate(key), Some(20.0));
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        for (pace, low, high) in [
            (0.0, 0.0, 1.0),
            (-1.0, 0.0, 1.0),
            (f64::NAN, 0.0, 1.0),
            (f64::INFINITY, 0.0, f64::INFINITY),
            (1.0, 2.0, 3.0),
            (5.0, 1.0, 2.0),
        ] {
            assert_eq!(Rate::new(pace, low, high), None);
        }
    }
}
