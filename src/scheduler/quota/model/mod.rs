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
use super::edge::Edge;
use super::reading::{Seen, Span, Told};
use super::refill::Refill;
use super::steadiness::Steadiness;
use super::window::Window;

mod correction;
mod disguise;
mod level;
mod readiness;
mod recognition;
mod rollover;
mod turns;

use disguise::Disguise;

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
    /// All that ever came back by the model.
    returned: f64,
    /// The number of the last send that the level does not count by itself: what it took is in the
    /// reading that the level began with.
    counted_from: u64,
    /// The least that a reading of this window said was left.
    least_told: f64,
    /// What was left when a new window was assumed, and the number of the last send then.
    before: (f64, u64),
    /// Raised whenever the level was set anew: predictions made before are void.
    epoch: u32,
    sends: Sends,
    first: Option<Seen>,
    last: Option<Seen>,
    refill: Refill,
    steadiness: Steadiness,
    window: Window,
    edge: Option<Edge>,
    /// The latest request that was alone in what it used, and its reset.
    alone: Option<(Time, Time)>,
    /// Counts that no sliding window explains.
    odd_counts: u32,
    /// Windows that start anew were disproved for good.
    never_fixed: bool,
    /// How many refusals may be spent on asking whether a window has begun.
    tries: f64,
    /// Refusals come with a wait: a second in a row would stop the key.
    hinted: bool,
    /// Sends since the last reading for which the level was too low, and until when there is no
    /// other: one of them asks, more would only be refused.
    scouts: u32,
    scouts_rest_until: Time,
    disguise: Disguise,
    /// When some of it was last taken to be back after none was.
    back_at: Option<Time>,
    /// Answers in a row that told another quota in its place.
    untold: u32,
    /// Answers since its told end that said nothing of it.
    unheard: u32,
    /// How many of those say that it no longer holds.
    denied: u32,
    /// By how much more was left by those than the model says, in the mean.
    amiss: f64,
    /// What a request takes of this dimension if the ask does not say.
    pub(super) usual_cost: f64,
}

/// What the model said at the moment of a send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// All that had come back by then.
    returned: f64,
    epoch: u32,
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
    /// It was told to wait.
    pub(super) hinted: bool,
    /// How many others are on their way.
    pub(super) others: u32,
}

impl Mark {
    fn is_of(self, quota: &Quota) -> bool {
        self.epoch == quota.epoch
    }

    fn returned(self) -> f64 {
        self.returned
    }
}

impl Quota {
    pub(super) fn new(
        dimension: Dimension,
        scope: Option<std::borrow::Cow<'static, str>>,
        told: &Told,
        now: Time,
    ) -> Self {
        // Whoever says that nothing is left of an unknown limit still lets one through some time.
        let limit = told.limit.unwrap_or_else(|| told.remaining.max(1.0));
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
            returned: 0.0,
            counted_from: 0,
            least_told: f64::INFINITY,
            before: (0.0, 0),
            epoch: 0,
            sends: Sends::default(),
            first: None,
            last: None,
            refill: Refill::default(),
            steadiness: Steadiness::default(),
            window: Window::new(told.window),
            edge: None,
            alone: None,
            odd_counts: 0,
            never_fixed: false,
            tries: FIRST_TRIES,
            hinted: false,
            scouts: 0,
            scouts_rest_until: Time::START,
            disguise: Disguise::default(),
            back_at: None,
            untold: 0,
            unheard: 0,
            denied: 0,
            amiss: 0.0,
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

    /// Whether the length of its window stood on the wire.
    pub(super) fn has_given_window(&self) -> bool {
        self.window.given().is_some()
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
        let edge = self.edge.as_ref().filter(|edge| !edge.is_assumed());
        let ends = edge.map(|edge| edge.latest).or(told);
        let left = match self.law {
            Law::Fixed if edge.is_some_and(|edge| now >= edge.latest) => self.limit,
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

    /// Takes a reading in. Needs an up-to-date level.
    pub(super) fn on_reading(
        &mut self,
        told: &Told,
        span: Span,
        origin: &Origin,
        timing: &mut Timing,
        now: Time,
    ) {
        let before = self.level;
        self.take_reading(told, span, origin, timing, now);
        self.note_return(before, now);
    }

    fn take_reading(
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
        (self.untold, self.denied, self.amiss, self.unheard) = (0, 0, 0.0, 0);
        let jitter = timing.jitter();
        let newer = self
            .last
            .as_ref()
            .is_none_or(|last| last.order < origin.order);
        if !self.take_limit(told, newer, now) {
            return;
        }
        let seen = Seen {
            order: origin.order,
            at: origin.at,
            remaining: told.remaining,
            reset: span,
        };
        if !seen.reset.guessed {
            self.disguise.on_reading(&seen.reset, seen.at);
        }
        self.disguise.on_answer(origin.order, origin.refused, now);
        let doubt = self.doubt_around(origin, jitter);
        self.learn_refill(&seen, doubt, newer, jitter);
        self.learn_steadiness(&seen, origin, newer, jitter);
        if self.first.is_none() {
            self.first = Some(seen.clone());
            self.last = Some(seen.clone());
            self.resync(&seen, now);
        }
        let before = self.law;
        if before == Law::Fixed {
            self.follow_edge(&seen, origin, newer, timing, now);
        }
        self.tell_law_apart(&seen, origin, doubt, newer, jitter);
        if self.law != before && before != Law::Unknown {
            self.resync(&seen, now);
            self.level -= doubt;
        } else if let Some(mark) = origin
            .mark
            .filter(|mark| mark.epoch == self.epoch && self.law != Law::Fixed)
        {
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
            let in_use = self.limit - seen.remaining + self.sends.since(seen.order);
            let gone = self
                .window
                .on_reset(&seen.reset, in_use, doubt, jitter, origin.at);
            if self.law == Law::Sliding {
                self.correct(gone);
            }
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
                *self = self.succeeded_by(told, now);
            }
            Some(limit) => {
                self.limit = limit;
                self.limit_told = true;
            }
        }
        true
    }

    /// The quota that is told in place of this one, of another limit.
    pub(super) fn succeeded_by(&self, told: &Told, now: Time) -> Self {
        let mut next = Self::new(self.dimension, self.scope.clone(), told, now);
        next.sends = self.sends.clone();
        next.window.inherit(&self.window);
        // What changes is how much, seldom how it comes back.
        if self.law == Law::Bucket {
            next.law = Law::Bucket;
        }
        next.epoch = self.epoch + 1;
        next.returned = self.returned;
        next.usual_cost = self.usual_cost;
        next
    }

    /// The level as this reading alone tells it.
    fn resync(&mut self, seen: &Seen, now: Time) {
        let back = match self.law {
            Law::Bucket => self.refill.rate() * now.secs_since(seen.at),
            _ => 0.0,
        };
        self.level = seen.remaining - self.sends.since(seen.order) + back;
        self.counted_from = seen.order;
        self.epoch += 1;
    }
}

/// Sums of floats are compared with this much room.
const EPSILON: f64 = 1e-9;
/// A limit below it leaves nothing to keep back and ask with, and no counts to tell a refill by.
const FEW: f64 = 2.0;
/// Refusals spent on finding the edges of windows: two at first, as halving a second takes about
/// five questions of which half are refused.
const FIRST_TRIES: f64 = 2.0;
/// What requests cost varies by request, and drifts slowly.
const COST_WEIGHT: f64 = 0.1;
