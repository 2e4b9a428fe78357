//! What holds for every machine under every sequence of events.

use std::collections::BTreeMap;
use std::time::Duration;

use paceline::scheduler::events::{Outcome, Ticket, Verdict};
use paceline::{Ask, Ceiling, Cost, Priority, Replay, Reserve, Settings};
use proptest::prelude::*;

use crate::support::machine::{Machine, answer, fingerprint, refused, served};

/// Equals go first come first served.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kind {
    priority: u8,
    bucket: u8,
    tenant: u8,
    pin: Option<u8>,
}

/// One event.
#[derive(Clone, Debug)]
enum Event {
    Submit {
        kind: Kind,
        tokens: u32,
        deadline: Option<u16>,
        delay: Option<u16>,
    },
    Pass {
        millis: u16,
    },
    Grant,
    /// Ends the n-th attempt in flight with the n-th kind of outcome.
    End {
        which: u8,
        outcome: u8,
    },
    /// Cancels the n-th live ticket; with `unsent`, nothing was sent of its attempt.
    Cancel {
        which: u8,
        unsent: bool,
    },
}

fn kind() -> impl Strategy<Value = Kind> {
    let pin = proptest::option::weighted(0.2, 1u8..3);
    (0u8..3, 0u8..3, 0u8..3, pin).prop_map(|(level, bucket, tenant, pin)| Kind {
        priority: level * 45,
        bucket,
        tenant,
        pin,
    })
}

fn event() -> impl Strategy<Value = Event> {
    let rarely = || proptest::option::weighted(0.2, 1u16..5000);
    prop_oneof![
        4 => (kind(), prop_oneof![Just(0), Just(5), Just(80)], rarely(), rarely())
            .prop_map(|(kind, tokens, deadline, delay)| {
                Event::Submit { kind, tokens, deadline, delay }
            }),
        3 => (0u16..1500).prop_map(|millis| Event::Pass { millis }),
        8 => Just(Event::Grant),
        6 => (any::<u8>(), any::<u8>()).prop_map(|(which, outcome)| Event::End { which, outcome }),
        1 => (any::<u8>(), any::<bool>())
            .prop_map(|(which, unsent)| Event::Cancel { which, unsent }),
    ]
}

fn outcome(number: u8) -> Outcome {
    match number % 10 {
        0 => refused(1),
        1 => answer(429, &[], ""),
        2 => answer(503, &[("retry-after", "1")], ""),
        3 => answer(500, &[], ""),
        4 => Outcome::NotSent,
        5 => Outcome::Broken,
        6 => answer(
            200,
            &[
                ("x-ratelimit-limit", "10"),
                ("x-ratelimit-remaining", "3"),
                ("x-ratelimit-reset", "2"),
            ],
            "",
        ),
        _ => served(),
    }
}

/// What a test knows of a ticket.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Life {
    Waiting,
    Flying,
}

struct Model {
    machine: Machine,
    live: BTreeMap<Ticket, Life>,
    /// Order of submit of those never granted, with their class.
    fresh: BTreeMap<u64, (Ticket, Kind)>,
    submitted: u64,
    ended: u64,
    limit: usize,
}

impl Model {
    fn new(settings: Settings, keys: u8, limit: usize) -> Self {
        Self {
            machine: Machine::new(settings, keys),
            live: BTreeMap::new(),
            fresh: BTreeMap::new(),
            submitted: 0,
            ended: 0,
            limit,
        }
    }

    fn forget(&mut self, ticket: Ticket) {
        assert!(
            self.live.remove(&ticket).is_some(),
            "{ticket:?} ended twice"
        );
        self.fresh.retain(|_, (other, _)| *other != ticket);
        self.ended += 1;
    }

    /// Whether anybody was refused.
    fn refusals(&mut self) -> bool {
        let mut any = false;
        while let Some((ticket, _)) = self.machine.refusal() {
            assert_eq!(
                self.live.get(&ticket),
                Some(&Life::Waiting),
                "refused in flight"
            );
            self.forget(ticket);
            any = true;
        }
        any
    }

    fn grant(&mut self) -> bool {
        let Some(grant) = self.machine.grant() else {
            return false;
        };
        let life = self.live.insert(grant.ticket, Life::Flying);
        assert_eq!(life, Some(Life::Waiting), "granted twice, or after its end");
        let flying = self
            .live
            .values()
            .filter(|&&life| life == Life::Flying)
            .count();
        assert!(
            flying <= self.limit,
            "{flying} in flight at a limit of {}",
            self.limit
        );
        let place = self
            .fresh
            .iter()
            .find(|(_, (ticket, _))| *ticket == grant.ticket);
        if let Some((&place, &(_, kind))) = place {
            let mut before = self.fresh.range(..place);
            let passed = before.find(|(_, (_, other))| *other == kind);
            assert!(passed.is_none(), "{passed:?} was there first");
            self.fresh.remove(&place);
        }
        true
    }

