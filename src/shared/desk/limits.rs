//! What one process knows of each limit that it shares: what it used, what it borrowed, and what
//! it may do alone.

use std::time::Duration;

use smallvec::SmallVec;

use crate::Time;
use crate::scheduler::events::Cost;

use super::super::counts::Count;
use super::super::pace::Pace;
use super::super::sharing::{Shared, WhenAway};
use super::super::store::{Law, Limit, OpId, Owner};
use super::demand::Demand;

/// One shared limit, as this process sees it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) shared: Shared,
    /// The share of this process alone, as a limit.
    alone: Limit,
    /// What this process used of the rate, with the store or without.
    used: Count,
    /// How many slots it holds.
    pub(super) held: u32,
    pub(super) pace: Pace,
    /// When somebody last wanted of it what it lends.
    pub(super) used_at: Time,
    /// The end of the last lease.
    pub(super) lent_until: Time,
    pub(super) demand: Demand,
    pub(super) claim: ClaimState,
}

/// When a share is claimed next, and for how much.
#[derive(Debug)]
pub(super) struct ClaimState {
    pub(super) is_flying: bool,
    pub(super) due: Time,
    pub(super) since: Time,
    pub(super) want: u64,
    /// Since when it has had a share.
    pub(super) had_since: Time,
    /// There are too few shares for all who borrow.
    pub(super) is_crowded: bool,
    /// Until then others have a turn.
    pub(super) rests_until: Time,
}

impl Known {
    pub(super) fn new(shared: Shared, owners: u32) -> Self {
        let mut known = Self {
            alone: shared.limit.clone(),
            used: Count::new(&shared.limit),
            held: 0,
            pace: Pace::new(shared.limit.window),
            used_at: Time::START,
            lent_until: Time::START,
            demand: Demand::new(),
            claim: ClaimState {
                is_flying: false,
                due: Time::START,
                since: Time::START,
                want: 0,
                had_since: Time::START,
                is_crowded: false,
                rests_until: Time::START,
            },
            shared,
        };
        known.share_with(owners);
        known.used = Count::new(&known.alone);
        known
    }

    pub(super) fn is_rate(&self) -> bool {
        self.shared.dimension.is_some()
    }

    /// What an ask takes of it.
    pub(super) fn cost(&self, cost: &Cost) -> u64 {
        match self.shared.dimension {
            // Costs are whole numbers.
            Some(dimension) => cost.of(dimension) as u64,
            None => 1,
        }
    }

    /// So many share the limit.
    pub(super) fn share_with(&mut self, owners: u32) {
        let (amount, owners) = (self.shared.limit.amount, u64::from(owners.max(1)));
        self.alone.law = Law::SlidingLog;
        // Where there are more owners than the limit, each has one in several windows.
        let windows = owners.div_ceil(amount).max(1);
        self.alone.amount = (amount * windows / owners).max(1);
        self.alone.window = self.shared.limit.window.saturating_mul(windows as u32);
    }

    /// Something was sent, or surely will be.
    pub(super) fn use_up(&mut self, cost: u64, now: Time) {
        if !self.is_rate() {
            return;
        }
        self.used.advance(&self.alone, micros(now));
        // What was used with the store may be more than the share of one.
        let mut all = self.alone.clone();
        all.amount = u64::MAX;
        self.used.charge(&all, cost, NO_SLOT, micros(now));
    }

    /// It was not sent after all.
    pub(super) fn unuse(&mut self, cost: u64, at: Time, now: Time) {
        if !self.is_rate() {
            return;
        }
        self.used.advance(&self.alone, micros(now));
        let mut all = self.alone.clone();
        all.amount = u64::MAX;
        self.used.refund(&all, cost, NO_SLOT, micros(at));
    }

    /// Whether the share that was lent last is what this process alone goes by. The shares of all
    /// are no more than the whole; but whoever had none then takes an equal part, so after a window
    /// all do.
    pub(super) fn keeps_share(&self, now: Time) -> bool {
        self.shared.is_lent && self.pace.last_share() > 0 && now < self.kept_until()
    }

    fn kept_until(&self) -> Time {
        self.lent_until + self.shared.limit.window
    }

    /// When this process alone may send something of this cost.
    pub(super) fn alone(&mut self, cost: u64, now: Time) -> Time {
        match self.shared.when_away {
            WhenAway::Open => now,
            WhenAway::Closed => Time::NEVER,
            WhenAway::Local if !self.is_rate() => {
                if u64::from(self.held) < self.alone.amount {
                    now
                } else {
                    now + SLOT_WAIT
                }
            }
            WhenAway::Local if self.keeps_share(now) => {
                let share = self.pace.last_share();
                self.pace.set(share, self.kept_until(), now);
                self.pace.ready(now).unwrap_or(Time::NEVER)
            }
            WhenAway::Local => {
                self.used.advance(&self.alone, micros(now));
                let wait = self.used.wait(&self.alone, cost, micros(now));
                now + Duration::from_micros(wait)
            }
        }
    }
}

/// What an ask costs at each of some limits.
pub(super) type Costs = SmallVec<[u64; 4]>;

fn micros(time: Time) -> u64 {
    time.as_nanos() / 1_000
}

/// A rate has no slots.
const NO_SLOT: (OpId, u32) = (
    OpId {
        owner: Owner::new(0),
        number: 0,
    },
    0,
);
/// How often a slot is looked for that somebody else may have freed: nobody tells. A human does not
/// notice it, and it is no load even for hundreds.
pub(super) const SLOT_WAIT: Duration = Duration::from_millis(25);
