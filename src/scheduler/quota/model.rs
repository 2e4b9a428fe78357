//! A model of one counter of the server: what is left of a reported quota, told between readings.
//!
//! Why a model and not the last reading: a reading is as old as its answer, and the requests of a
//! burst arrive in any order, so "remaining less what was sent since" is wrong by as much as was in
//! flight. The level moves by own sends and by the law of refill; a reading corrects it by what lies
//! outside its band of doubt. In flight is thus subtracted by construction, and what others use
//! shows as a correction.

use crate::feedback::Dimension;
use crate::scheduler::events::Cost;
use crate::scheduler::sends::Sends;
use crate::scheduler::time::Time;
use crate::scheduler::timing::Timing;

use super::Standing;
use super::edge::{Edge, Seeing};
use super::reading::{Seen, Span, Told};
use super::refill::Refill;
use super::window::{Counted, Window};

/// How a quota comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Law {
    /// Not told apart yet: nothing comes back before the told reset, and then one scout asks.
    Unknown,
    /// Evenly.
    Bucket,
    /// Each send when it is as old as the window.
    Sliding,
    /// All of it at fixed moments.
    Fixed,
}

impl Law {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Bucket => "bucket",
            Self::Sliding => "sliding window",
            Self::Fixed => "fixed window",
        }
    }
}

/// One reported quota.
#[derive(Clone, Debug)]
pub(super) struct Quota {
    pub(super) dimension: Dimension,
    pub(super) scope: Option<std::borrow::Cow<'static, str>>,
    pub(super) law: Law,
    pub(super) limit: f64,
    limit_told: bool,
    /// What is left at `at`, with every own send taken off, answered or not.
    level: f64,
    at: Time,
    /// The sum of all corrections: what a prediction of the past has to be corrected by.
    corrections: f64,
    /// Raised whenever the level was set anew: predictions made before are void.
    epoch: u32,
    sends: Sends,
    first: Option<Seen>,
    last: Option<Seen>,
    refill: Refill,
    window: Window,
    edge: Edge,
    /// The latest request that was alone in what it used, and its reset.
    alone: Option<(Time, Time)>,
    /// Counts that no sliding window explains.
    odd_counts: u32,
    /// Windows that start anew were disproved for good.
    never_fixed: bool,
    /// Sends since the last reading for which the level was too low, and until when there is no
    /// other: one of them asks, more would only be refused.
    scouts: u32,
    scouts_rest_until: Time,
    /// What a request takes of this dimension if the ask does not say.
    pub(super) usual_cost: f64,
}

/// What the model said at the moment of a send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// What was left after the send.
    level: f64,
    corrections: f64,
    epoch: u32,
    /// All that was sent until then, the send included.
    spent: f64,
}

