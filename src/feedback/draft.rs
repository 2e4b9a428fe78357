//! Draft: a reading in the making, and when two of them are one.
//!
//! Telling one quota twice does no harm, taking two for one does: drafts are put together only
//! where nothing that they tell differs, and something that they tell is the same.

use std::borrow::Cow;
use std::time::Duration;

use super::values::Delay;
use super::vendors::{Key, Own};
use super::{Clock, Dimension, Reset};

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
    pub(crate) named_window: u32,
    /// The parts that were told, as bits.
    pub(crate) seen: u16,
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
    pub(crate) fn is(&self, key: &Key<'_>) -> bool {
        if self.id != 0 && key.id != 0 {
            // Plain keys of a family differ in what they add, not in what they name.
            return self.id == key.id || key.plain && self.plain && self.named(key);
        }
        self.named(key)
    }

    /// Whether it is the draft of a key of the table, and a part of it was not told yet.
    #[inline]
    pub(crate) fn lacks(&self, key: &Key<'_>, part: u16) -> bool {
        self.id != 0 && self.id == key.id && self.seen & part == 0
    }

    /// Takes what one part's name says of the companions that name nothing.
    pub(crate) fn learn(&mut self, key: &Key<'a>) {
        if key.plain && key.window > 0 {
            self.window = Some(Duration::from_secs(u64::from(key.window)));
        }
        if key.plain && !key.scope.is_empty() {
            self.scope = Cow::Borrowed(key.scope);
        }
    }

    fn named(&self, key: &Key<'_>) -> bool {
        self.dimension == key.dimension
            && self.plain == key.plain
            // What has no name of its own is one thing per family.
            && (key.plain || (self.named_window == key.window && same(&self.scope, key.scope)))
            && same(self.family, key.family)
    }

    pub(crate) fn same_name(&self, other: &Self) -> bool {
        self.from == other.from
            && self.dimension == other.dimension
            && self.plain == other.plain
            && self.named_window == other.named_window
            && self.scope == other.scope
            && self.family == other.family
    }

    pub(crate) fn tells(&self) -> bool {
        self.counts() || self.reset.is_some()
    }

    /// Whether it tells a count.
    pub(crate) fn counts(&self) -> bool {
        self.limit.is_some() || self.remaining.is_some() || self.used.is_some()
    }

    /// Whether nothing that both tell differs.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
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
    pub(crate) fn disjoint(&self, other: &Self) -> bool {
        !(self.limit.is_some() && other.limit.is_some()
            || self.remaining.is_some() && other.remaining.is_some()
            || self.used.is_some() && other.used.is_some()
            || self.reset.is_some() && other.reset.is_some())
    }

    /// Whether two drafts that agree speak of one quota.
    pub(crate) fn twin(&self, other: &Self) -> bool {
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
            let named = self.window.is_some() || self.dimension == Dimension::Concurrent;
            return named && self.window == other.window;
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

    pub(crate) fn absorb(&mut self, other: &Self) {
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

impl Draft<'_> {
    /// A negative limit is no limit, and its whole reading says nothing. A negative rest of a
    /// known limit is none at all; of an unknown one it is unknown.
    pub(crate) fn repair(&mut self) {
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
    pub(crate) fn empty(&self) -> bool {
        self.limit == Some(0.0) && self.remaining.unwrap_or(0.0) == 0.0
    }

    /// Adds what the vendor is known to mean.
    pub(crate) fn know(&mut self, own: &Own) {
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
    pub(crate) fn derive(&mut self) {
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
    #[inline]
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

/// The parts of a draft that were told, as bits.
pub(crate) const LIMIT: u16 = 1;
pub(crate) const REMAINING: u16 = 2;
pub(crate) const USED: u16 = 4;
pub(crate) const WINDOW: u16 = 8;
pub(crate) const RESET_DATE: u16 = 16;
pub(crate) const RESET: u16 = 32;
pub(crate) const RESET_AFTER: u16 = 64;
/// What is left was told as less than nothing, so the sum with what was used is no limit.
pub(crate) const OVERDRAWN: u16 = 128;
/// The refusal names it as the one that was hit.
pub(crate) const VIOLATED: u16 = 256;
pub(crate) const RESETS: u16 = RESET_DATE | RESET | RESET_AFTER;

/// Clocks and rounding: a window of a minute may end in 61 seconds.
const GRACE: Duration = Duration::from_secs(2);

/// Windows beyond ten years are no windows.
const LONGEST_WINDOW: f64 = 10.0 * 31_557_600.0;
