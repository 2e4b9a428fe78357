//! What became of a line, and its record, ready to be written.

use crate::scheduler::events::Fingerprint;

use super::ending::Reply;
use super::ids::{Place, State};
use super::inflight::Slot;
use super::record::{self, Record};
use super::tally::Why;
use super::turned_away::TurnedAway;

/// What became of a line.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) place: Place,
    /// What it took of memory.
    pub(crate) size: usize,
    pub(crate) slot: Option<Slot>,
    pub(crate) attempts: u32,
    pub(crate) refused: u32,
    /// What the answer says it used, if somebody counts.
    pub(crate) tokens: Option<u64>,
    /// None where nothing was sent and the run is being stopped: the next run does it.
    pub(crate) record: Option<Recorded>,
    /// What every further request would run into too.
    pub(crate) hopeless: Option<String>,
    /// How it was turned away, where all may be turned away so.
    pub(crate) turned_away: Option<TurnedAway>,
}

/// A record, ready to be written.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) line: Vec<u8>,
    pub(crate) state: State,
    pub(crate) why: Why,
    /// In a few words, why it did not succeed.
    pub(crate) cause: Option<String>,
    pub(crate) key: Option<Fingerprint>,
}

impl Recorded {
    /// A reply as its record has it.
    pub(crate) fn of(reply: &Reply, record: &Record<'_>) -> Self {
        let mut line = Vec::with_capacity(AROUND + reply.size());
        record.write(&mut line);
        let state = reply.state();
        Self {
            line,
            state,
            why: reply.why(),
            cause: (state != State::Succeeded).then(|| reply.cause()).flatten(),
            key: record.key,
        }
    }

    /// The next run is to do its line again.
    pub(crate) fn take_back(&mut self) {
        if self.state == State::Failed {
            self.state = State::Refused;
            record::take_back(&mut self.line);
        }
    }
}

/// What a record takes beside the body: its fields take 250 bytes, a `custom_id` the rest.
const AROUND: usize = 320;
