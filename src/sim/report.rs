//! What came out of runs, and whether it is what was expected.

use super::load::Jobs;
use super::oracle::{self, Ideal};
use super::provider::Counted;
use super::scenario::Expect;

/// What came out of one run.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Run {
    /// Requests in all.
    pub requests: u64,
    /// Seconds that the ideal client takes.
    pub ideal: f64,
    /// Seconds from the first request to the last success, as the provider saw them.
    pub took: f64,
    /// `ideal / took`; if something was lost, at most 1 and times the share that was not.
    pub efficiency: f64,
    /// The same of the first hundred successes.
    pub efficiency_first: f64,
    /// Successes.
    pub served: u64,
    /// Answers with 429.
    pub refused: u64,
    /// Answers with an error of the provider's own.
    pub errors: u64,
    /// Answers with 401.
    pub unauthorized: u64,
    /// Answers during a ban.
    pub banned: u64,
    /// Requests without a success.
    pub lost: u64,
    /// Successes of requests that had one.
    pub twice: u64,
    /// The most in flight at the provider.
    pub max_in_flight: u32,
    /// Seconds from a change of the limits until nine tenths of what is allowed are used again; of
    /// several changes the longest. None if nothing changes while it runs.
    pub settled: Option<f64>,
    /// Seconds that half of the requests waited at most for their first sending.
    pub wait_p50: f32,
    /// Seconds that 99 of 100 waited at most.
    pub wait_p99: f32,
}

/// What came out of all runs of a scenario.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// How many runs.
    pub runs: usize,
    /// Its worst is the lowest.
    pub efficiency: Spread,
    /// The median.
    pub efficiency_first: f64,
    /// Refusals ÷ successes; the worst is the highest.
    pub refusals: Spread,
    /// The most in flight; the worst is the highest.
    pub max_in_flight: Spread,
    /// The highest.
    pub banned: u64,
    /// The highest.
    pub lost: u64,
    /// The highest.
    pub twice: u64,
    /// The longest of [`Run::settled`], in seconds.
    pub settled: Option<f64>,
    /// The median of the medians, in seconds.
    pub wait_p50: f64,
    /// The median, in seconds.
    pub wait_p99: f64,
    /// The median, in seconds.
    pub took: f64,
}

/// How near to the ideal a time is.
fn share(ideal: f64, took: f64) -> f64 {
    if took > 0.0 { ideal / took } else { 1.0 }
}

/// A figure over several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Spread {
    /// Of the runs in order the one in the middle.
    pub median: f64,
    /// Nineteen of twenty did no worse.
    pub fifth: f64,
    /// Of the run that did worst.
    pub worst: f64,
}

/// Something that was expected and is not so.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Miss {
    /// Which field of [`Expect`].
    pub field: &'static str,
    /// What was expected.
    pub expected: f64,
    /// What came out.
    pub found: f64,
}

impl Run {
    pub(super) fn new(
        counts: &Counted,
        jobs: &Jobs,
        ideal: &Ideal,
        took: Option<f64>,
        took_first: Option<f64>,
        mut waits: Vec<f32>,
    ) -> Self {
        waits.sort_unstable_by(f32::total_cmp);
        let total = counts.total();
        let requests = jobs.as_slice().len() as u64;
        let lost = requests.saturating_sub(total.served - total.twice);
        let took = took.unwrap_or(f64::INFINITY);
        // A load of fewer has no first hundred but all of it.
        let all = (requests < oracle::FIRST).then_some(took);
        let took_first = took_first.or(all).unwrap_or(f64::INFINITY);
        Self {
            requests,
            ideal: ideal.seconds,
            took,
            efficiency: if lost > 0 {
                share(ideal.seconds, took).min(1.0) * (1.0 - lost as f64 / requests as f64)
            } else {
                share(ideal.seconds, took)
            },
            efficiency_first: share(ideal.first, took_first),
            served: total.served,
            refused: total.refused,
            errors: total.errors,
            unauthorized: total.unauthorized,
            banned: total.banned,
            lost,
            twice: total.twice,
            max_in_flight: total.max_in_flight,
            settled: None,
            wait_p50: quantile(&waits, 0.5),
            wait_p99: quantile(&waits, 0.99),
        }
    }

    /// Refusals ÷ successes.
    #[must_use]
    pub fn refusals(&self) -> f64 {
        self.refused as f64 / self.served.max(1) as f64
    }
}

impl Spread {
    /// Of sorted values of which the least are the worst.
    fn of_more(sorted: &[f64]) -> Self {
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        Self {
            median: middle(sorted),
            fifth: at(sorted.len() / 20),
            worst: at(0),
        }
    }

