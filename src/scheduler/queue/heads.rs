//! Whose turn it is: the heads of the open lanes, in one order over all of them.
//!
//! The class that has waited longest for a turn in any lane goes first, and within a class it goes by
//! turn, so that a tenant's pinned and free asks share one turn. The order is kept, not made: a look
//! at the next head costs a logarithm, however many lanes there are, and the turn of a tenant moves
//! once for all lanes in which it waits. A lane that is shut leaves the lists of its tenants when a
//! look first meets it there.
//!
//! Only the turn of a class is one for all lanes: where it was granted in others while this one was
//! shut, it waits for a turn in this one from then on, in the same way. Whoever is above gets a lane
//! at its own gates nearly always, and what is below would wait there for ever while it is served
//! elsewhere.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;

use smallvec::SmallVec;

use super::super::events::Ticket;
use super::SlotQueue;
use super::flows::Flows;
use super::lane::{Closed, Oldest, due};
use super::order::{Age, Turn};

/// Where one class stands in all lanes together.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) priority: u8,
    pub(super) waiting: usize,
    /// When one of it was granted last, in nanoseconds.
    served: i64,
    /// Which grant of all that was.
    grant: u64,
    /// The open lanes in which it waits, by its oldest ask in each.
    lanes: BTreeSet<(i64, u32)>,
    /// The tenants whose lists name a lane, in their order.
    turns: BTreeSet<Turn>,
}

/// The ask by which a class comes to a lane in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    turn: Turn,
    age: Age,
    lane: u32,
}

/// One look at whose turn it is, from the first to the last.
#[derive(Debug)]
pub(crate) struct Round {
    /// The one who waits alone has been seen.
    is_over: bool,
    /// The classes that are left and when each is due, the first in turn last.
    classes: SmallVec<[(i64, u8); 4]>,
    /// How far it has come in that one.
    seen: Option<Head>,
}

impl SlotQueue {
    /// Begins a look at the heads of the open lanes.
    pub(crate) fn round(&self) -> Round {
        let waiting = self.classes.iter().filter_map(|class| {
            let &(oldest, _) = class.lanes.first()?;
            Some(class.place(oldest))
        });
        let mut classes: SmallVec<[_; 4]> = waiting.collect();
        classes.sort_unstable_by_key(|&place| Reverse(place));
        Round {
            is_over: false,
            classes,
            seen: None,
        }
    }

    /// The next head in turn. A lane that was found shut since the round began is passed over.
    pub(crate) fn next_head(&mut self, round: &mut Round) -> Option<(u32, Ticket)> {
        if let Some(slot) = self.express {
            let was_over = std::mem::replace(&mut round.is_over, true);
            let lane = self.entries[slot as usize].lane;
            return (!was_over).then(|| (lane, self.ticket(slot)));
        }
        while let Some(&place) = round.classes.last() {
            round.seen = self.head_after(place.1, round.seen);
            match round.seen {
                Some(by) => return self.head_of(place, by),
                None => round.classes.pop(),
            };
        }
        None
    }

    /// The head of a lane, at the turn of a class that brings it.
    fn head_of(&self, place: (i64, u8), by: Head) -> Option<(u32, Ticket)> {
        let head = match self.lanes[by.lane as usize].owed(place) {
            Some(priority) => self.first_of(by.lane, priority)?,
            None => by,
        };
        Some((by.lane, self.ticket(head.age.slot)))
    }

    /// The first in turn of a class in a lane.
    fn first_of(&self, index: u32, priority: u8) -> Option<Head> {
        let tenants = self.lanes[index as usize].tenants(priority);
        let heads = tenants.map(|(flow, age)| Head {
            turn: self.flows.turn(flow),
            age,
            lane: index,
        });
        heads.min()
    }

    /// The head of a lane, if it is open.
    pub(super) fn open_head(&self, index: u32) -> Option<Ticket> {
        let listed = self.lanes[index as usize].listed.iter();
        let classes = listed.filter_map(|&(priority, _)| {
            let class = self.class(priority)?;
            Some(class.place(class.lanes.first()?.0))
        });
        let place = classes.min()?;
        let by = self.first_of(index, place.1)?;
        self.head_of(place, by).map(|(_, ticket)| ticket)
    }

