//! Whether a 403 is the key's or the request's own: what one key may not do, another one may.
//!
//! A server that means the key seldom says so. So a request that is forbidden goes once more on
//! another key. A key that has served nothing, and whose requests others have done, is left out;
//! and where other keys never do better, requests are not sent twice for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::scheduler::events::Fingerprint;

use super::door::Mark;
use super::ending::Reply;
use super::hosts::Client;
use super::options::Replays;
use super::request::Request;
use super::send::{End, Sender};

/// What the keys of one provider are forbidden.
#[derive(Debug, Default)]
pub(crate) struct Forbidden(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    keys: BTreeMap<Fingerprint, Key>,
    /// Requests that no other key was allowed either, since one was.
    in_vain: u32,
}

#[derive(Debug, Default)]
struct Key {
    served: u64,
    /// Requests that it was forbidden and another key was not.
    outdone: u64,
    left_out: bool,
}

impl Forbidden {
    /// These keys are there.
    pub(crate) fn new(keys: impl Iterator<Item = Fingerprint>) -> Self {
        let keys = keys.map(|key| (key, Key::default())).collect();
        Self(Mutex::new(State { keys, in_vain: 0 }))
    }

    /// A key has served a request.
    pub(crate) fn on_served(&self, key: Fingerprint) {
        if let Some(key) = self.state().keys.get_mut(&key) {
            key.served += 1;
        }
    }

    /// On which other key a request goes that this one was forbidden; none if that is its end.
    pub(crate) fn instead_of(&self, key: Fingerprint) -> Option<Fingerprint> {
        let state = self.state();
        let own = state.keys.get(&key)?;
        if own.served > 0 && own.outdone == 0 && state.in_vain >= ENOUGH_IN_VAIN {
            return None;
        }
        let others = state.keys.iter().filter(|(other, _)| **other != key);
        let usable = others.filter(|(_, other)| !other.left_out);
        usable
            .max_by_key(|(_, other)| (other.outdone == 0, other.served))
            .map(|(other, _)| *other)
    }

    /// What became on another key of a request that this one was forbidden. Answers whether the
    /// key is to be left out from now on.
    pub(crate) fn on_end(&self, key: Fingerprint, was_served: bool) -> bool {
        let mut state = self.state();
        if !was_served {
            state.in_vain += 1;
            return false;
        }
        state.in_vain = 0;
        let Some(key) = state.keys.get_mut(&key) else {
            return false;
        };
        key.outdone += 1;
        let leave = key.served == 0 && key.outdone >= ENOUGH && !key.left_out;
        key.left_out |= leave;
        leave
    }

    /// Whether a key is used.
    pub(crate) fn uses(&self, key: Fingerprint) -> bool {
        self.state().keys.get(&key).is_none_or(|key| !key.left_out)
    }

    /// Keys that were forbidden what others were not, how often, and whether they were left out.
    pub(crate) fn outdone(&self) -> Vec<(Fingerprint, u64, bool)> {
        let state = self.state();
        let outdone = state.keys.iter().filter(|(_, key)| key.outdone > 0);
        outdone
            .map(|(name, key)| (*name, key.outdone, key.left_out))
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender {
    /// Does a request, on another key too if the first one is forbidden it.
    pub(super) async fn on_whichever_key(
        &self,
        client: &Client,
        request: &Request,
        mark: &Arc<Mark>,
    ) -> End {
        let forbidden = &client.forbidden;
        let (reply, report) = self.attempts(client, request, None, mark).await;
        let (Some(first), Some(key)) = (&reply, report.as_ref().map(|report| report.key)) else {
            return (reply, report);
        };
        if first.is_served() {
            forbidden.on_served(key);
        }
        let may = first.is_forbidden()
            && self.replay != Replays::Never
            && !mark.is_used_up()
            && !self.door.is_shut();
        let other = may.then(|| forbidden.instead_of(key)).flatten();
        let Some(other) = other else {
            return (reply, report);
        };
        let second = self.attempts(client, request, Some(other), mark).await;
        match &second.0 {
            Some(answer) if answer.is_served() => {
                forbidden.on_served(other);
                if forbidden.on_end(key, true) {
                    client.leave_out();
                }
                second
            }
            Some(answer) if answer.is_forbidden() => {
                forbidden.on_end(key, false);
                second
            }
            Some(answer) if answer.is_answer() => second,
            // Whether the other key is allowed to do it is for the next run to see.
            _ => (reply.map(Reply::not_final), report),
        }
    }
}

/// As with keys that say themselves that they are refused: the second, independent sign decides.
const ENOUGH: u64 = 2;

/// So many requests are sent twice before it is taken that all keys are allowed the same.
const ENOUGH_IN_VAIN: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Fingerprint {
        Fingerprint::from_hash([n; 6])
    }

    fn three() -> Forbidden {
        let forbidden = Forbidden::new((1..=3).map(key));
        forbidden.on_served(key(2));
        forbidden
    }

    #[test]
    fn a_key_that_serves_nothing_is_left_out_at_the_second_request_that_another_does() {
        let keys = three();
        assert_eq!(keys.instead_of(key(1)), Some(key(2)), "it has served");
        assert!(!keys.on_end(key(1), true));
        assert!(keys.on_end(key(1), true));
        assert!(!keys.on_end(key(1), true), "it is told once");
        assert!(!keys.uses(key(1)) && keys.uses(key(2)));
        assert_eq!(keys.outdone(), [(key(1), 3, true)]);
        assert_ne!(keys.instead_of(key(3)), Some(key(1)));
    }

    #[test]
    fn a_key_that_serves_stays_whatever_it_is_forbidden() {
        let keys = three();
        for _ in 0..5 {
            assert!(!keys.on_end(key(2), true));
        }
        assert_eq!(keys.outdone(), [(key(2), 5, false)]);
    }

    #[test]
    fn what_no_key_may_do_is_not_sent_twice_for_ever() {
        let keys = three();
        for _ in 0..ENOUGH_IN_VAIN {
            assert!(keys.instead_of(key(2)).is_some());
            assert!(!keys.on_end(key(2), false));
        }
        assert_eq!(keys.instead_of(key(2)), None);
        assert!(keys.instead_of(key(1)).is_some(), "it has served nothing");
        keys.on_end(key(1), true);
        assert!(keys.instead_of(key(2)).is_some());
    }

    #[test]
    fn one_key_has_no_other() {
        assert_eq!(
            Forbidden::new([key(1)].into_iter()).instead_of(key(1)),
            None
        );
    }
}
