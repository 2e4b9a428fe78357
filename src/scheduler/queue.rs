//! Who waits, and in what order.
//!
//! Asks wait in lanes (what shares its gates: a bucket, and a key where the ask is pinned to one).
//! Within a lane nobody passes the head; lanes do not hold each other up. The order is the moment
//! of submit less one second per point of priority: that is strict priority which ages by a point
//! a second, and since everybody ages alike the order of two asks never changes, so a balanced
//! tree keeps it and every operation is O(log n).

use std::collections::{BTreeSet, HashMap};

use slab::Slab;

use super::events::{Cost, KeyId, Name, Priority, Reason, Replay, Ticket};
use super::time::Time;

/// A place in the order: lower goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// Submit less the head start of the priority, in nanoseconds.
    due: i64,
    /// First come first served among equals; also what makes ranks unique.
    pub(crate) seq: u64,
}

/// Where a ticket is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In its lane.
    Waiting,
    /// Out of the queue until a moment, then back in its old place.
    Asleep(Time),
    /// Granted or in flight: the index of its attempt.
    Attempt(u32),
}

/// One accepted ask.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) rank: Rank,
    pub(crate) place: Place,
    pub(crate) cost: Cost,
    /// When waiting any longer is pointless: its deadline or `max_wait`, whichever is sooner.
    pub(crate) deadline: Time,
    /// The key that refused it last, and until when that key must not see it again.
    pub(crate) barred: Option<(KeyId, Time)>,
    pub(crate) lane: u32,
    pub(crate) bucket: u32,
    pub(crate) group: Option<Name>,
    pub(crate) refusals: u16,
    pub(crate) errors: u16,
    /// Attempts that ended with a key's own fault.
    pub(crate) key_faults: u16,
    pub(crate) replay: Replay,
}

/// What shares its gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaneId {
    pub(crate) bucket: u32,
    pub(crate) pin: Option<KeyId>,
}

/// The asks of one lane.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) id: LaneId,
    waiting: BTreeSet<(Rank, u32)>,
    deadlines: BTreeSet<(Time, u32)>,
    /// Entries that name this lane, wherever they are.
    members: u32,
    /// Nothing of this lane can go before this moment, unless something happens.
    pub(crate) shut_until: Time,
    /// The state of the scheduler that `shut_until` speaks of.
    pub(crate) shut_at: u64,
    /// Why it is shut.
    pub(crate) shut_reason: Option<Reason>,
    /// The moment before which a park or a spent quota surely keeps this lane shut.
    pub(crate) known_until: Time,
}

/// The queue of one limiter.
#[derive(Debug)]
pub(crate) struct SlotQueue {
    entries: Slab<Entry>,
    lanes: Slab<Lane>,
    lane_of: HashMap<LaneId, u32>,
    heads: BTreeSet<(Rank, u32)>,
    asleep: BTreeSet<(Time, u32)>,
    waiting: usize,
    bound: usize,
    seq: u64,
}

/// What a newcomer brings.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) lane: LaneId,
    pub(crate) priority: Priority,
    pub(crate) cost: Cost,
    pub(crate) deadline: Time,
    pub(crate) not_before: Time,
    pub(crate) group: Option<Name>,
    pub(crate) replay: Replay,
}

