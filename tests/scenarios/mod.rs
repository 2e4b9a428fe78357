//! Every scenario file: what it expects holds over its seeds.
//!
//! What a file aims at and does not reach is printed, not required: `cargo test scenarios --
//! --nocapture` shows it. A debug build runs the first seeds and judges each for itself;
//! `cargo test --release` runs all and judges their medians too.

mod explained;
mod promises;
mod report;
mod second_run;
mod seeds;

use std::path::PathBuf;

use paceline::sim::{self, Expect, Miss, Paceline, Run, Scenario};

/// The files of a folder below `fixtures/scenarios`, in order.
fn scenarios(folder: &str) -> Vec<(String, Scenario)> {
    let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "fixtures/scenarios", folder]
        .iter()
        .collect();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    });
    paths.sort();
    assert!(!paths.is_empty());
    paths
        .into_iter()
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, scenario)
        })
        .collect()
}

/// Runs a scenario with all of its seeds, as it is or varied by the seed.
fn runs(scenario: &Scenario, varied: bool) -> Vec<Run> {
    let most = match (cfg!(debug_assertions), varied) {
        (false, _) => u64::MAX,
        (true, false) => 2,
        (true, true) => 1,
    };
    let seeds = scenario.seeds.min(most);
    (scenario.first_seed..scenario.first_seed + seeds)
        .map(|seed| {
            let varied = varied.then(|| scenario.varied(seed));
            sim::run(
                varied.as_ref().unwrap_or(scenario),
                seed,
                Paceline::new,
                None,
            )
            .0
        })
        .collect()
}

/// Runs every file and answers what was missed, with the name of the file.
fn missed(varied: bool, misses: fn(&Expect, &[Run]) -> Vec<Miss>) -> Vec<String> {
    let mut missed = Vec::new();
    for (name, scenario) in scenarios("") {
        let runs = runs(&scenario, varied);
        for miss in misses(&scenario.goal.unwrap_or_default(), &runs) {
            println!(
                "{name}: goal {} = {} not {}",
                miss.field, miss.expected, miss.found
            );
        }
        let expect = if cfg!(debug_assertions) {
            scenario.expect.of_each_run()
        } else {
            scenario.expect
        };
        for miss in misses(&expect, &runs) {
            missed.push(format!(
                "{name}: {} = {} not {}",
                miss.field, miss.expected, miss.found
            ));
        }
    }
    missed
}

#[test]
fn every_scenario_gives_what_it_expects() {
    let missed = missed(false, Expect::misses);
    assert!(missed.is_empty(), "\n{}", missed.join("\n"));
}

#[test]
fn every_scenario_gives_what_it_expects_when_it_is_varied() {
    let missed = missed(true, Expect::misses_varied);
    assert!(missed.is_empty(), "\n{}", missed.join("\n"));
}

#[test]
fn every_practice_provider_can_be_read() {
    assert!(scenarios("practice").len() >= 6);
}

/// The names that a table may have, as the error about a wrong one lists them.
fn fields_of(table: &str) -> Vec<String> {
    let text = format!("{table}\nno-such-field = 1");
    let error = Scenario::parse(&text).unwrap_err().to_string();
    let (_, listed) = error
        .split_once("expected")
        .unwrap_or_else(|| panic!("{error}"));
    listed
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_scenario_with_every_field_has_every_field() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/scenarios/practice/every-field.toml"
    );
    let text = std::fs::read_to_string(path).unwrap();
    for table in [
        "",
        "[provider]",
        "[provider.ban]",
        "[provider.errors]",
        "[load]",
        "[network]",
        "[expect]",
    ] {
        let fields = fields_of(table);
        assert!(fields.len() >= 2, "{table}");
        for field in fields {
            assert!(text.contains(&field), "{table} {field} is not in {path}");
        }
    }
}
