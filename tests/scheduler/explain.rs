//! What is going on, and why: the binding reason in every situation.

use std::time::Duration;

use paceline::scheduler::allowance::Allowance;
use paceline::scheduler::concurrency::{Concurrency, FixedSettings};
use paceline::scheduler::events::Reason;
use paceline::scheduler::explain::{Explanation, Head};
use paceline::{Ask, Mode, Penalty, Priority, Settings};

use crate::support::machine::{Machine, answer, fingerprint, refused, secs, served};
use crate::support::service::fixed;

/// Nothing is left for the next 20 s.
const SPENT: [(&str, &str); 3] = [
    ("x-ratelimit-limit", "60"),
    ("x-ratelimit-remaining", "0"),
    ("x-ratelimit-reset", "20"),
];

fn explain(machine: &Machine) -> Explanation {
    machine.scheduler.explain(machine.now)
}

/// The head, after everything that may go has gone.
fn head(machine: &mut Machine) -> Head {
    while machine.grant().is_some() {}
    let explanation = explain(machine);
    explanation.head().expect("somebody waits").clone()
}

fn waits(head: &Head) -> (Option<Reason>, Option<Duration>) {
    (head.waits_for, head.opens)
}

fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}

#[test]
fn a_start_time_of_its_own_is_named() {
    let mut machine = Machine::new(Settings::default(), 1);
    machine.submit(Ask::new().not_before(secs(3.0)));
    machine.pass(1.0);
    assert_eq!(
        waits(&head(&mut machine)),
        (Some(Reason::NotBefore), Some(secs(2.0)))
    );
    assert_eq!(explain(&machine).asleep, 1);
}

#[test]
fn a_pause_after_an_error_is_told_from_a_start_time_and_counts_as_waiting() {
    // In an outage all seemed to wait for a start time of their own, and no class had anybody.
    let mut machine = Machine::new(Settings::default(), 1);
    let ask = Ask::new().tenant("anna").replay(paceline::Replay::Always);
    let failed = machine.submit(ask);
    machine.grant().expect("a grant");
    assert!(machine.settle(failed, &answer(503, &[], "")));
    let head = head(&mut machine);
    assert_eq!(head.waits_for, Some(Reason::Backoff));
    assert!(head.opens.is_some());
    let explanation = explain(&machine);
    assert_eq!((explanation.waiting, explanation.asleep), (1, 1));
    assert_eq!(explanation.classes[0].waiting, 1);
    assert_eq!(explanation.tenants[0].tenant, Some("anna".into()));
}

#[test]
fn one_who_was_told_to_wait_names_the_word_of_the_server_though_it_is_alone() {
    let mut machine = Machine::new(Settings::default(), 1);
    let refused_one = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    assert!(machine.settle(refused_one, &refused(240)));
    let head = head(&mut machine);
    assert_eq!(head.waits_for, Some(Reason::Hint));
    assert!(head.opens.is_some_and(|opens| opens >= secs(239.0)));
}

#[test]
fn a_key_on_which_nobody_answers_does_not_rest_on_the_word_of_the_server() {
    let mut machine = Machine::new(fixed(4, &[]), 2);
    for _ in 0..8 {
        machine.submit(Ask::new().replay(paceline::Replay::Always));
    }
    let granted: Vec<_> = std::iter::from_fn(|| machine.grant()).collect();
    machine.pass(0.1);
    for grant in granted {
        let outcome = paceline::Outcome::Broken;
        let _: bool = machine.settle(grant.ticket, &outcome);
    }
    let keys = explain(&machine).keys;
    let rests = keys.iter().flat_map(|key| &key.rests);
    let reasons: Vec<_> = rests.map(|rest| rest.why).collect();
    assert!(!reasons.is_empty());
    assert!(
        reasons.iter().all(|&why| why == Reason::Unanswered),
        "{reasons:?}"
    );
}

#[test]
fn the_word_of_the_server_is_named_with_its_end() {
    let mut machine = Machine::new(Settings::default(), 1);
    let first = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    machine.settle(first, &refused(30));
    machine.submit(Ask::new());
    let head = head(&mut machine);
    assert_eq!(head.waits_for, Some(Reason::Hint));
    let opens = head.opens.expect("its end is known");
    assert!((30.0..31.0).contains(&opens.as_secs_f64()), "{opens:?}");
    let explanation = explain(&machine);
    assert_eq!(explanation.keys[0].rests[0].why, Reason::Hint);
    let text = explanation.to_string();
    assert!(
        text.contains("waits for the moment that the server named: another 30."),
        "{text}"
    );
}

