//! What the reader of responses claims.

mod acted;
mod bounds;
mod claims;
#[cfg(feature = "sim")]
mod described;
mod kinds;
mod mutations;
mod targets;

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use paceline::feedback::{self, Feedback, Profile, Reading};

/// 2026-03-10T12:00:00Z
const NOW: Duration = Duration::from_secs(1_773_144_000);

/// Reads a response that came at [`NOW`].
fn read(status: u16, headers: &[(&str, &str)], body: &str) -> Feedback {
    read_as(&Profile::NONE, status, headers, body)
}

/// The same, of a known vendor.
fn read_as(profile: &Profile, status: u16, headers: &[(&str, &str)], body: &str) -> Feedback {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
        })
        .collect();
    let body = Some(body.as_bytes()).filter(|body| !body.is_empty());
    let status = StatusCode::from_u16(status).unwrap();
    feedback::read(
        profile,
        status,
        &headers,
        body,
        SystemTime::UNIX_EPOCH + NOW,
    )
}

fn wait(said: &Feedback) -> Option<u128> {
    said.wait.map(|wait| wait.delay.as_millis())
}

fn reset(reading: &Reading) -> Option<u128> {
    reading.reset.map(|reset| reset.after.as_millis())
}
