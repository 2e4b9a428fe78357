//! Who goes first, who may pass whom, and how many may wait.

use std::collections::BTreeMap;

use paceline::scheduler::events::{Refusal, Verdict};
use paceline::{Ask, Ceiling, Cost, Priority, Replay, Settings};

use crate::support::machine::{Machine, answer, at, fingerprint, refused, secs, served};
use crate::support::service::{Service, fixed};

/// One at a time.
fn one_by_one() -> Machine {
    let mut settings = Settings::default();
    settings.max_concurrency = Some(1);
    Machine::new(settings, 1)
}

fn ceiling(text: &str) -> Settings {
    let mut settings = Settings::default();
    settings.ceilings = vec![text.parse::<Ceiling>().expect("a ceiling")];
    settings
}

#[test]
fn a_tapped_hotel_overtakes_the_background() {
    let mut machine = one_by_one();
    let background: Vec<_> = (0..5)
        .map(|_| machine.submit(Ask::new().priority(Priority::BACKGROUND)))
        .collect();
    let first = machine.grant().expect("a grant").ticket;
    assert_eq!(first, background[0]);
    let tapped = machine.submit(Ask::new().priority(Priority::SELECTED));
    machine.settle(first, &served());
    assert_eq!(machine.next_grant().map(|grant| grant.ticket), Some(tapped));
}

#[test]
fn the_background_is_overtaken_for_as_long_as_the_points_say_and_no_longer() {
    let mut machine = one_by_one();
    let low = machine.submit(Ask::new().priority(Priority(10)));
    let mut served_high = 0;
    loop {
        let high = machine.submit(Ask::new().priority(Priority(30)));
        let grant = machine.next_grant().expect("a grant");
        machine.pass(1.0);
        machine.settle(grant.ticket, &served());
        if grant.ticket == low {
            machine.scheduler.cancel(high);
            break;
        }
        served_high += 1;
    }
    assert!(
        (19..=21).contains(&served_high),
        "{served_high} went first at 20 points"
    );
}

#[test]
fn a_retry_keeps_its_place() {
    // AD-21: a refused one slept while steady newcomers went on passing it.
    let mut machine = one_by_one();
    let first = machine.submit(Ask::new());
    let others: Vec<_> = (0..3).map(|_| machine.submit(Ask::new())).collect();
    machine.grant().expect("a grant");
    let verdict = machine.end(first, &refused(2));
    assert!(matches!(verdict, Verdict::Again { .. }));
    let mut order = Vec::new();
    for _ in 0..4 {
        let grant = machine.next_grant().expect("a grant");
        machine.pass(0.05);
        machine.settle(grant.ticket, &served());
        order.push(grant.ticket);
    }
    assert_eq!(order, [first, others[0], others[1], others[2]]);
}

#[test]
fn nobody_passes_the_head_of_a_lane_and_lanes_do_not_hold_each_other_up() {
    let mut machine = Machine::new(ceiling("1000 tokens/1m"), 1);
    let large = |bucket: &'static str| Ask::new().cost(Cost::tokens(800)).bucket(bucket);
    let first = machine.submit(large("a"));
    machine.next_grant().expect("a grant");
    machine.settle(first, &served());
    let head = machine.submit(large("a"));
    machine.submit(Ask::new().cost(Cost::tokens(100)).bucket("a"));
    let elsewhere = machine.submit(Ask::new().cost(Cost::tokens(100)).bucket("b"));
    assert_eq!(
        machine.next_grant().map(|grant| grant.ticket),
        Some(elsewhere)
    );
    assert_eq!(machine.next_grant().map(|grant| grant.ticket), Some(head));
    assert!(machine.now >= at(60.0));
}

#[test]
fn one_who_waits_in_vain_is_told_at_once_and_holds_up_nobody() {
    // The machine named the moment of the one who had just been refused, and the next in turn
    // waited for it.
    let mut machine = Machine::new(Settings::default(), 2);
    let hurried = machine.submit(Ask::new().deadline(secs(0.9)));
    let other = machine.submit(Ask::new());
    for ticket in [hurried, other] {
        assert_eq!(machine.next_grant().map(|grant| grant.ticket), Some(ticket));
    }
    assert!(machine.settle(hurried, &refused(1)));
    assert!(machine.settle(other, &refused(60)));
    assert_eq!(machine.grant(), None);
    assert_eq!(machine.scheduler.poll_timeout(), Some(at(0.0)));
    let (told, why) = machine.refusal().expect("its keys are barred for longer");
    assert_eq!(told, hurried);
    assert!(matches!(why, Refusal::AllKeysParked { .. }), "{why:?}");
    assert_eq!(machine.scheduler.poll_timeout(), Some(at(0.0)));
    assert_eq!(machine.next_grant().map(|grant| grant.ticket), Some(other));
    assert!(machine.now < at(0.9), "{:?}", machine.now);
}

