//! Limits that are only observed, or off, and settings that change meanwhile.

use paceline::scheduler::concurrency::{Concurrency, FixedSettings};
use paceline::scheduler::events::{GaveUp, Reason, Refusal, Verdict, What};
use paceline::scheduler::pace::PaceSettings;
use paceline::{Ask, Ceiling, Mode, Priority, Settings};

use crate::support::machine::{Machine, answer, at, refused, secs, served};

fn ceiling(text: &str) -> Settings {
    let mut settings = Settings::default();
    settings.ceilings = vec![text.parse::<Ceiling>().expect("a ceiling")];
    settings
}

fn observing(text: &str, keys: u8) -> Machine {
    let mut settings = ceiling(text);
    settings.mode = Mode::Observe;
    // Nothing that is learned would hold anybody, so that the ceiling alone is counted.
    let mut fixed = FixedSettings::default();
    fixed.limit = 100;
    settings.concurrency = Concurrency::Fixed(fixed);
    settings.pace = PaceSettings::Off;
    Machine::new(settings, keys)
}

#[test]
fn observed_everything_passes_on_the_keys_in_turn_and_what_would_wait_is_counted() {
    let mut machine = observing("1/1s", 3);
    for _ in 0..9 {
        machine.submit(Ask::new());
    }
    let mut keys = Vec::new();
    while let Some(grant) = machine.grant() {
        keys.push(grant.key.index());
        machine.settle(grant.ticket, &served());
    }
    assert_eq!(keys, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    let observed = machine.scheduler.observed();
    assert_eq!((observed.passed, observed.held), (9, 6));
    assert_eq!(observed.reasons, [(Reason::Ceiling, 6)]);
    assert!(observed.held_for >= secs(6.0 * 0.9), "{observed:?}");
}

#[test]
fn observed_nothing_is_refused_or_repeated_and_both_are_counted() {
    let mut machine = observing("1/1s", 1);
    let ticket = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    let verdict = machine.end(ticket, &refused(3_600));
    assert_eq!(
        verdict,
        Verdict::Return {
            retry_at: None,
            why: Some(GaveUp::NotEnforced)
        }
    );
    // The key is parked for an hour, longer than anybody may wait.
    machine.submit(Ask::new());
    assert!(machine.grant().is_some());
    let observed = machine.scheduler.observed().clone();
    assert_eq!((observed.refused, observed.repeats), (1, 1));
}

#[test]
fn off_nothing_is_counted_or_learned() {
    let mut settings = ceiling("1/1s");
    settings.mode = Mode::Off;
    let mut machine = Machine::new(settings, 2);
    for _ in 0..4 {
        let ticket = machine.submit(Ask::new().not_before(secs(9.0)));
        let grant = machine.grant().expect("it passes");
        assert_eq!(grant.ticket, ticket);
        assert!(!machine.settle(ticket, &refused(3_600)));
    }
    assert_eq!(machine.scheduler.observed().passed, 0);
    machine.scheduler.set_mode(Mode::Enforce, machine.now);
    let explanation = machine.scheduler.explain(machine.now);
    assert!(explanation.keys.iter().all(|key| key.rests.is_empty()));
}

#[test]
fn what_went_out_meanwhile_is_in_the_windows_when_limits_are_enforced_again() {
    let mut machine = Machine::new(ceiling("5/10s"), 1);
    machine.scheduler.set_mode(Mode::Off, machine.now);
    for _ in 0..5 {
        let ticket = machine.submit(Ask::new());
        machine.grant().expect("it passes");
        machine.settle(ticket, &served());
    }
    machine.pass(1.0);
    machine.scheduler.set_mode(Mode::Enforce, machine.now);
    machine.submit(Ask::new());
    machine.next_grant().expect("a grant");
    assert!(machine.now >= at(10.0), "{:?}", machine.now);
}

#[test]
fn whoever_waits_passes_when_limits_are_not_enforced_any_more() {
    let mut machine = Machine::new(ceiling("1/1m"), 1);
    machine.submit(Ask::new());
    machine.next_grant().expect("a grant");
    for priority in [Priority::LOW, Priority::HIGH] {
        machine.submit(Ask::new().priority(priority));
    }
    machine.submit(Ask::new().not_before(secs(60.0)));
    assert!(machine.grant().is_none());
    machine.scheduler.set_mode(Mode::Observe, machine.now);
    assert_eq!(std::iter::from_fn(|| machine.grant()).count(), 3);
    let changes = std::iter::from_fn(|| machine.scheduler.poll_change());
    assert!(
        changes
            .into_iter()
            .any(|change| change.what == What::Mode(Mode::Observe))
    );
}

#[test]
fn what_is_reserved_and_not_bought_passes_too() {
    let mut machine = Machine::new(Settings::default(), 1);
    machine.scheduler.sell();
    let ticket = machine.submit(Ask::new());
    assert!(machine.grant().is_none());
    machine.scheduler.set_mode(Mode::Observe, machine.now);
    assert_eq!(machine.grant().map(|grant| grant.ticket), Some(ticket));
    assert_eq!(machine.scheduler.poll_purchase(), None);
}

#[test]
fn a_ceiling_that_is_changed_goes_on_with_what_was_sent() {
    let mut machine = Machine::new(ceiling("10/10s"), 1);
    for _ in 0..5 {
        let ticket = machine.submit(Ask::new());
        machine.next_grant().expect("a grant");
        machine.settle(ticket, &served());
    }
    let sent_at = machine.now;
    machine
        .scheduler
        .set_settings(ceiling("5/10s"), machine.now)
        .expect("valid");
    machine.submit(Ask::new());
    machine.next_grant().expect("a grant");
    assert!(machine.now >= at(10.0) && machine.now > sent_at);
}

#[test]
fn penalties_survive_new_settings_and_a_wrong_setting_changes_nothing() {
    let mut machine = Machine::new(Settings::default(), 1);
    let ticket = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    machine.settle(ticket, &refused(40));
    let mut wrong = Settings::default();
    wrong.key_concurrency = 0;
    let error = machine.scheduler.set_settings(wrong, machine.now);
    assert_eq!(error.unwrap_err().setting(), "key_concurrency");
    let mut other = Settings::default();
    other.queue = 2;
    other.key_concurrency = 7;
    machine
        .scheduler
        .set_settings(other, machine.now)
        .expect("valid");
    let key = machine.scheduler.explain(machine.now).keys[0].clone();
    assert_eq!(key.limit.map(|limit| limit <= 7), Some(true));
    assert_eq!(key.rests.len(), 1, "{key:?}");
    machine.submit(Ask::new());
    let refusal = machine.scheduler.submit(Ask::new(), machine.now);
    assert_eq!(
        refusal,
        Err(Refusal::QueueFull {
            limit: 2,
            expected: None
        })
    );
}

#[test]
fn a_pace_and_a_concurrency_of_another_kind_take_over_what_is_in_flight() {
    use paceline::scheduler::concurrency::{AimdSettings, Concurrency};
    use paceline::scheduler::pace::{IntervalSettings, PaceSettings};
    let mut kinds = vec![Settings::default()];
    let mut settings = Settings::default();
    settings.pace = PaceSettings::Interval(IntervalSettings::default());
    settings.concurrency = Concurrency::Aimd(AimdSettings::default());
    kinds.push(settings.clone());
    settings.pace = PaceSettings::Off;
    kinds.push(settings);
    for from in &kinds {
        for to in &kinds {
            let mut machine = Machine::new(from.clone(), 2);
            let tickets = [(); 3].map(|()| machine.submit(Ask::new()));
            for outcome in [served(), answer(429, &[], ""), served()] {
                let grant = machine.next_grant().expect("a grant");
                machine
                    .scheduler
                    .set_settings(to.clone(), machine.now)
                    .expect("valid");
                machine.pass(0.1);
                machine.end(grant.ticket, &outcome).ignore();
            }
            for ticket in tickets {
                machine.scheduler.cancel(ticket);
            }
            assert_eq!(machine.scheduler.depth(), (0, 0));
        }
    }
}

/// A verdict that a test does not look at.
trait Ignore {
    fn ignore(self);
}

impl Ignore for Verdict {
    fn ignore(self) {}
}
