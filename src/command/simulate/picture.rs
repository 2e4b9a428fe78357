//! One run as a picture: what was admitted and refused beside what the provider allows, what was
//! in flight, and what waited.

use std::time::Duration;

use paceline::sim::{self, Paceline, Run, Scenario, Trace};

use crate::command::chart::{Chart, Panel, Series, Shape};

/// Runs a scenario once more with a seed and draws it as SVG.
pub(super) fn draw(name: &str, scenario: &Scenario, seed: u64) -> String {
    let slice = slice(scenario, seed);
    let mut trace = Trace::new(slice);
    let (run, _) = sim::run(scenario, seed, Paceline::new, Some(&mut trace));
    Chart {
        title: name.replace('-', " "),
        subtitle: subtitle(&run, seed),
        axis: "seconds since the start",
        seconds: slice * trace.slices().len() as f64,
        slice,
        panels: vec![
            rates(scenario, &trace),
            in_flight(scenario, &trace),
            waiting(&trace),
        ],
    }
    .to_svg()
}

fn subtitle(run: &Run, seed: u64) -> String {
    format!(
        "{} requests in {:.2} s, ideal {:.2} s: efficiency {:.3}; {} refused, {} lost (seed {seed})",
        run.served, run.took, run.ideal, run.efficiency, run.refused, run.lost
    )
}

fn rates(scenario: &Scenario, trace: &Trace) -> Panel {
    let slice = trace.slice();
    let tokens = (scenario.load.tokens.0 + scenario.load.tokens.1) / 2.0;
    let allowed: Vec<f64> = (0..trace.slices().len())
        .map(|index| Duration::from_secs_f64((index as f64 + 0.5) * slice))
        .map(|at| scenario.provider.allowed(scenario.load.keys, tokens, at))
        .collect();
    let per_second = |count: u32| f64::from(count) / slice;
    let admitted: Vec<f64> = trace
        .slices()
        .iter()
        .map(|s| per_second(s.admitted))
        .collect();
    let refused: Vec<f64> = trace
        .slices()
        .iter()
        .map(|s| per_second(s.refused))
        .collect();
    let limit = allowed
        .iter()
        .copied()
        .filter(|rate| rate.is_finite())
        .fold(0.0, f64::max);
    let most = admitted
        .iter()
        .zip(&refused)
        .map(|(a, r)| a + r)
        .fold(0.0, f64::max);
    Panel {
        label: "requests per second",
        height: 260.0,
        // A burst may be many times the limit; what matters is how near to it the rest is.
        top: if limit > 0.0 {
            most.min(2.0 * limit).max(1.2 * limit)
        } else {
            most * 1.05
        },
        series: vec![
            Series {
                name: "admitted",
                colour: BLUE,
                shape: Shape::Bars,
                values: admitted.clone(),
            },
            Series {
                name: "refused (429)",
                colour: RED,
                shape: Shape::BarsOn(admitted),
                values: refused,
            },
            Series {
                name: "allowed by the provider",
                colour: BLACK,
                shape: Shape::Steps,
                values: allowed,
            },
        ],
    }
}

fn in_flight(scenario: &Scenario, trace: &Trace) -> Panel {
    let values: Vec<f64> = trace
        .slices()
        .iter()
        .map(|s| f64::from(s.in_flight))
        .collect();
    let most = values.iter().copied().fold(1.0, f64::max);
    let knee = scenario.provider.knee;
    let mut series = vec![Series {
        name: "in flight at the provider",
        colour: GREEN,
        shape: Shape::Steps,
        values,
    }];
    if let Some(knee) = knee {
        let values = vec![knee; trace.slices().len()];
        series.push(Series {
            name: "knee",
            colour: BLACK,
            shape: Shape::Steps,
            values,
        });
    }
    Panel {
        label: "requests",
        height: 130.0,
        top: most.max(knee.unwrap_or(0.0)) * 1.1,
        series,
    }
}

fn waiting(trace: &Trace) -> Panel {
    let values: Vec<f64> = trace
        .slices()
        .iter()
        .map(|s| f64::from(s.waiting))
        .collect();
    let most = values.iter().copied().fold(1.0, f64::max);
    let series = vec![Series {
        name: "waiting",
        colour: GREY,
        shape: Shape::Bars,
        values,
    }];
    Panel {
        label: "requests",
        height: 110.0,
        top: most * 1.1,
        series,
    }
}

/// Seconds per slice: enough requests in each that it is no noise, and not less than a window,
/// of which a run may use all at once.
fn slice(scenario: &Scenario, seed: u64) -> f64 {
    let run = sim::run(scenario, seed, Paceline::new, None).0;
    let seconds = if run.took.is_finite() {
        run.took
    } else {
        run.ideal
    }
    .max(1e-3);
    let wanted = (scenario.load.requests as f64 / REQUESTS_A_SLICE).clamp(20.0, MOST_SLICES);
    let slice = seconds / wanted;
    let window = scenario
        .provider
        .longest_window()
        .map_or(0.0, |window| window.as_secs_f64());
    if window > slice && window < seconds / 4.0 {
        window
    } else {
        crate::command::chart::round_up(slice)
    }
}

/// Of so many requests in a slice, chance moves the rate by a fifth.
const REQUESTS_A_SLICE: f64 = 25.0;
/// More bars than this are too thin to see.
const MOST_SLICES: f64 = 150.0;

const BLUE: &str = "#4c8dd6";
const RED: &str = "#d6453d";
const BLACK: &str = "#222222";
const GREEN: &str = "#2f8f4e";
const GREY: &str = "#b9bcc4";
