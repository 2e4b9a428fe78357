//! What processes that share a provider tell each other: penalties and faults of keys.
//!
//! A fact is told when it was decided here, and heard when somebody else decided it. What was heard
//! is not told on.

use std::collections::VecDeque;

use crate::feedback::{Fault, Feedback, Reading};

use super::Scheduler;
use super::events::{Because, Fingerprint, KeyId, Name, What};
use super::pace::Rate;
use super::time::Time;

/// Something that holds for everybody who uses a key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Told {
    /// The key, or one of its buckets, is not used until a moment: the server said so, or it is a
    /// penalty.
    Parked {
        /// The key.
        key: Fingerprint,
        /// The bucket, where it is only that.
        bucket: Option<Name>,
        /// The moment.
        until: Time,
    },
    /// Nobody is served by the provider until a moment: it named its own overload.
    Overloaded {
        /// The moment.
        until: Time,
    },
    /// The server refuses the key itself.
    Retired {
        /// The key.
        key: Fingerprint,
        /// Why.
        fault: Fault,
    },
    /// The server accepts a key again that it had refused.
    Restored {
        /// The key.
        key: Fingerprint,
    },
    /// The rate of a key was learned anew.
    Paced {
        /// The key.
        key: Fingerprint,
        /// The rate at which one process goes.
        rate: Rate,
    },
    /// The server told what is left of the quotas of a key.
    Read {
        /// The key.
        key: Fingerprint,
        /// The bucket, where one was named.
        bucket: Option<Name>,
        /// What it told.
        readings: Vec<Reading>,
    },
}

impl Told {
    /// Whether both say what is left of the same quotas.
    fn is_about(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Read { key, bucket, .. },
                Self::Read {
                    key: other,
                    bucket: other_bucket,
                    ..
                },
            ) => key == other && bucket == other_bucket,
            _ => false,
        }
    }
}

/// What was decided here and is to be told, and what was heard and cannot be used yet.
#[derive(Debug, Default)]
pub(super) struct Teller {
    outgoing: VecDeque<Told>,
    /// Readings, one a bucket, and when they were observed.
    kept: Vec<(Told, Time)>,
}

impl Scheduler {
    /// From now on what others should know is kept for [`Scheduler::poll_told`].
    pub fn tell(&mut self) {
        self.teller.get_or_insert_default();
    }

    /// The next thing that others should know.
    pub fn poll_told(&mut self) -> Option<Told> {
        self.teller.as_mut()?.outgoing.pop_front()
    }

    /// Somebody else observed this at `observed`, or before that moment at the latest.
    pub fn hear(&mut self, told: &Told, observed: Time, now: Time) {
        let id = match told {
            Told::Overloaded { until } => {
                let longest = now + self.settings.longest_park;
                self.overload.until = self.overload.until.max((*until).min(longest));
                self.open_gates();
                return;
            }
            Told::Parked { key, .. }
            | Told::Retired { key, .. }
            | Told::Restored { key }
            | Told::Paced { key, .. }
            | Told::Read { key, .. } => self.keys.find(*key),
        };
        let Some(id) = id else { return };
        let what = match told {
            Told::Parked { bucket, until, .. } => {
                let bucket = bucket.as_ref().map(|name| self.buckets.id(Some(name)));
                let why = Because::Shared;
                let until = self.keys.park(id, bucket, until.since(now), now);
                Some(What::Parked { until, why })
            }
            Told::Retired { fault, .. } => {
                let what = self.keys.hear_fault(id, *fault, observed, now);
                self.control.on_fault(id, what.is_some(), now);
                what
            }
            Told::Restored { .. } => self.keys.hear_restored(id, observed),
            Told::Paced { rate, .. } => self.control.hear_rate(id, *rate, observed),
            Told::Read {
                bucket, readings, ..
            } => {
                let place = self.buckets.id(bucket.as_ref());
                if self.control.awaits_answer(id, place) {
                    // That will tell more, if it comes.
                    if let Some(teller) = &mut self.teller {
                        teller.keep(told, observed);
                    }
                    return;
                }
                self.hear_readings(id, place, readings, observed, now);
                None
            }
            Told::Overloaded { .. } => None,
        };
        if what == Some(What::Restored) {
            self.control.on_restored(id);
        }
        self.note(now, Some(id), what);
        self.open_gates();
    }

