//! One run: a client, a network and a provider in virtual time.
//!
//! The loop takes the earliest of what is due (a request of the load, something on the wire, the
//! client's own timer) and then lets the client send. Sends that leave together arrive in any
//! order, since each draws its own time on the wire. What was admitted counts when the provider
//! has worked it off, not when the client hears of it, so that the time taken compares with the
//! ideal of a client inside the provider.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use slab::Slab;

use crate::Time;

use super::client::{Attempt, Client, End, Next};
use super::dice::{Dice, Stream};
use super::load::Jobs;
use super::oracle::{self, Ideal};
use super::provider::{Provider, Reply, Request};
use super::report::Run;
use super::scenario::{Network, Scenario};
use super::settling::Settling;
use super::trace::Trace;

/// The wall clock of a run at its start, seconds since 1970: some moment with a fraction of a
/// second of its own, so that whole-second times do not fall together with the start.
pub(super) fn wall(seed: u64) -> f64 {
    1.7e9 + Dice::new(seed, Stream::Network).unit()
}

/// Runs a scenario with a seed. `client` is made from the number of keys, the wall clock at the
/// start and the seed; `trace`, if given, is told what happens.
pub fn run<C: Client>(
    scenario: &Scenario,
    seed: u64,
    client: impl FnOnce(usize, f64, u64) -> C,
    trace: Option<&mut Trace>,
) -> (Run, C) {
    let jobs = Jobs::new(&scenario.load, seed);
    let wall = wall(seed);
    let provider = || Provider::new(&scenario.provider, scenario.load.keys, wall, seed);
    let (ideal, _) = oracle::ideal(&scenario.provider, &jobs, provider());
    let client = client(scenario.load.keys, wall, seed);
    let mut world = World::new(scenario, &jobs, provider(), client, seed, trace);
    world.until(give_up_at(&ideal));
    world.into_run(&ideal)
}

/// The ideal as a run of its own: what the greedy client inside the provider does.
pub(super) fn run_oracle(scenario: &Scenario, seed: u64) -> Run {
    let jobs = Jobs::new(&scenario.load, seed);
    let provider = Provider::new(&scenario.provider, scenario.load.keys, wall(seed), seed);
    let (ideal, provider) = oracle::ideal(&scenario.provider, &jobs, provider);
    let waits = vec![0.0; jobs.as_slice().len()];
    let (took, first) = (Some(ideal.seconds), Some(ideal.first));
    Run::new(provider.counts(), &jobs, &ideal, took, first, waits)
}

/// Nobody waits for a client that takes ten times as long as needed, and two minutes more.
fn give_up_at(ideal: &Ideal) -> Time {
    Time::START.plus_secs(10.0 * ideal.seconds + 120.0)
}

struct World<'a, C> {
    jobs: &'a Jobs,
    provider: Provider,
    client: C,
    wire: Wire,
    timeout: Duration,
    /// How many of the jobs have come.
    came: usize,
    /// How many of those have not ended.
    open: usize,
    flights: Slab<Flight>,
    due: BinaryHeap<Reverse<Due>>,
    sequence: u64,
    /// For each job, how long it waited for its first sending.
    waits: Vec<Option<f32>>,
    served: u64,
    hundredth: Option<Time>,
    settling: Option<Settling>,
    trace: Option<&'a mut Trace>,
}

/// An attempt on its way, or its answer.
struct Flight {
    attempt: Attempt,
    sent: Time,
    reply: Option<Reply>,
    /// The client has given it up; the provider still works on it.
    abandoned: bool,
}

/// What happens when. At the same moment, what was put down first happens first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Time,
    sequence: u64,
    what: What,
    flight: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A request reaches the provider.
    Arrive,
    /// The provider has worked on it.
    Finish,
    /// The answer reaches the client.
    Deliver,
    /// The client stops waiting for it.
    Abandon,
}

/// The network: how long things take on it.
struct Wire {
    dice: Dice,
    out: (f64, f64),
    back: (f64, f64),
    handshake: (f64, f64),
    /// Connections that are open and not in use.
    idle: usize,
}

