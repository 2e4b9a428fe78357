//! Which law a quota follows, told from how its readings move.

use crate::scheduler::time::Time;

use super::super::edge::Edge;
use super::super::reading::{Seen, Span};
use super::super::refill::Refill;
use super::super::steadiness::Count;
use super::super::window::Counted;
use super::{FEW, Law, Origin, Quota};

/// How old sends are that the server does or does not count, in seconds.
#[derive(Clone, Copy, Debug)]
struct Ages {
    /// At least this old is one that counts; zero if none surely does.
    counted: f64,
    /// At most this old is one that does not; infinite if none is known.
    gone: f64,
    /// Some of what was sent before surely counts.
    partly: bool,
}

impl Quota {
    /// The window's length by what the server counts: the ages of a send that still counts and of
    /// one that does not, as of this request.
    fn ages(&self, seen: &Seen, origin: &Origin, doubt: f64, jitter: f64) -> Ages {
        let before = origin.at.plus_secs(-jitter);
        let own = if origin.refused { 0.0 } else { origin.cost };
        let most = (self.limit - seen.remaining - own).max(0.0);
        let least = most - doubt;
        let age = |at: Time| origin.at.secs_since(at);
        let counted = (least > 0.0)
            .then(|| self.sends.reach_back(least, before))
            .flatten();
        let gone = self.sends.reach_back(most + (0.02 * most).max(0.5), before);
        Ages {
            counted: counted.map_or(0.0, |(_, last)| (age(last) - jitter).max(0.0)),
            gone: gone.map_or(f64::INFINITY, |(first, _)| age(first) + jitter),
            partly: counted.is_some(),
        }
    }

    pub(super) fn learn_refill(&mut self, seen: &Seen, doubt: f64, newer: bool, jitter: f64) {
        if seen.reset.guessed {
            return;
        }
        if seen.reset.exact && seen.reset.moment.is_none() {
            self.refill
                .on_exact(self.limit - seen.remaining, seen.reset.after);
            if self.law == Law::Bucket && self.refill.is_disproved() {
                self.law = Law::Unknown;
                self.first = None;
                self.refill = Refill::default();
                self.window.forget_length();
                // A bucket counts no single sends; what is missing are the latest.
                let in_use = self.limit - self.level;
                self.window.recount(self.sends.latest_each(in_use));
            }
        } else if self.law == Law::Bucket && newer {
            self.refill
                .on_counts(seen, &self.sends, self.limit, doubt, jitter);
        }
    }

    /// What counts say about an even refill, where resets do not tell its rate.
    pub(super) fn learn_steadiness(
        &mut self,
        seen: &Seen,
        origin: &Origin,
        newer: bool,
        jitter: f64,
    ) {
        let told = seen.reset.latest.secs_since(seen.at);
        let coarse = seen.reset.width() > COARSE * told || self.law == Law::Bucket;
        let exact = seen.reset.exact && seen.reset.moment.is_none();
        if !newer || exact || !coarse || self.is_uneven() {
            return;
        }
        let count = Count {
            at: seen.at,
            remaining: seen.remaining,
            sent: self.sends.total() - self.sends.since(seen.order),
            doubt: self.doubt_around(origin, 2.0 * jitter),
        };
        self.steadiness.on_count(count, self.limit, jitter);
        if self.is_uneven() && self.law == Law::Bucket {
            self.settle_for_sliding(seen);
        }
    }

    /// Whether what comes back does not come evenly.
    pub(super) fn is_uneven(&self) -> bool {
        self.steadiness.is_disproved()
    }

    /// The whole limit comes back at once, at moments that resets are too coarse to tell: who keeps
    /// any stretch as long as a window within the limit keeps every window.
    fn settle_for_sliding(&mut self, seen: &Seen) {
        self.become_sliding();
        self.window.settle(&self.sends, seen.at);
        self.level = seen.remaining - self.sends.since(seen.order);
        self.counted_from = seen.order;
        self.book_others(seen.at);
    }

