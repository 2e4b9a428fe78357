//! One line of the output: how a request ended, in the Batch output form with paceline's additions.
//!
//! A record is one line whatever the server sent: raw line breaks can stand only between the
//! tokens of a JSON body, and become spaces there.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::scheduler::events::Fingerprint;

use super::content::Form;
use super::ids::State;

/// How a request ended.
#[derive(Clone, Debug)]
pub(crate) struct Record<'a> {
    /// The same as the `Idempotency-Key` that the request carries where the server knows it.
    pub(crate) id: RequestId,
    pub(crate) custom_id: &'a str,
    pub(crate) ending: Ending<'a>,
    pub(crate) attempts: u32,
    /// The key of the last attempt.
    pub(crate) key: Option<Fingerprint>,
    /// Not being sent.
    pub(crate) waited: Duration,
    /// From the first wait to the end of the answer.
    pub(crate) took: Duration,
    /// Whether nothing is left to do.
    pub(crate) last: bool,
}

/// With an answer, or without.
#[derive(Clone, Debug)]
pub(crate) enum Ending<'a> {
    Answer {
        status: u16,
        request_id: Option<&'a str>,
        form: Form,
        body: &'a [u8],
        /// Why it is none, though its status says so.
        flaw: Option<(Code, &'a str)>,
    },
    Failure {
        code: Code,
        message: &'a str,
    },
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Code {
    Deadline,
    NeverSent,
    Network,
    Cancelled,
    BadLine,
    TooLarge,
    /// Sent, and not to be sent again.
    Unanswered,
    /// A page for people came.
    Html,
    /// The body says that it failed, the status that it did not.
    Failed,
    /// It is not packed as its headers say.
    Undecodable,
}

impl Code {
    /// The code as it stands in a record.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::NeverSent => "never_sent",
            Self::Network => NETWORK,
            Self::Cancelled => "cancelled",
            Self::BadLine => "bad_line",
            Self::TooLarge => "too_large",
            Self::Unanswered => UNANSWERED,
            Self::Html => "html",
            Self::Failed => "failed",
            Self::Undecodable => "undecodable",
        }
    }
}

/// What tells a request apart at the server and in the output: a hash of its line and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(pub(crate) u128);

impl RequestId {
    /// How far into a record it goes.
    pub(crate) const END: usize = PREFIX.len() + NAME.len() + 32;

    /// The id of the record that begins like this; none if it is none of ours.
    pub(crate) fn at_start_of(record: &[u8; Self::END]) -> Option<Self> {
        let text = std::str::from_utf8(record).ok()?;
        let digits = text.strip_prefix(PREFIX)?.strip_prefix(NAME)?;
        u128::from_str_radix(digits, 16).ok().map(Self)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAME}{:032x}", self.0)
    }
}

impl Record<'_> {
    /// Appends the record and its newline to `line`.
    pub(crate) fn write(&self, line: &mut Vec<u8>) {
        put(line, format_args!("{PREFIX}{}\",\"custom_id\":", self.id));
        string(line, self.custom_id);
        match &self.ending {
            Ending::Answer {
                status,
                request_id,
                form,
                body,
                flaw,
            } => {
                put(
                    line,
                    format_args!(",\"response\":{{\"status_code\":{status},\"request_id\":"),
                );
                match request_id {
                    Some(id) => string(line, id),
                    None => line.extend_from_slice(b"null"),
                }
                line.extend_from_slice(b",\"body\":");
                embed(line, body, *form);
                line.extend_from_slice(b"},\"error\":");
                match flaw {
                    Some((code, message)) => error(line, *code, message),
                    None => line.extend_from_slice(b"null"),
                }
            }
            Ending::Failure { code, message } => {
                line.extend_from_slice(b",\"response\":null,\"error\":");
                error(line, *code, message);
            }
        }
        put(
            line,
            format_args!(",\"attempts\":{},\"key\":", self.attempts),
        );
        match self.key {
            Some(key) => put(line, format_args!("\"{key}\"")),
            None => line.extend_from_slice(b"null"),
        }
        let (waited, took) = (self.waited.as_millis(), self.took.as_millis());
        let last = self.last;
        put(
            line,
            format_args!(",\"waited_ms\":{waited},\"took_ms\":{took},\"final\":{last}}}\n"),
        );
    }
}

/// What a record of an earlier run says, as far as a later run needs it.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Stored<'a> {
    #[serde(borrow)]
    pub(crate) custom_id: Cow<'a, str>,
    #[serde(rename = "final")]
    last: bool,
    attempts: u32,
    response: Option<StoredResponse>,
    #[serde(borrow)]
    error: Option<StoredError<'a>>,
}

