//! What a run shows while it goes on: a bar on a terminal, lines in a pipe, objects for a program.

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::Time;
use crate::scheduler::events::{Change, Fingerprint, What};

use super::options::Show;
use super::summary::{Grouped, Rounded};
use super::tally::Tally;

/// What a run shows while it goes on.
#[derive(Debug)]
pub(crate) struct Progress {
    form: Form,
    total: Option<u64>,
    /// Records and times of the last half minute.
    recent: VecDeque<(Time, u64)>,
    keys: BTreeMap<Fingerprint, KeyState>,
}

#[derive(Debug)]
enum Form {
    Nothing,
    Bar {
        all: MultiProgress,
        main: ProgressBar,
        keys: Vec<ProgressBar>,
    },
    Lines,
    Objects,
}

/// What the limiter last decided about a key.
#[derive(Clone, Copy, Debug, Default)]
struct KeyState {
    parked_until: Option<Time>,
    retired: bool,
}

/// Where a run stands.
#[derive(Debug)]
pub(crate) struct Status<'a> {
    pub(crate) tally: &'a Tally,
    pub(crate) flying: usize,
    pub(crate) waiting: usize,
    /// How long the provider has not been reached.
    pub(crate) outage: Duration,
}

impl Progress {
    /// Shows it in this form; `total` lines are known to be there.
    pub(crate) fn new(show: Show, total: Option<u64>) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let form = match show {
            Show::Auto | Show::Always if terminal => Form::bar(),
            Show::Always => Form::Lines,
            Show::Json => Form::Objects,
            Show::Auto | Show::Never => Form::Nothing,
        };
        Self {
            form,
            total,
            recent: VecDeque::new(),
            keys: BTreeMap::new(),
        }
    }

    /// How often it wants to be told; none if never.
    pub(crate) fn interval(&self) -> Option<Duration> {
        match self.form {
            Form::Nothing => None,
            Form::Bar { .. } => Some(Duration::from_millis(200)),
            Form::Lines => Some(Duration::from_secs(10)),
            Form::Objects => Some(Duration::from_secs(1)),
        }
    }

    /// The limiter, which began at `began` of our time, has decided something.
    pub(crate) fn on_change(&mut self, change: &Change, began: Time) {
        let Some(key) = change.key else { return };
        let state = self.keys.entry(key).or_default();
        match change.what {
            What::Parked { until, .. } => {
                state.parked_until = Some(began + until.since(Time::START))
            }
            What::Retired(_) => state.retired = true,
            What::Restored => state.retired = false,
            _ => {}
        }
    }

    /// Shows where the run stands.
    pub(crate) fn show(&mut self, status: &Status<'_>, now: Time) {
        let rate = self.rate(status.tally.recorded(), now);
        let done = status.tally.before + status.tally.recorded();
        let left = self.total.map(|total| total.saturating_sub(done));
        let time_left = left
            .filter(|_| rate > 0.0)
            .map(|left| Duration::try_from_secs_f64(left as f64 / rate).unwrap_or(Duration::MAX));
        match &mut self.form {
            Form::Nothing => {}
            Form::Objects => eprintln!("{}", object(status, done, self.total, rate, time_left)),
            Form::Lines => {
                eprintln!("{}", text(status, done, self.total, rate, time_left));
            }
            Form::Bar { all, main, keys } => {
                main.set_length(self.total.unwrap_or_else(|| done.max(1)));
                main.set_position(done);
                main.set_message(text(status, done, self.total, rate, time_left));
                let lines = key_lines(&status.tally.keys, &self.keys, now);
                while keys.len() < lines.len() {
                    let line = ProgressBar::new_spinner().with_style(plain());
                    keys.push(all.add(line));
                }
                for (bar, line) in keys.iter().zip(lines) {
                    bar.set_message(line);
                }
            }
        }
    }

    /// Says something beside it.
    pub(crate) fn note(&self, text: &str) {
        match &self.form {
            Form::Bar { all, .. } if all.println(text).is_ok() => {}
            _ => eprintln!("{text}"),
        }
    }

    /// Takes it off the screen.
    pub(crate) fn end(&mut self) {
        if let Form::Bar { all, .. } = &self.form {
            // A terminal that is gone needs no clearing.
            all.clear().ok();
        }
        self.form = Form::Nothing;
    }

    /// Records a second, over the last half minute.
    fn rate(&mut self, recorded: u64, now: Time) -> f64 {
        self.recent.push_back((now, recorded));
        while self
            .recent
            .get(1)
            .is_some_and(|(at, _)| now.since(*at) >= HALF_A_MINUTE)
        {
            self.recent.pop_front();
        }
        let (since, before) = self.recent[0];
        let seconds = now.since(since).as_secs_f64();
        if seconds > 0.0 {
            (recorded - before) as f64 / seconds
        } else {
            0.0
        }
    }
}

impl Form {
    fn bar() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        let style = ProgressStyle::with_template("[{bar:16}] {msg}").expect("a valid template");
        let main = all.add(ProgressBar::new(1).with_style(style.progress_chars("=> ")));
        Self::Bar {
            all,
            main,
            keys: Vec::new(),
        }
    }
}

fn plain() -> ProgressStyle {
    ProgressStyle::with_template("  {msg}").expect("a valid template")
}

