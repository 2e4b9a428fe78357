//! Who sends the requests of a run: paceline's own scheduler, and what it is compared with.

use std::time::{Duration, SystemTime};

use http::StatusCode;

use crate::config::Settings;
use crate::feedback::{self, Profile};
use crate::scheduler::events::{Ask, Change, Cost, Fingerprint, Outcome, Replay, Ticket, Verdict};
use crate::scheduler::explain::Explanation;
use crate::scheduler::memory::Snapshot;
use crate::{Scheduler, Time};

use super::load::Job;
use super::provider::Reply;

/// A client in virtual time: it is told what happens, and asked what it sends.
pub trait Client {
    /// A request is to be sent from now on.
    fn submit(&mut self, job: &Job, now: Time);

    /// The next attempt to send now, if any.
    fn poll_send(&mut self, now: Time) -> Option<Attempt>;

    /// When to ask again if nothing happens before.
    fn poll_timeout(&mut self, now: Time) -> Option<Time>;

    /// An attempt has ended. Answers whether its request has, too.
    fn on_end(&mut self, attempt: Attempt, end: End<'_>, now: Time) -> Next;

    /// The next request that was given up while it waited.
    fn poll_given_up(&mut self, now: Time) -> Option<u32> {
        let _ = now;
        None
    }
}

/// One sending of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// [`Job::index`].
    pub job: u32,
    /// The key that it goes to, from 0.
    pub key: usize,
}

/// How an attempt ended, as its sender sees it.
#[derive(Clone, Copy, Debug)]
pub enum End<'a> {
    /// With an answer.
    Answer(&'a Reply),
    /// Without one in time.
    Broken,
}

/// What becomes of a request after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Its caller has what there is.
    Ended,
    /// It is sent again.
    Again,
}

/// The scheduler that paceline's users run, fed with what `feedback` reads in real header text.
#[derive(Debug)]
pub struct Paceline {
    scheduler: Scheduler,
    profile: Profile,
    /// The wall clock at [`Time::START`].
    wall: SystemTime,
    /// The request and the ticket in each of the scheduler's slots.
    slots: Vec<Option<(u32, Ticket)>>,
    /// The ticket of each request that is in the scheduler.
    tickets: Vec<Option<Ticket>>,
    refused: Option<u32>,
    changes: Option<Vec<Change>>,
}

impl Paceline {
    /// A scheduler that nothing was told but how many keys there are. `wall` is its clock at the
    /// start, seconds since 1970.
    #[must_use]
    pub fn new(keys: usize, wall: f64, seed: u64) -> Self {
        // A run may take longer than a caller would wait, and it submits its batch at once.
        let settings = Settings {
            max_wait: None,
            queue: u32::MAX as usize,
            ..Settings::default()
        };
        Self::with_settings(settings, keys, wall, seed)
    }

    /// The same with settings of its own.
    ///
    /// # Panics
    /// If a setting is out of its range.
    #[must_use]
    pub fn with_settings(settings: Settings, keys: usize, wall: f64, seed: u64) -> Self {
        let fingerprint = |key: usize| {
            let [a, b, c, d, ..] = (key as u64 + 1).to_le_bytes();
            Fingerprint::from_hash([a, b, c, d, 0, 1])
        };
        let keys: Vec<Fingerprint> = (0..keys).map(fingerprint).collect();
        Self {
            scheduler: Scheduler::new(settings, &keys, seed).expect("the settings were checked"),
            profile: Profile::NONE,
            wall: SystemTime::UNIX_EPOCH + Duration::from_secs_f64(wall),
            slots: Vec::new(),
            tickets: Vec::new(),
            refused: None,
            changes: None,
        }
    }

    /// Begins with what another had learned when `age` less of time had passed.
    #[must_use]
    pub fn restored(mut self, snapshot: &Snapshot, age: Duration) -> Self {
        self.scheduler.restore(snapshot, age, Time::START);
        self
    }

    /// What it has learned.
    #[must_use]
    pub fn snapshot(&self, now: Time) -> Snapshot {
        self.scheduler.snapshot(now)
    }

    /// Keeps every decision, so that [`Paceline::changes`] can tell them.
    #[must_use]
    pub fn keeping_changes(mut self) -> Self {
        self.changes = Some(Vec::new());
        self
    }

    /// Every decision so far, if they were kept.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        self.changes.as_deref().unwrap_or_default()
    }

    /// What the scheduler is up to, and why.
    #[must_use]
    pub fn explain(&self, now: Time) -> Explanation {
        self.scheduler.explain(now)
    }

    fn note_changes(&mut self) {
        while let Some(change) = self.scheduler.poll_change() {
            if let Some(changes) = &mut self.changes {
                changes.push(change);
            }
        }
    }
}

impl Client for Paceline {
    fn submit(&mut self, job: &Job, now: Time) {
        let cost = if job.tokens > 1.0 {
            Cost::tokens(job.judged.round() as u32)
        } else {
            Cost::ONE
        };
        // Every answer of a virtual provider may be had twice.
        let ask = Ask::new().replay(Replay::Always).cost(cost);
        let Ok(ticket) = self.scheduler.submit(ask, now) else {
            self.refused = Some(job.index);
            return;
        };
        grow(&mut self.slots, ticket.slot as usize);
        grow(&mut self.tickets, job.index as usize);
        self.slots[ticket.slot as usize] = Some((job.index, ticket));
        self.tickets[job.index as usize] = Some(ticket);
    }

    fn poll_send(&mut self, now: Time) -> Option<Attempt> {
        let grant = self.scheduler.poll_grant(now)?;
        self.scheduler.start(grant.ticket, now);
        let (job, _) =
            self.slots[grant.ticket.slot as usize].expect("only our tickets are granted");
        Some(Attempt {
            job,
            key: grant.key.index(),
        })
    }

    fn poll_timeout(&mut self, _now: Time) -> Option<Time> {
        self.note_changes();
        self.scheduler.poll_timeout()
    }

    fn on_end(&mut self, attempt: Attempt, end: End<'_>, now: Time) -> Next {
        let ticket =
            self.tickets[attempt.job as usize].expect("it was submitted and has not ended");
        let outcome = match end {
            End::Broken => Outcome::Broken,
            End::Answer(reply) => {
                let status = StatusCode::from_u16(reply.status).expect("providers answer statuses");
                let body = (!reply.body.is_empty()).then_some(reply.body.as_bytes());
                let received = self.wall + now.since(Time::START);
                Outcome::Answered(feedback::read(
                    &self.profile,
                    status,
                    &reply.headers,
                    body,
                    received,
                ))
            }
        };
        match self.scheduler.complete(ticket, &outcome, now) {
            Verdict::Again { .. } => Next::Again,
            Verdict::Return { .. } => Next::Ended,
        }
    }

    fn poll_given_up(&mut self, now: Time) -> Option<u32> {
        if let Some(job) = self.refused.take() {
            return Some(job);
        }
        let (ticket, _) = self.scheduler.poll_refusal(now)?;
        self.slots[ticket.slot as usize].map(|(job, _)| job)
    }
}

fn grow<T: Clone>(places: &mut Vec<Option<T>>, index: usize) {
    if places.len() <= index {
        places.resize(index + 1, None);
    }
}
