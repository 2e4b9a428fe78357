//! What becomes of an ask after each kind of answer.

use std::time::Duration;

use paceline::scheduler::events::{GaveUp, Outcome, Refusal, Ticket, Verdict};
use paceline::{Ask, HintScope, Penalty, Replay, Settings};

use crate::support::machine::{Machine, answer, at, fingerprint, refused, secs, served};

fn machine(keys: u8) -> Machine {
    Machine::new(Settings::default(), keys)
}

fn not_before(verdict: Verdict) -> f64 {
    match verdict {
        Verdict::Again { not_before } => not_before.as_secs_f64(),
        other => panic!("{other:?} is not again"),
    }
}

fn gave_up(verdict: Verdict) -> Option<GaveUp> {
    match verdict {
        Verdict::Return { why, .. } => why,
        other => panic!("{other:?} is not a return"),
    }
}

#[test]
fn a_refused_request_waits_its_hint_on_the_only_key() {
    let mut machine = machine(1);
    let ticket = machine.submit(Ask::new());
    machine.grant().expect("the first goes at once");
    let until = not_before(machine.end(ticket, &refused(7)));
    assert!((7.0..7.2).contains(&until), "{until}");
    let again = machine.next_grant().expect("after the hint");
    assert_eq!((again.ticket, again.attempt), (ticket, 2));
    assert!(machine.now >= at(7.0));
}

#[test]
fn another_key_takes_a_refused_request_at_once() {
    let mut machine = machine(2);
    let ticket = machine.submit(Ask::new());
    let first = machine.grant().expect("a grant");
    let verdict = machine.end(ticket, &refused(60));
    assert!(not_before(verdict) < 1.0);
    let second = machine.next_grant().expect("a grant");
    assert_ne!(first.key, second.key);
    assert!(machine.now < at(1.0));
}

#[test]
fn an_overload_waits_on_every_key() {
    let mut machine = machine(2);
    let ticket = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    let overload = answer(503, &[("retry-after", "30")], "");
    assert!(not_before(machine.end(ticket, &overload)) >= 30.0);
    machine.submit(Ask::new());
    machine.next_grant().expect("a grant");
    assert!(
        machine.now >= at(30.0),
        "a neighbour went at {:?}",
        machine.now
    );
}

#[test]
fn a_hint_binds_those_who_wait_already() {
    // SL-09: the refused call waited a minute; its neighbour went out one second later.
    let mut machine = machine(1);
    let refused_one = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    machine.submit(Ask::new());
    machine.settle(refused_one, &refused(60));
    let next = machine.next_grant().expect("a grant");
    assert!(
        machine.now >= at(60.0),
        "{next:?} left at {:?}",
        machine.now
    );
}

#[test]
fn a_hint_beyond_the_wait_allowed_ends_with_the_real_time() {
    // RA-01, RA-07: a long hint was swapped for a short guess.
    let mut machine = machine(1);
    let ticket = machine.submit(Ask::new().deadline(secs(10.0)));
    machine.grant().expect("a grant");
    let verdict = machine.end(ticket, &refused(3600));
    let Verdict::Return {
        retry_at: Some(retry_at),
        why: Some(GaveUp::Deadline),
    } = verdict
    else {
        panic!("{verdict:?}");
    };
    assert!(retry_at >= at(3600.0));
    let next = machine
        .scheduler
        .submit(Ask::new().deadline(secs(10.0)), machine.now);
    assert!(matches!(next, Err(Refusal::AllKeysParked { until }) if until >= at(3600.0)));
}

#[test]
fn those_who_cannot_outlast_a_park_are_told_at_once() {
    let mut machine = machine(1);
    let first = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    let hurried = machine.submit(Ask::new().deadline(secs(20.0)));
    machine.submit(Ask::new().deadline(secs(200.0)));
    machine.settle(first, &refused(60));
    assert_eq!(machine.grant(), None);
    let (ticket, refusal) = machine.refusal().expect("a refusal");
    assert_eq!(ticket, hurried);
    assert!(matches!(refusal, Refusal::AllKeysParked { until } if until >= at(60.0)));
    assert_eq!(machine.refusal(), None);
}

