//! The results as a table for a person: one line a scenario, and below it what it misses.

use paceline::sim::Summary;

use super::super::say;
use super::Result;

/// Prints a heading once and then a line for each result.
pub(super) struct Table {
    headed: bool,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { headed: false }
    }

    pub(super) fn print(&mut self, result: &Result) {
        if !self.headed {
            self.headed = true;
            say(format_args!(
                "{:<54} {:>6} {:>6} {:>6} {:>6}  {:>7} {:>7} {:>7}  {:>6} {:>5} {:>5} {:>6} {:>8} {:>8} {:>6}\n",
                "scenario",
                "effic.",
                "5 %",
                "worst",
                "first",
                "refused",
                "5 %",
                "worst",
                "flight",
                "lost",
                "ban",
                "twice",
                "wait p50",
                "p99 s",
                "to 0.9"
            ));
        }
        print_line(&result.scenario, &result.summary);
        for other in &result.against {
            print_line(&format!("  {}", other.who), &other.summary);
        }
        for (mark, misses) in [
            ("MISSED", &result.misses),
            ("  goal", &result.short_of_goal),
        ] {
            for miss in misses {
                let (field, found, expected) = (miss.field, miss.found, miss.expected);
                say(format_args!(
                    "    {mark} {field} = {found:.4} where {expected:.4} was to be met\n"
                ));
            }
        }
    }
}

fn print_line(name: &str, summary: &Summary) {
    say(format_args!(
        "{name:<54} {:>6.3} {:>6.3} {:>6.3} {:>6.3}  {:>7.4} {:>7.4} {:>7.4}  {:>6} {:>5} {:>5} {:>6} {:>8.2} {:>8.2} {:>6}\n",
        summary.efficiency.median,
        summary.efficiency.fifth,
        summary.efficiency.worst,
        summary.efficiency_first,
        summary.refusals.median,
        summary.refusals.fifth,
        summary.refusals.worst,
        summary.max_in_flight.worst,
        summary.lost,
        summary.banned,
        summary.twice,
        summary.wait_p50,
        summary.wait_p99,
        summary
            .settled
            .map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}"))
    ));
}
