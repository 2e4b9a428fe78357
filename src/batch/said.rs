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

/// What a page for people says that came in the place of an answer.
pub(crate) fn page(body: &[u8], redirected: Option<&str>) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(HEAD)]);
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|tag| {
        let start = tag + lower[tag..].find('>')? + 1;
        let end = start + lower[start..].find("</title")?;
        Some(
            text[start..end]
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
        )
    });
    let title: String = title
        .unwrap_or_default()
        .chars()
        .take(LONGEST / 2)
        .collect();
    let title = match title.as_str() {
        "" => String::new(),
        title => format!(" (\u{201c}{title}\u{201d})"),
    };
    let redirected = redirected.map(|target| format!(", after a redirect to {target}"));
    let redirected = redirected.unwrap_or_default();
    format!(
        "a web page{title} came instead of an answer{redirected}: is the address that of the API?"
    )
}

/// `{"error": {"message": "…"}}` as OpenAI, Anthropic and Google have it, `{"error": "…"}`,
/// `{"message": "…"}`, `{"detail": "…"}`; `{"response": {"error": …}}` in an event.
#[derive(Deserialize)]
struct Said {
    error: Option<Part>,
    message: Option<Part>,
    detail: Option<Part>,
    response: Option<Event>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Event {
    Failed { error: Part },
    Other(serde::de::IgnoredAny),
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
        let failed = match self.response {
            Some(Event::Failed { error }) => Some(error),
            _ => None,
        };
        let parts = [self.error, self.message, self.detail, failed];
        parts.into_iter().flatten().find_map(|part| match part {
            Part::Text(text) => Some(text),
            Part::Object { message } => message,
            Part::Other(_) => None,
        })
    }
}

/// A page that has no title here has none worth telling.
const HEAD: usize = 8 << 10;

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
            (
                r#"{"type":"response.failed","response":{"error":{"message":"busy"}}}"#,
                Some("busy"),
            ),
            (r#"{"response":"none","message":"why"}"#, Some("why")),
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
