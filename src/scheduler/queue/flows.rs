//! Fair shares between the tenants of a class, by cost.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng, 1996), with the tag on the tenant instead of on
//! each ask: a tenant's tag grows by what it was granted, divided by its weight; the lowest tag
//! goes next; who comes back or comes new starts at the tag that is being served. So one active
//! tenant gets everything, a newcomer gets its share with the next grant, and what was cancelled
//! costs its tenant nothing. The tags are one set for all lanes: asks that are pinned to a key
//! count like the others.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};

use slab::Slab;
use smallvec::SmallVec;

use super::super::events::{Cost, Name, Priority};
use super::super::explain::{ClassDepth, TenantDepth};
use super::super::time::Time;
use super::order::{Age, Turn};
use super::presence::{Presence, Roll};

/// The tenants of one limiter that have asks, class by class.
#[derive(Debug, Default)]
pub(super) struct Flows {
    flows: Slab<Flow>,
    /// The flows of each tenant, by class; a handful.
    of: HashMap<Name, SmallVec<[(u8, u32); 2]>>,
    /// The flows of asks without a tenant, by class. They stay.
    anonymous: SmallVec<[(u8, u32); 4]>,
    /// The tag that was served last, per class.
    served: SmallVec<[(u8, u64); 4]>,
    turns: u64,
    weights: HashMap<Name, f64>,
    pub(super) roll: Roll,
    /// Tenants that had no asks any more, oldest first, and the number of that rest: their tags are
    /// kept for a while.
    idle: VecDeque<(u32, u64)>,
    rests: u64,
}

/// The asks of one tenant in one class.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) class: u8,
    pub(super) tenant: Option<Name>,
    tag: u64,
    turn: u64,
    /// Live asks, waiting or in flight.
    members: u32,
    /// Asks that wait in lanes.
    waiting: u32,
    /// Asks that wait anywhere.
    queued: u32,
    /// The number of its last rest: where it stands among those without asks.
    rest: u64,
    /// The oldest ask of each lane in which it waits, by age. A lane that is shut may be missing.
    pub(super) heads: BTreeSet<(Age, u32)>,
}

impl Flows {
    /// The flow of a new ask.
    pub(super) fn join(&mut self, class: u8, tenant: Option<Name>) -> u32 {
        if let Some(flow) = self.find(class, tenant.as_ref()) {
            self.flows[flow as usize].members += 1;
            return flow;
        }
        let flow = self.flows.insert(Flow {
            class,
            tenant: tenant.clone(),
            tag: 0,
            turn: 0,
            members: 1,
            waiting: 0,
            queued: 0,
            rest: 0,
            heads: BTreeSet::new(),
        }) as u32;
        match tenant {
            None => self.anonymous.push((class, flow)),
            Some(tenant) => self.of.entry(tenant).or_default().push((class, flow)),
        }
        flow
    }

    /// The flow of a tenant, if it has or had asks.
    pub(super) fn find(&self, class: u8, tenant: Option<&Name>) -> Option<u32> {
        let flows = match tenant {
            None => self.anonymous.as_slice(),
            Some(tenant) => self.of.get(tenant)?.as_slice(),
        };
        let own = flows.iter().find(|&&(other, _)| other == class);
        own.map(|&(_, flow)| flow)
    }

