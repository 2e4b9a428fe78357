//! What the name of a header says that no row of the table lists: a grammar for the names of the
//! common families.
//!
//! Only names with "ratelimit" in them are read word by word.

use super::Dimension;
use super::values::Unit;
use super::vendors::{Header, Key, Meaning, Part, VENDORS, Vendor};

/// What the name of a header says.
#[inline]
pub(crate) fn read<'a>(vendor: &'static Vendor, name: &'a str) -> Option<Meaning<'a>> {
    if let Some(row) = vendor.own.headers.last()
        && row.name.ends_with('*')
        && let Some(means) = vendor.own.headers.iter().find_map(|row| star(row, name))
    {
        return Some(means);
    }
    if !mentions_limit(name.as_bytes()) {
        return None;
    }
    PREFIXES
        .iter()
        .flatten()
        .find_map(|row| star(row, name))
        .or_else(|| family(name))
}

/// What the user of a described vendor says of a header.
#[cold]
pub(crate) fn described<'a>(vendor: &'static Vendor, name: &'a str) -> Option<Meaning<'a>> {
    let own = vendor.own.headers.iter();
    own.clone()
        .find(|row| row.name == name)
        .map(|row| row.means)
        .or_else(|| own.clone().find_map(|row| star(row, name)))
}

/// A row whose name ends in a star: what stands for the star is the scope.
fn star<'a>(row: &'static Header, name: &'a str) -> Option<Meaning<'a>> {
    let scope = name.strip_prefix(row.name.strip_suffix('*')?)?;
    let named = |key: Key<'static>| {
        if key.scope.is_empty() {
            Key { scope, ..key }
        } else {
            key
        }
    };
    Some(match row.means {
        Meaning::Part(key, part) => Meaning::Part(named(key), part),
        Meaning::Whole(key, form) => Meaning::Whole(
            Key {
                family: scope,
                ..named(key)
            },
            form,
        ),
        other => other,
    })
}

/// Reads `<family>-ratelimit-<words>`: a part first or last, and between them what is limited, per
/// which window, and for whom.
fn family(name: &str) -> Option<Meaning<'_>> {
    let (family, words) = split(name)?;
    let plain = Key {
        family,
        dimension: Dimension::Requests,
        window: 0,
        scope: "",
        plain: true,
        id: 0,
    };
    if words.is_empty() {
        return Some(Meaning::Part(plain, Part::Item));
    }
    let in_unit = UNITS.iter().find_map(|(end, unit)| {
        let (part, object) = part(words.strip_suffix(end)?)?;
        Some((part.of(*unit)?, object))
    });
    let (part, object) = in_unit.or_else(|| part(words))?;
    // `limit-user-remaining`: the family says "limit" once more before the object.
    let object = if part == Word::Part(Part::Limit) {
        object
    } else {
        object.strip_prefix("limit-").unwrap_or(object)
    };
    let key = if object.is_empty() {
        plain
    } else {
        self::object(family, object)
    };
    Some(match part {
        Word::Part(part) => Meaning::Part(key, part),
        Word::Wait(unit) => Meaning::Wait(unit),
        Word::Cost => Meaning::Cost(key.dimension),
        Word::Nothing => Meaning::Nothing,
    })
}

/// The name up to and with the word "ratelimit", and what follows its hyphen.
fn split(name: &str) -> Option<(&str, &str)> {
    ["ratelimit", "rate-limit"].into_iter().find_map(|word| {
        let end = name.find(word)? + word.len();
        let (family, rest) = name.split_at(end);
        if rest.is_empty() {
            Some((family, rest))
        } else {
            Some((family, rest.strip_prefix('-')?))
        }
    })
}

/// The part that words begin or end with, and what they say beside it.
fn part(words: &str) -> Option<(Word, &str)> {
    ends_in_part(words).or_else(|| starts_with_part(words))
}

fn ends_in_part(words: &str) -> Option<(Word, &str)> {
    WORDS.iter().find_map(|(word, part)| {
        let object = words.strip_suffix(word)?;
        if object.is_empty() {
            Some((*part, object))
        } else {
            Some((*part, object.strip_suffix('-')?))
        }
    })
}

fn starts_with_part(words: &str) -> Option<(Word, &str)> {
    WORDS
        .iter()
        .find_map(|(word, part)| Some((*part, words.strip_prefix(word)?.strip_prefix('-')?)))
}

/// What is limited, per which window, and for whom: `project-tokens`, `req-minute`, `api-units`.
fn object<'a>(family: &'a str, words: &'a str) -> Key<'a> {
    let key = |dimension, window, scope| Key {
        family,
        dimension,
        window,
        scope,
        plain: false,
        id: 0,
    };
    let (rest, window) = window(words);
    if rest.is_empty() {
        // `minutely` names the limit, `minute` only its window.
        let scope = if words.ends_with("ly") { words } else { "" };
        return key(Dimension::Requests, window, scope);
    }
    for (word, dimension) in DIMENSIONS {
        if let Some(scope) = rest.strip_suffix(word) {
            if scope.is_empty() {
                return key(dimension, window, "");
            }
            if let Some(scope) = scope.strip_suffix('-') {
                return key(dimension, window, scope);
            }
        }
        if let Some(scope) = rest
            .strip_prefix(word)
            .and_then(|rest| rest.strip_prefix(['-', '_']))
        {
            return key(dimension, window, scope);
        }
    }
    // Whose requests they are; any other word is a unit of the vendor's own.
    let dimension = if OWNERS.contains(&rest) {
        Dimension::Requests
    } else {
        Dimension::Points
    };
    key(dimension, window, rest)
}

