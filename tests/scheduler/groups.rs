//! Groups: cancelled together, spared by priority, replaced by the next.

use paceline::scheduler::events::{GaveUp, Refusal, Ticket, Verdict};
use paceline::{Ask, Cancelled, Name, Priority, Settings};

use crate::support::machine::{Machine, refused, served};

fn one_by_one() -> Machine {
    let mut settings = Settings::default();
    settings.max_concurrency = Some(1);
    Machine::new(settings, 1)
}

fn cancel(machine: &mut Machine, group: &'static str) -> Cancelled {
    machine.scheduler.cancel_group(&Name::from(group), None)
}

fn counts(cancelled: Cancelled) -> (usize, usize, u64, usize) {
    let Cancelled {
        removed,
        in_flight,
        done,
        spared,
        ..
    } = cancelled;
    (removed, in_flight, done, spared)
}

fn told(machine: &mut Machine) -> Vec<Ticket> {
    std::iter::from_fn(|| machine.refusal())
        .map(|(ticket, refusal)| {
            assert_eq!(refusal, Refusal::Cancelled);
            ticket
        })
        .collect()
}

#[test]
fn what_waits_is_removed_what_flies_finishes_and_what_ended_is_counted() {
    let mut machine = one_by_one();
    let ended = machine.submit(Ask::new().group("map"));
    machine.grant().expect("a grant");
    machine.settle(ended, &served());
    machine.pass(1.0);
    let flying = machine.submit(Ask::new().group("map"));
    machine.next_grant().expect("a grant");
    let waiting = machine.submit(Ask::new().group("map"));
    let other = machine.submit(Ask::new().group("page"));
    assert_eq!(counts(cancel(&mut machine, "map")), (1, 1, 1, 0));
    assert_eq!(
        counts(cancel(&mut machine, "map")),
        (0, 1, 0, 0),
        "twice is no error, and what ended is counted once"
    );
    assert_eq!(told(&mut machine), [waiting]);
    assert!(!machine.settle(flying, &served()));
    assert_eq!(machine.next_grant().map(|grant| grant.ticket), Some(other));
    assert_eq!(counts(cancel(&mut machine, "nobody")), (0, 0, 0, 0));
}

#[test]
fn nothing_of_a_cancelled_group_is_repeated() {
    let mut machine = one_by_one();
    let flying = machine.submit(Ask::new().group("map"));
    machine.grant().expect("a grant");
    cancel(&mut machine, "map");
    let verdict = machine.end(flying, &refused(1));
    let Verdict::Return { why, retry_at } = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(why, Some(GaveUp::Cancelled));
    assert!(
        retry_at.is_some(),
        "when it could be tried is told all the same"
    );
}

#[test]
fn a_grant_that_was_not_taken_up_is_taken_back() {
    let mut machine = one_by_one();
    let granted = machine.submit(Ask::new().group("map"));
    let next = machine.submit(Ask::new());
    machine.scheduler.poll_grant(machine.now).expect("a grant");
    assert_eq!(counts(cancel(&mut machine, "map")), (1, 0, 0, 0));
    assert_eq!(told(&mut machine), [granted]);
    assert_eq!(machine.next_grant().map(|grant| grant.ticket), Some(next));
}

#[test]
fn whoever_waits_between_two_attempts_is_cancelled_too() {
    let mut machine = one_by_one();
    let ticket = machine.submit(Ask::new().group("map"));
    machine.grant().expect("a grant");
    assert!(machine.settle(ticket, &refused(2)), "it goes again");
    assert_eq!(counts(cancel(&mut machine, "map")), (1, 0, 0, 0));
    assert_eq!(told(&mut machine), [ticket]);
    assert_eq!(machine.next_grant(), None);
}

#[test]
fn what_the_user_has_chosen_is_spared_and_moves_to_the_group_that_replaces_it() {
    let mut machine = one_by_one();
    machine.submit(Ask::new());
    machine.grant().expect("a grant");
    let ask = |priority| Ask::new().priority(priority).group("Kyoto");
    let nearby = machine.submit(ask(Priority::LOW));
    let chosen = machine.submit(ask(Priority::SELECTED));
    let spare = Some(Priority::HIGH);
    let cancelled = machine
        .scheduler
        .replace_group(&"Kyoto".into(), &"Osaka".into(), spare);
    assert_eq!(counts(cancelled), (1, 0, 0, 1));
    assert_eq!(told(&mut machine), [nearby]);
    assert_eq!(counts(cancel(&mut machine, "Kyoto")), (0, 0, 0, 0));
    assert_eq!(counts(cancel(&mut machine, "Osaka")), (1, 0, 0, 0));
    assert_eq!(told(&mut machine), [chosen]);
}

#[test]
fn a_name_that_is_used_again_is_a_new_group() {
    let mut machine = one_by_one();
    machine.submit(Ask::new());
    machine.grant().expect("a grant");
    machine.submit(Ask::new().group("Kyoto"));
    cancel(&mut machine, "Kyoto");
    told(&mut machine);
    let again = machine.submit(Ask::new().group("Kyoto"));
    assert_eq!(told(&mut machine), []);
    assert_eq!(counts(cancel(&mut machine, "Kyoto")), (1, 0, 0, 0));
    assert_eq!(told(&mut machine), [again]);
}
