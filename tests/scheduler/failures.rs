//! What other limiters were seen to do to those who wait and to their keys. None of it happens here.

use paceline::scheduler::events::{GaveUp, Refusal, Verdict};
use paceline::{Ask, Cost, Penalty, Time};

use crate::support::machine::{Machine, answer, at, fingerprint, refused, secs, served};
use crate::support::service::fixed;

/// When each of the next grants leaves; each is answered after so many seconds.
fn starts(machine: &mut Machine, count: usize, takes: f64) -> Vec<f64> {
    let begin = machine.now;
    let mut starts = Vec::new();
    for _ in 0..count {
        let grant = machine.next_grant().expect("it goes on");
        starts.push(machine.now.secs_since(begin));
        machine.pass(takes);
        machine.settle(grant.ticket, &served());
    }
    starts
}

/// The most that left within any window.
fn most_in(starts: &[f64], window: f64) -> usize {
    let inside = |(first, &start): (usize, &f64)| {
        let later = starts[first..].iter();
        later.take_while(|&&at| at < start + window - 1e-9).count()
    };
    starts.iter().enumerate().map(inside).max().unwrap_or(0)
}

#[test]
fn however_many_wait_no_window_holds_more_than_the_ceiling() {
    // AD-09: with 10,000 queued the first second ran at twice the limit. AD-04: a full bucket that
    // refilled let 29 through for a limit of 15. AD-02: those who had slept went without a token.
    for (amount, millis, queued) in [
        (18, 1_000, 10),
        (18, 1_000, 1_000),
        (18, 1_000, 100_000),
        (15, 60_000, 100),
        (10, 1_000, 100),
    ] {
        let mut settings = fixed(1_000, &[&format!("{amount}/{millis}ms")]);
        settings.queue = 200_000;
        let mut machine = Machine::new(settings, 1);
        for _ in 0..queued {
            machine.submit(Ask::new());
        }
        let starts = starts(&mut machine, queued.min(200), 0.0);
        let most = most_in(&starts, f64::from(millis) / 1e3);
        assert!(most <= amount, "{most} of {amount} with {queued} queued");
        assert!(most >= amount.min(queued), "it is used");
    }
}

#[test]
fn small_windows_and_slow_ones_hold_at_every_number_in_flight() {
    // AD-08: with short intervals and 10 in flight more than the cap of 50 started in a window.
    // AD-17: one at a time, and yet more than 1,200 in 300 s over a long run.
    for (amount, millis, limit, takes) in [
        (50, 1_000, 10, 0.001),
        (50, 1_000, 10, 0.019),
        (3, 7, 10, 0.0001),
        (1, 1, 4, 0.0),
        (120, 30_000, 1, 0.05),
    ] {
        let mut machine = Machine::new(fixed(limit, &[&format!("{amount}/{millis}ms")]), 1);
        let count = 5 * amount;
        for _ in 0..count {
            machine.submit(Ask::new());
        }
        let starts = starts(&mut machine, count, takes);
        let most = most_in(&starts, f64::from(millis) / 1e3);
        assert!(most <= amount, "{most} of {amount} in {millis} ms");
    }
}

#[test]
fn an_ask_is_paid_for_once() {
    // AD-11: a limiter that was asked when the key was chosen and again at the send gave half the
    // rate.
    let mut machine = Machine::new(fixed(1_000, &["10/1s"]), 1);
    for _ in 0..20 {
        machine.submit(Ask::new());
    }
    let starts = starts(&mut machine, 20, 0.0);
    assert_eq!(starts.iter().filter(|&&at| at < 1.0).count(), 10);
    assert!(starts[19] < 1.001, "{starts:?}");
}

#[test]
fn what_went_over_a_ceiling_stops_nobody_for_good() {
    // AD-12: a level of 1,001 of 1,000 made every dispatcher wait until a restart.
    let mut machine = Machine::new(fixed(1_000, &["5/1s"]), 1);
    let tickets: Vec<_> = (0..10).map(|_| machine.submit(Ask::new())).collect();
    for _ in 0..5 {
        machine.grant().expect("a grant");
    }
    // Redirects that the client had followed by itself.
    for &ticket in &tickets[..3] {
        machine.scheduler.charge(ticket, machine.now);
    }
    assert_eq!(machine.grant(), None);
    machine.next_grant().expect("it goes on by itself");
    assert!(machine.now >= at(1.0));
}

#[test]
fn a_limit_of_one_means_one() {
    // AD-13: `>` where `>=` was meant let a second one in.
    let mut machine = Machine::new(fixed(1, &[]), 1);
    let [first, second] = [(); 2].map(|()| machine.submit(Ask::new()));
    assert_eq!(machine.grant().map(|grant| grant.ticket), Some(first));
    assert_eq!(machine.grant(), None);
    machine.settle(first, &served());
    assert_eq!(machine.grant().map(|grant| grant.ticket), Some(second));
}

