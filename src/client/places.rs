//! Places of one provider that are refused while everything else is served.
//!
//! A path that always answers 429, for a feature that the plan does not have, would pull down the
//! rate of its whole key. Nobody names a bucket for such a path before it is met, so a place, which
//! is a method and a path without what tells one resource from another, is given one when it proves
//! to be the reason itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::Method;

use crate::Time;
use crate::feedback::{Cause, Class, Feedback};
use crate::scheduler::events::{Fingerprint, Name};
use crate::scheduler::suspect::Suspect;

/// The places of one limiter.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// How many there are of each kind: nearly always none, and then nobody locks.
    apart: AtomicUsize,
    suspects: AtomicUsize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    apart: Vec<Name>,
    /// The latest suspects, oldest first.
    suspects: Vec<(Box<str>, Suspect<Fingerprint>)>,
}

/// An answer, and where it came from.
pub(super) struct Answered<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) key: Fingerprint,
    pub(super) sent: Time,
    /// Nobody had named a bucket for it.
    pub(super) is_unnamed: bool,
}

impl Places {
    /// The bucket of a place that has one of its own.
    pub(super) fn bucket(&self, method: &Method, path: &str) -> Option<Name> {
        if self.apart.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let known = self.lock();
        let place = place(method, path);
        known
            .apart
            .iter()
            .find(|name| name.as_str() == place)
            .cloned()
    }

    /// An answer came. The bucket of its place if that is what is refused, and whether this was not
    /// known before.
    pub(super) fn on_answer(
        &self,
        answered: &Answered<'_>,
        said: &Feedback,
        now: impl FnOnce() -> Time,
    ) -> Option<(Name, bool)> {
        let is_refused = answered.is_unnamed && is_bare_refusal(said);
        if !is_refused && (said.class != Class::Ok || self.suspects.load(Ordering::Relaxed) == 0) {
            return None;
        }
        let place = place(answered.method, answered.path);
        let mut known = self.lock();
        let parted = if is_refused {
            known.on_refused(&place, answered, now())
        } else {
            known.on_served(&place, answered);
            None
        };
        self.apart.store(known.apart.len(), Ordering::Relaxed);
        self.suspects.store(known.suspects.len(), Ordering::Relaxed);
        parted
    }

    /// Some of these buckets may be of places that were known to an earlier limiter.
    pub(super) fn recall<'a>(&self, apart: impl Iterator<Item = &'a Name>) {
        let mut known = self.lock();
        // What is no place is the name that a caller gave, and is never looked for here.
        let places = apart.filter(|name| name.as_str().contains(" /"));
        known.apart.extend(places.take(MOST_APART).cloned());
        self.apart.store(known.apart.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn on_served(&mut self, place: &str, answered: &Answered<'_>) {
        self.suspects.retain(|(name, _)| **name != *place);
        for (_, suspect) in &mut self.suspects {
            suspect.on_other_served(answered.key, answered.sent);
        }
    }

    fn on_refused(
        &mut self,
        place: &str,
        answered: &Answered<'_>,
        now: Time,
    ) -> Option<(Name, bool)> {
        let &Answered { key, sent, .. } = answered;
        if let Some(name) = self.apart.iter().find(|name| name.as_str() == place) {
            // It was asked for before that was known.
            return Some((name.clone(), false));
        }
        let found = self.suspects.iter().position(|(name, _)| **name == *place);
        let Some(found) = found else {
            if self.suspects.len() >= MOST_SUSPECTS {
                self.suspects.remove(0);
            }
            self.suspects.push((place.into(), Suspect::new(key, now)));
            return None;
        };
        if !self.suspects[found].1.on_refused(key, sent, now) {
            return None;
        }
        self.suspects.remove(found);
        if self.apart.len() >= MOST_APART {
            self.apart.remove(0);
        }
        let name = Name::from(place.to_owned());
        self.apart.push(name.clone());
        Some((name, true))
    }
}

/// Whether an answer is a refusal for which it gives no reason but the rate.
fn is_bare_refusal(said: &Feedback) -> bool {
    said.class == Class::RateLimited
        && said.bucket.is_none()
        && said.cause != Some(Cause::Concurrency)
        && !said.is_account_wide()
        && said
            .readings
            .iter()
            .all(|reading| reading.remaining.is_none_or(|left| left >= 1.0))
}

/// A method and a path in which each part with a digit, other than a version, stands for any.
fn place(method: &Method, path: &str) -> String {
    let mut place = String::with_capacity(method.as_str().len() + 1 + path.len().min(LONGEST));
    place.push_str(method.as_str());
    place.push(' ');
    let path = path.trim_start_matches('/');
    for part in path.split('/') {
        if place.len() + part.len() > LONGEST {
            place.push_str("/*");
            break;
        }
        place.push('/');
        place.push_str(if is_resource(part) { "*" } else { part });
    }
    place
}

/// Whether a part of a path tells one resource from another.
fn is_resource(part: &str) -> bool {
    let is_version = part
        .strip_prefix('v')
        .is_some_and(|rest| rest.len() <= 2 && rest.bytes().all(|byte| byte.is_ascii_digit()));
    !is_version && part.bytes().any(|byte| byte.is_ascii_digit())
}

/// Suspects at a time: under a limit of the whole key every place is one for a moment.
const MOST_SUSPECTS: usize = 32;
/// Places with a bucket of their own: an API has few features that a plan lacks.
const MOST_APART: usize = 32;
/// Of the name of a place, in bytes.
const LONGEST: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_path_without_what_tells_resources_apart() {
        let of = |path| place(&Method::GET, path);
        assert_eq!(of("/v1/users/17/posts"), "GET /v1/users/*/posts");
        assert_eq!(of("/users/018f-aa/x"), "GET /users/*/x");
        assert_eq!(of("/"), "GET /");
        assert!(of(&"/abcdefgh".repeat(100)).len() <= LONGEST + 2);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let places = Places::default();
        let said = Feedback {
            class: Class::RateLimited,
            ..Feedback::default()
        };
        for n in 0..10_000 {
            let path = format!("/{}", "x".repeat(n % 150));
            let answered = Answered {
                method: &Method::GET,
                path: &path,
                key: Fingerprint::ANONYMOUS,
                sent: Time::from_nanos(n as u64),
                is_unnamed: true,
            };
            let parted = places.on_answer(&answered, &said, || Time::from_nanos(n as u64));
            assert_eq!(parted, None);
        }
        assert!(places.lock().suspects.len() <= MOST_SUSPECTS);
    }
}
