//! Durations in scenario files: `"150ms"`, `"500us"`, `"1m 30s"`, and pairs of them.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

/// Reads one duration.
pub(super) fn one<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map_err(D::Error::custom)
}

/// Reads one duration that may be missing.
pub(super) fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    one(from).map(Some)
}

/// Reads a range: `["500us", "3500us"]`, or one duration for a range of no width.
pub(super) fn range<'de, D: Deserializer<'de>>(from: D) -> Result<(Duration, Duration), D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "expected a duration or a pair of them")]
    enum Written {
        One(String),
        Two(String, String),
    }
    let (low, high) = match Written::deserialize(from)? {
        Written::One(text) => (parse(&text), parse(&text)),
        Written::Two(low, high) => (parse(&low), parse(&high)),
    };
    let (low, high) = (
        low.map_err(D::Error::custom)?,
        high.map_err(D::Error::custom)?,
    );
    if low > high {
        return Err(D::Error::custom("a range must not end before it begins"));
    }
    Ok((low, high))
}

fn parse(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("`{text}` is no duration such as \"150ms\" or \"2s\": {error}"))
}
