//! A second run starts without the refusals of the first.

use std::time::Duration;

use paceline::Time;
use paceline::scheduler::memory::Snapshot;
use paceline::sim::{self, Attempt, Client, End, Job, Next, Paceline, Run, Scenario};

use super::scenarios;

/// Providers whose limits only refusals tell.
const SILENT: [&str; 12] = [
    "a-silent-bucket-is-found",
    "a-burst-of-ten-seconds-hides-the-rate",
    "a-silent-interval-is-found-over-five-keys",
    "a-silent-cap-is-found",
    "a-cap-may-lie-below-the-first-sends",
    "a-silent-account-limit-over-silent-keys-is-found",
    "a-silent-fixed-window-is-found",
    "a-silent-sliding-window-is-found",
    "a-silent-window-of-a-minute-is-found",
    "an-account-limit-is-found-behind-the-keys",
    "unequal-silent-keys-are-told-apart",
    "who-keeps-knocking-is-banned-and-we-are-not",
];
const HOUR: Duration = Duration::from_secs(3600);

/// Counts the refusals among the first hundred answers.
struct Counting {
    client: Paceline,
    answers: u32,
    refused: u32,
}

impl Counting {
    fn new(client: Paceline) -> Self {
        Self {
            client,
            answers: 0,
            refused: 0,
        }
    }
}

impl Client for Counting {
    fn submit(&mut self, job: &Job, now: Time) {
        self.client.submit(job, now);
    }

    fn poll_send(&mut self, now: Time) -> Option<Attempt> {
        self.client.poll_send(now)
    }

    fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        self.client.poll_timeout(now)
    }

    fn on_end(&mut self, attempt: Attempt, end: End<'_>, now: Time) -> Next {
        if let End::Answer(reply) = end {
            self.answers += 1;
            self.refused += u32::from(reply.status == 429 && self.answers <= 100);
        }
        self.client.on_end(attempt, end, now)
    }

    fn poll_given_up(&mut self, now: Time) -> Option<u32> {
        self.client.poll_given_up(now)
    }
}

fn scenario(name: &str) -> Scenario {
    let mut all = scenarios("").into_iter();
    let found = all.find(|(other, _)| other == name);
    found.unwrap_or_else(|| panic!("no scenario {name}")).1
}

/// The refusals among the first hundred answers, the run, and what was learned.
fn first(scenario: &Scenario, seed: u64) -> (u32, Run, Snapshot) {
    let new = |keys, wall, seed| Counting::new(Paceline::new(keys, wall, seed));
    let (run, counting) = sim::run(scenario, seed, new, None);
    let end = Time::START.plus_secs(run.took + 1.0);
    let snapshot = counting.client.snapshot(end);
    (counting.refused, run, snapshot)
}

fn second(scenario: &Scenario, seed: u64, snapshot: &Snapshot, age: Duration) -> (u32, Run) {
    let restored =
        |keys, wall, seed| Counting::new(Paceline::new(keys, wall, seed).restored(snapshot, age));
    let (run, counting) = sim::run(scenario, seed, restored, None);
    (counting.refused, run)
}

#[test]
fn a_second_run_starts_without_the_refusals_of_the_first() {
    let (mut all_before, mut all_after) = (0, 0);
    for name in SILENT {
        let scenario = scenario(name);
        let (mut before, mut after) = (0, 0);
        for seed in 1..=4 {
            let (refused, _, snapshot) = first(&scenario, seed);
            before += refused;
            let (refused, run) = second(&scenario, seed + 1000, &snapshot, HOUR);
            after += refused;
            assert_eq!((run.lost, run.banned), (0, 0), "{name}");
        }
        println!("{name}: {before} refusals in four first runs, {after} in four second ones");
        assert!(2 * after <= before, "{name}: {before} and {after} refusals");
        all_before += before;
        all_after += after;
    }
    assert!(
        10 * all_after <= all_before,
        "{all_before} and {all_after} refusals"
    );
}

#[test]
fn a_ban_seen_once_is_remembered() {
    let scenario = scenario("three-knocks-ban-who-does-not-know-it");
    for seed in 1..=3 {
        let (_, run, snapshot) = first(&scenario, seed);
        assert!(run.banned > 0);
        let (_, run) = second(&scenario, seed + 1000, &snapshot, HOUR);
        assert_eq!((run.banned, run.lost), (0, 0));
        assert!(run.efficiency > 0.9, "{}", run.efficiency);
    }
}
