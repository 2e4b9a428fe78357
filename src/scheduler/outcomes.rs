//! What an attempt's end teaches, and what becomes of its ask.
//!
//! The order matters: first every part learns, then the slot is freed, then the caller polls for
//! grants. In any other order a waiter runs into what the outcome has just announced.

use std::time::Duration;

use rand::RngExt;

use crate::feedback::{Class, Feedback};

use super::events::{
    Because, Fingerprint, Gate, GaveUp, KeyId, Name, Outcome, Ticket, Verdict, What,
};
use super::mode::Mode;
use super::names::Names;
use super::retry::{self, Judgement};
use super::time::Time;
use super::{Scheduler, is_certain};

impl Scheduler {
    /// An attempt has ended: learns from it, frees its slot, and says what to do.
    pub fn complete(&mut self, ticket: Ticket, outcome: &Outcome, now: Time) -> Verdict {
        let verdict = self.complete_held(ticket, outcome, now);
        if matches!(verdict, Verdict::Return { .. }) {
            self.release(ticket);
        }
        verdict
    }

    /// The same for an attempt whose body is the work: where the verdict is to return, the slot
    /// stays taken until [`Scheduler::release`].
    pub fn complete_held(&mut self, ticket: Ticket, outcome: &Outcome, now: Time) -> Verdict {
        let Some(index) = self
            .attempt_of(ticket)
            .filter(|&i| !self.attempts[i].answered)
        else {
            return Verdict::Return {
                retry_at: None,
                why: None,
            };
        };
        if *outcome == Outcome::NotSent {
            self.refund(index);
        } else {
            self.start(ticket, now);
        }
        if let Some(diary) = &mut self.diary {
            let attempt = &self.attempts[index];
            let key = self.keys.key(attempt.key).fingerprint;
            diary.on_ended(key, outcome, attempt.started.unwrap_or(now), now);
        }
        let verdict = match self.settings.mode {
            Mode::Enforce => {
                let learned = self.learn(index, ticket, outcome, now);
                self.verdict(index, ticket, outcome, learned, now)
            }
            Mode::Observe => {
                self.learn(index, ticket, outcome, now);
                self.unenforced(ticket, outcome)
            }
            Mode::Off => self.unenforced(ticket, outcome),
        };
        match verdict {
            Verdict::Return { .. } => self.attempts[index].answered = true,
            Verdict::Again { not_before } => {
                self.end_attempt(index);
                self.queue.put_back(ticket, not_before, now);
            }
        }
        verdict
    }

    /// An attempt that was answered, and whose slot is held for the body, says something more: an
    /// error in the middle of a stream, or what the call used. It is learned from; the verdict on
    /// the attempt stands.
    pub fn amend(&mut self, ticket: Ticket, said: &Feedback, now: Time) {
        let answered = |&index: &usize| self.attempts[index].answered;
        let Some(index) = self.attempt_of(ticket).filter(answered) else {
            return;
        };
        if said.class == Class::Ok {
            let attempt = &mut self.attempts[index];
            self.control.settle(attempt.key, &mut attempt.trail, said);
            self.settle_costs(index, said, now);
        } else {
            self.learn(index, ticket, &Outcome::Answered(said.clone()), now);
        }
        self.queue.open_bucket(self.attempts[index].trail.bucket());
        self.version += 1;
    }

