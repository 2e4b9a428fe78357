//! A feedback in words.

use std::fmt::Write;
use std::time::Duration;

use http::StatusCode;
use paceline::config::Settings;
use paceline::feedback::{
    Cause, Class, Clock, Dimension, Fault, Feedback, Profile, Reading, WaitSource,
};
use paceline::scheduler::events::{Because, Change, GaveUp, What};

use super::advice::{self, Fate};
use super::response::Response;

/// The whole page.
pub(super) fn explain(
    profile: &Profile,
    response: &Response<'_>,
    said: &Feedback,
    beside: &[&str],
) -> String {
    let mut page = String::new();
    let vendor = if *profile == Profile::NONE {
        "without a vendor's profile".to_owned()
    } else {
        format!("as {}", profile.name())
    };
    line(
        &mut page,
        "status",
        &format!("{}, read {vendor}", status(response.status)),
    );
    line(&mut page, "class", class(said));
    if let Some(fault) = said.fault {
        line(&mut page, "key", self::fault(fault));
    }
    if let Some(cause) = said.cause {
        line(&mut page, "cause", self::cause(cause));
    }
    // A success that names no time need not say so.
    if said.class != Class::Ok || said.wait.is_some() {
        line(&mut page, "wait", &wait(said));
    }
    if let Some(retry) = said.should_retry {
        line(
            &mut page,
            "retry",
            if retry {
                "the server says: yes"
            } else {
                "the server says: no"
            },
        );
    }
    if let Some(bucket) = &said.bucket {
        line(&mut page, "bucket", bucket);
    }
    if said.readings.is_empty() {
        line(&mut page, "quotas", "none are told");
    }
    for (at, reading) in said.readings.iter().enumerate() {
        line(
            &mut page,
            if at == 0 { "quotas" } else { "" },
            &quota(reading),
        );
    }
    for (dimension, amount) in &said.cost {
        line(
            &mut page,
            "cost",
            &format!("{} {}", number(*amount), unit(*dimension)),
        );
    }
    if !beside.is_empty() {
        let verb = if beside.len() == 1 {
            "speaks of limits and tells"
        } else {
            "speak of limits and tell"
        };
        let text = format!("{} {verb} nothing to act on", beside.join(", "));
        line(&mut page, "beside", &text);
    }
    page.push('\n');
    next(&mut page, said);
    page
}

/// The number, and its name if it has one.
fn status(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Concurrency => "too many at the same time",
        _ => "too many for the time",
    }
}

fn fault(fault: Fault) -> &'static str {
    match fault {
        Fault::Revoked => "it was taken away: it will not work again, and no other is tried for it",
        Fault::OutOfFunds => "its account has no money left",
        _ => "it is not accepted",
    }
}

fn line(page: &mut String, name: &str, text: &str) {
    writeln!(page, "{name:<8}{text}").expect("a string takes all that is written");
}

fn class(said: &Feedback) -> &'static str {
    match said.class {
        Class::Ok => "ok: it was served",
        Class::RateLimited => "rate limited: refused for going too fast; it was not processed",
        Class::QuotaExhausted => "quota exhausted: a budget is spent that does not come back soon",
        Class::Overloaded => "overloaded: the service is full, whoever asks",
        Class::Transient => "transient: a fault that may be gone at the next attempt",
        _ if said.fault.is_some() => "fatal: refused because of the key, not of the request",
        _ => "fatal: refused for good; the same request will not work",
    }
}

fn wait(said: &Feedback) -> String {
    let mut text = match said.wait {
        None => "the response names no time".to_owned(),
        Some(wait) => {
            let from = match wait.source {
                WaitSource::VendorHeader => "a header of the vendor's own",
                WaitSource::RetryAfter => "Retry-After",
                WaitSource::Body => "a field of the body",
                _ => "a sentence in the body",
            };
            format!("{}, says {from}", time(wait.delay))
        }
    };
    if let Some(floor) = said.floor {
        write!(text, "; the vendor's rules say {}", time(floor)).expect("a string takes all");
    }
    text
}

