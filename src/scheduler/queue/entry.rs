//! One accepted ask: what it brought, where it is in its life, and which keys it must not see.

use std::time::Duration;

use super::super::events::{Cost, KeyId, Name, Priority, Replay};
use super::super::retry::Tried;
use super::super::time::Time;
use super::LaneId;
use super::order::Age;

/// Where a ticket is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Alone: nobody else waits, so it is in no tree yet.
    Express,
    /// In its lane.
    Waiting,
    /// Out of the queue until a moment, then back in its old place.
    Asleep(Time),
    /// In nobody's way until its owner listens again.
    Aside,
    /// Granted or in flight: the index of its attempt.
    Attempt(u32),
}

/// One accepted ask.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The number of the ask: first come first served among equals.
    pub(super) seq: u64,
    pub(super) submitted: i64,
    pub(crate) place: Place,
    pub(crate) cost: Cost,
    /// When waiting any longer is pointless: its deadline or `max_wait`, whichever is sooner.
    pub(crate) deadline: Time,
    /// The keys that refused it, and until when each must not see it again. A slice: few have any,
    /// and all pay for the place.
    pub(super) barred: Box<[(KeyId, Time)]>,
    pub(crate) lane: u32,
    pub(crate) bucket: u32,
    pub(super) flow: u32,
    pub(super) group: u32,
    pub(crate) refusals: u16,
    /// Of these, so many while its key was used up.
    pub(crate) used_up: u16,
    pub(crate) errors: u16,
    /// Attempts that ended with a key's own fault.
    pub(crate) key_faults: u16,
    pub(crate) priority: Priority,
    pub(crate) replay: Replay,
    /// Its group was cancelled: it is not repeated.
    pub(crate) cancelled: bool,
    /// Nobody but `max_wait` bounds it, which is about waits: time in flight does not count.
    pub(super) patient: bool,
}

impl Entry {
    /// What has been tried for it.
    pub(crate) fn tried(&self) -> Tried {
        Tried {
            replay: self.replay,
            refusals: self.refusals,
            used_up: self.used_up,
            errors: self.errors,
            key_faults: self.key_faults,
        }
    }

    /// Whether an attempt of it has ended.
    pub(crate) fn was_tried(&self) -> bool {
        self.refusals > 0 || self.errors > 0 || self.key_faults > 0
    }

    pub(super) fn age(&self, slot: u32) -> Age {
        Age {
            submitted: self.submitted,
            seq: self.seq,
            slot,
        }
    }

    /// When it was submitted.
    pub(crate) fn submitted(&self) -> Time {
        Time::from_nanos(u64::try_from(self.submitted).unwrap_or(0))
    }

    /// Time that was no wait for its turn, or that we ourselves added to the wait that the server
    /// asked for: none of it is held against `max_wait`.
    pub(crate) fn excuse(&mut self, time: Duration) {
        if self.patient {
            self.deadline = self.deadline + time;
        }
    }

    /// Keeps the ask from a key until a moment, and goes on keeping it from the others.
    pub(crate) fn bar(&mut self, key: KeyId, until: Time, now: Time) {
        let barred = self.barred.iter().copied();
        let others = barred.filter(|&(other, until)| other != key && until > now);
        self.barred = others.chain([(key, until)]).collect();
    }

    /// Until when the ask must not see this key.
    pub(crate) fn barred_until(&self, key: KeyId) -> Time {
        let found = self.barred.iter().find(|&&(barred, _)| barred == key);
        found.map_or(Time::START, |&(_, until)| until)
    }
}

/// What a newcomer brings.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) lane: LaneId,
    pub(crate) priority: Priority,
    pub(crate) tenant: Option<Name>,
    pub(crate) cost: Cost,
    pub(crate) deadline: Time,
    pub(crate) patient: bool,
    pub(crate) not_before: Time,
    pub(crate) group: Option<Name>,
    pub(crate) replay: Replay,
}
