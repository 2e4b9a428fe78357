//! People and background jobs on the same keys: who waits how long, and what each gets.

use std::collections::BTreeMap;

use paceline::scheduler::Presence;
use paceline::scheduler::events::{Refusal, Ticket};
use paceline::{Ask, Cost, Priority, Replay, Time};

use crate::support::machine::{Machine, answer, at, fingerprint, served};
use crate::support::service::{Service, fixed, percentile};

#[test]
fn with_ten_times_the_load_in_the_background_a_person_waits_one_service_time_and_one_interval() {
    // 5 keys, 10 a second each, 200 ms an answer, at most 2 in flight per key: 50 a second.
    let (takes, interval) = (0.2, 0.1);
    let mut settings = fixed(2, &["1/100ms"]);
    settings.queue = 1_000_000;
    let mut service = Service::new(settings, 5, takes);
    let mut asked: BTreeMap<Ticket, (Time, bool)> = BTreeMap::new();
    let (mut waits, mut background) = (Vec::new(), 0_u32);
    // Longer than there are points between the classes, and than people are patient.
    let seconds = 200;
    for tick in 0..seconds * 10 {
        for _ in 0..50 {
            let ticket = service
                .machine
                .submit(Ask::new().priority(Priority::BACKGROUND));
            asked.insert(ticket, (service.machine.now, false));
        }
        // Five people a second, a tenth of the capacity.
        if tick % 2 == 0 {
            let ticket = service.machine.submit(Ask::new().priority(Priority::HIGH));
            asked.insert(ticket, (service.machine.now, true));
        }
        service.run(0.1 * f64::from(tick + 1), |machine, ticket| {
            let (since, high) = asked.remove(&ticket).expect("it was asked");
            if high {
                waits.push(machine.now.secs_since(since));
            } else {
                background += 1;
            }
        });
    }
    let p99 = percentile(&mut waits, 0.99);
    assert!(p99 <= takes + interval + 1e-9, "{p99} s");
    assert_eq!(waits.len(), 1_000);
    // All that is left goes to the background: 50 a second less 5.
    let share = f64::from(background) / f64::from(seconds);
    assert!(share >= 44.0, "{share} a second");
}

#[test]
fn a_queue_below_that_spreads_over_buckets_holds_nobody_up_either() {
    // The bucket whose asks are oldest has every grant of its class; that the other had none for
    // long is no reason to put both before people.
    let mut service = Service::new(fixed(1, &["1/100ms"]), 1, 0.05);
    let background = |bucket: &'static str| Ask::new().bucket(bucket).priority(Priority(10));
    for _ in 0..3_000 {
        service.machine.submit(background("a"));
    }
    service.run(1.0, |_, _| {});
    for _ in 0..3_000 {
        service.machine.submit(background("b"));
    }
    let mut longest = 0.0_f64;
    for second in 1..250 {
        service.run(f64::from(second), |_, _| {});
        // One in either bucket once stood behind its old asks, which all those of the other preceded.
        let mut person = Ask::new().priority(Priority::HIGH);
        if let Some(bucket) = [None, Some("a"), Some("b")][second as usize % 3] {
            person = person.bucket(bucket);
        }
        let person = service.machine.submit(person);
        let since = service.machine.now;
        let mut waited = None;
        service.run(f64::from(second) + 0.9, |machine, ticket| {
            if ticket == person {
                waited = Some(machine.now.secs_since(since));
            }
        });
        longest = longest.max(waited.unwrap_or(f64::INFINITY));
        assert!(service.machine.scheduler.depth().0 >= 3_000);
    }
    assert!(longest <= 0.2 + 1e-9, "{longest}");
}

#[test]
fn people_that_come_to_many_buckets_wait_in_none_for_what_is_old_there() {
    // They want two thirds of what there is. Asks of the background have waited in every bucket for longer
    // than there are points between: one that went before each of people would double that.
    let mut service = Service::new(fixed(1, &["1/100ms"]), 1, 0.05);
    let ask = |n: u32| Ask::new().bucket(format!("bucket {n}"));
    for n in 0..2_400 {
        let below = ask(n % 600).priority(Priority::BACKGROUND);
        service.machine.submit(below);
    }
    let mut longest = 0.0_f64;
    let mut people = BTreeMap::new();
    for tick in 0..1_000 {
        service.run(80.0 + 0.15 * f64::from(tick), |machine, ticket| {
            if let Some(since) = people.remove(&ticket) {
                longest = longest.max(machine.now.secs_since(since));
            }
        });
        let person = ask(tick * 7 % 600).priority(Priority::HIGH);
        people.insert(service.machine.submit(person), service.machine.now);
    }
    assert!(longest <= 0.2 + 1e-9, "{longest}");
    assert!(people.len() <= 1, "{people:?}");
}

