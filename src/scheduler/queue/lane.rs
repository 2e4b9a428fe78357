//! The asks of one lane: class by class, tenant by tenant, first come first served; and whether it is
//! known to be shut.

use std::collections::{BTreeSet, HashMap};

use smallvec::SmallVec;

use super::super::events::KeyId;
use super::super::gates::Shut;
use super::super::time::Time;
use super::order::Age;

/// What shares its gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaneId {
    pub(crate) bucket: u32,
    pub(crate) pin: Option<KeyId>,
    /// For whom capacity is kept: their heads must not stand behind those that it is kept from.
    pub(crate) above: bool,
}

impl LaneId {
    /// The default bucket on any key.
    pub(crate) const DEFAULT: Self = Self {
        bucket: 0,
        pin: None,
        above: false,
    };
}

/// The asks of one lane.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) id: LaneId,
    /// Those that have asks waiting; a handful, so searched one by one.
    classes: SmallVec<[Class; 2]>,
    pub(super) deadlines: BTreeSet<(Time, u32)>,
    /// Entries that name this lane, wherever they are.
    pub(super) members: u32,
    /// Why nothing of it can go before a moment, unless something happens.
    pub(super) shut: Option<Closed>,
    /// Its head has changed since its gates were asked.
    pub(super) is_fresh: bool,
    /// Where it stands among the open lanes.
    pub(super) listed: SmallVec<[Standing; 2]>,
    /// Where it stands among those with deadlines.
    pub(super) hopeless: Time,
    /// Tenants in whose lists it was met while it was shut, and is not any more.
    pub(super) unlinked: SmallVec<[u32; 2]>,
}

/// How a lane is known to be shut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    pub(super) why: Shut,
    /// Only its own bucket, in this ledger, can open it sooner for the head that was asked; else
    /// anything that happens may.
    pub(super) by_bucket: Option<u32>,
    /// Only hard rates keep it shut, of which its head takes so much: it waits in line for them.
    pub(super) in_line: Option<u32>,
    /// When its gates were asked.
    pub(super) at: Time,
    /// How many were granted before.
    pub(super) grants: u64,
    /// When it was its head's turn.
    pub(super) due: Due,
    /// How many lanes were found shut before.
    pub(super) seq: u64,
}

/// Where an open lane stands among those of one class that waits in it. Moments are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) priority: u8,
    /// When its oldest ask was submitted.
    pub(super) oldest: i64,
    /// Since when it has waited for a turn of its own in the lane, if it missed its class's.
    pub(super) owed_since: Option<i64>,
}

/// When it is the turn of a class: the earliest goes first, and of equals the lower has waited longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    at: i64,
    pub(super) priority: u8,
}

/// The waiting asks of one priority.
#[derive(Debug)]
struct Class {
    priority: u8,
    /// The oldest ask of each tenant, by age.
    oldest: BTreeSet<Age>,
    /// Each tenant's own, by age.
    asks: HashMap<u32, BTreeSet<Age>>,
    /// When it was first granted in another lane while this one was shut, since one of it was granted
    /// in this, in nanoseconds: from then on it waits for a turn of its own here.
    missed: Option<i64>,
}

/// The oldest ask of a tenant in a lane has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Oldest {
    pub(super) before: Option<Age>,
    pub(super) now: Option<Age>,
}

impl Lane {
    pub(super) fn new(id: LaneId) -> Self {
        Self {
            id,
            classes: SmallVec::new(),
            deadlines: BTreeSet::new(),
            members: 0,
            shut: None,
            is_fresh: false,
            listed: SmallVec::new(),
            hopeless: Time::NEVER,
            unlinked: SmallVec::new(),
        }
    }

    /// Where it stands while it is open.
    pub(super) fn standings(&self) -> SmallVec<[Standing; 2]> {
        let classes = self.classes.iter().filter_map(|class| {
            Some(Standing {
                priority: class.priority,
                oldest: class.submitted()?,
                owed_since: class.owed_since(),
            })
        });
        classes.collect()
    }

    /// When the oldest ask of a class was submitted.
    pub(super) fn oldest(&self, priority: u8) -> Option<i64> {
        self.class(priority)?.submitted()
    }

    /// When a class below the one whose turn it is is owed a turn here, if that is before.
    pub(super) fn owed(&self, turn: Due) -> Option<Due> {
        let below = (self.classes.iter()).filter(|class| class.priority < turn.priority);
        let owed = below.filter_map(|class| Some(Due::since(class.owed_since()?, class.priority)));
        owed.min().filter(|&owed| owed < turn)
    }

