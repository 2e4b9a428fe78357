//! When a quota lets a request go: at once, when enough has come back, or as one of the few that
//! ask whether it has.

use crate::feedback::Dimension;
use crate::scheduler::time::Time;
use crate::scheduler::timing::Timing;

use super::super::edge::Edge;
use super::super::reading::{Seen, Span};
use super::{EPSILON, FEW, Law, Quota};

impl Quota {
    /// The earliest moment for a send of this cost. Needs an up-to-date level.
    pub(in crate::scheduler::quota) fn ready(
        &self,
        cost: f64,
        demand: f64,
        timing: &Timing,
        now: Time,
    ) -> Time {
        let Some(last) = &self.last else { return now };
        let cost = cost.min(self.limit);
        let jitter = timing.jitter();
        match self.law {
            Law::Unknown if self.level + EPSILON >= cost => self
                .kept_back(cost, demand, &last.reset, timing, now)
                .unwrap_or(now)
                .max(now),
            Law::Unknown => self.scout(last.reset.latest.plus_secs(jitter)).max(now),
            Law::Bucket => self.ready_bucket(cost, last, jitter, now),
            Law::Sliding => {
                if let Some(span) = self.window.next_return()
                    && let Some(at) = self.kept_back(cost, demand, &span, timing, now)
                {
                    return at.max(now);
                }
                let need = cost - self.level;
                if need <= EPSILON {
                    return now;
                }
                let asking = || self.scout(last.reset.latest.plus_secs(jitter));
                let at = self.window.return_of(need, jitter).unwrap_or_else(asking);
                if self.limit < FEW && last.reset.exact {
                    // The server's word is better than any length.
                    return at.max(last.reset.latest).max(now);
                }
                // With few to keep back nothing would ever show that it is shorter than told.
                let tries = demand > 0.0 && self.limit < FEW && self.tries >= 1.0;
                let told = last.reset.latest.secs_since(last.at);
                let early = if self.window.is_known() {
                    self.window.trial_of(need, jitter)
                } else {
                    Some(last.at.plus_secs(0.5 * told))
                };
                let early = early.filter(|_| tries && timing.hears_soon());
                let reckoned = self.window.reckoned_return_of(need, jitter);
                let early = early.or_else(|| reckoned.filter(|_| demand > 0.0));
                let at = at.min(early.map_or(at, |early| self.scout(early)));
                let asked = self.question(at, demand).map(|asked| self.scout(asked));
                at.min(asked.unwrap_or(at)).max(now)
            }
            Law::Fixed => self.ready_fixed(cost, demand, timing, now),
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

    fn ready_fixed(&self, cost: f64, demand: f64, timing: &Timing, now: Time) -> Time {
        let Some(edge) = &self.edge else { return now };
        let spare = self.level - cost;
        if spare >= -EPSILON
            && let Some(heard) = edge.heard_at(timing.hearing().min(LONGEST_HEARING))
            && now < heard
        {
            return heard;
        }
        let span = edge.span();
        if let Some(at) = self.kept_back(cost, demand, &span, timing, now) {
            return at.max(now);
        }
        if spare >= -EPSILON {
            return now;
        }
        if !edge.may_roll() {
            // Whether this one has begun is not heard yet, so no other can be taken to have.
            let heard = timing.answer().unwrap_or(0.0).max(LONGEST_HEARING);
            return now.plus_secs(heard);
        }
        let end = edge.latest.plus_secs(timing.jitter());
        let sooner = match edge.tried() {
            Some(at) => at.plus_secs(timing.hearing()),
            None if demand > 0.0 && self.may_try(edge, timing) => {
                let at = edge.next_try(timing.jitter()).max(self.heard_apart(timing));
                // Where all that wait fit in the next window, who is refused is the last of them: it
                // waits for as long as the refusal asks for.
                let worth_it = demand > self.limit || end.secs_since(at) >= WORTH_A_WAIT;
                if worth_it { at } else { end }
            }
            None => self.question(end, demand).unwrap_or(end),
        };
        sooner.min(end).max(now)
    }

    /// When a refusal can be told from one of what was sent last.
    fn heard_apart(&self, timing: &Timing) -> Time {
        let last = self.sends.reach_back(1.0, Time::NEVER);
        last.map_or(Time::START, |(_, at)| at.plus_secs(timing.hearing()))
    }

    /// When to ask whether some is back already of what is told to come back by `end`.
    fn question(&self, end: Time, demand: f64) -> Option<Time> {
        let last = self.last.as_ref()?;
        let coarse = !last.reset.exact && !last.reset.guessed;
        let even = self.dimension == Dimension::Requests && !self.is_uneven();
        if demand <= 0.0 || !coarse || !even || self.has_given_window() {
            return None;
        }
        let (used, _) = self.sends.reach_back(1.0, Time::NEVER)?;
        self.disguise.question(used, end)
    }

    /// Whether a refusal may be spent on learning where the edge lies.
    fn may_try(&self, edge: &Edge, timing: &Timing) -> bool {
        let width = edge.span().width() * edge.chance_of_early();
        let length = edge.length().unwrap_or_else(|| self.window.longest());
        !edge.is_assumed()
            && self.tries >= 1.0
            && timing.hears_soon()
            && width > (4.0 * timing.jitter()).max(0.02 * length.min(LONGEST_LENGTH))
            && !(self.hinted && edge.was_refused())
    }

    /// When the edge lies somewhere in a long span and more wait than can go before it, the last
    /// few requests are kept back and sent as scouts spread over it: they are ordinary successes,
    /// so the search costs no refusal. The moment of the next scout, if this send would be one.
    fn kept_back(
        &self,
        cost: f64,
        demand: f64,
        span: &Span,
        timing: &Timing,
        now: Time,
    ) -> Option<Time> {
        let end = span.latest.plus_secs(timing.jitter());
        let kept = self.scouts_for(span, timing);
        let spare = self.level - cost;
        if now >= end || spare >= kept || spare < 0.0 || demand <= self.level {
            return None;
        }
        let share = (kept - spare) / (kept + 1.0);
        Some(span.earliest.plus_secs(span.width() * share).min(end))
    }

    fn scouts_for(&self, span: &Span, timing: &Timing) -> f64 {
        let width = span.width();
        if self.law == Law::Fixed {
            // Each costs what of it was not sent when the edge comes, half of it on average, and
            // they divide the span that is waited for.
            let edge = self.edge.as_ref();
            let length = edge
                .and_then(Edge::length)
                .unwrap_or_else(|| self.window.longest());
            let tries = edge.is_some_and(|edge| self.may_try(edge, timing));
            return if width > 2.0 * timing.jitter() && (!tries || self.limit >= LARGE) {
                let best = (self.limit * width / length.max(width)).sqrt();
                let worth_it = best >= WORTHWHILE;
                let kept = best.min(0.03 * self.limit).floor().min(MOST_SCOUTS);
                if worth_it { kept } else { 0.0 }
            } else {
                0.0
            };
        }
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
    pub(in crate::scheduler::quota) fn liveness(&self, jitter: f64) -> Option<Time> {
        self.last.as_ref().map(|last| {
            let edge = self.edge.as_ref().map_or(Time::START, |edge| edge.latest);
            let known = if edge < Time::NEVER {
                edge
            } else {
                Time::START
            };
            // What is reckoned may be wrong: it does not put off the question for longer than one
            // more window.
            let length = self.edge.as_ref().and_then(Edge::length);
            let most = last
                .reset
                .latest
                .plus_secs(length.unwrap_or(LONGEST_LENGTH));
            let told = last.reset.latest.max(known.min(most)).plus_secs(jitter);
            self.scout(told.min(last.at.plus_secs(LONGEST_BLOCK)))
        })
    }
}

/// In seconds: how long the others wait to hear whether the first of an assumed window is refused.
const LONGEST_HEARING: f64 = 0.05;
/// A limit of which a few kept back are no loss.
const LARGE: f64 = 200.0;
/// In seconds: of a longer window no share is small.
const LONGEST_LENGTH: f64 = 60.0;
/// In seconds: a shorter span is not worth a search.
const SHORT_SPAN: f64 = 0.1;
/// The number of scouts from which they save half as much again as they cost: with `k` of them
/// `k / (k + 1)` of half the span is saved, and half of them is lost.
const WORTHWHILE: f64 = 2.2;
/// Scouts cut the loss at a start to a tenth of the span; more would cost more than they bring.
const MOST_SCOUTS: f64 = 10.0;
/// In seconds: a bucket of unknown rate is asked again this soon.
const BUCKET_SCOUT: f64 = 0.3;
/// In seconds: half of what a refusal in whole seconds asks for at least.
const WORTH_A_WAIT: f64 = 0.5;
/// In seconds: later than this after a reading a quota is asked for again, whatever it said.
const LONGEST_BLOCK: f64 = 86_400.0;
