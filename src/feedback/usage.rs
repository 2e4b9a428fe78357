//! What a call used, at the end of a body that is too long to be read whole.
//!
//! An answer of a language model stands before its usage, and can be of any length: whoever passes a
//! body on keeps its last bytes and gives them here. Text inside an answer cannot pass for usage,
//! since the quotes of a name inside a string have backslashes before them.

use super::findings::Findings;
use super::json::{self, Scalar};
use super::spending::Spending;
use super::{Feedback, body};

/// Reads the usage near the end of a JSON body. `tail` is the body, or its end: a kibibyte is
/// enough for every known vendor, and more than 8 KiB are not looked at. None if it tells no usage.
///
/// ```
/// use paceline::feedback::{self, Dimension};
/// let tail = br#"is all I know."}}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#;
/// let said = feedback::read_usage(tail).expect("it tells its usage");
/// assert!(said.cost.contains(&(Dimension::OutputTokens, 3.0)));
/// ```
#[must_use]
pub fn read_usage(tail: &[u8]) -> Option<Feedback> {
    let tail = &tail[tail.len().saturating_sub(body::MOST)..];
    let mut rest = tail;
    loop {
        let (before, object) = last(rest)?;
        let mut found = Findings::new(0);
        let mut spending = Spending::default();
        json::visit(object, |place, scalar| {
            let (Scalar::Number(tokens), [outer @ .., name]) = (scalar, place.path) else {
                return;
            };
            match outer {
                // What follows the usage begins at the same depth, and is another object.
                [] if place.object == 1 => spending.usage(name, &[b"usage"], tokens),
                [_] => spending.usage(name, &[b"usage", outer[0]], tokens),
                _ => {}
            }
        });
        spending.settle(&mut found);
        if !found.cost.is_empty() {
            return Some(Feedback {
                cost: found.cost,
                ..Feedback::default()
            });
        }
        rest = before;
    }
}

/// The last object under a name of usage, and what stands before the name.
fn last(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut end = text.len();
    loop {
        let at = text[..end].iter().rposition(|&byte| byte == b'"')?;
        let name = NAMES.iter().find(|name| text[at..].starts_with(name));
        if let Some(name) = name {
            let after = text[at + name.len()..].trim_ascii_start();
            let after = after.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
            if let Some(object) = after.filter(|after| after.starts_with(b"{")) {
                return Some((&text[..at], object));
            }
        }
        end = at;
    }
}

/// The names of usage, with their quotes.
const NAMES: [&[u8]; 2] = [b"\"usage\"", b"\"usageMetadata\""];

#[cfg(test)]
mod tests {
    use super::super::Dimension::{InputTokens, OutputTokens, Tokens};
    use super::*;

    fn cost(tail: &str) -> Vec<(super::super::Dimension, f64)> {
        read_usage(tail.as_bytes()).map_or_else(Vec::new, |said| said.cost.into_vec())
    }

    #[test]
    fn each_vendors_usage_is_read_from_the_end_of_a_long_answer() {
        let expected = [(InputTokens, 9.0), (OutputTokens, 3.0), (Tokens, 12.0)];
        for usage in [
            r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"completion_tokens_details":{"reasoning_tokens":2}},"service_tier":"default"}"#,
            r#""usage" : { "input_tokens": 9, "output_tokens": 3 }, "metadata": {"total_tokens": 99}}"#,
            r#""usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":1,"thoughtsTokenCount":2,"totalTokenCount":12},"modelVersion":"m"}"#,
            r#""usage":{"inputTokens":9,"outputTokens":3,"totalTokens":12},"metrics":{"latencyMs":5}}"#,
            r#""usage":{"billed_units":{"input_tokens":5,"output_tokens":3},"tokens":{"input_tokens":9,"output_tokens":3}}}"#,
        ] {
            let body = format!("{{\"text\":\"{}\",{usage}", "word ".repeat(3000));
            assert_eq!(cost(&body), expected, "{usage}");
        }
    }

    #[test]
    fn an_answer_that_speaks_of_usage_tells_none() {
        for tail in [
            r#"{"text":"\"usage\":{\"prompt_tokens\":9}"}"#,
            r#"{"id":"usage","object":{"prompt_tokens":9}}"#,
            r#"{"usage":{"prompt_tokens":"nine","disk":{"total":9}}}"#,
            r#"{"usage":null}"#,
            "usage",
            "",
        ] {
            assert_eq!(cost(tail), [], "{tail}");
        }
    }
}
