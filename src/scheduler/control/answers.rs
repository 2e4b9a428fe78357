//! What each estimator is told of an answer, and in which order.

use crate::feedback::{Cause, Class, Feedback};
use crate::scheduler::concurrency::{Concurrency, Controller as _, Sample, Sign};
use crate::scheduler::events::{KeyId, What};
use crate::scheduler::names::Names;
use crate::scheduler::pace::{Changed, Scene};
use crate::scheduler::time::Time;

use super::{Changes, Control, Trail};

impl Control {
    /// Whether nothing that was sent between the last refusal of the key and this attempt was
    /// accepted; none if no pace keeps count.
    pub(crate) fn is_in_a_row(&self, key: KeyId, trail: &Trail) -> Option<bool> {
        self.paces.of(trail.paced_in).is_in_a_row(key, &trail.stamp)
    }

    /// An answer came to an attempt that was sent at `sent`, and belongs to `place`: its bucket, or
    /// another that the answer names. Its slot is still taken.
    pub(crate) fn on_answer(
        &mut self,
        key: KeyId,
        trail: &mut Trail,
        place: u32,
        feedback: &Feedback,
        sent: Time,
        now: Time,
    ) -> Changes {
        let mut changes = Changes::new();
        let took = now.secs_since(sent).max(0.0);
        if let Some(date) = feedback.date {
            self.timing.clock.on_date(date, sent, now);
        }
        let refused = matches!(feedback.class, Class::RateLimited | Class::QuotaExhausted);
        let control = &mut self.keys[key.index()];
        let explained = control.ledger_mut(trail.bucket).on_feedback(
            &mut trail.spend,
            feedback,
            refused,
            &mut self.timing,
            now,
            |what| changes.push(what),
        );
        self.told |= control.ledger_mut(trail.bucket).is_told();
        match feedback.class {
            Class::Ok => {
                self.paces.on_served(key, trail.bucket, sent, now);
                self.on_served(key, trail, took, &mut changes, now);
            }
            Class::RateLimited => {
                let is_unexplained = !explained && feedback.cause != Some(Cause::Concurrency);
                if is_unexplained && self.paces.suspects(key, place, sent, now) {
                    self.part(place, now);
                }
                if self.is_apart(place) {
                    self.on_refused_apart(key, trail, place, feedback, took, now);
                } else {
                    self.on_refused(key, trail, feedback, explained, took, &mut changes, now);
                }
            }
            Class::QuotaExhausted => {
                let pace = self.paces.of_mut(trail.paced_in);
                pace.on_explained(key, &trail.stamp);
            }
            // With a fault of the key it is told of that, too.
            Class::Fatal if feedback.fault.is_none() => {
                self.paces.of_mut(trail.paced_in).on_denied(key, now);
            }
            Class::Overloaded | Class::Transient | Class::Fatal => {}
        }
        let share_left = self.keys[key.index()].ledger_mut(trail.bucket).share_left();
        let sign = match feedback.class {
            Class::Ok => Sign::Served,
            Class::RateLimited if !self.is_apart(place) => Sign::RateLimited,
            Class::Overloaded => Sign::Overloaded,
            Class::RateLimited | Class::QuotaExhausted | Class::Transient | Class::Fatal => {
                Sign::Nothing
            }
        };
        let sample = Sample {
            sent,
            latency: took,
            in_flight: trail.others + 1,
            limit_was_reached: trail.limit_was_reached,
            sign,
            share_left,
        };
        if let Some(controller) = &mut self.keys[key.index()].controller {
            changes.extend(controller.on_sample(&sample, now));
        } else if !self.told {
            changes.extend(self.window.on_sample(
                &Sample {
                    in_flight: trail.load,
                    ..sample
                },
                now,
            ));
        }
        changes
    }

    /// An attempt that was sent at `sent` was given up without an answer, or its connection broke.
    pub(crate) fn on_unanswered(&mut self, trail: &Trail, sent: Time, now: Time) -> Option<What> {
        let is_governed = self.told || !matches!(self.concurrency, Concurrency::Adaptive);
        let window = (!is_governed).then_some(&mut self.window)?;
        window.on_unanswered(trail.load, sent, self.timing.answer(), now)
    }

