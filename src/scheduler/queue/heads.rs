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
use super::lane::{Closed, Due, Oldest};
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

/// The head of a lane, and when it is its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) lane: u32,
    pub(crate) ticket: Ticket,
    pub(crate) due: Due,
}

/// The first ask of a class in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct First {
    turn: Turn,
    age: Age,
    lane: u32,
}

/// One look at whose turn it is, from the first to the last.
#[derive(Debug)]
pub(crate) struct Round {
    /// The one who waits alone has been seen.
    is_over: bool,
    /// The classes that are left, the first in turn last.
    classes: SmallVec<[Due; 4]>,
    /// How far it has come in that one.
    seen: Option<First>,
}

impl SlotQueue {
    /// Begins a look at the heads of the open lanes.
    pub(crate) fn round(&self) -> Round {
        let waiting = self.classes.iter().filter_map(|class| {
            let &(oldest, _) = class.lanes.first()?;
            Some(class.due(oldest))
        });
        let mut classes: SmallVec<[_; 4]> = waiting.collect();
        classes.sort_unstable_by_key(|&due| Reverse(due));
        Round {
            is_over: false,
            classes,
            seen: None,
        }
    }

    /// The next head in turn. A lane that was found shut since the round began is passed over.
    pub(crate) fn next_head(&mut self, round: &mut Round) -> Option<Head> {
        if let Some(slot) = self.express {
            let was_over = std::mem::replace(&mut round.is_over, true);
            return (!was_over).then(|| self.alone(slot));
        }
        while let Some(&turn) = round.classes.last() {
            if let Some((due, lane)) = self.owed(turn) {
                return self.head(lane, due);
            }
            round.seen = self.first_after(turn.priority, round.seen);
            match round.seen {
                Some(first) => return Some(self.head_of(first, turn)),
                None => round.classes.pop(),
            };
        }
        None
    }

    /// The one who waits alone.
    fn alone(&self, slot: u32) -> Head {
        let entry = &self.entries[slot as usize];
        Head {
            lane: entry.lane,
            ticket: self.ticket(slot),
            due: Due::since(entry.submitted, entry.priority.0),
        }
    }

    /// The lane that a class is owed a turn in, where that is due before the turn of one above it.
    fn owed(&self, turn: Due) -> Option<(Due, u32)> {
        let below = (self.classes.iter()).filter(|class| class.priority < turn.priority);
        let first = below.filter_map(|class| {
            let &(since, lane) = class.owed.first()?;
            Some((Due::since(since, class.priority), lane))
        });
        first.min().filter(|&(due, _)| due < turn)
    }

    /// The first in turn of a class in a lane.
    fn first_of(&self, index: u32, priority: u8) -> Option<First> {
        let tenants = self.lanes[index as usize].tenants(priority);
        let firsts = tenants.map(|(flow, age)| First {
            turn: self.flows.turn(flow),
            age,
            lane: index,
        });
        firsts.min()
    }

    fn head_of(&self, first: First, due: Due) -> Head {
        Head {
            lane: first.lane,
            ticket: self.ticket(first.age.slot),
            due,
        }
    }

    /// The head of a lane at the turn of a class in it.
    fn head(&self, index: u32, due: Due) -> Option<Head> {
        let first = self.first_of(index, due.priority)?;
        Some(self.head_of(first, due))
    }

    /// The head of a lane, if it is open.
    pub(super) fn open_head(&self, index: u32) -> Option<Head> {
        let lane = &self.lanes[index as usize];
        let turns = lane.listed.iter().filter_map(|standing| {
            let class = self.class(standing.priority)?;
            Some(class.due(class.lanes.first()?.0))
        });
        let turn = turns.min()?;
        self.head(index, lane.owed(turn).unwrap_or(turn))
    }

