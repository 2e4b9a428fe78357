//! What this process tells the others, and what it heard from them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::Time;
use crate::scheduler::told::Told;

use super::super::store::Heard;
use super::words::{read, subject, write};
use super::{Call, Desk};

/// Facts on their way out and in.
#[derive(Debug)]
pub(super) struct Facts {
    /// With the moment when each was observed.
    outgoing: VecDeque<(Told, Time)>,
    /// By subject: what changes with every answer, and is told now and then.
    later: BTreeMap<String, (Told, Time)>,
    later_at: Time,
    heard: VecDeque<(Told, Time)>,
    /// How many have been published, and up to which of them all were heard.
    version: u64,
    read: u64,
    is_due: bool,
    is_flying: bool,
    /// What was learned outlives this process: nothing is left for later.
    is_closing: bool,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            outgoing: VecDeque::new(),
            later: BTreeMap::new(),
            later_at: Time::START,
            heard: VecDeque::new(),
            version: 0,
            read: 0,
            // What was published before this process began still holds.
            is_due: true,
            is_flying: false,
            is_closing: false,
        }
    }
}

impl Facts {
    /// Whether there is a call to make.
    pub(super) fn has_call(&self) -> bool {
        self.owes() || (self.is_due && !self.is_flying)
    }

    /// When there is something to tell of what is told now and then.
    pub(super) fn next(&self) -> Time {
        match (self.later.is_empty(), self.is_closing) {
            (true, _) => Time::NEVER,
            (false, true) => Time::START,
            (false, false) => self.later_at,
        }
    }

    /// From now on everything is told at once, what is still in flight included.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
    }

    /// Whether something is to be told now.
    pub(super) fn owes(&self) -> bool {
        !self.outgoing.is_empty() || (self.is_closing && !self.later.is_empty())
    }

    /// The store has so many facts.
    pub(super) fn on_version(&mut self, version: u64) {
        self.is_due |= version != self.version;
        self.version = version;
        if version < self.read {
            self.read_all();
        }
    }

    /// The store has lost what it knew, and counts anew.
    pub(super) fn read_all(&mut self) {
        self.read = 0;
        self.is_due = true;
    }

    /// Somebody may have published.
    pub(super) fn ask(&mut self) {
        self.is_due = true;
    }

    /// A call was not answered.
    pub(super) fn on_silence(&mut self) {
        self.is_flying = false;
        self.is_due = true;
    }

    pub(super) fn again(&mut self, told: Told, observed: Time) {
        match now_and_then(&told) {
            Some(subject) => {
                self.later.entry(subject).or_insert((told, observed));
            }
            None => self.outgoing.push_front((told, observed)),
        }
    }
}

impl Desk {
    /// Something was decided here that the others should know.
    pub(crate) fn on_told(&mut self, mut told: Told, now: Time) {
        if let Told::Paced { rate, .. } = &mut told {
            // Each goes at its own part of what is there.
            *rate = rate.times(f64::from(self.owners));
        }
        match now_and_then(&told) {
            Some(subject) if self.facts.later.len() < MOST => {
                self.facts.later.insert(subject, (told, now));
            }
            Some(_) => {}
            None => self.facts.outgoing.push_back((told, now)),
        }
    }

    /// The next thing that was heard, and when it was observed.
    pub(crate) fn poll_heard(&mut self) -> Option<(Told, Time)> {
        self.facts.heard.pop_front()
    }

    /// Somebody may have published.
    pub(crate) fn on_news(&mut self) {
        self.facts.ask();
    }

    pub(super) fn poll_fact(&mut self, now: Time) -> Option<Call> {
        while let Some((told, observed)) = self.facts.outgoing.pop_front() {
            if let Some(call) = self.publication(told, observed, now) {
                return Some(call);
            }
        }
        if now >= self.facts.next() {
            while let Some((_, (told, observed))) = self.facts.later.pop_first() {
                if self.facts.later.is_empty() {
                    self.facts.later_at = now + NOW_AND_THEN;
                }
                if let Some(call) = self.publication(told, observed, now) {
                    return Some(call);
                }
            }
        }
        if self.facts.is_due && !self.facts.is_flying {
            self.facts.is_due = false;
            self.facts.is_flying = true;
            return Some(Call::Facts(self.facts.read));
        }
        None
    }

    fn publication(&self, told: Told, observed: Time, now: Time) -> Option<Call> {
        let fact = write(&told, self.owner, observed, now)?;
        Some(Call::Publish {
            fact,
            told,
            observed,
        })
    }

    /// Facts that hold, each once.
    pub(super) fn on_facts(&mut self, heard: Heard, now: Time) {
        self.facts.is_flying = false;
        if heard.version < self.facts.read {
            return self.facts.read_all();
        }
        let has_more = heard.version > self.facts.read && heard.version < self.facts.version;
        self.facts.is_due |= has_more;
        self.facts.read = heard.version;
        for fact in heard.facts {
            if self.hear_terms(&fact, now) {
                continue;
            }
            let until = now + fact.lasts;
            let observed = Time::from_nanos(now.as_nanos().saturating_sub(nanos(fact.age)));
            if let Some(mut told) = read(&fact, self.owner, until) {
                if let Told::Paced { rate, .. } = &mut told {
                    *rate = rate.times(f64::from(self.owners).recip());
                }
                self.facts.heard.push_back((told, observed));
            }
        }
    }
}

/// The subject of what changes with every answer.
fn now_and_then(told: &Told) -> Option<String> {
    let learned = matches!(told, Told::Paced { .. } | Told::Read { .. });
    learned.then(|| subject(told))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Between two tellings of what changes with every answer: it must cost far less than the answers.
const NOW_AND_THEN: Duration = Duration::from_secs(2);
/// Facts that wait to be told, a subject each; a process has keys and buckets by the tens.
const MOST: usize = 4096;
