//! A feedback as JSON.

use std::time::Duration;

use paceline::feedback::{Feedback, Reading};
use serde_json::{Map, Value, json};

/// What `--jsonl` answers.
pub(super) fn short(said: &Feedback) -> Value {
    let mut answer = Map::new();
    answer.insert("class".into(), json!(said.class));
    answer.insert(
        "retry_after_ms".into(),
        json!(said.wait.map(|wait| millis(wait.delay))),
    );
    if let Some(retry) = said.should_retry {
        answer.insert("should_retry".into(), json!(retry));
    }
    answer.insert("quotas".into(), said.readings.iter().map(quota).collect());
    Value::Object(answer)
}

/// What `--json` prints: the same, and the rest.
pub(super) fn whole(said: &Feedback) -> Value {
    let mut answer = short(said);
    answer["fault"] = json!(said.fault);
    answer["cause"] = json!(said.cause);
    answer["retry_after_from"] = json!(said.wait.map(|wait| wait.source));
    answer["floor_ms"] = json!(said.floor.map(millis));
    answer["bucket"] = json!(said.bucket);
    let cost = said
        .cost
        .iter()
        .map(|(dimension, amount)| json!({ "dimension": dimension, "amount": number(*amount) }));
    answer["cost"] = cost.collect();
    answer["next"] = super::advice::next(said).json();
    answer
}

fn quota(reading: &Reading) -> Value {
    let mut quota = json!({
        "dimension": reading.dimension,
        "limit": reading.limit.map(number),
        "remaining": reading.remaining.map(number),
        "reset_ms": reading.reset.map(|reset| millis(reset.after)),
        "window_ms": reading.window.map(millis),
        "scope": reading.scope,
    });
    if let Some(used) = reading.used {
        quota["used"] = number(used);
    }
    quota
}

/// Whole numbers without a point, as servers write them.
fn number(amount: f64) -> Value {
    if amount.fract() == 0.0 && amount.abs() < EXACT {
        json!(amount as i64)
    } else {
        json!(amount)
    }
}

/// Rounded up: paceline never comes back early.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Up to here every whole number has a float of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;
