//! Whose turn it is: the heads of the open lanes, in one order over all of them.
//!
//! The class that has waited longest for a turn in any lane goes first, and within a class it goes by
//! turn, so that a tenant's pinned and free asks share one turn. The order is kept, not made: a look
//! at the next head costs a logarithm, however many lanes there are, and the turn of a tenant moves
//! once for all lanes in which it waits.

use std::collections::BTreeSet;
use std::ops::Bound;

use smallvec::SmallVec;

use super::super::events::Ticket;
use super::SlotQueue;
use super::lane::due;
use super::order::{Age, Turn};

/// Where one class stands in all lanes together.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) priority: u8,
    pub(super) waiting: usize,
    /// When one of it was granted last, in nanoseconds.
    pub(super) served: i64,
    /// The open lanes whose heads are of this class, by its due in each.
    dues: BTreeSet<(i64, u32)>,
    /// The tenants with asks in any lane, in their order.
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
    classes: SmallVec<[Spot; 4]>,
}

/// How far a round has come in a class.
#[derive(Debug)]
struct Spot {
    priority: u8,
    /// When it is its turn, as the round began.
    due: i64,
    seen: Option<Head>,
    next: Option<Head>,
}

impl SlotQueue {
    /// Begins a look at the heads of the open lanes.
    pub(crate) fn round(&self) -> Round {
        let spots = self.classes.iter().filter_map(|class| {
            let &(first, _) = class.dues.first()?;
            Some(Spot {
                priority: class.priority,
                due: first.max(class.due_since_served()),
                seen: None,
                next: None,
            })
        });
        Round {
            is_over: false,
            classes: spots.collect(),
        }
    }

    /// The next head in turn. A lane that was found shut since the round began is passed over.
    pub(crate) fn next_head(&mut self, round: &mut Round) -> Option<(u32, Ticket)> {
        if let Some(slot) = self.express {
            let was_over = std::mem::replace(&mut round.is_over, true);
            let lane = self.entries[slot as usize].lane;
            return (!was_over).then(|| (lane, self.ticket(slot)));
        }
        for spot in &mut round.classes {
            if spot.next.is_none() {
                spot.next = self.head_after(spot.priority, spot.seen);
            }
        }
        round.classes.retain(|spot| spot.next.is_some());
        let spots = round.classes.iter_mut();
        let spot = spots.min_by_key(|spot| (spot.due, spot.next))?;
        spot.seen = spot.next.take();
        let head = spot.seen?;
        Some((head.lane, self.ticket(head.age.slot)))
    }

    /// The first head of a class after another.
    fn head_after(&mut self, priority: u8, seen: Option<Head>) -> Option<Head> {
        let mut classes = self.classes.iter();
        let class = classes.find(|class| class.priority == priority)?;
        if class.dues.is_empty() {
            return None;
        }
        let mut met_shut: SmallVec<[(u32, Age, u32); 4]> = SmallVec::new();
        let from = seen.map_or(Bound::Unbounded, |seen| Bound::Included(seen.turn));
        let mut found = None;
        'turns: for &turn in class.turns.range((from, Bound::Unbounded)) {
            let here = seen.filter(|seen| seen.turn == turn);
            let from = here.map_or(Bound::Unbounded, |seen| {
                Bound::Excluded((seen.age, seen.lane))
            });
            let heads = &self.flows.flow(turn.flow).heads;
            for &(age, lane) in heads.range((from, Bound::Unbounded)) {
                match self.lanes[lane as usize].listed {
                    Some((class, _)) if class == priority => {
                        found = Some(Head { turn, age, lane });
                        break 'turns;
                    }
                    Some(_) => {}
                    None => met_shut.push((turn.flow, age, lane)),
                }
            }
        }
        for (flow, age, lane) in met_shut {
            self.flows.heads_mut(flow).remove(&(age, lane));
            self.lanes[lane as usize].unlinked.push(flow);
        }
        found
    }

    /// The heads of all lanes, shut or not, in their order: for whoever wants to see them.
    pub(crate) fn all_heads(&self) -> Vec<(u32, Ticket)> {
        if let Some(slot) = self.express {
            return vec![(self.entries[slot as usize].lane, self.ticket(slot))];
        }
        let mut heads: Vec<_> = self
            .lanes
            .iter()
            .filter_map(|(index, lane)| {
                let (class, due) = lane.head_class()?;
                let tenants = lane.tenants(class);
                let of_tenants = tenants.map(|(flow, age)| Head {
                    turn: self.flows.turn(flow),
                    age,
                    lane: index as u32,
                });
                Some((class, due, of_tenants.min()?))
            })
            .collect();
        let mut dues: SmallVec<[(u8, i64); 8]> = SmallVec::new();
        for &(class, due, _) in &heads {
            match dues.iter_mut().find(|(other, _)| *other == class) {
                Some((_, first)) => *first = (*first).min(due),
                None => dues.push((class, due)),
            }
        }
        for (priority, due) in &mut dues {
            let mut classes = self.classes.iter();
            let class = classes.find(|class| class.priority == *priority);
            *due = (*due).max(class.map_or(i64::MIN, Class::due_since_served));
        }
        let due = |class| dues.iter().find(|&&(other, _)| other == class);
        heads.sort_unstable_by_key(|&(class, _, head)| (due(class).map(|&(_, due)| due), head));
        let heads = heads.into_iter();
        heads
            .map(|(_, _, head)| (head.lane, self.ticket(head.age.slot)))
            .collect()
    }

    /// Puts a lane where its head belongs among the open ones; nowhere if it is shut or empty.
    pub(super) fn list(&mut self, index: u32) {
        let lane = &mut self.lanes[index as usize];
        let head = match lane.shut {
            None => lane.head_class(),
            Some(_) => None,
        };
        let before = std::mem::replace(&mut lane.listed, head);
        if before == head {
            return;
        }
        if let Some((priority, due)) = before {
            self.class_mut(priority).dues.remove(&(due, index));
        }
        if let Some((priority, due)) = head {
            self.class_mut(priority).dues.insert((due, index));
        }
    }

    /// A tenant begins to wait, waits no longer, or moves in the order of its class.
    pub(super) fn on_turn(&mut self, priority: u8, before: Option<Turn>, now: Option<Turn>) {
        let turns = &mut self.class_mut(priority).turns;
        if let Some(before) = before {
            turns.remove(&before);
        }
        turns.extend(now);
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
                dues: BTreeSet::new(),
                turns: BTreeSet::new(),
            });
            self.classes.len() - 1
        });
        &mut self.classes[index]
    }
}

impl Class {
    /// When it is its turn by its last grant in any lane.
    fn due_since_served(&self) -> i64 {
        due(self.served, self.priority)
    }
}
