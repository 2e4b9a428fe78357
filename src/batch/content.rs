//! What the body of an answer is, and what is wrong with one that came with a success.
//!
//! A status of 200 is no promise: a proxy sends its login page with it, a gateway half a body, and
//! some APIs say in it that they failed. An alarm that is false would be as bad as none, so each
//! sign has to be clear: a body is cut if it is called JSON and ends in the middle of it; it is an
//! error if it has an `error` that says something and no result beside it.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

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
        let says = |name: &[u8]| memchr::memmem::find(&kind.to_ascii_lowercase(), name).is_some();
        let says_json = says(b"json");
        if says(b"html") || (kind.is_empty() && is_page(text)) {
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

fn is_page(text: &str) -> bool {
    let starts = |tag: &str| {
        text.get(..tag.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(tag))
    };
    starts("<!doctype html") || starts("<html")
}

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