#[test]
fn idle_time_stores_no_more_than_the_ceiling() {
    // AD-05, AD-06: after an hour at rest everything that was saved up went at once.
    let mut machine = Machine::new(ceiling("5/1s"), 1);
    machine.pass(3600.0);
    let start = machine.now.as_secs_f64();
    let tickets: Vec<_> = (0..20).map(|_| machine.submit(Ask::new())).collect();
    let mut starts = Vec::new();
    for _ in &tickets {
        let grant = machine.next_grant().expect("a grant");
        starts.push(machine.now.as_secs_f64() - start);
        machine.settle(grant.ticket, &served());
    }
    for (index, pair) in starts.windows(6).enumerate() {
        assert!(
            pair[5] - pair[0] >= 1.0 - 1e-9,
            "six in {} s from {index}",
            pair[5] - pair[0]
        );
    }
}

#[test]
fn what_is_larger_than_everything_is_refused_at_submit_with_both_figures() {
    // AD-10: it waited for ever, or was let through.
    let mut machine = Machine::new(ceiling("100 tokens/1m"), 1);
    let refusal = machine
        .scheduler
        .submit(Ask::new().cost(Cost::tokens(200)), at(0.0));
    let Err(Refusal::TooLarge { cost, limit, .. }) = refusal else {
        panic!("{refusal:?}")
    };
    assert_eq!((cost, limit), (200.0, 100.0));
}

#[test]
fn a_full_queue_refuses_the_newcomer_and_keeps_the_others() {
    // AD-20.
    let mut settings = Settings::default();
    settings.queue = 3;
    settings.max_concurrency = Some(1);
    let mut machine = Machine::new(settings, 1);
    for _ in 0..3 {
        machine.submit(Ask::new());
    }
    let refusal = machine.scheduler.submit(Ask::new(), at(0.0));
    assert_eq!(
        refusal,
        Err(Refusal::QueueFull {
            limit: 3,
            expected: None
        })
    );
    machine.grant().expect("a grant");
    machine.submit(Ask::new());
}

#[test]
fn a_failing_provider_gets_no_more_than_the_retry_budget() {
    // AM-04: all calls fail and every one repeats itself.
    let mut settings = Settings::default();
    settings.retry.errors = 100;
    let mut machine = Machine::new(settings, 1);
    let mut repeats = 0;
    for _ in 0..300 {
        let ticket = machine.submit(Ask::new().replay(Replay::Always));
        let Some(grant) = machine.scheduler.poll_grant(machine.now) else {
            machine.scheduler.cancel(ticket);
            continue;
        };
        let now = machine.now;
        let verdict = machine
            .scheduler
            .complete(grant.ticket, &answer(500, &[], ""), now);
        if matches!(verdict, Verdict::Again { .. }) {
            repeats += 1;
            machine.scheduler.cancel(grant.ticket);
        }
    }
    assert!(repeats <= 100, "{repeats} repeats in one instant");
}

#[test]
fn ties_rotate_over_the_keys() {
    let mut settings = ceiling("1/1s");
    settings.max_wait = None;
    let mut machine = Machine::new(settings, 5);
    for _ in 0..20 {
        machine.submit(Ask::new());
    }
    let mut keys = Vec::new();
    for _ in 0..20 {
        let grant = machine.next_grant().expect("a grant");
        keys.push(grant.key.index());
        machine.settle(grant.ticket, &served());
    }
    for round in keys.chunks(5) {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert_eq!(round, [0, 1, 2, 3, 4]);
    }
}

#[test]
fn a_parked_key_does_not_take_the_others_along() {
    // KR-12, KR-03: the request carries its key to the outcome.
    let mut machine = Machine::new(Settings::default(), 3);
    let (one, two) = (machine.submit(Ask::new()), machine.submit(Ask::new()));
    let first = machine.next_grant().expect("a grant");
    let second = machine.next_grant().expect("a grant");
    assert_ne!(first.key, second.key);
    machine.settle(one, &refused(10_800));
    machine.settle(two, &served());
    machine.scheduler.cancel(one);
    for _ in 0..6 {
        let ticket = machine.submit(Ask::new());
        let grant = machine.next_grant().expect("a grant");
        assert_ne!(grant.key, first.key);
        machine.pass(0.1);
        machine.settle(ticket, &served());
    }
    assert!(machine.now < at(60.0));
}

#[test]
fn with_all_keys_parked_the_earliest_is_waited_for() {
    // KR-07: three keys, the earliest free in 12 s, a deadline of 60 s.
    let mut machine = Machine::new(Settings::default(), 3);
    for hint in [40, 12, 30] {
        let ticket = machine.submit(Ask::new());
        machine.next_grant().expect("a grant");
        machine.settle(ticket, &refused(hint));
        machine.scheduler.cancel(ticket);
    }
    machine.submit(Ask::new().deadline(std::time::Duration::from_secs(60)));
    machine.next_grant().expect("a grant");
    let waited = machine.now.as_secs_f64();
    assert!((12.0..13.0).contains(&waited), "{waited}");
}

