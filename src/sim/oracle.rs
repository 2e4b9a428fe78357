//! The ideal: a client inside the provider that knows its law and needs no network.
//!
//! It is greedy: it sends as soon as the provider would admit, and waits for nothing else. With a
//! knee it keeps as many in flight as the knee, beyond which goodput does not grow.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use crate::Time;

use super::load::{Job, Jobs};
use super::provider::{Law, Provider, Request};

/// How long the ideal client takes, in seconds from its first request to its last success.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ideal {
    /// For all requests.
    pub(super) seconds: f64,
    /// For the first hundred successes.
    pub(super) first: f64,
}

/// So many successes show how a run begins.
pub(super) const FIRST: u64 = 100;

/// The ideal time of a load on a provider, and the provider after it.
pub(super) fn ideal(law: &Law, jobs: &Jobs, provider: Provider) -> (Ideal, Provider) {
    let most = law
        .knee
        .map_or(u32::MAX, |knee| knee.floor().max(1.0) as u32);
    Oracle {
        provider,
        most,
        ready: VecDeque::new(),
        flying: BinaryHeap::new(),
        sequence: 0,
        turn: 0,
        served: 0,
        first: None,
    }
    .run(jobs)
}

struct Oracle {
    provider: Provider,
    /// The most in flight that it makes sense to have.
    most: u32,
    ready: VecDeque<Job>,
    flying: BinaryHeap<Reverse<Flight>>,
    sequence: u64,
    /// The key whose turn it is.
    turn: usize,
    served: u64,
    first: Option<Time>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    at: Time,
    sequence: u64,
    job: u32,
    key: usize,
    admitted: bool,
    served: bool,
}

impl Oracle {
    fn run(mut self, jobs: &Jobs) -> (Ideal, Provider) {
        let mut coming = jobs.as_slice().iter().peekable();
        let mut now = Time::START;
        loop {
            while let Some(job) = coming.next_if(|job| job.at <= now) {
                self.ready.push_back(*job);
            }
            let retry = self.send(now);
            let arrival = coming.peek().map_or(Time::NEVER, |job| job.at);
            let end = self
                .flying
                .peek()
                .map_or(Time::NEVER, |Reverse(flight)| flight.at);
            let next = retry.min(arrival).min(end);
            if next == Time::NEVER {
                break;
            }
            now = next;
            if end == now {
                self.land(jobs, now);
            }
        }
        let total = self.provider.counts().total();
        let since_first = |end: Option<Time>| match (total.first, end) {
            (Some(first), Some(end)) => end.secs_since(first),
            _ => 0.0,
        };
        let seconds = since_first(total.last);
        let first = self.first.map_or(seconds, |first| since_first(Some(first)));
        (Ideal { seconds, first }, self.provider)
    }

    /// Sends what is admitted, and says when to try again.
    fn send(&mut self, now: Time) -> Time {
        let keys = self.provider.counts().keys().len();
        while let Some(&job) = self.ready.front() {
            if self.provider.in_flight() >= self.most {
                return Time::NEVER;
            }
            let mut shortest = Duration::MAX;
            let mut open = None;
            for offset in 0..keys {
                let key = (self.turn + offset) % keys;
                match self.provider.would_wait(key, job.tokens, now) {
                    None => {
                        open = Some(key);
                        break;
                    }
                    // Only an end can help, and ends are waited for anyway.
                    Some(Duration::ZERO) => {}
                    Some(wait) => shortest = shortest.min(wait),
                }
            }
            let Some(key) = open else {
                return self.again_after(shortest, now);
            };
            self.turn = (key + 1) % keys;
            self.ready.pop_front();
            let request = Request {
                id: u64::from(job.index),
                key,
                tokens: job.tokens,
            };
            let reply = self.provider.arrive(request, now);
            self.sequence += 1;
            self.flying.push(Reverse(Flight {
                at: now + reply.delay,
                sequence: self.sequence,
                job: job.index,
                key,
                admitted: reply.admitted,
                served: reply.status == 200,
            }));
        }
        Time::NEVER
    }

    /// A nanosecond more than told, so that rounding never brings it back too soon for ever.
    fn again_after(&self, wait: Duration, now: Time) -> Time {
        let waited = if wait == Duration::MAX {
            Time::NEVER
        } else {
            now + wait + Duration::from_nanos(1)
        };
        let change = self.provider.next_change().filter(|&at| at > now);
        waited.min(change.unwrap_or(Time::NEVER))
    }

    fn land(&mut self, jobs: &Jobs, now: Time) {
        let Some(Reverse(flight)) = self.flying.pop() else {
            return;
        };
        let job = *jobs.job(flight.job);
        let request = Request {
            id: u64::from(job.index),
            key: flight.key,
            tokens: job.tokens,
        };
        if flight.admitted {
            self.provider.finish(request, flight.served, now);
        }
        if flight.served {
            self.served += 1;
            if self.served == FIRST {
                self.first = Some(now);
            }
        } else {
            self.ready.push_back(job);
        }
    }
}
