//! Who waits, and in what order.
//!
//! Asks wait in lanes (what shares its gates: a bucket, and a key where the ask is pinned to one).
//! Within a lane nobody passes the head; lanes do not hold each other up, but where a head waits to
//! have enough of a hard rate that they share. Classes of priority go by how long they have waited for
//! a turn, with a head start of a second per point: strict priority, in which a class that is passed
//! over for as many seconds as there are points between has one grant, however many lanes and tenants
//! it waits in. Within a class tenants have fair shares, and within a tenant it is first come first
//! served. Everything is kept in balanced trees, so every operation is O(log n).

mod asleep;
mod entry;
mod flows;
mod groups;
mod heads;
mod lane;
mod line;
mod order;
mod presence;
mod shut;

use std::collections::{BTreeSet, HashMap, HashSet};

use slab::Slab;
use smallvec::SmallVec;

use super::events::{Name, Priority, Ticket};
use super::explain::{ClassDepth, TenantDepth};
use super::time::Time;
pub(crate) use entry::{Entry, Newcomer, Place};
use flows::Flows;
use groups::Groups;
use heads::Class;
pub(crate) use heads::Head;
use lane::Lane;
pub(crate) use lane::LaneId;
#[cfg(test)]
pub(crate) use order::steps;
pub use presence::{Presence, TenantSettings};
use shut::ShutLanes;

/// The queue of one limiter.
#[derive(Debug)]
pub(crate) struct SlotQueue {
    entries: Slab<Entry>,
    lanes: Slab<Lane>,
    lane_of: HashMap<LaneId, u32>,
    flows: Flows,
    groups: Groups,
    asleep: BTreeSet<(Time, u32)>,
    shut: ShutLanes,
    /// The one who waits, if nobody else does: most asks are granted at once, and pay for no tree.
    express: Option<u32>,
    waiting: usize,
    /// Each class that ever had asks; a handful.
    classes: SmallVec<[Class; 4]>,
    /// How many were granted so far.
    grants: u64,
    bound: usize,
    seq: u64,
}

impl SlotQueue {
    pub(crate) fn new(bound: usize) -> Self {
        let mut lanes = Slab::new();
        lanes.insert(Lane::new(LaneId::DEFAULT));
        Self {
            entries: Slab::new(),
            lanes,
            lane_of: HashMap::new(),
            flows: Flows::default(),
            groups: Groups::default(),
            asleep: BTreeSet::new(),
            shut: ShutLanes::default(),
            express: None,
            waiting: 0,
            classes: SmallVec::new(),
            grants: 0,
            bound,
            seq: 0,
        }
    }

