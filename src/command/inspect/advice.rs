//! What paceline would do after a response: the answer is not told from a rule book, but by the
//! scheduler itself, which is given a request, the response, and a request after it.

use std::time::Duration;

use paceline::config::Settings;
use paceline::feedback::Feedback;
use paceline::scheduler::Scheduler;
use paceline::scheduler::events::{Ask, Change, GaveUp, Outcome, Replay, Ticket, Verdict};
use paceline::{Fingerprint, Time};
use serde_json::{Value, json};

/// What would happen next.
pub(super) struct Next {
    /// To the request that was answered, if it may be repeated.
    pub(super) repeatable: Fate,
    /// To it, if it may not be processed twice.
    pub(super) once: Fate,
    /// How long the next request waits that would go on the same key.
    pub(super) others: Option<Duration>,
    /// What the scheduler changed, and why.
    pub(super) changes: Vec<Change>,
}

/// What happens to a request after its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    /// The caller gets the answer.
    Returned(Option<GaveUp>),
    /// It goes again, not before this.
    Again(Duration),
}

/// Plays a response to a scheduler with one key.
pub(super) fn next(said: &Feedback) -> Next {
    let repeatable = Played::new(said, Replay::Always);
    let changes = repeatable.changes.clone();
    Next {
        repeatable: repeatable.fate(),
        once: Played::new(said, Replay::Auto).fate(),
        others: Played::new(said, Replay::Always).others(),
        changes,
    }
}

/// A scheduler that was given a request and its answer.
struct Played {
    scheduler: Scheduler,
    ticket: Ticket,
    verdict: Verdict,
    answered: Time,
    changes: Vec<Change>,
}

impl Played {
    fn new(said: &Feedback, replay: Replay) -> Self {
        let mut settings = Settings::default();
        // The whole wait is to be told, not only whether it is too long for one request.
        settings.max_wait = None;
        let key = Fingerprint::from_hash([1; 6]);
        let mut scheduler = Scheduler::new(settings, &[key], 1).expect("the defaults are valid");
        let sent = Time::START + Duration::from_secs(1);
        let answered = sent + LATENCY;
        let ask = Ask::new().replay(replay);
        let ticket = scheduler.submit(ask, sent).expect("the queue is empty");
        scheduler
            .poll_grant(sent)
            .expect("nothing is known that could hold the first request back");
        scheduler.start(ticket, sent);
        while scheduler.poll_change().is_some() {}
        let verdict = scheduler.complete(ticket, &Outcome::Answered(said.clone()), answered);
        let mut changes = Vec::new();
        while let Some(change) = scheduler.poll_change() {
            changes.push(change);
        }
        Self {
            scheduler,
            ticket,
            verdict,
            answered,
            changes,
        }
    }

    /// What happens to the request: when it goes again is when its key lets it, which can be later
    /// than the earliest moment of its verdict.
    fn fate(mut self) -> Fate {
        match self.verdict {
            Verdict::Again { not_before } => {
                let at = first_grant(&mut self.scheduler, self.answered);
                Fate::Again(at.unwrap_or(not_before).since(self.answered))
            }
            Verdict::Return { why, .. } => Fate::Returned(why),
            _ => Fate::Returned(None),
        }
    }

    /// How long another request waits.
    fn others(mut self) -> Option<Duration> {
        self.scheduler.cancel(self.ticket);
        self.scheduler.submit(Ask::new(), self.answered).ok()?;
        let at = first_grant(&mut self.scheduler, self.answered)?;
        Some(at.since(self.answered))
    }
}

/// When the request that waits is granted.
fn first_grant(scheduler: &mut Scheduler, from: Time) -> Option<Time> {
    let mut now = from;
    for _ in 0..MOST_STEPS {
        if scheduler.poll_grant(now).is_some() {
            return Some(now);
        }
        let next = scheduler.poll_timeout()?;
        if next == Time::NEVER {
            return None;
        }
        now = next.max(now + Duration::from_nanos(1));
    }
    None
}

impl Next {
    pub(super) fn json(&self) -> Value {
        json!({
            "repeatable": self.repeatable.json(),
            "once": self.once.json(),
            "others_wait_ms": self.others.map(|wait| wait.as_millis() as u64),
        })
    }
}

impl Fate {
    fn json(self) -> Value {
        match self {
            Self::Returned(why) => json!({ "do": "return", "why": why }),
            Self::Again(after) => json!({ "do": "again", "after_ms": after.as_millis() as u64 }),
        }
    }
}

/// An answer that took a usual time.
const LATENCY: Duration = Duration::from_millis(200);

/// The gates of a lone request open within a few steps.
const MOST_STEPS: usize = 10_000;