    /// An ask of the flow has ended.
    pub(super) fn part(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        state.members -= 1;
        if state.members > 0 || state.tenant.is_none() {
            return;
        }
        self.rests += 1;
        state.rest = self.rests;
        self.idle.push_back((flow, self.rests));
        if self.idle.len() > IDLE {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((flow, rest)) = self.idle.pop_front() else {
            return;
        };
        // It may have come back since, or have come back and left again.
        let state = self.flows.get(flow as usize);
        if state.is_some_and(|state| state.members == 0 && state.rest == rest) {
            let state = self.flows.remove(flow as usize);
            if let Some(tenant) = state.tenant
                && let Entry::Occupied(mut flows) = self.of.entry(tenant)
            {
                flows.get_mut().retain(|&mut (_, other)| other != flow);
                if flows.get().is_empty() {
                    flows.remove();
                }
            }
        }
    }

    /// An ask of the flow begins to wait in a lane.
    pub(super) fn enter(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        state.waiting += 1;
        if state.waiting > 1 {
            return;
        }
        let served = self.served.iter().find(|&&(class, _)| class == state.class);
        state.tag = state.tag.max(served.map_or(0, |&(_, tag)| tag));
        self.turns += 1;
        state.turn = self.turns;
    }

    /// An ask of the flow waits in a lane no longer.
    pub(super) fn leave(&mut self, flow: u32) {
        self.flows[flow as usize].waiting -= 1;
    }

    /// One of the flow waits more, or one less, wherever it does.
    pub(super) fn count(&mut self, flow: u32, more: bool) {
        let queued = &mut self.flows[flow as usize].queued;
        if more {
            *queued += 1;
        } else {
            *queued -= 1;
        }
    }

    /// The flows of a tenant that wait for anything.
    pub(super) fn queued_of(&self, tenant: &Name) -> impl Iterator<Item = u32> + '_ {
        let flows = self.of.get(tenant).into_iter().flatten();
        let flows = flows.map(|&(_, flow)| flow);
        flows.filter(|&flow| self.flows[flow as usize].queued > 0)
    }

    /// Puts a lane into the list of a flow. Its turn, if it had none there.
    pub(super) fn link(&mut self, flow: u32, age: Age, lane: u32) -> Option<Turn> {
        let heads = &mut self.flows[flow as usize].heads;
        let is_first = heads.is_empty();
        heads.insert((age, lane));
        is_first.then(|| self.turn(flow))
    }

    /// Takes a lane out of the list of a flow. Its turn, if that was the last.
    pub(super) fn unlink(&mut self, flow: u32, age: Age, lane: u32) -> Option<Turn> {
        let heads = &mut self.flows[flow as usize].heads;
        let was_last = heads.remove(&(age, lane)) && heads.is_empty();
        was_last.then(|| self.turn(flow))
    }

    /// The order of a flow.
    pub(super) fn turn(&self, flow: u32) -> Turn {
        let state = &self.flows[flow as usize];
        Turn {
            tag: state.tag,
            since: state.turn,
            flow,
        }
    }

    pub(super) fn flow(&self, flow: u32) -> &Flow {
        &self.flows[flow as usize]
    }

    /// How many wait in each class, the highest first, and of each tenant, the most first.
    pub(super) fn depths(&self, now: Time) -> (Vec<ClassDepth>, Vec<TenantDepth>) {
        let mut classes: HashMap<u8, usize> = HashMap::new();
        let mut tenants: HashMap<Option<&Name>, usize> = HashMap::new();
        for (_, flow) in &self.flows {
            let waiting = flow.queued as usize;
            if waiting > 0 {
                *classes.entry(flow.class).or_default() += waiting;
                *tenants.entry(flow.tenant.as_ref()).or_default() += waiting;
            }
        }
        let mut classes: Vec<_> = classes
            .into_iter()
            .map(|(class, waiting)| ClassDepth {
                priority: Priority(class),
                waiting,
            })
            .collect();
        classes.sort_unstable_by_key(|class| Reverse(class.priority));
        let mut tenants: Vec<_> = tenants
            .into_iter()
            .map(|(tenant, waiting)| TenantDepth {
                presence: tenant.map_or(Presence::Active, |name| self.roll.presence(name, now)),
                tenant: tenant.cloned(),
                waiting,
            })
            .collect();
        tenants.sort_unstable_by(|a, b| b.waiting.cmp(&a.waiting).then(a.tenant.cmp(&b.tenant)));
        (classes, tenants)
    }

    /// An ask of the flow was granted.
    pub(super) fn charge(&mut self, flow: u32, cost: &Cost, now: Time) {
        let price = self.price(flow, cost, now);
        self.turns += 1;
        let state = &mut self.flows[flow as usize];
        match self
            .served
            .iter_mut()
            .find(|(class, _)| *class == state.class)
        {
            Some((_, served)) => *served = (*served).max(state.tag),
            None => self.served.push((state.class, state.tag)),
        }
        state.tag = state.tag.saturating_add(price);
        state.turn = self.turns;
    }