    fn apply(&mut self, event: &Event) {
        let nth = |model: &Self, life: Option<Life>, n: u8| {
            let matching: Vec<_> = model
                .live
                .iter()
                .filter(|&(_, &l)| life.is_none_or(|life| life == l))
                .map(|(&ticket, _)| ticket)
                .collect();
            (!matching.is_empty()).then(|| matching[usize::from(n) % matching.len()])
        };
        match *event {
            Event::Submit {
                kind,
                tokens,
                deadline,
                delay,
            } => {
                let millis = |ms: u16| Duration::from_millis(ms.into());
                let mut ask = Ask::new()
                    .cost(Cost::tokens(tokens))
                    .priority(Priority(kind.priority))
                    .replay(Replay::Always);
                if kind.bucket > 0 {
                    ask = ask.bucket(format!("bucket {}", kind.bucket));
                }
                if kind.tenant > 0 {
                    ask = ask.tenant(format!("tenant {}", kind.tenant));
                }
                ask.pin = kind.pin.map(fingerprint);
                ask.deadline = deadline.map(millis);
                ask.not_before = delay.map(millis);
                let now = self.machine.now;
                if let Ok(ticket) = self.machine.scheduler.submit(ask, now) {
                    self.submitted += 1;
                    self.live.insert(ticket, Life::Waiting);
                    if delay.is_none() {
                        self.fresh.insert(self.submitted, (ticket, kind));
                    }
                }
            }
            Event::Pass { millis } => self.machine.pass(f64::from(millis) / 1e3),
            Event::Grant => {
                self.refusals();
                self.grant();
            }
            Event::End {
                which,
                outcome: number,
            } => {
                let Some(ticket) = nth(self, Some(Life::Flying), which) else {
                    return;
                };
                match self.machine.end(ticket, &outcome(number)) {
                    Verdict::Again { .. } => {
                        self.live.insert(ticket, Life::Waiting);
                    }
                    _ => self.forget(ticket),
                }
            }
            Event::Cancel { which, unsent } => {
                let Some(ticket) = nth(self, None, which) else {
                    return;
                };
                if unsent {
                    self.machine.scheduler.undo_start(ticket, self.machine.now);
                }
                self.machine.scheduler.cancel(ticket);
                self.forget(ticket);
            }
        }
    }

    /// What is explained is so.
    fn check_explanation(&self) {
        let explained = self.machine.scheduler.explain(self.machine.now);
        let of = |life| self.live.values().filter(|&&l| l == life).count();
        let counts = (explained.waiting, explained.in_flight);
        assert_eq!(counts, (of(Life::Waiting), of(Life::Flying)));
        assert_eq!(counts, self.machine.scheduler.depth());
        let classes: usize = explained.classes.iter().map(|class| class.waiting).sum();
        let tenants: usize = explained.tenants.iter().map(|tenant| tenant.waiting).sum();
        assert_eq!((classes, tenants), (counts.0, counts.0));
        assert_eq!(explained.heads.is_empty(), counts.0 == 0, "{explained}");
        let in_flight: usize = (explained.keys.iter())
            .map(|key| key.in_flight as usize)
            .sum();
        assert_eq!(in_flight, counts.1);
    }

    /// The same while nobody may go: everybody waits for something.
    fn check_reasons(&self) {
        let explained = self.machine.scheduler.explain(self.machine.now);
        for head in &explained.heads {
            assert!(head.waits_for.is_some(), "{explained}");
        }
    }

    /// Serves everything that is left; whoever is alive at the end of it was lost.
    fn drain(&mut self) {
        for _ in 0..200_000 {
            if self.refusals() || self.grant() {
                continue;
            }
            if let Some(ticket) = self
                .live
                .iter()
                .find(|&(_, &l)| l == Life::Flying)
                .map(|(&ticket, _)| ticket)
            {
                self.machine.pass(0.05);
                let verdict = self.machine.end(ticket, &served());
                assert!(matches!(verdict, Verdict::Return { .. }));
                self.forget(ticket);
                continue;
            }
            if self.live.is_empty() {
                break;
            }
            if self.refusals() {
                continue;
            }
            let next = self
                .machine
                .scheduler
                .poll_timeout()
                .expect("someone waits");
            assert!(
                next > self.machine.now,
                "polled at {next:?} it has nothing to say"
            );
            self.machine.now = next;
        }
        assert!(self.live.is_empty(), "lost: {:?}", self.live);
        assert_eq!(self.submitted, self.ended);
        assert_eq!(self.machine.scheduler.depth(), (0, 0));
    }
}

fn settings(concurrency: u32, ceiling: bool, reserve: bool) -> Settings {
    let mut settings = Settings::default();
    settings.reserve = reserve.then(Reserve::default);
    settings.key_concurrency = concurrency;
    if ceiling {
        let rates = ["3/1s", "100 tokens/1s"].map(str::parse::<Ceiling>);
        settings.ceilings = rates.map(|rate| rate.expect("a rate")).to_vec();
    }
    settings
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_limit_holds_nothing_is_lost_or_doubled_and_equals_keep_their_order(
        events in proptest::collection::vec(event(), 1..120),
        keys in 1u8..4,
        concurrency in 1u32..5,
        ceiling in any::<bool>(),
        reserve in any::<bool>(),
    ) {
        let limit = usize::from(keys) * concurrency as usize;
        let mut model = Model::new(settings(concurrency, ceiling, reserve), keys, limit);
        for event in &events {
            model.apply(event);
            model.check_explanation();
        }
        model.drain();
    }

    #[test]
    fn nothing_moves_before_the_stated_moment(
        events in proptest::collection::vec(event(), 1..80),
        keys in 1u8..3,
        reserve in any::<bool>(),
    ) {
        let mut model = Model::new(settings(4, true, reserve), keys, usize::from(keys) * 4);
        for event in &events {
            model.apply(event);
            while model.refusals() || model.grant() || model.refusals() {}
            model.check_reasons();
            let Some(next) = model.machine.scheduler.poll_timeout() else { continue };
            prop_assert!(next > model.machine.now, "{:?} has passed", next);
            if next.as_nanos() > model.machine.now.as_nanos() + 1 {
                let before = paceline::Time::from_nanos(next.as_nanos() - 1);
                prop_assert_eq!(model.machine.scheduler.poll_grant(before), None);
                prop_assert_eq!(model.machine.scheduler.poll_refusal(before), None);
                // The machine's time never goes back.
                model.machine.now = before;
            }
        }
        model.drain();
    }
}
