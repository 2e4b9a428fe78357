//! The end of a run: the output is put in order, and what was done is said.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::Time;
use crate::scheduler::events::Fingerprint;
use crate::shared::Sharing;

use super::error::Error;
use super::output::Journal;
use super::record::Code;
use super::resume::Earlier;
use super::rewrite;
use super::run::{Run, Stop};
use super::signals::Signals;
use super::summary::{Grouped, Outcome, Summary};
use super::tally::Why;

impl Run<'_> {
    /// Sorts the output, or what else it needs. A signal leaves it as it is.
    pub(super) async fn put_in_order(&mut self, signals: &mut Signals, earlier: Earlier) {
        let journal = std::mem::replace(&mut self.journal, Journal::stdout());
        let (index, ordered) = (self.index.clone(), self.options.ordered);
        let interrupted = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&interrupted);
        let mut order = tokio::task::spawn_blocking(move || {
            let mut journal = journal;
            let end = journal.sync();
            let end = end.and_then(|()| {
                rewrite::rewrite(&mut journal, &mut index.lock(), &earlier, ordered, &stop)
            });
            (journal, end)
        });
        let end = loop {
            tokio::select! {
                end = &mut order => break end,
                signal = signals.next() => {
                    interrupted.store(true, Relaxed);
                    self.stop.get_or_insert(Stop::Signal(signal));
                }
            }
        };
        let (journal, end) = end.expect("putting in order does not panic");
        self.journal = journal;
        match end {
            Ok(()) => self.door.forget(),
            Err(error) => {
                self.stop.get_or_insert(Stop::Failed(error));
            }
        }
    }

    /// Says what was done. `known` is whether every line was read.
    pub(super) fn finish(mut self, earlier: &Earlier, known: bool) -> Result<Outcome, Error> {
        let (counts, moved) = {
            let index = self.index.lock();
            (index.counts(), index.moved())
        };
        let elapsed = self.clock.now().since(Time::START);
        let mut summary = Summary::new(&self.tally, known.then_some(counts), elapsed);
        summary.notices = self.notices(earlier, moved);
        let answers = self.door.answers().into_iter();
        summary.answered_by = answers.map(|(status, n)| (status.to_string(), n)).collect();
        self.tell_of_providers(&mut summary);
        if let (Some(limit), None) = (self.options.limit, &self.stop) {
            summary.limit(limit, self.tally.recorded());
        }
        let failed_before = summary.failures.saturating_sub(summary.failed);
        if failed_before > 0 {
            summary.notices.push(format!(
                "{failed_before} lines failed for good in earlier runs: --retry-failed does them again"
            ));
        }
        let mut interrupted = None;
        match self.stop {
            None => {}
            Some(Stop::Signal(signal)) => {
                interrupted = Some(signal);
                let resumable = self.journal.file().is_some();
                let next = if resumable {
                    ": the same command goes on"
                } else {
                    ""
                };
                summary.stopped = Some(format!("by a signal{next}"));
            }
            // The last line took the last tokens.
            Some(Stop::Spent) if summary.left == Some(0) => {}
            Some(Stop::Spent) => {
                let (spent, most) = (self.tally.tokens, self.options.max_tokens);
                summary.stopped = Some(format!(
                    "{} tokens were used, of {} that --max-tokens allows this run: the same \
                     command goes on with as many again",
                    Grouped(spent.unwrap_or_default()),
                    Grouped(most.unwrap_or_default()),
                ));
            }
            Some(Stop::Hopeless(why)) => summary.stopped = Some(why),
            Some(Stop::Failed(error)) if error.is_usage() => return Err(error),
            Some(Stop::Failed(error)) => summary.stopped = Some(error.to_string()),
        }
        self.journal.keep();
        Ok(Outcome {
            summary,
            interrupted,
        })
    }

    /// What became of providers and their keys.
    fn tell_of_providers(&self, summary: &mut Summary) {
        let Some(sender) = &self.sender else { return };
        let now = self.clock.now();
        for client in sender.hosts.all() {
            let past = client.outage.past(now);
            summary.outages += past.count;
            summary.outage_ms += past.time.as_millis() as u64;
            let seen = client.limiter.explain().observed;
            if seen.passed > 0 {
                summary.observed.get_or_insert_default().add(&seen);
            }
        }
        let names = &self.options.key_names;
        let known = self.board.keys().chain(names.keys().copied());
        for key in known {
            let state = self.board.key(key);
            let name = names.get(&key).map(|name| format!(", {name}"));
            let past = state.past().map(|past| format!(", {past}"));
            let note = name.unwrap_or_default() + &past.unwrap_or_default();
            summary.key_notes.insert(key.to_string(), note);
            if let Some(fault) = state.fault().filter(|_| key != Fingerprint::ANONYMOUS) {
                let refused = &mut summary.refused_keys;
                refused.insert(key.to_string(), fault.to_owned());
            }
        }
    }

    /// What the shared store did to this run.
    fn tell_of_store(&self, say: &mut impl FnMut(u64, &str)) {
        let Some(counts) = self.options.shared.as_ref().map(Sharing::counts) else {
            return;
        };
        let why = counts.last_trouble().unwrap_or_default();
        say(
            counts.times_away(),
            &format!("times the shared store was away ({why})"),
        );
        say(
            counts.without_store(),
            "requests were sent meanwhile, as --when-away says",
        );
        say(
            counts.times_lost(),
            "times the shared store had lost what it knew",
        );
    }

    fn notices(&self, earlier: &Earlier, moved: u64) -> Vec<String> {
        let mut notices = Vec::new();
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                notices.push(format!("{count} {what}"));
            }
        };
        say(
            moved,
            "lines moved since their requests were done: not sent again",
        );
        say(
            earlier.edited,
            "records are of lines that were edited since: dropped at the end",
        );
        say(
            earlier.strangers,
            "records have ids that are not in the input: kept",
        );
        say(
            earlier.damage.lines,
            "damaged lines in the output: their requests were done again",
        );
        say(
            u64::from(earlier.damage.cut),
            "torn record was cut off the output's end",
        );
        let bad = self.tally.failed.get(&Why::Code(Code::BadLine));
        if self.tally.sent == 0 && bad.is_some_and(|bad| *bad == self.tally.recorded()) {
            let what = "lines, and none of them is a request: is it the right file?";
            say(self.tally.recorded(), what);
        }
        self.tell_of_store(&mut say);
        self.seen.tell(&mut say);
        let others = self
            .sender
            .as_ref()
            .map_or(0, |sender| sender.hosts.others());
        say(
            self.unwritten(),
            "records of what was done were not written: nobody read the output",
        );
        if self.options.max_tokens.is_some() && self.tally.tokens.is_none() {
            say(
                self.tally.succeeded,
                "answers, and none said how many tokens it used: --max-tokens had nothing to count",
            );
        }
        say(
            self.tally.not_repeated,
            "lines had been sent by an earlier run that has no answer: not sent again because of \
             --replay never, and recorded as failed (unanswered); --retry-failed sends them",
        );
        let doubtful = self.tally.failed.get(&Why::Code(Code::Unanswered));
        say(
            doubtful.map_or(0, |count| count - self.tally.not_repeated),
            "lines were sent and have no answer: the server may have done them, so they are \
             recorded as failed (unanswered); --retry-failed or --replay always sends them again",
        );
        if let (Some(hint), None) = (self.streak.hint(), &self.stop) {
            notices.push(hint);
        }
        let oversized = self
            .sender
            .as_ref()
            .and_then(|sender| sender.oversized.get());
        notices.extend(oversized.cloned());
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                notices.push(format!("{count} {what}"));
            }
        };
        if self.options.all_keys().next().is_some() {
            say(others as u64, "other hosts were called without a key");
        }
        notices
    }
}
