//! Those who are out of the queue until a moment: for a delayed start, or after an attempt.

use std::time::Duration;

use super::super::events::{KeyId, Ticket};
use super::super::time::Time;
use super::SlotQueue;

impl SlotQueue {
    /// Wakes those whose moment has come.
    pub(crate) fn wake(&mut self, now: Time) {
        while let Some(&(until, slot)) = self.asleep.first() {
            if until > now {
                break;
            }
            self.asleep.pop_first();
            self.excuse(slot, now.since(until));
            self.enter_lane(slot);
        }
    }

    /// What passed because the machine was busy is no wait that anybody asked for.
    fn excuse(&mut self, slot: u32, late: Duration) {
        let entry = &mut self.entries[slot as usize];
        let before = entry.deadline;
        entry.excuse(late);
        let (deadline, lane) = (entry.deadline, entry.lane);
        if deadline != before {
            let deadlines = &mut self.lanes[lane as usize].deadlines;
            deadlines.remove(&(before, slot));
            deadlines.insert((deadline, slot));
            self.reckon_hopeless(lane);
        }
    }

    /// There is another key: wakes those who sleep only until one that refused them is free again.
    /// `rests` says until when a key rests.
    pub(crate) fn wake_barred(&mut self, rests: impl Fn(KeyId) -> Time) {
        let is_freed = |&(until, slot): &(Time, u32)| {
            let mut barred = self.entries[slot as usize].barred.iter();
            barred.any(|&(key, barred)| until == barred.max(rests(key)))
        };
        let freed: Vec<_> = self.asleep.iter().copied().filter(is_freed).collect();
        for sleeper in freed {
            self.asleep.remove(&sleeper);
            self.enter_lane(sleeper.1);
        }
    }

    /// The next moment at which [`SlotQueue::wake`] does something.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.asleep.first().map(|&(until, _)| until)
    }

    /// How many are out of the queue until a moment.
    pub(crate) fn asleep(&self) -> usize {
        self.asleep.len()
    }

    /// The first who is out of the queue until a moment, and that moment.
    pub(crate) fn next_asleep(&self) -> Option<(Ticket, Time)> {
        let &(until, slot) = self.asleep.first()?;
        Some((self.ticket(slot), until))
    }
}
