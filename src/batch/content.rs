//! What the body of an answer is, and what is wrong with one that came with a success.
//!
//! A status of 200 is no promise: a proxy sends its login page with it, a gateway half a body, and
//! some APIs say in it that they failed. An alarm that is false would be as bad as none, so each
//! sign has to be clear: a body is cut if it is called JSON and ends in the middle of it; it is an
//! error if it has an `error` that says something and no result beside it; a stream of events has
//! failed if nothing but formalities comes after its error.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::feedback::{self, Feedback, Profile};

/// The body of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) form: Form,
    /// What is wrong with it, if it came with a success.
    pub(crate) flaw: Option<Flaw>,
}

/// How a body is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Text,
    /// No UTF-8.
    Bytes,
}

/// What is wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It is a page for people; whether that is wrong depends on what was asked for.
    Page,
    /// It is called JSON and ends in the middle of it.
    Cut,
    /// It says that the request failed.
    Error,
}

impl Content {
    /// The body with this content type; empty if it has none. JSON is what says so or looks like
    /// it, and is.
    pub(crate) fn of(body: &[u8], kind: &[u8]) -> Self {
        let Ok(text) = std::str::from_utf8(body) else {
            return Form::Bytes.with(None);
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_ascii();
        let says_json = says(kind, b"json");
        if says(kind, b"html") || (kind.is_empty() && is_page(text)) {
            return Form::Text.with(Some(Flaw::Page));
        }
        if text.is_empty() || !(says_json || text.starts_with(['{', '['])) {
            return Form::Text.with(None);
        }
        match Head::read(text) {
            Ok(head) => Form::Json.with(head.is_error().then_some(Flaw::Error)),
            Err(error) if says_json && error.is_eof() => Form::Text.with(Some(Flaw::Cut)),
            Err(_) if says_json && is_page(text) => Form::Text.with(Some(Flaw::Page)),
            Err(_) => Form::Text.with(None),
        }
    }
}

/// A stream of events that ends in an error.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// What the error says, if that is more than that there is one.
    pub(crate) said: Option<Feedback>,
    /// The data of its event.
    pub(crate) data: String,
    /// Whether nothing of an answer came before it.
    pub(crate) is_all: bool,
}

impl Failure {
    /// The failure in which a body with this content type ends, if it is a stream and does.
    pub(crate) fn of(
        body: &[u8],
        kind: &[u8],
        profile: &Profile,
        received: SystemTime,
    ) -> Option<Self> {
        if !says(kind, b"event-stream") {
            return None;
        }
        // Nearly all streams have none.
        memchr::memmem::find(body, b"error").or_else(|| memchr::memmem::find(body, FAILED))?;
        let text = std::str::from_utf8(body).ok()?;
        let (mut failure, mut is_all) = (None, true);
        for data in events(text) {
            let Ok(event) = serde_json::from_str::<Event<'_>>(&data) else {
                is_all &= data == DONE;
                continue;
            };
            if event.is_error() {
                failure.get_or_insert_with(|| Self {
                    said: feedback::read_event(profile, data.as_bytes(), received),
                    data: data.clone().into_owned(),
                    is_all,
                });
            } else if event.delivers() {
                (failure, is_all) = (None, false);
            }
        }
        failure
    }
}

/// The data of each event of a stream.
fn events(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let mut lines = text.lines();
    std::iter::from_fn(move || {
        let mut data: Option<Cow<'_, str>> = None;
        for line in lines.by_ref() {
            if let Some(more) = line.strip_prefix("data:") {
                let more = more.strip_prefix(' ').unwrap_or(more);
                data = Some(match data {
                    None => more.into(),
                    Some(data) => format!("{data}\n{more}").into(),
                });
            } else if line.is_empty() && data.is_some() {
                break;
            }
        }
        data
    })
}

/// What of an event tells whether it fails, and whether it is a part of an answer.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Option<BTreeMap<Cow<'a, str>, &'a RawValue>>,
}

impl Event<'_> {
    fn is_error(&self) -> bool {
        matches!(self.kind.as_deref(), Some("error" | "response.failed"))
            || self.error.is_some_and(says_error)
    }

    fn delivers(&self) -> bool {
        let says = |choice: &Choice<'_>| match &choice.delta {
            Some(delta) => delta
                .iter()
                .any(|(name, value)| name != "role" && !is_empty(value)),
            None => true,
        };
        match (self.kind.as_deref(), &self.choices) {
            (Some(kind), _) => !FORMALITIES.contains(&kind),
            (None, Some(choices)) => choices.iter().any(says),
            (None, None) => true,
        }
    }
}

impl Form {
    fn with(self, flaw: Option<Flaw>) -> Content {
        Content { form: self, flaw }
    }
}

