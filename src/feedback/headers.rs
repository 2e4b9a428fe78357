//! One pass over the headers of a response.

use http::HeaderMap;

use super::codes;
use super::draft::Source;
use super::fields;
use super::findings::Findings;
use super::forms;
use super::index;
use super::names;
use super::values::{Decimal, Delay, Unit, count, trim};
use super::vendors::{Meaning, Part, Vendor};
use super::wordings;

/// Reads all headers into findings.
pub(crate) fn read<'a>(found: &mut Findings<'a>, vendor: &'static Vendor, headers: &'a HeaderMap) {
    let described = vendor.described;
    for (name, value) in headers {
        let name = name.as_str();
        let by_name;
        let meaning = if described && let Some(meaning) = names::described(vendor, name) {
            by_name = meaning;
            &by_name
        } else if let Some(meaning) = index::find(vendor, name) {
            meaning
        } else if let Some(meaning) = names::read(vendor, name) {
            by_name = meaning;
            &by_name
        } else {
            continue;
        };
        // Clients strip the blanks around a value; whoever reads a file may not have.
        let value = trim(value.as_bytes());
        if let Meaning::Part(key, part) = meaning {
            let part = match *part {
                // The vendor's own unit, where the name does not say one.
                Part::Reset(Unit::Seconds) if key.plain => Part::Reset(vendor.own.reset_unit),
                part => part,
            };
            found.tally.part(key, part, value, Source::Header);
        } else {
            take(found, vendor, meaning, value);
        }
    }
}

/// Takes what is no part of a reading.
fn take<'a>(
    found: &mut Findings<'a>,
    vendor: &'static Vendor,
    meaning: &Meaning<'a>,
    value: &'a [u8],
) {
    let now = found.tally.now;
    match meaning {
        Meaning::Part(..) | Meaning::Nothing => {}
        Meaning::Whole(key, form) => {
            let before = found.tally.drafts.len();
            let says = forms::read(&mut found.tally, key, *form, value);
            found.tally.listed(before);
            found.evidence.reason = found.evidence.reason.or(says);
        }
        Meaning::Wait(unit) => {
            found.vendor_wait = longer(found.vendor_wait, fields::waits(value, now, *unit));
        }
        Meaning::WaitUnlessZero(unit) => {
            let delay = fields::waits(value, now, *unit).filter(|delay| !delay.after.is_zero());
            found.vendor_wait = longer(found.vendor_wait, delay);
        }
        Meaning::WaitAndReset(key, unit) => {
            let delay = fields::waits(value, now, *unit).filter(|delay| !delay.after.is_zero());
            found.vendor_wait = longer(found.vendor_wait, delay);
            if delay.is_some() {
                found
                    .tally
                    .part(key, Part::Reset(*unit), value, Source::Header);
            }
        }
        Meaning::RetryAfter => {
            let delay = fields::waits(value, now, Unit::Seconds);
            found.retry_after = longer(found.retry_after, delay);
        }
        Meaning::Age => found.cached |= Decimal::read(value).is_some_and(|age| age.whole > 0),
        Meaning::ShouldRetry => {
            found.should_retry = yes_or_no(value.trim_ascii()).or(found.should_retry);
        }
        Meaning::Pushback => pushback(found, value),
        Meaning::Code => {
            // AWS adds an address: `ThrottlingException:http://…`
            let code = value.split(|&byte| byte == b':').next().unwrap_or(value);
            let says = codes::code(vendor, code.trim_ascii(), false);
            found.evidence.code = found.evidence.code.max(says);
            found.evidence.spoke = true;
        }
        Meaning::Reasons(reasons) => {
            found.reason(reasons, value);
        }
        Meaning::Outcome(reasons) => found.evidence.outcome = found.reason(reasons, value),
        Meaning::Message => found.evidence.oversized |= wordings::too_large(value),
        Meaning::Shows(says) => found.evidence.shows = Some(*says),
        Meaning::Cost(dimension) => {
            let plain = value.trim_ascii();
            if let Some(cost) = count(plain.strip_prefix(b"$").unwrap_or(plain)) {
                found.costs(*dimension, cost);
            }
        }
    }
}

fn yes_or_no(value: &[u8]) -> Option<bool> {
    if value.eq_ignore_ascii_case(b"true") {
        Some(true)
    } else if value.eq_ignore_ascii_case(b"false") {
        Some(false)
    } else {
        None
    }
}

/// Milliseconds, or a negative number for never.
fn pushback(found: &mut Findings<'_>, value: &[u8]) {
    if value.strip_prefix(b"-").and_then(Decimal::read).is_some() {
        found.should_retry = Some(false);
    } else {
        let delay = fields::waits(value, found.tally.now, Unit::Millis);
        found.vendor_wait = longer(found.vendor_wait, delay);
    }
}

fn longer(one: Option<Delay>, other: Option<Delay>) -> Option<Delay> {
    match (one, other) {
        (Some(this), Some(that)) if this.after >= that.after => Some(this),
        (this, that) => that.or(this),
    }
}