/// The request that brought a reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// The order of sending.
    pub(super) order: u64,
    pub(super) at: Time,
    /// What it was reckoned to take.
    pub(super) cost: f64,
    /// None if the quota was not known yet when it was sent.
    pub(super) mark: Option<Mark>,
    /// It was refused, so the server took nothing for it.
    pub(super) refused: bool,
}

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
    pub(super) fn new(
        dimension: Dimension,
        scope: Option<std::borrow::Cow<'static, str>>,
        told: &Told,
        now: Time,
    ) -> Self {
        let limit = told.limit.unwrap_or(told.remaining);
        Self {
            dimension,
            scope,
            law: if told.window.is_some() {
                Law::Sliding
            } else {
                Law::Unknown
            },
            limit,
            limit_told: told.limit.is_some(),
            level: limit,
            at: now,
            corrections: 0.0,
            epoch: 0,
            sends: Sends::default(),
            first: None,
            last: None,
            refill: Refill::default(),
            window: Window::new(told.window),
            edge: Edge::default(),
            alone: None,
            odd_counts: 0,
            never_fixed: false,
            scouts: 0,
            scouts_rest_until: Time::START,
            usual_cost: 0.0,
        }
    }

    /// Whether a reading speaks of this quota.
    pub(super) fn is(
        &self,
        dimension: Dimension,
        scope: Option<&str>,
        window: Option<f64>,
    ) -> bool {
        let same_window = match window {
            Some(window) => self.window.given().is_none_or(|given| given == window),
            None => true,
        };
        self.dimension == dimension && self.scope.as_deref() == scope && same_window
    }

    /// What is left now of all that there is, from 0 to 1.
    pub(super) fn share_left(&self) -> Option<f64> {
        let share = self.level / self.limit;
        (self.limit_told && self.limit > 0.0).then(|| share.clamp(0.0, 1.0))
    }

    /// What an ask takes of it: as told, else as usual, and at least something, so that an empty
    /// quota stops it.
    pub(super) fn price(&self, cost: &Cost) -> f64 {
        match cost.of(self.dimension) {
            told if told > 0.0 => told,
            // Money has no smallest unit that is known here.
            _ if self.dimension == Dimension::Cost => self.usual_cost.max(f64::MIN_POSITIVE),
            _ => self.usual_cost.max(1.0),
        }
    }

    /// A request was told to have taken so much.
    pub(super) fn learn_cost(&mut self, actual: f64) {
        let weight = if self.usual_cost == 0.0 {
            1.0
        } else {
            COST_WEIGHT
        };
        self.usual_cost += weight * (actual - self.usual_cost);
    }

    /// Makes marks of another quota in its place predict nothing.
    pub(super) fn void_marks_of(&mut self, other: &Self) {
        self.epoch = other.epoch.max(self.epoch) + 1;
    }

    /// The whole quota, if the server told it.
    pub(super) fn told_limit(&self) -> Option<f64> {
        self.limit_told.then_some(self.limit)
    }

    /// Where it stands. The level is not brought up to `now`: looking must change nothing.
    pub(super) fn standing(&self, now: Time) -> Standing {
        let told = self.last.as_ref().map(|seen| seen.reset.latest);
        let fixed = self.law == Law::Fixed && !self.edge.is_assumed();
        let ends = if fixed { Some(self.edge.latest) } else { told };
        let left = match self.law {
            Law::Fixed if fixed && now >= self.edge.latest => self.limit,
            Law::Bucket => self.level + self.refill.rate() * now.secs_since(self.at).max(0.0),
            _ => self.level,
        };
        Standing {
            dimension: self.dimension,
            limit: self.told_limit(),
            left: left.min(self.limit).max(0.0),
            ends: ends.filter(|&at| at > now),
            law: self.law.name(),
        }
    }

    pub(super) fn last_read(&self) -> Time {
        self.last.as_ref().map_or(Time::START, |seen| seen.at)
    }

    /// Brings the level up to `now`.
    pub(super) fn advance(&mut self, jitter: f64, now: Time) {
        match self.law {
            Law::Unknown => {
                // One request that was alone in what it used: at its reset all is back, whatever
                // the law.
                if let Some((sent, reset)) = self.alone
                    && now >= reset.plus_secs(jitter)
                {
                    let level = self.limit - self.sends.after(sent);
                    if level > self.level {
                        self.level = level;
                        self.epoch += 1;
                    }
                    self.alone = None;
                }
            }
            Law::Bucket => {
                let back = self.refill.rate() * now.secs_since(self.at).max(0.0);
                self.level = (self.level + back).min(self.limit);
            }
            Law::Sliding => {
                self.level += self.window.returned_by(jitter, now);
                self.level = self.level.min(self.limit);
            }
            Law::Fixed => {
                if !self.edge.is_assumed() && now >= self.edge.latest.plus_secs(jitter) {
                    self.level = self.limit;
                    self.edge.assume(now);
                    self.epoch += 1;
                    self.window.returned_by(jitter, now);
                }
            }
        }
        self.at = now;
    }

    /// The earliest moment for a send of this cost. Needs an up-to-date level.
    pub(super) fn ready(&self, cost: f64, timing: &Timing, now: Time) -> Time {
        let Some(last) = &self.last else { return now };
        let cost = cost.min(self.limit);
        let jitter = timing.jitter();
        match self.law {
            Law::Unknown if self.level + EPSILON >= cost => self
                .kept_back(cost, &last.reset, timing, now)
                .unwrap_or(now)
                .max(now),
            Law::Unknown => self.scout(last.reset.latest.plus_secs(jitter)).max(now),
            Law::Bucket => self.ready_bucket(cost, last, jitter, now),
            Law::Sliding => {
                if let Some(span) = self.window.next_return()
                    && let Some(at) = self.kept_back(cost, &span, timing, now)
                {
                    return at.max(now);
                }
                let need = cost - self.level;
                if need <= EPSILON {
                    return now;
                }
                let asking = || self.scout(last.reset.latest.plus_secs(jitter));
                self.window
                    .return_of(need, jitter)
                    .unwrap_or_else(asking)
                    .max(now)
            }
            Law::Fixed => self.ready_fixed(cost, timing, now),
        }
    }

    fn ready_bucket(&self, cost: f64, last: &Seen, jitter: f64, now: Time) -> Time {
        let rate = self.refill.rate();
        // Half a unit of rounding, and what may arrive early of it; less where there is less.
        let margin = (0.25 * self.limit).min(0.5) + jitter * rate;
        let margin = margin.min(0.5 * (self.limit - cost).max(0.0));
        let need = cost + margin - self.level;
        if need <= EPSILON {
            now
        } else if rate > 0.0 {
            now.plus_secs(need / rate)
        } else {
            // The reset is when it is full: of a small one that is when one is back.
            let soon = if self.limit > 2.0 {
                BUCKET_SCOUT
            } else {
                f64::INFINITY
            };
            self.scout(last.reset.latest.min(last.at.plus_secs(soon)))
                .max(now)
        }
    }

    fn scout(&self, at: Time) -> Time {
        at.max(self.scouts_rest_until)
    }

    fn ready_fixed(&self, cost: f64, timing: &Timing, now: Time) -> Time {
        let edge = Span {
            earliest: self.edge.earliest,
            latest: self.edge.latest,
            ..Span::default()
        };
        let spare = self.level - cost;
        if self.edge.is_assumed() {
            // A start that is only assumed: the rest waits for its first answer.
            let kept = self.scouts_for(&edge, timing);
            return if spare >= kept {
                now
            } else {
                now.plus_secs(UNCONFIRMED)
            };
        }
        if let Some(at) = self.kept_back(cost, &edge, timing, now) {
            return at.max(now);
        }
        if spare >= -EPSILON {
            now
        } else {
            edge.latest.plus_secs(timing.jitter()).max(now)
        }
    }

    /// When the edge lies somewhere in a long span, the last few requests are kept back and sent as
    /// scouts spread over it: they are ordinary successes, so the search costs no refusal. The
    /// moment of the next scout, if this send would be one.
    fn kept_back(&self, cost: f64, span: &Span, timing: &Timing, now: Time) -> Option<Time> {
        let end = span.latest.plus_secs(timing.jitter());
        let kept = self.scouts_for(span, timing);
        let spare = self.level - cost;
        if now >= end || spare >= kept || spare < 0.0 {
            return None;
        }
        let share = (kept - spare) / (kept + 1.0);
        Some(span.earliest.plus_secs(span.width() * share).min(end))
    }

    fn scouts_for(&self, span: &Span, timing: &Timing) -> f64 {
        let width = span.width();
        let worth_it = match self.law {
            // A count tells the length however short it is, and what is sent later returns later.
            Law::Sliding => width > (4.0 * timing.jitter()).max(0.03 * self.window.longest()),
            _ => width > 1.5 * timing.answer().unwrap_or(0.0) && width > SHORT_SPAN,
        };
        let least = if self.law == Law::Sliding && self.limit >= 2.0 {
            1.0
        } else {
            0.0
        };
        if worth_it {
            (0.03 * self.limit).min(MOST_SCOUTS).floor().max(least)
        } else {
            0.0
        }
    }

    /// The moment from which one request may ask whether the quota is back, though the model says
    /// it is not: for when nothing else would ever tell.
    pub(super) fn liveness(&self, jitter: f64) -> Option<Time> {
        self.last.as_ref().map(|last| {
            let told = last.reset.latest.plus_secs(jitter);
            self.scout(told.min(last.at.plus_secs(LONGEST_BLOCK)))
        })
    }

    /// A request of this cost was sent.
    pub(super) fn on_sent(&mut self, cost: f64, timing: &Timing, now: Time) -> Mark {
        self.advance(timing.jitter(), now);
        if self.level + EPSILON < cost.min(self.limit) {
            self.scouts = self.scouts.saturating_add(1);
            let pause = (2.0 * timing.answer().unwrap_or(0.0)).max(SCOUT_PAUSE);
            self.scouts_rest_until = now.plus_secs(pause * f64::from(1_u32 << self.scouts.min(8)));
        }
        self.level -= cost;
        self.sends.push(cost, now);
        if self.law != Law::Bucket {
            self.window.push(cost, now);
        }
        Mark {
            level: self.level,
            corrections: self.corrections,
            epoch: self.epoch,
            spent: self.sends.total(),
        }
    }

    /// What a send was reckoned to take was wrong by `extra`, or it never left.
    pub(super) fn adjust(&mut self, mark: Option<Mark>, extra: f64) {
        if mark.is_some_and(|mark| mark.epoch == self.epoch) {
            self.correct(-extra);
        }
    }

    fn correct(&mut self, by: f64) {
        self.level = (self.level + by).min(self.limit);
        self.corrections += by;
    }

    /// Takes a reading in. Needs an up-to-date level.
    pub(super) fn on_reading(
        &mut self,
        told: &Told,
        span: Span,
        origin: &Origin,
        timing: &mut Timing,
        now: Time,
    ) {
        if origin.refused {
            self.on_refused(told, origin, timing, now);
        }
        let jitter = timing.jitter();
        let newer = self
            .last
            .as_ref()
            .is_none_or(|last| last.order < origin.order);
        if !self.take_limit(told, newer, now) {
            return;
        }
        let spent = origin.mark.map_or_else(
            || self.sends.total() - self.sends.after(origin.at),
            |mark| mark.spent,
        );
        let seen = Seen {
            order: origin.order,
            at: origin.at,
            remaining: told.remaining,
            spent,
            reset: span,
        };
        let doubt = self.doubt_around(origin, jitter);
        self.learn_refill(&seen, doubt, newer, jitter);
        if self.first.is_none() {
            self.first = Some(seen.clone());
            self.last = Some(seen.clone());
            self.resync(&seen, now);
        }
        let before = self.law;
        self.tell_law_apart(&seen, origin, doubt, newer, jitter);
        if self.law != before && before != Law::Unknown {
            self.resync(&seen, now);
            self.level -= doubt;
        } else if let Some(mark) = origin.mark.filter(|mark| mark.epoch == self.epoch) {
            self.correct_by(&seen, mark, origin, doubt, timing, now);
        }
        if newer {
            if !origin.refused {
                self.scouts = 0;
                self.scouts_rest_until = Time::START;
            }
            self.last = Some(seen.clone());
            let alone = self.limit > 2.0
                && self.limit - seen.remaining <= origin.cost
                && !seen.reset.guessed;
            self.alone = alone.then_some((origin.at, seen.reset.latest));
        }
        if newer && self.law != Law::Bucket && !seen.reset.guessed {
            let in_use = self.limit - seen.remaining + self.sends.total() - seen.spent;
            let gone = self
                .window
                .on_reset(&seen.reset, in_use, doubt, jitter, origin.at);
            if self.law == Law::Sliding {
                self.correct(gone);
            }
        }
    }

    /// A refusal is a fresh reading of an empty counter: the server took nothing for the request,
    /// and nothing more is left than it says, less what was sent after.
    fn on_refused(&mut self, told: &Told, origin: &Origin, timing: &mut Timing, now: Time) {
        let same_limit = told.limit.is_none_or(|limit| limit == self.limit);
        let empty = told.remaining < origin.cost;
        if empty && self.law == Law::Bucket && self.refill.is_sharp() && same_limit {
            timing.on_surprise(now);
        }
        if origin.mark.is_some_and(|mark| mark.epoch == self.epoch) {
            self.correct(origin.cost);
        }
        self.window.undo(origin.cost, origin.at);
        self.sends.undo(origin.cost, origin.at);
        let newest = self
            .last
            .as_ref()
            .is_none_or(|last| last.order < origin.order);
        if newest || told.remaining < origin.cost {
            let back = match self.law {
                Law::Bucket => self.refill.rate() * now.secs_since(origin.at),
                _ => 0.0,
            };
            let most = told.remaining - self.sends.after(origin.at) + back;
            if self.level > most {
                self.correct(most - self.level);
            }
        }
        if self.law == Law::Fixed
            && self
                .edge
                .is_disproved_by_refusal(self.window.longest(), origin.at)
        {
            self.law = Law::Sliding;
            self.never_fixed = true;
            self.window.relearn_length();
            self.level = self.level.min(0.0);
            self.epoch += 1;
        }
    }

    /// Takes the limit; false if the reading is older than a change of it.
    fn take_limit(&mut self, told: &Told, newer: bool, now: Time) -> bool {
        match told.limit {
            None => self.limit = self.limit.max(told.remaining),
            Some(limit) if limit != self.limit && self.first.is_some() => {
                if !newer {
                    return false;
                }
                let fresh = Self::new(self.dimension, self.scope.clone(), told, now);
                let old = std::mem::replace(self, fresh);
                self.sends = old.sends;
                self.window.inherit(old.window);
                // What changes is how much, seldom how it comes back.
                self.law = if old.law == Law::Bucket {
                    Law::Bucket
                } else {
                    self.law
                };
                self.epoch = old.epoch + 1;
                self.usual_cost = old.usual_cost;
            }
            Some(limit) => {
                self.limit = limit;
                self.limit_told = true;
            }
        }
        true
    }

    /// What was sent so close to this request that it may have arrived on the other side of it.
    fn doubt_around(&self, origin: &Origin, jitter: f64) -> f64 {
        let (from, to) = (origin.at.plus_secs(-jitter), origin.at.plus_secs(jitter));
        (self.sends.between(from, to) - origin.cost).max(0.0)
    }

    /// What may have come back already when this request arrived though the model counts it, and
    /// what may not have although the model says so.
    fn doubt_of_returns(&self, origin: &Origin, jitter: f64) -> (f64, f64) {
        if self.law != Law::Sliding || !self.window.is_known() {
            return (0.0, 0.0);
        }
        let (earliest, latest) = self.window.sent_for_return_at(origin.at);
        let maybe = self
            .sends
            .between(earliest.plus_secs(-jitter), latest.plus_secs(jitter));
        let maybe_not = self
            .sends
            .between(earliest.plus_secs(-2.0 * jitter), earliest);
        (maybe, maybe_not)
    }

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

    fn learn_refill(&mut self, seen: &Seen, doubt: f64, newer: bool, jitter: f64) {
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
                self.window.forget_all();
            }
        } else if self.law == Law::Bucket && newer {
            self.refill.on_counts(seen, self.limit, doubt, jitter);
        }
    }

    /// The level as this reading alone tells it.
    fn resync(&mut self, seen: &Seen, now: Time) {
        let back = match self.law {
            Law::Bucket => self.refill.rate() * now.secs_since(seen.at),
            _ => 0.0,
        };
        self.level = seen.remaining - (self.sends.total() - seen.spent) + back;
        self.epoch += 1;
    }

    fn tell_law_apart(
        &mut self,
        seen: &Seen,
        origin: &Origin,
        doubt: f64,
        newer: bool,
        jitter: f64,
    ) {
        match self.law {
            Law::Unknown => self.law_of_moving_reset(seen, newer, jitter),
            Law::Sliding => {
                let ages = self.ages(seen, origin, doubt, jitter);
                let longest = self.window.longest();
                let count = self.window.on_count(ages.counted, ages.gone);
                if self.window.longest() < longest {
                    // What was predicted with the old length is void.
                    self.epoch += 1;
                }
                match count {
                    Counted::TooFew if newer => self.on_too_few(seen, origin, &ages, doubt, jitter),
                    Counted::TooMany => self.on_odd_count(),
                    // Some came back so early, but not all: it refills.
                    Counted::FarFewer if ages.partly => self.become_bucket(),
                    _ => {}
                }
            }
            Law::Fixed => self.follow_edge(seen, newer),
            Law::Bucket => {}
        }
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
            if seen.reset.exact {
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
            (false, true) => self.law = Law::Sliding,
            (true, true) => {}
            (false, false) => self.first = Some(seen.clone()),
        }
    }

    /// Sends that were too young to have come back have: the window started anew, or is none.
    fn on_too_few(&mut self, seen: &Seen, origin: &Origin, ages: &Ages, doubt: f64, jitter: f64) {
        if !self.started_anew(seen, doubt) {
            // Whatever took them, once is enough.
            let taken = origin.at.plus_secs(jitter - ages.gone);
            self.sends.forget_until(taken);
            let back = self.window.take_until(taken);
            self.correct(back);
            self.on_odd_count();
        }
    }

    /// A sliding window was predicted to have less: whether it started anew, at a moment told
    /// before, with all of its limit.
    fn started_anew(&mut self, seen: &Seen, doubt: f64) -> bool {
        let Some(last) = self.last.as_ref().filter(|_| !self.never_fixed) else {
            return false;
        };
        let since = seen.spent - last.spent;
        let started = seen.at.plus_secs(LEAST_SHIFT) >= last.reset.earliest
            && seen.reset.earliest > last.reset.earliest.plus_secs(0.5 * last.reset.width())
            && seen.remaining >= self.limit - since - doubt - 2.0
            && seen.remaining + 0.5 < self.limit.max(2.0);
        if started {
            self.law = Law::Fixed;
            self.edge = Edge::found(&last.reset, last.at, &seen.reset, seen.at);
        }
        started
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

    fn become_bucket(&mut self) {
        self.law = Law::Bucket;
        self.refill = Refill::since(self.last.clone());
    }

    fn follow_edge(&mut self, seen: &Seen, newer: bool) {
        let Some(last) = &self.last else { return };
        match self
            .edge
            .on_reading(&seen.reset, &last.reset, newer, seen.at)
        {
            Seeing::Same | Seeing::Confirmed => {}
            Seeing::Early | Seeing::Late => {
                self.level = seen.remaining - (self.sends.total() - seen.spent);
                self.epoch += 1;
            }
        }
    }

    /// Corrects the level by what the reading's band of doubt does not explain.
    fn correct_by(
        &mut self,
        seen: &Seen,
        mark: Mark,
        origin: &Origin,
        doubt: f64,
        timing: &mut Timing,
        now: Time,
    ) {
        let predicted = mark.level + self.corrections - mark.corrections;
        let (low, high) = match self.law {
            Law::Bucket => {
                let exact = seen.reset.exact && seen.reset.moment.is_none();
                let (low, high) = if exact && self.refill.is_sharp() {
                    // The reset tells the fraction that a whole `remaining` hides.
                    let level = self.limit - self.refill.rate() * (seen.reset.after + 0.0005);
                    let level = level.clamp(seen.remaining, seen.remaining + 1.0);
                    (level - 0.2, level + 0.2)
                } else {
                    (seen.remaining + 0.05, seen.remaining + 0.45)
                };
                (low - doubt, high + doubt)
            }
            _ => {
                let (maybe, maybe_not) = self.doubt_of_returns(origin, timing.jitter());
                (
                    seen.remaining - doubt - maybe,
                    seen.remaining + doubt + maybe_not,
                )
            }
        };
        let off = if predicted > high {
            high - predicted
        } else if predicted < low {
            low - predicted
        } else {
            return;
        };
        self.notice_disorder(off, origin, timing, now);
        self.correct(off);
        if self.law == Law::Sliding {
            if off < 0.0 {
                self.window.push(-off, origin.at);
            } else {
                self.window.take_back(off);
            }
        }
    }

    /// More left than everything sent before allows: some of that arrives later. Only where nothing
    /// else can add to the level.
    fn notice_disorder(&self, off: f64, origin: &Origin, timing: &mut Timing, now: Time) {
        if self.law != Law::Fixed || off < 0.5 || origin.refused {
            return;
        }
        let doubt = self.doubt_around(origin, timing.jitter());
        if let Some((since, _)) = self.sends.reach_back(off + 0.5 * doubt, origin.at) {
            let spread = origin.at.secs_since(since);
            if spread <= MOST_DISORDER {
                timing.on_disorder(spread, now);
            }
        }
    }
}