#[test]
fn a_post_is_repeated_after_a_refusal_and_not_after_an_error() {
    for (outcome, expected) in [
        (answer(500, &[], ""), Some(GaveUp::NotReplayable)),
        (answer(504, &[], ""), Some(GaveUp::NotReplayable)),
        (Outcome::Broken, Some(GaveUp::NotReplayable)),
        (answer(400, &[], ""), Some(GaveUp::Final)),
        (served(), None),
    ] {
        let mut machine = machine(1);
        let ticket = machine.submit(Ask::new());
        machine.grant().expect("a grant");
        assert_eq!(
            gave_up(machine.end(ticket, &outcome)),
            expected,
            "{outcome:?}"
        );
        assert_eq!(machine.scheduler.depth(), (0, 0));
    }
    for outcome in [refused(1), answer(529, &[], ""), Outcome::NotSent] {
        let mut machine = machine(1);
        let ticket = machine.submit(Ask::new());
        machine.grant().expect("a grant");
        let verdict = machine.end(ticket, &outcome);
        assert!(
            matches!(verdict, Verdict::Again { .. }),
            "{outcome:?}: {verdict:?}"
        );
    }
}

#[test]
fn zero_retries_means_one_attempt() {
    // NP-08: a retry layer with 0 retries underflowed.
    let mut settings = Settings::default();
    settings.retry.errors = 0;
    settings.retry.refusals = 0;
    for outcome in [
        answer(503, &[], ""),
        refused(1),
        Outcome::Broken,
        Outcome::NotSent,
    ] {
        let mut machine = Machine::new(settings.clone(), 1);
        let ticket = machine.submit(Ask::new().replay(Replay::Always));
        machine.grant().expect("a grant");
        assert_eq!(
            gave_up(machine.end(ticket, &outcome)),
            Some(GaveUp::Attempts)
        );
    }
}

#[test]
fn errors_are_repeated_three_times_and_no_wait_follows_the_last() {
    // AM-01, CT-12: attempts are counted end to end, and the last one is not followed by a wait.
    let mut machine = machine(1);
    let ticket = machine.submit(Ask::new().replay(Replay::Always));
    let mut attempts = 0;
    loop {
        machine.next_grant().expect("a grant");
        attempts += 1;
        if let Verdict::Return { why, .. } = machine.end(ticket, &answer(500, &[], "")) {
            assert_eq!(why, Some(GaveUp::Attempts));
            break;
        }
    }
    assert_eq!(attempts, 4);
}

#[test]
fn a_zero_hint_never_switches_off_the_ladder() {
    // RA-09, CT-04: zero waits spent the whole budget in milliseconds.
    let mut machine = machine(1);
    let ticket = machine.submit(Ask::new());
    let mut last = 0.0;
    for attempt in 1..8 {
        machine.next_grant().expect("a grant");
        let now = machine.now.as_secs_f64();
        let until = not_before(machine.end(ticket, &refused(0)));
        assert!(until > now, "attempt {attempt} may go at once");
        assert!(
            until - now >= last * 0.99,
            "attempt {attempt}: {} after {last}",
            until - now
        );
        last = (until - now) / 1.2;
    }
    assert!(last > 20.0, "the ladder ended at {last} s");
}

#[test]
fn a_fault_of_a_key_is_tried_once_on_another_and_a_revocation_nowhere() {
    // KR-05: rotating on a revoked token revoked every account in turn.
    let unauthorized = answer(401, &[], "");
    let mut machine = machine(3);
    let ticket = machine.submit(Ask::new());
    let first = machine.grant().expect("a grant");
    assert!(matches!(
        machine.end(ticket, &unauthorized),
        Verdict::Again { .. }
    ));
    let second = machine.next_grant().expect("a grant");
    assert_ne!(first.key, second.key);
    assert_eq!(
        gave_up(machine.end(ticket, &unauthorized)),
        Some(GaveUp::Final)
    );
}

#[test]
fn a_request_pinned_to_a_key_goes_nowhere_else() {
    let mut machine = machine(3);
    for _ in 0..4 {
        let ticket = machine.submit(Ask::new().pin(fingerprint(2)));
        let grant = machine.next_grant().expect("a grant");
        assert_eq!(machine.scheduler.fingerprint(grant.key), fingerprint(2));
        machine.settle(ticket, &served());
    }
    let unknown = machine
        .scheduler
        .submit(Ask::new().pin(fingerprint(9)), machine.now);
    assert_eq!(
        unknown,
        Err(Refusal::UnknownKey {
            key: fingerprint(9)
        })
    );
}