impl Wire {
    fn new(network: &Network, seed: u64) -> Self {
        let seconds = |range: (Duration, Duration)| (range.0.as_secs_f64(), range.1.as_secs_f64());
        Self {
            dice: Dice::new(seed, Stream::Network),
            out: seconds(network.out),
            back: seconds(network.back),
            handshake: seconds(network.handshake),
            idle: 0,
        }
    }

    fn out(&mut self) -> f64 {
        let mut seconds = self.dice.between(self.out.0, self.out.1);
        if self.idle > 0 {
            self.idle -= 1;
        } else if self.handshake.1 > 0.0 {
            seconds += self.dice.between(self.handshake.0, self.handshake.1);
        }
        seconds
    }

    fn back(&mut self) -> f64 {
        self.dice.between(self.back.0, self.back.1)
    }
}

impl<'a, C: Client> World<'a, C> {
    fn new(
        scenario: &Scenario,
        jobs: &'a Jobs,
        provider: Provider,
        client: C,
        seed: u64,
        trace: Option<&'a mut Trace>,
    ) -> Self {
        Self {
            jobs,
            provider,
            client,
            wire: Wire::new(&scenario.network, seed),
            timeout: scenario.load.timeout,
            came: 0,
            open: 0,
            flights: Slab::new(),
            due: BinaryHeap::new(),
            sequence: 0,
            waits: vec![None; jobs.as_slice().len()],
            served: 0,
            hundredth: None,
            settling: Settling::new(&scenario.provider, &scenario.load),
            trace,
        }
    }

    /// Lets things happen until every request has ended, or until `end`.
    fn until(&mut self, end: Time) {
        let mut now = Time::START;
        loop {
            self.let_come(now);
            self.let_send(now);
            while let Some(job) = self.client.poll_given_up(now) {
                self.open -= 1;
                self.waits[job as usize].get_or_insert(f32::INFINITY);
            }
            let wake = self.client.poll_timeout(now);
            let next = self.jobs.as_slice().get(self.came).map(|job| job.at);
            if next.is_none() && self.open == 0 {
                return;
            }
            // A timer that is due and changed nothing must not stop the time.
            let wake = wake.map_or(Time::NEVER, |wake| wake.max(now + TIMER_GRAIN));
            let due = self.due.peek().map_or(Time::NEVER, |Reverse(due)| due.at);
            let next = next.unwrap_or(Time::NEVER);
            now = due.min(wake).min(next);
            if now > end {
                return;
            }
            if due == now
                && let Some(Reverse(due)) = self.due.pop()
            {
                self.happen(&due);
            }
        }
    }

    fn let_come(&mut self, now: Time) {
        while let Some(job) = self
            .jobs
            .as_slice()
            .get(self.came)
            .filter(|job| job.at <= now)
        {
            self.came += 1;
            self.open += 1;
            self.client.submit(job, now);
        }
    }

    fn let_send(&mut self, now: Time) {
        while let Some(attempt) = self.client.poll_send(now) {
            let came = self.jobs.job(attempt.job).at;
            self.waits[attempt.job as usize].get_or_insert_with(|| now.since(came).as_secs_f32());
            let flight = self.flights.insert(Flight {
                attempt,
                sent: now,
                reply: None,
                abandoned: false,
            });
            let arrival = now.plus_secs(self.wire.out());
            self.put_down(arrival, What::Arrive, flight);
        }
    }

    fn put_down(&mut self, at: Time, what: What, flight: usize) {
        self.sequence += 1;
        self.due.push(Reverse(Due {
            at,
            sequence: self.sequence,
            what,
            flight,
        }));
    }

    fn happen(&mut self, due: &Due) {
        match due.what {
            What::Arrive => self.arrive(due.flight, due.at),
            What::Finish => self.finish(due.flight, due.at),
            What::Deliver => self.deliver(due.flight, due.at),
            What::Abandon => self.abandon(due.flight, due.at),
        }
    }