    /// Tells every part what an outcome says. Answers until when the request must stay away from
    /// the key that refused it, and from every key.
    fn learn(&mut self, index: usize, ticket: Ticket, outcome: &Outcome, now: Time) -> Learned {
        let attempt = &self.attempts[index];
        let (key, sent) = (attempt.key, attempt.started.unwrap_or(attempt.granted));
        let Outcome::Answered(feedback) = outcome else {
            if *outcome == Outcome::Broken {
                let trail = &self.attempts[index].trail;
                let what = self.control.on_unanswered(trail, sent, now);
                self.note(now, Some(key), what);
                let what = self.keys.on_unanswered(key, sent, now);
                self.note(now, Some(key), what);
            }
            return Learned::default();
        };
        self.keys.on_answered(key);
        let bucket = self.queue.entry(ticket).map(|entry| entry.bucket);
        if let (Some(bucket), Some(label)) = (bucket, &feedback.bucket) {
            self.buckets.learn(bucket, label);
        }
        let bucket = bucket.map(|bucket| self.buckets.home(bucket));
        let place = self.place(index, feedback);
        let was_apart = self.control.is_apart(place);
        let mut learned = Learned::default();
        let attempt = &mut self.attempts[index];
        let in_a_row = self.control.is_in_a_row(key, &attempt.trail);
        let changes = self
            .control
            .on_answer(key, &mut attempt.trail, place, feedback, sent, now);
        let is_apart = self.control.is_apart(place);
        self.queue.open_bucket(place);
        self.queue.on_answer(ticket);
        let bucket = if is_apart {
            Some(place)
        } else {
            bucket.filter(|&bucket| self.is_its_own(key, bucket, feedback, now))
        };
        let counted_in = self.attempts[index].trail.bucket();
        if is_apart && !was_apart {
            self.tell_apart(key, place, now);
        }
        let is_paced = changes.iter().any(|what| matches!(what, What::Pace { .. }));
        self.tell_learned(key, counted_in, feedback, is_paced);
        for what in changes {
            self.note(now, Some(key), Some(what));
        }
        match feedback.class {
            Class::Ok => {
                self.settle_costs(index, feedback, now);
                self.served_at = Some(now);
                self.budget.on_success(now);
                self.overload.in_row = 0;
                let what = self.keys.on_served(key, sent);
                if what.is_some() {
                    self.control.on_restored(key);
                }
                self.tell_fault(key, what.as_ref());
                self.note(now, Some(key), what);
            }
            Class::RateLimited => {
                let told = self.hint(feedback);
                let hint = told.map(|told| (told.wait, told.is_lone));
                let refused = self.keys.on_refused(key, bucket, hint, in_a_row, sent, now);
                learned.key_until = refused.request_until;
                learned.used_up = refused.in_a_row;
                // Where nobody is served it is not a matter of whose turn it is.
                learned.others_served_at =
                    self.control.served_apart(place).unwrap_or(self.served_at);
                learned.added = told.map_or(Duration::ZERO, |told| told.added);
                if let Some((until, _)) = refused.parked {
                    self.tell_parked(key, bucket, until);
                }
                let what = refused
                    .parked
                    .map(|(until, why)| What::Parked { until, why });
                self.note(now, Some(key), what);
                if let Some(told) = told.filter(|_| feedback.is_account_wide()) {
                    learned.provider_until = self.rest_all(told.wait, now);
                }
            }
            Class::QuotaExhausted => {
                let wait = exhausted_for(feedback);
                if feedback.is_account_wide() {
                    learned.provider_until = self.rest_all(wait, now);
                }
                let until = self.keys.park(key, bucket, wait, now);
                self.tell_parked(key, bucket, until);
                learned.key_until = now + wait;
                let why = Because::Hint;
                self.note(now, Some(key), Some(What::Parked { until, why }));
            }
            Class::Overloaded => {
                self.overload.in_row += 1;
                if let Some(told) = self.hint(feedback) {
                    learned.hold_for(told, now);
                    if !told.is_lone || self.overload.in_row > 1 {
                        let until = now + told.wait.min(self.settings.longest_park);
                        self.overload.until = self.overload.until.max(until);
                        self.tell_overloaded();
                    }
                }
            }
            Class::Transient | Class::Fatal => {
                // A wait that is no refusal's is this request's alone.
                if let Some(told) = self.hint(feedback) {
                    learned.hold_for(told, now);
                }
            }
        }
        if let Some(fault) = feedback.fault {
            let what = self.keys.on_fault(key, fault, sent, now);
            self.tell_fault(key, what.as_ref());
            let retired = matches!(what, Some(What::Retired(_)));
            self.control.on_fault(key, retired, now);
            self.note(now, Some(key), what);
            if retired {
                self.refuse_if_all_faulty(now);
            }
        }
        learned
    }

    /// Whether a refusal rests only its bucket: the server named it, or the caller did, and no
    /// other bucket of the key rests. Where two that the caller keeps apart are refused, the limit
    /// is rather the key's.
    fn is_its_own(&self, key: KeyId, bucket: u32, feedback: &Feedback, now: Time) -> bool {
        let alone = || self.keys.bucket_rests(key, now).all(|(b, _)| b == bucket);
        let named = feedback.bucket.is_some() || (!feedback.is_account_wide() && alone());
        bucket != Names::DEFAULT && named
    }