    /// Of sorted values of which the least are the best.
    fn of_less(sorted: &[f64]) -> Self {
        let from_end = |back: usize| sorted.iter().rev().nth(back).copied().unwrap_or_default();
        Self {
            median: middle(sorted),
            fifth: from_end(sorted.len() / 20),
            worst: from_end(0),
        }
    }
}

impl Summary {
    /// Of the runs of one scenario.
    #[must_use]
    pub fn of(runs: &[Run]) -> Self {
        let sorted = |value: &dyn Fn(&Run) -> f64| {
            let mut values: Vec<f64> = runs.iter().map(value).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let median = |value: &dyn Fn(&Run) -> f64| middle(&sorted(value));
        let efficiency = sorted(&|run| run.efficiency);
        let refusals = sorted(&Run::refusals);
        let in_flight = sorted(&|run| f64::from(run.max_in_flight));
        Self {
            runs: runs.len(),
            efficiency: Spread::of_more(&efficiency),
            efficiency_first: median(&|run| run.efficiency_first),
            refusals: Spread::of_less(&refusals),
            max_in_flight: Spread::of_less(&in_flight),
            settled: runs
                .iter()
                .filter_map(|run| run.settled)
                .max_by(f64::total_cmp),
            banned: runs.iter().map(|run| run.banned).max().unwrap_or_default(),
            lost: runs.iter().map(|run| run.lost).max().unwrap_or_default(),
            twice: runs.iter().map(|run| run.twice).max().unwrap_or_default(),
            wait_p50: median(&|run| f64::from(run.wait_p50)),
            wait_p99: median(&|run| f64::from(run.wait_p99)),
            took: median(&|run| run.took),
        }
    }
}

impl Expect {
    /// What of it does not hold for these runs.
    #[must_use]
    pub fn misses(&self, runs: &[Run]) -> Vec<Miss> {
        let found = Summary::of(runs);
        let usual = self.refusals_beyond(1.0, runs);
        let twice = self.refusals_beyond(2.0, runs);
        let worst = twice.last().copied().unwrap_or_default();
        let Self {
            efficiency_floor: floor,
            refusals_ceiling: ceiling,
            ..
        } = self.of_each_run();
        let at_least = [
            ("efficiency", self.efficiency, found.efficiency.median),
            ("efficiency_floor", floor, found.efficiency.worst),
        ];
        let at_most = [
            ("refusals", self.refusals, middle(&usual)),
            ("refusals_ceiling", ceiling, worst),
            (
                "max_in_flight",
                self.max_in_flight,
                found.max_in_flight.median,
            ),
            (
                "max_in_flight_ceiling",
                self.max_in_flight_ceiling,
                found.max_in_flight.worst,
            ),
        ];
        let mut misses = missed(&at_least, &at_most);
        misses.extend(self.harm(&found));
        misses
    }

    /// What of it holds for each run alone, however few they are: no medians.
    #[must_use]
    pub fn of_each_run(self) -> Self {
        let usual_floor = self.efficiency.map(|bar| bar - SLACK);
        let usual_ceiling = self.refusals.map(|bar| 2.0 * bar);
        let floor = self.efficiency_floor.or(usual_floor);
        let ceiling = self.refusals_ceiling.or(usual_ceiling);
        Self {
            efficiency: None,
            efficiency_floor: floor,
            refusals: None,
            refusals_ceiling: ceiling,
            max_in_flight: None,
            varied_efficiency: None,
            varied_refusals: None,
            ..self
        }
    }

    /// The same for runs with varied parameters.
    #[must_use]
    pub fn misses_varied(&self, runs: &[Run]) -> Vec<Miss> {
        let found = Summary::of(runs);
        let usual = self.refusals_beyond(1.0, runs);
        let mut misses = missed(
            &[(
                "varied_efficiency",
                self.varied_efficiency,
                found.efficiency.median,
            )],
            &[("varied_refusals", self.varied_refusals, middle(&usual))],
        );
        misses.extend(self.harm(&found));
        misses
    }

    /// Refusals ÷ successes of each run, sorted, without `times` the number that is on top.
    fn refusals_beyond(&self, times: f64, runs: &[Run]) -> Vec<f64> {
        let beyond = |run: &Run| {
            let counted = (run.refused as f64 - times * self.refusals_more).max(0.0);
            counted / run.served.max(1) as f64
        };
        let mut shares: Vec<f64> = runs.iter().map(beyond).collect();
        shares.sort_unstable_by(f64::total_cmp);
        shares
    }