#[test]
fn what_costs_much_is_not_passed_at_a_shared_rate_by_what_costs_little_in_other_buckets() {
    // Tokens come back one small ask at a time: whoever took them at once left none for the large.
    let rate: Ceiling = "500 tokens/1s".parse().expect("a rate");
    for (shared, pinned) in [(false, false), (false, true), (true, false)] {
        let mut settings = fixed(2, &[]);
        if shared {
            settings.shared_ceilings = vec![rate];
        } else {
            settings.ceilings = vec![rate];
        }
        let mut service = Service::new(settings, 1, 0.039);
        let ask = |tokens| Ask::new().cost(Cost::tokens(tokens));
        for _ in 0..4_000 {
            let small = ask(10).priority(Priority::LOW).bucket("small");
            service.machine.submit(small);
        }
        service.run(5.0, |_, _| {});
        for second in 6..16 {
            let mut large = ask(400).priority(Priority::HIGH).bucket("large");
            large.pin = pinned.then(|| fingerprint(1));
            let large = service.machine.submit(large);
            let (mut before, mut went) = (0, false);
            service.run(f64::from(second), |_, ticket| {
                went |= ticket == large;
                before += usize::from(!went);
            });
            assert!(went, "shared {shared}, pinned {pinned}, at {second} s");
            assert_eq!(before, 0, "shared {shared}, pinned {pinned}");
        }
    }
}

#[test]
fn tenants_share_a_rate_in_tokens_whatever_one_ask_of_each_costs() {
    let mut service = Service::new(fixed(8, &["500 tokens/1s"]), 1, 0.039);
    let costs = [10, 400];
    let mut asked = BTreeMap::new();
    for (tenant, asks) in [(0, 4_000), (1, 100)] {
        for _ in 0..asks {
            let ask = Ask::new().cost(Cost::tokens(costs[tenant]));
            let ask = ask.tenant(format!("tenant {tenant}"));
            let ask = ask.bucket(format!("bucket {tenant}"));
            asked.insert(service.machine.submit(ask), tenant);
        }
    }
    let mut granted = [0; 2];
    service.run(60.0, |_, ticket| {
        let tenant = asked[&ticket];
        granted[tenant] += costs[tenant];
    });
    let [small, large] = granted;
    assert!(small.abs_diff(large) <= 800, "{granted:?}");
    // What is freed while a large one waits for four fifths of a window goes to nobody else.
    assert!(small + large >= 45 * 500, "{granted:?}");
}

#[test]
fn a_rate_in_tokens_is_shared_and_used_up_where_hundreds_of_buckets_wait_for_it() {
    let mut service = Service::new(fixed(8, &["500 tokens/1s"]), 1, 0.039);
    let mut asked = BTreeMap::new();
    let mut submit = |tenant: usize, bucket: usize, tokens: u32| {
        let ask = Ask::new().cost(Cost::tokens(tokens));
        let ask = ask.tenant(format!("tenant {tenant}"));
        let ticket = service
            .machine
            .submit(ask.bucket(format!("bucket {bucket}")));
        asked.insert(ticket, (tenant, tokens as usize));
    };
    // One tenant waits in every bucket, and takes much in half of them; the other in two.
    for round in 0..40 {
        for bucket in 0..300 {
            submit(0, bucket, if bucket % 2 == 0 { 350 } else { 10 });
        }
        for bucket in 0..20 {
            submit(1, 300 + (bucket + round) % 2, 40);
        }
    }
    let (mut granted, mut large) = ([0; 2], 0);
    service.run(60.0, |_, ticket| {
        let (tenant, tokens) = asked[&ticket];
        granted[tenant] += tokens;
        large += usize::from(tokens == 350);
    });
    let [one, other] = granted;
    assert!(one.abs_diff(other) <= 1_500, "{granted:?}");
    assert!(one + other >= 56 * 500, "{granted:?}");
    assert!(large >= 30, "{large} of {granted:?}");
}

#[test]
fn all_that_a_rate_allows_at_once_is_granted_before_anybody_takes_it_up() {
    let mut machine = Machine::new(fixed(100, &["1000 tokens/1s"]), 1);
    machine.submit(Ask::new().cost(Cost::tokens(1_000)));
    assert!(machine.grant().is_some());
    for bucket in 0..50 {
        let ask = Ask::new().cost(Cost::tokens(20));
        machine.submit(ask.bucket(format!("bucket {bucket}")));
    }
    assert!(machine.grant().is_none());
    let other = machine.submit(Ask::new().cost(Cost::tokens(20)));
    machine.scheduler.cancel(other);
    assert!(machine.grant().is_none());
    machine.now = at(1.0);
    let granted = std::iter::from_fn(|| machine.scheduler.poll_grant(machine.now));
    assert_eq!(granted.count(), 50);
}
