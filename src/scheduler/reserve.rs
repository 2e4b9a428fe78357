//! Capacity that is kept for a priority and above.
//!
//! Whoever is below may use what is kept only as far as it can be taken back in time: a gate lets
//! it pass if, after it, the whole reserve would be free again within the time that the settings
//! allow. One rule does for all that is limited. A rate or a window is taken back by waiting, a
//! slot when an answer comes, a key when it may send again.

use std::time::Duration;

use smallvec::SmallVec;

use crate::config::{SettingsError, within};

use super::events::{Gate, Priority, Reason};
use super::time::Time;

/// What is kept for a priority and above.
///
/// It is stronger than ageing: while those that it is kept for leave no more than that free, nothing
/// below them goes, however long it has waited.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct Reserve {
    /// For whom: asks of this priority and above. Default 85, [`Priority::HIGH`].
    pub at_or_above: Priority,
    /// The share of every limit, from 0 to 0.9: of the slots, of each hard rate and reported quota,
    /// and of the keys (rounded down) where each sends one at a time. Default 0.2, as Stripe keeps
    /// for its critical traffic.
    pub share: f64,
    /// So many of the keys, the first ones that the server does not refuse, are used by nobody else,
    /// but for asks that are pinned to them; one such key at least stays for all. Default 0; the
    /// Rakuten system has 1 of 5.
    pub keys: u32,
    /// How soon what is lent must be free again, at most an hour. Default 100 ms, about the time
    /// that a person takes for at once; 0 lends nothing that is not free again at once.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
    pub within: Duration,
}

impl Default for Reserve {
    fn default() -> Self {
        Self {
            at_or_above: Priority::HIGH,
            share: 0.2,
            keys: 0,
            within: Duration::from_millis(100),
        }
    }
}

impl Reserve {
    /// One key is kept whole, and nothing else: the Rakuten system's first queue.
    #[must_use]
    pub fn one_key() -> Self {
        Self {
            share: 0.0,
            keys: 1,
            ..Self::default()
        }
    }

    /// Whether it is kept from asks of this priority.
    pub(crate) fn is_kept_from(&self, priority: Priority) -> bool {
        priority < self.at_or_above
    }

    /// How many of so many keys are kept whole.
    pub(crate) fn whole_keys(&self, keys: usize) -> usize {
        (self.keys as usize).min(keys.saturating_sub(1))
    }

    /// How much of a whole is kept.
    pub(crate) fn of(&self, whole: f64) -> f64 {
        (self.share * whole).floor()
    }

    /// A gate of something that is all free again at `free`.
    pub(crate) fn gate(&self, free: Time, now: Time) -> Gate {
        if free == Time::NEVER {
            return SHUT;
        }
        let lendable = free.since(Time::START).saturating_sub(self.within);
        Gate::at(Time::START + lendable, Reason::Reserved, now)
    }

    /// A gate of slots: `in_flight` of `limit` are taken, and a request usually takes `usual`.
    pub(crate) fn slots(&self, limit: u32, in_flight: u32, usual: Option<Duration>) -> Gate {
        // Of so many in flight one ends every `usual / in_flight`.
        let back = usual.map_or(0.0, |usual| {
            self.within.as_secs_f64() * f64::from(in_flight) / usual.as_secs_f64().max(1e-9)
        });
        let kept = (self.of(f64::from(limit)) - back.floor()).max(0.0);
        if f64::from(in_flight) + 1.0 + kept > f64::from(limit) {
            SHUT
        } else {
            Gate::Open
        }
    }

    /// A gate of keys that open at these moments, of which one is to be taken.
    pub(crate) fn keys(&self, mut opens: SmallVec<[Time; 8]>, now: Time) -> Gate {
        let kept = self.of(opens.len() as f64) as usize;
        if kept == 0 {
            return Gate::Open;
        }
        opens.sort_unstable();
        // The one that is taken is the first, and so many must be there beside it.
        self.gate(opens[kept], now)
    }

    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        within("reserve.share", self.share, 0.0, 0.9)?;
        within("reserve.within", self.within.as_secs_f64(), 0.0, 3600.0)
    }
}

/// Until something else happens.
const SHUT: Gate = Gate::Shut {
    until: Time::NEVER,
    reason: Reason::Reserved,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn keeping(share: f64, within: f64) -> Reserve {
        Reserve {
            share,
            within: Duration::from_secs_f64(within),
            ..Reserve::default()
        }
    }

    #[test]
    fn slots_are_lent_as_far_as_answers_bring_them_back() {
        let usual = Some(Duration::from_secs(1));
        let none = keeping(0.2, 0.0);
        assert_eq!(none.slots(10, 7, usual), Gate::Open);
        assert_eq!(none.slots(10, 8, usual), SHUT);
        // Eight in flight end at eight a second: one is back within 125 ms, two within 250.
        let one = keeping(0.2, 0.13);
        assert_eq!(one.slots(10, 8, usual), Gate::Open);
        assert_eq!(one.slots(10, 9, usual), SHUT);
        let all = keeping(0.2, 0.3);
        assert_eq!(all.slots(10, 9, usual), Gate::Open);
        assert_eq!(all.slots(10, 8, None), SHUT, "while nothing is known");
    }

    #[test]
    fn a_window_is_lent_when_it_ends_soon_enough() {
        let reserve = keeping(0.2, 2.0);
        let shut = Gate::Shut {
            until: at(8.0),
            reason: Reason::Reserved,
        };
        assert_eq!(reserve.gate(at(10.0), at(1.0)), shut);
        assert_eq!(reserve.gate(at(10.0), at(8.0)), Gate::Open);
        assert_eq!(reserve.gate(Time::NEVER, at(8.0)), SHUT);
    }

    #[test]
    fn of_five_keys_one_stays_and_of_one_none() {
        let reserve = keeping(0.2, 0.1);
        let opens = |times: &[f64]| times.iter().map(|&time| at(time)).collect();
        let next = reserve.keys(opens(&[1.0, 2.0, 2.0, 2.0, 2.0]), at(1.0));
        assert!(matches!(next, Gate::Shut { .. }));
        assert_eq!(
            reserve.keys(opens(&[1.0, 1.0, 9.0, 9.0, 9.0]), at(1.0)),
            Gate::Open
        );
        assert_eq!(reserve.keys(opens(&[1.0]), at(1.0)), Gate::Open);
        assert_eq!(reserve.whole_keys(1), 0, "one key serves all");
    }
}
