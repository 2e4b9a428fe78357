//! The end of a run: the output is put in order, and what was done is said.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::Time;
use crate::scheduler::events::Fingerprint;
use crate::shared::Sharing;

use super::counted::counted;
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
            summary.notices.push(counted(
                failed_before,
                "[line|lines] failed for good in earlier runs: --retry-failed does [it|them] again",
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

    /// What else is worth knowing.
    fn notices(&self, earlier: &Earlier, moved: u64) -> Vec<String> {
        let mut notices = of_output(earlier, moved);
        let (tally, recorded) = (&self.tally, self.tally.recorded());
        if self.is_empty() {
            notices.push("there is no line in the input: is it the right file?".to_owned());
        }
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                notices.push(counted(count, what));
            }
        };
        let bad = tally.failed.get(&Why::Code(Code::BadLine));
        if (tally.before, tally.sent) == (0, 0) && bad.is_some_and(|bad| *bad == recorded) {
            say(
                recorded,
                "[line, and it is no request|lines, and none of them is a request]: is it the \
                 right file?",
            );
        }
        let lost = "[record of what was done was|records of what was done were] not written";
        match self.stop {
            // Where it takes no more, the end says why.
            Some(Stop::Failed(_)) => say(self.unwritten(), lost),
            _ => say(self.unwritten(), &format!("{lost}: nobody read the output")),
        }
        if self.options.max_tokens.is_some() && tally.tokens.is_none() {
            say(
                tally.succeeded,
                "[answer, and it did not say how many tokens it|answers, and none said how many \
                 tokens it] used: --max-tokens had nothing to count",
            );
        }
        say(
            tally.not_repeated,
            "[line|lines] had been sent by an earlier run that has no answer: not sent again \
             because of --replay never, and recorded as failed (unanswered); --retry-failed sends \
             [it|them]",
        );
        let doubtful = tally.failed.get(&Why::Code(Code::Unanswered));
        say(
            doubtful.map_or(0, |count| count - tally.not_repeated),
            "[line was sent and has|lines were sent and have] no answer: the server may have done \
             [it, so it is|them, so they are] recorded as failed (unanswered); --retry-failed or \
             --replay always sends [it|them] again",
        );
        let sender = self.sender.as_ref();
        if self.options.all_keys().next().is_some() {
            let others = sender.map_or(0, |sender| sender.hosts.others()) as u64;
            say(others, "other [host was|hosts were] called without a key");
        }
        notices.extend(self.of_store());
        self.seen.tell(&mut |notice| notices.push(notice));
        if let (Some(hint), None) = (self.streak.hint(), &self.stop) {
            notices.push(hint);
        }
        notices.extend(sender.and_then(|sender| sender.oversized.get()).cloned());
        notices
    }

    /// Whether the input was read to its end, and nothing was in it.
    fn is_empty(&self) -> bool {
        self.stop.is_none() && self.index.lock().counts().lines == 0
    }

    /// What the shared store did to this run.
    fn of_store(&self) -> Vec<String> {
        let Some(counts) = self.options.shared.as_ref().map(Sharing::counts) else {
            return Vec::new();
        };
        let (away, lost) = (counts.times_away(), counts.times_lost());
        let mut notices = Vec::new();
        if away > 0 {
            let away = counted(away, "[time|times] the shared store was away");
            let why = counts.last_trouble().unwrap_or_default();
            notices.push(format!("{away} ({why})"));
        }
        let more = [
            (
                counts.without_store(),
                "[request was|requests were] sent meanwhile, as --when-away says",
            ),
            (lost, "[time|times] the shared store had lost what it knew"),
        ];
        let more = more.iter().filter(|(count, _)| *count > 0);
        notices.extend(more.map(|(count, what)| counted(*count, what)));
        notices
    }
}

/// What was found in the output, and what became of it.
fn of_output(earlier: &Earlier, moved: u64) -> Vec<String> {
    let damage = &earlier.damage;
    let found = [
        (
            moved,
            "[line moved since its request was|lines moved since their requests were] done: not \
             sent again",
        ),
        (
            earlier.edited,
            "[record is of a line that was|records are of lines that were] edited since: dropped \
             at the end",
        ),
        (
            earlier.strangers,
            "[record has an id that is|records have ids that are] not in the input: kept",
        ),
        (
            damage.lines,
            "damaged [line in the output: its request was|lines in the output: their requests \
             were] done again",
        ),
        (
            u64::from(damage.cut),
            "torn record was cut off the output's end: its request was done again",
        ),
        (
            damage.zeros,
            "zero [byte was|bytes were] cut off the output's end, as a loss of power leaves them: \
             what was recorded there was done again",
        ),
    ];
    let found = found.iter().filter(|(count, _)| *count > 0);
    found.map(|(count, what)| counted(*count, what)).collect()
}
