//! One request on its way: through the limiter, out of the door, and back with what became of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Extensions;
use http::header::{HeaderName, HeaderValue};
use reqwest::Url;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::client::{Clock, Report};
use crate::scheduler::events::{Fingerprint, Replay};

use super::door::{Door, Mark};
use super::ending::{self, Reply, Unread};
use super::error::Error;
use super::hosts::Hosts;
use super::ids::{Place, State};
use super::inflight::Slot;
use super::options::{Options, Replays};
use super::outage::{Outage, Pass};
use super::record::{Record, RequestId};
use super::request::Request;
use super::source::Work;
use super::tally::Why;

/// What all requests of a run share.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) hosts: Hosts,
    door: Arc<Door>,
    clock: Clock,
    replay: Replays,
    idempotency_header: Option<HeaderName>,
    max_wait: Option<Duration>,
    /// Whether the tokens that answers used are read.
    counts_tokens: bool,
    outage: Mutex<Outage>,
    /// Wakes those who wait for the end of an outage.
    pub(crate) fair: Notify,
    /// Takes back what is in flight.
    pub(crate) abort: CancellationToken,
}

/// What became of a line.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) place: Place,
    /// What it took of memory.
    pub(crate) size: usize,
    pub(crate) slot: Option<Slot>,
    pub(crate) attempts: u32,
    pub(crate) refused: u32,
    /// What the answer says it used, if somebody counts.
    pub(crate) tokens: Option<u64>,
    /// None where nothing was sent and the run is being stopped: the next run does it.
    pub(crate) record: Option<Recorded>,
    /// What every further request would run into too.
    pub(crate) hopeless: Option<String>,
}

/// A record, ready to be written.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) line: Vec<u8>,
    pub(crate) state: State,
    pub(crate) why: Why,
    pub(crate) key: Option<Fingerprint>,
}

impl Sender {
    /// A sender of requests whose first goes to `first`.
    ///
    /// # Errors
    ///
    /// A key or a setting is not valid.
    pub(crate) fn new(
        options: &Options,
        first: &Url,
        door: &Arc<Door>,
        clock: Clock,
    ) -> Result<Self, Error> {
        Ok(Self {
            hosts: Hosts::new(options, first, Arc::clone(door))?,
            door: Arc::clone(door),
            clock,
            replay: options.replay,
            idempotency_header: options.idempotency_header.clone(),
            max_wait: options.settings.max_wait,
            counts_tokens: options.max_tokens.is_some(),
            outage: Mutex::default(),
            fair: Notify::new(),
            abort: CancellationToken::new(),
        })
    }

    /// Does a line, and answers with its record.
    pub(crate) async fn send(self: Arc<Self>, work: Work) -> Done {
        let mark = Arc::new(Mark::new(work.named.id, work.size));
        let start = self.clock.now();
        let Work {
            place,
            named,
            request_id,
            request,
            size,
        } = work;
        let request = request.expect("a bad line is recorded without being sent");
        let sent = self.attempts(request, request_id, &mark);
        let (reply, report) = match self.abort.run_until_cancelled(sent).await {
            Some(end) => end,
            None => (Some(Reply::cancelled()), None),
        };
        let attempts = mark.attempts();
        let hopeless = reply.as_ref().and_then(Reply::hopeless);
        let tokens = reply.as_ref().filter(|_| self.counts_tokens);
        let tokens = tokens.and_then(Reply::tokens);
        let stopped = self.door.is_shut();
        let record = reply
            // Whatever the reason, a line that was not sent is as it was before the run.
            .filter(|reply| attempts > 0 || !stopped || matches!(reply, Reply::Answer(_)))
            .map(|reply| {
                let took = self.clock.now().since(start);
                let report = report.as_ref();
                // What was never sent has done nothing but wait.
                let idle = if attempts == 0 { took } else { Duration::ZERO };
                let key = report.map(|report| report.key);
                let key = key.filter(|key| *key != Fingerprint::ANONYMOUS);
                let state = reply.state();
                let mut line = Vec::with_capacity(RECORD + reply.size());
                Record {
                    id: request_id,
                    custom_id: &named.text,
                    ending: reply.ending(),
                    attempts,
                    key,
                    waited: report.map_or(idle, |report| report.waited),
                    took,
                    last: state.is_final(),
                }
                .write(&mut line);
                Recorded {
                    line,
                    state,
                    why: reply.why(),
                    key,
                }
            });
        Done {
            place,
            size,
            slot: mark.slot(),
            attempts,
            refused: mark.refused(),
            tokens,
            record,
            hopeless,
        }
    }