#[test]
fn an_unknown_cost_is_no_free_pass() {
    // AD-19: a cost of nothing meant a wait of nothing, and the retries spun.
    let mut machine = Machine::new(fixed(1_000, &["40 points/20s"]), 1);
    for _ in 0..50 {
        machine.submit(Ask::new().cost(Cost::points(0)));
    }
    let starts = starts(&mut machine, 50, 0.0);
    assert_eq!(starts.iter().filter(|&&at| at < 20.0).count(), 40);
    let ticket = machine.submit(Ask::new().cost(Cost::points(0)));
    machine.next_grant().expect("a grant");
    let Verdict::Again { not_before } = machine.end(ticket, &answer(429, &[], "")) else {
        panic!("a refusal is repeated")
    };
    assert!(not_before > machine.now);
}

#[test]
fn who_lets_a_slot_go_does_not_take_it_back_before_one_who_waits() {
    // AD-22: the holder of the only slot ran 392 times while one waiter starved for 20 s.
    let mut machine = Machine::new(fixed(1, &[]), 1);
    let mut holder = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    let waiter = machine.submit(Ask::new());
    machine.pass(0.05);
    machine.settle(holder, &served());
    holder = machine.submit(Ask::new());
    assert_eq!(machine.grant().map(|grant| grant.ticket), Some(waiter));
    machine.pass(0.05);
    machine.settle(waiter, &served());
    assert_eq!(machine.grant().map(|grant| grant.ticket), Some(holder));
}

