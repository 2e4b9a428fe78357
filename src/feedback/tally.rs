//! Tally: gathers the parts that headers and bodies tell into readings.
//!
//! The same quota is often told twice (by two families of headers, by header and body) and two
//! quotas are sometimes told under one name (by a gateway and by the server behind it). Parts are
//! kept apart by name and order first, and put together only where they agree: telling one quota
//! twice does no harm, taking two for one does.

use std::borrow::Cow;
use std::time::Duration;

use smallvec::SmallVec;

use super::scope::owned;
use super::values::{Delay, Unit, Written, count, grouped};
use super::vendors::{Key, Own, Part};
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
    /// Some name was told more than once.
    repeats: bool,
}

/// A reading in the making.
#[derive(Clone, Debug)]
pub(crate) struct Draft<'a> {
    pub(crate) family: &'a str,
    pub(crate) dimension: Dimension,
    pub(crate) plain: bool,
    pub(crate) from: Source,
    pub(crate) scope: Cow<'a, str>,
    pub(crate) limit: Option<f64>,
    pub(crate) remaining: Option<f64>,
    pub(crate) used: Option<f64>,
    pub(crate) reset: Option<Reset>,
    pub(crate) window: Option<Duration>,
    /// The window in its name, in seconds: with it the name differs.
    named_window: u32,
    /// The parts that were told, as bits.
    seen: u16,
    /// The number of its key.
    id: u16,
}

/// Where a draft comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Header,
    /// A structured field: complete in itself.
    Field,
    Body,
    /// A sentence, or the reason of a refusal.
    Words,
}

impl<'a> Draft<'a> {
    /// A draft of which nothing is known but its name.
    #[inline(always)]
    pub(crate) fn new(key: &Key<'a>, from: Source) -> Self {
        Self {
            family: key.family,
            dimension: key.dimension,
            plain: key.plain,
            from,
            scope: Cow::Borrowed(key.scope),
            limit: None,
            remaining: None,
            used: None,
            reset: None,
            window: (key.window > 0).then(|| Duration::from_secs(u64::from(key.window))),
            named_window: key.window,
            seen: 0,
            id: key.id,
        }
    }

    #[inline]
    fn is(&self, key: &Key<'_>) -> bool {
        if self.id != 0 && key.id != 0 {
            // Plain keys of a family differ in what they add, not in what they name.
            return self.id == key.id || key.plain && self.plain && self.named(key);
        }
        self.named(key)
    }

    fn named(&self, key: &Key<'_>) -> bool {
        self.dimension == key.dimension
            && self.plain == key.plain
            // What has no name of its own is one thing per family.
            && (key.plain || (self.named_window == key.window && same(&self.scope, key.scope)))
            && same(self.family, key.family)
    }

    fn same_name(&self, other: &Self) -> bool {
        self.from == other.from
            && self.dimension == other.dimension
            && self.plain == other.plain
            && self.named_window == other.named_window
            && self.scope == other.scope
            && self.family == other.family
    }

    fn tells(&self) -> bool {
        self.counts() || self.reset.is_some()
    }

    /// Whether it tells a count.
    pub(crate) fn counts(&self) -> bool {
        self.limit.is_some() || self.remaining.is_some() || self.used.is_some()
    }