    pub(super) fn tell_law_apart(
        &mut self,
        seen: &Seen,
        origin: &Origin,
        doubt: f64,
        newer: bool,
        jitter: f64,
    ) {
        if self.is_no_window(seen, origin) {
            self.never_fixed = true;
            self.edge = None;
            self.window.give_in();
            if self.limit < FEW {
                // Nothing but the time from one to the next tells its rate.
                self.law = Law::Sliding;
            } else if self.is_uneven() {
                self.settle_for_sliding(seen);
            } else {
                self.become_bucket();
            }
            return;
        }
        match self.law {
            Law::Unknown => self.law_of_moving_reset(seen, newer, jitter),
            Law::Sliding => {
                let ages = self.ages(seen, origin, doubt, jitter);
                let longest = self.window.longest();
                let shortened = self.window.is_shortened();
                let count = self
                    .window
                    .on_count(ages.counted, ages.gone, origin.refused);
                if self.window.longest() < longest {
                    // What was predicted with the old length is void.
                    self.epoch += 1;
                }
                match count {
                    Counted::TooFew if newer => self.on_too_few(seen, origin, &ages, doubt, jitter),
                    // It only seemed shorter, because all of it comes back at once.
                    Counted::TooMany | Counted::JustTooMany
                        if shortened
                            && origin.refused
                            && self.is_uneven()
                            && self.is_coarse(&seen.reset) =>
                    {
                        self.settle_for_sliding(seen);
                    }
                    Counted::TooMany => self.on_odd_count(),
                    // Some came back so early, but not all: it refills.
                    Counted::FarFewer if ages.partly => self.become_bucket(),
                    _ => {}
                }
            }
            Law::Fixed => {}
            Law::Bucket => {}
        }
    }

    /// Whether more was granted within some stretch than windows of a second grant. Whoever tells
    /// resets in whole seconds counts in whole seconds, or it is a bucket.
    fn is_no_window(&self, seen: &Seen, origin: &Origin) -> bool {
        let open = self.law != Law::Bucket && !self.never_fixed && !self.has_given_window();
        if !open || seen.reset.exact || origin.refused {
            return false;
        }
        STRETCHES.iter().any(|&seconds| {
            let from = origin.at.plus_secs(-SECOND * seconds);
            // A window that began before the stretch, and one more for each second of it.
            let most = (seconds + 1.0) * self.limit + 1.5;
            self.sends.between(from, origin.at) > most
        })
    }

    /// A bucket's reset is the time until it is full: it grows with what is used. A window's is a
    /// moment, which stays where it is until it comes.
    fn law_of_moving_reset(&mut self, seen: &Seen, newer: bool, jitter: f64) {
        let Some(first) = &self.first else { return };
        if seen.reset.guessed || first.reset.guessed {
            self.first = Some(seen.clone());
            return;
        }
        let (earlier, later) = if first.at <= seen.at {
            (first, seen)
        } else {
            (seen, first)
        };
        if later.at.plus_secs(LEAST_SHIFT) >= earlier.reset.earliest {
            // Something came back between the two, whatever the law. Where resets are too coarse to
            // tell more, counts will: they find the length of a window, and a bucket is like one.
            if seen.reset.exact && self.limit >= FEW {
                if self.refill.is_likely() {
                    self.law = Law::Bucket;
                }
            } else if newer && self.sends.total() >= 3.0 {
                self.law = Law::Sliding;
            }
            self.first = Some(if newer { seen.clone() } else { first.clone() });
            return;
        }
        let used = |reading: &Seen| (self.limit - reading.remaining).max(0.0);
        // Rounding makes `used` up to one too high, and the reset what its span allows.
        // How long it takes until then the server reckons itself: the way there does not matter.
        let until = |reading: &Seen| {
            let latest = reading.reset.latest.plus_secs(-jitter);
            let least = reading.reset.earliest.secs_since(reading.at).max(0.0);
            (least, latest.secs_since(reading.at).max(least).max(1e-4))
        };
        let (told, then) = (until(later), until(earlier));
        let slowest = (used(earlier) - 1.0).max(0.0) / then.1;
        let fastest = used(earlier) / then.0.max(1e-9);
        let as_bucket = (
            (used(later) - 1.0).max(0.0) / fastest,
            used(later) / slowest,
        );
        let overlap = |a: (f64, f64), b: (f64, f64)| a.0 <= b.1 && b.0 <= a.1;
        let may_be_bucket = overlap(told, as_bucket);
        let moved = later.reset.middle().secs_since(earlier.reset.middle());
        let slack = 0.5 * (later.reset.width() + earlier.reset.width());
        let may_be_window = moved.abs() <= slack;
        match (may_be_bucket, may_be_window) {
            (true, false) => self.law = Law::Bucket,
            (false, true) => self.become_window(seen, jitter),
            (true, true) => {}
            (false, false) => self.first = Some(seen.clone()),
        }
    }