#[test]
fn one_key_that_is_listed_twice_is_retired_once_for_both() {
    // KR-01: of two entries with one secret one was marked, and the other handed out for ever.
    let mut machine = Machine::new(fixed(10, &[]), 0);
    machine.scheduler.set_keys(&[1, 1, 2].map(fingerprint));
    let out_of_funds = answer(402, &[], r#"{"error":{"code":"insufficient_quota"}}"#);
    let mut dead = 0;
    for _ in 0..40 {
        let ticket = machine.submit(Ask::new());
        let grant = machine.next_grant().expect("the other serves");
        let is_dead = machine.scheduler.fingerprint(grant.key) == fingerprint(1);
        machine.pass(0.1);
        if is_dead {
            dead += 1;
            machine.settle(ticket, &out_of_funds);
            machine.scheduler.cancel(ticket);
        } else {
            machine.settle(ticket, &served());
        }
    }
    // It rests after the first, or is retired by a second, independent refusal.
    assert!((1..=2).contains(&dead), "{dead}");
}

#[test]
fn a_pool_of_one_that_is_refused_ends_and_does_not_rotate() {
    // KR-02: 681 rotations over a pool of one, and the request hung. The key had been replaced
    // meanwhile.
    let mut machine = Machine::new(fixed(10, &[]), 1);
    let ticket = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    machine.scheduler.set_keys(&[fingerprint(9)]);
    let unauthorized = answer(401, &[], "");
    let mut attempts = 1;
    while machine.settle(ticket, &unauthorized) {
        machine.next_grant().expect("it may go again");
        attempts += 1;
        assert!(attempts <= 2, "no more than there are keys");
    }
    let alone = machine.submit(Ask::new());
    machine.next_grant().expect("a grant");
    let verdict = machine.end(alone, &unauthorized);
    let Verdict::Return { why, .. } = verdict else {
        panic!("there is no other key: {verdict:?}")
    };
    assert_eq!(why, Some(GaveUp::Final));
}

#[test]
fn a_new_secret_starts_without_the_penalty_of_the_old_one() {
    // KR-04: a key was replaced after it was used up, and the slot kept its rest.
    let mut machine = Machine::new(fixed(10, &[]), 1);
    let ticket = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    machine.settle(ticket, &refused(3_600));
    machine.scheduler.cancel(ticket);
    let kept = machine.scheduler.snapshot(machine.now);
    machine.scheduler.set_keys(&[fingerprint(2)]);
    machine.submit(Ask::new());
    assert!(machine.grant().is_some());
    // Nor does what was written down for the old one.
    let mut later = Machine::new(fixed(10, &[]), 0);
    later.scheduler.set_keys(&[fingerprint(2)]);
    later.scheduler.restore(&kept, secs(1.0), later.now);
    later.submit(Ask::new());
    assert!(later.grant().is_some());
}

#[test]
fn with_every_key_at_rest_nothing_is_sent_on_another() {
    // KR-06: an empty pool fell back, silently, to the key that it was to protect.
    let mut machine = Machine::new(fixed(10, &[]), 3);
    for _ in 0..3 {
        let ticket = machine.submit(Ask::new());
        machine.next_grant().expect("a grant");
        machine.settle(ticket, &refused(60));
        machine.scheduler.cancel(ticket);
    }
    let hurried = machine
        .scheduler
        .submit(Ask::new().deadline(secs(5.0)), machine.now);
    assert!(matches!(hurried, Err(Refusal::AllKeysParked { until }) if until >= at(60.0)));
    machine.submit(Ask::new());
    assert_eq!(machine.grant(), None);
    assert!(machine.next_grant().is_some() && machine.now >= at(60.0));
}

#[test]
fn a_key_rests_for_its_own_time_or_the_server_s_if_that_is_longer() {
    // KR-08: a cooldown of 5 s was set and the default of 60 s was used.
    for (hint, rests) in [(None, 5.0), (Some(2), 5.0), (Some(30), 30.0)] {
        let mut settings = fixed(10, &[]);
        settings.penalty = Penalty::Streak {
            each: secs(5.0),
            most: secs(60.0),
        };
        let mut machine = Machine::new(settings, 1);
        let ticket = machine.submit(Ask::new());
        machine.grant().expect("a grant");
        let outcome = hint.map_or_else(|| answer(429, &[], ""), refused);
        machine.settle(ticket, &outcome);
        machine.scheduler.cancel(ticket);
        machine.submit(Ask::new());
        machine.next_grant().expect("it comes back");
        let rested = machine.now.secs_since(Time::START);
        assert!(
            (rests..rests * 1.25).contains(&rested),
            "{hint:?}: {rested}"
        );
    }
}

#[test]
fn a_key_is_used_again_when_the_text_of_its_refusal_says() {
    // KR-10: "try again in ~162 min", and the key came back every minute.
    let mut machine = Machine::new(fixed(10, &[]), 1);
    let ticket = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    let text = r#"{"error":{"message":"Usage limit reached, try again in ~162 min."}}"#;
    let verdict = machine.end(ticket, &answer(429, &[], text));
    let Verdict::Again { not_before } = verdict else {
        panic!("it waits: {verdict:?}")
    };
    let minutes = not_before.as_secs_f64() / 60.0;
    assert!((162.0..195.0).contains(&minutes), "{minutes}");
}

#[test]
fn who_is_refused_here_says_nothing_about_a_key() {
    // KR-13: a refusal of one's own lacked the 429, and counted as a failure of the server.
    let mut settings = fixed(10, &["1/1m"]);
    settings.queue = 1;
    let mut machine = Machine::new(settings, 1);
    machine.scheduler.keep_history(0);
    let first = machine.submit(Ask::new());
    machine.grant().expect("a grant");
    machine.settle(first, &served());
    let hurried = machine
        .scheduler
        .submit(Ask::new().deadline(secs(1.0)), machine.now);
    let earliest = Some(at(60.0));
    assert!(
        matches!(hurried, Err(Refusal::Deadline { earliest: told, .. }) if told == earliest),
        "{hurried:?}"
    );
    machine.submit(Ask::new());
    let beyond = machine.scheduler.submit(Ask::new(), machine.now);
    assert!(
        matches!(beyond, Err(Refusal::QueueFull { .. })),
        "{beyond:?}"
    );
    let explanation = machine.scheduler.explain(machine.now);
    let key = &explanation.keys[0];
    assert!(key.rests.is_empty() && key.fault.is_none(), "{key:?}");
    let history = machine.scheduler.history();
    let counted = history
        .hours()
        .iter()
        .map(|hour| (hour.successes, hour.refusals));
    assert_eq!(counted.collect::<Vec<_>>(), [(1, 0)]);
}

#[test]
fn one_who_is_pinned_to_a_key_that_goes_is_told_and_not_held_for_ever() {
    // Seen: without a longest wait it waited for a key that would never come again.
    let mut settings = fixed(1, &[]);
    settings.max_wait = None;
    let mut machine = Machine::new(settings, 2);
    let pinned = || {
        Ask::new()
            .pin(fingerprint(1))
            .replay(paceline::Replay::Always)
    };
    let flying = machine.submit(pinned());
    machine.grant().expect("a grant");
    let waiting = machine.submit(pinned());
    let asleep = machine.submit(pinned().not_before(secs(60.0)));
    let other = machine.submit(Ask::new());
    machine.scheduler.set_keys(&[fingerprint(2)]);
    let told: Vec<_> = std::iter::from_fn(|| machine.refusal()).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    for (ticket, refusal) in told {
        assert!(ticket == waiting || ticket == asleep);
        assert_eq!(
            refusal,
            Refusal::UnknownKey {
                key: fingerprint(1)
            }
        );
    }
    assert_eq!(machine.grant().map(|grant| grant.ticket), Some(other));
    let verdict = machine.end(flying, &answer(503, &[], ""));
    let Verdict::Return { why, .. } = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(why, Some(GaveUp::NoKey));
}
