//! What a response says is acted upon: failures of other clients, each from its response to what is
//! sent after it.

use paceline::feedback::{Profile, estimate};
use paceline::{Ask, Cost, Outcome, Settings, Time};

use super::read_as;
use crate::support::machine::{Machine, answer, served};

/// A response with these counts of tokens, back in so many seconds.
fn tokens(left: u32, limit: u32, back: f64) -> Outcome {
    let (left, limit) = (left.to_string(), limit.to_string());
    let back = format!("{back:.3}s");
    let headers = [
        ("x-ratelimit-limit-tokens", &limit[..]),
        ("x-ratelimit-remaining-tokens", &left),
        ("x-ratelimit-reset-tokens", &back),
    ];
    answer(200, &headers, "")
}

// HF-24: the first response said 8 of 10, and the last two both said 0.
#[test]
fn a_server_that_counts_one_too_many_is_neither_overrun_nor_waited_for_in_vain() {
    let mut machine = Machine::new(Settings::default(), 1);
    let mut sent = Vec::new();
    let mut window = None;
    for _ in 0..30 {
        machine.submit(Ask::new());
        let grant = machine.next_grant().expect("the next window comes");
        let now = machine.now.secs_since(Time::START);
        let (from, count) = match window {
            Some((from, count)) if now < from + 60.0 => (from, count + 1_u32),
            _ => (now, 1),
        };
        window = Some((from, count));
        sent.push(now);
        let left = 10_u32.saturating_sub(count + 1).to_string();
        let reset = format!("{}", (from + 60.0 - now).ceil());
        let outcome = if count > 10 {
            answer(429, &[("retry-after", &reset)], "")
        } else {
            let headers = [
                ("x-ratelimit-limit", "10"),
                ("x-ratelimit-remaining", &left[..]),
                ("x-ratelimit-reset", &reset),
            ];
            answer(200, &headers, "")
        };
        assert!(count <= 10, "{count} were sent in one window: {sent:?}");
        machine.settle(grant.ticket, &outcome);
    }
    assert!(sent[29] < 4.0 * 61.0, "{sent:?}");
}

// HF-25: the one request that was to tell the limits was refused without a word, and no other went.
#[test]
fn a_first_response_that_tells_nothing_holds_nobody_up() {
    for (status, body) in [(403, "<html>no</html>"), (404, ""), (500, ""), (200, "")] {
        let mut machine = Machine::new(Settings::default(), 1);
        let first = machine.submit(Ask::new());
        machine.next_grant().expect("it goes at once");
        let outcome = answer(status, &[("content-type", "text/html")], body);
        machine.settle(first, &outcome);
        machine.scheduler.cancel(first);
        let before = machine.now;
        machine.submit(Ask::new());
        machine.next_grant().expect("the next goes, too");
        let waited = machine.now.secs_since(before);
        assert!(waited < 3.0, "{status}: {waited} s");
    }
}

// TB-01: what was refused was charged, and after a few refusals the budget looked spent.
#[test]
fn what_is_refused_here_is_charged_to_nobody() {
    let mut machine = Machine::new(Settings::default(), 1);
    let first = machine.submit(Ask::new().cost(Cost::tokens(10)));
    machine.next_grant().expect("nothing is known");
    machine.settle(first, &tokens(900, 1000, 6.0));
    for _ in 0..5 {
        let larger = Ask::new().cost(Cost::tokens(1500));
        let refused = machine.scheduler.submit(larger, machine.now);
        assert!(refused.is_err(), "it can never pass");
    }
    let before = machine.now;
    machine.submit(Ask::new().cost(Cost::tokens(800)));
    machine.next_grant().expect("there is room");
    assert!(machine.now.secs_since(before) < 1.0);
}

// TB-04: a hundred thousand tokens from a cache were in no estimate, and others overshot meanwhile.
#[test]
fn what_a_call_took_beyond_its_estimate_holds_up_the_next() {
    let mut machine = Machine::new(Settings::default(), 1);
    let first = machine.submit(Ask::new().cost(Cost::tokens(10)));
    machine.next_grant().expect("nothing is known");
    machine.pass(1.0);
    machine.settle(first, &tokens(99_990, 100_000, 0.006));
    let second = machine.submit(Ask::new().cost(Cost::tokens(10)));
    machine.next_grant().expect("there is room");
    machine.pass(1.0);
    machine.settle(second, &tokens(0, 100_000, 60.0));
    let before = machine.now;
    machine.submit(Ask::new().cost(Cost::tokens(10)));
    machine.next_grant().expect("when some came back");
    let waited = machine.now.secs_since(before);
    assert!(waited > 0.003, "{waited}");
}

