//! The table `fixtures/seeds.md`: what a hundred seeds make of one scenario for each kind of
//! provider. What these aim at holds in every one of them, and the table may not drift from what
//! the code does without being looked at.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use paceline::sim::{self, Paceline, Run, Scenario, Summary};

/// Seeds of each, as it is and varied.
const SEEDS: u64 = 100;

/// The scenarios, one for each kind of provider: a name a line.
const KINDS: &str = include_str!("../../fixtures/kinds.txt");

const HEAD: &str = "\
# A hundred seeds of each kind of provider

The efficiency (the ideal client's time ÷ the time taken) of the median, of the fifth worst and of
the worst of a hundred seeds, and the refusals per success in percent of the median and of the
worst; the same where every rate, burst, latency, window and cap is halved to doubled by the seed.
Written by `PACELINE_WRITE_REPORT=1 cargo test --all-features seeds`.

| scenario | median | 5 % | worst | refusals | worst | varied | 5 % | worst | refusals | worst |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

/// What a hundred seeds came to: efficiencies and refusals of the scenario as it is and varied.
type Cells = [f64; 10];

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/seeds.md")
}

fn read(name: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/scenarios");
    let text = std::fs::read_to_string(folder.join(name).with_extension("toml"));
    Scenario::parse(&text.expect("it is there")).expect("it is a scenario")
}

fn runs(scenario: &Scenario, is_varied: bool) -> Vec<Run> {
    let seeds = scenario.first_seed..scenario.first_seed + SEEDS;
    let run = |seed| {
        let varied = is_varied.then(|| scenario.varied(seed));
        let scenario = varied.as_ref().unwrap_or(scenario);
        sim::run(scenario, seed, Paceline::new, None).0
    };
    seeds.map(run).collect()
}

/// What a scenario comes to, and what it aims at and misses.
fn judged(name: &str) -> (Cells, Vec<String>) {
    let scenario = read(name);
    let goal = scenario.goal.unwrap_or(scenario.expect);
    let (as_it_is, varied) = (runs(&scenario, false), runs(&scenario, true));
    let missed = goal.misses(&as_it_is).into_iter();
    let missed = missed.chain(goal.misses_varied(&varied));
    let missed = missed.map(|miss| {
        let (field, expected, found) = (miss.field, miss.expected, miss.found);
        format!("{name}: {field} = {found}, and {expected} was to be met")
    });
    let of = |runs: &[Run]| {
        let Summary {
            efficiency,
            refusals,
            ..
        } = Summary::of(runs);
        [
            efficiency.median,
            efficiency.fifth,
            efficiency.worst,
            100.0 * refusals.median,
            100.0 * refusals.worst,
        ]
    };
    let mut cells = [0.0; 10];
    cells[..5].copy_from_slice(&of(&as_it_is));
    cells[5..].copy_from_slice(&of(&varied));
    (cells, missed.collect())
}

/// All of them, on all cores.
fn all() -> Vec<(Cells, Vec<String>)> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = KINDS.lines().nth(place) else {
                break;
            };
            let judged = judged(name);
            done.lock().expect("no run fails").insert(place, judged);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    let done = done.into_inner().expect("no run fails");
    done.into_values().collect()
}

fn row(name: &str, cells: &Cells) -> String {
    let mut text = format!("| {} |", name.replace('-', " "));
    for (place, cell) in cells.iter().enumerate() {
        let digits = if place % 5 < 3 { 3 } else { 2 };
        write!(text, " {cell:.digits$} |").expect("text takes all");
    }
    text
}

fn parsed(line: &str) -> Option<(String, Vec<f64>)> {
    let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
    let (name, cells) = line.split_once(" | ")?;
    let cells: Result<Vec<f64>, _> = cells.split(" | ").map(str::parse).collect();
    Some((name.replace(' ', "-"), cells.ok()?))
}

/// The last digit of a logarithm differs between machines and moves a run a little; the worst of a
/// hundred more than their median.
fn is_like(cells: &Cells, told: &[f64]) -> bool {
    const NEAR: [f64; 5] = [0.02, 0.04, 0.08, 0.4, 1.5];
    let near = |place: usize| (cells[place] - told[place]).abs() <= NEAR[place % 5];
    told.len() == cells.len() && (0..cells.len()).all(near)
}

#[test]
fn what_each_kind_of_provider_aims_at_holds_over_a_hundred_seeds() {
    let all = all();
    let missed: Vec<&String> = all.iter().flat_map(|(_, missed)| missed).collect();
    assert!(missed.is_empty(), "{missed:#?}");
    if std::env::var_os("PACELINE_WRITE_REPORT").is_some() {
        let rows = KINDS
            .lines()
            .zip(&all)
            .map(|(name, (cells, _))| row(name, cells));
        let rows: Vec<String> = rows.collect();
        std::fs::write(file(), format!("{HEAD}{}\n", rows.join("\n"))).expect("it can be written");
        return;
    }
    let text = std::fs::read_to_string(file()).expect("it is there");
    let told: Vec<_> = text.lines().filter_map(parsed).collect();
    assert_eq!(
        told.len(),
        KINDS.lines().count(),
        "rows of {}",
        file().display()
    );
    for ((name, (cells, _)), (told_of, told)) in KINDS.lines().zip(&all).zip(&told) {
        assert_eq!(name, told_of);
        assert!(
            is_like(cells, told),
            "{}\nis told as {told:?}: look at it, then write it with PACELINE_WRITE_REPORT=1",
            row(name, cells)
        );
    }
}