/// What of an object tells an error from an answer. The rest is only checked.
#[derive(Default, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    errors: Option<&'a RawValue>,
    /// Where APIs put results: what has one is an answer, whatever stands beside it.
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    results: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    candidates: Option<&'a RawValue>,
}

impl<'a> Head<'a> {
    fn read(text: &'a str) -> serde_json::Result<Self> {
        let whole = || serde_json::from_str::<IgnoredAny>(text).map(|_| Self::default());
        if !text.starts_with('{') {
            return whole();
        }
        match serde_json::from_str(text) {
            // A field that stands twice is JSON still.
            Err(error) if error.is_data() => whole(),
            read => read,
        }
    }

    fn is_error(&self) -> bool {
        let results = [
            self.data,
            self.result,
            self.results,
            self.choices,
            self.output,
            self.content,
            self.candidates,
        ];
        if results.into_iter().flatten().any(|raw| !is_empty(raw)) {
            return false;
        }
        // GraphQL's.
        let several = self.errors.is_some_and(|raw| {
            serde_json::from_str::<Vec<Fault<'_>>>(raw.get())
                .is_ok_and(|errors| errors.iter().any(Fault::says_something))
        });
        several || self.error.is_some_and(says_error)
    }
}

/// An error as an object.
#[derive(Deserialize)]
struct Fault<'a> {
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    code: Option<&'a RawValue>,
}

impl Fault<'_> {
    fn says_something(&self) -> bool {
        let says = |raw: Option<&RawValue>| raw.is_some_and(|raw| !is_empty(raw));
        match self.code.map(RawValue::get) {
            // `{"code": 0, "message": "ok"}` is how some say that there was none.
            Some("0" | "\"0\"" | "200") => false,
            _ => says(self.message) || says(self.kind) || says(self.code),
        }
    }
}

/// Whether the value of `error` says that there was one. A number may be what was measured.
fn says_error(raw: &RawValue) -> bool {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'"') => {
            let said = text.trim_matches('"').trim().to_ascii_lowercase();
            !NO_ERROR.contains(&said.as_str())
        }
        Some(b'{') => {
            serde_json::from_str::<Fault<'_>>(text).is_ok_and(|fault| fault.says_something())
        }
        _ => text == "true",
    }
}

fn is_empty(raw: &RawValue) -> bool {
    let inner = raw.get().trim_matches(['"', '[', ']', '{', '}']);
    inner.trim().is_empty() || raw.get() == "null"
}

/// Whether a content type has this in its name.
fn says(kind: &[u8], name: &[u8]) -> bool {
    kind.windows(name.len())
        .any(|part| part.eq_ignore_ascii_case(name))
}

fn is_page(text: &str) -> bool {
    let starts = |tag: &str| {
        text.get(..tag.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(tag))
    };
    starts("<!doctype html") || starts("<html")
}

/// Events that hold nothing of an answer: of Anthropic's Messages and OpenAI's Responses.
const FORMALITIES: [&str; 6] = [
    "message_start",
    "message_stop",
    "ping",
    "response.created",
    "response.queued",
    "response.in_progress",
];

/// How a failure of OpenAI's Responses is called, which may come without an `error`.
const FAILED: &[u8] = b"response.failed";

/// How OpenAI's streams end.
const DONE: &str = "[DONE]";

