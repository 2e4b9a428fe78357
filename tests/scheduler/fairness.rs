//! People and background jobs on the same keys: who waits how long, and what each gets.

use std::collections::BTreeMap;

use paceline::scheduler::concurrency::{Concurrency, FixedSettings};
use paceline::scheduler::events::{Reason, Refusal, Ticket};
use paceline::scheduler::pace::PaceSettings;
use paceline::scheduler::shedding::Shedding;
use paceline::scheduler::{Delays, Presence};
use paceline::{Ask, Cost, Priority, Reserve, Settings, Time};

use crate::support::machine::{Machine, at, fingerprint, secs, served};

/// Nothing is learned: so many in flight per key, and these hard rates per key.
fn fixed(limit: u32, ceilings: &[&str]) -> Settings {
    let mut settings = Settings::default();
    let mut fixed = FixedSettings::default();
    fixed.limit = limit;
    settings.concurrency = Concurrency::Fixed(fixed);
    settings.pace = PaceSettings::Off;
    settings.max_wait = None;
    settings.ceilings = ceilings
        .iter()
        .map(|text| text.parse().expect("a rate"))
        .collect();
    settings
}

/// A service in virtual time: every request takes so long, and who asks is up to the test.
struct Service {
    machine: Machine,
    takes: f64,
    flying: Vec<(Time, Ticket)>,
}

impl Service {
    fn new(settings: Settings, keys: u8, takes: f64) -> Self {
        Self {
            machine: Machine::new(settings, keys),
            takes,
            flying: Vec::new(),
        }
    }

    /// Lets everything happen until a moment; each grant is told.
    fn run(&mut self, until: f64, mut granted: impl FnMut(&mut Machine, Ticket)) {
        let end = at(until);
        loop {
            while let Some(grant) = self.machine.grant() {
                let done = self.machine.now + secs(self.takes);
                self.flying.push((done, grant.ticket));
                granted(&mut self.machine, grant.ticket);
            }
            let answer = self.flying.iter().map(|&(done, _)| done).min();
            let timeout = self.machine.scheduler.poll_timeout();
            let next = answer.into_iter().chain(timeout).min();
            let Some(next) = next.filter(|&next| next <= end) else {
                break;
            };
            self.machine.now = next.max(self.machine.now);
            let now = self.machine.now;
            let (ended, left): (Vec<_>, Vec<_>) =
                self.flying.iter().partition(|&&(done, _)| done <= now);
            self.flying = left;
            for (_, ticket) in ended {
                self.machine.settle(ticket, &served());
            }
        }
        self.machine.now = end.max(self.machine.now);
    }
}

fn percentile(waits: &mut [f64], share: f64) -> f64 {
    waits.sort_by(f64::total_cmp);
    assert!(!waits.is_empty());
    waits[((waits.len() as f64 * share) as usize).min(waits.len() - 1)]
}

#[test]
fn with_ten_times_the_load_in_the_background_a_person_waits_one_service_time_and_one_interval() {
    // 5 keys, 10 a second each, 200 ms an answer, at most 2 in flight per key: 50 a second.
    let (takes, interval) = (0.2, 0.1);
    let mut service = Service::new(fixed(2, &["1/100ms"]), 5, takes);
    let mut asked: BTreeMap<Ticket, (Time, bool)> = BTreeMap::new();
    let (mut waits, mut background) = (Vec::new(), 0_u32);
    let seconds = 60;
    for tick in 0..seconds * 10 {
        for _ in 0..50 {
            let ticket = service
                .machine
                .submit(Ask::new().priority(Priority::BACKGROUND));
            asked.insert(ticket, (service.machine.now, false));
        }
        // Five people a second, a tenth of the capacity.
        if tick % 2 == 0 {
            let ticket = service.machine.submit(Ask::new().priority(Priority::HIGH));
            asked.insert(ticket, (service.machine.now, true));
        }
        service.run(0.1 * f64::from(tick + 1), |machine, ticket| {
            let (since, high) = asked.remove(&ticket).expect("it was asked");
            if high {
                waits.push(machine.now.secs_since(since));
            } else {
                background += 1;
            }
        });
    }
    let p99 = percentile(&mut waits, 0.99);
    assert!(p99 <= takes + interval + 1e-9, "{p99} s");
    assert_eq!(waits.len(), 300);
    // All that is left goes to the background: 50 a second less 5.
    let share = f64::from(background) / f64::from(seconds);
    assert!(share >= 44.0, "{share} a second");
}

#[test]
fn the_background_gets_its_turn_though_people_ask_for_more_than_there_is() {
    // 10 a second, and people ask for 20. 75 points are between the classes: whoever came 75 s
    // later or sooner goes first, nobody else does.
    let mut service = Service::new(fixed(1, &["1/100ms"]), 1, 0.05);
    let asked = |machine: &mut Machine, priority| machine.submit(Ask::new().priority(priority));
    let low = asked(&mut service.machine, Priority::BACKGROUND);
    let mut came: BTreeMap<Ticket, f64> = BTreeMap::new();
    let (mut last, mut served_at) = (0.0_f64, None);
    for tick in 0..2_000 {
        for _ in 0..2 {
            let now = service.machine.now.as_secs_f64();
            came.insert(asked(&mut service.machine, Priority::HIGH), now);
        }
        service.run(0.1 * f64::from(tick + 1), |machine, ticket| {
            if ticket == low {
                served_at = Some(machine.now.as_secs_f64());
            } else if served_at.is_none() {
                last = last.max(came[&ticket]);
            }
        });
    }
    assert!(
        (74.0..=75.0).contains(&last),
        "the last to overtake came at {last}"
    );
    // What came within 75 s takes 150 s.
    let served_at = served_at.expect("nothing starves");
    assert!((149.0..=151.0).contains(&served_at), "{served_at}");
}

