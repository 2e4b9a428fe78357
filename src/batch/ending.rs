//! What an answer or the lack of one means for its line: whether it is done, and for good.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use http::{HeaderMap, StatusCode};
use reqwest::Response;

use crate::client::{Clock, Report};
use crate::error::Error;
use crate::feedback::{self, Class, Profile};
use crate::scheduler::events::GaveUp;

use super::content::{Content, Failure, Flaw, Form};
use super::ids::State;
use super::meaning::Meaning;
use super::record::{self, Code, Ending};
use super::request::Request;
use super::said;
use super::secrets::Secrets;
use super::tally::Why;
use super::transport::{self, Unread, describe, is_unsent, last_cause};
use super::usage;

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The server answered.
    Answer(Answer),
    /// It did not, or too much.
    Failure {
        code: Code,
        message: String,
        /// Whether the server may have processed it.
        sent: bool,
        /// Whether the server refuses every key.
        no_key: bool,
    },
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    form: Form,
    pub(super) meaning: Meaning,
    /// In a few words, why it is no success.
    pub(super) said: Option<String>,
}

/// What the trouble of a request is that might go away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It was refused as often as it may be.
    Refused,
    /// A success held nothing but a refusal, with this wait: the limiter has let it pass.
    Declined(Duration),
    /// It never left: there was no connection.
    Unsent,
    /// It had no answer, or an error of the server's own.
    Failed,
}

impl Reply {
    /// Reads a whole answer.
    ///
    /// # Errors
    ///
    /// Its body breaks off, or is larger than [`LARGEST`].
    pub(crate) async fn read(
        mut response: Response,
        request: &Request,
        report: Option<&Report>,
        profile: &Profile,
        secrets: &Secrets,
        clock: &Clock,
    ) -> Result<Self, Unread> {
        let body = transport::body(&mut response, LARGEST).await?;
        let body = secrets.hidden(&body).map_or(body, Bytes::from);
        let (status, headers) = (response.status(), response.headers());
        let kind = headers.get(CONTENT_TYPE);
        let kind = kind.map_or(b"".as_slice(), HeaderValue::as_bytes);
        let content = Content::of(&body, kind);
        let why = report.and_then(|report| report.why);
        let heard = |status| {
            let slice = &body[..body.len().min(SLICE)];
            let said = feedback::read(profile, status, headers, Some(slice), clock.wall());
            Meaning::of_error(&said, why)
        };
        let succeeded = record::succeeded(status.as_u16());
        let target = request.redirected_to(response.url());
        let mut meaning = match content.flaw.filter(|_| succeeded) {
            Some(Flaw::Page) if request.wants_no_page(target.as_deref()) => {
                let page = said::page(&body, target.as_deref());
                Meaning::new(State::Failed, Class::Fatal).flawed(Code::Html, page)
            }
            Some(Flaw::Cut) => Meaning::new(State::Unanswered, Class::Transient)
                .flawed(Code::Network, CUT.to_owned()),
            // As if it had said so by its status.
            Some(Flaw::Error) => heard(StatusCode::BAD_REQUEST).said(&body, true),
            _ if succeeded => match Failure::of(&body, kind, profile, clock.wall()) {
                Some(failure) => Meaning::of_failure(&failure, why),
                None => Meaning::new(State::Succeeded, Class::Ok),
            },
            // The limiter has repeated it as often as it may be.
            _ => Meaning {
                declined: None,
                ..heard(status)
            },
        };
        if let Some((_, flaw)) = &mut meaning.flaw {
            *flaw = secrets.masked(std::mem::take(flaw));
        }
        let mut answer = Answer {
            status,
            headers: std::mem::take(response.headers_mut()),
            body,
            form: content.form,
            meaning,
            said: None,
        };
        answer.said = answer.why_not().map(|said| secrets.masked(said));
        Ok(Self::Answer(answer))
    }

    /// What became of a request without an answer.
    pub(crate) fn of_error(error: &reqwest_middleware::Error) -> Self {
        let Some(refused) = Error::of(error) else {
            return Self::network(describe(error), !is_unsent(error));
        };
        let code = match refused {
            error if error.is_deadline() => Code::Deadline,
            error if error.is_too_large() => Code::TooLarge,
            error if error.is_cancelled() => Code::Cancelled,
            _ => Code::NeverSent,
        };
        let (message, sent) = (refused.to_string(), refused.was_sent());
        Self::Failure {
            code,
            message,
            sent,
            no_key: refused.is_all_keys_faulty(),
        }
    }

