//! The scoreboard `fixtures/report.md`: every scenario, for paceline and for everybody else, with
//! the first seed. It may not drift from what the code does without being looked at.

use std::fmt::Write as _;

use paceline::sim::{self, Paceline, Rival, Run, Scenario};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Whether what the code does is to be written down instead of compared.
fn is_rewriting() -> bool {
    std::env::var_os("PACELINE_WRITE_REPORT").is_some()
}

/// Who stands in it, after paceline. The ideal is what everybody is measured by.
const RIVALS: [Rival; 6] = [
    Rival::Fixed,
    Rival::Promptfoo,
    Rival::Vector,
    Rival::Aws,
    Rival::Gradient2,
    Rival::Tuned,
];

/// What a row says of one client.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    efficiency: f64,
    /// Of the first hundred successes.
    first: f64,
    /// Refusals per success, in percent.
    refusals: f64,
    /// In seconds until the first sending.
    wait_p50: f64,
    wait_p99: f64,
    /// In seconds until nine tenths are used after a change of the limits.
    settled: Option<f64>,
    lost: u64,
}

impl Row {
    fn of(run: &Run) -> Self {
        Self {
            efficiency: run.efficiency,
            first: run.efficiency_first,
            refusals: 100.0 * run.refusals(),
            wait_p50: run.wait_p50.into(),
            wait_p99: run.wait_p99.into(),
            settled: run.settled,
            lost: run.lost,
        }
    }

    fn text(self) -> String {
        let Self {
            efficiency,
            first,
            refusals,
            wait_p50,
            wait_p99,
            lost,
            ..
        } = self;
        let settled = self
            .settled
            .map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}"));
        format!(
            "{efficiency:.2} | {first:.2} | {refusals:.1} | {wait_p50:.1} | {wait_p99:.1} | \
             {settled} | {lost}"
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let cells: Vec<&str> = text.split(" | ").collect();
        let &[
            efficiency,
            first,
            refusals,
            wait_p50,
            wait_p99,
            settled,
            lost,
        ] = &cells[..]
        else {
            return None;
        };
        let settled = match settled {
            "-" => None,
            seconds => Some(seconds.parse().ok()?),
        };
        Some(Self {
            efficiency: efficiency.parse().ok()?,
            first: first.parse().ok()?,
            refusals: refusals.parse().ok()?,
            wait_p50: wait_p50.parse().ok()?,
            wait_p99: wait_p99.parse().ok()?,
            settled,
            lost: lost.parse().ok()?,
        })
    }

    /// The last digit of a logarithm differs between machines and is enough to move a run a
    /// little; what is more than this is a change of behaviour.
    fn is_like(self, other: Self) -> bool {
        let near = |a: f64, b: f64, most: f64| a == b || (a - b).abs() <= most;
        let soon = |a: f64, b: f64| near(a, b, 0.5 + 0.2 * a.max(b));
        let settled = match (self.settled, other.settled) {
            (Some(a), Some(b)) => soon(a, b),
            (None, None) => true,
            _ => false,
        };
        settled
            && near(self.efficiency, other.efficiency, 0.025)
            && near(self.first, other.first, 0.05)
            && near(self.refusals, other.refusals, 0.5 + 0.15 * self.refusals)
            && soon(self.wait_p50, other.wait_p50)
            && soon(self.wait_p99, other.wait_p99)
            && near(
                self.lost as f64,
                other.lost as f64,
                5.0 + 0.15 * self.lost as f64,
            )
    }
}

/// What paceline and everybody else make of a scenario.
fn rows(scenario: &Scenario) -> Vec<Row> {
    let seed = scenario.first_seed;
    let ours = sim::run(scenario, seed, Paceline::new, None).0;
    let others = RIVALS
        .iter()
        .map(|rival| Row::of(&rival.run(scenario, seed)));
    [Row::of(&ours)].into_iter().chain(others).collect()
}

fn names() -> Vec<String> {
    let others = RIVALS.iter().map(Rival::to_string);
    ["paceline".to_owned()].into_iter().chain(others).collect()
}

fn report(scenarios: &[(String, Vec<Row>)]) -> String {
    let mut text = String::from(
        "# Every scenario, side by side\n\n\
         What the first seed of each file in `scenarios/` gives: the efficiency (the ideal client's\n\
         time ÷ the time taken) of all and of the first hundred successes, refusals per success in\n\
         percent, how long half and 99 of 100 requests waited for their first sending, and how long\n\
         it took after a change of the limits until nine tenths were used again, in seconds. A run\n\
         is stopped after ten times the ideal and two minutes; what was not served by then is lost.\n\n\
         `paceline simulate fixtures/scenarios/*.toml --seeds 100` prints the median, the 5th\n\
         percentile and the worst of a hundred seeds, and of others with `--against`. Written by\n\
         `PACELINE_WRITE_REPORT=1 cargo test --all-features report`.\n\n\
         | scenario | who | efficiency | first 100 | refusals | wait p50 | p99 | to 0.9 | lost |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (name, rows) in scenarios {
        for (who, row) in names().iter().zip(rows) {
            writeln!(
                text,
                "| {} | {who} | {} |",
                name.replace('-', " "),
                row.text()
            )
            .unwrap();
        }
    }
    text
}

