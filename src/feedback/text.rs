//! Sentences in error bodies: templates with places for numbers, and the window that is named.
//!
//! Only messages of structured bodies come here, whole ones, and at most their first
//! [`LONGEST`] bytes. A number counts only with its unit.

use super::Dimension;
use super::durations::{spoken, unit};
use super::values::{Decimal, NANOS, Span, Written, grouped};

/// What the places of a template held.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Found {
    pub(crate) wait: Option<Written>,
    pub(crate) reset: Option<Span>,
    pub(crate) limit: Option<f64>,
    pub(crate) used: Option<f64>,
    pub(crate) remaining: Option<f64>,
    pub(crate) cost: Option<f64>,
    pub(crate) dimension: Option<Dimension>,
    /// Seconds.
    pub(crate) window: Option<u64>,
}

/// Looks for a template anywhere in a message, in any case.
pub(crate) fn find(template: &str, message: &[u8], now: i64) -> Option<Found> {
    let message = &message[..message.len().min(LONGEST)];
    let template = template.as_bytes();
    let first = template.first()?.to_ascii_lowercase();
    (0..message.len())
        .filter(|&at| message[at].to_ascii_lowercase() == first)
        .find_map(|at| fill(template, &message[at..], now))
}

/// Matches a template at the start of a text.
fn fill(mut template: &[u8], mut text: &[u8], now: i64) -> Option<Found> {
    let mut found = Found::default();
    while let Some((&wanted, after)) = template.split_first() {
        if wanted != b'{' {
            let (&byte, rest) = text.split_first()?;
            if !byte.eq_ignore_ascii_case(&wanted) {
                return None;
            }
            (template, text) = (after, rest);
            continue;
        }
        let end = after.iter().position(|&byte| byte == b'}')?;
        let place = &after[..end];
        template = &after[end + 1..];
        text = if place == b"*" {
            let next = *template.first()?;
            let mut near = text.iter().take(LONGEST_GAP);
            &text[near.position(|byte| byte.eq_ignore_ascii_case(&next))?..]
        } else {
            found.take(place, text, now)?
        };
    }
    Some(found)
}

impl Found {
    /// Reads what stands at a place, and gives back what follows it.
    fn take<'a>(&mut self, place: &[u8], text: &'a [u8], now: i64) -> Option<&'a [u8]> {
        let rest;
        match place {
            b"wait" => {
                let span;
                (span, rest) = spoken(text)?;
                self.wait = Some(Written::Span(span));
            }
            b"reset" => {
                let span;
                (span, rest) = spoken(text)?;
                self.reset = Some(span);
            }
            b"instant" => {
                let moment;
                (moment, rest) = instant(text, now)?;
                self.wait = Some(moment);
            }
            b"window" => {
                let window;
                (window, rest) = window_at(text)?;
                self.window = Some(window);
            }
            b"dimension" => {
                let counted;
                (counted, rest) = dimension(text)?;
                self.dimension = Some(counted);
            }
            _ => {
                let amount;
                (amount, rest) = number(text)?;
                *match place {
                    b"limit" => &mut self.limit,
                    b"used" => &mut self.used,
                    b"remaining" => &mut self.remaining,
                    b"cost" => &mut self.cost,
                    _ => return None,
                } = Some(amount);
            }
        }
        Some(rest)
    }
}

/// A number, perhaps with commas between thousands; a comma or point after it is the sentence's.
fn number(text: &[u8]) -> Option<(f64, &[u8])> {
    let length = text
        .iter()
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b',' | b'.'))
        .count();
    let end = text[..length].iter().rposition(u8::is_ascii_digit)? + 1;
    Some((grouped(&text[..end])?, &text[end..]))
}

/// An instant: a date of HTTP, RFC 3339, or an epoch.
fn instant(text: &[u8], now: i64) -> Option<(Written, &[u8])> {
    if text.first()?.is_ascii_alphabetic() {
        let (date, rest) = text.split_at_checked(29)?;
        return Some((Written::read(date, now)?, rest));
    }
    let length = text
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"-+:.".contains(byte))
        .count();
    let end = text[..length].iter().rposition(u8::is_ascii_alphanumeric)? + 1;
    let written = Written::read(&text[..end], now)?;
    let moment = match written {
        Written::Instant(..) => true,
        Written::Number(number) => number.whole >= LEAST_EPOCH,
        Written::Span(_) => false,
    };
    moment.then_some((written, &text[end..]))
}

/// `min`, `minute`, `1 MINUTE`, `86400s` at the start of a text, in seconds.
fn window_at(text: &[u8]) -> Option<(u64, &[u8])> {
    let (count, rest) = match Decimal::split(text) {
        Some((number, rest)) => (number.whole, rest.strip_prefix(b" ").unwrap_or(rest)),
        None => (1, text),
    };
    let letters = rest
        .iter()
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count();
    let seconds = unit(&rest[..letters])? / u64::from(NANOS);
    let window = count.saturating_mul(seconds);
    (window > 0).then_some((window, &rest[letters..]))
}