// TB-05: nine thousand rows were marked as failed that never were sent.
#[test]
fn no_room_means_to_wait_and_never_to_fail() {
    let mut settings = Settings::default();
    settings.max_wait = None;
    let mut machine = Machine::new(settings, 1);
    for _ in 0..300 {
        machine.submit(Ask::new().cost(Cost::tokens(100)));
    }
    let (mut window, mut left) = (machine.now, 1000_u32);
    for done in 0..300 {
        let grant = machine.next_grant();
        let grant = grant.unwrap_or_else(|| panic!("only {done} went"));
        if machine.now.secs_since(window) >= 60.0 {
            (window, left) = (machine.now, 1000);
        }
        left = left.saturating_sub(100);
        let back = 60.0 - machine.now.secs_since(window);
        let again = machine.settle(grant.ticket, &tokens(left, 1000, back));
        assert!(!again);
    }
    assert!(machine.refusal().is_none());
}

// TB-06: one call that made three was reserved as one, and six were in flight where three may be.
#[test]
fn every_request_takes_a_place_of_its_own() {
    let mut settings = Settings::default();
    settings.max_concurrency = Some(3);
    let mut machine = Machine::new(settings, 1);
    for _ in 0..6 {
        machine.submit(Ask::new());
    }
    let flying: Vec<_> = std::iter::from_fn(|| machine.grant()).collect();
    assert!(flying.len() <= 3, "{} fly", flying.len());
    machine.settle(flying[0].ticket, &served());
    assert!(machine.next_grant().is_some());
}

// TB-03: without a cap there is no guess at the answer: what is declared counts, and the rest is
// learned from what calls take.
#[test]
fn a_request_without_a_cap_declares_what_it_sends() {
    let body = format!(r#"{{"model":"m","messages":"{}"}}"#, "x".repeat(400));
    let said = estimate("/v1/chat/completions", body.as_bytes()).expect("a call to a model");
    assert!((100..=110).contains(&said.input_tokens), "{said:?}");
    assert_eq!(said.output_tokens, 0);
}

// HF-16, HF-17, HF-23: without a limit beside it "nothing left" was passed over, on a success above
// all, and the next request met a refusal that had been told.
#[test]
fn nothing_left_holds_the_next_request_whatever_else_is_missing() {
    let sentry = Profile::by_name("sentry").expect("it is listed");
    for status in [200, 403, 429] {
        for headers in [
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "60")][..],
            &[("ratelimit", "\"a\";r=0;t=60")],
            &[("x-sentry-rate-limits", "60::organization")],
            &[
                ("x-ratelimit-remaining-tokens", "0"),
                ("x-ratelimit-reset-tokens", "1m0s"),
            ],
        ] {
            let mut machine = Machine::new(Settings::default(), 1);
            let first = machine.submit(Ask::new().cost(Cost::tokens(10)));
            machine.next_grant().expect("nothing is known");
            machine.settle(
                first,
                &Outcome::Answered(read_as(&sentry, status, headers, "")),
            );
            machine.scheduler.cancel(first);
            let before = machine.now;
            machine.submit(Ask::new().cost(Cost::tokens(10)));
            machine.next_grant().expect("when it is back");
            let waited = machine.now.secs_since(before);
            assert!(
                (58.0..=75.0).contains(&waited),
                "{status} {headers:?}: {waited} s"
            );
        }
    }
}

// HF-18: one category's limit stopped everything.
#[test]
fn what_is_spent_for_a_category_stops_no_other() {
    let mut machine = Machine::new(Settings::default(), 1);
    let first = machine.submit(Ask::new());
    machine.next_grant().expect("nothing is known");
    let headers = [("x-sentry-rate-limits", "60:error;session:organization")];
    let sentry = Profile::by_name("sentry").expect("it is listed");
    machine.settle(
        first,
        &Outcome::Answered(read_as(&sentry, 200, &headers, "")),
    );
    let before = machine.now;
    machine.submit(Ask::new());
    machine
        .next_grant()
        .expect("it is not known to be of the category");
    assert!(machine.now.secs_since(before) < 1.0);
}
