//! Values of single vendors that hold whole readings.
//!
//! Each form is a grammar of its own, shared by whoever writes so. What does not match tells
//! nothing.

use std::borrow::Cow;
use std::time::Duration;

use super::json::{self, Scalar};
use super::tally::{Draft, Source, Tally, seconds};
use super::values::{Decimal, Unit, Written, count};
use super::vendors::{Form, Key, Part, Says};
use super::{Clock, Reset};

/// Reads a value of a form into a tally. Tells what it says beyond numbers.
pub(crate) fn read<'a>(
    tally: &mut Tally<'a>,
    key: &Key<'a>,
    form: Form,
    value: &'a [u8],
) -> Option<Says> {
    match form {
        Form::UsedOfLimit => used_of_limit(tally, key, value),
        Form::NamedUsage => {
            for part in value.split(|&byte| byte == b';') {
                if let Some((name, usage)) = pair(part, b'=') {
                    let usage = usage.split(|&byte| byte == b'(').next().unwrap_or(usage);
                    used_of_limit(
                        tally,
                        &Key {
                            scope: name,
                            ..*key
                        },
                        usage,
                    );
                }
            }
        }
        Form::Assignments => {
            for part in value.split(|&byte| byte == b';') {
                let Some((name, number)) = pair(part, b'=') else {
                    continue;
                };
                let part = match name {
                    "total" | "limit" => Part::Limit,
                    "remaining" => Part::Remaining,
                    "resets" | "reset" => Part::Reset(Unit::Seconds),
                    _ => continue,
                };
                tally.part(key, part, number, Source::Header);
            }
        }
        Form::Buckets => value
            .split(|&byte| byte == b',')
            .for_each(|text| bucket(tally, key, text)),
        Form::LimitsByWindow | Form::UsedByWindow => {
            let part = if form == Form::LimitsByWindow {
                Part::Limit
            } else {
                Part::Used
            };
            for text in value.split(|&byte| byte == b',') {
                let Some((number, window)) = pair(text, b':') else {
                    continue;
                };
                let (Some(number), Some(window)) =
                    (count(number.as_bytes()), Decimal::read(window))
                else {
                    continue;
                };
                let window = u32::try_from(window.whole).unwrap_or(0);
                tally.number(&Key { window, ..*key }, part, number, Source::Header);
            }
        }
        Form::NamedRemaining => {
            for text in value.split(|&byte| byte == b',') {
                let Some((scope, number)) = pair(text, b';') else {
                    continue;
                };
                let window = trailing_window(scope);
                tally.part(
                    &Key {
                        scope,
                        window,
                        ..*key
                    },
                    Part::Remaining,
                    number,
                    Source::Header,
                );
            }
        }
        Form::Categories => return categories(tally, key, value),
        Form::PerSecondOfGroup => {
            let parts = || {
                value
                    .split(|&byte| byte == b';')
                    .filter_map(|part| pair(part, b'='))
            };
            let group = parts()
                .find(|(name, _)| *name == "group")
                .and_then(|(_, group)| text(group));
            if let Some((_, left)) = parts().find(|(name, _)| *name == "sec") {
                let key = Key {
                    scope: group.unwrap_or(""),
                    window: 1,
                    ..*key
                };
                tally.part(&key, Part::Remaining, left, Source::Header);
            }
        }
        Form::Percentages => percentages(tally, key, value),
        Form::UsedBySuffix => {
            // The star of the row stands for the interval: `1m`, `10s`, `1d`.
            if let Some(window) = interval(key.family) {
                tally.part(
                    &Key {
                        window,
                        family: "",
                        ..*key
                    },
                    Part::Used,
                    value,
                    Source::Header,
                );
            }
        }
    }
    None
}

/// `32/40`
fn used_of_limit<'a>(tally: &mut Tally<'a>, key: &Key<'a>, value: &[u8]) {
    let Some((used, limit)) = pair(value, b'/') else {
        return;
    };
    if let (Some(used), Some(limit)) = (count(used.as_bytes()), count(limit)) {
        tally.number(key, Part::Used, used, Source::Header);
        tally.number(key, Part::Limit, limit, Source::Header);
    }
}

/// `b=per_hour;q=100;r=90;t=3600`
fn bucket<'a>(tally: &mut Tally<'a>, key: &Key<'a>, value: &'a [u8]) {
    let mut draft = Draft::new(key, Source::Header);
    let now = tally.now;
    for part in value.split(|&byte| byte == b';') {
        let Some((name, value)) = pair(part, b'=') else {
            continue;
        };
        match name {
            "b" => {
                let Some(name) = text(value) else { continue };
                draft.window = match name {
                    "per_minute" => Some(Duration::from_secs(60)),
                    "per_hour" => Some(Duration::from_secs(3600)),
                    "per_day" => Some(Duration::from_secs(86_400)),
                    _ => None,
                };
                draft.scope = Cow::Owned(format!("{}/{name}", key.scope));
            }
            "q" => draft.limit = count(value),
            "r" => draft.remaining = count(value),
            "t" => {
                let reset =
                    Written::read(value, now).and_then(|reset| reset.reset(Unit::Seconds, now));
                draft.reset = reset.map(Reset::from);
            }
            _ => {}
        }
    }
    if draft.limit.is_some() || draft.remaining.is_some() {
        tally.push(draft);
    }
}

