//! What a call to a language model will take, from its request: what it may answer at most, and
//! what it says itself.
//!
//! Providers of models take both off the quota when a request comes, before anybody knows how long
//! the answer will be. An estimate that is too high costs a little time until the next reading, one
//! that is missing costs a refusal for each request, so everything declared counts in full.

use super::json::{self, Scalar};
use super::profile::Profile;

/// What a request is expected to take, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimate {
    /// Tokens in: a quarter of the bytes of the body.
    pub input_tokens: u32,
    /// Tokens out: the largest cap that the body declares, times the answers it asks for.
    pub output_tokens: u32,
}

/// Estimates a call from its path and its JSON body. None if it is no call to a language model:
/// neither the path is one of theirs nor does the body declare a cap on the answer.
///
/// ```
/// use paceline::feedback::estimate;
/// let body = br#"{"model": "m", "max_tokens": 500, "messages": []}"#;
/// let estimate = estimate("/v1/chat/completions", body).expect("a call to a model");
/// assert_eq!((estimate.input_tokens, estimate.output_tokens), (12, 500));
/// assert_eq!(paceline::feedback::estimate("/v1/hotels", b"{}"), None);
/// ```
#[must_use]
pub fn estimate(path: &str, body: &[u8]) -> Option<Estimate> {
    Profile::NONE.estimate(path, body)
}

impl Profile {
    /// The same, with the names of caps that this vendor has beside the usual ones.
    #[must_use]
    pub fn estimate(&self, path: &str, body: &[u8]) -> Option<Estimate> {
        estimated(path, body, self.vendor().own.caps)
    }
}

fn estimated(path: &str, body: &[u8], own: &[&str]) -> Option<Estimate> {
    if body.is_empty() {
        return None;
    }
    let path = path.split('?').next().unwrap_or(path).trim_end_matches('/');
    let is_theirs = PATHS.iter().any(|end| path.ends_with(end));
    let (mut cap, mut answers) = (None, 1);
    json::visit(body, |place, scalar| {
        let Scalar::Number(number) = scalar else {
            return;
        };
        let (Some(&name), true) = (place.path.last(), place.path.len() <= DEEPEST) else {
            return;
        };
        let Some(number) = whole(number) else { return };
        if CAPS.contains(&name) || own.iter().any(|cap| cap.as_bytes() == name) {
            cap = cap.max(Some(number));
        } else if ANSWERS.contains(&name) {
            answers = answers.max(number.min(MOST_ANSWERS));
        }
    });
    if cap.is_none() && !is_theirs {
        return None;
    }
    let input = u32::try_from(body.len() / BYTES_A_TOKEN).unwrap_or(u32::MAX);
    Some(Estimate {
        input_tokens: input.max(1),
        output_tokens: cap.unwrap_or(0).saturating_mul(answers),
    })
}

/// A number without sign, fraction or exponent; larger ones than fit are the largest.
fn whole(text: &[u8]) -> Option<u32> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |sum: u32, byte: &u8| {
        sum.saturating_mul(10)
            .saturating_add(u32::from(byte - b'0'))
    };
    Some(text.iter().fold(0, digit))
}

/// Ends of paths at which models are called: OpenAI and all who copy it, Anthropic, Cohere, Gemini.
const PATHS: &[&str] = &[
    "/chat/completions",
    "/completions",
    "/responses",
    "/messages",
    "/embeddings",
    ":generateContent",
    ":streamGenerateContent",
    "/v1/chat",
    "/v2/chat",
];
/// Names of the cap on an answer: OpenAI's three, Anthropic's old and new, Gemini's, Bedrock's,
/// Ollama's and vLLM's. Where a body has two, the server counts the larger.
const CAPS: &[&[u8]] = &[
    b"max_tokens",
    b"max_completion_tokens",
    b"max_output_tokens",
    b"max_tokens_to_sample",
    b"maxOutputTokens",
    b"maxTokens",
    b"max_new_tokens",
    b"num_predict",
];
/// Names of the number of answers.
const ANSWERS: &[&[u8]] = &[b"n", b"candidateCount", b"best_of", b"num_generations"];
/// OpenAI's own limit on `n`; a stray number of that name must not multiply by a million.
const MOST_ANSWERS: u32 = 128;
/// Options stand at the top, or one level below it (`generationConfig`, `options`).
const DEEPEST: usize = 2;
/// English text has about four bytes a token (OpenAI's rule of thumb).
const BYTES_A_TOKEN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn output(body: &str) -> Option<u32> {
        estimate("/x", body.as_bytes()).map(|estimate| estimate.output_tokens)
    }

    #[test]
    fn of_two_caps_the_larger_is_reserved() {
        // TB-02: a proxy reserved the smaller of two size fields.
        assert_eq!(
            output(r#"{"max_tokens":10,"max_completion_tokens":900}"#),
            Some(900)
        );
    }

    #[test]
    fn a_cap_counts_for_each_answer_that_is_asked_for() {
        assert_eq!(output(r#"{"max_tokens":100,"n":4}"#), Some(400));
        assert_eq!(output(r#"{"max_tokens":100,"n":4000000000}"#), Some(12_800));
    }

    #[test]
    fn gemini_s_cap_stands_one_level_down_and_text_is_not_searched() {
        assert_eq!(
            output(r#"{"generationConfig":{"maxOutputTokens":64}}"#),
            Some(64)
        );
        assert_eq!(output(r#"{"a":{"b":{"max_tokens":64}}}"#), None);
        assert_eq!(
            output(r#"{"messages":[{"content":"\"max_tokens\": 7"}]}"#),
            None
        );
    }

    #[test]
    fn what_is_no_number_of_tokens_is_no_cap() {
        for odd in ["-5", "1.5", "1e9", "null", "\"12\"", "true"] {
            assert_eq!(output(&format!("{{\"max_tokens\":{odd}}}")), None, "{odd}");
        }
        assert_eq!(
            output(r#"{"max_tokens":99999999999999999999}"#),
            Some(u32::MAX)
        );
    }

    #[test]
    fn a_call_without_a_cap_is_known_by_its_path() {
        let call = estimate("/v1/embeddings?x=1", b"{\"input\":\"hello world\"}");
        assert_eq!(
            call.map(|call| (call.input_tokens, call.output_tokens)),
            Some((5, 0))
        );
        assert_eq!(estimate("/v1/hotels", b"{\"n\":3}"), None);
    }
}
