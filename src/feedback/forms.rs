//! Values of single vendors that hold whole readings.
//!
//! Each form is a grammar of its own, shared by whoever writes so. What does not match tells
//! nothing.

use std::borrow::Cow;
use std::time::Duration;

use super::draft::{Draft, Source, seconds};
use super::json::{self, Scalar};
use super::tally::Tally;
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
        Form::NamedUsage => each(value, b';', |text| named_usage(tally, key, text)),
        Form::Assignments => each(value, b';', |text| assignment(tally, key, text)),
        Form::Buckets => each(value, b',', |text| bucket(tally, key, text)),
        Form::LimitsByWindow => each(value, b',', |text| by_window(tally, key, Part::Limit, text)),
        Form::UsedByWindow => each(value, b',', |text| by_window(tally, key, Part::Used, text)),
        Form::NamedRemaining => each(value, b',', |text| named_remaining(tally, key, text)),
        Form::Categories => return categories(tally, key, value),
        Form::PerSecondOfGroup => per_second(tally, key, value),
        Form::Percentages => percentages(tally, key, value),
        Form::UsedBySuffix => {
            // The star of the row stands for the interval: `1m`, `10s`, `1d`.
            if let Some(window) = interval(key.family) {
                let key = Key {
                    window,
                    family: "",
                    ..*key
                };
                tally.part(&key, Part::Used, value, Source::Header);
            }
        }
    }
    None
}

fn each<'a>(value: &'a [u8], sign: u8, take: impl FnMut(&'a [u8])) {
    value.split(|&byte| byte == sign).for_each(take);
}

/// `api-usage=18/15000`, perhaps with a remark in parentheses
fn named_usage<'a>(tally: &mut Tally<'a>, key: &Key<'a>, text: &'a [u8]) {
    if let Some((scope, usage)) = pair(text, b'=') {
        let usage = usage.split(|&byte| byte == b'(').next().unwrap_or(usage);
        used_of_limit(tally, &Key { scope, ..*key }, usage);
    }
}

/// `total=100`
fn assignment<'a>(tally: &mut Tally<'a>, key: &Key<'a>, text: &'a [u8]) {
    let Some((name, number)) = pair(text, b'=') else {
        return;
    };
    let part = match name {
        "total" | "limit" => Part::Limit,
        "remaining" => Part::Remaining,
        "resets" | "reset" => Part::Reset(Unit::Seconds),
        _ => return,
    };
    tally.part(key, part, number, Source::Header);
}

/// `20:1`: a number per so many seconds
fn by_window<'a>(tally: &mut Tally<'a>, key: &Key<'a>, part: Part, text: &'a [u8]) {
    let Some((number, window)) = pair(text, b':') else {
        return;
    };
    if let (Some(number), Some(window)) = (count(number.as_bytes()), Decimal::read(window)) {
        let window = u32::try_from(window.whole).unwrap_or(0);
        tally.number(&Key { window, ..*key }, part, number, Source::Header);
    }
}

/// `Area/Name3Min;133`
fn named_remaining<'a>(tally: &mut Tally<'a>, key: &Key<'a>, text: &'a [u8]) {
    if let Some((scope, number)) = pair(text, b';') {
        let key = Key {
            scope,
            window: trailing_window(scope),
            ..*key
        };
        tally.part(&key, Part::Remaining, number, Source::Header);
    }
}

/// `group=default; min=1800; sec=29`
fn per_second<'a>(tally: &mut Tally<'a>, key: &Key<'a>, value: &'a [u8]) {
    let find = |wanted: &str| {
        let parts = value.split(|&byte| byte == b';');
        parts
            .filter_map(|part| pair(part, b'='))
            .find(|(name, _)| *name == wanted)
    };
    if let Some((_, left)) = find("sec") {
        let group = find("group").and_then(|(_, group)| text(group));
        let key = Key {
            scope: group.unwrap_or(""),
            window: 1,
            ..*key
        };
        tally.part(&key, Part::Remaining, left, Source::Header);
    }
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
                    // A score falls all the time, access is only regained once it is lost.
                    let told = *name == b"reset_time_duration"
                        || draft.used.is_some_and(|used| used >= 100.0);
                    if told && draft.reset.is_none() {
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
                let names = outer.iter().chain([&kind]).filter_map(|part| text(part));
                let scope = joined([key.scope].into_iter().chain(names).chain([what]));
                let mut draft = Draft::new(key, Source::Header);
                draft.scope = Cow::Owned(scope);
                (draft.limit, draft.used) = (Some(100.0), Some(used));
                tally.push(draft);
            }
            _ => {}
        }
    });
}

/// Names with slashes between them; empty ones and overlong ones are left out.
fn joined<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut all = String::new();
    for name in names.filter(|name| !name.is_empty() && name.len() < 80) {
        if !all.is_empty() {
            all.push('/');
        }
        all.push_str(name);
    }
    all
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