fn parsed(text: &str) -> Vec<(String, Vec<Row>)> {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = lines.filter_map(|line| {
        let (name, rest) = line.split_once(" | ")?;
        let (_, row) = rest.split_once(" | ")?;
        Some((name.replace(' ', "-"), Row::parse(row)?))
    });
    let mut scenarios: Vec<(String, Vec<Row>)> = Vec::new();
    for (name, row) in rows {
        match scenarios.last_mut() {
            Some((last, rows)) if *last == name => rows.push(row),
            _ => scenarios.push((name, vec![row])),
        }
    }
    scenarios
}

/// What the README shows of it: a scenario, and what its providers are in words.
const SHOWN: [(&str, &str); 6] = [
    (
        "a-reported-bucket-is-used-in-full",
        "a token bucket, told in headers",
    ),
    (
        "a-reported-window-is-used-to-its-end-in-whole-seconds",
        "a window, told in whole seconds",
    ),
    ("a-silent-bucket-is-found", "a token bucket, nothing told"),
    ("a-silent-fixed-window-is-found", "a window, nothing told"),
    ("a-silent-cap-is-found", "so many at once, nothing told"),
    (
        "a-silent-limit-is-followed-down-and-up",
        "a limit that falls and rises, nothing told",
    ),
];

/// Whose column stands there: an index into the rows of a scenario, and a heading.
const COLUMNS: [(usize, &str); 5] = [
    (0, "paceline"),
    (1, "a semaphore and backoff"),
    (3, "Vector's"),
    (4, "AWS adaptive"),
    (6, "told the limit by hand"),
];

fn scoreboard(scenarios: &[(String, Vec<Row>)]) -> String {
    let headings: Vec<&str> = COLUMNS.iter().map(|column| column.1).collect();
    let mut text = format!("| the API has | {} |\n| ---", headings.join(" | "));
    text.push_str(&" | ---".repeat(COLUMNS.len()));
    text.push_str(" |\n");
    for (name, words) in SHOWN {
        let (_, rows) = scenarios
            .iter()
            .find(|(found, _)| found == name)
            .expect("what is shown is in the report");
        let cells = COLUMNS.map(|(index, _)| {
            let Row {
                efficiency,
                refusals,
                ..
            } = rows[index];
            format!("{:.0} %, {refusals:.1}", 100.0 * efficiency)
        });
        writeln!(text, "| {words} | {} |", cells.join(" | ")).unwrap();
    }
    text
}

/// The README with another scoreboard in the place of its own.
fn readme_with(scoreboard: &str, readme: &str) -> String {
    let start = readme.find("| the API has |").expect("a scoreboard");
    let end = start + readme[start..].find("\n\n").expect("an end") + 1;
    format!("{}{scoreboard}{}", &readme[..start], &readme[end..])
}

#[test]
fn the_readme_shows_what_the_report_tells() {
    let read = |name: &str| std::fs::read_to_string(format!("{ROOT}/{name}")).unwrap();
    let readme = read("README.md");
    let wanted = readme_with(&scoreboard(&parsed(&read("fixtures/report.md"))), &readme);
    assert!(
        readme == wanted || is_rewriting(),
        "README.md shows other figures than fixtures/report.md; write both anew with \
         PACELINE_WRITE_REPORT=1"
    );
}

#[test]
fn the_report_tells_what_the_code_does() {
    let path = format!("{ROOT}/fixtures/report.md");
    let found: Vec<(String, Vec<Row>)> = super::scenarios("")
        .into_iter()
        .map(|(name, scenario)| (name, rows(&scenario)))
        .collect();
    if is_rewriting() {
        std::fs::write(path, report(&found)).unwrap();
        let readme = format!("{ROOT}/README.md");
        let text = std::fs::read_to_string(&readme).unwrap();
        std::fs::write(readme, readme_with(&scoreboard(&found), &text)).unwrap();
        return;
    }
    let told = parsed(&std::fs::read_to_string(path).unwrap());
    let names =
        |rows: &[(String, Vec<Row>)]| rows.iter().map(|row| row.0.clone()).collect::<Vec<_>>();
    assert_eq!(
        names(&told),
        names(&found),
        "other scenarios than in the report"
    );
    for ((name, told), (_, found)) in told.iter().zip(&found) {
        assert_eq!(told.len(), found.len(), "{name}");
        for (told, found) in told.iter().zip(found) {
            assert!(
                found.is_like(*told),
                "{name}: {} where fixtures/report.md tells {}; if that is meant, write it anew with \
                 PACELINE_WRITE_REPORT=1",
                found.text(),
                told.text()
            );
        }
    }
}

#[test]
fn a_report_reads_back_as_it_was_written() {
    let row = Row {
        efficiency: 0.5,
        first: 0.25,
        refusals: 12.5,
        wait_p50: 1.5,
        wait_p99: 2.5,
        settled: Some(3.5),
        lost: 3,
    };
    let none = Row {
        lost: 0,
        settled: None,
        wait_p99: f64::INFINITY,
        ..row
    };
    let scenarios = [("a-b".into(), vec![row; 7]), ("c".into(), vec![none; 7])];
    let text = report(&scenarios);
    assert_eq!(parsed(&text), scenarios, "{text}");
    assert!(row.is_like(row) && none.is_like(none) && !row.is_like(none));
}