    /// Asks the limiter until there is an end. None if the run is being stopped.
    async fn attempts(
        &self,
        mut request: Box<Request>,
        request_id: RequestId,
        mark: &Arc<Mark>,
    ) -> (Option<Reply>, Option<Report>) {
        self.prepare(&mut request, request_id);
        let replayable = request.ask.replay == Replay::Always || request.method.is_idempotent();
        let start = self.clock.now();
        let mut broken = 0;
        loop {
            if !self.wait_for_fair_weather().await {
                return (None, None);
            }
            let mut extensions = Extensions::new();
            extensions.insert(request.ask.clone());
            extensions.insert(Arc::clone(mark));
            let client = self.hosts.client(&request.url);
            let sent = client
                .http
                .execute_with_extensions(request.to_reqwest(), &mut extensions);
            let sent = sent.await;
            let in_time = || {
                let waited = self.clock.now().since(start);
                self.max_wait.is_none_or(|most| waited < most)
            };
            let response = match sent {
                Ok(response) => response,
                Err(error) => {
                    let unsent = ending::is_unsent(&error);
                    let transport = crate::Error::of(&error).is_none();
                    if transport && self.is_outage() && (unsent || replayable) && in_time() {
                        continue;
                    }
                    let home = self.hosts.is_home(&request.url);
                    return (Some(Reply::of_error(&error, home)), None);
                }
            };
            let flying = self.door.fly(mark);
            let report = response.extensions().get::<Report>().cloned();
            let read = Reply::read(response, report.as_ref(), &client.profile, &self.clock).await;
            drop(flying);
            let reply = match read {
                Ok(reply) => reply,
                Err(Unread::TooLarge) => Reply::too_large(),
                Err(Unread::Broken(error)) => {
                    broken += 1;
                    if replayable && (self.is_outage() || broken < BROKEN_BODIES) && in_time() {
                        continue;
                    }
                    Reply::network(ending::describe_transport(&error), true)
                }
            };
            self.on_answer();
            return (Some(reply), report);
        }
    }

    fn prepare(&self, request: &mut Request, id: RequestId) {
        let profile = &self.hosts.client(&request.url).profile;
        let by_profile = || profile.idempotency_header().map(HeaderName::from_static);
        let header = self.idempotency_header.clone().or_else(by_profile);
        let known = header.is_some();
        if let Some(name) = header {
            let value = HeaderValue::try_from(id.to_string()).expect("it is ASCII");
            request.headers.entry(name).or_insert(value);
        }
        let path = request.url.path().trim_end_matches('/');
        let generates = profile.replays(path) || GENERATION.iter().any(|end| path.ends_with(end));
        request.ask.replay = match self.replay {
            Replays::Always => Replay::Always,
            Replays::Never => Replay::Never,
            Replays::Auto if known || generates => Replay::Always,
            Replays::Auto => request.ask.replay,
        };
        if generates && request.ask.bucket.is_none() {
            // Vendors of language models limit each model by itself.
            request.ask.bucket = request.model().map(Into::into);
        }
    }

    /// Notes an end without an answer; whether it is one of many.
    fn is_outage(&self) -> bool {
        !self.door.is_shut() && self.outage().on_failure(self.clock.now())
    }

    fn on_answer(&self) {
        if self.outage().on_answer() {
            self.fair.notify_waiters();
        }
    }

    /// False if the run is being stopped.
    async fn wait_for_fair_weather(&self) -> bool {
        loop {
            let fair = self.fair.notified();
            let now = self.clock.now();
            let pass = self.outage().pass(now);
            match pass {
                _ if self.door.is_shut() => return false,
                Pass::Open => return true,
                Pass::Wait(until) => {
                    tokio::select! {
                        () = fair => {}
                        () = tokio::time::sleep(until.since(now)) => {}
                    }
                }
            }
        }
    }

    pub(crate) fn outage(&self) -> MutexGuard<'_, Outage> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Paths of calls that generate: doing them twice costs money and harms nothing.
const GENERATION: [&str; 4] = [
    "/chat/completions",
    "/responses",
    "/messages",
    "/embeddings",
];

/// How often an answer may break off in the middle, as often as a request may fail otherwise.
const BROKEN_BODIES: u32 = 4;

/// What a record takes beside the body.
const RECORD: usize = 320;