    /// Whether as many wait as may.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting >= self.bound
    }

    /// Sets how many may wait.
    pub(crate) fn set_bound(&mut self, bound: usize) {
        self.bound = bound;
    }

    /// How many wait at or above a priority.
    pub(crate) fn at_or_above(&self, priority: Priority) -> usize {
        let classes = self.classes.iter();
        let above = classes.filter(|class| class.priority >= priority.0);
        above.map(|class| class.waiting).sum()
    }

    /// How many wait, asleep ones included.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// Sets how much more than others a tenant gets.
    pub(crate) fn set_weight(&mut self, tenant: Name, weight: f64) {
        self.flows.set_weight(tenant, weight);
    }

    /// A tenant says that it is there.
    pub(crate) fn on_heartbeat(&mut self, tenant: Name, now: Time) {
        self.flows.roll.on_heartbeat(tenant, now);
    }

    /// Sets when tenants that send heartbeats count as quiet.
    pub(crate) fn set_tenants(&mut self, settings: TenantSettings) {
        self.flows.roll.set(settings);
    }

    /// What waits of the tenants that are gone by now. All at once, so that it is looked for once.
    pub(crate) fn poll_gone(&mut self, now: Time) -> Vec<Ticket> {
        let mut gone = HashSet::new();
        while let Some(tenant) = self.flows.roll.poll_gone(now) {
            gone.extend(self.flows.queued_of(&tenant));
        }
        if gone.is_empty() {
            return Vec::new();
        }
        let entries = self.entries();
        let of_them = entries.filter(|(_, entry)| {
            gone.contains(&entry.flow) && !matches!(entry.place, Place::Attempt(_))
        });
        of_them.map(|(ticket, _)| ticket).collect()
    }

    /// When the next tenant is gone.
    pub(crate) fn next_gone(&self) -> Option<Time> {
        self.flows.roll.next_gone()
    }

    /// How many asks of the same tenant and class wait in a lane, all of which go before a newcomer.
    pub(crate) fn before(&self, lane: LaneId, priority: Priority, tenant: Option<&Name>) -> usize {
        let lane = match lane {
            LaneId::DEFAULT => Some(DEFAULT_LANE),
            lane => self.lane_of.get(&lane).copied(),
        };
        let Some((lane, flow)) = lane.zip(self.flows.find(priority.0, tenant)) else {
            return 0;
        };
        self.lanes[lane as usize].waiting_of(priority.0, flow)
    }

    /// Puts an ask in its place.
    pub(crate) fn push(&mut self, new: Newcomer, now: Time) -> Ticket {
        self.seq += 1;
        if let Some(tenant) = &new.tenant {
            self.flows.roll.on_heard(tenant, now);
        }
        let lane = self.lane(new.lane);
        self.lanes[lane as usize].members += 1;
        let flow = self.flows.join(new.priority.0, new.tenant);
        let slot = self.entries.insert(Entry {
            seq: self.seq,
            submitted: i64::try_from(now.as_nanos()).unwrap_or(i64::MAX),
            place: Place::Attempt(u32::MAX),
            cost: new.cost,
            deadline: new.deadline,
            barred: Box::default(),
            lane,
            bucket: new.lane.bucket,
            flow,
            group: groups::NONE,
            refusals: 0,
            used_up: 0,
            errors: 0,
            key_faults: 0,
            priority: new.priority,
            replay: new.replay,
            cancelled: false,
            patient: new.patient,
        }) as u32;
        if let Some(group) = new.group {
            self.entries[slot as usize].group = self.groups.join(group, slot);
        }
        if self.waiting == 0 && new.not_before <= now {
            self.count(slot, true);
            self.entries[slot as usize].place = Place::Express;
            self.express = Some(slot);
        } else {
            self.wait(slot, new.not_before, now);
        }
        self.ticket(slot)
    }

    /// Gives the one who waits alone a place in its lane: it does not go at once.
    pub(crate) fn settle(&mut self) {
        let Some(slot) = self.express.take() else {
            return;
        };
        self.count(slot, false);
        self.wait(slot, Time::START, Time::START);
    }

    /// The entry of a ticket, if it is still alive.
    pub(crate) fn entry(&self, ticket: Ticket) -> Option<&Entry> {
        let entry = self.entries.get(ticket.slot as usize)?;
        (entry.seq as u32 == ticket.generation).then_some(entry)
    }

    pub(crate) fn entry_mut(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(ticket.slot as usize)?;
        (entry.seq as u32 == ticket.generation).then_some(entry)
    }

    /// The ticket of a slot that is known to be alive.
    fn ticket(&self, slot: u32) -> Ticket {
        Ticket {
            slot,
            generation: self.entries[slot as usize].seq as u32,
        }
    }

    /// The tenant of a live ticket.
    pub(crate) fn tenant(&self, ticket: Ticket) -> Option<&Name> {
        self.flows.flow(self.entry(ticket)?.flow).tenant.as_ref()
    }

    /// How many wait in each class, the highest first, and of each tenant, the most first.
    pub(crate) fn depths(&self, now: Time) -> (Vec<ClassDepth>, Vec<TenantDepth>) {
        self.flows.depths(now)
    }

    pub(crate) fn lane_at(&self, lane: u32) -> &Lane {
        &self.lanes[lane as usize]
    }

    /// Whether there is more than one lane.
    pub(crate) fn has_lanes(&self) -> bool {
        self.lanes.len() > 1
    }

    /// Takes a waiting ticket out of its lane: it has been granted.
    pub(crate) fn take(&mut self, ticket: Ticket, attempt: u32, now: Time) {
        self.leave(ticket.slot);
        let entry = &mut self.entries[ticket.slot as usize];
        entry.place = Place::Attempt(attempt);
        let (flow, cost, lane, priority) = (entry.flow, entry.cost, entry.lane, entry.priority);
        self.move_flow(flow, |flows| flows.charge(flow, &cost, now));
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        self.on_granted(priority.0, lane, now);
    }

    /// Puts a ticket whose attempt has ended back in its old place, out of the queue until
    /// `not_before`.
    pub(crate) fn put_back(&mut self, ticket: Ticket, not_before: Time, now: Time) {
        let entry = &self.entries[ticket.slot as usize];
        let (flow, cost) = (entry.flow, entry.cost);
        self.move_flow(flow, |flows| flows.refund(flow, &cost, now));
        self.wait(ticket.slot, not_before, now);
    }

    /// Puts a ticket whose grant was not taken up out of the order until it resumes.
    pub(crate) fn set_aside(&mut self, ticket: Ticket) {
        self.await_deadline(ticket.slot);
        self.entries[ticket.slot as usize].place = Place::Aside;
    }

    /// Puts a ticket that stands aside back in its old place.
    pub(crate) fn resume(&mut self, ticket: Ticket) {
        if self
            .entry(ticket)
            .is_some_and(|entry| entry.place == Place::Aside)
        {
            self.enter_lane(ticket.slot);
        }
    }

    /// The live tickets of a group.
    pub(crate) fn members(&self, group: &Name) -> Vec<Ticket> {
        let slots = self.groups.members(group);
        slots.into_iter().map(|slot| self.ticket(slot)).collect()
    }

    /// How many tickets of a group have ended with a result; they are not counted again.
    pub(crate) fn take_done(&mut self, group: &Name) -> u64 {
        self.groups.take_done(group)
    }

    /// Puts a live ticket into another group.
    pub(crate) fn move_to_group(&mut self, ticket: Ticket, group: Name) {
        let slot = ticket.slot;
        self.groups
            .part(self.entries[slot as usize].group, slot, false);
        self.entries[slot as usize].group = self.groups.join(group, slot);
    }

    /// Ends a ticket with a result.
    pub(crate) fn end(&mut self, ticket: Ticket) {
        if let Some(entry) = self.entry(ticket) {
            self.groups.part(entry.group, ticket.slot, true);
            self.entries[ticket.slot as usize].group = groups::NONE;
            self.remove(ticket);
        }
    }

    /// Ends a ticket, wherever it is.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Entry> {
        self.entry(ticket)?;
        self.leave(ticket.slot);
        let entry = self.entries.remove(ticket.slot as usize);
        self.groups.part(entry.group, ticket.slot, false);
        self.flows.part(entry.flow);
        let lane = &mut self.lanes[entry.lane as usize];
        lane.members -= 1;
        if lane.members == 0 && lane.id != LaneId::DEFAULT {
            let id = lane.id;
            self.open(entry.lane);
            self.lane_of.remove(&id);
            self.lanes.remove(entry.lane as usize);
        }
        Some(entry)
    }

    /// Every live ticket that waits, in no order.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Ticket> + '_ {
        self.entries()
            .filter(|(_, entry)| !matches!(entry.place, Place::Attempt(_)))
            .map(|(ticket, _)| ticket)
    }

    /// Every live entry, in no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Ticket, &Entry)> + '_ {
        self.entries.iter().map(|(slot, entry)| {
            (
                Ticket {
                    slot: slot as u32,
                    generation: entry.seq as u32,
                },
                entry,
            )
        })
    }

    fn lane(&mut self, id: LaneId) -> u32 {
        if id == LaneId::DEFAULT {
            return DEFAULT_LANE;
        }
        *self
            .lane_of
            .entry(id)
            .or_insert_with(|| self.lanes.insert(Lane::new(id)) as u32)
    }

    fn wait(&mut self, slot: u32, not_before: Time, now: Time) {
        self.await_deadline(slot);
        if not_before > now {
            self.entries[slot as usize].place = Place::Asleep(not_before);
            self.asleep.insert((not_before, slot));
        } else {
            self.enter_lane(slot);
        }
    }

    fn await_deadline(&mut self, slot: u32) {
        // Whoever waits beside another waits in the trees.
        self.settle();
        self.count(slot, true);
        let entry = &self.entries[slot as usize];
        let (deadline, lane) = (entry.deadline, entry.lane);
        if deadline != Time::NEVER {
            self.lanes[lane as usize].deadlines.insert((deadline, slot));
            self.reckon_hopeless(lane);
        }
    }

    fn enter_lane(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.place = Place::Waiting;
        let (class, flow, lane, age) = (entry.priority.0, entry.flow, entry.lane, entry.age(slot));
        self.flows.enter(flow);
        if let Some(oldest) = self.lanes[lane as usize].enter(class, flow, age) {
            self.on_oldest(flow, lane, oldest);
        }
        self.on_head(lane);
    }

    fn leave_lane(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        let (class, flow, lane, age) = (entry.priority.0, entry.flow, entry.lane, entry.age(slot));
        if let Some(oldest) = self.lanes[lane as usize].leave(class, flow, age) {
            self.on_oldest(flow, lane, oldest);
        }
        self.flows.leave(flow);
        self.on_head(lane);
    }

    /// Takes an entry out of every index of those who wait.
    fn leave(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        let (deadline, lane) = (entry.deadline, entry.lane);
        match entry.place {
            Place::Attempt(_) => return,
            Place::Express => {
                self.express = None;
                self.count(slot, false);
                return;
            }
            Place::Aside => {}
            Place::Asleep(until) => {
                self.asleep.remove(&(until, slot));
            }
            Place::Waiting => self.leave_lane(slot),
        }
        if deadline != Time::NEVER {
            self.lanes[lane as usize]
                .deadlines
                .remove(&(deadline, slot));
            self.reckon_hopeless(lane);
        }
        self.count(slot, false);
    }

    /// One more waits, or one less.
    fn count(&mut self, slot: u32, more: bool) {
        let (priority, flow) = {
            let entry = &self.entries[slot as usize];
            (entry.priority, entry.flow)
        };
        self.flows.count(flow, more);
        let class = self.class_mut(priority.0);
        if more {
            class.waiting += 1;
            self.waiting += 1;
        } else {
            class.waiting -= 1;
            self.waiting -= 1;
        }
    }
}