    fn on_served(
        &mut self,
        key: KeyId,
        trail: &Trail,
        took: f64,
        changes: &mut Changes,
        now: Time,
    ) {
        if self.served == 0 {
            self.window.raise_to(self.in_flight.saturating_sub(1));
        }
        self.served += 1;
        self.timing.on_success(took);
        let may_try = self.paces.of(trail.paced_in).may_try(key, now);
        let early = !self.paces.of(trail.paced_in).is_strict(key);
        let (sent, on_the_way) = (trail.stamp.at, self.timing.on_the_way());
        let cap = &mut self.keys[key.index()].cap;
        cap.on_served(trail.others, sent, on_the_way, may_try, early, now);
        let scene = Scene {
            keys: self.keys.len(),
            told: self.told,
            served: self.served,
            in_flight: self.in_flight.saturating_sub(1),
            demand: self.demand(),
            timing: &self.timing,
        };
        let pace = self.paces.of_mut(trail.paced_in);
        let changed = pace.on_success(key, &trail.stamp, took, &scene, now);
        // What is told of a key is its common pace.
        let changed = changed.filter(|_| trail.paced_in == Names::DEFAULT);
        changes.extend(changed.map(Changed::into_what));
    }

    /// A refusal of a bucket that is apart: it says nothing about its key.
    fn on_refused_apart(
        &mut self,
        key: KeyId,
        trail: &Trail,
        place: u32,
        feedback: &Feedback,
        took: f64,
        now: Time,
    ) {
        self.timing.on_refusal(took, now);
        let demand = self.demand();
        let pace = self.paces.of_mut(trail.paced_in);
        if trail.paced_in != place {
            // It was sent before that was known.
            pace.on_explained(key, &trail.stamp);
            return;
        }
        let scene = Scene {
            keys: self.keys.len(),
            told: self.told,
            served: self.served,
            in_flight: self.in_flight.saturating_sub(1),
            demand,
            timing: &self.timing,
        };
        let load = trail.load - 1;
        pace.on_refused(key, &trail.stamp, feedback.wait, load, &scene, now);
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "all that a refusal can be judged by"
    )]
    fn on_refused(
        &mut self,
        key: KeyId,
        trail: &Trail,
        feedback: &Feedback,
        explained: bool,
        took: f64,
        changes: &mut Changes,
        now: Time,
    ) {
        self.timing.on_refusal(took, now);
        let rest = self.rest();
        let (keys, demand) = (self.keys.len(), self.demand());
        let control = &mut self.keys[key.index()];
        let (jitter, on_the_way) = (self.timing.jitter(), self.timing.on_the_way());
        let (others, sent) = (trail.others, trail.stamp.at);
        // "Rate limit" is what every refusal is called: only the other word says something.
        let names_number = feedback.cause == Some(Cause::Concurrency);
        let fits_cap = !explained && !names_number && control.cap.explains(others, sent, jitter);
        // Where one more than a known cap was tried, the others go on as before.
        let is_look = fits_cap && control.cap.is_looking();
        if !is_look {
            control.resume.on_refused(rest, now);
        }
        if names_number {
            control.cap.on_named(others);
        }
        if explained || names_number {
            self.paces.common_mut().on_explained(key, &trail.stamp);
            return;
        }
        if fits_cap {
            control.cap.on_refused(others, sent, jitter, on_the_way);
            self.paces.common_mut().on_look_refused(key, &trail.stamp);
            return;
        }
        let scene = Scene {
            keys,
            told: self.told,
            served: self.served,
            in_flight: self.in_flight.saturating_sub(1),
            demand,
            timing: &self.timing,
        };
        let load = trail.load - 1;
        let refused =
            self.paces
                .common_mut()
                .on_refused(key, &trail.stamp, feedback.wait, load, &scene, now);
        let may_be_cap = !self.told || keys == 1;
        if may_be_cap && !refused.same_episode {
            let found = control.cap.on_refused(others, sent, jitter, on_the_way);
            if found {
                self.paces.common_mut().on_cap_found(key);
            }
        }
        changes.extend(refused.changed.map(Changed::into_what));
    }
}