    /// The next lane of a class after another, and whose turn brings it.
    fn head_after(&mut self, priority: u8, seen: Option<Head>) -> Option<Head> {
        let class = self.class(priority)?;
        if class.lanes.is_empty() {
            return None;
        }
        let mut met_shut: SmallVec<[Head; 4]> = SmallVec::new();
        let from = seen.map_or(Bound::Unbounded, |seen| Bound::Included(seen.turn));
        let mut found = None;
        'turns: for &turn in class.turns.range((from, Bound::Unbounded)) {
            let here = seen.filter(|seen| seen.turn == turn);
            let from = here.map_or(Bound::Unbounded, |seen| {
                Bound::Excluded((seen.age, seen.lane))
            });
            let heads = &self.flows.flow(turn.flow).heads;
            for &(age, lane) in heads.range((from, Bound::Unbounded)) {
                #[cfg(test)]
                super::order::steps::count();
                let head = Head { turn, age, lane };
                if self.lanes[lane as usize].shut.is_none() {
                    found = Some(head);
                    break 'turns;
                }
                met_shut.push(head);
            }
        }
        for head in met_shut {
            self.unlink(head.turn.flow, head.age, head.lane);
            let unlinked = &mut self.lanes[head.lane as usize].unlinked;
            unlinked.push(head.turn.flow);
        }
        found
    }

    /// The heads of all lanes, shut or not, in their order: for whoever wants to see them.
    pub(crate) fn all_heads(&self) -> Vec<(u32, Ticket)> {
        if let Some(slot) = self.express {
            return vec![(self.entries[slot as usize].lane, self.ticket(slot))];
        }
        let mut classes: Vec<_> = (self.classes.iter())
            .filter_map(|class| {
                let lanes = self.lanes.iter();
                let oldest = lanes.filter_map(|(_, lane)| lane.oldest(class.priority));
                Some(class.place(oldest.min()?))
            })
            .collect();
        classes.sort_unstable();
        let mut heads = Vec::new();
        let mut seen = HashSet::new();
        for place in classes {
            let lanes = self.lanes.iter().map(|(index, _)| index as u32);
            let bring = lanes.filter_map(|lane| self.first_of(lane, place.1));
            let mut bring: Vec<_> = bring.filter(|by| seen.insert(by.lane)).collect();
            bring.sort_unstable();
            heads.extend(bring.into_iter().filter_map(|by| self.head_of(place, by)));
        }
        heads
    }

    /// Puts a lane among the open ones of each class that waits in it; nowhere if it is shut.
    pub(super) fn list(&mut self, index: u32) {
        let lane = &mut self.lanes[index as usize];
        let listed = match lane.shut {
            None => lane.classes(),
            Some(_) => SmallVec::new(),
        };
        if listed == lane.listed {
            return;
        }
        let before = std::mem::replace(&mut lane.listed, listed.clone());
        for (priority, oldest) in before {
            self.class_mut(priority).lanes.remove(&(oldest, index));
        }
        for (priority, oldest) in listed {
            self.class_mut(priority).lanes.insert((oldest, index));
        }
    }

    /// The gates of a lane are asked again: classes that were granted in others meanwhile have missed
    /// their turn in it.
    pub(super) fn on_opened(&mut self, index: u32, shut: &Closed) {
        let lane = &mut self.lanes[index as usize];
        for class in &self.classes {
            if class.grant > shut.grants {
                lane.on_missed(class.priority, class.served);
            }
        }
        for flow in std::mem::take(&mut lane.unlinked) {
            let class = self.flows.flow(flow).class;
            if let Some(age) = self.lanes[index as usize].oldest_of(class, flow) {
                self.link(flow, age, index);
            }
        }
    }

    /// One of a class is granted.
    pub(super) fn on_granted(&mut self, priority: u8, lane: u32, now: i64) {
        self.grants += 1;
        let grant = self.grants;
        let class = self.class_mut(priority);
        (class.served, class.grant) = (now, grant);
        self.lanes[lane as usize].on_granted(priority);
    }

    /// The oldest ask of a tenant in a lane has changed.
    pub(super) fn on_oldest(&mut self, flow: u32, lane: u32, oldest: Oldest) {
        if let Some(now) = oldest.now {
            self.link(flow, now, lane);
        }
        if let Some(before) = oldest.before {
            self.unlink(flow, before, lane);
        }
    }

    fn link(&mut self, flow: u32, age: Age, lane: u32) {
        let class = self.flows.flow(flow).class;
        if let Some(turn) = self.flows.link(flow, age, lane) {
            self.class_mut(class).turns.insert(turn);
        }
    }

    fn unlink(&mut self, flow: u32, age: Age, lane: u32) {
        let class = self.flows.flow(flow).class;
        if let Some(turn) = self.flows.unlink(flow, age, lane) {
            self.class_mut(class).turns.remove(&turn);
        }
    }

    /// Changes the turn of a tenant.
    pub(super) fn move_flow(&mut self, flow: u32, change: impl FnOnce(&mut Flows)) {
        let from = self.flows.turn(flow);
        change(&mut self.flows);
        if !self.flows.flow(flow).heads.is_empty() {
            let (to, class) = (self.flows.turn(flow), self.flows.flow(flow).class);
            let turns = &mut self.class_mut(class).turns;
            turns.remove(&from);
            turns.insert(to);
        }
    }

    fn class(&self, priority: u8) -> Option<&Class> {
        let mut classes = self.classes.iter();
        classes.find(|class| class.priority == priority)
    }

    pub(super) fn class_mut(&mut self, priority: u8) -> &mut Class {
        let known = self
            .classes
            .iter()
            .position(|class| class.priority == priority);
        let index = known.unwrap_or_else(|| {
            self.classes.push(Class {
                priority,
                waiting: 0,
                served: i64::MIN,
                grant: 0,
                lanes: BTreeSet::new(),
                turns: BTreeSet::new(),
            });
            self.classes.len() - 1
        });
        &mut self.classes[index]
    }
}

impl Class {
    /// When it is its turn, if its oldest ask is so old, and which it is: of equals the lower has
    /// waited longer.
    fn place(&self, oldest: i64) -> (i64, u8) {
        (due(oldest.max(self.served), self.priority), self.priority)
    }
}