    /// The next lane of a class after another, with its first ask.
    fn first_after(&mut self, priority: u8, seen: Option<First>) -> Option<First> {
        let class = self.class(priority)?;
        if class.lanes.is_empty() {
            return None;
        }
        let mut met_shut: SmallVec<[First; 4]> = SmallVec::new();
        let mut in_line = 0;
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
                let first = First { turn, age, lane };
                match self.lanes[lane as usize].shut {
                    None => {
                        found = Some(first);
                        break 'turns;
                    }
                    Some(shut) if shut.in_line.is_some() => in_line += 1,
                    Some(_) => met_shut.push(first),
                }
                if in_line > FEW && class.lanes.len() <= FEW {
                    found = self.first_of_open(class, seen);
                    break 'turns;
                }
            }
        }
        self.unlink_all(&met_shut);
        found
    }

    /// The same where few lanes are open, and are not to be looked for among the many in line.
    fn first_of_open(&self, class: &Class, seen: Option<First>) -> Option<First> {
        let lanes = class.lanes.iter().map(|&(_, lane)| lane);
        let firsts = lanes.filter_map(|lane| self.first_of(lane, class.priority));
        firsts
            .filter(|first| seen.is_none_or(|seen| *first > seen))
            .min()
    }

    /// The first lanes of a class that wait in line for hard rates, at most so many.
    pub(super) fn first_in_line(&mut self, priority: u8, most: usize) -> SmallVec<[u32; 4]> {
        let (mut met_shut, mut found) = (SmallVec::<[First; 4]>::new(), SmallVec::new());
        let turns = self.class(priority).into_iter();
        'turns: for &turn in turns.flat_map(|class| &class.turns) {
            for &(age, lane) in &self.flows.flow(turn.flow).heads {
                #[cfg(test)]
                super::order::steps::count();
                match self.lanes[lane as usize].shut {
                    None => {}
                    Some(shut) if shut.in_line.is_some() => found.push(lane),
                    Some(_) => met_shut.push(First { turn, age, lane }),
                }
                if found.len() == most {
                    break 'turns;
                }
            }
        }
        self.unlink_all(&met_shut);
        found
    }

    /// Takes lanes that were met while they are shut out of the lists of their tenants.
    fn unlink_all(&mut self, met: &[First]) {
        for met in met {
            self.unlink(met.turn.flow, met.age, met.lane);
            let unlinked = &mut self.lanes[met.lane as usize].unlinked;
            unlinked.push(met.turn.flow);
        }
    }

    /// The heads of all lanes, shut or not, in their order: for whoever wants to see them.
    pub(crate) fn all_heads(&self) -> Vec<Head> {
        if let Some(slot) = self.express {
            return vec![self.alone(slot)];
        }
        let turns = self.classes.iter().filter_map(|class| {
            let lanes = self.lanes.iter();
            let oldest = lanes.filter_map(|(_, lane)| lane.oldest(class.priority));
            Some(class.due(oldest.min()?))
        });
        let mut turns: Vec<_> = turns.collect();
        turns.sort_unstable();
        let mut heads = Vec::new();
        let mut seen = HashSet::new();
        for turn in turns {
            let lanes = self.lanes.iter();
            let owed = lanes.filter_map(|(index, lane)| Some((lane.owed(turn)?, index as u32)));
            let mut owed: Vec<_> = owed.filter(|&(_, lane)| seen.insert(lane)).collect();
            owed.sort_unstable();
            let owed = owed.into_iter();
            heads.extend(owed.filter_map(|(due, lane)| self.head(lane, due)));
            let lanes = self.lanes.iter().map(|(index, _)| index as u32);
            let firsts = lanes.filter_map(|lane| self.first_of(lane, turn.priority));
            let mut firsts: Vec<_> = firsts.filter(|first| seen.insert(first.lane)).collect();
            firsts.sort_unstable();
            let firsts = firsts.into_iter();
            heads.extend(firsts.map(|first| self.head_of(first, turn)));
        }
        heads
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
        self.shut.line.on_granted();
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
    /// When it is its turn, if its oldest ask was submitted then.
    fn due(&self, oldest: i64) -> Due {
        Due::since(oldest.max(self.served), self.priority)
    }
}

/// So many open lanes are sooner looked through than found among more in line.
const FEW: usize = 32;