#[test]
fn who_waits_behind_people_at_a_busy_key_has_turns_though_others_below_go_freely_elsewhere() {
    // People want twice what the first key has; the second serves the background alone. In a bucket of
    // their own they are no less in its way.
    for bucket in ["default", "people"] {
        let mut service = Service::new(fixed(1, &["1/100ms"]), 2, 0.05);
        let ask = |priority| Ask::new().priority(priority);
        let [busy, free] = [fingerprint(1), fingerprint(2)];
        let below = ask(Priority::BACKGROUND).bucket("default").pin(busy);
        let below: Vec<_> = (0..10)
            .map(|_| service.machine.submit(below.clone()))
            .collect();
        for _ in 0..4_000 {
            service.machine.submit(ask(Priority::BACKGROUND).pin(free));
        }
        let mut turns = Vec::new();
        for tick in 0..3_500 {
            for _ in 0..2 {
                let person = ask(Priority::HIGH).bucket(bucket).pin(busy);
                service.machine.submit(person);
            }
            service.run(0.1 * f64::from(tick + 1), |machine, ticket| {
                if below.contains(&ticket) {
                    turns.push(machine.now.as_secs_f64());
                }
            });
        }
        let mut last = 0.0;
        for turn in &turns {
            assert!((74.8..=75.5).contains(&(turn - last)), "{turns:?}");
            last = *turn;
        }
        assert_eq!(turns.len(), 4, "{turns:?}");
    }
}

#[test]
fn asks_below_that_come_back_one_by_one_have_one_turn_for_all_and_not_one_each() {
    // Sent in a quiet minute, they failed and return after 75 s and more of people.
    let mut machine = Machine::new(fixed(64, &["1/100ms"]), 1);
    let below = Ask::new().priority(Priority::BACKGROUND);
    let below = below.replay(Replay::Always);
    let below: Vec<_> = (0..40).map(|_| machine.submit(below.clone())).collect();
    for _ in &below {
        let ticket = machine.next_grant().expect("a grant").ticket;
        let waits = machine.settle(ticket, &answer(500, &[("retry-after", "100")], ""));
        assert!(waits);
    }
    machine.now = at(90.0);
    for _ in 0..1_000 {
        machine.submit(Ask::new().priority(Priority::HIGH));
    }
    let mut turns = 0;
    while machine.now < at(150.0) {
        let ticket = machine.next_grant().expect("a grant").ticket;
        turns += usize::from(below.contains(&ticket));
        let _: bool = machine.settle(ticket, &served());
    }
    // The last one before was sent at 4 s.
    assert_eq!(turns, 1);
}

#[test]
fn the_background_gets_its_turn_though_people_ask_for_more_than_there_is() {
    // 10 a second, and people ask for 20. 75 points are between them and the background, 20 between
    // normal and low: so many seconds after its last turn each has one.
    for (high, low) in [(85, 10), (50, 30)] {
        let mut service = Service::new(fixed(1, &["1/100ms"]), 1, 0.05);
        let ask = |priority| Ask::new().priority(Priority(priority));
        let waiting: Vec<_> = (0..100).map(|_| service.machine.submit(ask(low))).collect();
        let mut turns = Vec::new();
        for tick in 0..4_000 {
            for _ in 0..2 {
                service.machine.submit(ask(high));
            }
            service.run(0.1 * f64::from(tick + 1), |machine, ticket| {
                if waiting.contains(&ticket) {
                    turns.push(machine.now.as_secs_f64());
                }
            });
        }
        let bound = f64::from(high - low);
        let mut last = 0.0;
        for turn in &turns {
            let gap = turn - last;
            assert!((bound - 0.2..=bound + 0.2).contains(&gap), "{turns:?}");
            last = *turn;
        }
        assert_eq!(turns.len(), (400.0 / (bound + 0.1)) as usize, "{turns:?}");
    }
}

/// Tenants that always have asks waiting: what each is granted within ten seconds, by cost.
fn shares(tenants: usize, costs: bool, pinned: bool) -> Vec<f64> {
    // 4 keys, 25 a second each, or 2,500 tokens.
    let rate = if costs { "500 tokens/200ms" } else { "1/40ms" };
    let mut service = Service::new(fixed(64, &[rate]), 4, 0.05);
    let cost = |tenant: usize| {
        if costs && tenant.is_multiple_of(2) {
            100
        } else {
            10
        }
    };
    let mut of = BTreeMap::new();
    let mut asks = 0_usize;
    let mut ask = |machine: &mut Machine, tenant: usize| {
        asks += 1;
        let mut ask = Ask::new().tenant(format!("tenant {tenant}"));
        if costs {
            ask = ask.cost(Cost::tokens(cost(tenant)));
        }
        if pinned && asks.is_multiple_of(3) {
            ask = ask.pin(fingerprint(1 + (asks / 3 % 4) as u8));
        }
        machine.submit(ask)
    };
    for _ in 0..400 {
        for tenant in 0..tenants {
            let ticket = ask(&mut service.machine, tenant);
            of.insert(ticket, tenant);
        }
    }
    let mut granted = vec![0.0; tenants];
    service.run(10.0, |machine, ticket| {
        let tenant = of.remove(&ticket).expect("it was asked");
        granted[tenant] += if costs { f64::from(cost(tenant)) } else { 1.0 };
        let next = ask(machine, tenant);
        of.insert(next, tenant);
    });
    granted
}

