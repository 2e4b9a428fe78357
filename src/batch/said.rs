//! What the body of an error says to a person.

use serde::Deserialize;

/// The message in a body, in the places where APIs put it, short enough for a line.
pub(crate) fn message(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?.trim();
    let said = match serde_json::from_str::<Said>(text) {
        Ok(said) => said.message()?,
        Err(_) if text.starts_with(['{', '[', '<']) => return None,
        Err(_) => text.to_owned(),
    };
    let line: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return None;
    }
    Some(match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    })
}

/// `{"error": {"message": "…"}}` as OpenAI, Anthropic and Google have it, `{"error": "…"}`,
/// `{"message": "…"}`, `{"detail": "…"}`.
#[derive(Deserialize)]
struct Said {
    error: Option<Part>,
    message: Option<Part>,
    detail: Option<Part>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    Text(String),
    Object { message: Option<String> },
    Other(serde::de::IgnoredAny),
}

impl Said {
    fn message(self) -> Option<String> {
        let parts = [self.error, self.message, self.detail];
        parts.into_iter().flatten().find_map(|part| match part {
            Part::Text(text) => Some(text),
            Part::Object { message } => message,
            Part::Other(_) => None,
        })
    }
}

/// Two lines of a terminal.
const LONGEST: usize = 150;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_found_in_its_usual_places_and_kept_short() {
        for (body, said) in [
            (
                r#"{"error":{"message":"no such model","code":5}}"#,
                Some("no such model"),
            ),
            (r#"{"error":"bad"}"#, Some("bad")),
            (r#"{"error":{"code":5},"message":"why"}"#, Some("why")),
            (r#"{"detail":[{"loc":1}]}"#, None),
            ("gone\n away", Some("gone away")),
            ("<html>", None),
            ("{\"error\":", None),
            ("", None),
        ] {
            assert_eq!(message(body.as_bytes()).as_deref(), said, "{body}");
        }
        let long = message("é".repeat(1_000).as_bytes()).expect("a text");
        assert_eq!(long.chars().count(), LONGEST + 1);
    }
}
