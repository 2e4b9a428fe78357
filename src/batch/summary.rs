//! What a run says when it ends: a table for people, an object for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::scheduler::mode::Observed;

use super::counted::counted;
use super::ids::Counts;
use super::screen;
use super::signals::Signal;
use super::tally::{Tally, Why};

/// How a run ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// What was done.
    pub summary: Summary,
    /// The signal that stopped it, if one did.
    pub interrupted: Option<Signal>,
}

impl Outcome {
    /// 0 if all is done and succeeded, 1 if something failed or is left, 130 or 143 if a signal
    /// came first. What was left because the number of lines was limited does not count.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let summary = &self.summary;
        let unfinished: u64 = summary.unfinished_by.values().sum();
        let left = summary.left.map_or(unfinished, |left| {
            left - summary.left_by_limit.unwrap_or_default()
        });
        match self.interrupted {
            Some(signal) => signal.exit_code(),
            None => u8::from(summary.stopped.is_some() || summary.failures > 0 || left > 0),
        }
    }
}

/// What a server or the network said about requests that did not succeed.
#[derive(Debug, Serialize)]
pub struct Cause {
    /// A status, or the code of an error.
    pub reason: String,
    /// What was said.
    pub message: String,
    /// How often.
    pub count: u64,
}

/// What a run has done, and what is left.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Lines with something on them, if the whole input was read.
    pub lines: Option<u64>,
    /// Of these, lines that earlier runs have done for good.
    pub done_before: u64,
    /// Lines of which at least one attempt was sent.
    pub sent: u64,
    /// Attempts sent.
    pub attempts: u64,
    /// Lines that succeeded in this run.
    pub succeeded: u64,
    /// Lines that failed for good in this run.
    pub failed: u64,
    /// The same by reason: a status, or the code of an error.
    pub failed_by: BTreeMap<String, u64>,
    /// What was said about what did not succeed, by reason, and how often: the first few.
    pub causes: Vec<Cause>,
    /// Lines whose record says that the next run does them again, by reason.
    pub unfinished_by: BTreeMap<String, u64>,
    /// Lines without a final record, if the whole input is known.
    pub left: Option<u64>,
    /// Of these, lines that were not tried because the number of lines was limited. None if it was
    /// not, and if the input was not read to its end.
    pub left_by_limit: Option<u64>,
    /// How attempts were answered, by status; what is missing had no answer.
    pub answered_by: BTreeMap<String, u64>,
    /// Attempts that the server refused for going too fast or for being full.
    pub refused: u64,
    /// Tokens that answers said they used. Counted only where a budget is kept.
    pub tokens: Option<u64>,
    /// Lines that an earlier run had sent too when it was killed.
    pub sent_again: u64,
    /// How often a provider was away, and for how long in all, in milliseconds.
    pub outages: u64,
    /// The time of all outages.
    pub outage_ms: u64,
    /// What would have been held back, refused or repeated, if limits were only observed.
    pub observed: Option<Observed>,
    /// From start to end, in milliseconds.
    pub elapsed_ms: u64,
    /// Records a second.
    pub rate: f64,
    /// What the next request in turn waited for, as shares of the time. Empty for a short run.
    pub limited_by: BTreeMap<String, f64>,
    /// Successes by the fingerprint of their key.
    pub keys: BTreeMap<String, u64>,
    /// Keys that the server refuses, by fingerprint, and why.
    pub refused_keys: BTreeMap<String, String>,
    /// What keys are called and what they have been through, for the table.
    #[serde(skip)]
    pub(crate) key_notes: BTreeMap<String, String>,
    /// Lines whose last record is a final failure, of this run or an earlier one.
    #[serde(skip)]
    pub(crate) failures: u64,
    /// Why the run stopped before its end, if it did.
    pub stopped: Option<String>,
    /// What else is worth knowing.
    pub notices: Vec<String>,
}

