//! Whom a refusal stops: a bucket, a key, or all keys of an account.

use paceline::scheduler::events::{KeyId, Outcome, Reason, Verdict};
use paceline::{Ask, Settings};

use crate::support::machine::{Machine, answer, at, refused, secs, served};

fn machine(keys: u8) -> Machine {
    Machine::new(Settings::default(), keys)
}

/// An answer that names its bucket, with so many left of a limit of 10 for a minute.
fn counted(status: u16, bucket: &str, left: &str) -> Outcome {
    let headers = [
        ("x-ratelimit-limit", "10"),
        ("x-ratelimit-remaining", left),
        ("x-ratelimit-reset", "60"),
        ("x-ratelimit-resource", bucket),
    ];
    answer(status, &headers, "")
}

/// Sends one ask of a bucket at its turn, and ends it.
fn send(machine: &mut Machine, bucket: &'static str, outcome: &Outcome) -> KeyId {
    let ticket = machine.submit(Ask::new().bucket(bucket));
    let grant = machine.next_grant().expect("its turn comes");
    assert_eq!(grant.ticket, ticket);
    machine.settle(ticket, outcome);
    grant.key
}

#[test]
fn two_routes_that_the_server_counts_together_share_their_limit() {
    let mut machine = machine(1);
    send(&mut machine, "/search/code", &counted(200, "search", "9"));
    send(&mut machine, "/search/issues", &counted(200, "search", "8"));
    // From now on both are known to be one: what one spends the other misses.
    send(&mut machine, "/search/code", &counted(200, "search", "0"));
    let before = machine.now;
    machine.submit(Ask::new().bucket("/search/issues"));
    machine.next_grant().expect("after the minute");
    assert!(machine.now.secs_since(before) > 50.0, "{:?}", machine.now);
}

#[test]
fn a_spent_bucket_holds_up_no_other() {
    let mut machine = machine(1);
    send(&mut machine, "/search", &counted(200, "search", "9"));
    send(&mut machine, "/repos", &counted(200, "core", "9"));
    send(&mut machine, "/search", &counted(429, "search", "0"));
    let before = machine.now;
    send(&mut machine, "/repos", &counted(200, "core", "8"));
    assert!(machine.now.secs_since(before) < 5.0, "{:?}", machine.now);
}

#[test]
fn a_spent_quota_of_the_organization_stops_every_key() {
    let mut machine = machine(2);
    let spent = [
        ("x-ratelimit-limit-org-remaining", "0"),
        ("x-ratelimit-limit-org-reset", "30"),
        ("retry-after", "30"),
    ];
    let ticket = machine.submit(Ask::new());
    machine.grant().expect("the first goes at once");
    let verdict = machine.end(ticket, &answer(429, &spent, ""));
    assert!(matches!(verdict, Verdict::Again { not_before } if not_before >= at(30.0)));
    machine.submit(Ask::new());
    machine.next_grant().expect("after the hint");
    assert!(machine.now >= at(30.0), "{:?}", machine.now);
}

#[test]
fn a_spent_quota_of_a_user_stops_one_key() {
    let mut machine = machine(2);
    let spent = [
        ("x-ratelimit-limit-user-remaining", "0"),
        ("x-ratelimit-limit-user-reset", "30"),
        ("retry-after", "30"),
    ];
    let ticket = machine.submit(Ask::new());
    machine.grant().expect("the first goes at once");
    assert!(machine.settle(ticket, &answer(429, &spent, "")));
    machine.next_grant().expect("on the other key");
    assert!(machine.now < at(2.0), "{:?}", machine.now);
}

// An hour's window is empty, and the hint speaks of a second.
#[test]
fn a_wait_shorter_than_the_spent_window_is_replaced_by_the_window() {
    let mut machine = machine(1);
    let first = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    machine.settle(first, &served());
    let ticket = machine.submit(Ask::new());
    machine.next_grant().expect("a grant");
    let headers = [
        ("x-ratelimit-limit", "100"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "120"),
        ("retry-after", "10"),
    ];
    let before = machine.now;
    assert!(machine.settle(ticket, &answer(429, &headers, "")));
    machine.next_grant().expect("after the window");
    let waited = machine.now.secs_since(before);
    assert!((118.0..180.0).contains(&waited), "{waited}");
}

#[test]
fn a_refused_key_takes_no_ask_along_that_waits_for_a_slot_of_another() {
    let mut settings = Settings::default();
    settings.key_concurrency = 1;
    let mut machine = Machine::new(settings, 2);
    let asks: Vec<_> = (0..6).map(|_| machine.submit(Ask::new())).collect();
    let (first, second) = (machine.next_grant().unwrap(), machine.next_grant().unwrap());
    assert_ne!(first.key, second.key);
    machine.settle(second.ticket, &answer(401, &[], ""));
    // The other key is busy, and that is all.
    assert!(machine.grant().is_none());
    assert_eq!(machine.refusal(), None);
    let mut done = 0;
    let mut current = Some(first);
    while let Some(grant) = current {
        machine.settle(grant.ticket, &served());
        done += 1;
        current = machine.next_grant();
    }
    assert!(done >= asks.len() - 1, "{done} of {}", asks.len());
}

#[test]
fn the_reason_is_of_the_key_that_opens_first_and_a_busy_key_makes_it_uncertain() {
    let mut settings = Settings::default();
    settings.key_concurrency = 1;
    let mut machine = Machine::new(settings, 2);
    machine.submit(Ask::new());
    machine.submit(Ask::new());
    let (busy, refused_on) = (machine.next_grant().unwrap(), machine.next_grant().unwrap());
    machine.settle(refused_on.ticket, &refused(20));
    assert!(machine.grant().is_none());
    // The refused key opens at a known moment; the busy one may open before.
    let hurried = machine.submit(Ask::new().deadline(secs(5.0)));
    assert!(machine.grant().is_none());
    assert_eq!(machine.refusal(), None);
    let explanation = machine.scheduler.explain(machine.now);
    let head = explanation.head().unwrap();
    assert_eq!(head.waits_for, Some(Reason::Hint));
    assert!(head.opens.unwrap() >= secs(19.0));
    machine.settle(busy.ticket, &served());
    let next = machine.next_grant().unwrap();
    assert_eq!(next.key, busy.key);
    machine.settle(next.ticket, &served());
    assert_eq!(
        machine.next_grant().map(|grant| grant.ticket),
        Some(hurried)
    );
}

#[test]
fn a_quota_that_only_a_refusal_told_is_over_at_its_end() {
    for headers in [
        &[("retry-after", "2"), ("x-ratelimit-remaining", "0")][..],
        &[("ratelimit", "\"d\";r=0;t=2")],
        &[
            ("x-ratelimit-limit", "10"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset-after", "2"),
        ],
        &[("x-ratelimit-remaining", "0")],
    ] {
        let mut machine = Machine::new(Settings::default(), 1);
        let first = machine.submit(Ask::new());
        machine.grant().expect("a grant");
        machine.settle(first, &answer(429, headers, ""));
        for _ in 0..40 {
            machine.submit(Ask::new());
        }
        for n in 0..41 {
            let grant = machine.next_grant().expect("a grant");
            machine.now = machine.now + secs(0.02);
            machine.settle(grant.ticket, &served());
            assert!(
                machine.now < at(12.0),
                "{headers:?}: {n} were served by {:?}",
                machine.now
            );
        }
    }
}
