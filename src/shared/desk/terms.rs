//! By which limits this process shares, and whether others do by the same.
//!
//! Limits that differ are no error for the store: each process is held to its own, and together they
//! keep neither. So each says by which it goes, and says so when it hears of others. What is said
//! ends soon, and whoever goes by it says it again: of limits that nobody uses any more nobody hears.

use std::time::Duration;

use crate::Time;
use crate::scheduler::events::What;

use super::super::sharing::{Shared, unit};
use super::super::store::{Fact, Known, Law, Owner};
use super::{Call, Desk};

/// What this process says of its limits, and what it has heard of others'.
#[derive(Debug)]
pub(super) struct Terms {
    own: String,
    due: Time,
    /// A little longer for each, so that one says it again for all who go by the same.
    every: Duration,
    /// Those that were told.
    others: Vec<String>,
}

impl Terms {
    pub(super) fn new(shared: &[Shared], owner: Owner) -> Self {
        let mut each: Vec<_> = shared.iter().map(term).collect();
        each.sort_unstable();
        Self {
            own: each.join("; "),
            due: Time::START,
            every: EVERY + STEP * owner.part(STEPS),
            others: Vec::new(),
        }
    }

    /// When to say it again.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// It was not heard.
    pub(super) fn on_silence(&mut self, now: Time) {
        self.due = now;
    }
}

impl Desk {
    pub(super) fn poll_terms(&mut self, now: Time) -> Option<Call> {
        let terms = &mut self.terms;
        if self.is_closing || now < terms.due {
            return None;
        }
        terms.due = now + terms.every;
        Some(Call::Terms(Fact {
            subject: format!("{SUBJECT}{}", terms.own),
            value: String::new(),
            age: Duration::ZERO,
            lasts: LASTS,
            extends: false,
        }))
    }

    /// Whether a fact is about limits; if so it is heard.
    pub(super) fn hear_terms(&mut self, fact: &Known, now: Time) -> bool {
        let Some(said) = fact.subject.strip_prefix(SUBJECT) else {
            return false;
        };
        let terms = &mut self.terms;
        if said == terms.own {
            terms.due = terms.due.max(now + terms.every.saturating_sub(fact.age));
        } else if terms.others.len() < MOST && !terms.others.iter().any(|other| other == said) {
            terms.others.push(said.to_owned());
            self.changes.push_back(What::LimitsDiffer {
                own: terms.own.as_str().into(),
                other: said.chars().take(LONGEST).collect(),
            });
        }
        true
    }
}

/// A limit in words. Whatever stands here makes processes count apart, or to another number.
fn term(shared: &Shared) -> String {
    let limit = &shared.limit;
    let whose = if limit.name.starts_with("all.") {
        "all keys"
    } else {
        "each key"
    };
    let (amount, window) = (limit.amount, humantime::format_duration(limit.window));
    let law = match limit.law {
        Law::Slots => return format!("{whose}: {amount} in flight, leased for {window}"),
        _ if shared.is_lent => "lent".to_owned(),
        Law::FixedWindow => "fixed window".to_owned(),
        Law::SlidingCounter => "sliding counter".to_owned(),
        Law::SlidingLog => "sliding log".to_owned(),
        Law::Bucket { burst } => format!("bucket of {burst}"),
    };
    let unit = shared.dimension.map_or("requests", unit);
    format!("{whose}: {amount} {unit} in {window}, {law}")
}

/// What no other subject begins with.
const SUBJECT: &str = "limits ";
/// How long it is heard after it was said: so long after the last has gone others may be told of it.
const LASTS: Duration = Duration::from_secs(30);
/// Between two sayings: a tenth of what signs of life cost, and one that is lost does no harm.
const EVERY: Duration = Duration::from_secs(10);
/// What is said reaches the others well within this.
const STEP: Duration = Duration::from_millis(250);
const STEPS: u64 = 16;
/// Sets of limits that are told of: with so many somebody has looked long ago.
const MOST: usize = 32;
/// Longer than any limits that were written by hand.
const LONGEST: usize = 1000;