/// The default lane is there from the start and stays.
const DEFAULT_LANE: u32 = 0;

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::super::events::{Cost, KeyId, Reason, Replay};
    use super::super::gates::Shut;
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn newcomer(priority: Priority) -> Newcomer {
        Newcomer {
            lane: LaneId::DEFAULT,
            priority,
            tenant: None,
            cost: Cost::ONE,
            deadline: Time::NEVER,
            patient: true,
            not_before: Time::START,
            group: None,
            replay: Replay::Auto,
        }
    }

    fn heads(queue: &mut SlotQueue) -> Vec<Ticket> {
        let mut round = queue.round();
        std::iter::from_fn(|| queue.next_head(&mut round))
            .map(|head| head.ticket)
            .collect()
    }

    fn head(queue: &mut SlotQueue) -> Option<Ticket> {
        let mut round = queue.round();
        queue.next_head(&mut round).map(|head| head.ticket)
    }

    #[test]
    fn equals_go_first_come_first_served() {
        let mut queue = SlotQueue::new(10);
        let tickets: Vec<_> = (0..3)
            .map(|_| queue.push(newcomer(Priority::NORMAL), at(1.0)))
            .collect();
        for ticket in tickets {
            assert_eq!(head(&mut queue), Some(ticket));
            queue.take(ticket, 0, Time::START);
        }
        assert_eq!(head(&mut queue), None);
    }

    #[test]
    fn a_point_of_priority_is_worth_one_second_of_waiting() {
        let mut queue = SlotQueue::new(10);
        let low = queue.push(newcomer(Priority(10)), at(0.0));
        let high = queue.push(newcomer(Priority(15)), at(4.9));
        assert_eq!(head(&mut queue), Some(high));
        queue.remove(high);
        let late = queue.push(newcomer(Priority(15)), at(5.1));
        assert_eq!(head(&mut queue), Some(low));
        queue.remove(low);
        assert_eq!(head(&mut queue), Some(late));
    }

    #[test]
    fn one_who_slept_comes_back_to_its_old_place() {
        let mut queue = SlotQueue::new(10);
        let first = queue.push(newcomer(Priority::NORMAL), at(0.0));
        let second = queue.push(newcomer(Priority::NORMAL), at(0.0));
        queue.take(first, 0, Time::START);
        queue.put_back(first, at(2.0), at(1.0));
        assert_eq!(head(&mut queue), Some(second));
        assert_eq!(queue.next_wake(), Some(at(2.0)));
        queue.wake(at(2.0));
        assert_eq!(head(&mut queue), Some(first));
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
        assert_eq!((queue.next_wake(), queue.next_hopeless()), (None, None));
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
        let mut round = queue.round();
        let head = queue.next_head(&mut round).expect("they wait");
        let why = Shut::new(at(60.0), Reason::Hint);
        queue.shut(head, why, None, None, at(1.0));
        assert_eq!(queue.hopeless(at(1.0)), Some(hurried));
        queue.remove(hurried);
        assert_eq!(queue.hopeless(at(1.0)), None);
        assert_eq!(queue.next_hopeless(), Some(at(100.0)));
    }

    #[test]
    fn an_ask_stays_away_from_every_key_that_refused_it() {
        let mut queue = SlotQueue::new(10);
        let ticket = queue.push(newcomer(Priority::NORMAL), at(0.0));
        let entry = queue.entry_mut(ticket).expect("alive");
        let [one, other, third] = [0, 1, 2].map(KeyId);
        entry.bar(one, at(1.0), at(0.0));
        entry.bar(other, at(9.0), at(0.5));
        assert_eq!(entry.barred_until(one), at(1.0));
        assert_eq!(entry.barred_until(other), at(9.0));
        entry.bar(third, at(3.0), at(2.0));
        let kept = [one, other, third].map(|key| entry.barred_until(key));
        assert_eq!(
            kept,
            [Time::START, at(9.0), at(3.0)],
            "what is over is forgotten"
        );
    }

    #[test]
    fn lanes_keep_their_own_heads() {
        let mut queue = SlotQueue::new(10);
        let one = queue.push(newcomer(Priority::NORMAL), at(0.0));
        let mut other = newcomer(Priority::HIGH);
        other.lane.bucket = 1;
        let other = queue.push(other, at(0.0));
        assert_eq!(heads(&mut queue), [other, one]);
    }

    #[test]
    fn tenants_take_turns_within_a_class_and_each_keeps_its_own_order() {
        let mut queue = SlotQueue::new(100);
        let mut push = |tenant: &'static str| {
            let mut new = newcomer(Priority::NORMAL);
            new.tenant = Some(tenant.into());
            queue.push(new, at(0.0))
        };
        let many: Vec<_> = (0..4).map(|_| push("many")).collect();
        let few: Vec<_> = (0..2).map(|_| push("few")).collect();
        let mut order = Vec::new();
        while let Some(ticket) = head(&mut queue) {
            queue.take(ticket, 0, Time::START);
            order.push(ticket);
        }
        assert_eq!(order, [many[0], few[0], many[1], few[1], many[2], many[3]]);
    }

    #[test]
    fn a_tenant_with_a_pinned_lane_as_well_gets_no_second_share() {
        let mut queue = SlotQueue::new(1000);
        for n in 0..100 {
            let mut new = newcomer(Priority::NORMAL);
            new.tenant = Some(if n % 2 == 0 { "both" } else { "one" }.into());
            if n % 4 == 0 {
                new.lane.pin = Some(KeyId(0));
            }
            queue.push(new, at(0.0));
        }
        let mut granted = [0, 0];
        for _ in 0..40 {
            let ticket = head(&mut queue).expect("they wait");
            let is_both = queue.entry(ticket).expect("alive").seq % 2 == 1;
            granted[usize::from(is_both)] += 1;
            queue.take(ticket, 0, Time::START);
        }
        assert_eq!(granted, [20, 20]);
    }

    #[test]
    fn one_alone_takes_its_turn_with_whoever_comes_beside_it() {
        let mut queue = SlotQueue::new(10);
        let first = queue.push(newcomer(Priority::NORMAL), at(0.0));
        queue.take(first, 0, Time::START);
        let alone = queue.push(newcomer(Priority::NORMAL), at(0.5));
        queue.put_back(first, at(0.0), at(1.0));
        assert_eq!(
            head(&mut queue),
            Some(first),
            "the older one, though it came back later"
        );
        queue.take(first, 0, Time::START);
        assert_eq!(head(&mut queue), Some(alone));
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn a_hundred_thousand_of_a_thousand_tenants_cost_a_logarithm_each() {
        // What an ask costs from its place to its grant: comparisons in all trees.
        let steps_of = |asks: usize, tenants: usize| {
            let mut queue = SlotQueue::new(usize::MAX);
            let mut push = |n: usize| {
                let mut new = newcomer(Priority([10, 50, 85][n % 3]));
                new.tenant = Some(format!("tenant {}", n * 7 % tenants).into());
                // Nobody's place is at the end of a tree just because it came last.
                let age = Time::from_nanos((n as u64).wrapping_mul(0x9E37_79B9) % 1_000_000_007);
                queue.push(new, age);
            };
            steps::take();
            (0..asks).for_each(&mut push);
            let mut dearest = 0;
            let mut all = steps::take();
            while let Some(ticket) = head(&mut queue) {
                queue.take(ticket, 0, Time::START);
                queue.remove(ticket);
                let steps = steps::take();
                dearest = dearest.max(steps);
                all += steps;
            }
            (all as f64 / asks as f64, dearest)
        };
        let (few, _) = steps_of(1_000, 1_000);
        let (many, dearest) = steps_of(100_000, 1_000);
        // A hundred times as many.
        assert!(many <= 2.5 * few, "{few} {many}");
        assert!(many <= 12.0 * 100_000_f64.log2(), "{many}");
        assert!(
            dearest <= 600,
            "the dearest of all took {dearest} comparisons"
        );
    }

    #[test]
    fn the_order_that_is_kept_is_the_one_that_would_be_made() {
        for seed in 0..200 {
            let mut random = SmallRng::seed_from_u64(seed);
            let mut queue = SlotQueue::new(usize::MAX);
            let mut waiting = Vec::new();
            for n in 1..60 {
                let mut new = newcomer(Priority([10, 11, 50][random.random_range(0..3)]));
                new.lane.bucket = random.random_range(0..4);
                let tenant = random.random_range(0..3);
                new.tenant = (tenant > 0).then(|| format!("tenant {tenant}").into());
                // Whole seconds, so that a point of priority is often made good for to the moment.
                let age = at(f64::from(random.random_range(0..4)));
                waiting.push(queue.push(new, age));
                queue.settle();
                if random.random_bool(0.4) {
                    let ticket = waiting.swap_remove(random.random_range(0..waiting.len()));
                    queue.take(ticket, 0, at(f64::from(random.random_range(0..50))));
                    if random.random_bool(0.5) {
                        queue.put_back(ticket, Time::START, at(9.0));
                        waiting.push(ticket);
                    } else {
                        queue.remove(ticket);
                    }
                }
                queue.look_again(n, Time::START);
                queue.open_bucket(7);
                let made = queue.all_heads();
                let mut round = queue.round();
                let mut kept = Vec::new();
                while let Some(head) = queue.next_head(&mut round) {
                    kept.push(head);
                    let by_bucket = random.random_bool(0.5).then_some(7);
                    let why = Shut::new(at(60.0), Reason::Limit);
                    queue.shut(head, why, by_bucket, None, Time::START);
                }
                assert_eq!(kept, made, "seed {seed}, after {n}");
            }
        }
    }

    #[test]
    fn an_entry_and_its_places_stay_small() {
        // The bar is 256 bytes a waiter, with a place by age, one by deadline, and free slots.
        assert!(size_of::<Entry>() <= 104, "{}", size_of::<Entry>());
    }
}