    /// A request that broke off on the way.
    pub(crate) fn network(message: String, sent: bool) -> Self {
        Self::failure(Code::Network, message, sent)
    }

    fn failure(code: Code, message: String, sent: bool) -> Self {
        Self::Failure {
            code,
            message,
            sent,
            no_key: false,
        }
    }

    /// A request whose answer is not kept.
    pub(crate) fn too_large() -> Self {
        let message = format!("the answer is larger than {} MiB", LARGEST >> 20);
        Self::failure(Code::TooLarge, message, true)
    }

    /// A request whose answer cannot be unpacked. Another one would be packed the same way, and
    /// may cost as much.
    pub(crate) fn undecodable(error: &reqwest::Error) -> Self {
        let message = format!(
            "the answer came, and is not packed as its headers say (content-encoding): {}",
            last_cause(error)
        );
        Self::failure(Code::Undecodable, message, true)
    }

    /// A request that was taken back while it was in flight.
    pub(crate) fn cancelled() -> Self {
        let message = "the run was stopped while it was in flight".to_owned();
        Self::failure(Code::Cancelled, message, true)
    }

    /// What it means for its line.
    pub(crate) fn state(&self) -> State {
        match self {
            Self::Answer(answer) => answer.meaning.state,
            Self::Failure {
                code: Code::TooLarge | Code::BadLine | Code::Undecodable,
                ..
            } => State::Failed,
            Self::Failure {
                code: Code::Unanswered,
                ..
            } => State::Doubtful,
            Self::Failure { sent: true, .. } => State::Unanswered,
            Self::Failure { sent: false, .. } => State::Refused,
        }
    }

    /// The reason under which it is counted.
    pub(crate) fn why(&self) -> Why {
        match self {
            Self::Answer(answer) => match answer.meaning.flaw {
                Some((code, _)) => Why::Code(code),
                None => Why::Status(answer.status.as_u16()),
            },
            Self::Failure { code, .. } => Why::Code(*code),
        }
    }

    /// Whether the server answered.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::Answer(_))
    }

    /// Whether it is a success.
    pub(crate) fn is_served(&self) -> bool {
        self.state() == State::Succeeded
    }

    /// Whether it is forbidden, and the server does not say that it means the key.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Answer(answer) if answer.status == StatusCode::FORBIDDEN
            && answer.meaning.state == State::Failed)
    }

    /// What stands in its record.
    pub(crate) fn ending(&self) -> Ending<'_> {
        match self {
            Self::Answer(answer) => answer.ending(),
            Self::Failure { code, message, .. } => Ending::Failure {
                code: *code,
                message,
            },
        }
    }

    /// What the server says to every key, if it refuses them all.
    pub(crate) fn refuses_keys(&self) -> Option<&str> {
        match self {
            Self::Failure {
                no_key: true,
                message,
                ..
            } => message.split(':').next(),
            _ => None,
        }
    }

    /// What its trouble is, if that might go away by itself. `why` is why it was given up.
    pub(crate) fn trouble(&self, why: Option<GaveUp>) -> Option<Trouble> {
        match self {
            Self::Answer(answer) if answer.is_cut() => Some(Trouble::Failed),
            Self::Answer(Answer {
                meaning:
                    Meaning {
                        declined: Some(wait),
                        class,
                        ..
                    },
                ..
            }) => match class {
                Class::RateLimited | Class::Overloaded | Class::QuotaExhausted => {
                    Some(Trouble::Declined(*wait))
                }
                Class::Transient => Some(Trouble::Failed),
                _ => None,
            },
            Self::Answer(answer) => match (answer.meaning.class, why) {
                (
                    Class::Transient,
                    Some(GaveUp::Attempts | GaveUp::Budget | GaveUp::NotReplayable),
                ) => Some(Trouble::Failed),
                (
                    Class::RateLimited | Class::Overloaded | Class::QuotaExhausted,
                    Some(GaveUp::Attempts),
                ) => Some(Trouble::Refused),
                _ => None,
            },
            Self::Failure {
                code: Code::Network,
                sent,
                ..
            } => Some(if *sent {
                Trouble::Failed
            } else {
                Trouble::Unsent
            }),
            Self::Failure { .. } => None,
        }
    }

    /// Whether it is an error that a gateway gives for a server that it does not reach, or none.
    pub(crate) fn is_of_the_way(&self) -> bool {
        match self {
            Self::Answer(answer) => matches!(answer.status.as_u16(), 502..=504 | 520..=530),
            Self::Failure { .. } => true,
        }
    }

    /// The same, to be done again by the next run: the trouble was not its own.
    pub(crate) fn not_final(mut self) -> Self {
        if let Self::Answer(answer) = &mut self
            && answer.meaning.state == State::Failed
        {
            answer.meaning.state = State::Refused;
        }
        self
    }

    /// The same of a request that must not be sent twice: where no answer came, or not all of one,
    /// the server may have done it.
    pub(crate) fn doubtful(mut self) -> Self {
        match &mut self {
            Self::Failure {
                code: code @ Code::Network,
                message,
                sent: true,
                ..
            } => {
                *code = Code::Unanswered;
                message.push_str(DOUBT);
            }
            Self::Answer(answer) if answer.is_cut() => {
                answer.meaning.state = State::Doubtful;
                let doubt = format!("{CUT}{DOUBT}");
                answer.said = Some(doubt.clone());
                answer.meaning.flaw = Some((Code::Unanswered, doubt));
            }
            _ => {}
        }
        self
    }

    /// In a few words, why it did not succeed.
    pub(crate) fn cause(&self) -> Option<String> {
        match self {
            Self::Answer(answer) => answer.said.clone(),
            Self::Failure { message, .. } => Some(message.clone()),
        }
    }

    /// The tokens that it says were used, if it says so.
    pub(crate) fn tokens(&self) -> Option<u64> {
        match self {
            Self::Answer(answer) => usage::tokens(&answer.body),
            Self::Failure { .. } => None,
        }
    }

    /// How large its record will be, roughly.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Answer(answer) => answer.body.len(),
            Self::Failure { message, .. } => message.len(),
        }
    }
}