#[test]
fn closing_refuses_who_waits_and_repeats_nothing() {
    // W19: those asleep in their backoff went on to call afterwards.
    let mut settings = Settings::default();
    settings.max_concurrency = Some(2);
    let mut machine = Machine::new(settings, 1);
    let asleep = machine.submit(Ask::new());
    let flying = machine.submit(Ask::new());
    machine.next_grant().expect("a grant");
    machine.next_grant().expect("a grant");
    machine.settle(asleep, &refused(5));
    let waiting = machine.submit(Ask::new());
    machine.scheduler.close();
    let mut refused_tickets = vec![machine.refusal().unwrap().0, machine.refusal().unwrap().0];
    refused_tickets.sort();
    let mut expected = vec![asleep, waiting];
    expected.sort();
    assert_eq!(refused_tickets, expected);
    assert_eq!(
        gave_up(machine.end(flying, &refused(1))),
        Some(GaveUp::Closed)
    );
    assert_eq!(
        machine.scheduler.submit(Ask::new(), machine.now),
        Err(Refusal::Closed)
    );
    assert_eq!(machine.scheduler.depth(), (0, 0));
}

#[test]
fn a_day_long_hint_parks_for_at_most_a_day_and_then_probes() {
    // RA-17, KR-09.
    let mut settings = Settings::default();
    settings.max_wait = None;
    settings.hint_scope = HintScope::Key;
    let mut machine = Machine::new(settings, 1);
    let ticket = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    let until = not_before(machine.end(ticket, &refused(4_294_967_295)));
    assert!(until > 1e9, "the request keeps the server's word");
    let probe = machine.submit(Ask::new());

    assert_eq!(machine.grant(), None);
    machine.pass(86_400.0);
    assert_eq!(machine.grant().map(|grant| grant.ticket), Some(probe));
}

#[test]
fn rakuten_s_penalties_rest_a_key_three_seconds_for_each_refusal_in_a_row() {
    let mut settings = Settings::default();
    settings.penalty = Penalty::streak();
    let mut machine = Machine::new(settings, 1);
    let ticket = machine.submit(Ask::new());
    for (refusal, rest) in [(1, 3.0), (2, 6.0), (3, 9.0)] {
        machine.next_grant().expect("a grant");
        let refused_at = machine.now.as_secs_f64();
        let until = not_before(machine.end(ticket, &answer(429, &[], "")));
        assert!(
            until - refused_at >= rest,
            "refusal {refusal} rests {}",
            until - refused_at
        );
    }
}

#[test]
fn a_deadline_counts_from_submit_through_every_attempt() {
    // CT-10, CT-11.
    let mut machine = machine(1);
    let ticket = machine.submit(Ask::new().replay(Replay::Always).deadline(secs(1.5)));
    machine.grant().expect("a grant");
    machine.pass(1.0);
    let verdict = machine.end(ticket, &answer(500, &[], ""));
    assert_eq!(
        gave_up(verdict),
        Some(GaveUp::Deadline),
        "a second's backoff ends after it"
    );
    let mut waiting = Settings::default();
    waiting.max_concurrency = Some(1);
    let mut machine = Machine::new(waiting, 1);
    machine.submit(Ask::new());
    machine.grant().expect("a grant");
    let late = machine.submit(Ask::new().deadline(Duration::from_millis(300)));
    assert_eq!(machine.grant(), None);
    assert_eq!(machine.scheduler.poll_timeout(), Some(at(0.3)));
    machine.now = at(0.3);
    assert!(matches!(machine.refusal(), Some((t, Refusal::Deadline { .. })) if t == late));
}

#[test]
fn an_attempt_that_nobody_answered_goes_again_on_another_key() {
    // Three retries on the key that was mute lost one request in eight.
    let mut machine = machine(3);
    let ticket = machine.submit(Ask::new().replay(Replay::Always));
    let first = machine.grant().expect("a grant");
    machine.pass(3.0);
    assert!(machine.settle(ticket, &Outcome::Broken));
    let second = machine.next_grant().expect("a grant");
    assert_ne!(first.key, second.key);
}

#[test]
fn an_error_that_names_its_wait_is_repeated_no_sooner_and_holds_up_nobody_else() {
    for status in [408, 425, 500, 502, 504, 520] {
        let mut machine = machine(2);
        let ticket = machine.submit(Ask::new().replay(Replay::Always));
        machine.grant().expect("a grant");
        let error = answer(status, &[("retry-after", "30")], "");
        let until = not_before(machine.end(ticket, &error));
        assert!((30.0..31.0).contains(&until), "{status}: {until}");
        machine.submit(Ask::new());
        machine.next_grant().expect("a grant");
        assert!(machine.now < at(1.0), "{status} held a neighbour up");
    }
}