    /// A class was granted in another lane, at this moment in nanoseconds, while this one was shut.
    pub(super) fn on_missed(&mut self, priority: u8, at: i64) {
        if let Some(class) = self.class_mut(priority) {
            class.missed.get_or_insert(at);
        }
    }

    /// The tenants that wait in a class, each with its oldest ask.
    pub(super) fn tenants(&self, priority: u8) -> impl Iterator<Item = (u32, Age)> + '_ {
        let class = self.class(priority).into_iter();
        class.flat_map(|class| {
            let asks = class.asks.iter();
            asks.filter_map(|(&flow, asks)| Some((flow, *asks.first()?)))
        })
    }

    /// The moment before which it surely stays shut.
    pub(super) fn known_until(&self) -> Time {
        self.shut.map_or(Time::START, |shut| shut.why.known_until())
    }

    /// How many of a tenant's asks wait in a class.
    pub(super) fn waiting_of(&self, priority: u8, flow: u32) -> usize {
        let class = self.class(priority);
        class
            .and_then(|class| class.asks.get(&flow))
            .map_or(0, BTreeSet::len)
    }

    /// The oldest ask of a tenant.
    pub(super) fn oldest_of(&self, priority: u8, flow: u32) -> Option<Age> {
        self.class(priority)?.asks.get(&flow)?.first().copied()
    }

    fn class(&self, priority: u8) -> Option<&Class> {
        let mut classes = self.classes.iter();
        classes.find(|class| class.priority == priority)
    }

    fn class_mut(&mut self, priority: u8) -> Option<&mut Class> {
        let mut classes = self.classes.iter_mut();
        classes.find(|class| class.priority == priority)
    }

    pub(super) fn enter(&mut self, priority: u8, flow: u32, age: Age) -> Option<Oldest> {
        let index = match self
            .classes
            .iter()
            .position(|class| class.priority == priority)
        {
            Some(index) => index,
            None => {
                self.classes.push(Class {
                    priority,
                    oldest: BTreeSet::new(),
                    asks: HashMap::new(),
                    missed: None,
                });
                self.classes.len() - 1
            }
        };
        let class = &mut self.classes[index];
        let asks = class.asks.entry(flow).or_default();
        let before = asks.first().copied();
        asks.insert(age);
        if before.is_some_and(|before| before < age) {
            return None;
        }
        if let Some(before) = before {
            class.oldest.remove(&before);
        }
        class.oldest.insert(age);
        let now = Some(age);
        Some(Oldest { before, now })
    }

    pub(super) fn leave(&mut self, priority: u8, flow: u32, age: Age) -> Option<Oldest> {
        let index = self
            .classes
            .iter()
            .position(|class| class.priority == priority)?;
        let class = &mut self.classes[index];
        let asks = class.asks.get_mut(&flow)?;
        let was_oldest = asks.first() == Some(&age);
        asks.remove(&age);
        if !was_oldest {
            return None;
        }
        let now = asks.first().copied();
        class.oldest.remove(&age);
        match now {
            Some(next) => {
                class.oldest.insert(next);
            }
            None => {
                class.asks.remove(&flow);
            }
        }
        if class.oldest.is_empty() {
            self.classes.swap_remove(index);
        }
        let before = Some(age);
        Some(Oldest { before, now })
    }

    /// One of a class was granted.
    pub(super) fn on_granted(&mut self, priority: u8) {
        if let Some(class) = self.class_mut(priority) {
            class.missed = None;
        }
    }
}

impl Class {
    fn submitted(&self) -> Option<i64> {
        self.oldest.first().map(|oldest| oldest.submitted)
    }

    fn owed_since(&self) -> Option<i64> {
        Some(self.submitted()?.max(self.missed?))
    }
}

impl Due {
    /// The turn of a class that waits for one since a moment. A class ages from its last grant on and
    /// not from its oldest ask: a queue below that is longer than can be served would else stop
    /// everybody above.
    pub(super) fn since(since: i64, priority: u8) -> Self {
        Self {
            at: since.saturating_sub(i64::from(priority) * POINT),
            priority,
        }
    }
}

/// One point of priority is worth this head start, in nanoseconds: 10 points per 10 s waited.
const POINT: i64 = 1_000_000_000;
