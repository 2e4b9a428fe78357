//! A key that the server itself refuses: suspected at first, retired by a second, independent
//! refusal, and then probed rarely, not forgotten.

use std::time::Duration;

use crate::feedback::Fault;

use super::super::events::{Fingerprint, KeyId, What};
use super::super::secrets::{NO_SECRET, Secret};
use super::super::time::Time;
use super::KeyPool;

/// A key that the server refused.
#[derive(Debug)]
pub(super) struct Faulty {
    pub(super) fault: Fault,
    pub(super) since: Time,
    pub(super) retired: bool,
    pub(super) probe_at: Time,
    pub(super) probes: u32,
}

impl KeyPool {
    /// Why none of the keys in use will serve anybody, if that is so. A retired key whose probe is
    /// due still counts as one that will.
    pub(crate) fn all_faulty(&self, now: Time) -> Option<Fault> {
        let mut fault = None;
        for id in self.ids() {
            let key = self.key(id);
            match &key.faulty {
                _ if key.secret == Secret::Missing => {
                    fault = fault.or(Some(NO_SECRET));
                }
                Some(faulty) if faulty.retired && faulty.probe_at > now => {
                    fault = fault.or(Some(faulty.fault));
                }
                _ => return None,
            }
        }
        fault
    }

    /// Why the server refuses a key, whether that was confirmed, and when it is probed next.
    pub(crate) fn fault(&self, id: KeyId) -> Option<(Fault, bool, Time)> {
        let faulty = self.key(id).faulty.as_ref()?;
        Some((faulty.fault, faulty.retired, faulty.probe_at))
    }

    /// The server refused the key itself in answer to a request that was sent at `sent`.
    pub(crate) fn on_fault(
        &mut self,
        id: KeyId,
        fault: Fault,
        sent: Time,
        now: Time,
    ) -> Option<What> {
        let key = &mut self.keys[id.index()];
        if key.fingerprint == Fingerprint::ANONYMOUS {
            // The credential is the application's own, and another one may come with each request.
            return None;
        }
        if key.secret.is_newer_than(sent) {
            // That was about a secret which is not used any more.
            return None;
        }
        match &mut key.faulty {
            None => {
                key.faulty = Some(Faulty {
                    fault,
                    since: now,
                    retired: fault == Fault::Revoked,
                    probe_at: now + SUSPICION,
                    probes: 0,
                });
                Some(if fault == Fault::Revoked {
                    What::Retired(fault)
                } else {
                    What::Suspected(fault)
                })
            }
            Some(faulty) if !faulty.retired && sent > faulty.since => {
                faulty.retired = true;
                faulty.since = now;
                faulty.fault = fault;
                faulty.probe_at = faulty.probe_at.max(now + FIRST_PROBE);
                Some(What::Retired(fault))
            }
            Some(_) => None,
        }
    }

    /// Somebody else found at `observed` that the server refuses the key.
    pub(crate) fn hear_fault(
        &mut self,
        id: KeyId,
        fault: Fault,
        observed: Time,
        now: Time,
    ) -> Option<What> {
        let key = &mut self.keys[id.index()];
        if key.faulty.as_ref().is_some_and(|faulty| faulty.retired) {
            return None;
        }
        key.faulty = Some(Faulty {
            fault,
            since: observed,
            retired: true,
            probe_at: now + FIRST_PROBE,
            probes: 0,
        });
        Some(What::Retired(fault))
    }

    /// Somebody else found at `observed` that the server accepts the key.
    pub(crate) fn hear_restored(&mut self, id: KeyId, observed: Time) -> Option<What> {
        let faulty = &mut self.keys[id.index()].faulty;
        let is_older = |faulty: &Faulty| faulty.since <= observed;
        let found = faulty.take_if(|faulty| is_older(faulty))?;
        found.retired.then_some(What::Restored)
    }
}

/// A suspected key rests this long before a second request decides (the prototype's half second):
/// long enough for what was in flight with it to end.
pub(super) const SUSPICION: Duration = Duration::from_millis(500);
/// A retired key is probed after this, then after twice that, …: a sole key must not be benched
/// for an hour for a hiccup of the provider's.
pub(super) const FIRST_PROBE: Duration = Duration::from_secs(5);
/// The longest pause between probes.
pub(super) const LAST_PROBE: Duration = Duration::from_secs(300);