impl Answer {
    fn ending(&self) -> Ending<'_> {
        let text = |name: &&str| {
            self.headers
                .get(*name)
                .and_then(|value| value.to_str().ok())
        };
        let flaw = self.meaning.flaw.as_ref();
        Ending::Answer {
            status: self.status.as_u16(),
            request_id: REQUEST_IDS.iter().find_map(text),
            form: self.form,
            body: &self.body,
            flaw: flaw.map(|(code, said)| (*code, said.as_str())),
        }
    }

    fn is_cut(&self) -> bool {
        matches!(self.meaning.flaw, Some((Code::Network, _)))
    }

    /// In a few words, why it is no success.
    fn why_not(&self) -> Option<String> {
        match &self.meaning.flaw {
            _ if self.meaning.state == State::Succeeded => None,
            Some((_, said)) => Some(said.clone()),
            None => self.redirects().or_else(|| said::message(&self.body)),
        }
    }

    /// Where it sends whoever asks, if it does. What stands behind the path may be a secret.
    fn redirects(&self) -> Option<String> {
        let target = self
            .headers
            .get(LOCATION)
            .filter(|_| self.status.is_redirection());
        let target = target?.to_str().ok()?;
        let end = target.find(['?', '#']).unwrap_or(target.len());
        Some(format!("it redirects to {}", &target[..end]))
    }
}

/// What is said of what the server may have done.
const DOUBT: &str = "; the server may have done it, so it is not sent again unless --retry-failed \
                     or --replay always says so";

/// What is said of an answer that ends before its JSON does.
const CUT: &str = "the answer broke off: it ends in the middle of its JSON";

/// The largest answer that is kept: as the longest line that is read. An answer without end would
/// fill the memory.
const LARGEST: usize = 64 << 20;

/// As much of a body as classification looks at.
const SLICE: usize = 8 << 10;

/// Where servers put the id of a request, the usual ones first.
const REQUEST_IDS: [&str; 5] = [
    "x-request-id",
    "request-id",
    "x-amzn-requestid",
    "x-ms-request-id",
    "cf-ray",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_final_only_where_another_run_would_end_the_same() {
        let state = |code, sent| {
            let message = String::new();
            Reply::Failure {
                code,
                message,
                sent,
                no_key: false,
            }
            .state()
        };
        assert_eq!(state(Code::TooLarge, true), State::Failed);
        assert_eq!(state(Code::Network, true), State::Unanswered);
        assert_eq!(state(Code::Unanswered, true), State::Doubtful);
        assert_eq!(state(Code::Network, false), State::Refused);
        assert_eq!(state(Code::Deadline, false), State::Refused);
    }
}