    /// What was granted was refused, and will be granted once more.
    pub(super) fn refund(&mut self, flow: u32, cost: &Cost, now: Time) {
        let price = self.price(flow, cost, now);
        let state = &mut self.flows[flow as usize];
        state.tag = state.tag.saturating_sub(price);
    }

    /// How much more than others a tenant gets: twice the weight, twice the share. Default 1.
    pub(super) fn set_weight(&mut self, tenant: Name, weight: f64) {
        if weight == 1.0 {
            self.weights.remove(&tenant);
        } else {
            self.weights.insert(tenant, weight.clamp(1e-3, 1e3));
        }
    }

    fn price(&self, flow: u32, cost: &Cost, now: Time) -> u64 {
        let price = cost.size() * PRICE;
        let Some(tenant) = &self.flows[flow as usize].tenant else {
            return price as u64;
        };
        let weight = self.weights.get(tenant).copied().unwrap_or(1.0);
        (price * self.roll.presence(tenant, now).price() / weight) as u64
    }
}

/// The price of the smallest cost at weight 1, so that weights up to 1,000 keep three digits.
const PRICE: f64 = 1e6;
/// Idle tenants whose tag is kept, lest a tenant that sends one ask at a time is always new.
const IDLE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Grants `count` asks among flows that always wait, and answers what each was granted.
    fn shares(flows: &mut Flows, asks: &[(u32, Cost)], count: usize) -> Vec<f64> {
        let mut granted = vec![0.0; asks.len()];
        for _ in 0..count {
            let next = (0..asks.len())
                .min_by_key(|&n| flows.turn(asks[n].0))
                .expect("some");
            flows.charge(asks[next].0, &asks[next].1, Time::START);
            granted[next] += asks[next].1.size();
        }
        granted
    }

    fn tenants(flows: &mut Flows, names: &[&'static str]) -> Vec<u32> {
        let joined = names.iter().map(|&name| flows.join(50, Some(name.into())));
        let joined: Vec<_> = joined.collect();
        joined.iter().for_each(|&flow| {
            flows.enter(flow);
        });
        joined
    }

    #[test]
    fn shares_are_equal_by_cost_and_not_by_count() {
        let mut flows = Flows::default();
        let ids = tenants(&mut flows, &["a", "b", "c"]);
        let costs = [Cost::tokens(1000), Cost::tokens(100), Cost::tokens(300)];
        let asks: Vec<_> = ids.into_iter().zip(costs).collect();
        let granted = shares(&mut flows, &asks, 3000);
        let least = granted.iter().copied().fold(f64::MAX, f64::min);
        let most = granted.iter().copied().fold(0.0, f64::max);
        assert!(most / least < 1.01, "{granted:?}");
    }

    #[test]
    fn twice_the_weight_is_twice_the_share() {
        let mut flows = Flows::default();
        flows.set_weight("a".into(), 2.0);
        let ids = tenants(&mut flows, &["a", "b"]);
        let asks: Vec<_> = ids.into_iter().map(|flow| (flow, Cost::ONE)).collect();
        assert_eq!(shares(&mut flows, &asks, 300), [200.0, 100.0]);
    }

    #[test]
    fn a_newcomer_neither_waits_for_what_others_had_nor_catches_up_on_it() {
        let mut flows = Flows::default();
        let old = tenants(&mut flows, &["old"])[0];
        shares(&mut flows, &[(old, Cost::ONE)], 10_000);
        let new = tenants(&mut flows, &["new"])[0];
        let granted = shares(&mut flows, &[(old, Cost::ONE), (new, Cost::ONE)], 10);
        assert!(granted[1] >= 5.0 && granted[0] >= 4.0, "{granted:?}");
    }

    #[test]
    fn a_million_tenants_leave_no_more_than_the_idle_ones_behind() {
        let mut flows = Flows::default();
        for n in 0..100_000 {
            let flow = flows.join(50, Some(format!("tenant {n}").into()));
            flows.enter(flow);
            flows.charge(flow, &Cost::ONE, Time::START);
            flows.leave(flow);
            flows.part(flow);
        }
        assert!(flows.of.len() <= IDLE + 1, "{}", flows.of.len());
    }
}