#[test]
fn tenants_get_equal_shares_whatever_they_cost_and_wherever_they_are_pinned() {
    for tenants in [1, 3, 5, 11] {
        for (costs, pinned) in [(false, false), (true, false), (false, true), (true, true)] {
            let granted = shares(tenants, costs, pinned);
            let fair = granted.iter().sum::<f64>() / tenants as f64;
            let all = if costs { 100_000.0 } else { 1_000.0 };
            assert!(fair * tenants as f64 >= 0.95 * all, "{granted:?}");
            for share in &granted {
                let off = (share - fair).abs() / fair;
                assert!(off <= 0.05, "{tenants} {costs} {pinned}: {granted:?}");
            }
        }
    }
}

#[test]
fn a_newcomer_has_its_share_within_one_request_and_a_tenant_that_stops_gives_it_back() {
    let mut service = Service::new(fixed(1, &["1/100ms"]), 1, 0.05);
    let mut of = BTreeMap::new();
    for _ in 0..600 {
        of.insert(service.machine.submit(Ask::new().tenant("old")), "old");
    }
    let mut order = Vec::new();
    service.run(10.0, |_, ticket| order.push(of[&ticket]));
    assert!(order.len() >= 99 && order.iter().all(|&tenant| tenant == "old"));
    order.clear();
    for _ in 0..20 {
        of.insert(service.machine.submit(Ask::new().tenant("new")), "new");
    }
    service.run(20.0, |_, ticket| order.push(of[&ticket]));
    let came = order.iter().position(|&tenant| tenant == "new");
    assert!(came.is_some_and(|place| place <= 1), "{order:?}");
    let in_turn = order[..40]
        .iter()
        .filter(|&&tenant| tenant == "new")
        .count();
    assert!((19..=20).contains(&in_turn), "{order:?}");
    assert!(order[41..].iter().all(|&tenant| tenant == "old"));
}

#[test]
fn who_sends_heartbeats_and_stops_has_a_tenth_then_a_hundredth_then_nothing() {
    let mut service = Service::new(fixed(1, &["1/100ms"]), 1, 0.05);
    let mut of = BTreeMap::new();
    service
        .machine
        .scheduler
        .on_heartbeat("left".into(), at(0.0));
    for _ in 0..6_000 {
        for tenant in ["left", "stays"] {
            of.insert(service.machine.submit(Ask::new().tenant(tenant)), tenant);
        }
    }
    let mut shares: Vec<f64> = Vec::new();
    for (from, until) in [(0.0, 55.0), (65.0, 175.0), (190.0, 400.0)] {
        service.run(from, |_, _| {});
        let mut granted = BTreeMap::from([("left", 0.0_f64), ("stays", 0.0)]);
        service.run(until, |_, ticket| {
            *granted.get_mut(of[&ticket]).expect("known") += 1.0;
        });
        shares.push(granted["left"] / granted["stays"]);
    }
    assert!((shares[0] - 1.0).abs() < 0.02, "{shares:?}");
    assert!((shares[1] - 0.1).abs() < 0.01, "{shares:?}");
    assert!(shares[2] <= 0.02, "{shares:?}");
    let tenants = service
        .machine
        .scheduler
        .explain(service.machine.now)
        .tenants;
    let left = tenants
        .iter()
        .find(|tenant| tenant.tenant == Some("left".into()));
    assert_eq!(left.map(|left| left.presence), Some(Presence::Away));
    service.run(600.0, |_, _| {});
    let gone: Vec<_> = std::iter::from_fn(|| service.machine.refusal()).collect();
    assert!(gone.len() > 4_000, "{}", gone.len());
    for (ticket, refusal) in gone {
        assert_eq!((of[&ticket], refusal), ("left", Refusal::TenantGone));
    }
    let tenants = service
        .machine
        .scheduler
        .explain(service.machine.now)
        .tenants;
    assert!(
        tenants
            .iter()
            .all(|tenant| tenant.tenant == Some("stays".into()))
    );
}

#[test]
fn one_whose_tenant_is_gone_is_told_at_that_moment_though_nothing_else_happens() {
    let mut machine = Machine::new(fixed(1, &["1/1h"]), 1);
    machine.submit(Ask::new());
    machine.grant().expect("a grant");
    machine.scheduler.on_heartbeat("left".into(), at(0.0));
    let ticket = machine.submit(Ask::new().tenant("left"));
    assert_eq!(machine.grant(), None);
    let next = machine.scheduler.poll_timeout().expect("it is looked for");
    assert_eq!(next, at(600.0));
    machine.now = next;
    assert_eq!(machine.refusal(), Some((ticket, Refusal::TenantGone)));
}
