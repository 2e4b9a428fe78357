//! Keys whose secret comes and goes: one that is renewed keeps its state, for it is the same
//! account, and is not used while its secret is not here.

use crate::feedback::Fault;

use super::Scheduler;
use super::events::{Fingerprint, Refusal, What};
use super::time::Time;

/// Whether a key's secret is here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Secret {
    /// It is, and always was.
    #[default]
    Fixed,
    /// It has been since then; what was sent before is of another one.
    Here(Time),
    /// It will come.
    Awaited,
    /// It was to come, and did not, again and again.
    Missing,
}

impl Secret {
    pub(super) fn is_here(self) -> bool {
        matches!(self, Self::Fixed | Self::Here(_))
    }

    /// Whether what was sent at `sent` went out with an earlier secret.
    pub(super) fn is_newer_than(self, sent: Time) -> bool {
        match self {
            Self::Fixed => false,
            Self::Here(since) => sent < since,
            Self::Awaited | Self::Missing => true,
        }
    }
}

impl Scheduler {
    /// The secret of a key is not here: the key is not used until [`Scheduler::on_secret`]. What
    /// the server refuses meanwhile goes again with the next one.
    pub fn await_secret(&mut self, key: Fingerprint) {
        if let Some(id) = self.keys.find(key) {
            self.keys.set_secret(id, Secret::Awaited);
            self.open_gates();
        }
    }

    /// A new secret of a key is here. Whatever the server had against the old one is over.
    pub fn on_secret(&mut self, key: Fingerprint, now: Time) {
        let Some(id) = self.keys.find(key) else {
            return;
        };
        if self.keys.set_secret(id, Secret::Here(now)) {
            self.control.on_restored(id);
        }
        self.note(now, Some(id), Some(What::Renewed));
        self.open_gates();
    }

    /// The function that brings a key's secret has failed. If that `is_missed` since there is
    /// none, and no other key is left, all who wait are refused.
    pub fn on_secret_failed(
        &mut self,
        key: Fingerprint,
        why: Box<str>,
        is_missed: bool,
        now: Time,
    ) {
        let Some(id) = self.keys.find(key) else {
            return;
        };
        self.note(now, Some(id), Some(What::NotRenewed { why }));
        if is_missed {
            self.keys.set_secret(id, Secret::Missing);
            self.open_gates();
            self.refuse_if_all_faulty(now);
        }
    }

    /// Refuses all who wait if the keys have no use for anybody.
    pub(super) fn refuse_if_all_faulty(&mut self, now: Time) {
        let Some(fault) = self.keys.all_faulty(now) else {
            return;
        };
        let waiting: Vec<_> = self.queue.waiting().collect();
        for other in waiting {
            self.refuse(other, Refusal::AllKeysFaulty { fault });
        }
    }
}

/// What a key without a secret is refused for: nobody could be told from anybody.
pub(super) const NO_SECRET: Fault = Fault::Unauthorized;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::feedback::{Class, Feedback};
    use crate::scheduler::concurrency::{Concurrency, FixedSettings};
    use crate::scheduler::events::{Ask, GaveUp, Outcome, Reason, Verdict};
    use crate::scheduler::pace::PaceSettings;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    const KEY: Fingerprint = Fingerprint::from_hash([1; 6]);
    const OTHER: Fingerprint = Fingerprint::from_hash([2; 6]);

    fn scheduler(keys: &[Fingerprint]) -> Scheduler {
        let settings = Settings {
            concurrency: Concurrency::Fixed(FixedSettings { limit: 10 }),
            pace: PaceSettings::Off,
            ..Settings::default()
        };
        Scheduler::new(settings, keys, 1).expect("valid settings")
    }

    fn unauthorized() -> Outcome {
        Outcome::Answered(Feedback {
            class: Class::Fatal,
            fault: Some(Fault::Unauthorized),
            ..Feedback::default()
        })
    }

    #[test]
    fn who_waits_for_a_secret_goes_when_it_comes() {
        let mut scheduler = scheduler(&[KEY]);
        scheduler.await_secret(KEY);
        scheduler.submit(Ask::new(), at(0.0)).expect("it may wait");
        assert_eq!(scheduler.poll_grant(at(1.0)), None);
        assert_eq!(scheduler.waits_for(), Some(Reason::Renewal));
        scheduler.on_secret(KEY, at(2.0));
        assert!(scheduler.poll_grant(at(2.0)).is_some());
    }

    #[test]
    fn a_key_without_a_secret_leaves_the_work_to_the_others() {
        let mut scheduler = scheduler(&[KEY, OTHER]);
        scheduler.await_secret(KEY);
        scheduler.on_secret_failed(KEY, "no".into(), true, at(0.0));
        for _ in 0..2 {
            scheduler.submit(Ask::new(), at(0.0)).expect("it may wait");
            let grant = scheduler.poll_grant(at(0.0)).expect("the other key");
            assert_eq!(scheduler.fingerprint(grant.key), OTHER);
        }
    }

    #[test]
    fn where_no_secret_comes_nobody_waits_in_vain() {
        let mut scheduler = scheduler(&[KEY]);
        scheduler.await_secret(KEY);
        let waits = scheduler.submit(Ask::new(), at(0.0)).expect("it may wait");
        scheduler.on_secret_failed(KEY, "no".into(), false, at(0.0));
        assert_eq!(
            scheduler.poll_refusal(at(0.0)),
            None,
            "there may be one yet"
        );
        scheduler.on_secret_failed(KEY, "no".into(), true, at(1.0));
        let fault = NO_SECRET;
        let refusal = Refusal::AllKeysFaulty { fault };
        assert_eq!(
            scheduler.poll_refusal(at(1.0)),
            Some((waits, refusal.clone()))
        );
        assert_eq!(scheduler.submit(Ask::new(), at(1.0)), Err(refusal));
        scheduler.on_secret(KEY, at(2.0));
        scheduler.submit(Ask::new(), at(2.0)).expect("it is here");
    }

    #[test]
    fn what_an_old_secret_was_refused_for_goes_once_more_with_the_new_one() {
        let mut scheduler = scheduler(&[KEY]);
        scheduler.on_secret(KEY, at(0.0));
        let tickets = [0.1, 0.2].map(|now| {
            let ticket = scheduler.submit(Ask::new(), at(now)).expect("room");
            assert!(scheduler.poll_grant(at(now)).is_some());
            scheduler.start(ticket, at(now));
            ticket
        });
        scheduler.await_secret(KEY);
        let verdict = scheduler.complete(tickets[0], &unauthorized(), at(1.0));
        assert!(matches!(verdict, Verdict::Again { .. }), "{verdict:?}");
        assert_eq!(scheduler.poll_grant(at(1.0)), None);
        scheduler.on_secret(KEY, at(2.0));
        // This one was sent with the old secret too, and says nothing of the new one.
        let verdict = scheduler.complete(tickets[1], &unauthorized(), at(2.5));
        assert!(matches!(verdict, Verdict::Again { .. }), "{verdict:?}");
        for ticket in tickets {
            assert!(scheduler.poll_grant(at(3.0)).is_some());
            scheduler.start(ticket, at(3.0));
        }
        for ticket in tickets {
            let verdict = scheduler.complete(ticket, &unauthorized(), at(4.0));
            let given_up = Verdict::Return {
                retry_at: None,
                why: Some(GaveUp::Final),
            };
            assert_eq!(verdict, given_up, "once is enough");
        }
    }
}
