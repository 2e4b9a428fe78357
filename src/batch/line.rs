//! A line on its way, and what is done about each reply to it: whether it goes again, and after
//! which pause.
//!
//! The limiter decides about attempts; here is decided what lies beyond: a provider that is away, a
//! budget of repeats that others have used up, an answer that broke off.

use std::time::Duration;

use crate::Time;
use crate::scheduler::events::{GaveUp, Replay};
use crate::scheduler::retry::RetrySettings;

use super::door::Mark;
use super::ending::{Reply, Trouble};
use super::hosts::Client;
use super::options::Replays;
use super::request::Request;

/// A line on its way.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    mark: &'a Mark,
    replays: Replays,
    /// Whether it may be sent again after the server may have done it.
    pub(crate) replayable: bool,
    start: Time,
    /// When it was given to the limiter last.
    pub(crate) began: Time,
    /// How often it was before that.
    pub(crate) repeats: u32,
    /// How long it was to pause before these.
    pub(crate) paused: Duration,
}

/// What is done about a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is the last word of this run.
    Return,
    /// The same, but the next run asks again.
    Leave,
    Again,
    AgainAfter(Duration),
}

impl<'a> Line<'a> {
    /// A request that was not given to the limiter so far.
    pub(crate) fn new(mark: &'a Mark, request: &Request, replays: Replays, now: Time) -> Self {
        Self {
            mark,
            replays,
            replayable: match request.ask.replay {
                Replay::Always => true,
                Replay::Never => false,
                Replay::Auto => request.method.is_idempotent(),
            },
            start: now,
            began: now,
            repeats: 0,
            paused: Duration::ZERO,
        }
    }

    /// What is done about a reply, unless the run is `stopping`. `why` is why the limiter gave it
    /// up.
    pub(crate) fn next(
        &self,
        client: &Client,
        reply: &Reply,
        why: Option<GaveUp>,
        stopping: bool,
        now: Time,
    ) -> Next {
        let Some(trouble) = reply.trouble(why) else {
            return Next::Return;
        };
        let retry = &client.settings.retry;
        let in_time = |most| now.since(self.start) <= most;
        let bounded = self.mark.is_used_up();
        let may = !stopping && client.settings.max_wait.is_none_or(in_time);
        match trouble {
            Trouble::Refused => {
                // Nothing is lost to refusals while the provider serves anybody: they were not
                // processed. One that comes back to be refused while others are served gives way.
                let waits = may && !bounded && self.waits_out_refusals(retry);
                match client.outage.has_served_since(self.began) {
                    _ if !waits || client.outage.refuses_for_good(now) => Next::Return,
                    true => Next::AgainAfter(pause(retry, self.repeats)),
                    false => Next::Again,
                }
            }
            Trouble::Declined(wait) => {
                // It counts as served, so whether the provider serves anybody is not known: the
                // limiter's bound holds.
                let pause = pause(retry, self.repeats).max(wait);
                // As the limiter has it: a wait of just so long is waited, and neither the time that
                // answers took was one nor what a busy machine added.
                let in_time = |most| self.paused + pause <= most;
                let may = !stopping && client.settings.max_wait.is_none_or(in_time);
                let few = self.mark.refused() <= retry.refusals.into();
                match may && few && !bounded && self.replays != Replays::Never {
                    true => Next::AgainAfter(pause),
                    false => Next::Return,
                }
            }
            Trouble::Unsent => {
                let own = client.outage.is_own_trouble(self.began, now);
                match (may && client.outage.is_waited_for(), own) {
                    (true, false) => Next::Again,
                    (true, true) if self.repeats < UNSENT => {
                        Next::AgainAfter(pause(retry, self.repeats))
                    }
                    _ => Next::Return,
                }
            }
            Trouble::Failed => self.after_failure(client, reply, may, now),
        }
    }

    /// What is done about a reply that failed. `may`: time is left.
    fn after_failure(&self, client: &Client, reply: &Reply, may: bool, now: Time) -> Next {
        let (retry, outage) = (&client.settings.retry, &client.outage);
        let bounded = self.mark.is_used_up();
        let own = outage.is_own_trouble(self.began, now) || !outage.is_waited_for();
        let sent = self.mark.attempts();
        let failures = sent - self.mark.refused().min(sent);
        if own && (!self.replayable || failures > retry.errors.into()) {
            return Next::Return;
        }
        let long = now.since(self.start) >= LONG && sent >= MANY;
        match (own, may && self.replayable && !bounded) {
            (true, true) => Next::AgainAfter(pause(retry, self.repeats)),
            (true, false) if may || bounded => Next::Return,
            (true, false) => Next::Leave,
            // Whatever the others would say, this one fails.
            (false, true) if long && !reply.is_of_the_way() => Next::Return,
            (false, true) => Next::Again,
            (false, false) if self.replays == Replays::Never => Next::Return,
            (false, false) => Next::Leave,
        }
    }

    /// Whether nobody has said how often a refused request may be sent.
    fn waits_out_refusals(&self, retry: &RetrySettings) -> bool {
        !self.mark.is_bounded() && retry.refusals == RetrySettings::default().refusals
    }
}

/// A wait before a line that the limiter gave back is given to it again.
fn pause(retry: &RetrySettings, repeats: u32) -> Duration {
    let first = retry.base.unwrap_or(FIRST_PAUSE);
    first.saturating_mul(1 << repeats.min(16)).min(retry.cap)
}

/// The limiter gives a line back where its budget of repeats is empty or an answer broke off: a
/// second gives others time to succeed, and so to fill it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// How often a line may find no connection while others do.
const UNSENT: u32 = 10;

/// A line whose every attempt fails, so many over so long a time, has no one else to blame.
const MANY: u32 = 10;
const LONG: Duration = Duration::from_secs(60);