/// Takes the window off the end, in seconds.
fn window(words: &str) -> (&str, u32) {
    for (word, seconds) in WINDOWS {
        if let Some(rest) = words.strip_suffix(word) {
            if rest.is_empty() {
                return (rest, seconds);
            }
            if let Some(rest) = rest.strip_suffix('-') {
                let (rest, times) = counted(rest);
                let rest =
                    rest.strip_suffix("-per")
                        .unwrap_or(if rest == "per" { "" } else { rest });
                return (rest, seconds.saturating_mul(times));
            }
        }
    }
    (words, 0)
}

/// Takes the number off the end that says how many of a window: `tokens-5` before `minute`.
fn counted(words: &str) -> (&str, u32) {
    let (rest, number) = words.rsplit_once('-').unwrap_or(("", words));
    match number.parse() {
        Ok(times) if times > 0 => (rest, times),
        _ => (words, 1),
    }
}

/// Whether "limit" stands in a name. Its rarest letter is looked for in eight bytes at a time.
fn mentions_limit(name: &[u8]) -> bool {
    let Some(last) = name.last_chunk::<8>().filter(|_| name.len() >= SHORTEST) else {
        return false;
    };
    let (eights, _) = name.as_chunks::<8>();
    let any = eights
        .iter()
        .fold(marks(last), |any, eight| any | marks(eight));
    any != 0
        && name.iter().enumerate().any(|(at, &byte)| {
            byte == b'm' && at >= 2 && name.get(at - 2..at + 3) == Some(b"limit")
        })
}

/// Marks an "m" among eight bytes, and perhaps the byte after it.
#[inline]
fn marks(word: &[u8; 8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let other = u64::from_le_bytes(*word) ^ (ONES * b'm' as u64);
    other.wrapping_sub(ONES) & !other & TOPS
}

/// What a word in a name says.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Word {
    Part(Part),
    Wait(Unit),
    Cost,
    Nothing,
}

impl Word {
    /// The same in a unit, if it is a time.
    const fn of(self, unit: Unit) -> Option<Self> {
        match self {
            Self::Part(Part::Reset(_) | Part::ResetAfter(_)) => {
                Some(Self::Part(Part::ResetAfter(unit)))
            }
            Self::Part(Part::Window(_)) => Some(Self::Part(Part::Window(unit))),
            Self::Wait(_) => Some(Self::Wait(unit)),
            _ => None,
        }
    }
}

/// What ends the name of a time: its unit. `second` alone is a window.
const UNITS: [(&str, Unit); 5] = [
    ("-ms", Unit::Millis),
    ("-millis", Unit::Millis),
    ("-milliseconds", Unit::Millis),
    ("-seconds", Unit::Seconds),
    ("-minutes", Unit::Minutes),
];

/// Words for parts; of two that end alike, the longer stands first.
const WORDS: [(&str, Word); 39] = [
    ("retry-after", Word::Wait(Unit::Seconds)),
    ("retryafter", Word::Wait(Unit::Seconds)),
    ("reset-after", Word::Part(Part::ResetAfter(Unit::Seconds))),
    ("reset-at", Word::Part(Part::Reset(Unit::Seconds))),
    ("resets-at", Word::Part(Part::Reset(Unit::Seconds))),
    ("reset-in", Word::Part(Part::ResetAfter(Unit::Seconds))),
    ("resets-in", Word::Part(Part::ResetAfter(Unit::Seconds))),
    ("reset-timestamp", Word::Part(Part::ResetDate)),
    ("reset-time", Word::Part(Part::ResetDate)),
    ("reset-date", Word::Part(Part::ResetDate)),
    ("resettime", Word::Part(Part::ResetDate)),
    ("time-reset", Word::Part(Part::ResetAfter(Unit::Seconds))),
    ("reset", Word::Part(Part::Reset(Unit::Seconds))),
    ("limit", Word::Part(Part::Limit)),
    ("max", Word::Part(Part::Limit)),
    ("total", Word::Part(Part::Limit)),
    ("quota", Word::Part(Part::Limit)),
    ("remaining", Word::Part(Part::Remaining)),
    ("remain", Word::Part(Part::Remaining)),
    ("left", Word::Part(Part::Remaining)),
    ("used", Word::Part(Part::Used)),
    ("usage", Word::Part(Part::Used)),
    ("observed", Word::Part(Part::Used)),
    ("window-sec", Word::Part(Part::Window(Unit::Seconds))),
    ("window", Word::Part(Part::Window(Unit::Seconds))),
    ("period", Word::Part(Part::Window(Unit::Seconds))),
    ("renewalperiod", Word::Part(Part::Window(Unit::Seconds))),
    ("interval", Word::Part(Part::Window(Unit::Seconds))),
    ("policy", Word::Part(Part::Policy)),
    ("name", Word::Part(Part::Bucket)),
    ("bucket", Word::Part(Part::Bucket)),
    ("resource", Word::Part(Part::Bucket)),
    ("rule", Word::Part(Part::Bucket)),
    ("group", Word::Part(Part::Bucket)),
    ("category", Word::Part(Part::Bucket)),
    ("scope", Word::Part(Part::Scope)),
    ("query-cost", Word::Cost),
    ("credits", Word::Cost),
    ("type", Word::Nothing),
];