    fn request(&self, attempt: Attempt) -> Request {
        let tokens = self.jobs.job(attempt.job).tokens;
        Request {
            id: u64::from(attempt.job),
            key: attempt.key,
            tokens,
        }
    }

    fn arrive(&mut self, index: usize, now: Time) {
        let flight = &self.flights[index];
        let patience = flight.sent + self.timeout;
        let reply = self.provider.arrive(self.request(flight.attempt), now);
        if let Some(trace) = &mut self.trace {
            let waiting = self.open.saturating_sub(self.flights.len());
            trace.on_arrival(reply.status, self.provider.in_flight(), waiting, now);
        }
        let ready = now + reply.delay;
        if reply.admitted {
            self.put_down(ready, What::Finish, index);
        } else if ready <= patience {
            let back = self.wire.back();
            self.put_down(ready.plus_secs(back), What::Deliver, index);
        }
        if ready > patience {
            self.put_down(patience, What::Abandon, index);
        }
        self.flights[index].reply = Some(reply);
    }

    fn finish(&mut self, index: usize, now: Time) {
        let attempt = self.flights[index].attempt;
        let status = self.flights[index]
            .reply
            .as_ref()
            .map_or(0, |reply| reply.status);
        self.provider
            .finish(self.request(attempt), status == 200, now);
        if status == 200 {
            self.served += 1;
            if let Some(settling) = &mut self.settling {
                settling.on_served(now);
            }
            if self.served == oracle::FIRST {
                self.hundredth = Some(now);
            }
        }
        if self.flights[index].abandoned {
            self.flights.remove(index);
        } else {
            let back = self.wire.back();
            self.put_down(now.plus_secs(back), What::Deliver, index);
        }
    }

    fn deliver(&mut self, index: usize, now: Time) {
        let flight = self.flights.remove(index);
        self.wire.idle += 1;
        let reply = flight.reply.expect("what is delivered was answered");
        self.end(flight.attempt, End::Answer(&reply), now);
    }

    /// The client stops waiting; an admitted request goes on at the provider.
    fn abandon(&mut self, index: usize, now: Time) {
        let flight = &mut self.flights[index];
        let attempt = flight.attempt;
        let admitted = flight.reply.as_ref().is_some_and(|reply| reply.admitted);
        flight.abandoned = true;
        if !admitted {
            self.flights.remove(index);
        }
        self.end(attempt, End::Broken, now);
    }

    fn end(&mut self, attempt: Attempt, end: End<'_>, now: Time) {
        if self.client.on_end(attempt, end, now) == Next::Ended {
            self.open -= 1;
        }
    }

    fn into_run(self, ideal: &Ideal) -> (Run, C) {
        let first = self.provider.counts().total().first;
        let taken = |end: Option<Time>| match (first, end) {
            (Some(first), Some(end)) => Some(end.secs_since(first)),
            _ => None,
        };
        let took = taken(self.provider.counts().total().last);
        let took_first = taken(self.hundredth);
        let waits = self
            .waits
            .into_iter()
            .map(|wait| wait.unwrap_or(f32::INFINITY))
            .collect();
        let settled = self.settling.as_ref().and_then(Settling::longest);
        let mut run = Run::new(
            self.provider.counts(),
            self.jobs,
            ideal,
            took,
            took_first,
            waits,
        );
        run.settled = settled;
        (run, self.client)
    }
}

