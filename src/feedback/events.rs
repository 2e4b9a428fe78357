//! Errors and usage inside a stream of events that began as a success.
//!
//! A model's answer is often a stream, and what goes wrong after its first word comes as an event.
//! Only what stands where errors and usage stand is believed, never the text of an answer.

use std::time::SystemTime;

use super::json::{self, Scalar};
use super::profile::Profile;
use super::usage::read_usage;
use super::{Class, Feedback, conclude, findings::Findings, nanos};
use super::{body, codes};

/// Reads the data of one event of a stream that was answered with 200, without its `data:`.
///
/// An error is told as a response would tell it, with its class and how long to wait; an event that
/// tells what the call used as a success with its cost. None for all others. `received` is the wall
/// clock at the moment when the event came.
///
/// ```
/// use paceline::feedback::{self, Class, Profile};
/// use std::time::SystemTime;
/// let event = br#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
/// let said = feedback::read_event(&Profile::ANTHROPIC, event, SystemTime::UNIX_EPOCH);
/// assert_eq!(said.map(|said| said.class), Some(Class::Overloaded));
/// let event = br#"{"choices":[{"delta":{"content":"an error"}}]}"#;
/// assert_eq!(feedback::read_event(&Profile::OPENAI, event, SystemTime::UNIX_EPOCH), None);
/// ```
#[must_use]
pub fn read_event(profile: &Profile, data: &[u8], received: SystemTime) -> Option<Feedback> {
    let data = data.trim_ascii();
    // Nearly all events are words of the answer.
    let worth = [&b"\"error\""[..], b"\"usage\"", b"\"usageMetadata\""];
    if !data.starts_with(b"{") || !worth.iter().any(|word| codes::holds(data, word)) {
        return None;
    }
    let status = status(data);
    let mut found = Findings::new(nanos(received));
    body::read(&mut found, profile.vendor(), status.is_some(), data);
    let said = conclude(&mut found, profile.vendor(), status.unwrap_or(200), None);
    if said.class == Class::Ok && said.cost.is_empty() {
        // Usage has the same form everywhere, whether or not the vendor is known.
        return read_usage(data);
    }
    Some(said)
}

/// The status that an event stands for, if it is an error.
fn status(data: &[u8]) -> Option<u16> {
    let mut status = None;
    json::visit(data, |place, scalar| match (place.path, scalar) {
        (_, Scalar::Null) => {}
        ([b"type"], Scalar::Text(b"error" | b"response.failed")) => {
            status = status.or(Some(UNKNOWN));
        }
        ([b"error", ..] | [b"response", b"error", ..], scalar) => {
            let told = match (place.path.last(), scalar) {
                (Some(&(b"code" | b"status" | b"status_code")), Scalar::Number(number)) => {
                    std::str::from_utf8(number).ok()
                }
                _ => None,
            };
            let told = told.and_then(|told| told.parse().ok());
            let told = told.filter(|told| (400..600).contains(told));
            status = told.or(status).or(Some(UNKNOWN));
        }
        _ => {}
    });
    status
}

/// An error that names no status is one of the server's.
const UNKNOWN: u16 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn class(profile: &Profile, event: &str) -> Option<Class> {
        let now = SystemTime::UNIX_EPOCH;
        read_event(profile, event.as_bytes(), now).map(|said| said.class)
    }

    #[test]
    fn each_form_of_an_error_has_its_class() {
        let openai = Profile::OPENAI;
        for (event, expected) in [
            (
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"x"}}"#,
                Class::RateLimited,
            ),
            (
                r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#,
                Class::Transient,
            ),
            (
                r#"{"error":{"message":"The server had an error","type":"server_error","code":null}}"#,
                Class::Transient,
            ),
            (
                r#"{"type":"error","code":"rate_limit_exceeded","message":"x","error":null}"#,
                Class::RateLimited,
            ),
            (
                r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"x"}}}"#,
                Class::RateLimited,
            ),
            (
                r#"{"error":{"code":429,"message":"Rate limit exceeded"}}"#,
                Class::RateLimited,
            ),
            (
                r#"{"error":{"code":"insufficient_quota","message":"x"}}"#,
                Class::QuotaExhausted,
            ),
        ] {
            assert_eq!(class(&openai, event), Some(expected), "{event}");
        }
    }

    #[test]
    fn what_is_no_error_is_none() {
        for event in [
            "[DONE]",
            "",
            r#"{"type":"response.completed","response":{"error":null,"output":"\"error\""}}"#,
            r#"{"choices":[{"delta":{"content":"{\"error\":1}"}}],"usage":null}"#,
            r#"{"error":null}"#,
            r#"{"error":"#,
        ] {
            assert_eq!(class(&Profile::OPENAI, event), None, "{event}");
        }
    }

    #[test]
    fn usage_is_told_as_a_cost() {
        let event = br#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}"#;
        for profile in [Profile::OPENAI, Profile::default()] {
            let said = read_event(&profile, event, SystemTime::UNIX_EPOCH).expect("a cost");
            assert_eq!(said.class, Class::Ok);
            assert!(said.cost.contains(&(super::super::Dimension::Tokens, 12.0)));
        }
    }
}
