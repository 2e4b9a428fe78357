//! How long the owner of a slot may be silent before the slot is lent.

use std::time::Duration;

use crate::Time;

/// How often an owner who is silent was looked at, since when.
#[derive(Debug, Default)]
pub(super) struct Silence {
    since: Time,
    looks: u32,
    looked: Time,
    /// How often its grant or its slot was given away, and it came back for another.
    returns: u32,
}

impl Silence {
    /// How long one may be silent who listens. `usual` is how long an answer takes.
    pub(super) fn patience(&self, usual: Option<Duration>) -> Duration {
        let patience = usual.map_or(LATEST, |usual| (usual / 2).clamp(SOONEST, LATEST));
        // On a runtime that takes longer for a poll nobody would ever take a grant up.
        let longer = patience.saturating_mul(1 << self.returns.min(8));
        longer.min(LATEST)
    }

    /// Whether one who is silent since then was looked at so often that a runtime, however busy,
    /// must have come round to whoever listens: each look is a turn of a task of its own.
    pub(super) fn is_certain(&mut self, since: Time, now: Time) -> bool {
        if self.since != since {
            (self.since, self.looks) = (since, 0);
        } else if now < self.looked + ROUND {
            return false;
        }
        self.looked = now;
        self.looks += 1;
        self.looks >= LOOKS
    }

    /// When to look again.
    pub(super) fn next_look(&self) -> Time {
        self.looked + ROUND
    }

    /// It was lent from, and its owner is back.
    pub(super) fn on_return(&mut self) {
        self.returns += 1;
    }
}

/// An owner that was woken may be silent for half the time of an answer before its slot is lent, so
/// that whoever waits for it loses no more than that; but for at least so long: well above what a
/// runtime takes to poll a woken task.
pub(super) const SOONEST: Duration = Duration::from_millis(5);
/// And for so long at most, and where nothing is known: well below what a person calls a stall.
pub(super) const LATEST: Duration = Duration::from_millis(100);
/// How long a held body may not be read before its slot is lent: a reader works on what it has
/// read, and takes longer for that than a runtime for a poll.
pub(super) const UNREAD: Duration = Duration::from_secs(1);
/// How often a silent owner is looked at before its slot is lent: once for the runtime that polls
/// in turn, and twice more for one with several threads, whose queues are not of one length.
const LOOKS: u32 = 3;
/// The time between two of them: less than this a timer does not tell apart.
const ROUND: Duration = Duration::from_millis(1);