    /// The bucket that an answer is about: where it was counted, unless it names one that is known
    /// to have limits of its own.
    fn place(&self, index: usize, feedback: &Feedback) -> u32 {
        let label = feedback.bucket.as_deref();
        let label = label.and_then(|label| self.buckets.find(label));
        label
            .filter(|&label| self.control.is_apart(label))
            .unwrap_or_else(|| self.attempts[index].trail.bucket())
    }

    /// Takes the refusals of a bucket for its own from now on: they say nothing about its keys.
    pub fn part(&mut self, bucket: &Name, key: Option<Fingerprint>, now: Time) {
        let id = self.buckets.id(Some(bucket));
        self.open_gates();
        if self.control.part(id, now) {
            let key = key.and_then(|key| self.keys.find(key));
            let bucket = bucket.clone();
            self.note(now, key, Some(What::Apart { bucket }));
        }
    }

    fn tell_apart(&mut self, key: KeyId, bucket: u32, now: Time) {
        let bucket = self.buckets.name(bucket).cloned();
        let what = bucket.map(|bucket| What::Apart { bucket });
        self.note(now, Some(key), what);
    }

    /// What was refused is an account's or an address's: no key may go on. Answers until when.
    fn rest_all(&mut self, wait: Duration, now: Time) -> Time {
        let until = now + wait.min(self.settings.longest_park);
        self.overload.until = self.overload.until.max(until);
        self.tell_overloaded();
        until
    }

    /// The server's hint or the profile's floor, spread.
    fn hint(&mut self, feedback: &Feedback) -> Option<Told> {
        let told = feedback.wait.map(|wait| wait.delay);
        let delay = told.max(feedback.floor).or_else(|| bare_reset(feedback))?;
        let is_rounded = feedback.wait.is_some_and(|wait| wait.grain >= SECOND);
        let random = self.rng.random::<f64>();
        let wait = retry::spread(&self.settings.retry, delay, random);
        Some(Told {
            wait,
            added: wait.saturating_sub(delay),
            is_lone: is_rounded && delay <= SECOND,
        })
    }

    /// The verdict while nothing is enforced: nothing is repeated.
    fn unenforced(&mut self, ticket: Ticket, outcome: &Outcome) -> Verdict {
        let entry = self.queue.entry(ticket).expect("its attempt is alive");
        let would_repeat = self.observe_end(entry.tried(), outcome);
        Verdict::Return {
            retry_at: None,
            why: would_repeat.then_some(GaveUp::NotEnforced),
        }
    }

    fn verdict(
        &mut self,
        index: usize,
        ticket: Ticket,
        outcome: &Outcome,
        learned: Learned,
        now: Time,
    ) -> Verdict {
        let key = self.attempts[index].key;
        let has_lost_key = self
            .pin_of(ticket)
            .is_some_and(|pin| self.keys.is_removed(pin));
        let random = self.rng.random::<f64>();
        let (settings, usual) = (&self.settings.retry, self.control.usual());
        let entry = self.queue.entry_mut(ticket).expect("its attempt is alive");
        let judgement = retry::judge(settings, entry.tried(), outcome);
        let refused_until = learned.key_until.max(learned.provider_until);
        let retry_at = (refused_until > now).then_some(refused_until);
        let give_up = |why| Verdict::Return { retry_at, why };
        if !matches!(judgement, Judgement::Return(_)) {
            if self.closed {
                return give_up(Some(GaveUp::Closed));
            }
            if entry.cancelled {
                return give_up(Some(GaveUp::Cancelled));
            }
            if has_lost_key {
                return give_up(Some(GaveUp::NoKey));
            }
        }
        let not_before = match judgement {
            Judgement::Return(why) => return give_up(why),
            Judgement::OtherKey => {
                entry.key_faults += 1;
                let attempt = &self.attempts[index];
                let sent = attempt.started.unwrap_or(attempt.granted);
                if self.keys.has_newer(key, sent) {
                    return Verdict::Again { not_before: now };
                }
                entry.bar(key, Time::NEVER, now);
                if self.pin_of(ticket).is_some() || !self.keys.has_other(key) {
                    return give_up(Some(GaveUp::Final));
                }
                now
            }
            Judgement::Failed => {
                if !self.budget.take(settings, now) {
                    return give_up(Some(GaveUp::Budget));
                }
                entry.errors += 1;
                let pause = retry::backoff(settings, entry.errors, usual, random);
                if *outcome == Outcome::Broken && self.keys.has_other(key) {
                    // Nobody answered: if that is the key's own trouble, the next attempt must not
                    // meet it again.
                    entry.bar(key, now + 2 * pause, now);
                }
                learned.provider_until.max(now + pause)
            }
            Judgement::Refused => {
                entry.refusals += 1;
                let others = learned.others_served_at;
                let others = others.is_some_and(|at| at > entry.submitted());
                entry.used_up += u16::from(learned.used_up && others);
                let ladder = now + retry::backoff(settings, entry.refusals, usual, random);
                entry.bar(key, learned.key_until.max(ladder), now);
                let floor = learned.provider_until.max(now);
                self.refused_until(ticket, floor)
            }
        };
        let entry = self.queue.entry_mut(ticket).expect("its attempt is alive");
        let in_flight = now.since(self.attempts[index].granted);
        entry.excuse(in_flight + learned.added + INSTANT);
        if not_before >= entry.deadline {
            return Verdict::Return {
                retry_at: Some(not_before),
                why: Some(GaveUp::Deadline),
            };
        }
        Verdict::Again { not_before }
    }