    /// Takes in what was heard while answers of one's own were on their way: they may have told
    /// nothing, or never have come.
    pub(super) fn hear_kept(&mut self, now: Time) {
        let Some(teller) = &mut self.teller else {
            return;
        };
        for (told, observed) in std::mem::take(&mut teller.kept) {
            self.hear(&told, observed, now);
        }
    }

    fn hear_readings(
        &mut self,
        key: KeyId,
        bucket: u32,
        readings: &[Reading],
        observed: Time,
        now: Time,
    ) {
        let age = now.since(observed);
        let since = |reading: &Reading| {
            let mut reading = reading.clone();
            if let Some(reset) = &mut reading.reset {
                reset.after = reset.after.saturating_sub(age);
            }
            reading
        };
        let feedback = Feedback {
            readings: readings.iter().map(since).collect(),
            ..Feedback::default()
        };
        let changes = self
            .control
            .hear_readings(key, bucket, &feedback, observed, now);
        for what in changes {
            self.note(now, Some(key), Some(what));
        }
    }

    /// What an answer taught of a key: what the server told, and the rate if that has changed.
    pub(super) fn tell_learned(
        &mut self,
        key: KeyId,
        bucket: u32,
        feedback: &Feedback,
        paced: bool,
    ) {
        let Some(teller) = &mut self.teller else {
            return;
        };
        let fingerprint = self.keys.key(key).fingerprint;
        if !feedback.readings.is_empty() {
            teller.push(Told::Read {
                key: fingerprint,
                bucket: self.buckets.name(bucket).cloned(),
                readings: feedback.readings.to_vec(),
            });
        }
        if let Some(rate) = self.control.told_rate(key).filter(|_| paced) {
            teller.push(Told::Paced {
                key: fingerprint,
                rate,
            });
        }
    }

    pub(super) fn tell_parked(&mut self, key: KeyId, bucket: Option<u32>, until: Time) {
        let name = bucket.and_then(|bucket| self.buckets.name(bucket)).cloned();
        let Some(teller) = &mut self.teller else {
            return;
        };
        teller.push(Told::Parked {
            key: self.keys.key(key).fingerprint,
            bucket: name,
            until,
        });
    }

    pub(super) fn tell_overloaded(&mut self) {
        let until = self.overload.until;
        if let Some(teller) = &mut self.teller {
            teller.push(Told::Overloaded { until });
        }
    }

    /// A key's fault was found or is over.
    pub(super) fn tell_fault(&mut self, key: KeyId, what: Option<&What>) {
        let Some(teller) = &mut self.teller else {
            return;
        };
        let key = self.keys.key(key).fingerprint;
        match what {
            Some(&What::Retired(fault)) => teller.push(Told::Retired { key, fault }),
            Some(What::Restored) => teller.push(Told::Restored { key }),
            _ => {}
        }
    }
}

impl Teller {
    fn push(&mut self, told: Told) {
        if self.outgoing.len() >= MOST {
            self.outgoing.pop_front();
        }
        self.outgoing.push_back(told);
    }

    /// Keeps what was heard of a bucket instead of what was kept before.
    fn keep(&mut self, told: &Told, observed: Time) {
        let mut kept = self.kept.iter();
        match kept.position(|(kept, _)| kept.is_about(told)) {
            Some(place) if self.kept[place].1 > observed => {}
            Some(place) => self.kept[place] = (told.clone(), observed),
            None if self.kept.len() < MOST => self.kept.push((told.clone(), observed)),
            None => {}
        }
    }
}