/// Words for what is counted. "token" alone is none of them: it is as often a credential.
const DIMENSIONS: [(&str, Dimension); 13] = [
    ("concurrent-requests", Dimension::Concurrent),
    ("concurrent-request", Dimension::Concurrent),
    ("concurrent", Dimension::Concurrent),
    ("concurrency", Dimension::Concurrent),
    ("input-tokens", Dimension::InputTokens),
    ("output-tokens", Dimension::OutputTokens),
    ("tokens-prompt", Dimension::InputTokens),
    ("tokens-generated", Dimension::OutputTokens),
    ("tokens", Dimension::Tokens),
    ("requests", Dimension::Requests),
    ("request", Dimension::Requests),
    ("req", Dimension::Requests),
    ("bytes", Dimension::Bytes),
];

/// Words for whose requests are counted.
const OWNERS: [&str; 17] = [
    "user",
    "org",
    "organization",
    "client",
    "app",
    "application",
    "project",
    "account",
    "team",
    "workspace",
    "tenant",
    "ip",
    "global",
    "endpoint",
    "route",
    "method",
    "service",
];

/// Words for windows, in seconds; a month has thirty days.
const WINDOWS: [(&str, u32); 20] = [
    ("secondly", 1),
    ("minutely", 60),
    ("hourly", 3600),
    ("daily", 86_400),
    ("weekly", 604_800),
    ("monthly", 2_592_000),
    ("second", 1),
    ("minute", 60),
    ("hour", 3600),
    ("24hour", 86_400),
    ("day", 86_400),
    ("week", 604_800),
    ("month", 2_592_000),
    ("year", 31_536_000),
    ("sec", 1),
    ("min", 60),
    ("1s", 1),
    ("10s", 10),
    ("1m", 60),
    ("1h", 3600),
];

/// The rows whose names end in a star.
const fn prefixes() -> [Option<&'static Header>; 8] {
    let mut prefixes = [None; 8];
    let (mut file, mut count) = (0, 0);
    while file < VENDORS.len() {
        let mut row = 0;
        while row < VENDORS[file].len() {
            let headers = VENDORS[file][row].headers;
            let mut at = 0;
            while at < headers.len() {
                let name = headers[at].name.as_bytes();
                if name[name.len() - 1] == b'*' {
                    prefixes[count] = Some(&headers[at]);
                    count += 1;
                }
                at += 1;
            }
            row += 1;
        }
        file += 1;
    }
    prefixes
}

/// "ratelimit" has nine letters.
const SHORTEST: usize = 9;

static PREFIXES: [Option<&Header>; 8] = prefixes();

#[cfg(test)]
mod tests {
    use super::super::vendors::all;
    use super::*;

    #[test]
    fn the_grammar_reads_the_common_names_as_the_table_does() {
        let mut read = 0;
        for header in all().flat_map(|vendor| vendor.headers) {
            let common = ["x-ratelimit-", "ratelimit-", "anthropic-ratelimit-"];
            let Meaning::Part(key, part) = header.means else {
                continue;
            };
            let listed = common.iter().any(|start| header.name.starts_with(start));
            if listed && key.window == 0 && !key.family.is_empty() {
                assert_eq!(
                    family(header.name),
                    Some(Meaning::Part(key, part)),
                    "{}",
                    header.name
                );
                read += 1;
            }
        }
        assert!(read > 20);
    }

    #[test]
    fn a_starred_row_of_a_vendor_stands_last() {
        for vendor in all() {
            let stars: Vec<_> = vendor
                .own
                .headers
                .iter()
                .map(|row| row.name.ends_with('*'))
                .collect();
            assert!(
                stars.is_sorted(),
                "{}: rows with a star come after those without",
                vendor.name
            );
        }
    }

    #[test]
    fn the_word_limit_is_found_wherever_it_stands() {
        for before in 0..20 {
            for after in 0..20 {
                let name = format!("{}limit{}", "m".repeat(before), "x".repeat(after));
                assert_eq!(
                    mentions_limit(name.as_bytes()),
                    name.len() >= SHORTEST,
                    "{name}"
                );
                let without = name.replace("limit", "limbo");
                assert!(!mentions_limit(without.as_bytes()), "{without}");
            }
        }
    }
}
