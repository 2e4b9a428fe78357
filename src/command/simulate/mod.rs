//! `paceline simulate`: runs the scheduler against virtual providers in virtual time.

mod picture;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use paceline::sim::{self, Miss, Paceline, Rival, Run, Scenario, Summary};

use super::say;

/// Runs scenarios in virtual time and prints what came of them.
///
/// Exit code 1 if something that a scenario expects does not hold.
#[derive(clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct Args {
    /// The scenarios.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// How many seeds; without it as many as each scenario says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// The first seed; without it the one that each scenario says.
    #[arg(long, value_name = "N")]
    first_seed: Option<u64>,
    /// Multiplies every rate, burst, latency, window and cap by a factor from a half to two, drawn
    /// by the seed.
    #[arg(long)]
    varied: bool,
    /// Runs others in the same place: fixed, promptfoo, vector, aws, gradient2, tuned (set by hand
    /// to the true limit) or oracle (the ideal); several with commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    against: Vec<Rival>,
    /// Draws the first seed: rate, limit and refusals, requests in flight and waiting, over time.
    /// For one scenario.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Prints every decision of the first seed, with its reason.
    #[arg(long)]
    changes: bool,
    /// Prints JSON for a program.
    #[arg(long)]
    json: bool,
}

/// What came of one scenario.
#[derive(serde::Serialize)]
struct Result {
    scenario: String,
    #[serde(flatten)]
    summary: Summary,
    /// What was expected and does not hold.
    misses: Vec<Miss>,
    /// What is aimed at and not reached.
    short_of_goal: Vec<Miss>,
    /// What others reach.
    against: Vec<Against>,
}

/// What came of one scenario for somebody else.
#[derive(serde::Serialize)]
struct Against {
    who: String,
    #[serde(flatten)]
    summary: Summary,
}

/// Runs the scenarios.
pub(crate) fn run(args: Args) -> ExitCode {
    match args.run() {
        Ok(results) if results.iter().all(|result| result.misses.is_empty()) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("paceline simulate: {error}");
            ExitCode::from(super::USAGE)
        }
    }
}

impl Args {
    fn run(&self) -> std::result::Result<Vec<Result>, String> {
        if self.svg.is_some() && self.scenarios.len() > 1 {
            return Err("--svg draws one scenario: name only one".into());
        }
        let mut results = Vec::new();
        let mut table = table::Table::new();
        for path in &self.scenarios {
            let scenario = read(path)?;
            if self.changes {
                self.print_changes(&scenario);
            }
            let result = self.simulate(path, &scenario);
            if !self.json {
                table.print(&result);
            }
            if let Some(svg) = &self.svg {
                let seed = self.first_seed(&scenario);
                let drawn = picture::draw(&result.scenario, &self.choose(&scenario, seed), seed);
                std::fs::write(svg, drawn)
                    .map_err(|error| format!("cannot write --svg {}: {error}", svg.display()))?;
            }
            results.push(result);
        }
        if self.json {
            let text = serde_json::to_string_pretty(&results);
            let text = text.map_err(|error| format!("cannot write JSON: {error}"))?;
            say(format_args!("{text}\n"));
        }
        Ok(results)
    }

    fn simulate(&self, path: &Path, scenario: &Scenario) -> Result {
        let first = self.first_seed(scenario);
        let seeds = self.seeds.unwrap_or(scenario.seeds);
        let runs = |one: &dyn Fn(&Scenario, u64) -> Run| -> Vec<Run> {
            let seeds = first..first.saturating_add(seeds);
            seeds
                .map(|seed| one(&self.choose(scenario, seed), seed))
                .collect()
        };
        let against = |rival: &Rival| Against {
            who: rival.to_string(),
            summary: Summary::of(&runs(&|scenario, seed| rival.run(scenario, seed))),
        };
        let against = self.against.iter().map(against).collect();
        let runs = runs(&|scenario, seed| sim::run(scenario, seed, Paceline::new, None).0);
        let goal = scenario.goal.unwrap_or_default();
        let (misses, short_of_goal) = if self.varied {
            (
                scenario.expect.misses_varied(&runs),
                goal.misses_varied(&runs),
            )
        } else {
            (scenario.expect.misses(&runs), goal.misses(&runs))
        };
        let name = path
            .file_stem()
            .unwrap_or(path.as_os_str())
            .to_string_lossy()
            .into_owned();
        Result {
            scenario: name,
            summary: Summary::of(&runs),
            misses,
            short_of_goal,
            against,
        }
    }

    fn print_changes(&self, scenario: &Scenario) {
        let seed = self.first_seed(scenario);
        let client = |keys, wall, seed| Paceline::new(keys, wall, seed).keeping_changes();
        let (_, client) = sim::run(&self.choose(scenario, seed), seed, client, None);
        for change in client.changes() {
            let key = change
                .key
                .map_or_else(|| "-".to_owned(), |key| key.to_string());
            say(format_args!(
                "{:>12?} {key:>12} {:?}\n",
                change.at, change.what
            ));
        }
    }

    fn first_seed(&self, scenario: &Scenario) -> u64 {
        self.first_seed.unwrap_or(scenario.first_seed)
    }

    fn choose(&self, scenario: &Scenario, seed: u64) -> Scenario {
        if self.varied {
            scenario.varied(seed)
        } else {
            scenario.clone()
        }
    }
}

fn read(path: &Path) -> std::result::Result<Scenario, String> {
    let shown = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    Scenario::parse(&text).map_err(|error| format!("{shown}: {error}"))
}

const MORE: &str = "\
Columns of the table, over the seeds of a scenario:
  effic.    efficiency, the median: the time of an ideal client, which sits
            inside the provider and knows its limits, divided by the time taken
  worst     the same in the worst seed
  first     the same over the first hundred successes, while limits are learned
  refused   refusals divided by successes, the median; worst: the worst seed
  flight    the most requests in flight at once, in the worst seed
  lost      requests that never succeeded; ban: times the provider banned a key;
            twice: requests it served twice; each in the worst seed
  wait      seconds from asking to being sent, the median and the 99th percentile

Example:
  paceline simulate fixtures/scenarios/*.toml --seeds 40
  paceline simulate my.toml --against fixed,promptfoo --svg my.svg

Exit codes: 0 all that is expected holds, 1 something does not, 2 wrong usage.";