impl Summary {
    /// What a run has done. `counts` are of all lines, if all are known.
    pub(crate) fn new(tally: &Tally, counts: Option<Counts>, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let now = tally.succeeded + tally.all_failed();
        let named = |reasons: &BTreeMap<Why, u64>| {
            reasons
                .iter()
                .map(|(why, count)| (why.to_string(), *count))
                .collect()
        };
        let looks: u64 = tally.waits.values().sum();
        let share = |count: u64| (count as f64 / looks as f64 * 1e3).round() / 1e3;
        let limited_by = tally.waits.iter().filter(|_| looks >= FEW);
        Self {
            limited_by: limited_by
                .map(|(why, count)| (why.clone(), share(*count)))
                .collect(),
            lines: counts.map(|counts| counts.lines),
            done_before: counts.map_or(tally.before, |counts| counts.last.saturating_sub(now)),
            sent: tally.sent,
            attempts: tally.attempts,
            succeeded: tally.succeeded,
            failed: tally.all_failed(),
            failed_by: named(&tally.failed),
            unfinished_by: named(&tally.unfinished),
            causes: tally
                .causes
                .iter()
                .map(|(why, message, count)| Cause {
                    reason: why.to_string(),
                    message: message.clone(),
                    count: *count,
                })
                .collect(),
            outages: 0,
            outage_ms: 0,
            observed: None,
            refused_keys: BTreeMap::new(),
            key_notes: BTreeMap::new(),
            left: counts.map(|counts| counts.lines - counts.last),
            failures: counts.map_or_else(|| tally.all_failed(), |counts| counts.failed),
            left_by_limit: None,
            answered_by: BTreeMap::new(),
            refused: tally.refused,
            tokens: tally.tokens,
            sent_again: tally.again,
            elapsed_ms: elapsed.as_millis() as u64,
            rate: (tally.recorded() as f64 / seconds * 10.0).round() / 10.0,
            keys: tally
                .keys
                .iter()
                .map(|(key, count)| (key.to_string(), *count))
                .collect(),
            stopped: None,
            notices: Vec::new(),
        }
    }
}

impl Summary {
    /// Says what was left because only `limit` lines were to be done.
    pub(crate) fn limit(&mut self, limit: u64, recorded: u64) {
        let unfinished: u64 = self.unfinished_by.values().sum();
        self.left_by_limit = self.left.map(|left| left.saturating_sub(unfinished));
        match self.left_by_limit {
            Some(0) => {}
            Some(left) => self.notices.push(counted(
                left,
                &format!(
                    "[line is|lines are] left because of --limit {limit}: without it [it is|they \
                     are] done"
                ),
            )),
            None if recorded >= limit => self.notices.push(format!(
                "what comes after {} was not read, because of --limit {limit}",
                counted(limit, "[line|lines]")
            )),
            None => {}
        }
    }
}

impl Summary {
    /// The table as a terminal of so many columns shows it best.
    #[must_use]
    pub fn on_screen(&self, columns: usize) -> String {
        screen::wrapped(&self.to_string(), columns, NAMES + 2)
    }

    /// How all attempts ended, in words.
    fn answers(&self) -> String {
        let mut reasons = self.answered_by.clone();
        let answered: u64 = reasons.values().sum();
        let none = self.attempts.saturating_sub(answered);
        if none > 0 {
            reasons.insert("none".to_owned(), none);
        }
        Reasons(self.attempts, &reasons).to_string()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: &dyn fmt::Display| writeln!(f, "{name:<NAMES$}  {value}");
        self.lines(&mut row)?;
        self.attempts(&mut row)?;
        self.time(&mut row)?;
        for notice in &self.notices {
            row("note", notice)?;
        }
        if let Some(stopped) = &self.stopped {
            row("stopped", stopped)?;
        }
        Ok(())
    }
}

