//! Which asks belong together, so that they can be cancelled together without looking at others.
//!
//! A group is known from its first ask on, and how many of its asks have ended is remembered for a
//! while after the last, for whoever cancels it late.

use std::collections::{BTreeSet, HashMap, VecDeque};

use slab::Slab;

use super::super::events::Name;

/// The groups of one limiter.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Slab<Group>,
    of: HashMap<Name, u32>,
    /// Groups that had no asks any more, oldest first, and the number of that rest.
    empty: VecDeque<(u32, u64)>,
    rests: u64,
}

#[derive(Debug)]
struct Group {
    name: Name,
    /// The slots of its live asks.
    members: BTreeSet<u32>,
    /// Asks that ended with a result, since the group began or was last cancelled.
    done: u64,
    /// The number of its last rest: where it stands among those without asks.
    rest: u64,
}

impl Groups {
    /// Puts an ask into a group.
    pub(super) fn join(&mut self, name: Name, slot: u32) -> u32 {
        let id = match self.of.get(&name) {
            Some(&id) => id,
            None => {
                let id = self.groups.insert(Group {
                    name: name.clone(),
                    members: BTreeSet::new(),
                    done: 0,
                    rest: 0,
                }) as u32;
                self.of.insert(name, id);
                id
            }
        };
        self.groups[id as usize].members.insert(slot);
        id
    }

    /// An ask has left its group, with a result or without.
    pub(super) fn part(&mut self, id: u32, slot: u32, done: bool) {
        let Some(group) = self.groups.get_mut(id as usize) else {
            return;
        };
        group.members.remove(&slot);
        group.done += u64::from(done);
        if group.members.is_empty() {
            self.rests += 1;
            group.rest = self.rests;
            self.empty.push_back((id, self.rests));
            if self.empty.len() > EMPTY {
                self.forget_oldest();
            }
        }
    }

    /// The slots of a group's live asks.
    pub(super) fn members(&self, name: &Name) -> Vec<u32> {
        let group = self.of.get(name).map(|&id| &self.groups[id as usize]);
        group.map_or_else(Vec::new, |group| group.members.iter().copied().collect())
    }

    /// How many asks of a group have ended with a result; they are not counted again.
    pub(super) fn take_done(&mut self, name: &Name) -> u64 {
        let id = self.of.get(name);
        id.map_or(0, |&id| std::mem::take(&mut self.groups[id as usize].done))
    }

    fn forget_oldest(&mut self) {
        let Some((id, rest)) = self.empty.pop_front() else {
            return;
        };
        // It may have had asks since, or have had and lost them again.
        let group = self.groups.get(id as usize);
        if group.is_some_and(|group| group.members.is_empty() && group.rest == rest) {
            let group = self.groups.remove(id as usize);
            self.of.remove(&group.name);
        }
    }
}

/// The place of an ask that belongs to no group.
pub(super) const NONE: u32 = u32::MAX;
/// Groups without asks that are remembered.
const EMPTY: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_groups_leave_no_more_than_the_empty_ones_behind() {
        let mut groups = Groups::default();
        for n in 0..50_000 {
            let name = Name::from(format!("view {n}"));
            let id = groups.join(name, 7);
            groups.part(id, 7, true);
        }
        assert!(groups.of.len() <= EMPTY + 1, "{}", groups.of.len());
        assert_eq!(groups.take_done(&"view 49999".into()), 1);
        assert_eq!(groups.take_done(&"view 49999".into()), 0);
        assert_eq!(groups.take_done(&"view 0".into()), 0);
    }
}
