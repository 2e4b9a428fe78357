//! The rule that tells a refused place from a refused key.
//!
//! A path that is refused for ever says nothing about the rate of its key, but each of its refusals
//! looks as if it did. What tells them apart is what else the key serves meanwhile: under a limit of
//! the key whoever comes next is as likely to be refused, so a place that is refused again and again
//! while others pass in between has a limit of its own.

use super::time::Time;

/// A place that was refused on a key, and what the key has served since.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Suspect<K> {
    key: K,
    /// Refusals in a row, each but the first after others were served.
    row: u32,
    last: Time,
    /// Served elsewhere on the key of what was sent after the last of them.
    others: u32,
}

impl<K: PartialEq + Copy> Suspect<K> {
    /// It was refused for the first time.
    pub(crate) fn new(key: K, now: Time) -> Self {
        Self {
            key,
            row: 1,
            last: now,
            others: 0,
        }
    }

    /// Something else that was sent at `sent` was served on this key.
    pub(crate) fn on_other_served(&mut self, key: K, sent: Time) {
        if key == self.key && sent > self.last {
            self.others = self.others.saturating_add(1);
        }
    }

    /// It was refused again, and was never served in between. Whether it is the place itself.
    pub(crate) fn on_refused(&mut self, key: K, sent: Time, now: Time) -> bool {
        if sent <= self.last {
            // Of the same episode.
            return false;
        }
        if key != self.key || self.others < OTHERS {
            // The key may have been the reason: this one counts, those before do not.
            *self = Self::new(key, now);
            return false;
        }
        self.row += 1;
        self.last = now;
        self.others = 0;
        self.row >= ROW
    }
}

/// Refusals in a row that make it certain. Where a key refuses a twentieth of everything, a place
/// that is no different is taken for one once in 400 first refusals of it, and loses nothing by it
/// but the common rate; two in a row would be once in twenty.
const ROW: u32 = 3;
/// Served elsewhere between two of them: one that passes may be luck, at a limit that is nearly met.
const OTHERS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    /// Refused once a second, and so many others served between two refusals.
    fn refused(times: u64, others: u32, key: impl Fn(u64) -> u8) -> bool {
        let mut suspect = Suspect::new(key(0), at(0));
        let mut certain = false;
        for n in 1..times {
            for _ in 0..others {
                suspect.on_other_served(key(n - 1), at(n - 1).plus_secs(0.5));
            }
            certain |= suspect.on_refused(key(n), at(n).plus_secs(-0.1), at(n));
        }
        certain
    }

    #[test]
    fn a_place_that_is_refused_while_others_are_served_is_found() {
        assert!(refused(3, 3, |_| 0));
        assert!(!refused(2, 3, |_| 0), "one refusal more is needed");
    }

    #[test]
    fn under_a_limit_of_the_key_no_place_is_suspected() {
        assert!(!refused(50, 2, |_| 0), "the others are not served either");
        assert!(
            !refused(50, 9, |n| (n % 2) as u8),
            "each key refuses it once"
        );
    }

    #[test]
    fn the_refusals_of_one_burst_are_one() {
        let mut suspect = Suspect::new(0, at(1));
        for _ in 0..9 {
            suspect.on_other_served(0, at(0));
            assert!(!suspect.on_refused(0, at(0), at(2)));
        }
    }
}
