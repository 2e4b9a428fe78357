//! One line of `--jsonl`: a response as JSON.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use paceline::client::Clock;
use paceline::feedback::{self, Feedback, Profile};
use serde_json::Value;

/// Reads the response on a line. A header that HTTP does not allow is passed over; fields that are
/// not known are, too.
pub(super) fn read(line: &[u8], clock: &Clock) -> Result<Feedback, String> {
    let case: Value = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
    if !case.is_object() {
        return Err("not a JSON object with \"status\" and \"headers\"".to_owned());
    }
    let status = match &case["status"] {
        Value::Null => return Err("\"status\" is missing".to_owned()),
        status => status
            .as_u64()
            .and_then(|status| u16::try_from(status).ok())
            .and_then(|status| StatusCode::from_u16(status).ok())
            .ok_or_else(|| format!("\"status\" is {status}: it must be from 100 to 999"))?,
    };
    let received = match &case["now"] {
        Value::Null => clock.wall(),
        now => instant(now).ok_or_else(|| {
            format!("\"now\" is {now}: it must be RFC 3339, such as \"2026-03-10T12:00:00Z\"")
        })?,
    };
    let headers = headers(&case["headers"])?;
    let body = match &case["body"] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        parsed => Some(parsed.to_string()),
    };
    let profile = case["profile"]
        .as_str()
        .and_then(Profile::by_name)
        .unwrap_or_default();
    let body = body.as_deref().map(str::as_bytes);
    Ok(feedback::read(&profile, status, &headers, body, received))
}

fn headers(pairs: &Value) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let mut add = |name: &str, value: &Value| {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let name = HeaderName::from_bytes(name.trim().as_bytes());
        let value = HeaderValue::from_bytes(value.trim().as_bytes());
        if let (Ok(name), Ok(value)) = (name, value)
            && headers.len() < MOST
        {
            headers.append(name, value);
        }
    };
    match pairs {
        Value::Null => {}
        Value::Array(pairs) => {
            for pair in pairs {
                let (Some(name), Some(value)) = (pair[0].as_str(), pair.get(1)) else {
                    return Err(format!(
                        "\"headers\" holds {pair}: it must hold pairs [name, value]"
                    ));
                };
                add(name, value);
            }
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| add(name, value)),
        other => {
            return Err(format!(
                "\"headers\" is {other}: it must be a list of pairs [name, value]"
            ));
        }
    }
    Ok(headers)
}

/// RFC 3339, with `Z` or an offset.
fn instant(now: &Value) -> Option<SystemTime> {
    let text = now.as_str()?;
    let zone = text
        .len()
        .checked_sub(6)
        .filter(|at| matches!(text.as_bytes()[*at], b'+' | b'-'));
    let Some(at) = zone else {
        return humantime::parse_rfc3339_weak(text).ok();
    };
    let (local, offset) = text.split_at_checked(at)?;
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let minutes = hours.parse::<u64>().ok()? * 60 + minutes.parse::<u64>().ok()?;
    let ahead = Duration::from_secs(minutes * 60);
    let local = humantime::parse_rfc3339_weak(local).ok()?;
    if offset.starts_with('+') {
        local.checked_sub(ahead)
    } else {
        local.checked_add(ahead)
    }
}

/// More headers than any server sends; a map panics at 32,768.
const MOST: usize = 1000;