    /// Whether nothing that both tell differs.
    fn agrees(&self, other: &Self) -> bool {
        fn alike<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
            one.is_none() || other.is_none() || one == other
        }
        self.dimension == other.dimension
            && self.scope == other.scope
            && alike(self.window, other.window)
            && alike(self.limit, other.limit)
            && alike(self.remaining, other.remaining)
            && alike(self.used, other.used)
            && alike(self.reset.map(|reset| reset.after), other.reset.map(|reset| reset.after))
            // A reset that lies beyond a window is another window's.
            && [(self, other), (other, self)].iter().all(|(one, other)| {
                one.window.zip(other.reset).is_none_or(|(window, reset)| reset.after <= window + GRACE)
            })
    }

    /// Whether no part is told by both.
    fn disjoint(&self, other: &Self) -> bool {
        !(self.limit.is_some() && other.limit.is_some()
            || self.remaining.is_some() && other.remaining.is_some()
            || self.used.is_some() && other.used.is_some()
            || self.reset.is_some() && other.reset.is_some())
    }

    /// Whether two drafts that agree speak of one quota.
    fn twin(&self, other: &Self) -> bool {
        if !self.agrees(other) {
            return false;
        }
        let counts = self.limit.is_some()
            && self.limit == other.limit
            && self.remaining.is_some()
            && self.remaining == other.remaining;
        if counts {
            return true;
        }
        if !self.disjoint(other) {
            // The reason of a refusal, beside the header that says the same.
            return self.from.max(other.from) == Source::Words
                && self.window == other.window
                && self.window.is_some();
        }
        if self.from.max(other.from) == Source::Words {
            return self.window.is_some() && self.window == other.window;
        }
        // `x-ratelimit` and `x-rate-limit` are two spellings of one; windows are never borrowed.
        self.from == Source::Header
            && other.from == Source::Header
            && self.tells()
            && other.tells()
            && self
                .family
                .bytes()
                .filter(|&byte| byte != b'-')
                .eq(other.family.bytes().filter(|&byte| byte != b'-'))
    }

    fn absorb(&mut self, other: &Self) {
        self.limit = self.limit.or(other.limit);
        self.remaining = self.remaining.or(other.remaining);
        self.used = self.used.or(other.used);
        self.reset = self.reset.or(other.reset);
        self.window = self.window.or(other.window);
    }

    /// Whether nothing is left, by its own word or by that of the refusal.
    pub(crate) fn spent(&self) -> bool {
        self.remaining == Some(0.0) || self.seen & VIOLATED != 0
    }
}

impl<'a> Tally<'a> {
    #[inline]
    pub(crate) fn new(now: i64) -> Self {
        Self {
            now,
            drafts: SmallVec::new(),
            lists: SmallVec::new(),
            labels: SmallVec::new(),
            repeats: false,
        }
    }

