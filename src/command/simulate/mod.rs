//! `paceline simulate`: runs the scheduler against virtual providers in virtual time.

mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use paceline::sim::{self, Miss, Paceline, Run, Scenario, Summary};

/// Runs scenarios in virtual time and prints what came of them.
///
/// Exit code 1 if something that a scenario expects does not hold.
///
/// Example: paceline simulate fixtures/scenarios/*.toml --seeds 40
#[derive(clap::Args)]
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
}

/// Runs the scenarios.
pub(crate) fn run(args: Args) -> ExitCode {
    let mut results = Vec::new();
    let mut table = table::Table::new();
    for path in &args.scenarios {
        let scenario = match read(path) {
            Ok(scenario) => scenario,
            Err(error) => {
                eprintln!("paceline simulate: {error}");
                return ExitCode::from(super::USAGE);
            }
        };
        if args.changes {
            print_changes(&args.choose(&scenario, args.first_seed(&scenario)), &args);
        }
        let result = args.simulate(path, &scenario);
        if !args.json {
            table.print(&result);
        }
        results.push(result);
    }
    if args.json {
        match serde_json::to_string_pretty(&results) {
            Ok(text) => println!("{text}"),
            Err(error) => {
                eprintln!("paceline simulate: cannot write the results as JSON: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let missed = results.iter().any(|result| !result.misses.is_empty());
    if missed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

impl Args {
    fn simulate(&self, path: &Path, scenario: &Scenario) -> Result {
        let first = self.first_seed(scenario);
        let seeds = self.seeds.unwrap_or(scenario.seeds);
        let runs: Vec<Run> = (first..first + seeds)
            .map(|seed| sim::run(&self.choose(scenario, seed), seed, Paceline::new, None).0)
            .collect();
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

fn print_changes(scenario: &Scenario, args: &Args) {
    let client = |keys, wall, seed| Paceline::new(keys, wall, seed).keeping_changes();
    let (_, client) = sim::run(scenario, args.first_seed(scenario), client, None);
    for change in client.changes() {
        let key = change
            .key
            .map_or_else(|| "-".to_owned(), |key| key.to_string());
        println!("{:>12?} {key:>12} {:?}", change.at, change.what);
    }
}