/// The shortest time between two looks at a timer that is due: real timers are coarser.
const TIMER_GRAIN: Duration = Duration::from_micros(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Paceline;

    fn scenario(text: &str) -> Scenario {
        Scenario::parse(text).unwrap()
    }

    /// Keeps a number in flight and repeats whatever fails.
    struct Steady {
        free: usize,
        waiting: Vec<u32>,
    }

    impl Client for Steady {
        fn submit(&mut self, job: &crate::sim::Job, _now: Time) {
            self.waiting.insert(0, job.index);
        }

        fn poll_send(&mut self, _now: Time) -> Option<Attempt> {
            let job = if self.free > 0 {
                self.waiting.pop()?
            } else {
                return None;
            };
            self.free -= 1;
            Some(Attempt { job, key: 0 })
        }

        fn poll_timeout(&mut self, _now: Time) -> Option<Time> {
            None
        }

        fn on_end(&mut self, attempt: Attempt, end: End<'_>, _now: Time) -> Next {
            self.free += 1;
            if matches!(end, End::Answer(reply) if reply.status == 200) {
                return Next::Ended;
            }
            self.waiting.push(attempt.job);
            Next::Again
        }
    }

    fn steady(scenario: &Scenario, in_flight: usize) -> Run {
        run(
            scenario,
            1,
            |_, _, _| Steady {
                free: in_flight,
                waiting: Vec::new(),
            },
            None,
        )
        .0
    }

    #[test]
    fn a_bucket_at_its_rate_takes_its_ideal_time() {
        let bucket = "[provider]\nlatency='100ms'\n\
                      limits=[{kind='bucket',rate=100,burst=20}]\n[load]\nrequests=520";
        let ran = steady(&scenario(bucket), 10);
        // 20 at once, 500 at 100 a second, and the latency of the last.
        assert!((ran.ideal - 5.1).abs() < 0.01, "{}", ran.ideal);
        assert_eq!((ran.lost, ran.served, ran.twice), (0, 520, 0));
    }

    #[test]
    fn what_a_cap_allows_is_reached_by_as_many_in_flight() {
        let cap = "[provider]\nlatency='100ms'\n\
                   limits=[{kind='concurrency',max=4}]\n[load]\nrequests=400";
        let ran = steady(&scenario(cap), 4);
        assert!((ran.ideal - 10.0).abs() < 0.01, "{}", ran.ideal);
        assert_eq!((ran.refused, ran.max_in_flight), (0, 4));
        assert!(ran.efficiency > 0.97, "{}", ran.efficiency);
        assert!(steady(&scenario(cap), 5).refused > 400);
    }

    #[test]
    fn a_key_that_never_answers_costs_a_timeout_and_is_counted() {
        let mute = "[provider]\nkeys=[{index=0,mute_from='1s'}]\nlatency='10ms'\n\
                    [load]\nrequests=300\ntimeout='2s'";
        let ran = steady(&scenario(mute), 1);
        assert!(ran.lost > 150, "{ran:?}");
    }

    #[test]
    fn an_abandoned_request_is_served_all_the_same_and_counted_twice() {
        let slow = "[provider]\nlatency='1s'\ntail=1\n[load]\nrequests=20\ntimeout='900ms'";
        let ran = steady(&scenario(slow), 1);
        assert!(ran.twice > 0, "{ran:?}");
        assert_eq!(ran.lost, 0);
    }

    #[test]
    fn the_same_seed_runs_the_same_way() {
        let text = "[provider]\nheaders='openai'\nlatency='50ms'\ntail=0.5\n\
                    limits=[{kind='bucket',rate=50,burst=5}]\n[load]\nrequests=200";
        let once = |seed| run(&scenario(text), seed, Paceline::new, None).0;
        assert_eq!(once(3), once(3));
        assert_ne!(once(3).took, once(4).took);
    }

    #[test]
    fn a_trace_counts_every_request() {
        let text = "[provider]\nlatency='50ms'\nlimits=[{kind='concurrency',max=4}]\n\
                    [load]\nrequests=100";
        let mut trace = Trace::new(0.1);
        let client = |_, _, _| Steady {
            free: 5,
            waiting: Vec::new(),
        };
        let ran = run(&scenario(text), 1, client, Some(&mut trace)).0;
        let admitted: u32 = trace.slices().iter().map(|slice| slice.admitted).sum();
        let refused: u32 = trace.slices().iter().map(|slice| slice.refused).sum();
        assert_eq!(
            (u64::from(admitted), u64::from(refused)),
            (ran.served, ran.refused)
        );
    }
}