    /// What must never happen, in whatever run.
    fn harm(&self, found: &Summary) -> Vec<Miss> {
        let counted = |field, expected: u64, found: u64| Miss {
            field,
            expected: expected as f64,
            found: found as f64,
        };
        let all = [
            counted("banned", self.banned, found.banned),
            counted("lost", self.lost, found.lost),
            counted("twice", self.twice, found.twice),
        ];
        all.into_iter()
            .filter(|miss| miss.found > miss.expected)
            .collect()
    }
}

/// How far the worst seed may lie below the median where nothing else is said.
const SLACK: f64 = 0.05;

type Bound = (&'static str, Option<f64>, f64);

fn missed(at_least: &[Bound], at_most: &[Bound]) -> Vec<Miss> {
    let low = at_least.iter().map(|bound| (bound, -1.0));
    let high = at_most.iter().map(|bound| (bound, 1.0));
    low.chain(high)
        .filter_map(|(&(field, expected, found), sign)| {
            let expected = expected?;
            ((found - expected) * sign > 0.0).then_some(Miss {
                field,
                expected,
                found,
            })
        })
        .collect()
}

/// The middle of sorted values; of an even number the lower one.
fn middle(sorted: &[f64]) -> f64 {
    sorted
        .get(sorted.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or_default()
}

fn quantile(sorted: &[f32], share: f64) -> f32 {
    let index = (share * sorted.len() as f64) as usize;
    sorted
        .get(index.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(efficiency: f64, refused: u64) -> Run {
        Run {
            requests: 100,
            ideal: 1.0,
            took: 1.0 / efficiency,
            efficiency,
            efficiency_first: efficiency,
            served: 100,
            refused,
            errors: 0,
            unauthorized: 0,
            banned: 0,
            lost: 0,
            twice: 0,
            max_in_flight: 10,
            settled: None,
            wait_p50: 0.0,
            wait_p99: 0.0,
        }
    }

    fn fields(expect: Expect, runs: &[Run]) -> Vec<&'static str> {
        expect
            .misses(runs)
            .into_iter()
            .map(|miss| miss.field)
            .collect()
    }

    #[test]
    fn medians_are_judged_by_the_bar_and_the_worst_by_the_floor() {
        let runs = [ran(0.99, 0), ran(0.80, 0), ran(0.98, 1)];
        let bar = Expect {
            efficiency: Some(0.97),
            refusals: Some(0.0),
            ..Expect::default()
        };
        assert_eq!(fields(bar, &runs), ["efficiency_floor", "refusals_ceiling"]);
        assert_eq!(
            fields(bar, &[ran(0.98, 0), ran(0.93, 0), ran(0.99, 0)]),
            [""; 0]
        );
        assert_eq!(fields(bar.of_each_run(), &[ran(0.93, 0)]), [""; 0]);
        let floor = Expect {
            efficiency_floor: Some(0.85),
            refusals_ceiling: Some(0.005),
            ..Expect::default()
        };
        assert_eq!(
            fields(floor, &runs),
            ["efficiency_floor", "refusals_ceiling"]
        );
    }

    #[test]
    fn refusals_that_finding_a_limit_costs_come_on_top() {
        let expect = Expect {
            refusals: Some(0.01),
            refusals_more: 6.0,
            refusals_ceiling: Some(0.01),
            ..Expect::default()
        };
        assert_eq!(fields(expect, &[ran(1.0, 7)]), [""; 0]);
        assert_eq!(fields(expect, &[ran(1.0, 8)]), ["refusals"]);
        assert_eq!(
            fields(expect, &[ran(1.0, 14)]),
            ["refusals", "refusals_ceiling"]
        );
    }

    #[test]
    fn harm_is_a_miss_whether_or_not_it_was_named() {
        let mut run = ran(1.0, 0);
        (run.lost, run.banned, run.twice) = (1, 2, 3);
        assert_eq!(
            fields(Expect::default(), &[run.clone()]),
            ["banned", "lost", "twice"]
        );
        let varied = Expect::default().misses_varied(&[run]);
        assert_eq!(varied.len(), 3);
    }

    #[test]
    fn a_summary_has_medians_and_worst_cases() {
        let summary = Summary::of(&[ran(0.5, 30), ran(0.9, 10), ran(0.7, 20)]);
        let spread = |median, worst| Spread {
            median,
            fifth: worst,
            worst,
        };
        assert_eq!(summary.efficiency, spread(0.7, 0.5));
        assert_eq!(summary.refusals, spread(0.2, 0.3));
        let hundred: Vec<_> = (1..=100)
            .map(|n| ran(f64::from(n) / 100.0, 2 * n as u64))
            .collect();
        let summary = Summary::of(&hundred);
        assert_eq!(
            (summary.efficiency.fifth, summary.efficiency.worst),
            (0.06, 0.01)
        );
        assert_eq!((summary.refusals.fifth, summary.refusals.worst), (1.9, 2.0));
        assert_eq!(Summary::of(&[]).runs, 0);
    }
}