fn dimension(text: &[u8]) -> Option<(Dimension, &[u8])> {
    [
        (&b"input tokens"[..], Dimension::InputTokens),
        (b"output tokens", Dimension::OutputTokens),
        (b"tokens", Dimension::Tokens),
        (b"requests", Dimension::Requests),
    ]
    .into_iter()
    .find_map(|(word, dimension)| {
        let (start, rest) = text.split_at_checked(word.len())?;
        start
            .eq_ignore_ascii_case(word)
            .then_some((dimension, rest))
    })
}

/// The first window that a message names, in seconds: "per minute", "/ day", "daily", "RPD",
/// "DAY limit", "in the last 24 hours".
pub(crate) fn window(message: &[u8]) -> Option<u64> {
    let message = &message[..message.len().min(LONGEST)];
    let mut before: [&[u8]; 2] = [b"", b""];
    let mut at = 0;
    while at < message.len() {
        let length = message[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        if length == 0 {
            at += 1;
            continue;
        }
        let (word, rest) = message[at..].split_at(length);
        let slash = message[..at].trim_ascii_end().ends_with(b"/");
        if let Some(window) = names(word, before, slash, rest) {
            return Some(window);
        }
        before = [before[1], word];
        at += length;
    }
    None
}

/// Whether a word names a window, given the two before it and what follows.
fn names(word: &[u8], before: [&[u8]; 2], slash: bool, rest: &[u8]) -> Option<u64> {
    let is = |text: &[u8], other: &str| text.eq_ignore_ascii_case(other.as_bytes());
    for (adverb, seconds) in ADVERBS {
        if is(word, adverb) {
            return Some(seconds);
        }
    }
    let per = |text: &[u8]| {
        ["per", "every", "last", "past"]
            .iter()
            .any(|word| is(text, word))
    };
    if let Some((window, [])) = window_at(word) {
        let counted = before[1].iter().all(u8::is_ascii_digit) && !before[1].is_empty();
        if counted && per(before[0]) {
            let count = Decimal::read(before[1])?.whole;
            return Some(window.saturating_mul(count));
        }
        let limit = rest
            .get(1..6)
            .is_some_and(|word| is(word, "limit") || is(word, "quota"));
        return (per(before[1]) || slash || limit && word.len() > 2).then_some(window);
    }
    None
}

/// Windows as one word, in seconds; a month has thirty days.
const ADVERBS: [(&str, u64); 9] = [
    ("daily", 86_400),
    ("monthly", 2_592_000),
    ("weekly", 604_800),
    ("hourly", 3600),
    ("rpd", 86_400),
    ("tpd", 86_400),
    ("rpm", 60),
    ("tpm", 60),
    ("rps", 1),
];

/// A number from here on is an epoch, not a delay without a unit.
const LEAST_EPOCH: u64 = 1_000_000_000;

/// As much of a message as is read: the longest with a hint in it have some 400 bytes.
pub(crate) const LONGEST: usize = 1024;

/// As far as `{*}` looks for the next word.
const LONGEST_GAP: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_found_anywhere_and_in_any_case() {
        let message = b"Rate limit reached for m in organization o on tokens per min (TPM): Limit 30,000, Used 29800, Requested 865. Please try again in 1.33s.";
        let template =
            "on {dimension} per {window} ({*}): Limit {limit}, Used {used}, Requested {cost}";
        let found = find(template, message, 0).expect("it is there");
        assert_eq!(found.dimension, Some(Dimension::Tokens));
        assert_eq!(found.window, Some(60));
        assert_eq!(
            (found.limit, found.used, found.cost),
            (Some(30_000.0), Some(29_800.0), Some(865.0))
        );
        assert!(find("TRY AGAIN IN {wait}", message, 0).is_some());
    }

    #[test]
    fn a_number_without_its_unit_is_no_wait() {
        for message in [
            "try again in 2",
            "try again in a few minutes",
            "try again in",
            "retry after 30",
        ] {
            assert_eq!(
                find("try again in {wait}", message.as_bytes(), 0),
                None,
                "{message}"
            );
            assert_eq!(
                find("retry after {wait}", message.as_bytes(), 0),
                None,
                "{message}"
            );
            assert_eq!(
                find("retry after {instant}", message.as_bytes(), 0),
                None,
                "{message}"
            );
        }
    }

    #[test]
    fn the_first_window_that_is_named_counts() {
        let day = Some(86_400);
        for (message, expected) in [
            ("exceeded your per-minute rate limit", Some(60)),
            ("Too many tokens per day, please wait", day),
            ("limited to 10 API calls / minute.", Some(60)),
            ("APPLICATION DAY limit for calls", day),
            ("too many versions of this crate in the last 24 hours", day),
            (
                "free-models-per-min. Add 10 credits to unlock 1000 requests per day",
                Some(60),
            ),
            ("reached your daily email sending quota", day),
            ("exceeded the MONTHLY quota for Requests", Some(2_592_000)),
            ("Rate limit of 50 per 86400s exceeded", day),
            ("reduced rate limits of 3 RPM and 10K TPM", Some(60)),
            ("Please retry after 86400 seconds", None),
            ("try again in a few days", None),
            ("Day one", None),
        ] {
            assert_eq!(window(message.as_bytes()), expected, "{message}");
        }
    }
}
