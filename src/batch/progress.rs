//! What a run shows while it goes on: a bar on a terminal, lines in a pipe, objects for a program.

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::Time;
use crate::scheduler::events::Fingerprint;

use super::board::Board;
use super::counted::counted;
use super::options::Show;
use super::screen;
use super::summary::{Grouped, Reasons, Rounded};
use super::tally::Tally;

/// What a run shows while it goes on.
#[derive(Debug)]
pub(crate) struct Progress {
    form: Form,
    total: Option<u64>,
    /// Records and times of the last half minute.
    recent: VecDeque<(Time, u64)>,
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

/// Where a run stands.
#[derive(Debug)]
pub(crate) struct Status<'a> {
    pub(crate) tally: &'a Tally,
    pub(crate) board: &'a Board,
    /// What keys are called.
    pub(crate) names: &'a BTreeMap<Fingerprint, String>,
    pub(crate) flying: usize,
    pub(crate) waiting: usize,
    /// How many wait of each priority, the highest first.
    pub(crate) classes: Vec<(u8, usize)>,
    /// A provider that is away, and for how long.
    pub(crate) away: Option<(String, Duration)>,
}

impl Progress {
    /// Shows it in this form; `total` lines are known to be there.
    pub(crate) fn new(show: Show, total: Option<u64>) -> Self {
        let terminal = std::io::stderr().is_terminal();
        // What runs for others leaves a trace in their log, where a terminal would have a bar.
        let watched = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        let form = match show {
            Show::Auto | Show::Always if terminal => Form::bar(),
            Show::Always => Form::Lines,
            Show::Auto if watched => Form::Lines,
            Show::Json => Form::Objects,
            Show::Auto | Show::Never => Form::Nothing,
        };
        Self {
            form,
            total,
            recent: VecDeque::new(),
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
            Form::Objects => {
                eprintln!("{}", object(status, now, done, self.total, rate, time_left))
            }
            Form::Lines => {
                eprintln!("{}", text(status, done, self.total, rate, time_left));
                for line in more_lines(status, now) {
                    eprintln!("  {line}");
                }
            }
            Form::Bar { all, main, keys } => {
                main.set_length(self.total.unwrap_or_else(|| done.max(1)));
                main.set_position(done);
                main.set_message(text(status, done, self.total, rate, time_left));
                let lines = more_lines(status, now);
                for line in keys.split_off(keys.len().min(lines.len())) {
                    all.remove(&line);
                }
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
            Form::Bar { all, .. } if all.println(on_screen(text)).is_ok() => {}
            Form::Objects => eprintln!("{}", json!({ "note": text })),
            _ => eprintln!("paceline run: {text}"),
        }
    }

    /// Whether its last word stays to be read: in a log, and for a program.
    pub(crate) fn stays(&self) -> bool {
        matches!(self.form, Form::Lines | Form::Objects)
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

/// A text that is wider than the terminal, on several lines of it.
fn on_screen(text: &str) -> String {
    match screen::columns() {
        Some(columns) => screen::wrapped(text, columns, NOTE),
        None => text.to_owned(),
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
    if let Some((_, time)) = &status.away {
        text.push_str(&format!("  provider away for {}", Rounded(*time)));
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
    now: Time,
    done: u64,
    total: Option<u64>,
    rate: f64,
    time_left: Option<Duration>,
) -> serde_json::Value {
    let tally = status.tally;
    let keys: Vec<_> = keys_of(status)
        .into_iter()
        .map(|(key, count)| {
            let state = status.board.key(key).now(now);
            json!({
                "key": key.to_string(), "name": status.names.get(&key),
                "succeeded": count, "state": state,
            })
        })
        .collect();
    json!({
        "done": done, "total": total,
        "sent": tally.sent, "succeeded": tally.succeeded, "failed": tally.all_failed(),
        "refused": tally.refused, "in_flight": status.flying, "waiting": status.waiting,
        "rate": (rate * 10.0).round() / 10.0,
        "seconds_left": time_left.map(|left| left.as_secs()),
        "away": status.away.as_ref().map(|(name, _)| name),
        "seconds_away": status.away.as_ref().map_or(0, |(_, time)| time.as_secs()),
        "keys": keys,
        "waiting_by_priority": status
            .classes
            .iter()
            .map(|(priority, waiting)| json!({ "priority": priority, "waiting": waiting }))
            .collect::<Vec<_>>(),
    })
}

/// Every key that has done something or that something was decided about, the busiest first.
fn keys_of(status: &Status<'_>) -> Vec<(Fingerprint, u64)> {
    let served = &status.tally.keys;
    let mut keys: Vec<(Fingerprint, u64)> = served.iter().map(|(key, n)| (*key, *n)).collect();
    let idle = status.board.keys().filter(|key| !served.contains_key(key));
    keys.extend(idle.map(|key| (key, 0)));
    keys.retain(|(key, _)| *key != Fingerprint::ANONYMOUS);
    keys.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    keys
}

/// What stands below the first line: what has failed, the priorities that wait, if there are
/// several, and the keys.
fn more_lines(status: &Status<'_>, now: Time) -> Vec<String> {
    let mut lines = Vec::new();
    if status.tally.all_failed() > 0 {
        let failed = status.tally.failed.iter();
        let failed = failed
            .map(|(why, count)| (why.to_string(), *count))
            .collect();
        let failed = Reasons(status.tally.all_failed(), &failed).to_string();
        let shown: String = failed.chars().take(REASONS).collect();
        let more = if shown.len() < failed.len() {
            "…"
        } else {
            ""
        };
        lines.push(format!("failed  {shown}{more}"));
    }
    if status.classes.len() > 1 {
        let shown = status.classes.iter().take(CLASSES);
        let shown: Vec<_> = shown
            .map(|(priority, waiting)| format!("{} at {priority}", Grouped(*waiting as u64)))
            .collect();
        lines.push(format!("waiting by priority  {}", shown.join(", ")));
    }
    lines.extend(key_lines(status, now));
    lines
}

/// A line per key, at most 76 columns.
fn key_lines(status: &Status<'_>, now: Time) -> Vec<String> {
    let keys = keys_of(status);
    let more = keys.len().saturating_sub(KEY_LINES);
    let mut lines: Vec<String> = keys
        .iter()
        .take(KEY_LINES)
        .map(|(key, count)| {
            let state = status.board.key(*key).now(now);
            let name = status.names.get(key).map_or("", String::as_str);
            let name: String = name.chars().take(NAME).collect();
            format!("{key}  {name:NAME$}  {:>11}  {state}", Grouped(*count))
        })
        .collect();
    if more > 0 {
        let more = counted(more as u64, "more [key|keys]");
        lines.push(format!("and {more}"));
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

/// Longer names of keys are cut off.
const NAME: usize = 22;

/// What a note that needs several lines is indented by.
const NOTE: usize = 2;

/// More of the reasons of failures would not fit on a line.
const REASONS: usize = 66;

/// More would not fit on a line.
const CLASSES: usize = 4;

/// More would fill a small terminal.
const KEY_LINES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feedback::Fault;
    use crate::scheduler::events::{Because, Change, What};

    use super::super::tally::Why;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn status<'a>(
        tally: &'a Tally,
        board: &'a Board,
        names: &'a BTreeMap<Fingerprint, String>,
    ) -> Status<'a> {
        Status {
            tally,
            board,
            names,
            flying: 9,
            waiting: 9,
            classes: vec![(85, 2), (50, 7)],
            away: None,
        }
    }

    #[test]
    fn the_longest_line_fits_80_columns_with_its_bar() {
        let tally = Tally {
            refused: 1_234_567,
            ..Tally::default()
        };
        let (board, names) = (Board::default(), BTreeMap::new());
        let day = Duration::from_secs(86_400 * 12 + 3_600 * 12);
        let mut status = status(&tally, &board, &names);
        let line = text(&status, 9_876_543, Some(10_000_000), 99_999.0, Some(day));
        assert_eq!(
            line,
            "9,876,543/10,000,000  100k/s  1,234,567 refused  12 d 12 h left"
        );
        assert!(line.len() + "[] ".len() + 16 <= 82, "{}", line.len());
        status.away = Some(("api.example".to_owned(), day));
        let line = text(&status, 9_876_543, Some(10_000_000), 0.0, None);
        assert_eq!(
            line,
            "9,876,543/10,000,000  0.0/s  provider away for 12 d 12 h"
        );
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
    fn keys_are_listed_with_their_names_and_what_holds_them_up() {
        let key = |n| Fingerprint::from_hash([n; 6]);
        let tally = Tally {
            keys: (1..=10).map(|n| (key(n), u64::from(n))).collect(),
            ..Tally::default()
        };
        let mut board = Board::default();
        let change = |n, what| Change {
            at: Time::START,
            key: Some(key(n)),
            what,
        };
        let parked = |until| What::Parked {
            until,
            why: Because::Hint,
        };
        board.on_change(&change(10, parked(at(70.0))), Time::START);
        board.on_change(&change(9, parked(at(5.0))), Time::START);
        board.on_change(&change(8, What::Retired(Fault::Revoked)), Time::START);
        let names = BTreeMap::from([(key(10), "OPENAI_API_KEY_OF_THE_TEAM".to_owned())]);
        let mut failed = tally.clone();
        failed.failed = [(Why::Status(500), 3), (Why::Status(400), 1_200)].into();
        let lines = more_lines(&status(&failed, &board, &names), at(10.0));
        assert_eq!(lines[0], "failed  1,203: 400 x 1,200, 500 x 3");
        let lines = more_lines(&status(&tally, &board, &names), at(10.0));
        assert_eq!(lines[0], "waiting by priority  2 at 85, 7 at 50");
        let lines = &lines[1..];
        assert_eq!(
            lines[0],
            "0a0a0a0a0a0a  OPENAI_API_KEY_OF_THE_           10  rests 1 min 0 s"
        );
        assert!(lines[1].starts_with("090909090909") && lines[1].ends_with("9  in use"));
        assert!(lines[2].ends_with("8  refused by the server"));
        assert_eq!(lines[8], "and 2 more keys");
        assert!(lines.iter().all(|line| line.len() <= 78));
    }
}
