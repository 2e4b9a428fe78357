//! One request on its way: through the limiter, out of the door, and back with what became of it.

use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use http::Extensions;
use http::header::{HeaderName, HeaderValue};
use reqwest::Url;
use tokio_util::sync::CancellationToken;

use crate::client::{Clock, Report, Until};
use crate::feedback::{self, Dimension, Profile};
use crate::scheduler::events::{Fingerprint, GaveUp, Priority, Replay};

use super::budget::Budget;
use super::done::{Done, Recorded};
use super::door::{Door, Mark};
use super::ending::{Reply, Trouble};
use super::error::Error;
use super::hosts::{Client, Hosts};
use super::line::{Line, Next};
use super::options::{Options, Replays};
use super::record::{Record, RequestId};
use super::request::Request;
use super::secrets::Secrets;
use super::source::Work;
use super::state::StateFile;
use super::transport::{self, Unread};
use super::weather::Weather;

/// What all requests of a run share.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) hosts: Hosts,
    pub(super) door: Arc<Door>,
    pub(super) clock: Clock,
    pub(super) replay: Replays,
    idempotency_header: Option<HeaderName>,
    max_attempts: Option<u16>,
    timeout: Option<Duration>,
    secrets: Secrets,
    /// The tokens that the run may use, if somebody counts.
    budget: Option<Budget>,
    /// That a request is larger than a ceiling allows, if one is.
    pub(crate) oversized: OnceLock<String>,
    /// Why every further request would be in vain.
    hopeless: Mutex<Option<String>>,
    /// Ends every wait that is not the limiter's.
    pub(crate) stopping: CancellationToken,
    /// Takes back what is in flight.
    pub(crate) abort: CancellationToken,
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
        state: Option<Arc<StateFile>>,
    ) -> Result<Self, Error> {
        Ok(Self {
            hosts: Hosts::new(options, first, Arc::clone(door), clock, state)?,
            door: Arc::clone(door),
            clock,
            replay: options.replay,
            idempotency_header: options.idempotency_header.clone(),
            max_attempts: options.max_attempts,
            timeout: options.timeout,
            secrets: Secrets::of(options.all_keys()),
            budget: options.max_tokens.map(Budget::new),
            oversized: OnceLock::new(),
            hopeless: Mutex::default(),
            stopping: CancellationToken::new(),
            abort: CancellationToken::new(),
        })
    }

    /// Does a line, and answers with its record.
    pub(crate) async fn send(self: Arc<Self>, work: Work) -> Done {
        let mark = Arc::new(Mark::new(work.named.id, work.size, self.max_attempts));
        let start = self.clock.now();
        let Work {
            place,
            named,
            request_id,
            request,
            size,
            was_unanswered: _,
        } = work;
        let mut request = request.expect("a bad line is recorded without being sent");
        let client = self.hosts.client(&request.url);
        self.prepare(&client.profile, &mut request, request_id);
        let mut has_share = false;
        let (reply, report) = {
            // Pinned here, since whatever takes a future by value has room for it twice.
            let sent = pin!(async {
                has_share = self.share(&client, &request).await;
                match has_share {
                    true => self.on_whichever_key(&client, &request, &mark).await,
                    false => (None, None),
                }
            });
            match self.abort.run_until_cancelled(sent).await {
                Some(end) => end,
                None => (Some(Reply::cancelled()), None),
            }
        };
        let attempts = mark.attempts();
        let hopeless = self.hopeless(&client, reply.as_ref());
        let turned_away = reply
            .as_ref()
            .and_then(|reply| reply.turns_away(&request, client.has_keys()));
        let tokens = self.settle(reply.as_ref(), has_share);
        let stopped = self.door.is_shut();
        let record = reply
            // Whatever the reason, a line that was not sent is as it was before the run.
            .filter(|reply| attempts > 0 || !stopped || reply.is_answer())
            .map(|reply| {
                let took = self.clock.now().since(start);
                let (id, custom_id) = (request_id, named.text.as_str());
                recorded(&reply, report.as_ref(), id, custom_id, attempts, took)
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
            turned_away,
        }
    }

    /// The tokens that a reply says were used, if somebody counts. Those whose share the line `has`
    /// are given back for them.
    fn settle(&self, reply: Option<&Reply>, has_share: bool) -> Option<u64> {
        let budget = self.budget.as_ref()?;
        let tokens = reply.and_then(Reply::tokens);
        if has_share {
            budget.settle(tokens, reply.is_some_and(Reply::is_answer));
        }
        tokens
    }

    /// Why every further request would be in vain, if so.
    fn hopeless(&self, client: &Client, reply: Option<&Reply>) -> Option<String> {
        let mut hopeless = self.hopeless.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(refused) = reply.and_then(Reply::refuses_keys)
            && self.hosts.is_single()
        {
            let keys = if client.has_keys() {
                "other keys"
            } else {
                "a key"
            };
            hopeless.get_or_insert_with(|| {
                format!(
                    "{refused}: give {keys} with --key-env or --key-file, and run the same \
                     command again"
                )
            });
        }
        hopeless.take()
    }

    /// Asks the limiter until there is an end, on the key `pin` if one is named. No reply: the run is
    /// being stopped, and nothing was sent.
    pub(super) async fn attempts(
        &self,
        client: &Client,
        request: &Request,
        pin: Option<Fingerprint>,
        mark: &Arc<Mark>,
    ) -> End {
        let mut line = Line::new(mark, request, self.replay, self.clock.now());
        let (mut probed, mut last) = (0, (None, None));
        loop {
            match self
                .wait_for_fair_weather(&client.outage, &mut probed)
                .await
            {
                Weather::Fair => mark.set_probes(false),
                Weather::Doubtful => mark.set_probes(true),
                Weather::Stopping => return last,
                Weather::Never => return self.gone(client, last),
            }
            line.began = self.clock.now();
            let (reply, report) = self.once(client, request, pin, mark).await;
            if mark.was_turned_back() && !self.door.is_shut() {
                if reply.is_answer() {
                    last = (Some(reply.not_final()), report);
                }
                if !mark.is_used_up() {
                    continue;
                }
                if let (None, Some((cause, sent))) = (&last.0, mark.broke()) {
                    last.0 = Some(Reply::network(cause, sent).not_final());
                }
                return last;
            }
            let why = report.as_ref().and_then(|report| report.why);
            let stopping = self.door.is_shut();
            if matches!(reply.trouble(why), Some(Trouble::Declined(_))) {
                mark.on_refused();
            }
            match line.next(client, &reply, why, stopping, self.clock.now()) {
                Next::Return if line.replayable => return (Some(reply), report),
                Next::Return => return (Some(reply.doubtful()), report),
                Next::Leave if line.replayable => return (Some(reply.not_final()), report),
                Next::Leave => return (Some(reply.not_final().doubtful()), report),
                Next::Again => {}
                Next::AgainAfter(pause) => {
                    line.paused += pause;
                    self.pause(pause).await;
                }
            }
            line.repeats += 1;
            last = (Some(reply.not_final()), report);
        }
    }

    /// Through the limiter, and the answer read.
    async fn once(
        &self,
        client: &Client,
        request: &Request,
        pin: Option<Fingerprint>,
        mark: &Arc<Mark>,
    ) -> (Reply, Option<Report>) {
        let mut extensions = Extensions::new();
        let mut ask = request.ask.clone();
        if pin.is_some() {
            ask.pin = pin;
        }
        if pin.is_some() {
            // It has had its turn: what was behind it must not go first.
            ask.priority = Priority(u8::MAX);
        }
        extensions.insert(ask);
        let begins = (!mark.probes()).then(|| client.outage.begins());
        if let Some(begins) = &begins {
            // What waits for its turn when an outage begins gives its place up, and takes none of
            // what the limits allow.
            extensions.insert(Until(begins.clone()));
        }
        extensions.insert(client.hold);
        extensions.insert(Arc::clone(mark));
        let mut sent = request.to_reqwest();
        *sent.timeout_mut() = self.timeout;
        let sent = client.http.execute_with_extensions(sent, &mut extensions);
        let result = sent.await;
        if begins.is_some_and(|begins| begins.is_cancelled()) && has_given_up_waiting(&result) {
            mark.turn_back();
        }
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                let closed = crate::Error::of(&error).is_some_and(crate::Error::is_closed);
                // The last word is what broke it, not that the run is being stopped.
                let reply = match mark.broke().filter(|_| closed) {
                    Some((cause, sent)) => Reply::network(cause, sent),
                    None => Reply::of_error(&error),
                };
                return (reply, None);
            }
        };
        let flying = self.door.fly(mark);
        let report = response.extensions().get::<Report>().cloned();
        let (profile, secrets) = (&client.profile, &self.secrets);
        let read = Reply::read(
            response,
            request,
            report.as_ref(),
            profile,
            secrets,
            &self.clock,
        );
        let read = read.await;
        drop(flying);
        let reply = match read {
            Ok(reply) => reply,
            Err(Unread::TooLarge) => Reply::too_large(),
            Err(Unread::Undecodable(error)) => Reply::undecodable(&error),
            Err(Unread::Broken(error)) => {
                Reply::network(transport::describe_transport(&error), true)
            }
        };
        (reply, report)
    }

    /// The end of a line whose provider was waited for in vain.
    fn gone(&self, client: &Client, (reply, report): End) -> End {
        let verdict = client.outage.verdict(self.clock.now());
        let sent = reply.is_some();
        if self.hosts.is_single() {
            let mut hopeless = self.hopeless.lock().unwrap_or_else(PoisonError::into_inner);
            hopeless.get_or_insert(verdict);
            return (reply, report);
        }
        let reply = reply.unwrap_or_else(|| Reply::network(verdict, sent));
        (Some(reply), report)
    }

    fn prepare(&self, profile: &Profile, request: &mut Request, id: RequestId) {
        let by_profile = || profile.idempotency_header().map(HeaderName::from_static);
        let header = self.idempotency_header.clone().or_else(by_profile);
        let known = header.is_some() || request.headers.contains_key(IDEMPOTENCY);
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

    /// Waits for a share of the budget of tokens. False if the run is being stopped.
    async fn share(&self, client: &Client, request: &Request) -> bool {
        let ceilings = client.settings.ceilings.iter();
        let tokens = ceilings.filter(|ceiling| ceiling.dimension() == Dimension::Tokens);
        let window = tokens.map(|ceiling| ceiling.amount()).min();
        if self.budget.is_none() && window.is_none() {
            return true;
        }
        let body = request.body.as_deref().unwrap_or_default();
        let estimate = feedback::estimate(request.url.path(), body).map_or(0, |cost| {
            u64::from(cost.input_tokens) + u64::from(cost.output_tokens)
        });
        if let Some(window) = window.filter(|window| estimate > *window) {
            self.oversized.get_or_init(|| {
                format!(
                    "a request takes about {estimate} tokens, and --rate allows {window} at once: \
                     such a request waits for a whole window and goes beyond it"
                )
            });
        }
        let Some(budget) = &self.budget else {
            return true;
        };
        loop {
            let settled = budget.settled.notified();
            match budget.enter(estimate) {
                _ if self.door.is_shut() => return false,
                true => return true,
                false => tokio::select! {
                    () = settled => {}
                    () = self.stopping.cancelled() => {}
                },
            }
        }
    }

    async fn pause(&self, pause: Duration) {
        tokio::select! {
            () = self.stopping.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Whether the token that ends its waits did, before its first attempt or before a repeat.
fn has_given_up_waiting(result: &reqwest_middleware::Result<reqwest::Response>) -> bool {
    match result {
        Ok(response) => {
            let report = response.extensions().get::<Report>();
            report.is_some_and(|report| report.why == Some(GaveUp::Cancelled))
        }
        Err(error) => crate::Error::of(error).is_some_and(crate::Error::is_cancelled),
    }
}

/// The reply to a line as its record has it.
fn recorded(
    reply: &Reply,
    report: Option<&Report>,
    id: RequestId,
    custom_id: &str,
    attempts: u32,
    took: Duration,
) -> Recorded {
    // What was never sent has done nothing but wait.
    let idle = if attempts == 0 { took } else { Duration::ZERO };
    let key = report.map(|report| report.key);
    let record = Record {
        id,
        custom_id,
        ending: reply.ending(),
        attempts,
        key: key.filter(|key| *key != Fingerprint::ANONYMOUS),
        waited: report.map_or(idle, |report| report.waited),
        took,
        last: reply.state().is_final(),
    };
    Recorded::of(reply, &record)
}

/// What came of a line last.
pub(super) type End = (Option<Reply>, Option<Report>);

/// Who gives a line this header knows that the server understands it.
const IDEMPOTENCY: &str = "idempotency-key";

/// Paths of calls that generate: doing them twice costs money and harms nothing.
const GENERATION: [&str; 4] = [
    "/chat/completions",
    "/responses",
    "/messages",
    "/embeddings",
];
