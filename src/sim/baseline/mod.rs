//! What paceline is compared with: other people's rules, from their published descriptions, in the
//! same loop and with one instance of the rule per key.
//!
//! What a rule leaves to its user is the same for all: [`CALLERS`] requests in flight per key where
//! a rule limits none, and at most [`ATTEMPTS`] attempts where it names no number.

mod aws;
mod fixed;
mod gradient2;
mod promptfoo;
mod tuned;
mod vector;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::str::FromStr;

use crate::Time;

use super::client::{Attempt, Client, End, Next};
use super::dice::{Dice, Stream};
use super::load::Job;
use super::report::Run;
use super::run::{run, run_oracle};
use super::scenario::Scenario;

/// Somebody to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rival {
    /// A fixed number in flight, retries with exponential backoff: `reqwest-retry` and the like.
    Fixed,
    /// The adaptive scheduler of promptfoo.
    Promptfoo,
    /// Vector's adaptive request concurrency.
    Vector,
    /// The adaptive retry mode of the AWS SDKs.
    Aws,
    /// Netflix's Gradient2.
    Gradient2,
    /// A limiter set by hand to the true rate and cap.
    Tuned,
    /// The ideal itself.
    Oracle,
}

impl Rival {
    /// All of them, in the order of their names above.
    pub const ALL: [Self; 7] = [
        Self::Fixed,
        Self::Promptfoo,
        Self::Vector,
        Self::Aws,
        Self::Gradient2,
        Self::Tuned,
        Self::Oracle,
    ];

    /// Runs a scenario with a seed.
    #[must_use]
    pub fn run(self, scenario: &Scenario, seed: u64) -> Run {
        match self {
            Self::Fixed => compare(scenario, seed, fixed::Fixed::new),
            Self::Promptfoo => compare(scenario, seed, promptfoo::Promptfoo::new),
            Self::Vector => compare(scenario, seed, vector::Vector::new),
            Self::Aws => compare(scenario, seed, aws::Aws::new),
            Self::Gradient2 => compare(scenario, seed, gradient2::Gradient2::new),
            Self::Tuned => compare_keyed(scenario, seed, |key| tuned::Tuned::new(scenario, key)),
            Self::Oracle => run_oracle(scenario, seed),
        }
    }
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fixed => "fixed",
            Self::Promptfoo => "promptfoo",
            Self::Vector => "vector",
            Self::Aws => "aws",
            Self::Gradient2 => "gradient2",
            Self::Tuned => "tuned",
            Self::Oracle => "oracle",
        })
    }
}

impl FromStr for Rival {
    type Err = UnknownRival;

    fn from_str(name: &str) -> Result<Self, UnknownRival> {
        let found = Self::ALL
            .into_iter()
            .find(|rival| rival.to_string() == name);
        found.ok_or_else(|| UnknownRival(name.to_owned()))
    }
}

/// A name that is none of a [`Rival`].
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is nobody to compare with: use fixed, promptfoo, vector, aws, gradient2, tuned or oracle"
)]
pub struct UnknownRival(String);

/// How a client decides on one key.
trait Rule {
    /// Whether a request keeps its place in flight while it waits for its next attempt.
    const HOLDS: bool;

    /// When the next request may be sent; [`Time::NEVER`] if only an answer can help.
    fn gate(&mut self, now: Time) -> Time;

    /// When a request that has kept its place may be sent again.
    fn gate_again(&mut self, now: Time) -> Time {
        now
    }

    /// A request is sent, for the first time or `again` from the place that it kept.
    fn on_sent(&mut self, again: bool, now: Time);

