//! The asks of one lane: class by class, tenant by tenant, first come first served.

use std::collections::{BTreeSet, HashMap};

use smallvec::SmallVec;

use super::super::events::{KeyId, Reason};
use super::super::time::Time;
use super::order::{Age, Turn};

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
    /// Nothing of this lane can go before this moment, unless something happens.
    pub(crate) shut_until: Time,
    /// The state of the scheduler that `shut_until` speaks of.
    pub(crate) shut_at: u64,
    /// Why it is shut.
    pub(crate) shut_reason: Option<Reason>,
    /// The moment before which a park or a spent quota surely keeps this lane shut.
    pub(crate) known_until: Time,
}

/// The waiting asks of one priority.
#[derive(Debug)]
struct Class {
    priority: u8,
    /// The oldest ask of each tenant, by age.
    oldest: BTreeSet<Age>,
    /// The tenants in their order.
    turns: BTreeSet<Turn>,
    /// Each tenant's own, by age.
    asks: HashMap<u32, BTreeSet<Age>>,
    /// When one of it was granted last, in nanoseconds.
    served: i64,
}

/// The ask of a lane that goes next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) priority: u8,
    /// Since when its class waits for a turn, less the head start of its priority.
    pub(super) due: i64,
    pub(super) turn: Turn,
    /// Its own age, and its slot.
    pub(super) age: Age,
}

impl Lane {
    pub(super) fn new(id: LaneId) -> Self {
        Self {
            id,
            classes: SmallVec::new(),
            deadlines: BTreeSet::new(),
            members: 0,
            shut_until: Time::START,
            shut_at: 0,
            shut_reason: None,
            known_until: Time::START,
        }
    }

    /// The class that has waited longest for a turn, its head start included; of that class the
    /// tenant whose turn it is; of that tenant the oldest ask.
    pub(super) fn head(&self) -> Option<Head> {
        let class = self.classes.iter().min_by_key(|class| class.due())?;
        let &turn = class.turns.first()?;
        let &age = class.asks.get(&turn.flow)?.first()?;
        Some(Head {
            priority: class.priority,
            due: class.due(),
            turn,
            age,
        })
    }

    /// How many of a tenant's asks wait in a class.
    pub(super) fn waiting_of(&self, priority: u8, flow: u32) -> usize {
        let mut classes = self.classes.iter();
        let class = classes.find(|class| class.priority == priority);
        class
            .and_then(|class| class.asks.get(&flow))
            .map_or(0, BTreeSet::len)
    }

    pub(super) fn enter(&mut self, priority: u8, turn: Turn, age: Age) {
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
                    turns: BTreeSet::new(),
                    asks: HashMap::new(),
                    served: i64::MIN,
                });
                self.classes.len() - 1
            }
        };
        let class = &mut self.classes[index];
        class.turns.insert(turn);
        let asks = class.asks.entry(turn.flow).or_default();
        let oldest = asks.first().copied();
        asks.insert(age);
        if oldest.is_none_or(|oldest| age < oldest) {
            if let Some(oldest) = oldest {
                class.oldest.remove(&oldest);
            }
            class.oldest.insert(age);
        }
        // A new head has gates of its own: a pause that was computed for another says nothing.
        self.shut_until = Time::START;
    }

    pub(super) fn leave(&mut self, priority: u8, turn: Turn, age: Age) {
        let Some(index) = self
            .classes
            .iter()
            .position(|class| class.priority == priority)
        else {
            return;
        };
        let class = &mut self.classes[index];
        if let Some(asks) = class.asks.get_mut(&turn.flow) {
            let was_oldest = asks.first() == Some(&age);
            asks.remove(&age);
            if was_oldest {
                class.oldest.remove(&age);
                match asks.first() {
                    Some(&next) => {
                        class.oldest.insert(next);
                    }
                    None => {
                        class.asks.remove(&turn.flow);
                        class.turns.remove(&turn);
                    }
                }
            }
        }
        if class.oldest.is_empty() {
            self.classes.swap_remove(index);
        }
        self.shut_until = Time::START;
    }

    /// One of a class was granted, at this moment in nanoseconds.
    pub(super) fn on_granted(&mut self, priority: u8, now: i64) {
        let mut classes = self.classes.iter_mut();
        if let Some(class) = classes.find(|class| class.priority == priority) {
            class.served = now;
        }
    }

    /// A tenant's turn has moved.
    pub(super) fn move_turn(&mut self, priority: u8, from: Turn, to: Turn) {
        let class = self
            .classes
            .iter_mut()
            .find(|class| class.priority == priority);
        if let Some(class) = class.filter(|class| class.turns.contains(&from)) {
            class.turns.remove(&from);
            class.turns.insert(to);
        }
        self.shut_until = Time::START;
    }
}

impl Class {
    fn due(&self) -> i64 {
        let submitted = self
            .oldest
            .first()
            .map_or(i64::MAX, |oldest| oldest.submitted);
        due(submitted.max(self.served), self.priority)
    }
}

/// When it is the turn of a class that waits for one since a moment: the earliest goes first. A class
/// ages from its last grant on and not from its oldest ask: a queue below that is longer than can be
/// served would else stop everybody above.
pub(super) fn due(since: i64, priority: u8) -> i64 {
    since.saturating_sub(i64::from(priority) * POINT)
}

/// One point of priority is worth this head start, in nanoseconds: 10 points per 10 s waited.
const POINT: i64 = 1_000_000_000;
