//! Whose turn it is: the heads of the open lanes, in one order over all of them.
//!
//! The class that has waited longest for a turn in any lane goes first, and within a class it goes by
//! turn, so that a tenant's pinned and free asks share one turn. The order is kept, not made: a look
//! at the next head costs a logarithm, however many lanes there are, and the turn of a tenant moves
//! once for all lanes in which it waits. A lane that is shut leaves the lists of its tenants when a
//! look first meets it there.
//!
//! A class has one turn for all lanes. Where it was granted in others while one was shut, it has missed
//! that one and waits for a turn of its own there from then on: where a bucket or a key is always
//! taken by whoever is above, what is below would wait for ever while its class is served elsewhere.

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
    /// Those of them in which it missed its turn, by when its wait for one of its own began.
    owed: BTreeSet<(i64, u32)>,
    /// The tenants whose lists name a lane, in their order.
    turns: BTreeSet<Turn>,
}

/// The ask of a lane that goes next.
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
            let head = match self.owed(place) {
                Some((lane, priority)) => self.first_of(lane, priority),
                None => {
                    round.seen = self.head_after(place.1, round.seen);
                    round.seen
                }
            };
            match head {
                Some(head) => return Some((head.lane, self.ticket(head.age.slot))),
                None => round.classes.pop(),
            };
        }
        None
    }

    /// The lane that a class is owed a turn in, where that is due before the turn of one above it.
    fn owed(&self, place: (i64, u8)) -> Option<(u32, u8)> {
        let below = self.classes.iter().filter(|class| class.priority < place.1);
        let first = below.filter_map(|class| {
            let &(since, lane) = class.owed.first()?;
            Some((due(since, class.priority), class.priority, lane))
        });
        let (at, priority, lane) = first.min()?;
        ((at, priority) < place).then_some((lane, priority))
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
        let lane = &self.lanes[index as usize];
        let classes = lane.listed.iter().filter_map(|standing| {
            let class = self.class(standing.priority)?;
            Some(class.place(class.lanes.first()?.0))
        });
        let place = classes.min()?;
        let owed = lane.owed(place).map(|(_, priority)| priority);
        let head = self.first_of(index, owed.unwrap_or(place.1))?;
        Some(self.ticket(head.age.slot))
    }

    /// The next head of a class after another.
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
            let lanes = self.lanes.iter();
            let owed = lanes.filter_map(|(index, lane)| Some((lane.owed(place)?, index as u32)));
            let mut owed: Vec<_> = owed.filter(|&(_, lane)| seen.insert(lane)).collect();
            owed.sort_unstable();
            let owed = owed.into_iter();
            heads.extend(owed.filter_map(|((_, class), lane)| self.first_of(lane, class)));
            let lanes = self.lanes.iter().map(|(index, _)| index as u32);
            let lanes = lanes.filter_map(|lane| self.first_of(lane, place.1));
            let mut lanes: Vec<_> = lanes.filter(|head| seen.insert(head.lane)).collect();
            lanes.sort_unstable();
            heads.extend(lanes);
        }
        let heads = heads.into_iter();
        heads
            .map(|head| (head.lane, self.ticket(head.age.slot)))
            .collect()
    }

    /// Puts a lane among the open ones of each class that waits in it; nowhere if it is shut.
    pub(super) fn list(&mut self, index: u32) {
        let lane = &mut self.lanes[index as usize];
        let listed = match lane.shut {
            None => lane.standings(),
            Some(_) => SmallVec::new(),
        };
        if listed == lane.listed {
            return;
        }
        for standing in std::mem::replace(&mut lane.listed, listed.clone()) {
            let class = self.class_mut(standing.priority);
            class.lanes.remove(&(standing.oldest, index));
            if let Some(since) = standing.owed_since {
                class.owed.remove(&(since, index));
            }
        }
        for standing in listed {
            let class = self.class_mut(standing.priority);
            class.lanes.insert((standing.oldest, index));
            class
                .owed
                .extend(standing.owed_since.map(|since| (since, index)));
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

    /// One of a class is granted in a lane.
    pub(super) fn on_granted(&mut self, priority: u8, lane: u32, now: i64) {
        self.grants += 1;
        let grant = self.grants;
        let class = self.class_mut(priority);
        (class.served, class.grant) = (now, grant);
        self.lanes[lane as usize].on_granted(priority);
        self.list(lane);
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
                owed: BTreeSet::new(),
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