    /// Takes the value of a part; what cannot be read is passed over.
    pub(crate) fn part(&mut self, key: &Key<'a>, part: Part, value: &'a [u8], from: Source) {
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
            Part::Limit | Part::Remaining | Part::Used => match count(value) {
                Some(number) => self.number(key, part, number, from),
                None if key.plain => self.list(key, part, value),
                None => {}
            },
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
            Part::Reset(unit) | Part::ResetAfter(unit) => self.reset(key, part, unit, value, from),
            Part::ResetDate => self.reset(key, part, Unit::Seconds, value, from),
            Part::Window(unit) => {
                let window = match (count(value), unit) {
                    (Some(number), Unit::Seconds) => seconds(number),
                    (Some(number), Unit::Millis) => seconds(number / 1000.0),
                    (Some(number), Unit::Minutes) => seconds(number * 60.0),
                    (None, _) => super::values::duration(value).map(|span| span.length),
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
        for draft in self
            .drafts
            .iter_mut()
            .filter(|draft| draft.spent() && draft.reset.is_none())
        {
            draft.reset = Some(Reset {
                after,
                grain,
                clock: Clock::Delta,
            });
        }
    }

    fn list(&mut self, key: &Key<'a>, part: Part, value: &'a [u8]) {
        if self.lists.len() < MOST {
            self.lists.push((*key, part, value));
        }
    }

    /// The draft that still lacks a part: the first told under this name, or the next one.
    fn draft(&mut self, key: &Key<'a>, bit: u16, from: Source) -> Option<&mut Draft<'a>> {
        let mut known = false;
        let mut found = self.drafts.len();
        for (at, draft) in self.drafts.iter().enumerate() {
            if draft.is(key) {
                if draft.seen & bit == 0 {
                    found = at;
                    break;
                }
                known = true;
            }
        }
        let at = if found < self.drafts.len() {
            found
        } else {
            self.repeats |= known;
            self.push(Draft::new(key, from))?
        };
        let draft = &mut self.drafts[at];
        draft.seen |= bit;
        if key.plain && key.window > 0 {
            draft.window = Some(Duration::from_secs(u64::from(key.window)));
        }
        if key.plain && !key.scope.is_empty() {
            draft.scope = Cow::Borrowed(key.scope);
        }
        Some(draft)
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

    /// Puts together what belongs together. `success` tells whether the request was served.
    pub(crate) fn settle(&mut self, own: &Own, success: bool) {
        if self.repeats {
            self.collapse();
        }
        if !self.labels.is_empty() {
            self.name();
        }
        if own.shared_reset {
            self.share_reset();
        }
        self.drafts.retain(|draft| {
            draft.repair();
            draft.tells() && !(success && draft.empty())
        });
        for draft in &mut self.drafts {
            draft.know(own);
        }
        if self.drafts.len() > 1 {
            self.merge();
        }
        for draft in &mut self.drafts {
            draft.derive();
        }
        if own.zero_is_concurrency && !success {
            for draft in self
                .drafts
                .iter_mut()
                .filter(|draft| draft.limit == Some(0.0))
            {
                (draft.limit, draft.dimension) = (None, Dimension::Concurrent);
            }
        }
    }

    /// The same name several times: as many of each part are as many quotas, told in order; else
    /// it is one, and the least that is left of it counts.
    fn collapse(&mut self) {
        let mut at = 0;
        while at < self.drafts.len() {
            let (_, rest) = self.drafts.split_at(at);
            let same = |draft: &Draft<'_>| draft.same_name(&rest[0]);
            if rest
                .iter()
                .any(|draft| same(draft) && draft.seen != rest[0].seen)
            {
                let mut one = rest[0].clone();
                for other in rest[1..].iter().filter(|draft| same(draft)) {
                    one.remaining = match (one.remaining, other.remaining) {
                        (Some(this), Some(that)) => Some(this.min(that)),
                        (this, that) => this.or(that),
                    };
                    one.absorb(other);
                }
                let mut place = 0;
                self.drafts.retain(|draft| {
                    place += 1;
                    place <= at || !draft.same_name(&one)
                });
                self.drafts.insert(at, one);
            }
            at += 1;
        }
    }

    /// Gives drafts the names that their family's headers tell.
    fn name(&mut self) {
        for draft in &mut self.drafts {
            if !draft.scope.is_empty() || draft.from != Source::Header {
                continue;
            }
            let label = self
                .labels
                .iter()
                .filter(|(family, part, _)| match *part {
                    Part::Reason => draft.plain && draft.spent(),
                    _ if *family == "*" => true,
                    _ => draft.plain && *family == draft.family,
                })
                .min_by_key(|(_, part, _)| match part {
                    Part::Bucket => 0,
                    Part::Scope => 1,
                    _ => 2,
                });
            if let Some((_, _, label)) = label {
                draft.scope = Cow::Borrowed(label);
            }
        }
    }

    fn share_reset(&mut self) {
        let plain = self
            .drafts
            .iter()
            .find(|draft| draft.plain && draft.reset.is_some());
        let Some(reset) = plain.and_then(|draft| draft.reset) else {
            return;
        };
        let mut given = false;
        for draft in self.drafts.iter_mut().filter(|draft| draft.reset.is_none()) {
            draft.reset = Some(reset);
            given = true;
        }
        if given {
            self.drafts.retain(|draft| {
                !draft.plain
                    || draft.limit.is_some()
                    || draft.remaining.is_some()
                    || draft.used.is_some()
            });
        }
    }

    fn merge(&mut self) {
        self.drop_echoes();
        let mut at = 0;
        while at < self.drafts.len() {
            let (before, rest) = self.drafts.split_at_mut(at);
            let Some((this, _)) = rest.split_first() else {
                return;
            };
            let twin = before.iter_mut().find(|draft| draft.twin(this));
            let gone = match twin {
                Some(twin) => {
                    twin.absorb(this);
                    true
                }
                // A sentence that names a limit which a header told already adds nothing.
                None => {
                    this.from == Source::Words
                        && this.limit.is_some()
                        && before.iter().any(|draft| {
                            draft.dimension == this.dimension && draft.limit == this.limit
                        })
                }
            };
            if gone {
                self.drafts.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Drops a reset alone that a reading with counts has too.
    fn drop_echoes(&mut self) {
        if self.drafts.iter().all(Draft::counts) {
            return;
        }
        let counted: SmallVec<[_; 8]> = self
            .drafts
            .iter()
            .filter(|draft| draft.counts())
            .filter_map(|draft| Some((draft.dimension, draft.reset?.after)))
            .collect();
        self.drafts.retain(|draft| {
            let echo = draft.reset.map(|reset| (draft.dimension, reset.after));
            draft.counts() || echo.is_none_or(|echo| !counted.contains(&echo))
        });
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
                window: draft.window,
                scope: if draft.scope.is_empty() {
                    None
                } else {
                    owned(&draft.scope)
                },
            });
        }
    }
}

impl Draft<'_> {
    /// A negative limit is no limit, and its whole reading says nothing. A negative rest of a
    /// known limit is none at all; of an unknown one it is unknown.
    fn repair(&mut self) {
        let negative = |number: Option<f64>| number.is_some_and(|number| number < 0.0);
        if negative(self.limit) {
            (self.limit, self.remaining, self.used, self.reset) = (None, None, None, None);
        }
        if negative(self.used) {
            self.used = None;
        }
        if negative(self.remaining) {
            if self.limit.is_some() || self.used.is_some() {
                self.remaining = Some(0.0);
                self.seen |= OVERDRAWN;
            } else {
                (self.remaining, self.reset) = (None, None);
            }
        }
    }

    /// A limit of nothing with nothing left: on a success it means that there is no limit.
    fn empty(&self) -> bool {
        self.limit == Some(0.0) && self.remaining.unwrap_or(0.0) == 0.0
    }

    /// Adds what the vendor is known to mean.
    fn know(&mut self, own: &Own) {
        if self.plain && self.dimension == Dimension::Requests {
            let points = own.point_scopes.contains(&&*self.scope);
            self.dimension = match self.from {
                Source::Field => own.item_unit,
                _ if points => Dimension::Points,
                _ => own.unit,
            };
        }
        if self.window.is_none() && self.scope.is_empty() {
            let known = own
                .windows
                .iter()
                .find(|(dimension, _)| *dimension == self.dimension);
            self.window = known.map(|(_, window)| Duration::from_secs(u64::from(*window)));
        }
    }

    /// What the other counts imply.
    fn derive(&mut self) {
        match (self.limit, self.remaining, self.used) {
            (Some(limit), None, Some(used)) => self.remaining = Some((limit - used).max(0.0)),
            (None, Some(remaining), Some(used)) if self.seen & OVERDRAWN == 0 => {
                self.limit = Some(remaining + used);
            }
            _ => {}
        }
    }
}

impl From<Delay> for Reset {
    fn from(delay: Delay) -> Self {
        Self {
            after: delay.after,
            grain: delay.grain,
            clock: match delay.instant {
                Some(nanos) => Clock::Server(nanos as f64 / 1e9),
                None => Clock::Delta,
            },
        }
    }
}

/// Whether two names are equal. Most are the same literal, so no byte need be looked at.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && (std::ptr::eq(one, other) || one == other)
}

/// A window of so many seconds, if it is one.
pub(crate) fn seconds(number: f64) -> Option<Duration> {
    (number > 0.0 && number <= LONGEST_WINDOW).then(|| Duration::from_secs_f64(number))
}

const LIMIT: u16 = 1;
const REMAINING: u16 = 2;
const USED: u16 = 4;
const WINDOW: u16 = 8;
const RESET_DATE: u16 = 16;
const RESET: u16 = 32;
const RESET_AFTER: u16 = 64;
/// What is left was told as less than nothing, so the sum with what was used is no limit.
const OVERDRAWN: u16 = 128;
/// The refusal names it as the one that was hit.
const VIOLATED: u16 = 256;
const RESETS: u16 = RESET_DATE | RESET | RESET_AFTER;

/// More readings than any vendor tells at once; the rest of a hostile response is passed over.
const MOST: usize = 32;

/// Clocks and rounding: a window of a minute may end in 61 seconds.
const GRACE: Duration = Duration::from_secs(2);

/// Windows beyond ten years are no windows.
const LONGEST_WINDOW: f64 = 10.0 * 31_557_600.0;
