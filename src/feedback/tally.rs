//! Tally: gathers the parts that headers and bodies tell into readings.
//!
//! The same quota is often told twice (by two families of headers, by header and body) and two
//! quotas are sometimes told under one name (by a gateway and by the server behind it). Parts are
//! kept apart by name and order first, and put together only where they agree: telling one quota
//! twice does no harm, taking two for one does.

mod merge;

use std::time::Duration;

use smallvec::SmallVec;

use super::draft::{
    Draft, LIMIT, REMAINING, RESET, RESET_AFTER, RESET_DATE, RESETS, Source, USED, VIOLATED,
    WINDOW, seconds,
};
use super::durations::{self, duration};
use super::scope::owned;
use super::values::{Unit, Written, count, grouped};
use super::vendors::{Key, Part};
use super::{Clock, Dimension, Reading, Reset};

/// What was told so far.
#[derive(Debug)]
pub(crate) struct Tally<'a> {
    /// Nanoseconds since 1970: the server's `Date`, else the moment of receipt.
    pub(crate) now: i64,
    pub(crate) drafts: SmallVec<[Draft<'a>; 5]>,
    /// Structured values and lists, by family.
    pub(crate) lists: SmallVec<[(Key<'a>, Part, &'a [u8]); 4]>,
    /// What names the readings of a family, and whether it is a bucket's name.
    labels: SmallVec<[(&'a str, Part, &'a str); 2]>,
    /// Where the last part went.
    latest: usize,
    /// Some name was told more than once.
    repeats: bool,
    /// How many drafts came from values that hold many.
    listed: usize,
}

impl<'a> Tally<'a> {
    #[inline]
    pub(crate) fn new(now: i64) -> Self {
        Self {
            now,
            drafts: SmallVec::new(),
            lists: SmallVec::new(),
            labels: SmallVec::new(),
            latest: 0,
            repeats: false,
            listed: 0,
        }
    }

    /// Takes the value of a part; what cannot be read is passed over.
    // Counts and resets are nearly all that is told, and a call costs as much as reading one.
    #[inline(always)]
    pub(crate) fn part(&mut self, key: &Key<'a>, part: Part, value: &'a [u8], from: Source) {
        match part {
            Part::Limit | Part::Remaining | Part::Used => match count(value) {
                Some(number) => self.number(key, part, number, from),
                None if key.plain => self.list(key, part, value),
                None => {}
            },
            Part::Reset(unit) | Part::ResetAfter(unit) => self.reset(key, part, unit, value, from),
            part => self.other(key, part, value, from),
        }
    }

    /// Takes a part that few responses tell.
    fn other(&mut self, key: &Key<'a>, part: Part, value: &'a [u8], from: Source) {
        match part {
            Part::Bucket | Part::Scope | Part::Reason => {
                // A name inside a name is that of another reading.
                if key.plain
                    && let Ok(text) = std::str::from_utf8(value.trim_ascii())
                    && !text.is_empty()
                    && self.labels.len() < MOST
                {
                    self.labels.push((key.family, part, text));
                }
            }
            Part::Policy | Part::Item => self.list(key, part, value),
            Part::GroupedRemaining => {
                if let Some(number) = grouped(value) {
                    self.number(key, Part::Remaining, number, from);
                }
            }
            Part::UsedPercent | Part::UsedShare => {
                let percent = if part == Part::UsedShare { 100.0 } else { 1.0 };
                if let Some(number) = count(value) {
                    self.percent(key, number * percent, from);
                }
            }
            Part::ResetDate => self.reset(key, part, Unit::Seconds, value, from),
            // These were taken where they were told.
            Part::Limit | Part::Remaining | Part::Used | Part::Reset(_) | Part::ResetAfter(_) => {}
            Part::Window(unit) => {
                let window = match (count(value), unit) {
                    (Some(number), Unit::Seconds) => seconds(number),
                    (Some(number), Unit::Millis) => seconds(number / 1000.0),
                    (Some(number), Unit::Minutes) => seconds(number * 60.0),
                    (None, _) => duration(value)
                        .map(|span| span.length)
                        .or_else(|| durations::unit(value.trim_ascii()).map(Duration::from_nanos)),
                };
                if let Some(window) = window {
                    let draft = self.draft(key, WINDOW, from);
                    if let Some(draft) = draft {
                        draft.window = Some(window);
                    }
                }
            }
        }
    }

    /// Takes a count.
    #[inline(always)]
    pub(crate) fn number(&mut self, key: &Key<'a>, part: Part, number: f64, from: Source) {
        let bit = match part {
            Part::Limit => LIMIT,
            Part::Remaining => REMAINING,
            _ => USED,
        };
        let Some(draft) = self.draft(key, bit, from) else {
            return;
        };
        match part {
            Part::Limit => draft.limit = Some(number),
            Part::Remaining => draft.remaining = Some(number),
            _ => draft.used = Some(number),
        }
    }

    /// Takes how much is used, in percent.
    pub(crate) fn percent(&mut self, key: &Key<'a>, used: f64, from: Source) {
        // A share times 100 carries the error of a float: 0.07 is 7.000000000000001 %.
        let used = (used * 1e6).round() / 1e6;
        self.number(key, Part::Limit, 100.0, from);
        self.number(key, Part::Used, used, from);
    }

