//! What was sent against one limit, and when.
//!
//! A reading may or may not count what was sent around the same moment, because requests of one
//! burst arrive in any order; a refusal tells the rate by what was accepted before it. Both ask this
//! log. Bounded: beyond [`Sends::KEPT`] entries the older ones are merged, which makes the doubt
//! larger, never smaller.

use std::collections::VecDeque;

use super::time::Time;

/// The sends of late, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sends {
    entries: VecDeque<Entry>,
    total: f64,
    /// What was sent before the oldest entry.
    forgotten: f64,
    /// The number of the last of it.
    forgotten_number: u64,
}

/// Some sends, close together.
#[derive(Clone, Copy, Debug)]
struct Entry {
    first: Time,
    last: Time,
    /// All that was sent up to and with this entry.
    total: f64,
    /// The number of its last send.
    number: u64,
}

impl Sends {
    /// Enough for a minute's window at a resolution of 30 ms, in 48 KiB.
    const KEPT: usize = 2048;
    /// The newest are never merged: readings are about them.
    const FRESH: usize = 512;

    pub(crate) fn push(&mut self, cost: f64, now: Time) {
        let number = self
            .entries
            .back()
            .map_or(self.forgotten_number, |last| last.number);
        self.push_numbered(cost, number + 1, now);
    }

    /// The same for a send whose number was given elsewhere; numbers grow.
    pub(crate) fn push_numbered(&mut self, cost: f64, number: u64, now: Time) {
        self.total += cost;
        if self.entries.len() >= Self::KEPT {
            self.merge();
        }
        self.entries.push_back(Entry {
            first: now,
            last: now,
            total: self.total,
            number,
        });
    }

    /// All that was ever sent.
    pub(crate) fn total(&self) -> f64 {
        self.total
    }

    /// What was sent within `[from, to]`; of a merged entry that reaches into it, all.
    pub(crate) fn between(&self, from: Time, to: Time) -> f64 {
        let start = self.place(|entry| entry.last < from);
        let end = self.place(|entry| entry.first <= to);
        if end <= start {
            return 0.0;
        }
        self.entries[end - 1].total - self.total_before(start)
    }

    /// What was sent before `moment`, of all that was ever sent.
    pub(crate) fn before(&self, moment: Time) -> f64 {
        self.total_before(self.place(|entry| entry.first < moment))
    }

    /// What was sent until `moment`, of all that was ever sent.
    pub(crate) fn until(&self, moment: Time) -> f64 {
        self.total_before(self.place(|entry| entry.first <= moment))
    }

    /// What was sent after the send of this number, at the same moment or later.
    pub(crate) fn since(&self, number: u64) -> f64 {
        let start = self.place(|entry| entry.number <= number);
        self.total - self.total_before(start)
    }

    /// What the send of this number took; of a merged entry, all of it.
    pub(crate) fn of(&self, number: u64) -> f64 {
        let index = self.place(|entry| entry.number < number);
        self.entries
            .get(index)
            .map_or(0.0, |entry| entry.total - self.total_before(index))
    }

    /// The number of the last send before `moment`; zero if none is known.
    pub(crate) fn number_before(&self, moment: Time) -> u64 {
        let end = self.place(|entry| entry.first < moment);
        end.checked_sub(1)
            .map_or(self.forgotten_number, |last| self.entries[last].number)
    }

    /// What was sent after `moment`.
    pub(crate) fn after(&self, moment: Time) -> f64 {
        let start = self.place(|entry| entry.first <= moment);
        self.total - self.total_before(start)
    }

