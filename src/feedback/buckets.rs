//! What names the bucket of a request before it is sent, by its vendor's rules: a model, or the
//! beginning of a path.

use std::borrow::Cow;

use super::json::{self, Scalar};
use super::profile::Profile;
use super::scope::owned;
use super::vendors::Bucketing;

impl Profile {
    /// The bucket that a request counts in, by the vendor's rules: requests in different ones share
    /// no limit. None if all share theirs, or if nothing in the request tells.
    ///
    /// ```
    /// use paceline::Profile;
    /// let body = br#"{"model": "gpt-5", "input": "hello"}"#;
    /// let bucket = Profile::OPENAI.bucket("/v1/responses", body);
    /// assert_eq!(bucket.as_deref(), Some("gpt-5"));
    /// let bucket = Profile::GITHUB.bucket("/search/issues?q=x", b"");
    /// assert_eq!(bucket.as_deref(), Some("/search"));
    /// ```
    #[must_use]
    pub fn bucket(&self, path: &str, body: &[u8]) -> Option<Cow<'static, str>> {
        let path = path.split('?').next().unwrap_or(path);
        match self.vendor().own.bucket {
            Bucketing::None => None,
            Bucketing::Model => in_body(body),
            Bucketing::ModelInPath => in_path(path),
            Bucketing::Paths(patterns) => patterns
                .iter()
                .filter_map(|pattern| Some((pattern.len(), begins(pattern, path)?)))
                .max_by_key(|(length, _)| *length)
                .and_then(|(_, name)| owned(&name)),
        }
    }
}

#[cfg(feature = "reqwest")]
impl Profile {
    /// Whether each model has limits of its own.
    pub(crate) fn limits_models(&self) -> bool {
        let by = self.vendor().own.bucket;
        matches!(by, Bucketing::Model | Bucketing::ModelInPath)
    }
}

/// The `model` at the top of a body.
fn in_body(body: &[u8]) -> Option<Cow<'static, str>> {
    let mut model = None;
    json::visit(body, |place, scalar| {
        if let ([b"model"], Scalar::Text(text)) = (place.path, scalar)
            && model.is_none()
        {
            model = std::str::from_utf8(text).ok();
        }
    });
    owned(model.filter(|model| !model.is_empty())?)
}

/// What stands after `/models/`, `/model/` or `/deployments/`, up to a slash or a colon.
fn in_path(path: &str) -> Option<Cow<'static, str>> {
    let rest = ["/models/", "/model/", "/deployments/"]
        .iter()
        .find_map(|before| Some(path.split_once(before)?.1))?;
    let model = rest.split(['/', ':']).next().unwrap_or(rest);
    owned(Some(model).filter(|model| !model.is_empty())?)
}

/// The name of a path's bucket if it begins as a pattern does: the pattern, and after a `#` what
/// stands for its stars, which are the things that have limits of their own.
fn begins(pattern: &str, path: &str) -> Option<String> {
    let mut parts = path.trim_start_matches('/').split('/');
    let mut name = pattern.to_owned();
    let mut sign = '#';
    for wanted in pattern.trim_start_matches('/').split('/') {
        let part = parts.next().filter(|part| !part.is_empty())?;
        if wanted == "*" {
            name.push(sign);
            name.push_str(part);
            sign = '/';
        } else if wanted != part {
            return None;
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_in_the_body_or_in_the_path() {
        let body = br#"{"messages":[{"model":"not this"}],"model":"m-1"}"#;
        assert_eq!(in_body(body).as_deref(), Some("m-1"));
        assert_eq!(in_body(br#"{"model":7}"#), None);
        assert_eq!(in_body(br#"{"model":""}"#), None);
        let path = "/v1beta/models/gemini-x:generateContent";
        assert_eq!(in_path(path).as_deref(), Some("gemini-x"));
        let path = "/openai/deployments/mine/chat/completions";
        assert_eq!(in_path(path).as_deref(), Some("mine"));
        assert_eq!(in_path("/v1/models"), None);
    }

    #[test]
    fn the_parts_that_stars_stand_for_tell_buckets_apart() {
        let name = |path| begins("/channels/*/messages", path);
        assert_eq!(
            name("/channels/1/messages/2").as_deref(),
            Some("/channels/*/messages#1")
        );
        assert_ne!(name("/channels/1/messages"), name("/channels/2/messages"));
        assert_eq!(name("/channels/1"), None);
        assert_eq!(begins("/search", "/searching"), None);
    }

    #[test]
    fn the_longest_pattern_wins() {
        let discord = Profile::by_name("discord").expect("it is listed");
        let bucket = |path: &str| discord.bucket(path, b"");
        assert_eq!(
            bucket("/api/v10/channels/7/messages").as_deref(),
            Some("/api/*/channels/*/messages#v10/7")
        );
        assert_eq!(
            bucket("/api/v10/channels/7/pins").as_deref(),
            Some("/api/*/channels/*#v10/7")
        );
        assert_eq!(bucket("/api/v10/gateway"), None);
    }
}