/// Adds a row: its name, and what stands in it.
type Row<'r> = &'r mut dyn FnMut(&str, &dyn fmt::Display) -> fmt::Result;

impl Summary {
    /// What became of the lines.
    fn lines(&self, row: Row<'_>) -> fmt::Result {
        if self.done_before > 0 {
            row("done before", &Grouped(self.done_before))?;
        }
        let attempts = match self.attempts {
            attempts if attempts == self.sent => String::new(),
            attempts => format!(", {}", counted(attempts, "[attempt|attempts]")),
        };
        row("sent", &format_args!("{}{attempts}", Grouped(self.sent)))?;
        row("succeeded", &Grouped(self.succeeded))?;
        if self.failed > 0 {
            row("failed", &Reasons(self.failed, &self.failed_by))?;
        }
        let unfinished = self.unfinished_by.values().sum();
        match self.left {
            Some(0) => {}
            Some(left) if left > unfinished => {
                row("left to do", &Reasons(left, &self.unfinished_by))?;
            }
            _ if unfinished > 0 => row("left to do", &Reasons(unfinished, &self.unfinished_by))?,
            _ => {}
        }
        let mut causes: Vec<_> = self.causes.iter().collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
        for cause in causes.iter().take(SHOWN_CAUSES) {
            let times = match cause.count {
                1 => String::new(),
                count => format!(" ({} times)", Grouped(count)),
            };
            row(
                "  because",
                &format_args!("{}: {}{times}", cause.reason, cause.message),
            )?;
        }
        Ok(())
    }

    /// What was sent for them.
    fn attempts(&self, row: Row<'_>) -> fmt::Result {
        if self.attempts > self.sent {
            row("answers", &self.answers())?;
        }
        row("refused", &Grouped(self.refused))?;
        if let Some(tokens) = self.tokens {
            row("tokens used", &Grouped(tokens))?;
        }
        if self.sent_again > 0 {
            let again = Grouped(self.sent_again);
            row(
                "sent again",
                &format_args!("{again}, in flight when an earlier run ended"),
            )?;
        }
        Ok(())
    }

    /// How long it took, and why.
    fn time(&self, row: Row<'_>) -> fmt::Result {
        if self.outages > 0 {
            let time = Rounded(Duration::from_millis(self.outage_ms));
            let times = counted(self.outages, "[time|times]");
            row(
                "away",
                &format_args!("the provider, {times}, {time} in all"),
            )?;
        }
        if let Some(observed) = &self.observed {
            row("observed", observed)?;
        }
        let elapsed = Rounded(Duration::from_millis(self.elapsed_ms));
        row(
            "elapsed",
            &format_args!("{elapsed}, {} a second", self.rate),
        )?;
        if !self.limited_by.is_empty() {
            row("limited by", &Shares(&self.limited_by))?;
        }
        if self.keys.len() > 1 || !self.refused_keys.is_empty() {
            let names: BTreeSet<_> = self.keys.keys().chain(self.refused_keys.keys()).collect();
            for key in names {
                let count = Grouped(self.keys.get(key).copied().unwrap_or_default());
                let note = self.key_notes.get(key).map_or("", String::as_str);
                let line = format!("{count} succeeded{note}");
                row(&format!("key {key}"), &line)?;
            }
        }
        Ok(())
    }
}

/// A number with its thousands apart.
pub(crate) struct Grouped(pub(crate) u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() * 4 / 3);
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// A duration as people say it: its two largest units.
pub(crate) struct Rounded(pub(crate) Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let text = match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60) {
            (0, 0, 0) if seconds < 10 => format!("{:.1} s", self.0.as_secs_f64()),
            (0, 0, 0) => format!("{seconds} s"),
            (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
            (0, hours, minutes) => format!("{hours} h {minutes} min"),
            (days, hours, _) => format!("{days} d {hours} h"),
        };
        f.pad(&text)
    }
}

