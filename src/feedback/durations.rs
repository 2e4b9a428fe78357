//! Durations with their units: as programs print them, and as sentences spell them.

use std::time::Duration;

use super::values::{Decimal, NANOS, Span};

/// A duration as Go prints it: `1h2m3.5s`, `6m0s`, `12ms`, `732µs`, `4h17m`; days too.
pub(crate) fn duration(text: &[u8]) -> Option<Span> {
    let (decimal, rest) = Decimal::split(text.trim_ascii())?;
    compound(decimal, rest)
}

/// The rest of a duration whose first number was read.
pub(crate) fn compound(mut decimal: Decimal, mut rest: &[u8]) -> Option<Span> {
    let mut last = u64::MAX;
    let mut length = Duration::ZERO;
    loop {
        let (unit, after) = UNITS.iter().find_map(|(name, unit)| {
            let after = rest.strip_prefix(*name)?;
            after
                .first()
                .is_none_or(u8::is_ascii_digit)
                .then_some((*unit, after))
        })?;
        // Largest first and each once: "3s5s" is no duration.
        if unit >= last {
            return None;
        }
        last = unit;
        let part = decimal.span(unit);
        length = length.saturating_add(part.length);
        if after.is_empty() {
            return Some(Span {
                length,
                grain: part.grain,
            });
        }
        (decimal, rest) = Decimal::split(after)?;
    }
}

/// The duration in words at the start of a sentence, and what follows it: `1.33s`, `59 seconds`,
/// `1h38m23.712s.`, `1 hours, 7 minutes, and 1 seconds`. A number without its unit is none.
pub(crate) fn spoken(text: &[u8]) -> Option<(Span, &[u8])> {
    let mut rest = HEDGES
        .iter()
        .find_map(|hedge| {
            let (start, rest) = text.split_at_checked(hedge.len())?;
            start.eq_ignore_ascii_case(hedge).then_some(rest)
        })
        .unwrap_or(text);
    let mut last = u64::MAX;
    let mut sum: Option<(Span, &[u8])> = None;
    while let Some((decimal, after)) = Decimal::split(rest) {
        let spaced = after.strip_prefix(b" ").unwrap_or(after);
        let letters = spaced
            .iter()
            .take_while(|byte| byte.is_ascii_alphabetic() || **byte > 127);
        let (word, after) = spaced.split_at(letters.count());
        let Some(&(_, unit)) = WORDS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(word))
        else {
            break;
        };
        // Largest first, as people count.
        if unit >= last {
            break;
        }
        last = unit;
        let part = decimal.span(unit);
        let so_far = sum.map_or(Duration::ZERO, |(sum, _)| sum.length);
        let length = so_far.saturating_add(part.length);
        sum = Some((
            Span {
                length,
                grain: part.grain,
            },
            after,
        ));
        rest = [&b", and "[..], b" and ", b", ", b" "]
            .iter()
            .find_map(|glue| after.strip_prefix(*glue))
            .unwrap_or(after);
    }
    sum
}

/// The length of a unit that a sentence names, in nanoseconds.
pub(crate) fn unit(word: &[u8]) -> Option<u64> {
    WORDS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(word))
        .map(|(_, unit)| *unit)
}

/// Units as Go prints them, in nanoseconds. `ms` stands before `m`, so that "9ms" is not nine
/// minutes followed by garbage.
const UNITS: [(&[u8], u64); 10] = [
    (b"ms", 1_000_000),
    (b"d", 86_400 * NANOS as u64),
    (b"h", 3600 * NANOS as u64),
    (b"m", 60 * NANOS as u64),
    (b"s", NANOS as u64),
    (b"us", 1000),
    // The micro sign and the Greek letter in UTF-8, and the micro sign in Latin-1.
    (b"\xc2\xb5s", 1000),
    (b"\xce\xbcs", 1000),
    (b"\xb5s", 1000),
    (b"ns", 1),
];

/// What stands before a duration that is not meant to be exact.
const HEDGES: [&[u8]; 6] = [
    b"~",
    b"about ",
    b"approximately ",
    b"around ",
    b"another ",
    b"at least ",
];

/// Units as sentences spell them.
const WORDS: [(&[u8], u64); 26] = [
    (b"ms", 1_000_000),
    (b"millisecond", 1_000_000),
    (b"milliseconds", 1_000_000),
    (b"s", NANOS as u64),
    (b"sec", NANOS as u64),
    (b"secs", NANOS as u64),
    (b"second", NANOS as u64),
    (b"seconds", NANOS as u64),
    (b"m", 60 * NANOS as u64),
    (b"min", 60 * NANOS as u64),
    (b"mins", 60 * NANOS as u64),
    (b"minute", 60 * NANOS as u64),
    (b"minutes", 60 * NANOS as u64),
    (b"h", 3600 * NANOS as u64),
    (b"hour", 3600 * NANOS as u64),
    (b"hours", 3600 * NANOS as u64),
    (b"d", 86_400 * NANOS as u64),
    (b"day", 86_400 * NANOS as u64),
    (b"days", 86_400 * NANOS as u64),
    (b"us", 1000),
    (b"week", 604_800 * NANOS as u64),
    (b"weeks", 604_800 * NANOS as u64),
    (b"month", 2_592_000 * NANOS as u64),
    (b"months", 2_592_000 * NANOS as u64),
    (b"year", 31_536_000 * NANOS as u64),
    (b"years", 31_536_000 * NANOS as u64),
];

#[cfg(test)]
mod tests {
    use super::super::values::round_up;
    use super::*;

    #[test]
    fn sentences_spell_durations_in_many_ways() {
        let millis =
            |text: &str| spoken(text.as_bytes()).map(|(span, _)| round_up(span.length).as_millis());
        assert_eq!(millis("1.33s. Visit"), Some(1_330));
        assert_eq!(millis("59 seconds."), Some(59_000));
        assert_eq!(millis("1 second"), Some(1_000));
        assert_eq!(millis("7m12s."), Some(432_000));
        assert_eq!(millis("1h38m23.712s."), Some(5_903_712));
        assert_eq!(
            millis("1 hours, 7 minutes, and 1 seconds."),
            Some(4_021_000)
        );
        assert_eq!(millis("~299 min"), Some(17_940_000));
        assert_eq!(millis("about 5 minutes"), Some(300_000));
        assert_eq!(millis("at least 30 seconds"), Some(30_000));
        assert_eq!(millis("a few minutes"), None);
        assert_eq!(millis("2"), None);
        assert_eq!(
            millis("99999999999999999999s"),
            Some(u128::from(u64::MAX) * 1000)
        );
    }
}