    /// Sends that were too young to have come back have: the window started anew, or is none.
    fn on_too_few(&mut self, seen: &Seen, origin: &Origin, ages: &Ages, doubt: f64, jitter: f64) {
        if self.is_uneven() && self.is_coarse(&seen.reset) {
            self.settle_for_sliding(seen);
        } else if !self.started_anew(seen, doubt, jitter) {
            // Whatever took them, once is enough.
            let taken = origin.at.plus_secs(jitter - ages.gone);
            self.sends.forget_until(taken);
            let back = self.window.take_until(taken);
            // No more of it than this very reading says is left.
            let most = seen.remaining + doubt - self.sends.since(seen.order);
            self.correct(back.min((most - self.level).max(0.0)));
            self.book_others(seen.at);
            self.on_odd_count();
        }
    }

    /// A sliding window was predicted to have less: whether it started anew, at a moment told
    /// before, with all of its limit.
    fn started_anew(&mut self, seen: &Seen, doubt: f64, jitter: f64) -> bool {
        let Some(last) = self.last.as_ref().filter(|_| !self.never_fixed) else {
            return false;
        };
        let since = self.sends.since(last.order) - self.sends.since(seen.order);
        // A window of about a second cannot be told to have moved in whole ones: then its count alone
        // must say it, and few could mean anything.
        let moved = seen.reset.earliest > last.reset.earliest.plus_secs(0.5 * last.reset.width());
        let coarse = last.reset.width() > 0.5 * self.window.longest() && self.limit >= MANY;
        let started = seen.at.plus_secs(LEAST_SHIFT) >= last.reset.earliest
            && (moved || coarse)
            && seen.remaining >= self.limit - since - doubt - 2.0
            && seen.remaining + 0.5 < self.limit.max(2.0);
        if started {
            self.law = Law::Fixed;
            let given = self.window.given();
            let (old, new) = ((&last.reset, last.at), (&seen.reset, seen.at));
            self.edge = Some(Edge::found(old, new, given, jitter));
        }
        started
    }

    /// Whether a reset tells little of where a window ends.
    fn is_coarse(&self, reset: &Span) -> bool {
        !reset.exact && reset.width() > COARSE * self.window.longest()
    }

    /// A count that no sliding window explains: a bucket, if that is no exception.
    fn on_odd_count(&mut self) {
        self.odd_counts += 1;
        if self.odd_counts >= ODD_COUNTS {
            self.odd_counts = 0;
            if !self.window.give_in() {
                self.become_bucket();
            }
        }
    }

    /// A reset that stays where it is. Where it is told too coarsely to tell the length of a window
    /// by its first send, the whole limit is taken to come back at once, which most servers do.
    fn become_window(&mut self, seen: &Seen, jitter: f64) {
        if seen.reset.exact || self.never_fixed {
            self.law = Law::Sliding;
            return;
        }
        self.law = Law::Fixed;
        let (first, given) = (self.window.oldest(), self.window.given());
        let edge = Edge::joined(&seen.reset, seen.at, first, given, jitter);
        self.edge = Some(edge);
    }

    /// Windows do not start where any idea of their starts has them.
    pub(super) fn become_sliding(&mut self) {
        self.law = Law::Sliding;
        if let Some(length) = self.edge.take().and_then(|edge| edge.length()) {
            self.window.suppose_length(length);
        }
        self.never_fixed = true;
        self.odd_counts = 0;
        self.window.relearn_length();
        self.level = self.level.min(0.0);
        self.epoch += 1;
    }

    fn become_bucket(&mut self) {
        if self.is_uneven() {
            return;
        }
        self.law = Law::Bucket;
        self.edge = None;
        self.refill = Refill::since(self.last.clone());
    }
}

/// In seconds: a reset that moves by less may be rounding of both ends.
const LEAST_SHIFT: f64 = 0.004;
/// Counts that no sliding window explains, before it is taken for a bucket: other causes (a refund,
/// another client) do not come three times.
pub(super) const ODD_COUNTS: u32 = 3;
/// Of the length of a window.
const COARSE: f64 = 0.4;
/// A limit of which all and most can be told apart.
const MANY: f64 = 8.0;
/// In seconds: less than one by what jitter adds.
const SECOND: f64 = 0.9;
/// In such seconds: a bucket that fills in half of one shows in two of them, one that takes longer in
/// more.
const STRETCHES: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