/// Tenants that always have asks waiting: what each is granted within ten seconds, by cost.
fn shares(tenants: usize, costs: bool, pinned: bool) -> Vec<f64> {
    // 4 keys, 25 a second each, or 2,500 tokens.
    let rate = if costs { "500 tokens/200ms" } else { "1/40ms" };
    let mut service = Service::new(fixed(64, &[rate]), 4, 0.05);
    let cost = |tenant: usize| {
        if costs && tenant.is_multiple_of(2) {
            100
        } else {
            10
        }
    };
    let mut of = BTreeMap::new();
    let mut asks = 0_usize;
    let mut ask = |machine: &mut Machine, tenant: usize| {
        asks += 1;
        let mut ask = Ask::new().tenant(format!("tenant {tenant}"));
        if costs {
            ask = ask.cost(Cost::tokens(cost(tenant)));
        }
        if pinned && asks.is_multiple_of(3) {
            ask = ask.pin(fingerprint(1 + (asks / 3 % 4) as u8));
        }
        machine.submit(ask)
    };
    for _ in 0..400 {
        for tenant in 0..tenants {
            let ticket = ask(&mut service.machine, tenant);
            of.insert(ticket, tenant);
        }
    }
    let mut granted = vec![0.0; tenants];
    service.run(10.0, |machine, ticket| {
        let tenant = of.remove(&ticket).expect("it was asked");
        granted[tenant] += if costs { f64::from(cost(tenant)) } else { 1.0 };
        let next = ask(machine, tenant);
        of.insert(next, tenant);
    });
    granted
}

#[test]
fn tenants_get_equal_shares_whatever_they_cost_and_wherever_they_are_pinned() {
    for tenants in [1, 3, 5, 11] {
        for (costs, pinned) in [(false, false), (true, false), (false, true), (true, true)] {
            let granted = shares(tenants, costs, pinned);
            let fair = granted.iter().sum::<f64>() / tenants as f64;
            let all = if costs { 100_000.0 } else { 1_000.0 };
            assert!(fair * tenants as f64 >= 0.95 * all, "{granted:?}");
            for share in &granted {
                let off = (share - fair).abs() / fair;
                assert!(off <= 0.05, "{tenants} {costs} {pinned}: {granted:?}");
            }
        }
    }
}

#[test]
fn a_newcomer_has_its_share_within_one_request_and_a_tenant_that_stops_gives_it_back() {
    let mut service = Service::new(fixed(1, &["1/100ms"]), 1, 0.05);
    let mut of = BTreeMap::new();
    for _ in 0..600 {
        of.insert(service.machine.submit(Ask::new().tenant("old")), "old");
    }
    let mut order = Vec::new();
    service.run(10.0, |_, ticket| order.push(of[&ticket]));
    assert!(order.len() >= 99 && order.iter().all(|&tenant| tenant == "old"));
    order.clear();
    for _ in 0..20 {
        of.insert(service.machine.submit(Ask::new().tenant("new")), "new");
    }
    service.run(20.0, |_, ticket| order.push(of[&ticket]));
    let came = order.iter().position(|&tenant| tenant == "new");
    assert!(came.is_some_and(|place| place <= 1), "{order:?}");
    let in_turn = order[..40]
        .iter()
        .filter(|&&tenant| tenant == "new")
        .count();
    assert!((19..=20).contains(&in_turn), "{order:?}");
    assert!(order[41..].iter().all(|&tenant| tenant == "old"));
}

#[test]
fn who_sends_heartbeats_and_stops_has_a_tenth_then_a_hundredth_then_nothing() {
    let mut service = Service::new(fixed(1, &["1/100ms"]), 1, 0.05);
    let mut of = BTreeMap::new();
    service
        .machine
        .scheduler
        .on_heartbeat("left".into(), at(0.0));
    for _ in 0..6_000 {
        for tenant in ["left", "stays"] {
            of.insert(service.machine.submit(Ask::new().tenant(tenant)), tenant);
        }
    }
    let mut shares: Vec<f64> = Vec::new();
    for (from, until) in [(0.0, 55.0), (65.0, 175.0), (190.0, 400.0)] {
        service.run(from, |_, _| {});
        let mut granted = BTreeMap::from([("left", 0.0_f64), ("stays", 0.0)]);
        service.run(until, |_, ticket| {
            *granted.get_mut(of[&ticket]).expect("known") += 1.0;
        });
        shares.push(granted["left"] / granted["stays"]);
    }
    assert!((shares[0] - 1.0).abs() < 0.02, "{shares:?}");
    assert!((shares[1] - 0.1).abs() < 0.01, "{shares:?}");
    assert!(shares[2] <= 0.02, "{shares:?}");
    let tenants = service
        .machine
        .scheduler
        .explain(service.machine.now)
        .tenants;
    let left = tenants
        .iter()
        .find(|tenant| tenant.tenant == Some("left".into()));
    assert_eq!(left.map(|left| left.presence), Some(Presence::Away));
    service.run(600.0, |_, _| {});
    let gone: Vec<_> = std::iter::from_fn(|| service.machine.refusal()).collect();
    assert!(gone.len() > 4_000, "{}", gone.len());
    for (ticket, refusal) in gone {
        assert_eq!((of[&ticket], refusal), ("left", Refusal::TenantGone));
    }
    let tenants = service
        .machine
        .scheduler
        .explain(service.machine.now)
        .tenants;
    assert!(
        tenants
            .iter()
            .all(|tenant| tenant.tenant == Some("stays".into()))
    );
}

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
    assert!(matches!(refusal, Err(Refusal::Deadline { .. })));
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