/// What stands in `error` where there was none.
const NO_ERROR: [&str; 7] = ["", "0", "none", "null", "no error", "ok", "success"];

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = "application/json; charset=utf-8";

    fn of(body: &str, kind: &str) -> (Form, Option<Flaw>) {
        let content = Content::of(body.as_bytes(), kind.as_bytes());
        (content.form, content.flaw)
    }

    #[test]
    fn what_apis_really_answer_is_no_flaw() {
        for (body, kind, form) in [
            ("", "", Form::Text),
            ("", JSON, Form::Text),
            ("{}", JSON, Form::Json),
            (" {\"a\": 1}\n", "", Form::Json),
            ("\u{feff}[1,\r\n2]", "text/plain", Form::Json),
            ("OK", JSON, Form::Text),
            ("{\"a\":1}\n{\"b\":", "application/x-ndjson", Form::Text),
            ("{not json", "text/plain", Form::Text),
            ("{\"a\":1,\"a\":2}", JSON, Form::Json),
            ("1e999", JSON, Form::Json),
            ("a,b\n1,2\n", "text/csv", Form::Text),
            ("<?xml version=\"1.0\"?><a/>", "application/xml", Form::Text),
            (
                "data: {\"error\":\"x\"}\n\n",
                "text/event-stream",
                Form::Text,
            ),
            ("{\"error\":null,\"output\":[1]}", JSON, Form::Json),
            ("{\"error\":\"\"}", JSON, Form::Json),
            ("{\"error\":false}", JSON, Form::Json),
            ("{\"error\":0.02}", JSON, Form::Json),
            ("{\"error\":{}}", JSON, Form::Json),
            (
                "{\"error\":{\"code\":0,\"message\":\"ok\"}}",
                JSON,
                Form::Json,
            ),
            ("{\"error\":\"partly\",\"results\":[1]}", JSON, Form::Json),
            ("{\"errors\":[]}", JSON, Form::Json),
            (
                "{\"errors\":[{\"message\":\"x\"}],\"data\":{\"a\":1}}",
                JSON,
                Form::Json,
            ),
            ("[{\"error\":\"x\"}]", JSON, Form::Json),
        ] {
            assert_eq!(of(body, kind), (form, None), "{body:?} as {kind:?}");
        }
        assert_eq!(Content::of(&[0, 255], b"").form, Form::Bytes);
    }

    fn failure(body: &str) -> Option<(Option<feedback::Class>, bool)> {
        let kind = b"text/event-stream; charset=utf-8";
        let failure = Failure::of(
            body.as_bytes(),
            kind,
            &Profile::NONE,
            SystemTime::UNIX_EPOCH,
        )?;
        Some((failure.said.map(|said| said.class), failure.is_all))
    }

    #[test]
    fn a_stream_that_ends_in_an_error_is_no_answer() {
        use feedback::Class::{Overloaded, RateLimited};
        // Each of these was a success.
        let role = r#"data: {"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
        let text = r#"data: {"choices":[{"delta":{"content":"Hi"}}]}"#;
        let limit = r#"data: {"error":{"type":"rate_limit_error","code":"rate_limit_exceeded"}}"#;
        for (events, class, is_all) in [
            (
                vec![
                    "event: message_start\r\ndata: {\"type\":\"message_start\"}\r",
                    "event: error\ndata: {\"type\":\"error\",\ndata: \"error\":{\"type\":\"overloaded_error\"}}",
                ],
                Overloaded,
                true,
            ),
            (vec![limit], RateLimited, true),
            (vec![role, limit, "data: [DONE]"], RateLimited, true),
            (vec![role, text, limit, "data: [DONE]"], RateLimited, false),
            (
                vec![
                    ": keep-alive",
                    "data: {\"type\":\"response.created\"}",
                    "data:{\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_is_overloaded\"}}}",
                ],
                Overloaded,
                true,
            ),
        ] {
            for end in ["", "\n\n"] {
                let body = events.join("\n\n") + end;
                assert_eq!(failure(&body), Some((Some(class), is_all)), "{body}");
            }
        }
    }

    #[test]
    fn a_stream_whose_error_is_not_its_end_or_none_has_not_failed() {
        for body in [
            "data: {\"type\":\"error\"}\n\ndata: {\"type\":\"content_block_delta\"}\n\n",
            "data: {\"error\":0.02,\"step\":1}\n\n",
            "data: {\"type\":\"response.completed\",\"error\":null}\n\n",
            "data: {\"text\":\"{\\\"error\\\":\\\"x\\\"}\"}\n\n",
            "data: an error\n\n",
            "",
        ] {
            assert_eq!(failure(body), None, "{body}");
        }
        let json = b"{\"error\":\"x\"}";
        let received = SystemTime::UNIX_EPOCH;
        assert!(Failure::of(json, b"application/json", &Profile::NONE, received).is_none());
    }

    #[test]
    fn what_is_no_answer_is_told_by_clear_signs() {
        for (body, kind, flaw) in [
            ("<b>hi</b>", "text/html", Flaw::Page),
            ("<!DOCTYPE html><html>", "", Flaw::Page),
            ("<html><body>", JSON, Flaw::Page),
            ("{\"choices\":[{\"text\":\"hel", JSON, Flaw::Cut),
            ("[1,2", "application/vnd.api+json", Flaw::Cut),
            (
                "{\"error\":{\"message\":\"no such model\"}}",
                JSON,
                Flaw::Error,
            ),
            ("{\"error\":\"quota exceeded\"}", "", Flaw::Error),
            (
                "{\"status\":\"failed\",\"output\":[],\"error\":{\"code\":\"server_error\"}}",
                JSON,
                Flaw::Error,
            ),
            ("{\"error\":true,\"message\":\"x\"}", JSON, Flaw::Error),
            (
                "{\"errors\":[{\"message\":\"x\"}],\"data\":null}",
                JSON,
                Flaw::Error,
            ),
        ] {
            assert_eq!(of(body, kind).1, Some(flaw), "{body:?} as {kind:?}");
        }
    }
}