impl SlotQueue {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            entries: Slab::new(),
            lanes: Slab::new(),
            lane_of: HashMap::new(),
            heads: BTreeSet::new(),
            asleep: BTreeSet::new(),
            waiting: 0,
            bound,
            seq: 0,
        }
    }

    /// Whether one more may wait.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting >= self.bound
    }

    /// How many wait, asleep ones included.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// Puts an ask in its place.
    pub(crate) fn push(&mut self, new: Newcomer, now: Time) -> Ticket {
        self.seq += 1;
        let head_start = i64::from(new.priority.0) * POINT;
        let submitted = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        let rank = Rank {
            due: submitted.saturating_sub(head_start),
            seq: self.seq,
        };
        let lane = self.lane(new.lane);
        self.lanes[lane as usize].members += 1;
        let slot = self.entries.insert(Entry {
            rank,
            place: Place::Attempt(u32::MAX),
            cost: new.cost,
            deadline: new.deadline,
            barred: None,
            lane,
            bucket: new.lane.bucket,
            group: new.group,
            refusals: 0,
            errors: 0,
            key_faults: 0,
            replay: new.replay,
        }) as u32;
        self.wait(slot, new.not_before, now);
        Ticket {
            slot,
            generation: self.seq as u32,
        }
    }

    /// The entry of a ticket, if it is still alive.
    pub(crate) fn entry(&self, ticket: Ticket) -> Option<&Entry> {
        self.entries
            .get(ticket.slot as usize)
            .filter(|entry| entry.rank.seq as u32 == ticket.generation)
    }

    pub(crate) fn entry_mut(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        self.entries
            .get_mut(ticket.slot as usize)
            .filter(|entry| entry.rank.seq as u32 == ticket.generation)
    }

    /// The ticket of a slot that is known to be alive.
    fn ticket(&self, slot: u32) -> Ticket {
        Ticket {
            slot,
            generation: self.entries[slot as usize].rank.seq as u32,
        }
    }

    /// Wakes those whose moment has come.
    pub(crate) fn wake(&mut self, now: Time) {
        while let Some(&(until, slot)) = self.asleep.first() {
            if until > now {
                break;
            }
            self.asleep.pop_first();
            self.enter_lane(slot);
        }
    }

    /// The next moment at which [`SlotQueue::wake`] does something.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.asleep.first().map(|&(until, _)| until)
    }

    /// The lanes in the order of their heads.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (u32, Ticket)> + '_ {
        self.heads.iter().filter_map(|&(_, lane)| {
            let &(_, slot) = self.lanes[lane as usize].waiting.first()?;
            Some((lane, self.ticket(slot)))
        })
    }

    pub(crate) fn lane_at(&self, lane: u32) -> &Lane {
        &self.lanes[lane as usize]
    }

    pub(crate) fn lane_at_mut(&mut self, lane: u32) -> &mut Lane {
        &mut self.lanes[lane as usize]
    }

    /// Takes a waiting ticket out of its lane: it has been granted.
    pub(crate) fn take(&mut self, ticket: Ticket, attempt: u32) {
        self.leave(ticket.slot);
        self.entries[ticket.slot as usize].place = Place::Attempt(attempt);
    }

    /// Puts a ticket whose attempt has ended back in its old place, out of the queue until
    /// `not_before`.
    pub(crate) fn put_back(&mut self, ticket: Ticket, not_before: Time, now: Time) {
        self.wait(ticket.slot, not_before, now);
    }

    /// Ends a ticket, wherever it is.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Entry> {
        self.entry(ticket)?;
        self.leave(ticket.slot);
        let entry = self.entries.remove(ticket.slot as usize);
        let lane = &mut self.lanes[entry.lane as usize];
        lane.members -= 1;
        if lane.members == 0 {
            self.lane_of.remove(&lane.id);
            self.lanes.remove(entry.lane as usize);
        }
        Some(entry)
    }

    /// The first waiting ticket that surely cannot be sent in time: its deadline has come, or lies
    /// before the moment until which its lane is known to be shut.
    pub(crate) fn hopeless(&self, now: Time) -> Option<Ticket> {
        self.lanes.iter().find_map(|(_, lane)| {
            let &(deadline, slot) = lane.deadlines.first()?;
            (deadline <= now.max(lane.known_until)).then(|| self.ticket(slot))
        })
    }

    /// The next deadline of one who waits.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.lanes
            .iter()
            .filter_map(|(_, lane)| lane.deadlines.first())
            .map(|&(at, _)| at)
            .min()
    }

    /// Every live ticket that waits, in no order.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Ticket> + '_ {
        self.entries
            .iter()
            .filter(|(_, entry)| !matches!(entry.place, Place::Attempt(_)))
            .map(|(slot, entry)| Ticket {
                slot: slot as u32,
                generation: entry.rank.seq as u32,
            })
    }

    /// Every live entry, in no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Ticket, &Entry)> + '_ {
        self.entries.iter().map(|(slot, entry)| {
            (
                Ticket {
                    slot: slot as u32,
                    generation: entry.rank.seq as u32,
                },
                entry,
            )
        })
    }

    fn lane(&mut self, id: LaneId) -> u32 {
        if let Some(&lane) = self.lane_of.get(&id) {
            return lane;
        }
        let lane = self.lanes.insert(Lane {
            id,
            waiting: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            members: 0,
            shut_until: Time::START,
            shut_at: 0,
            shut_reason: None,
            known_until: Time::START,
        }) as u32;
        self.lane_of.insert(id, lane);
        lane
    }

    fn wait(&mut self, slot: u32, not_before: Time, now: Time) {
        self.waiting += 1;
        let entry = &self.entries[slot as usize];
        if entry.deadline != Time::NEVER {
            self.lanes[entry.lane as usize]
                .deadlines
                .insert((entry.deadline, slot));
        }
        if not_before > now {
            self.entries[slot as usize].place = Place::Asleep(not_before);
            self.asleep.insert((not_before, slot));
        } else {
            self.enter_lane(slot);
        }
    }

    fn enter_lane(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.place = Place::Waiting;
        let (index, rank) = (entry.lane, entry.rank);
        let lane = &mut self.lanes[index as usize];
        let old = lane.waiting.first().map(|&(rank, _)| rank);
        lane.waiting.insert((rank, slot));
        if old.is_none_or(|old| rank < old) {
            // A new head has gates of its own: a pause that was computed for another says nothing.
            lane.shut_until = Time::START;
            if let Some(old) = old {
                self.heads.remove(&(old, index));
            }
            self.heads.insert((rank, index));
        }
    }

    /// Takes an entry out of every index of those who wait.
    fn leave(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        let (index, rank) = (entry.lane, entry.rank);
        match entry.place {
            Place::Attempt(_) => return,
            Place::Asleep(until) => {
                self.asleep.remove(&(until, slot));
            }
            Place::Waiting => {
                let lane = &mut self.lanes[index as usize];
                let was_head = lane.waiting.first() == Some(&(rank, slot));
                lane.waiting.remove(&(rank, slot));
                if was_head {
                    self.heads.remove(&(rank, index));
                    lane.shut_until = Time::START;
                    if let Some(&(next, _)) = lane.waiting.first() {
                        self.heads.insert((next, index));
                    }
                }
            }
        }
        self.waiting -= 1;
        if entry.deadline != Time::NEVER {
            self.lanes[index as usize]
                .deadlines
                .remove(&(entry.deadline, slot));
        }
    }
}