    fn reset(&mut self, key: &Key<'a>, part: Part, unit: Unit, value: &'a [u8], from: Source) {
        let Some(written) = Written::read(value, self.now) else {
            if key.plain && value.contains(&b',') {
                self.list(key, part, value);
            }
            return;
        };
        let now = self.now;
        let Some(delay) = written.reset(unit, now) else {
            return;
        };
        let bit = match part {
            Part::ResetAfter(_) => RESET_AFTER,
            Part::ResetDate => RESET_DATE,
            _ => RESET,
        };
        if let Some(draft) = self.draft(key, bit, from) {
            // A delay by name beats all; a number beats the date beside it.
            if draft.reset.is_none() || bit >= draft.seen & RESETS & !bit {
                draft.reset = Some(delay.into());
            }
        }
    }

    /// Takes what the reason of a refusal names: a reading that is spent, or the window of the
    /// family's reading.
    pub(crate) fn reason(&mut self, key: &Key<'a>, spent: bool) {
        if spent {
            let mut draft = Draft::new(key, Source::Words);
            draft.remaining = Some(0.0);
            self.push(draft);
        } else {
            self.draft(key, WINDOW, Source::Header);
        }
    }

    /// Gives a reading without a reset the one that a hint implies.
    pub(crate) fn reset_at(&mut self, key: &Key<'_>, after: Duration, grain: Duration) {
        let named = |draft: &&mut Draft<'_>| {
            draft.dimension == key.dimension
                && draft.named_window == key.window
                && draft.scope == key.scope
                && draft.reset.is_none()
        };
        if let Some(draft) = self.drafts.iter_mut().find(named) {
            draft.reset = Some(Reset {
                after,
                grain,
                clock: Clock::Delta,
            });
        }
    }

    /// Marks the reading of a policy that a refusal names.
    pub(crate) fn violated(&mut self, policy: &str) {
        for draft in self.drafts.iter_mut().filter(|draft| draft.scope == policy) {
            draft.seen |= VIOLATED;
        }
    }

    /// Gives every spent reading without a reset the one that a hint implies.
    pub(crate) fn reset_spent(&mut self, after: Duration, grain: Duration) {
        // What is in flight ends when it ends, whatever a clock says.
        let comes_back = |draft: &&mut Draft<'_>| {
            draft.spent() && draft.reset.is_none() && draft.dimension != Dimension::Concurrent
        };
        for draft in self.drafts.iter_mut().filter(comes_back) {
            draft.reset = Some(Reset {
                after,
                grain,
                clock: Clock::Delta,
            });
        }
    }

    /// What was added since there were `before` drafts comes from a value that can hold any number:
    /// it must not take the room of the others.
    pub(crate) fn listed(&mut self, before: usize) {
        let room = MOST_LISTED.saturating_sub(self.listed);
        self.drafts.truncate(before + room);
        self.listed += self.drafts.len() - before;
    }

    fn list(&mut self, key: &Key<'a>, part: Part, value: &'a [u8]) {
        if self.lists.len() < MOST {
            self.lists.push((*key, part, value));
        }
    }

    /// The draft that still lacks a part: the first told under this name, or the next one.
    #[inline]
    fn draft(&mut self, key: &Key<'a>, bit: u16, from: Source) -> Option<&mut Draft<'a>> {
        // The parts of one quota mostly follow one another.
        let again = self
            .drafts
            .get(self.latest)
            .is_some_and(|draft| !self.repeats && draft.lacks(key, bit));
        if !again {
            self.latest = self.place(key, bit, from)?;
        }
        let draft = self.drafts.get_mut(self.latest)?;
        draft.seen |= bit;
        Some(draft)
    }

    /// The place of the first draft of a name that lacks a part, or of a new one.
    #[inline(never)]
    fn place(&mut self, key: &Key<'a>, bit: u16, from: Source) -> Option<usize> {
        let mut known = false;
        for (at, draft) in self.drafts.iter_mut().enumerate() {
            if draft.is(key) {
                if draft.seen & bit == 0 {
                    draft.learn(key);
                    return Some(at);
                }
                known = true;
            }
        }
        self.repeats |= known;
        self.push(Draft::new(key, from))
    }

    /// Adds a draft, and tells its place, unless there are too many already.
    #[inline(always)]
    pub(crate) fn push(&mut self, draft: Draft<'a>) -> Option<usize> {
        (self.drafts.len() < MOST).then(|| {
            self.drafts.push(draft);
            self.drafts.len() - 1
        })
    }

    /// The value of the label that a family's headers carry.
    pub(crate) fn label(&self, part: Part) -> Option<&'a str> {
        self.labels
            .iter()
            .find(|label| label.1 == part)
            .map(|label| label.2)
    }

    /// Adds the readings, ready to leave.
    pub(crate) fn tell(&self, readings: &mut SmallVec<[Reading; 4]>) {
        readings.reserve(self.drafts.len());
        for draft in &self.drafts {
            readings.push(Reading {
                dimension: draft.dimension,
                limit: draft.limit,
                remaining: draft.remaining,
                used: draft.used,
                reset: draft.reset,
                // However it was told: a window of centuries is none.
                window: draft
                    .window
                    .and_then(|window| seconds(window.as_secs_f64())),
                scope: if draft.scope.is_empty() {
                    None
                } else {
                    owned(&draft.scope)
                },
            });
        }
    }
}

/// More readings than any vendor tells at once; the rest of a hostile response is passed over.
const MOST: usize = 32;

/// More than any one value holds that was seen: Sentry's categories are some ten.
const MOST_LISTED: usize = 16;