#[test]
fn a_penalty_is_told_from_the_word_of_the_server() {
    let mut machine = Machine::new(settings(|s| s.penalty = Penalty::streak()), 1);
    let first = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    machine.settle(first, &answer(429, &[], ""));
    machine.submit(Ask::new());
    assert_eq!(
        waits(&head(&mut machine)),
        (Some(Reason::Penalty), Some(secs(3.0)))
    );
}

#[test]
fn a_key_that_the_server_refuses_is_named_with_its_fault_and_its_probe() {
    let mut machine = Machine::new(Settings::default(), 1);
    let first = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    machine.settle(first, &answer(401, &[], ""));
    machine.submit(Ask::new());
    assert_eq!(head(&mut machine).waits_for, Some(Reason::Fault));
    let fault = explain(&machine).keys[0].fault.expect("it is suspected");
    assert!(!fault.retired && fault.probe == secs(0.5), "{fault:?}");
}

#[test]
fn a_spent_quota_is_named_with_what_is_left_and_its_end() {
    let mut machine = Machine::new(Settings::default(), 1);
    let first = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    machine.settle(first, &answer(200, &SPENT, ""));
    machine.submit(Ask::new());
    let head = head(&mut machine);
    assert!(matches!(head.waits_for, Some(Reason::Quota(_))), "{head:?}");
    let quota = &explain(&machine).keys[0].quotas[0];
    assert_eq!((quota.limit, quota.left), (Some(60.0), 0.0));
    assert!(
        quota.ends.is_some_and(|ends| ends >= secs(19.0)),
        "{quota:?}"
    );
}

#[test]
fn a_ceiling_is_named_with_what_is_left() {
    let rate = "2/10s".parse().expect("a rate");
    let mut machine = Machine::new(settings(|s| s.ceilings = vec![rate]), 1);
    for _ in 0..3 {
        machine.submit(Ask::new());
    }
    let first = machine.next_grant().expect("a grant");
    machine.settle(first.ticket, &served());
    machine.next_grant().expect("a grant");
    let at = machine.now;
    let head = head(&mut machine);
    assert_eq!(head.waits_for, Some(Reason::Ceiling));
    assert_eq!(
        head.opens,
        Some(secs(10.0) - at.since(paceline::Time::START))
    );
    let quota = explain(&machine).keys[0].quotas[0].clone();
    assert_eq!((quota.law, quota.left), ("ceiling", 0.0));
}

#[test]
fn others_in_flight_are_named_without_an_end() {
    let mut one = FixedSettings::default();
    one.limit = 1;
    let mut machine = Machine::new(settings(|s| s.concurrency = Concurrency::Fixed(one)), 1);
    machine.submit(Ask::new());
    machine.submit(Ask::new());
    assert_eq!(waits(&head(&mut machine)), (Some(Reason::Limit), None));
    let key = &explain(&machine).keys[0];
    assert_eq!((key.in_flight, key.limit), (1, Some(1)));
}

#[test]
fn a_learned_rate_is_named() {
    let mut machine = Machine::new(Settings::default(), 1);
    // A silent provider of ten a second.
    let mut free_at = machine.now;
    for _ in 0..60 {
        for _ in 0..2 {
            machine.submit(Ask::new());
        }
        let grant = machine.next_grant().expect("a grant");
        let outcome = if machine.now >= free_at {
            free_at = machine.now + secs(0.1);
            served()
        } else {
            answer(429, &[], "")
        };
        machine.pass(0.02);
        machine.settle(grant.ticket, &outcome);
        if machine.scheduler.poll_grant(machine.now).is_some() {
            continue;
        }
        let explanation = explain(&machine);
        let head = explanation.head().expect("somebody waits");
        if head.waits_for == Some(Reason::Pace) {
            assert!(explanation.keys[0].pace.is_some() && head.opens.is_some());
            return;
        }
    }
    panic!("the pace was never named");
}

#[test]
fn what_is_shared_with_other_processes_is_named() {
    let mut machine = Machine::new(Settings::default(), 1);
    machine.scheduler.sell();
    machine.submit(Ask::new());
    assert_eq!(machine.grant(), None);
    assert_eq!(waits(&head(&mut machine)), (Some(Reason::Shared), None));
    let purchase = machine.scheduler.poll_purchase().expect("it is put up");
    let until = machine.now + secs(4.0);
    let reason = Reason::StoreAway;
    let allowance = Allowance::Refused { until, reason };
    machine
        .scheduler
        .on_allowance(&purchase, allowance, machine.now);
    assert_eq!(
        waits(&head(&mut machine)),
        (Some(Reason::StoreAway), Some(secs(4.0)))
    );
}