#[derive(Debug, serde::Deserialize)]
struct StoredError<'a> {
    #[serde(borrow)]
    code: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
}

impl StoredError<'_> {
    fn is_doubtful(&self) -> bool {
        self.code == UNANSWERED
    }
}

#[derive(Debug, serde::Deserialize)]
struct StoredResponse {
    status_code: u16,
}

impl<'a> Stored<'a> {
    /// Reads a line of an output; none if it is no record.
    pub(crate) fn read(line: &'a [u8]) -> Option<Self> {
        // The bytes that are passed over are checked too: half a character is a torn line.
        serde_json::from_str(std::str::from_utf8(line).ok()?).ok()
    }

    /// What the record says about its line.
    pub(crate) fn state(&self) -> State {
        let succeeded = self
            .response
            .as_ref()
            .is_some_and(|response| succeeded(response.status_code))
            && self.error.is_none();
        match self.last {
            true if succeeded => State::Succeeded,
            true if self.error.as_ref().is_some_and(StoredError::is_doubtful) => State::Doubtful,
            true => State::Failed,
            false if self.attempts == 0 => State::Refused,
            false => match &self.error {
                // What the server has said of it is an answer, if not a success.
                Some(error) if self.response.is_some() && error.code != NETWORK => State::Refused,
                Some(error) if !error.message.starts_with(UNSENT) => State::Unanswered,
                _ => State::Refused,
            },
        }
    }
}

/// Whether an answer of this status is a success.
pub(crate) fn succeeded(status: u16) -> bool {
    (200..300).contains(&status)
}

/// Makes a record one that the next run does again.
pub(crate) fn take_back(record: &mut Vec<u8>) {
    if record.ends_with(LAST) {
        record.truncate(record.len() - LAST.len());
        record.extend_from_slice(b"\"final\":false}\n");
    }
}

/// Whether a line without its newline can be the beginning of a record that was cut off.
pub(crate) fn is_torn(line: &[u8]) -> bool {
    let known = PREFIX.as_bytes();
    let length = known.len().min(line.len());
    line[..length] == known[..length]
}