/// How many, and of which reason how many.
pub(crate) struct Reasons<'a>(pub(crate) u64, pub(crate) &'a BTreeMap<String, u64>);

impl fmt::Display for Reasons<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Grouped(self.0))?;
        let mut reasons: Vec<_> = self.1.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (at, (why, count)) in reasons.iter().enumerate() {
            let before = if at == 0 { ": " } else { ", " };
            write!(f, "{before}{why} x {}", Grouped(**count))?;
        }
        Ok(())
    }
}

struct Shares<'a>(&'a BTreeMap<String, f64>);

impl fmt::Display for Shares<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shares: Vec<_> = self.0.iter().collect();
        shares.sort_by(|a, b| b.1.total_cmp(a.1));
        for (at, (reason, share)) in shares.iter().take(2).enumerate() {
            let before = if at == 0 { "" } else { ", " };
            write!(f, "{before}{reason} {:.0} %", **share * 100.0)?;
        }
        Ok(())
    }
}

/// How wide the names of rows are.
const NAMES: usize = 12;

/// More would hide the rest.
const SHOWN_CAUSES: usize = 3;

/// Fewer looks than this, two seconds of them, say nothing.
const FEW: u64 = 20;

#[cfg(test)]
mod tests {
    use super::super::done::Recorded;
    use super::super::ids::State;
    use super::super::record::Code;
    use super::*;

    fn recorded(state: State, why: Why) -> Recorded {
        Recorded {
            line: Vec::new(),
            state,
            why,
            cause: (why == Why::Status(400)).then(|| "no such model".to_owned()),
            key: None,
        }
    }

    fn tally() -> Tally {
        let mut tally = Tally {
            before: 10,
            sent: 1_250,
            attempts: 1_300,
            ..Tally::default()
        };
        for _ in 0..1_200 {
            tally.add(&recorded(State::Succeeded, Why::Status(200)));
        }
        for _ in 0..12 {
            tally.add(&recorded(State::Failed, Why::Status(400)));
        }
        tally.add(&recorded(State::Failed, Why::Code(Code::BadLine)));
        tally.add(&recorded(State::Refused, Why::Status(429)));
        tally
    }

    #[test]
    fn the_table_says_what_failed_why_and_what_is_left() {
        let counts = Counts {
            lines: 2_000,
            last: 1_223,
            failed: 13,
            doubtful: 0,
        };
        let summary = Summary::new(&tally(), Some(counts), Duration::from_secs(65));
        let text = summary.to_string();
        for row in [
            "done before   10\n",
            "sent          1,250, 1,300 attempts\n",
            "succeeded     1,200\n",
            "failed        13: 400 x 12, bad_line x 1\n",
            "  because     400: no such model (12 times)\n",
            "left to do    777: 429 x 1\n",
            "elapsed       1 min 5 s, 18.7 a second\n",
        ] {
            assert!(text.contains(row), "{row} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.len() <= 80));
    }

    #[test]
    fn the_object_names_reasons_as_records_do() {
        let summary = Summary::new(&tally(), None, Duration::from_secs(1));
        let value = serde_json::to_value(&summary).expect("JSON");
        assert_eq!(value["failed_by"]["400"], 12);
        assert_eq!(value["failed_by"]["bad_line"], 1);
        assert_eq!(value["unfinished_by"]["429"], 1);
        assert_eq!(value["left"], serde_json::Value::Null);
    }

    #[test]
    fn durations_have_two_units_and_numbers_their_thousands() {
        let text = |seconds| Rounded(Duration::from_secs_f64(seconds)).to_string();
        assert_eq!(text(1.25), "1.2 s");
        assert_eq!(text(59.9), "59 s");
        assert_eq!(text(3_599.0), "59 min 59 s");
        assert_eq!(text(90_000.0), "1 d 1 h");
        assert_eq!(Grouped(999).to_string(), "999");
        assert_eq!(Grouped(10_000_000).to_string(), "10,000,000");
    }
}