/// Facts kept for a shell that does not ask; more is what changes again before anybody hears it.
const MOST: usize = 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Settings;
    use crate::feedback::{Clock, Dimension, Reset};
    use crate::scheduler::events::{Ask, Reason, Refusal};

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn key() -> Fingerprint {
        Fingerprint::from_hash([1, 2, 3, 4, 5, 6])
    }

    fn scheduler() -> Scheduler {
        let mut scheduler =
            Scheduler::new(Settings::default(), &[key()], 1).expect("valid settings");
        scheduler.tell();
        scheduler
    }

    #[test]
    fn a_penalty_that_was_heard_holds_and_is_not_told_on() {
        let mut scheduler = scheduler();
        let parked = Told::Parked {
            key: key(),
            bucket: None,
            until: at(30.0),
        };
        scheduler.hear(&parked, at(0.0), at(1.0));
        let refused = scheduler.submit(Ask::new().deadline(Duration::from_secs(5)), at(1.0));
        assert_eq!(refused, Err(Refusal::AllKeysParked { until: at(30.0) }));
        // A shorter one shortens nothing.
        let shorter = Told::Parked {
            key: key(),
            bucket: None,
            until: at(2.0),
        };
        scheduler.hear(&shorter, at(1.0), at(1.0));
        scheduler.submit(Ask::new(), at(1.0)).expect("it may wait");
        assert_eq!(scheduler.poll_grant(at(29.0)), None);
        assert!(scheduler.poll_grant(at(30.0)).is_some());
        assert_eq!(scheduler.poll_told(), None);
    }

    #[test]
    fn a_bucket_that_is_parked_stops_no_other() {
        let mut scheduler = scheduler();
        let parked = Told::Parked {
            key: key(),
            bucket: Some("gpt-5".into()),
            until: at(30.0),
        };
        scheduler.hear(&parked, at(0.0), at(1.0));
        scheduler
            .submit(Ask::new().bucket("gpt-5"), at(1.0))
            .expect("it may wait");
        assert_eq!(scheduler.poll_grant(at(2.0)), None);
        assert_eq!(scheduler.waits_for(), Some(Reason::Hint));
        let other = scheduler.submit(Ask::new(), at(2.0)).expect("room");
        assert_eq!(
            scheduler.poll_grant(at(2.0)).map(|grant| grant.ticket),
            Some(other)
        );
    }

    #[test]
    fn what_is_heard_during_a_request_counts_when_that_ends_without_an_answer() {
        let mut scheduler = scheduler();
        scheduler.submit(Ask::new(), at(1.0)).expect("room");
        let flying = scheduler.poll_grant(at(1.0)).expect("it may go").ticket;
        scheduler.start(flying, at(1.0));
        let nothing_left = Reading {
            dimension: Dimension::Requests,
            limit: Some(100.0),
            remaining: Some(0.0),
            used: None,
            reset: Some(Reset {
                after: Duration::from_secs(40),
                grain: Duration::from_millis(1),
                clock: Clock::Delta,
            }),
            window: None,
            scope: None,
        };
        let read = Told::Read {
            key: key(),
            bucket: None,
            readings: vec![nothing_left],
        };
        scheduler.hear(&read, at(1.5), at(2.0));
        scheduler.cancel(flying);
        scheduler.submit(Ask::new(), at(3.0)).expect("it may wait");
        assert_eq!(scheduler.poll_grant(at(3.0)), None);
        assert!(matches!(scheduler.waits_for(), Some(Reason::Quota(_))));
    }

    #[test]
    fn a_key_that_was_restored_since_stays_so() {
        let mut scheduler = scheduler();
        let retired = Told::Retired {
            key: key(),
            fault: Fault::Revoked,
        };
        scheduler.hear(&retired, at(1.0), at(2.0));
        let refused = scheduler.submit(Ask::new(), at(2.0));
        assert_eq!(
            refused,
            Err(Refusal::AllKeysFaulty {
                fault: Fault::Revoked
            })
        );
        let restored = Told::Restored { key: key() };
        scheduler.hear(&restored, at(0.5), at(3.0));
        assert!(
            scheduler.submit(Ask::new(), at(3.0)).is_err(),
            "that was before"
        );
        scheduler.hear(&restored, at(4.0), at(4.0));
        assert!(scheduler.submit(Ask::new(), at(4.0)).is_ok());
    }
}
