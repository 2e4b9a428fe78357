//! The scoreboard `fixtures/report.md`: every scenario, for paceline and for everybody else, with
//! the first seed. It may not drift from what the code does without being looked at.

use std::fmt::Write as _;

use paceline::sim::{self, Paceline, Rival, Run, Scenario};

/// Who stands in it, after paceline. The ideal is what everybody is measured by.
const RIVALS: [Rival; 6] = [
    Rival::Fixed,
    Rival::Promptfoo,
    Rival::Vector,
    Rival::Aws,
    Rival::Gradient2,
    Rival::Tuned,
];

/// What a cell says.
#[derive(Clone, Copy, Debug)]
struct Cell {
    efficiency: f64,
    /// Refusals per success, in percent.
    refusals: f64,
    lost: u64,
}

impl Cell {
    fn of(run: &Run) -> Self {
        Self {
            efficiency: run.efficiency,
            refusals: 100.0 * run.refusals(),
            lost: run.lost,
        }
    }

    fn text(self) -> String {
        let lost = if self.lost > 0 {
            format!(", {} lost", self.lost)
        } else {
            String::new()
        };
        format!("{:.2}, {:.1} %{lost}", self.efficiency, self.refusals)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split(", ");
        let efficiency = parts.next()?.parse().ok()?;
        let refusals = parts.next()?.strip_suffix(" %")?.parse().ok()?;
        let lost = parts
            .next()
            .map_or(Some(0), |part| part.strip_suffix(" lost")?.parse().ok())?;
        Some(Self {
            efficiency,
            refusals,
            lost,
        })
    }

    /// The last digit of a logarithm differs between machines and is enough to move a run a
    /// little; what is more than this is a change of behaviour.
    fn is_like(self, other: Self) -> bool {
        let near = |a: f64, b: f64, most: f64| (a - b).abs() <= most;
        near(self.efficiency, other.efficiency, 0.025)
            && near(self.refusals, other.refusals, 0.5 + 0.15 * self.refusals)
            && near(
                self.lost as f64,
                other.lost as f64,
                5.0 + 0.15 * self.lost as f64,
            )
    }
}

fn cells(scenario: &Scenario) -> Vec<Cell> {
    let seed = scenario.first_seed;
    let ours = sim::run(scenario, seed, Paceline::new, None).0;
    let others = RIVALS
        .iter()
        .map(|rival| Cell::of(&rival.run(scenario, seed)));
    [Cell::of(&ours)].into_iter().chain(others).collect()
}

fn report(rows: &[(String, Vec<Cell>)]) -> String {
    let mut text = String::from(
        "# Every scenario, side by side\n\n\
         Efficiency (the ideal client's time ÷ the time taken) and refusals per success, of the\n\
         first seed of each file in `scenarios/`. `paceline simulate --against …` prints the same\n\
         for more seeds. A run is stopped after ten times the ideal and two minutes; what was not\n\
         served by then is lost. Written by `PACELINE_WRITE_REPORT=1 cargo test --all-features report`.\n\n\
         | scenario | paceline |",
    );
    for rival in RIVALS {
        write!(text, " {rival} |").unwrap();
    }
    text.push_str("\n| --- |");
    text.push_str(&" --- |".repeat(RIVALS.len() + 1));
    for (name, cells) in rows {
        write!(text, "\n| {} |", name.replace('-', " ")).unwrap();
        for cell in cells {
            write!(text, " {} |", cell.text()).unwrap();
        }
    }
    text.push('\n');
    text
}

fn parsed(text: &str) -> Vec<(String, Vec<Cell>)> {
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.filter_map(|row| {
        let (name, cells) = row.split_once(" | ")?;
        let cells: Option<Vec<Cell>> = cells.split(" | ").map(Cell::parse).collect();
        Some((name.replace(' ', "-"), cells?))
    })
    .collect()
}

#[test]
fn the_report_tells_what_the_code_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/report.md");
    let found: Vec<(String, Vec<Cell>)> = super::scenarios("")
        .into_iter()
        .map(|(name, scenario)| (name, cells(&scenario)))
        .collect();
    if std::env::var_os("PACELINE_WRITE_REPORT").is_some() {
        std::fs::write(path, report(&found)).unwrap();
        return;
    }
    let told = parsed(&std::fs::read_to_string(path).unwrap());
    let names =
        |rows: &[(String, Vec<Cell>)]| rows.iter().map(|row| row.0.clone()).collect::<Vec<_>>();
    assert_eq!(
        names(&told),
        names(&found),
        "other scenarios than in the report"
    );
    for ((name, told), (_, found)) in told.iter().zip(&found) {
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
    let cell = Cell {
        efficiency: 0.5,
        refusals: 12.34,
        lost: 3,
    };
    let none = Cell {
        efficiency: 1.0,
        refusals: 0.0,
        lost: 0,
    };
    let text = report(&[("a-b".into(), vec![cell; 7]), ("c".into(), vec![none; 7])]);
    let read = parsed(&text);
    assert_eq!(read.len(), 2, "{text}");
    assert_eq!((read[0].0.as_str(), read[0].1.len()), ("a-b", 7));
    assert!(read[0].1[0].is_like(cell) && !read[0].1[0].is_like(none));
}
