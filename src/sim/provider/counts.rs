//! What a provider counts about those who call it.

use std::collections::HashSet;

use crate::Time;

/// The counts of a provider, for each key and in all.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    keys: Vec<KeyCounts>,
    total: Totals,
    ids: HashSet<u64>,
}

/// What happened on one key.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct KeyCounts {
    /// Answered with success.
    pub served: u64,
    /// Answered 429, by the limit that refused: those of the key in their order, then those of the
    /// account, then the penalty.
    pub refused_by: Vec<u64>,
    /// Answered with an error of the provider's own.
    pub errors: u64,
    /// Answered 401.
    pub unauthorized: u64,
    /// Answered during a ban.
    pub banned: u64,
    /// Never answered.
    pub unanswered: u64,
    /// The most that were in flight at once.
    pub max_in_flight: u32,
}

/// What happened on all keys together.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// Answered with success.
    pub served: u64,
    /// Answered with success although the same request had been before.
    pub twice: u64,
    /// Answered 429.
    pub refused: u64,
    /// Answered with an error of the provider's own.
    pub errors: u64,
    /// Answered 401.
    pub unauthorized: u64,
    /// Answered during a ban.
    pub banned: u64,
    /// Never answered.
    pub unanswered: u64,
    /// The most that were in flight at once.
    pub max_in_flight: u32,
    /// When the first request came.
    #[serde(skip)]
    pub first: Option<Time>,
    /// When the last success was ready.
    #[serde(skip)]
    pub last: Option<Time>,
}

impl Counted {
    /// For each key.
    #[must_use]
    pub fn keys(&self) -> &[KeyCounts] {
        &self.keys
    }

    /// For all keys.
    #[must_use]
    pub fn total(&self) -> &Totals {
        &self.total
    }

    pub(super) fn new(keys: usize) -> Self {
        Self {
            keys: vec![KeyCounts::default(); keys],
            ..Self::default()
        }
    }

    pub(super) fn arrived(&mut self, now: Time) {
        self.total.first.get_or_insert(now);
    }

    pub(super) fn admitted(&mut self, key: usize, on_key: u32, in_all: u32) {
        self.total.max_in_flight = self.total.max_in_flight.max(in_all);
        self.on(key, |key| key.max_in_flight = key.max_in_flight.max(on_key));
    }

    pub(super) fn served(&mut self, key: usize, id: u64, now: Time) {
        self.total.served += 1;
        self.total.twice += u64::from(!self.ids.insert(id));
        self.total.last = Some(now);
        self.on(key, |key| key.served += 1);
    }

    pub(super) fn refused(&mut self, key: usize, limit: usize) {
        self.total.refused += 1;
        self.on(key, |key| {
            if key.refused_by.len() <= limit {
                key.refused_by.resize(limit + 1, 0);
            }
            key.refused_by[limit] += 1;
        });
    }

    /// Refused, and by none of the limits.
    pub(super) fn turned_away(&mut self) {
        self.total.refused += 1;
    }

    pub(super) fn failed(&mut self, key: usize) {
        self.total.errors += 1;
        self.on(key, |key| key.errors += 1);
    }

    pub(super) fn unauthorized(&mut self, key: usize) {
        self.total.unauthorized += 1;
        self.on(key, |key| key.unauthorized += 1);
    }

    pub(super) fn banned(&mut self, key: usize) {
        self.total.banned += 1;
        self.on(key, |key| key.banned += 1);
    }

    pub(super) fn unanswered(&mut self, key: usize) {
        self.total.unanswered += 1;
        self.on(key, |key| key.unanswered += 1);
    }

    /// Requests with an unknown key count in the total alone.
    fn on(&mut self, key: usize, count: impl FnOnce(&mut KeyCounts)) {
        if let Some(key) = self.keys.get_mut(key) {
            count(key);
        }
    }
}
