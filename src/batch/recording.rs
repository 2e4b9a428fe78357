//! What comes back of lines, and what cannot be sent, becomes records and counts.

use std::time::Duration;

use super::done::{Done, Recorded};
use super::error::Error;
use super::ids::{Place, State};
use super::record::{self, Code, Ending, Record};
use super::request::BadLine;
use super::run::{Run, Stop};
use super::source::Work;
use super::tally::Why;

impl Run<'_> {
    pub(super) fn on_bad_line(&mut self, work: &Work, fault: &BadLine) {
        if self.sender.is_none() && fault.wants_base() {
            let line = self.index.lock().line(work.place);
            return self.fail(Error::NoBase { line });
        }
        let line = self.index.lock().line(work.place);
        let message = format!("line {line}: {fault}");
        self.record_unsent(work, Code::BadLine, message);
    }

    /// Records a line that was in flight when an earlier run ended, and is not sent again.
    pub(super) fn on_unanswered(&mut self, work: &Work) {
        let message = "it was in flight when an earlier run ended, and --replay never forbids to \
                       send it again: the server may or may not have done it; --retry-failed \
                       sends it";
        self.tally.not_repeated += 1;
        self.record_unsent(work, Code::Unanswered, message.to_owned());
    }

    fn record_unsent(&mut self, work: &Work, code: Code, message: String) {
        let mut record = Vec::new();
        Record {
            id: work.request_id,
            custom_id: &work.named.text,
            ending: Ending::Failure {
                code,
                message: &message,
            },
            attempts: 0,
            key: None,
            waited: Duration::ZERO,
            took: Duration::ZERO,
            last: true,
        }
        .write(&mut record);
        let recorded = Recorded {
            line: record,
            state: match code {
                Code::Unanswered => State::Doubtful,
                _ => State::Failed,
            },
            why: Why::Code(code),
            cause: Some(message),
            key: None,
        };
        self.record(work.place, recorded);
    }

    pub(super) fn on_done(&mut self, done: Result<Done, tokio::task::JoinError>) {
        // Nothing aborts a task, so this is a bug in it: better to stop than to lose a line.
        let done = done.expect("a request does not panic");
        self.bytes -= done.size;
        self.door.set_active(self.tasks.len(), self.bytes);
        self.tally.attempts += u64::from(done.attempts);
        self.tally.refused += u64::from(done.refused);
        if done.attempts > 0 {
            let left_unanswered = self.index.lock().state(done.place) == State::Unanswered;
            let again = left_unanswered || done.slot.is_some_and(|slot| slot.again);
            self.tally.sent += 1;
            self.tally.again += u64::from(again);
        }
        let mut record = done.record;
        let mut turned_away = false;
        if let (Some(record), false) = (&mut record, self.options.keep_going) {
            turned_away = self
                .streak
                .on(record.why, done.place, done.turned_away.as_ref());
            if self.streak.has_stopped(record.why) {
                record.take_back();
            }
        }
        let state = record.as_ref().map(|record| record.state);
        let recorded = record.is_some_and(|record| self.record(done.place, record));
        match (done.slot, state) {
            (Some(slot), Some(state)) if recorded => self.door.leave(slot, state.is_final()),
            // It never left, in this run or an earlier one.
            (Some(slot), None) if done.attempts == 0 && !slot.again => {
                self.door.leave(slot, false);
            }
            _ => {}
        }
        if let Some(source) = self.door.fault() {
            self.fail(self.journal.unwritable(source));
        }
        if let (Some(why), None) = (done.hopeless, &self.stop) {
            self.stop(Stop::Hopeless(why));
        }
        if turned_away {
            self.turn_back();
        }
        self.spend(done.tokens);
    }

    /// Stops before more is burnt: all is turned away in the same way. What was final is so no
    /// longer, so that the mended command does it too.
    fn turn_back(&mut self) {
        for place in self.streak.places().to_vec() {
            let (state, offset) = {
                let index = self.index.lock();
                (index.state(place), index.offset(place))
            };
            if state != State::Failed || self.journal.file().is_none() {
                continue;
            }
            let taken_back = self.journal.line_at(offset).and_then(|mut line| {
                record::take_back(&mut line);
                self.journal.append(&line)
            });
            match taken_back {
                Ok(offset) => self.index.lock().set(place, State::Refused, offset),
                Err(error) => return self.fail(error),
            }
        }
        self.tally.take_back();
        if let (Some(hint), None) = (self.streak.hint(), &self.stop) {
            self.stop(Stop::Hopeless(format!(
                "{hint}; the same command goes on once that is put right, and --keep-going sends \
                 all the same"
            )));
        }
    }

    /// Counts tokens, and stops once there are no more.
    fn spend(&mut self, tokens: Option<u64>) {
        let Some(tokens) = tokens else { return };
        let spent = self.tally.tokens.unwrap_or_default().saturating_add(tokens);
        self.tally.tokens = Some(spent);
        if self.stop.is_none() && self.options.max_tokens.is_some_and(|most| spent >= most) {
            self.stop(Stop::Spent);
        }
    }

    /// Writes a record. False if it could not be written.
    fn record(&mut self, place: Place, record: Recorded) -> bool {
        if matches!(self.stop, Some(Stop::Failed(_))) {
            return false;
        }
        match self.journal.append(&record.line) {
            Ok(offset) => {
                self.index.lock().set(place, record.state, offset);
                self.tally.add(&record);
                true
            }
            Err(error) => {
                self.fail(error);
                false
            }
        }
    }
}