/// `60:transaction;span:key, 2700:default:organization:reason`: seconds, categories (none is all),
/// scope, reason.
fn categories<'a>(tally: &mut Tally<'a>, key: &Key<'a>, value: &'a [u8]) -> Option<Says> {
    let mut says = None;
    for item in value.split(|&byte| byte == b',') {
        let mut fields = item.trim_ascii().split(|&byte| byte == b':');
        let delay = fields.next().and_then(Decimal::read);
        let Some(delay) = delay else { continue };
        let categories = fields.next().unwrap_or(b"");
        let scope = fields.next().and_then(text).unwrap_or("");
        let reason = fields.next().unwrap_or(b"");
        if reason.ends_with(b"usage_exceeded") || reason.ends_with(b"suspended") {
            says = Some(Says::Quota);
        }
        let delay = Written::Number(delay).reset(Unit::Seconds, tally.now);
        for category in categories.split(|&byte| byte == b';') {
            let category = text(category)
                .filter(|name| !name.is_empty())
                .unwrap_or("*");
            let mut draft = Draft::new(key, Source::Header);
            draft.scope = Cow::Owned(if scope.is_empty() {
                category.to_owned()
            } else {
                format!("{category}@{scope}")
            });
            (draft.remaining, draft.reset) = (Some(0.0), delay.map(Reset::from));
            if tally.push(draft).is_none() {
                return says;
            }
        }
    }
    says
}

/// `{"call_count":103,"total_time":60}`, perhaps inside lists by account and type.
fn percentages<'a>(tally: &mut Tally<'a>, key: &Key<'a>, value: &'a [u8]) {
    let mut kind: &[u8] = b"";
    let first = tally.drafts.len();
    json::visit(value, |place, scalar| {
        let Some((name, outer)) = place.path.split_last() else {
            return;
        };
        match (*name, scalar) {
            (b"type", Scalar::Text(text)) => kind = text,
            (
                b"estimated_time_to_regain_access" | b"reset_time_duration",
                Scalar::Number(number),
            ) => {
                let minutes = if *name == b"reset_time_duration" {
                    1.0
                } else {
                    60.0
                };
                let Some(after) = count(number).and_then(|number| seconds(number * minutes)) else {
                    return;
                };
                for draft in &mut tally.drafts[first..] {
                    let full = draft.used.is_some_and(|used| used >= 100.0);
                    if full && draft.reset.is_none() {
                        draft.reset = Some(Reset {
                            after,
                            grain: Duration::from_secs(minutes as u64),
                            clock: Clock::Delta,
                        });
                    }
                }
            }
            (name, Scalar::Number(number)) => {
                let what = match name {
                    b"app_id_util_pct" => "app",
                    b"acc_id_util_pct" => "account",
                    b"call_count" | b"total_time" | b"total_cputime" => {
                        std::str::from_utf8(name).unwrap_or("")
                    }
                    _ => return,
                };
                let Some(used) = count(number).filter(|used| *used >= 0.0) else {
                    return;
                };
                let mut scope = key.scope.to_owned();
                for part in outer.iter().chain([&kind]).filter_map(|part| text(part)) {
                    if !part.is_empty() && part.len() < 80 {
                        scope.push_str(if scope.is_empty() { "" } else { "/" });
                        scope.push_str(part);
                    }
                }
                scope.push_str(if scope.is_empty() { "" } else { "/" });
                scope.push_str(what);
                let mut draft = Draft::new(key, Source::Header);
                draft.scope = Cow::Owned(scope);
                (draft.limit, draft.used) = (Some(100.0), Some(used));
                tally.push(draft);
            }
            _ => {}
        }
    });
}

/// Two sides of a sign; the left one is a name.
fn pair(value: &[u8], sign: u8) -> Option<(&str, &[u8])> {
    let at = value.iter().position(|&byte| byte == sign)?;
    Some((text(&value[..at])?, value[at + 1..].trim_ascii()))
}

fn text(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value.trim_ascii()).ok()
}

/// The window at the end of a name: `HighCostGet30Min` is 1800 s.
fn trailing_window(name: &str) -> u32 {
    let unit = [("Sec", 1), ("Min", 60), ("Hour", 3600), ("Day", 86_400)];
    let Some((rest, unit)) = unit
        .iter()
        .find_map(|(word, unit)| Some((name.strip_suffix(word)?, unit)))
    else {
        return 0;
    };
    let digits = rest
        .trim_end_matches(|letter: char| letter.is_ascii_digit())
        .len();
    rest[digits..]
        .parse::<u32>()
        .map_or(0, |number| number.saturating_mul(*unit))
}

/// `10s`, `1m`, `1h`, `1d` in seconds.
fn interval(text: &str) -> Option<u32> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "s" | "S" => 1,
        "m" | "M" => 60,
        "h" | "H" => 3600,
        "d" | "D" => 86_400,
        _ => return None,
    };
    digits.parse::<u32>().ok()?.checked_mul(unit)
}