fn quota(reading: &Reading) -> String {
    let unit = unit(reading.dimension);
    let crowd = reading.dimension == Dimension::Concurrent;
    let mut text = match (reading.remaining, reading.limit) {
        (Some(left), _) if crowd && left < 1.0 => "no more at the same time".to_owned(),
        (Some(left), _) if crowd => format!("{} more at the same time", number(left)),
        (None, Some(limit)) if crowd => format!("at most {} at the same time", number(limit)),
        (Some(left), Some(limit)) => format!("{} of {} {unit} left", number(left), number(limit)),
        (Some(left), None) => format!("{} {unit} left", number(left)),
        (None, Some(limit)) => format!("a limit of {} {unit}", number(limit)),
        (None, None) => unit.to_owned(),
    };
    if let Some(used) = reading.used {
        text += &format!(", {} used", number(used));
    }
    if let Some(window) = reading.window {
        text += &format!(", per {}", per(window));
    }
    if let Some(reset) = reading.reset {
        let by = if reset.clock == Clock::Delta {
            ""
        } else {
            " by the server's clock"
        };
        text += &format!(", back in {}{by}", time(reset.after));
    }
    if let Some(scope) = &reading.scope {
        text += &match scope.split_once('@') {
            Some(("*", whose)) => format!(" (everything of the {whose})"),
            Some((category, whose)) => format!(" ({category} of the {whose})"),
            None => format!(" ({scope})"),
        };
    }
    text
}

fn next(page: &mut String, said: &Feedback) {
    let next = advice::next(said);
    if said.class == Class::Ok {
        line(page, "next", "the caller gets the answer");
    } else if next.repeatable == next.once {
        line(page, "next", &fate(next.repeatable));
    } else {
        line(
            page,
            "next",
            &format!("a GET, or what may be repeated: {}", fate(next.repeatable)),
        );
        line(page, "", &format!("a POST: {}", fate(next.once)));
    }
    if let (Fate::Again(wait), Some(most)) = (next.repeatable, Settings::default().max_wait)
        && wait > most
    {
        let text = format!(
            "`paceline run` waits so long; a program gets this answer at once, unless its max_wait \
             is longer than {}",
            time(most)
        );
        line(page, "", &text);
    }
    let others = match next.others {
        Some(wait) if wait.is_zero() => "the next request on this key goes at once".to_owned(),
        Some(wait) if shorter_than_told(wait, said) => format!(
            "the next request on this key goes after {}: no server is believed for longer",
            time(wait)
        ),
        Some(wait) => format!("the next request on this key goes after {}", time(wait)),
        None => "this key is not used until it is known to work".to_owned(),
    };
    line(page, "", &others);
    if said.readings.iter().any(is_of_a_spent_category) {
        let text = "what is spent for a category stops no request: only the sender knows its own";
        line(page, "", text);
    }
    for change in &next.changes {
        if let Some(text) = self::change(change, said) {
            line(page, "", &text);
        }
    }
}

fn fate(fate: Fate) -> String {
    match fate {
        Fate::Again(after) if after.is_zero() => "it goes again at once".to_owned(),
        Fate::Again(after) => format!("it goes again after {}", time(after)),
        Fate::Returned(why) => {
            let why = match why {
                Some(GaveUp::Final) => ": it is final",
                Some(GaveUp::NotReplayable) => ": it may have been processed",
                Some(GaveUp::NoKey) => ": there is no other key to try",
                Some(GaveUp::Budget) => ": the retry budget is empty",
                _ => "",
            };
            format!("the caller gets this answer{why}")
        }
    }
}

