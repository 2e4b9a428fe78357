//! How many tokens an answer says that it used.

use serde::Deserialize;

/// The tokens that a body says were used; none if it says nothing of them. Streamed answers are
/// none: they are events, not one object.
pub(crate) fn tokens(body: &[u8]) -> Option<u64> {
    let said: Said = serde_json::from_slice(body).ok()?;
    let openai = said.usage.and_then(Usage::total);
    openai.or_else(|| said.metadata?.total)
}

#[derive(Deserialize)]
struct Said {
    usage: Option<Usage>,
    /// Gemini's.
    #[serde(rename = "usageMetadata")]
    metadata: Option<Metadata>,
}

/// OpenAI's, of both its APIs, and Anthropic's, which gives no total.
#[derive(Deserialize)]
struct Usage {
    total_tokens: Option<u64>,
    #[serde(alias = "prompt_tokens")]
    input_tokens: Option<u64>,
    #[serde(alias = "completion_tokens")]
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "totalTokenCount")]
    total: Option<u64>,
}

impl Usage {
    fn total(self) -> Option<u64> {
        if self.total_tokens.is_some() {
            return self.total_tokens;
        }
        let parts = [
            self.input_tokens,
            self.output_tokens,
            self.cache_creation_input_tokens,
            self.cache_read_input_tokens,
        ];
        let said = parts.iter().flatten().copied();
        parts
            .iter()
            .any(Option::is_some)
            .then(|| said.fold(0, u64::saturating_add))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_counts_else_the_sum_of_the_parts() {
        for (body, used) in [
            (
                r#"{"id":"x","choices":[{"usage":7}],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}"#,
                Some(21),
            ),
            (r#"{"usage":{"prompt_tokens":5,"total_tokens":5}}"#, Some(5)),
            (
                r#"{"usage":{"input_tokens":10,"output_tokens":3,"cache_read_input_tokens":100,"cache_creation_input_tokens":null}}"#,
                Some(113),
            ),
            (
                r#"{"usageMetadata":{"promptTokenCount":4,"totalTokenCount":11}}"#,
                Some(11),
            ),
            (r#"{"usage":{}}"#, None),
            (r#"{"usage":null}"#, None),
            (r#"{"usage":{"total_tokens":-1}}"#, None),
            (r#"[1]"#, None),
            ("data: {}", None),
        ] {
            assert_eq!(tokens(body.as_bytes()), used, "{body}");
        }
    }
}