/// One point of priority is worth this head start: 10 points per 10 s waited.
const POINT: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn newcomer(priority: Priority) -> Newcomer {
        Newcomer {
            lane: LaneId {
                bucket: 0,
                pin: None,
            },
            priority,
            cost: Cost::ONE,
            deadline: Time::NEVER,
            not_before: Time::START,
            group: None,
            replay: Replay::Auto,
        }
    }

    fn head(queue: &SlotQueue) -> Option<Ticket> {
        queue.heads().next().map(|(_, ticket)| ticket)
    }

    #[test]
    fn equals_go_first_come_first_served() {
        let mut queue = SlotQueue::new(10);
        let tickets: Vec<_> = (0..3)
            .map(|_| queue.push(newcomer(Priority::NORMAL), at(1.0)))
            .collect();
        for ticket in tickets {
            assert_eq!(head(&queue), Some(ticket));
            queue.take(ticket, 0);
        }
        assert_eq!(head(&queue), None);
    }

    #[test]
    fn a_point_of_priority_is_worth_one_second_of_waiting() {
        let mut queue = SlotQueue::new(10);
        let low = queue.push(newcomer(Priority(10)), at(0.0));
        let high = queue.push(newcomer(Priority(15)), at(4.9));
        assert_eq!(head(&queue), Some(high));
        queue.remove(high);
        let late = queue.push(newcomer(Priority(15)), at(5.1));
        assert_eq!(head(&queue), Some(low));
        queue.remove(low);
        assert_eq!(head(&queue), Some(late));
    }

    #[test]
    fn one_who_slept_comes_back_to_its_old_place() {
        let mut queue = SlotQueue::new(10);
        let first = queue.push(newcomer(Priority::NORMAL), at(0.0));
        let second = queue.push(newcomer(Priority::NORMAL), at(0.0));
        queue.take(first, 0);
        queue.put_back(first, at(2.0), at(1.0));
        assert_eq!(head(&queue), Some(second));
        assert_eq!(queue.next_wake(), Some(at(2.0)));
        queue.wake(at(2.0));
        assert_eq!(head(&queue), Some(first));
        assert_eq!(queue.len(), 2);
    }

    #[test]
    fn removing_one_frees_its_place_wherever_it_was() {
        let mut queue = SlotQueue::new(2);
        let mut asleep = newcomer(Priority::NORMAL);
        asleep.not_before = at(9.0);
        asleep.deadline = at(20.0);
        let asleep = queue.push(asleep, at(0.0));
        let waiting = queue.push(newcomer(Priority::NORMAL), at(0.0));
        assert!(queue.is_full());
        assert!(queue.remove(asleep).is_some());
        assert!(queue.remove(asleep).is_none(), "twice is no error");
        assert!(queue.remove(waiting).is_some());
        assert_eq!((queue.len(), queue.entries().count()), (0, 0));
        assert_eq!((queue.next_wake(), queue.next_deadline()), (None, None));
        let again = queue.push(newcomer(Priority::NORMAL), at(1.0));
        assert!(
            queue.entry(waiting).is_none(),
            "a reused slot is another ticket"
        );
        assert!(queue.entry(again).is_some());
    }

    #[test]
    fn whoever_cannot_be_served_in_time_is_found_early() {
        let mut queue = SlotQueue::new(10);
        let mut patient = newcomer(Priority::NORMAL);
        patient.deadline = at(100.0);
        queue.push(patient, at(0.0));
        let mut hurried = newcomer(Priority::NORMAL);
        hurried.deadline = at(5.0);
        let hurried = queue.push(hurried, at(0.0));
        assert_eq!(queue.hopeless(at(1.0)), None);
        let lane = queue.entry(hurried).expect("alive").lane;
        queue.lane_at_mut(lane).known_until = at(60.0);
        assert_eq!(queue.hopeless(at(1.0)), Some(hurried));
        queue.remove(hurried);
        assert_eq!(queue.hopeless(at(1.0)), None);
        assert_eq!(queue.next_deadline(), Some(at(100.0)));
    }

    #[test]
    fn lanes_keep_their_own_heads() {
        let mut queue = SlotQueue::new(10);
        let one = queue.push(newcomer(Priority::NORMAL), at(0.0));
        let mut other = newcomer(Priority::HIGH);
        other.lane.bucket = 1;
        let other = queue.push(other, at(0.0));
        let heads: Vec<_> = queue.heads().map(|(_, ticket)| ticket).collect();
        assert_eq!(heads, [other, one]);
    }

    #[test]
    fn an_entry_and_its_places_stay_small() {
        // The bar is 256 bytes a waiter, indexes included: two tree nodes of at most 48 bytes each.
        assert!(size_of::<Entry>() <= 160, "{}", size_of::<Entry>());
    }
}
