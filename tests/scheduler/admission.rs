//! Who is turned away or told at once, and who waits a little longer.

use std::collections::BTreeMap;

use paceline::scheduler::Delays;
use paceline::scheduler::events::{Reason, Refusal};
use paceline::scheduler::shedding::Shedding;
use paceline::{Ask, Priority};

use crate::support::machine::{Machine, at, secs, served};
use crate::support::service::{Service, fixed};

#[test]
fn a_queue_that_cannot_be_served_turns_the_lowest_class_away_and_says_how_long_it_is() {
    let mut settings = fixed(1, &["1/100ms"]);
    settings.shedding = Some(Shedding::default());
    let mut service = Service::new(settings, 1, 0.05);
    // People ask for half of what there is, the background for five times as much.
    let (mut shed, mut high_shed, mut expected_least) = (0, 0, f64::MAX);
    let mut longest = 0_usize;
    for tick in 0..1_200 {
        let now = service.machine.now;
        let mut ask = |priority, shed: &mut i32| {
            let asked = service
                .machine
                .scheduler
                .submit(Ask::new().priority(priority), now);
            if let Err(refusal) = asked {
                let Refusal::Shed { expected, .. } = refusal else {
                    panic!("{refusal:?}")
                };
                expected_least = f64::min(expected_least, expected.as_secs_f64());
                *shed += 1;
            }
        };
        for _ in 0..5 {
            ask(Priority::BACKGROUND, &mut shed);
        }
        if tick % 2 == 0 {
            ask(Priority::HIGH, &mut high_shed);
        }
        service.run(0.1 * f64::from(tick + 1), |_, _| {});
        longest = longest.max(service.machine.scheduler.depth().0);
    }
    assert_eq!(high_shed, 0);
    assert!(shed > 4_000, "{shed}");
    assert!(expected_least >= 15.0, "{expected_least}");
    // 30 s of ten a second, and what comes while the level rises.
    assert!(longest < 800, "{longest}");
}

#[test]
fn who_cannot_make_it_behind_its_own_is_told_at_once() {
    let mut machine = Machine::new(fixed(1, &["1/1s"]), 2);
    for _ in 0..10 {
        machine.submit(Ask::new().tenant("a").deadline(secs(60.0)));
    }
    machine.grant().expect("a grant");
    machine.grant().expect("a grant");
    // Eight wait for two a second.
    let ask = |tenant: &'static str, seconds| Ask::new().tenant(tenant).deadline(secs(seconds));
    let refusal = machine.scheduler.submit(ask("a", 4.0), machine.now);
    let Err(Refusal::Deadline { earliest, reason }) = refusal else {
        panic!("{refusal:?}")
    };
    assert_eq!((earliest, reason), (Some(at(4.0)), Some(Reason::Ceiling)));
    machine.submit(ask("a", 4.1));
    // Another tenant is not behind them.
    machine.submit(ask("b", 1.5));
    let refusal = machine.scheduler.submit(ask("b", 0.0), machine.now);
    let Err(Refusal::Deadline { reason, .. }) = refusal else {
        panic!("{refusal:?}")
    };
    assert_eq!(reason, None, "it has no start time of its own");
}

#[test]
fn lower_priorities_can_be_made_to_wait_a_little() {
    let mut settings = fixed(100, &[]);
    settings.delays = Some(Delays::rakuten());
    let mut machine = Machine::new(settings, 1);
    let levels = Priority::LEVELS.map(|(_, level)| level);
    let tickets = levels.map(|level| machine.submit(Ask::new().priority(level)));
    let own = machine.submit(Ask::new().priority(Priority::LOW).not_before(secs(1.0)));
    let mut starts = BTreeMap::new();
    while let Some(grant) = machine.next_grant() {
        starts.insert(grant.ticket, machine.now.as_secs_f64());
        machine.settle(grant.ticket, &served());
    }
    let starts_of = tickets.map(|ticket| starts[&ticket]);
    assert_eq!(starts_of, [0.0, 0.0, 2.0, 5.0, 10.0]);
    assert_eq!(starts[&own], 1.0, "its own word counts more");
}

#[test]
fn levels_have_names() {
    assert_eq!("selected".parse(), Ok(Priority::SELECTED));
    assert_eq!("85".parse(), Ok(Priority::HIGH));
    assert_eq!(Priority::HIGH.to_string(), "high");
    assert_eq!(Priority(7).to_string(), "7");
    let error = "urgent".parse::<Priority>().unwrap_err().to_string();
    assert!(
        error.contains("\"urgent\"") && error.contains("selected"),
        "{error}"
    );
}