    /// When the first of its keys would take a refused ask again, not before `floor`.
    fn refused_until(&self, ticket: Ticket, floor: Time) -> Time {
        let entry = self.queue.entry(ticket).expect("its attempt is alive");
        let lane = self.queue.lane_at(entry.lane).id;
        let first = self.keys_of(lane).map(|key| {
            let parked = match self.keys.gate(key, self.buckets.home(lane.bucket), floor) {
                Gate::Shut { until, reason } if is_certain(reason) => until,
                Gate::Open | Gate::Shut { .. } => floor,
            };
            parked.max(entry.barred_until(key))
        });
        first.min().unwrap_or(floor)
    }
}

/// A wait that the server asked for.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// It, spread.
    wait: Duration,
    /// What of it is our spread.
    added: Duration,
    /// A fraction of a second that may have been rounded up to one.
    is_lone: bool,
}

/// What an outcome said about when.
#[derive(Clone, Copy, Debug, Default)]
struct Learned {
    /// Until when the request stays away from the key that refused it.
    key_until: Time,
    /// Until when it stays away from every key.
    provider_until: Time,
    /// Its key was refused before, and served nothing since.
    used_up: bool,
    /// When somebody was last served by the provider, or in a bucket that is apart by it there.
    others_served_at: Option<Time>,
    /// What of these waits we have added ourselves.
    added: Duration,
}

impl Learned {
    /// Keeps the request from every key.
    fn hold_for(&mut self, told: Told, now: Time) {
        self.provider_until = now + told.wait;
        self.added = told.added;
    }
}

/// What a refusal says that names no wait, only when its quotas come back and not what is left of
/// them: any of them may be the spent one.
fn bare_reset(feedback: &Feedback) -> Option<Duration> {
    let refused = matches!(feedback.class, Class::RateLimited | Class::QuotaExhausted);
    let readings = &feedback.readings;
    let silent = readings
        .iter()
        .all(|reading| reading.remaining.is_none() && reading.used.is_none());
    let resets = readings.iter().filter_map(|reading| reading.reset);
    resets
        .map(|reset| reset.after)
        .max()
        .filter(|_| refused && silent)
}

/// How long a spent quota is surely spent: the hint, or the end of a window that is used up.
fn exhausted_for(feedback: &Feedback) -> Duration {
    let reset = feedback
        .readings
        .iter()
        .filter(|reading| reading.remaining.is_some_and(|left| left < 1.0))
        .filter_map(|reading| reading.reset)
        .map(|reset| reset.after)
        .max();
    let hint = feedback.wait.map(|wait| wait.delay);
    hint.max(reset)
        .max(feedback.floor)
        .unwrap_or(UNKNOWN_EXHAUSTION)
}

/// What submitting and granting take: a wait of exactly `max_wait` is within it. How late the wait
/// ends is excused when it does.
const INSTANT: Duration = Duration::from_millis(50);

/// A whole-second hint may be any fraction of this, rounded up.
const SECOND: Duration = Duration::from_secs(1);

/// A spent quota whose end nobody knows is probed this often: rarely for a minute's limit, and
/// often enough not to sleep through midnight by much.
const UNKNOWN_EXHAUSTION: Duration = Duration::from_secs(300);