    /// Each send after `moment`, and what it took.
    pub(crate) fn after_each(&self, moment: Time) -> impl Iterator<Item = (Time, f64)> + '_ {
        self.each_from(self.place(|entry| entry.first <= moment))
    }

    /// Each of the latest sends that together took `amount`, or all that are known.
    pub(crate) fn latest_each(&self, amount: f64) -> impl Iterator<Item = (Time, f64)> + '_ {
        let goal = self.total - amount;
        self.each_from(self.place(|entry| entry.total <= goal + EPSILON))
    }

    fn each_from(&self, start: usize) -> impl Iterator<Item = (Time, f64)> + '_ {
        let mut before = self.total_before(start);
        self.entries.range(start..).map(move |entry| {
            let cost = entry.total - before;
            before = entry.total;
            (entry.last, cost)
        })
    }

    /// The sends that the last `amount` before `moment` reaches back to: when the first and
    /// the last of them were made. None if that much is not known.
    pub(crate) fn reach_back(&self, amount: f64, moment: Time) -> Option<(Time, Time)> {
        let end = self.place(|entry| entry.first < moment);
        let goal = self.total_before(end) - amount;
        if goal + EPSILON < self.forgotten {
            return None;
        }
        let index = self.place(|entry| entry.total <= goal + EPSILON);
        (index < end).then(|| (self.entries[index].first, self.entries[index].last))
    }

    /// Forgets what was sent until `moment`: it tells nothing any more.
    pub(crate) fn forget_until(&mut self, moment: Time) {
        while let Some(oldest) = self.entries.front().filter(|entry| entry.last <= moment) {
            self.forgotten = oldest.total;
            self.forgotten_number = oldest.number;
            self.entries.pop_front();
        }
    }

    /// The send of this number turned out to take so much more.
    pub(crate) fn amend(&mut self, number: u64, by: f64) {
        let index = self.place(|entry| entry.number < number);
        for entry in self.entries.iter_mut().skip(index) {
            entry.total += by;
        }
        self.total += by;
    }

    /// Takes out a send that the server did not count.
    pub(crate) fn undo(&mut self, cost: f64, at: Time) {
        let index = self.place(|entry| entry.last < at);
        for entry in self.entries.iter_mut().skip(index) {
            entry.total -= cost;
        }
        self.total -= cost;
    }

    /// How many entries come before the place that is asked for. Nearly all questions are about the
    /// latest sends, so the search begins there.
    fn place(&self, is_before: impl Fn(&Entry) -> bool) -> usize {
        let (older, newer) = self.entries.as_slices();
        match newer.first() {
            Some(first) if is_before(first) => older.len() + latest_place(newer, is_before),
            _ => latest_place(older, is_before),
        }
    }

    fn total_before(&self, index: usize) -> f64 {
        index
            .checked_sub(1)
            .map_or(self.forgotten, |before| self.entries[before].total)
    }

    /// Merges neighbours that lie within a quantum, which grows until half of the old are gone.
    fn merge(&mut self) {
        let fresh = self.entries.split_off(self.entries.len() - Self::FRESH);
        let old = std::mem::take(&mut self.entries);
        let span = match (old.front(), old.back()) {
            (Some(first), Some(last)) => last.last.secs_since(first.first),
            _ => 0.0,
        };
        let quantum = 4.0 * span / old.len() as f64;
        for entry in old {
            match self.entries.back_mut() {
                Some(last) if entry.last.secs_since(last.first) <= quantum => {
                    last.last = entry.last;
                    last.total = entry.total;
                    last.number = entry.number;
                }
                _ => self.entries.push_back(entry),
            }
        }
        // Uneven spacing can leave too many: then the oldest are forgotten.
        while self.entries.len() > Self::KEPT / 2 {
            if let Some(oldest) = self.entries.pop_front() {
                self.forgotten = oldest.total;
                self.forgotten_number = oldest.number;
            }
        }
        self.entries.extend(fresh);
    }
}

/// How many entries come before a place, found from the end on.
fn latest_place(entries: &[Entry], is_before: impl Fn(&Entry) -> bool) -> usize {
    let (mut high, mut step) = (entries.len(), 1);
    while high > 0 {
        let probe = high.saturating_sub(step);
        if is_before(&entries[probe]) {
            let within = &entries[probe + 1..high];
            return probe + 1 + within.partition_point(is_before);
        }
        high = probe;
        step *= 2;
    }
    0
}

/// Sums of floats are compared with this much room.
const EPSILON: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn it_tells_what_was_sent_around_a_moment() {
        let mut sends = Sends::default();
        for i in 0..10 {
            sends.push(2.0, at(10 * i));
        }
        assert_eq!(sends.between(at(20), at(40)), 6.0);
        assert_eq!(sends.between(at(41), at(49)), 0.0);
        assert_eq!(sends.after(at(70)), 4.0);
        assert_eq!(sends.reach_back(6.0, at(50)), Some((at(20), at(20))));
        assert_eq!(sends.reach_back(13.0, at(50)), None);
    }

    #[test]
    fn what_was_sent_after_a_send_does_not_change_when_an_earlier_one_is_taken_out() {
        let mut sends = Sends::default();
        for number in 1..=10 {
            sends.push_numbered(1.0, number, at(5));
        }
        assert_eq!(sends.since(7), 3.0);
        sends.amend(2, -1.0);
        assert_eq!(sends.since(7), 3.0);
        assert_eq!(sends.since(1), 8.0);
        assert_eq!(sends.number_before(at(5)), 0);
        assert_eq!(sends.number_before(at(6)), 10);
    }

    #[test]
    fn a_million_sends_stay_bounded_and_their_sums_true() {
        let mut sends = Sends::default();
        for i in 0..1_000_000 {
            sends.push(1.0, Time::from_nanos(i * 60_000));
        }
        assert!(sends.entries.len() <= Sends::KEPT);
        assert_eq!(sends.total(), 1_000_000.0);
        let (from, to) = (at(59_990), at(59_995));
        assert!((sends.between(from, to) - 84.0).abs() <= 1.0);
        // Old sends are merged: never fewer than there were, and not many more.
        let old = sends.between(at(30_000), at(31_000));
        assert!((16_666.0..20_000.0).contains(&old), "{old}");
    }
}