/// JSON as it is, text as a string, other bytes as base64.
fn embed(line: &mut Vec<u8>, body: &[u8], form: Form) {
    let text = match std::str::from_utf8(body) {
        Ok(text) if form != Form::Bytes => text.strip_prefix('\u{feff}').unwrap_or(text),
        _ => {
            line.extend_from_slice(b"{\"base64\":\"");
            line.extend_from_slice(STANDARD.encode(body).as_bytes());
            return line.extend_from_slice(b"\"}");
        }
    };
    if form == Form::Text {
        return string(line, text);
    }
    let start = line.len();
    line.extend_from_slice(text.trim_ascii().as_bytes());
    for byte in &mut line[start..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

fn error(line: &mut Vec<u8>, code: Code, message: &str) {
    put(
        line,
        format_args!("{{\"code\":\"{}\",\"message\":", code.as_str()),
    );
    string(line, message);
    line.push(b'}');
}

fn string(line: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(line, text).expect("a Vec takes every write, and a str is JSON");
}

fn put(line: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    std::io::Write::write_fmt(line, text).expect("a Vec takes every write");
}

/// How an id begins.
const NAME: &str = "paceline-";

/// How the message of an attempt begins that never left.
pub(crate) const UNSENT: &str = "cannot connect";

/// How a final record ends.
const LAST: &[u8] = b"\"final\":true}\n";

const NETWORK: &str = "network";

const UNANSWERED: &str = "unanswered";

/// How every record begins.
const PREFIX: &str = "{\"id\":\"";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::content::Content;
    use super::*;

    fn record(ending: Ending<'_>, attempts: u32, last: bool) -> Vec<u8> {
        let mut line = Vec::new();
        Record {
            id: RequestId(7),
            custom_id: "a\"\n",
            ending,
            attempts,
            key: None,
            waited: Duration::from_micros(1_999),
            took: Duration::from_millis(20),
            last,
        }
        .write(&mut line);
        line
    }

    fn answer(status: u16, says_json: bool, body: &[u8]) -> Vec<u8> {
        let kind = if says_json { "application/json" } else { "" };
        record(
            Ending::Answer {
                status,
                request_id: Some("r1"),
                form: Content::of(body, kind.as_bytes()).form,
                body,
                flaw: None,
            },
            2,
            true,
        )
    }

    fn body(says_json: bool, body: &[u8]) -> String {
        let line = String::from_utf8(answer(200, says_json, body)).expect("UTF-8");
        let start = line.find("\"body\":").expect("a body") + 7;
        line[start..line.find("},\"error\"").expect("its end")].to_owned()
    }

    #[test]
    fn a_record_has_the_batch_output_form() {
        let value: Value = serde_json::from_slice(&answer(200, true, b"{}")).expect("JSON");
        let expected = json!({
            "id": "paceline-00000000000000000000000000000007",
            "custom_id": "a\"\n",
            "response": {"status_code": 200, "request_id": "r1", "body": {}},
            "error": null,
            "attempts": 2, "key": null, "waited_ms": 1, "took_ms": 20, "final": true,
        });
        assert_eq!(value, expected);
        let line = record(
            Ending::Failure {
                code: Code::NeverSent,
                message: "why",
            },
            0,
            false,
        );
        let value: Value = serde_json::from_slice(&line).expect("JSON");
        assert_eq!(
            value["error"],
            json!({"code": "never_sent", "message": "why"})
        );
        assert_eq!(value["response"], Value::Null);
    }

    #[test]
    fn json_is_embedded_as_it_is_but_for_line_breaks() {
        assert_eq!(
            body(true, b" {\"n\" :1.00,\"n\":1e400}\n"),
            "{\"n\" :1.00,\"n\":1e400}"
        );
        assert_eq!(
            body(false, b"{\r\n  \"a\": \"b\\n\"\n}"),
            "{    \"a\": \"b\\n\" }"
        );
        assert_eq!(body(true, b"12"), "12");
        assert_eq!(body(true, "\u{feff}[]".as_bytes()), "[]");
    }

    #[test]
    fn text_is_a_string_and_other_bytes_are_base64() {
        assert_eq!(body(false, b"12"), "\"12\"");
        assert_eq!(body(true, b"{\"cut"), "\"{\\\"cut\"");
        assert_eq!(body(false, b"data: 1\n\n"), "\"data: 1\\n\\n\"");
        assert_eq!(body(true, b""), "\"\"");
        assert_eq!(body(true, b"\"\xff\""), "{\"base64\":\"Iv8i\"}");
    }

    #[test]
    fn a_deep_body_is_embedded_and_the_record_is_read_again() {
        let deep = [vec![b'['; 5_000], vec![b']'; 5_000]].concat();
        let line = answer(200, true, &deep);
        assert_eq!(
            Stored::read(&line).expect("a record").state(),
            State::Succeeded
        );
    }

    #[test]
    fn a_stored_record_tells_whether_something_is_left_to_do() {
        let state = |line: Vec<u8>| Stored::read(&line).expect("a record").state();
        let failure = |code| Ending::Failure { code, message: "" };
        assert_eq!(state(answer(204, false, b"")), State::Succeeded);
        assert_eq!(state(answer(404, false, b"")), State::Failed);
        assert_eq!(
            state(record(failure(Code::BadLine), 0, true)),
            State::Failed
        );
        assert_eq!(
            state(record(failure(Code::Unanswered), 1, true)),
            State::Doubtful
        );
        assert_eq!(
            state(record(failure(Code::Network), 1, false)),
            State::Unanswered
        );
        assert_eq!(
            state(record(failure(Code::NeverSent), 0, false)),
            State::Refused
        );
        let refused = Ending::Answer {
            status: 429,
            request_id: None,
            form: Form::Text,
            body: b"",
            flaw: None,
        };
        assert_eq!(state(record(refused, 10, false)), State::Refused);
        let flawed = |code| Ending::Answer {
            status: 200,
            request_id: None,
            form: Form::Text,
            body: b"",
            flaw: Some((code, "why")),
        };
        for (code, last, expected) in [
            (Code::Html, true, State::Failed),
            (Code::Html, false, State::Refused),
            (Code::Failed, false, State::Refused),
            (Code::Network, false, State::Unanswered),
            (Code::Unanswered, true, State::Doubtful),
        ] {
            assert_eq!(state(record(flawed(code), 1, last)), expected, "{code:?}");
        }
    }

    #[test]
    fn every_cut_of_a_record_is_known_as_torn_and_is_no_record() {
        let mut line = answer(200, true, "{\"é\":1}".as_bytes());
        line.pop();
        for length in 1..line.len() {
            assert!(is_torn(&line[..length]));
            assert!(Stored::read(&line[..length]).is_none(), "{length} bytes");
        }
        assert!(Stored::read(&line).is_some());
        assert!(!is_torn(b"# notes"));
    }
}
