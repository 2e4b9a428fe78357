//! How many tokens an answer says that it used.

use crate::feedback::{self, Dimension};

/// The tokens that a body says were used; none if it says nothing of them. Streamed answers are
/// none: their last event need not tell the whole.
pub(crate) fn tokens(body: &[u8]) -> Option<u64> {
    let is_object = body.trim_ascii_start().starts_with(b"{");
    let said = is_object.then(|| feedback::read_usage(body)).flatten()?;
    let of_tokens = said.cost.iter().find(|cost| cost.0 == Dimension::Tokens);
    of_tokens.map(|&(_, tokens)| tokens as u64)
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