#[test]
fn who_waits_is_counted_by_class_and_tenant_and_everything_is_bounded() {
    let mut machine = Machine::new(settings(|s| s.max_concurrency = Some(1)), 100);
    machine.submit(Ask::new());
    machine.grant().expect("a grant");
    for n in 0..3_000_u32 {
        let priority = if n % 3 == 0 {
            Priority::HIGH
        } else {
            Priority::LOW
        };
        let ask = Ask::new()
            .priority(priority)
            .tenant(format!("tenant {}", n % 100));
        machine.submit(ask.bucket(format!("bucket {}", n % 50)));
    }
    while machine.grant().is_some() {}
    let explanation = explain(&machine);
    assert_eq!(explanation.waiting, 3_000);
    let classes: Vec<_> = (explanation.classes.iter())
        .map(|class| (class.priority, class.waiting))
        .collect();
    assert_eq!(classes, [(Priority::HIGH, 1_000), (Priority::LOW, 2_000)]);
    assert_eq!(explanation.tenants.len(), Explanation::MOST_TENANTS);
    assert_eq!(explanation.more_tenants, 100 - Explanation::MOST_TENANTS);
    assert!(
        explanation
            .tenants
            .iter()
            .all(|tenant| tenant.waiting == 30)
    );
    assert_eq!(explanation.keys.len(), Explanation::MOST_KEYS);
    assert_eq!(explanation.more_keys, 100 - Explanation::MOST_KEYS);
    assert_eq!(explanation.heads.len(), Explanation::MOST_LANES);
    assert!(explanation.to_string().lines().count() < 300);
    assert!(explanation.to_string().len() < 32_000);
}

#[test]
fn a_secret_is_not_in_it_and_a_fingerprint_is() {
    let mut machine = Machine::new(Settings::default(), 1);
    machine.submit(Ask::new());
    machine.grant().expect("a grant");
    let text = explain(&machine).to_string();
    assert!(
        text.contains(&format!("key {}: 1 of ", fingerprint(1))),
        "{text}"
    );
}

#[cfg(feature = "serde")]
#[test]
fn a_program_reads_it_in_milliseconds_from_now() {
    let mut machine = Machine::new(settings(|s| s.mode = Mode::Enforce), 1);
    machine.submit(Ask::new().not_before(secs(3.0)).tenant("a"));
    let json = serde_json::to_value(explain(&machine)).expect("it can be written");
    assert_eq!(json["mode"], "enforce");
    assert_eq!(json["heads"][0]["waits_for"], "not_before");
    assert_eq!(json["heads"][0]["opens_ms"], 3_000);
    assert_eq!(json["heads"][0]["tenant"], "a");
    assert_eq!(json["keys"][0]["key"], fingerprint(1).to_string());
    let names = |value: &serde_json::Value| {
        let fields = value.as_object().expect("an object");
        let names: Vec<_> = fields.keys().map(String::as_str).collect();
        names.join(" ")
    };
    // Programs read these: a name that goes or changes breaks them.
    assert_eq!(
        names(&json),
        "asleep classes heads in_flight keys mode more_heads more_keys more_tenants observed \
         overloaded_ms tenants waiting"
    );
    assert_eq!(
        names(&json["heads"][0]),
        "age_ms bucket opens_ms pin priority tenant waits_for"
    );
    assert_eq!(
        names(&json["keys"][0]),
        "apart fault in_flight key limit more_apart more_quotas pace quotas rests"
    );
    assert_eq!(
        names(&json["observed"]),
        "held held_ms passed reasons refused repeats"
    );
    let mut machine = Machine::new(Settings::default(), 1);
    let first = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    let spent = [&SPENT[..], &[("retry-after", "20")]].concat();
    machine.settle(first, &answer(401, &spent, ""));
    machine.submit(Ask::new());
    while machine.grant().is_some() {}
    let json = serde_json::to_value(explain(&machine)).expect("it can be written");
    let key = &json["keys"][0];
    assert_eq!(names(&key["fault"]), "fault probe_ms retired");
    assert_eq!(
        names(&key["quotas"][0]),
        "bucket dimension ends_ms law left limit"
    );
}
