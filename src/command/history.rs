//! `paceline history`: what happened hour by hour, from the file of `run --state`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use paceline::batch;
use paceline::scheduler::history::{History, KeyHour};
use serde_json::{Value, json};

use super::chart::{Chart, Panel, Series, Shape};
use super::say;

/// Shows what happened hour by hour and key by key, for seven days: what was served and refused,
/// and how long answers took.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  paceline history --state api.state --svg week.svg")]
pub(crate) struct Args {
    /// The file that `paceline run --state` keeps.
    #[arg(long, value_name = "FILE")]
    state: PathBuf,
    /// Only what happened at this provider, as the table names it.
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Write it as JSON instead of a table: by provider a list of hours, each with `hour`, `key`,
    /// `successes`, `refusals`, `failures`, `p50_ms` and `p95_ms`.
    #[arg(long)]
    json: bool,
    /// Draw it, too, all keys together.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Prints the history.
pub(crate) fn run(args: Args) -> ExitCode {
    match args.show() {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            eprintln!("paceline history: {complaint}");
            ExitCode::from(super::USAGE)
        }
    }
}

impl Args {
    fn show(self) -> Result<(), String> {
        let mut all = batch::history(&self.state)?;
        if let Some(wanted) = &self.provider {
            let names: Vec<_> = all.keys().cloned().collect();
            all.retain(|name, _| name == wanted);
            if all.is_empty() {
                let names = names.join(", ");
                return Err(format!("{wanted:?} is not in it; it has: {names}"));
            }
        }
        if self.json {
            say(format_args!("{}\n", for_programs(&all)));
        } else {
            say(table(&all.iter().collect::<Vec<_>>()));
        }
        if let Some(path) = &self.svg {
            let mut together = History::default();
            all.values().for_each(|history| together.merge(history));
            let picture = picture(together.hours()).ok_or("there is nothing to draw yet")?;
            std::fs::write(path, picture)
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// By provider, each hour of each key, with its times in milliseconds.
fn for_programs(all: &BTreeMap<String, History>) -> Value {
    let row = |hour: &KeyHour| {
        let time = |share| hour.percentile(share).map(|time| time.as_millis() as u64);
        json!({
            "hour": format!("{}:00Z", date(hour.hour).replace(' ', "T")),
            "key": hour.key.to_string(),
            "successes": hour.successes,
            "refusals": hour.refusals,
            "failures": hour.failures,
            "p50_ms": time(0.5),
            "p95_ms": time(0.95),
        })
    };
    let rows = |history: &History| history.hours().iter().map(row).collect::<Vec<_>>();
    let all = all
        .iter()
        .map(|(name, history)| (name.clone(), rows(history)));
    json!(all.collect::<BTreeMap<_, _>>())
}

fn table(all: &[(&String, &History)]) -> String {
    let mut text = String::from(
        "hour (UTC)        provider                  key           served   refused    failed      P50      P95\n",
    );
    for (name, history) in all {
        for hour in history.hours() {
            let time = |share| hour.percentile(share).map_or_else(String::new, shown);
            text.push_str(&format!(
                "{:<16}  {name:<24}  {:<12}  {:>6}  {:>8}  {:>8}  {:>7}  {:>7}\n",
                date(hour.hour),
                hour.key.to_string(),
                hour.successes,
                hour.refusals,
                hour.failures,
                time(0.5),
                time(0.95),
            ));
        }
    }
    text
}

fn shown(took: Duration) -> String {
    let millis = took.as_secs_f64() * 1e3;
    if millis < 10_000.0 {
        format!("{millis:.0} ms")
    } else {
        format!("{:.1} s", millis / 1e3)
    }
}

/// An hour since 1970 as people write it.
fn date(hour: u64) -> String {
    let at = Duration::from_secs(hour.saturating_mul(3600));
    let Some(at) = SystemTime::UNIX_EPOCH.checked_add(at) else {
        return format!("hour {hour}");
    };
    let text = humantime::format_rfc3339_seconds(at).to_string();
    text.get(..16).unwrap_or(&text).replace('T', " ")
}

/// What was served and refused in each hour, and the slowest key's times.
fn picture(hours: &[KeyHour]) -> Option<String> {
    let (first, last) = (hours.first()?.hour, hours.last()?.hour);
    let count = usize::try_from(last - first + 1).ok()?;
    let mut served = vec![0.0; count];
    let mut refused = vec![0.0; count];
    // An hour without answers has no time: the line breaks off there.
    let mut times = [vec![f64::NAN; count], vec![f64::NAN; count]];
    for hour in hours {
        let at = (hour.hour - first) as usize;
        served[at] += hour.successes as f64;
        refused[at] += hour.refusals as f64;
        for (times, share) in times.iter_mut().zip([0.5, 0.95]) {
            if let Some(time) = hour.percentile(share) {
                times[at] = f64::max(times[at], time.as_secs_f64() * 1e3);
            }
        }
    }
    let top = |values: &[f64]| values.iter().copied().fold(1.0, f64::max) * 1.05;
    let both: Vec<f64> = served.iter().zip(&refused).map(|(a, b)| a + b).collect();
    let [half, most] = times;
    let chart = Chart {
        title: "requests by the hour".to_owned(),
        subtitle: format!("from {} to {} UTC", date(first), date(last)),
        axis: "hours since the first",
        seconds: count as f64,
        slice: 1.0,
        panels: vec![
            Panel {
                label: "requests",
                height: 220.0,
                top: top(&both),
                series: vec![
                    Series {
                        name: "served",
                        colour: "#4a90d9",
                        shape: Shape::Bars,
                        values: served.clone(),
                    },
                    Series {
                        name: "refused",
                        colour: "#d0443e",
                        shape: Shape::BarsOn(served),
                        values: refused,
                    },
                ],
            },
            Panel {
                label: "milliseconds",
                height: 160.0,
                top: top(&most),
                series: vec![
                    Series {
                        name: "P95 of the slowest key",
                        colour: "#b07aa1",
                        shape: Shape::Steps,
                        values: most,
                    },
                    Series {
                        name: "P50 of the slowest key",
                        colour: "#59a14f",
                        shape: Shape::Steps,
                        values: half,
                    },
                ],
            },
        ],
    };
    Some(chart.to_svg())
}