/// Sums of floats are compared with this much room.
const EPSILON: f64 = 1e-9;
/// In seconds: a reset that moves by less may be rounding of both ends.
const LEAST_SHIFT: f64 = 0.004;
/// Counts that no sliding window explains, before it is taken for a bucket: other causes (a refund,
/// another client) do not come three times.
const ODD_COUNTS: u32 = 3;
/// In seconds: how long the requests kept back wait for the first answer of an assumed start.
const UNCONFIRMED: f64 = 0.02;
/// In seconds: a shorter span is not worth a search.
const SHORT_SPAN: f64 = 0.1;
/// Scouts cut the loss at a start to a tenth of the span; more would cost more than they bring.
const MOST_SCOUTS: f64 = 10.0;
/// What requests cost varies by request, and drifts slowly.
const COST_WEIGHT: f64 = 0.1;
/// In seconds: the least time between two scouts, doubled for each that changed nothing.
const SCOUT_PAUSE: f64 = 0.1;
/// In seconds: a bucket of unknown rate is asked again this soon.
const BUCKET_SCOUT: f64 = 0.3;
/// In seconds: later than this after a reading a quota is asked for again, whatever it said.
const LONGEST_BLOCK: f64 = 86_400.0;
/// In seconds: what looks like more disorder than this is something else.
const MOST_DISORDER: f64 = 0.1;