/// What was decided, where it is worth a line.
fn change(change: &Change, said: &Feedback) -> Option<String> {
    Some(match &change.what {
        What::Limit { from, to, why } => {
            format!("at most {to} in flight instead of {from}: {}", words(why))
        }
        What::Pace { from, to, why } if from.is_finite() => {
            format!(
                "{} requests a second instead of {}: {}",
                number(*to),
                number(*from),
                words(why)
            )
        }
        What::Pace { to, why, .. } if to.is_finite() => {
            format!("at most {} requests a second: {}", number(*to), words(why))
        }
        What::Parked {
            why: Because::Hint, ..
        } => format!("the key rests: {}", said_by(said)),
        What::Parked { why, .. } => format!("the key rests: {}", words(why)),
        What::Suspected(_) => "the key is suspected, and retired after a second refusal".to_owned(),
        What::Retired(_) => "the key is retired, but for rare probes".to_owned(),
        What::Quota {
            dimension,
            limit,
            law,
        } if *limit > 0.0 => {
            let law = if *law == "unknown" {
                "how it refills is not known yet"
            } else {
                law
            };
            format!("learned: {} {} ({law})", number(*limit), unit(*dimension))
        }
        _ => return None,
    })
}

/// Whose word it is how long a key rests.
fn said_by(said: &Feedback) -> &'static str {
    let back = said
        .readings
        .iter()
        .any(|reading| reading.remaining.is_some_and(|left| left < 1.0) && reading.reset.is_some());
    let silent = |reading: &Reading| reading.remaining.is_none() && reading.used.is_none();
    let told = said.readings.iter().any(|reading| reading.reset.is_some())
        && said.readings.iter().all(silent);
    match (said.wait, said.floor) {
        (Some(wait), floor) if floor.is_none_or(|floor| wait.delay >= floor) => {
            "the server says how long"
        }
        (_, Some(_)) => "the vendor's rules say how long",
        _ if back => "until what is spent comes back",
        _ if told => "until the last of what it tells of comes back",
        _ => "nobody says how long, so it is tried again now and then",
    }
}

/// The name of a reason in words: most are chosen to read as such.
fn words(why: &impl serde::Serialize) -> String {
    let name = serde_json::to_value(why).ok();
    match name.as_ref().and_then(|name| name.as_str()).unwrap_or("") {
        "hint" => "the server says how long".to_owned(),
        name => name.replace('_', " "),
    }
}

fn unit(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Requests => "requests",
        Dimension::Tokens => "tokens",
        Dimension::InputTokens => "input tokens",
        Dimension::OutputTokens => "output tokens",
        Dimension::Concurrent => "requests at a time",
        Dimension::Bytes => "bytes",
        Dimension::Cost => "of money",
        _ => "points",
    }
}

/// A window as one says it.
fn per(window: Duration) -> String {
    let named = WINDOWS
        .iter()
        .find(|(_, seconds)| Duration::from_secs(*seconds) == window);
    named.map_or_else(|| time(window), |(name, _)| (*name).to_owned())
}

/// Whether a key is tried before the time that the server named.
fn shorter_than_told(wait: Duration, said: &Feedback) -> bool {
    said.wait.is_some_and(|told| told.delay > wait) && wait >= HOUR
}

fn is_of_a_spent_category(reading: &Reading) -> bool {
    let category = reading
        .scope
        .as_deref()
        .and_then(|scope| scope.split_once('@'));
    reading.remaining == Some(0.0) && category.is_some_and(|(category, _)| category != "*")
}

/// A number with commas between thousands.
fn number(amount: f64) -> String {
    let text = if amount.fract() == 0.0 {
        format!("{amount:.0}")
    } else {
        format!("{amount:.3}")
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        grouped
    } else {
        format!("{grouped}.{fraction}")
    }
}

fn time(time: Duration) -> String {
    // Beyond a minute nobody waits by the millisecond.
    let unit = if time < MINUTE { 1 } else { 1000 };
    let millis = time.as_nanos().div_ceil(1_000_000).div_ceil(unit) * unit;
    let millis = u64::try_from(millis).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(millis)).to_string()
}

const MINUTE: Duration = Duration::from_secs(60);

/// A next request that goes before its hint by milliseconds is no matter of belief.
const HOUR: Duration = Duration::from_secs(3600);

/// Windows that have a name, in seconds.
const WINDOWS: [(&str, u64); 6] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3600),
    ("day", 86_400),
    ("week", 604_800),
    ("month", 2_592_000),
];