/// One line, at most 61 columns beside the bar.
fn text(
    status: &Status<'_>,
    done: u64,
    total: Option<u64>,
    rate: f64,
    time_left: Option<Duration>,
) -> String {
    let mut text = match total {
        Some(total) => format!("{}/{}", Grouped(done), Grouped(total)),
        None => format!("{} done", Grouped(done)),
    };
    text.push_str(&format!("  {}/s", short(rate)));
    if !status.outage.is_zero() {
        text.push_str(&format!("  no answer for {}", Rounded(status.outage)));
        return text;
    }
    text.push_str(&format!("  {} refused", Grouped(status.tally.refused)));
    if let Some(left) = time_left {
        text.push_str(&format!("  {} left", Rounded(left)));
    }
    text
}

fn object(
    status: &Status<'_>,
    done: u64,
    total: Option<u64>,
    rate: f64,
    time_left: Option<Duration>,
) -> serde_json::Value {
    let tally = status.tally;
    json!({
        "done": done, "total": total,
        "sent": tally.sent, "succeeded": tally.succeeded, "failed": tally.all_failed(),
        "refused": tally.refused, "in_flight": status.flying, "waiting": status.waiting,
        "rate": (rate * 10.0).round() / 10.0,
        "seconds_left": time_left.map(|left| left.as_secs()),
        "seconds_without_answer": status.outage.as_secs(),
    })
}

/// A line per key, the busiest first.
fn key_lines(
    served: &BTreeMap<Fingerprint, u64>,
    states: &BTreeMap<Fingerprint, KeyState>,
    now: Time,
) -> Vec<String> {
    let mut keys: Vec<(Fingerprint, u64)> = served.iter().map(|(key, n)| (*key, *n)).collect();
    keys.extend(
        states
            .keys()
            .filter(|key| !served.contains_key(key))
            .map(|key| (*key, 0)),
    );
    keys.retain(|(key, _)| *key != Fingerprint::ANONYMOUS);
    keys.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = keys.len().saturating_sub(KEY_LINES);
    let mut lines: Vec<String> = keys
        .iter()
        .take(KEY_LINES)
        .map(|(key, count)| {
            let state = states.get(key).copied().unwrap_or_default();
            let state = match state.parked_until {
                _ if state.retired => "  refused by the server".to_owned(),
                Some(until) if until > now => format!("  rests {}", Rounded(until.since(now))),
                _ => String::new(),
            };
            format!("{key}  {:>11}{state}", Grouped(*count))
        })
        .collect();
    if more > 0 {
        lines.push(format!("and {more} more keys"));
    }
    lines
}

/// A rate in at most five characters.
fn short(rate: f64) -> String {
    match rate {
        rate if rate < 99.95 => format!("{rate:.1}"),
        rate if rate < 9_999.5 => format!("{rate:.0}"),
        rate => format!("{:.0}k", rate / 1e3),
    }
}

/// Long enough that waits of a few seconds do not make the time left jump.
const HALF_A_MINUTE: Duration = Duration::from_secs(30);

/// More would fill a small terminal.
const KEY_LINES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    #[test]
    fn the_longest_line_fits_80_columns_with_its_bar() {
        let tally = Tally {
            refused: 1_234_567,
            ..Tally::default()
        };
        let day = Duration::from_secs(86_400 * 12 + 3_600 * 12);
        let status = Status {
            tally: &tally,
            flying: 9,
            waiting: 9,
            outage: Duration::ZERO,
        };
        let line = text(&status, 9_876_543, Some(10_000_000), 99_999.0, Some(day));
        assert_eq!(
            line,
            "9,876,543/10,000,000  100k/s  1,234,567 refused  12 d 12 h left"
        );
        assert!(line.len() + "[] ".len() + 16 <= 82, "{}", line.len());
        let status = Status {
            outage: day,
            ..status
        };
        let line = text(&status, 9_876_543, Some(10_000_000), 0.0, None);
        assert_eq!(line, "9,876,543/10,000,000  0.0/s  no answer for 12 d 12 h");
    }

    #[test]
    fn the_rate_forgets_what_is_older_than_half_a_minute() {
        let mut progress = Progress::new(Show::Never, None);
        assert_eq!(progress.rate(0, at(0.0)), 0.0);
        assert_eq!(progress.rate(100, at(10.0)), 10.0);
        progress.rate(100, at(35.0));
        assert_eq!(progress.rate(400, at(41.0)), 300.0 / 31.0);
    }

    #[test]
    fn keys_are_listed_with_what_holds_them_up() {
        let key = |n| Fingerprint::from_hash([n; 6]);
        let served = (1..=10).map(|n| (key(n), u64::from(n))).collect();
        let mut states = BTreeMap::new();
        states.insert(
            key(10),
            KeyState {
                parked_until: Some(at(70.0)),
                retired: false,
            },
        );
        states.insert(
            key(9),
            KeyState {
                parked_until: Some(at(5.0)),
                retired: false,
            },
        );
        states.insert(
            key(8),
            KeyState {
                parked_until: None,
                retired: true,
            },
        );
        let lines = key_lines(&served, &states, at(10.0));
        assert_eq!(lines[0], "0a0a0a0a0a0a           10  rests 1 min 0 s");
        assert_eq!(lines[1], "090909090909            9");
        assert_eq!(lines[2], "080808080808            8  refused by the server");
        assert_eq!(lines[8], "and 2 more keys");
    }
}
