//! Capacity that is kept for a priority and above, and lent as far as it can be taken back in time.

use std::collections::BTreeMap;

use paceline::scheduler::events::Reason;
use paceline::{Ask, Priority, Reserve, Settings};

use crate::support::machine::{Machine, answer, at, fingerprint, secs};
use crate::support::service::{Service, fixed};

fn reserving(mut settings: Settings, reserve: Reserve) -> Settings {
    settings.reserve = Some(reserve);
    settings
}

fn within(seconds: f64) -> Reserve {
    let mut reserve = Reserve::default();
    reserve.within = secs(seconds);
    reserve
}

/// How many of `asks` go at once.
fn go(machine: &mut Machine, priority: Priority, asks: u32) -> usize {
    for _ in 0..asks {
        machine.submit(Ask::new().priority(priority));
    }
    std::iter::from_fn(|| machine.grant()).count()
}

#[test]
fn a_share_of_the_slots_is_kept() {
    let mut machine = Machine::new(reserving(fixed(10, &[]), within(0.1)), 1);
    assert_eq!(go(&mut machine, Priority::BACKGROUND, 50), 8);
    let head = machine.scheduler.explain(machine.now);
    assert_eq!(
        head.head().and_then(|head| head.waits_for),
        Some(Reason::Reserved)
    );
    assert_eq!(go(&mut machine, Priority::HIGH, 5), 2);
}

#[test]
fn a_share_of_a_window_is_kept_and_lent_when_its_end_is_near() {
    let mut machine = Machine::new(reserving(fixed(100, &["10/10s"]), within(1.0)), 1);
    assert_eq!(go(&mut machine, Priority::BACKGROUND, 50), 8);
    machine.pass(5.0);
    assert_eq!(go(&mut machine, Priority::HIGH, 1), 1);
    let next = machine.next_grant().expect("a grant");
    // The first eight are back at 10 s: a second sooner the rest is lent.
    assert_eq!(machine.now, at(9.0), "{next:?}");
}

#[test]
fn a_key_of_its_own_is_used_by_nobody_below_but_for_what_is_pinned_to_it() {
    let settings = reserving(fixed(1, &[]), Reserve::one_key());
    let mut machine = Machine::new(settings, 5);
    for _ in 0..9 {
        machine.submit(Ask::new().priority(Priority::LOW));
    }
    let mut keys: Vec<_> = std::iter::from_fn(|| machine.grant())
        .map(|grant| grant.key.index())
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, [1, 2, 3, 4]);
    machine.submit(Ask::new().priority(Priority::SELECTED));
    assert_eq!(machine.grant().map(|grant| grant.key.index()), Some(0));
    let settings = reserving(fixed(1, &[]), Reserve::one_key());
    let mut machine = Machine::new(settings, 5);
    machine.submit(Ask::new().priority(Priority::LOW).pin(fingerprint(1)));
    assert_eq!(machine.grant().map(|grant| grant.key.index()), Some(0));
}

#[test]
fn of_keys_that_send_one_at_a_time_a_share_is_kept() {
    // The Rakuten system: 5 keys, one request each 1.1 s.
    let mut machine = Machine::new(reserving(fixed(9, &["1/1s+10%"]), within(0.1)), 5);
    assert_eq!(go(&mut machine, Priority::BACKGROUND, 50), 4);
    assert_eq!(go(&mut machine, Priority::SELECTED, 1), 1);
}

#[test]
fn whoever_waits_for_the_reserve_holds_nobody_up_that_it_is_for() {
    let mut machine = Machine::new(reserving(fixed(10, &[]), within(0.0)), 1);
    assert_eq!(go(&mut machine, Priority::BACKGROUND, 50), 8);
    // So old that it would go first.
    machine.pass(1_000.0);
    assert_eq!(go(&mut machine, Priority::HIGH, 2), 2);
}

#[test]
fn a_reserve_keeps_a_person_s_wait_short_where_a_window_would_have_been_spent() {
    // 50 in 10 s; the background would have spent it in the first moments.
    let waits = |reserve| {
        let mut settings = fixed(50, &["50/10s"]);
        settings.reserve = reserve;
        let mut service = Service::new(settings, 1, 0.1);
        for _ in 0..500 {
            service
                .machine
                .submit(Ask::new().priority(Priority::BACKGROUND));
        }
        let mut asked = BTreeMap::new();
        let (mut waits, mut others) = (Vec::new(), 0);
        // One in two seconds, well within the reserve of ten in ten.
        for second in (1..60).step_by(2) {
            service.run(f64::from(second), |_, _| others += 1);
            let now = service.machine.now;
            asked.insert(
                service.machine.submit(Ask::new().priority(Priority::HIGH)),
                now,
            );
            service.run(f64::from(second) + 0.5, |machine, ticket| {
                match asked.remove(&ticket) {
                    Some(since) => waits.push(machine.now.secs_since(since)),
                    None => others += 1,
                }
            });
        }
        let missed = asked.len();
        let longest = waits.iter().copied().fold(0.0, f64::max);
        (longest, missed, others)
    };
    let (kept, missed, others) = waits(Some(within(0.1)));
    assert!(kept < 0.01 && missed == 0, "{kept} {missed}");
    let (_, missed_without, others_without) = waits(None);
    assert!(missed_without > 10, "{missed_without}");
    assert!(
        f64::from(others) >= 0.75 * f64::from(others_without),
        "{others}"
    );
}

#[test]
fn a_key_that_the_server_refuses_is_kept_for_nobody_and_the_next_one_is() {
    let mut machine = Machine::new(reserving(fixed(1, &[]), Reserve::one_key()), 3);
    let refuse = |machine: &mut Machine, key: u8| {
        let ticket = machine.submit(Ask::new().priority(Priority::HIGH).pin(fingerprint(key)));
        machine.next_grant().expect("a grant");
        let _: bool = machine.settle(ticket, &answer(401, &[], ""));
        machine.pass(0.01);
    };
    let low = |machine: &mut Machine| {
        let ticket = machine.submit(Ask::new().priority(Priority::LOW));
        let key = machine.grant().map(|grant| grant.key.index());
        machine.scheduler.cancel(ticket);
        key
    };
    refuse(&mut machine, 1);
    let keys = [low(&mut machine), low(&mut machine)];
    assert_eq!(keys, [Some(2); 2], "the second is kept in its place");
    // Of two that are left the last stays for all.
    refuse(&mut machine, 2);
    assert_eq!(low(&mut machine), Some(2));
}