    /// An attempt that was sent then has ended.
    fn on_answer(&mut self, sent: Time, end: End<'_>, now: Time);

    /// A request gives up its place; its first attempt from there was sent then.
    fn on_left(&mut self, first_sent: Time, end: End<'_>, now: Time);

    /// Seconds until a request whose attempts so far have failed is tried again; none to give up.
    fn retry(&mut self, attempts: u16, end: End<'_>, dice: &mut Dice) -> Option<f64>;
}

/// A queue of requests, a rule for each key, and whoever waits for a retry.
struct Baseline<R> {
    rules: Vec<R>,
    /// The key whose turn it is.
    turn: usize,
    ready: VecDeque<u32>,
    later: BinaryHeap<Reverse<(Time, u32)>>,
    /// Those whose wait is over and who have kept their place.
    again: VecDeque<u32>,
    sent: Vec<Sent>,
    dice: Dice,
}

/// How a request was sent so far.
#[derive(Clone, Copy, Default)]
struct Sent {
    attempts: u16,
    key: usize,
    /// The first of the attempts from its present place.
    first: Time,
    last: Time,
}

fn compare<R: Rule>(scenario: &Scenario, seed: u64, rule: fn() -> R) -> Run {
    compare_keyed(scenario, seed, |_| rule())
}

fn compare_keyed<R: Rule>(scenario: &Scenario, seed: u64, rule: impl Fn(usize) -> R) -> Run {
    let client = |keys: usize, _wall, seed| Baseline {
        rules: (0..keys).map(&rule).collect(),
        turn: 0,
        ready: VecDeque::new(),
        later: BinaryHeap::new(),
        again: VecDeque::new(),
        sent: Vec::new(),
        dice: Dice::new(seed, Stream::Client),
    };
    run(scenario, seed, client, None).0
}

impl<R: Rule> Baseline<R> {
    fn send_again(&mut self, now: Time) -> Option<Attempt> {
        let &job = self.again.front()?;
        let sent = &mut self.sent[job as usize];
        let rule = &mut self.rules[sent.key];
        if rule.gate_again(now) > now {
            return None;
        }
        rule.on_sent(true, now);
        self.again.pop_front();
        sent.attempts = sent.attempts.saturating_add(1);
        sent.last = now;
        Some(Attempt { job, key: sent.key })
    }

    fn send_new(&mut self, now: Time) -> Option<Attempt> {
        let &job = self.ready.front()?;
        let keys = self.rules.len();
        let mut places = (0..keys).map(|offset| (self.turn + offset) % keys);
        let key = places.find(|&key| self.rules[key].gate(now) <= now)?;
        self.rules[key].on_sent(false, now);
        self.turn = (key + 1) % keys;
        self.ready.pop_front();
        let attempts = self.sent[job as usize].attempts.saturating_add(1);
        self.sent[job as usize] = Sent {
            attempts,
            key,
            first: now,
            last: now,
        };
        Some(Attempt { job, key })
    }
}

impl<R: Rule> Client for Baseline<R> {
    fn submit(&mut self, job: &Job, _now: Time) {
        self.ready.push_back(job.index);
        self.sent
            .resize(self.sent.len().max(job.index as usize + 1), Sent::default());
    }

    fn poll_send(&mut self, now: Time) -> Option<Attempt> {
        while let Some(&Reverse((at, job))) = self.later.peek()
            && at <= now
        {
            self.later.pop();
            if R::HOLDS {
                self.again.push_back(job);
            } else {
                self.ready.push_back(job);
            }
        }
        self.send_again(now).or_else(|| self.send_new(now))
    }

    fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        let retry = self.later.peek().map(|&Reverse((at, _))| at);
        let again = self.again.front().map(|&job| self.sent[job as usize].key);
        let again = again.map(|key| self.rules[key].gate_again(now));
        let gates = self.rules.iter_mut().map(|rule| rule.gate(now));
        let new = if self.ready.is_empty() {
            None
        } else {
            gates.min()
        };
        retry
            .into_iter()
            .chain(again)
            .chain(new)
            .min()
            .filter(|&at| at < Time::NEVER)
    }

    fn on_end(&mut self, attempt: Attempt, end: End<'_>, now: Time) -> Next {
        let sent = self.sent[attempt.job as usize];
        let rule = &mut self.rules[attempt.key];
        rule.on_answer(sent.last, end, now);
        let retry = if is_worth_a_retry(end) {
            rule.retry(sent.attempts, end, &mut self.dice)
        } else {
            None
        };
        if retry.is_none() || !R::HOLDS {
            rule.on_left(sent.first, end, now);
        }
        match retry {
            None => Next::Ended,
            Some(wait) => {
                self.later.push(Reverse((now.plus_secs(wait), attempt.job)));
                Next::Again
            }
        }
    }
}

/// What all of these clients try again.
fn is_worth_a_retry(end: End<'_>) -> bool {
    match end {
        End::Broken => true,
        End::Answer(reply) => matches!(reply.status, 408 | 429 | 500..),
    }
}

fn is_success(end: End<'_>) -> bool {
    matches!(end, End::Answer(reply) if reply.status < 400)
}

fn is_refusal(end: End<'_>) -> bool {
    matches!(end, End::Answer(reply) if reply.status == 429)
}

/// Exponential backoff with full jitter, as `retry-policies` (under `reqwest-retry`) has it by
/// default: evenly drawn up to 1 s × 2ⁿ; AWS caps that at 20 s.
fn full_jitter(attempts: u16, cap: f64, dice: &mut Dice) -> Option<f64> {
    let longest = 2f64.powi(i32::from(attempts) - 1).min(cap);
    (attempts < ATTEMPTS).then(|| dice.between(0.0, longest))
}

/// How many a caller keeps in flight per key where the rule itself limits none; as in the
/// published measurements of promptfoo's scheduler.
const CALLERS: usize = 32;
/// How often a request is sent at most where the rule leaves it open: as often as paceline does.
const ATTEMPTS: u16 = 11;

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(headers: &str, requests: u32) -> Scenario {
        let text = format!(
            "[provider]\nheaders='{headers}'\nlatency='150ms'\njitter='60ms'\n\
             limits=[{{kind='bucket',rate=100,burst=20}}]\n[load]\nrequests={requests}"
        );
        Scenario::parse(&text).unwrap()
    }

    #[test]
    fn every_rival_has_a_name_that_finds_it() {
        for rival in Rival::ALL {
            assert_eq!(rival.to_string().parse::<Rival>().unwrap(), rival);
        }
        assert!(
            "nobody"
                .parse::<Rival>()
                .unwrap_err()
                .to_string()
                .contains("`nobody`")
        );
    }

    #[test]
    fn a_limiter_set_to_the_true_rate_is_close_to_the_ideal() {
        let ran = Rival::Tuned.run(&bucket("none", 1000), 1);
        assert!(ran.efficiency > 0.95, "{ran:?}");
        assert!(ran.refusals() < 0.05, "{ran:?}");
    }

    #[test]
    fn the_oracle_is_the_ideal() {
        let ran = Rival::Oracle.run(&bucket("none", 1000), 1);
        assert_eq!((ran.efficiency, ran.refused, ran.lost), (1.0, 0, 0));
    }

    #[test]
    fn a_refusal_without_a_hint_stops_promptfoo_for_a_minute() {
        let ran = Rival::Promptfoo.run(&bucket("none", 300), 1);
        assert!(ran.took > 60.0, "{ran:?}");
    }

    #[test]
    fn a_fixed_number_in_flight_is_refused_again_and_again() {
        let ran = Rival::Fixed.run(&bucket("openai", 1000), 1);
        assert!(ran.refusals() > 0.1, "{ran:?}");
    }

    #[test]
    fn a_rate_learned_after_the_first_throttle_keeps_refusals_low() {
        let ran = Rival::Aws.run(&bucket("none", 1500), 1);
        assert!(
            ran.refusals() < Rival::Fixed.run(&bucket("none", 1500), 1).refusals(),
            "{ran:?}"
        );
    }

    #[test]
    fn vector_starts_at_one_and_grows() {
        let free = Scenario::parse("[provider]\nlatency='50ms'\n[load]\nrequests=3000").unwrap();
        let ran = Rival::Vector.run(&free, 1);
        assert!((10..=200).contains(&ran.max_in_flight), "{ran:?}");
    }

    #[test]
    fn gradient2_stays_within_its_bounds() {
        let free = Scenario::parse("[provider]\nlatency='50ms'\n[load]\nrequests=5000").unwrap();
        let ran = Rival::Gradient2.run(&free, 1);
        assert!((100..=200).contains(&ran.max_in_flight), "{ran:?}");
    }
}
