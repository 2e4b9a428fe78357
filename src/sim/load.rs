//! The requests of a run: what each costs and when it comes, drawn by seed.

use crate::Time;

use super::dice::{Dice, Stream};
use super::scenario::{Arrival, Load};

/// Requests in the order in which they come.
#[derive(Clone, Debug)]
pub(super) struct Jobs(Vec<Job>);

/// One request of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// Its place in the load, from 0.
    pub index: u32,
    /// When it comes.
    pub at: Time,
    /// What it costs in tokens.
    pub tokens: f64,
    /// What its sender takes it to cost.
    pub judged: f64,
}

impl Jobs {
    /// The load of a seed.
    pub(super) fn new(load: &Load, seed: u64) -> Self {
        let mut dice = Dice::new(seed, Stream::Load);
        let mut at = Time::START;
        let job = |index: u32| {
            let (low, high) = load.tokens;
            let tokens = dice.between(low, high).round().max(1.0);
            let judged = tokens * (1.0 + load.misjudged * dice.between(-1.0, 1.0));
            match load.arrival {
                Arrival::Batch => {}
                // Gaps of a Poisson process.
                Arrival::Open { rate } => at = at.plus_secs(-(1.0 - dice.unit()).ln() / rate),
                Arrival::Bursts { size, every } => {
                    let burst = u64::from(index) / size;
                    at = Time::from_secs_f64(every.as_secs_f64() * burst as f64);
                }
            }
            Job {
                index,
                at,
                tokens,
                judged,
            }
        };
        Self(
            (0..u32::try_from(load.requests).unwrap_or(u32::MAX))
                .map(job)
                .collect(),
        )
    }

    pub(super) fn as_slice(&self) -> &[Job] {
        &self.0
    }

    /// A request of the load.
    pub(super) fn job(&self, index: u32) -> &Job {
        &self.0[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Scenario;

    fn jobs(load: &str) -> Vec<Job> {
        let scenario = Scenario::parse(&format!("[provider]\n[load]\n{load}")).unwrap();
        Jobs::new(&scenario.load, 1).0
    }

    #[test]
    fn an_open_load_comes_at_its_rate() {
        let jobs = jobs("requests = 5000\narrival = { kind = 'open', rate = 100 }");
        let seconds = jobs.last().unwrap().at.as_secs_f64();
        assert!((47.0..53.0).contains(&seconds), "{seconds}");
    }

    #[test]
    fn bursts_come_together() {
        let jobs = jobs("requests = 5\narrival = { kind = 'bursts', size = 2, every = '3s' }");
        let moments: Vec<f64> = jobs.iter().map(|job| job.at.as_secs_f64()).collect();
        assert_eq!(moments, [0.0, 0.0, 3.0, 3.0, 6.0]);
    }

    #[test]
    fn costs_lie_in_their_range_and_estimates_around_them() {
        for job in jobs("requests = 500\ntokens = [100, 200]\nmisjudged = 0.3") {
            assert!((100.0..=200.0).contains(&job.tokens));
            assert!((0.7..=1.3).contains(&(job.judged / job.tokens)));
        }
    }
}