#[test]
fn an_error_that_is_not_repeated_still_says_when_it_could_be() {
    let mut machine = machine(1);
    let ticket = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    let error = answer(500, &[("retry-after", "30")], "");
    match machine.end(ticket, &error) {
        Verdict::Return { retry_at, why } => {
            assert_eq!(why, Some(GaveUp::NotReplayable));
            assert!(retry_at.is_some_and(|at| at >= self::at(30.0)));
        }
        other => panic!("{other:?} repeats what may have been done"),
    }
}

/// A request that waits a minute at most and has been in flight for three seconds.
fn waiting_a_minute_at_most() -> (Machine, Ticket) {
    let mut settings = Settings::default();
    settings.max_wait = Some(Duration::from_secs(60));
    let mut machine = Machine::new(settings, 1);
    let ticket = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    machine.now = at(3.0);
    (machine, ticket)
}

#[test]
fn a_wait_of_exactly_max_wait_is_waited_and_a_longer_one_is_not() {
    for (hint, waits) in [(59, true), (60, true), (61, false)] {
        let (mut machine, ticket) = waiting_a_minute_at_most();
        let verdict = machine.end(ticket, &refused(hint));
        assert_eq!(matches!(verdict, Verdict::Again { .. }), waits, "{hint} s");
        if waits {
            let again = machine.next_grant().expect("after the hint");
            assert_eq!(again.ticket, ticket);
        }
    }
}

#[test]
fn a_wait_of_exactly_max_wait_is_served_however_late_its_end_is_noticed() {
    // On a busy machine the timer rang a tenth of a second late, and the request was given up.
    for late in [0.0, 0.2, 30.0] {
        let (mut machine, ticket) = waiting_a_minute_at_most();
        let Verdict::Again { not_before } = machine.end(ticket, &refused(60)) else {
            panic!("it is waited");
        };
        machine.now = not_before + Duration::from_secs_f64(late);
        assert_eq!(machine.refusal(), None, "{late} s late");
        let again = machine.grant().expect("its wait is over");
        assert_eq!(again.ticket, ticket);
        // No wait is longer for it.
        let verdict = machine.end(ticket, &refused(1));
        assert!(matches!(verdict, Verdict::Return { .. }), "{late} s late");
    }
}

#[test]
fn a_refusal_rests_the_bucket_that_the_caller_named_and_the_key_once_a_second_is_refused() {
    let mut machine = machine(1);
    let in_bucket = |name: &str| Ask::new().bucket(name.to_owned());
    let first = machine.submit(in_bucket("search"));
    machine.grant().expect("a grant");
    machine.settle(first, &refused(20));
    let second = machine.submit(in_bucket("upload"));
    machine.next_grant().expect("a grant");
    assert!(
        machine.now < at(2.0),
        "another bucket waited: {:?}",
        machine.now
    );
    machine.settle(second, &refused(20));
    let third = machine.submit(in_bucket("list"));
    while machine.next_grant().expect("a grant").ticket != third {}
    assert!(
        machine.now >= at(20.0),
        "two were refused: {:?}",
        machine.now
    );
}

#[test]
fn a_refused_request_goes_on_a_key_that_comes_meanwhile() {
    let mut machine = machine(1);
    let ticket = machine.submit(Ask::new());
    let old = machine.grant().expect("a grant").key;
    machine.settle(ticket, &refused(60));
    machine.now = at(5.0);
    machine.scheduler.set_keys(&[fingerprint(9)]);
    let again = machine.next_grant().expect("on the new key");
    assert_eq!(again.ticket, ticket);
    assert_ne!(again.key, old);
    assert!(machine.now < at(6.0), "at {:?}", machine.now);
}

#[test]
fn where_nobody_is_served_a_request_is_sent_as_often_as_the_setting_says() {
    for refusals in [0, 2, 10] {
        let mut settings = Settings::default();
        settings.retry.refusals = refusals;
        settings.max_wait = None;
        let mut machine = Machine::new(settings, 1);
        let ticket = machine.submit(Ask::new());
        let mut sent = 0;
        while machine.next_grant().is_some() {
            sent += 1;
            if !machine.settle(ticket, &refused(1)) {
                break;
            }
        }
        assert_eq!(sent, 1 + refusals);
    }
}
