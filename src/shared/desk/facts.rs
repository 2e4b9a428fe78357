//! What this process tells the others, and what it heard from them.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::Time;
use crate::feedback::Fault;
use crate::scheduler::events::Fingerprint;
use crate::scheduler::told::Told;

use super::super::store::{Fact, Known};
use super::{Call, Desk};

/// Facts on their way out and in.
#[derive(Debug)]
pub(super) struct Facts {
    /// With the moment when each was observed.
    outgoing: VecDeque<(Told, Time)>,
    heard: VecDeque<(Told, Time)>,
    /// By subject: until when the last one that was heard holds, and when it was observed.
    known: HashMap<String, (Time, Time)>,
    /// How many had been published when they were last asked for.
    version: u64,
    is_due: bool,
    is_flying: bool,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            outgoing: VecDeque::new(),
            heard: VecDeque::new(),
            known: HashMap::new(),
            version: 0,
            // What was published before this process began still holds.
            is_due: true,
            is_flying: false,
        }
    }
}

impl Facts {
    /// Whether there is a call to make.
    pub(super) fn has_call(&self) -> bool {
        self.owes() || (self.is_due && !self.is_flying)
    }

    /// Whether something is still to be told.
    pub(super) fn owes(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// The store has so many facts.
    pub(super) fn on_version(&mut self, version: u64) {
        self.is_due |= version != self.version;
        self.version = version;
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
        self.outgoing.push_front((told, observed));
    }
}

impl Desk {
    /// Something was decided here that the others should know.
    pub(crate) fn on_told(&mut self, told: Told, now: Time) {
        self.facts.outgoing.push_back((told, now));
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
            if let Some(fact) = write(&told, observed, now) {
                return Some(Call::Publish {
                    fact,
                    told,
                    observed,
                });
            }
        }
        if self.facts.is_due && !self.facts.is_flying {
            self.facts.is_due = false;
            self.facts.is_flying = true;
            return Some(Call::Facts);
        }
        None
    }

    /// All facts that hold. Each is heard once.
    pub(super) fn on_facts(&mut self, facts: Vec<Known>, now: Time) {
        self.facts.is_flying = false;
        self.facts.known.retain(|_, (until, _)| *until > now);
        for fact in facts {
            let until = now + fact.lasts;
            let observed = Time::from_nanos(now.as_nanos().saturating_sub(nanos(fact.age)));
            let known = self.facts.known.get(&fact.subject);
            // The way to the store is not always as long.
            let same = |&(before, seen): &(Time, Time)| {
                until.since(before) < BLUR && observed.since(seen) < BLUR
            };
            if known.is_some_and(same) {
                continue;
            }
            if let Some(told) = read(&fact, until) {
                self.facts.heard.push_back((told, observed));
            }
            if self.facts.known.len() < MOST {
                self.facts.known.insert(fact.subject, (until, observed));
            }
        }
    }
}

fn write(told: &Told, observed: Time, now: Time) -> Option<Fact> {
    let (subject, value, lasts) = match told {
        Told::Parked { key, bucket, until } => {
            let subject = match bucket {
                Some(bucket) => format!("park.{key}.{bucket}"),
                None => format!("park.{key}"),
            };
            (subject, "", until.since(now))
        }
        Told::Overloaded { until } => ("rest".to_owned(), "", until.since(now)),
        Told::Retired { key, fault } => (format!("fault.{key}"), name(*fault), FAULT_LASTS),
        Told::Restored { key } => (format!("fault.{key}"), "none", FAULT_LASTS),
    };
    let extends = matches!(told, Told::Parked { .. } | Told::Overloaded { .. });
    (!lasts.is_zero()).then(|| Fact {
        subject,
        value: value.to_owned(),
        age: now.since(observed),
        lasts,
        extends,
    })
}

fn read(fact: &Known, until: Time) -> Option<Told> {
    if fact.subject == "rest" {
        return Some(Told::Overloaded { until });
    }
    let (kind, whose) = fact.subject.split_once('.')?;
    let (key, bucket) = match whose.split_once('.') {
        Some((key, bucket)) => (key, Some(bucket.to_owned().into())),
        None => (whose, None),
    };
    let key = fingerprint(key)?;
    match kind {
        "park" => Some(Told::Parked { key, bucket, until }),
        "fault" if fact.value == "none" => Some(Told::Restored { key }),
        "fault" => FAULTS
            .into_iter()
            .find(|fault| name(*fault) == fact.value)
            .map(|fault| Told::Retired { key, fault }),
        // A newer paceline may say more.
        _ => None,
    }
}

fn fingerprint(text: &str) -> Option<Fingerprint> {
    if text == Fingerprint::ANONYMOUS.to_string() {
        return Some(Fingerprint::ANONYMOUS);
    }
    let mut hash = [0; 6];
    if text.len() != 2 * hash.len() {
        return None;
    }
    for (place, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(Fingerprint::from_hash(hash))
}

fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::Unauthorized => "unauthorized",
        Fault::Revoked => "revoked",
        Fault::OutOfFunds => "out of funds",
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

const FAULTS: [Fault; 3] = [Fault::Unauthorized, Fault::Revoked, Fault::OutOfFunds];
/// A fault is probed meanwhile, and its end is told.
const FAULT_LASTS: Duration = Duration::from_secs(24 * 3600);
/// The same fact, read at another time, differs by no more than the way to the store.
const BLUR: Duration = Duration::from_secs(1);
/// Facts that are remembered as heard; the store has keys and buckets by the tens.
const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    #[test]
    fn what_is_told_is_heard_as_it_was() {
        let key = Fingerprint::from_hash([0xa, 0, 0xff, 7, 8, 9]);
        let until = at(90.0);
        let bucket = Some("gpt-5.mini: a b".to_owned().into());
        let mut all = vec![
            Told::Parked {
                key,
                bucket: None,
                until,
            },
            Told::Parked { key, bucket, until },
            Told::Parked {
                key: Fingerprint::ANONYMOUS,
                bucket: None,
                until,
            },
            Told::Overloaded { until },
            Told::Restored { key },
        ];
        all.extend(FAULTS.map(|fault| Told::Retired { key, fault }));
        for told in all {
            let fact = write(&told, at(29.0), at(30.0)).expect("it still holds");
            assert_eq!(fact.age, Duration::from_secs(1));
            let known = Known {
                subject: fact.subject,
                value: fact.value,
                age: fact.age,
                lasts: fact.lasts,
            };
            assert_eq!(read(&known, until), Some(told));
        }
    }

    #[test]
    fn what_somebody_else_wrote_there_is_passed_over() {
        for subject in [
            "",
            "park",
            "park.",
            "park.zz",
            "fault.0102030405é6",
            "quota.010203040506",
        ] {
            let known = Known {
                subject: subject.to_owned(),
                value: "x".to_owned(),
                age: Duration::ZERO,
                lasts: Duration::from_secs(1),
            };
            assert_eq!(read(&known, at(1.0)), None, "{subject}");
        }
    }
}
