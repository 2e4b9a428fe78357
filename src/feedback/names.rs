//! What the name of a header says: the index over the table's names, and a grammar for the names
//! of the common families that no row lists.
//!
//! A typical response has fifteen headers, and few speak of limits. So a name is hashed once and
//! looked up in a table built by the compiler; only names with "ratelimit" in them are read word
//! by word.

use super::Dimension;
use super::values::Unit;
use super::vendors::{Header, Key, Meaning, Part, VENDORS};

/// What a header says, whoever sent it.
pub(crate) fn meaning(name: &str) -> Option<Meaning<'_>> {
    if let Some(header) = INDEX.find(name) {
        return Some(header.means);
    }
    // A shorter name does not hold the word.
    if name.len() < 9 || !mentions_limit(name.as_bytes()) {
        return None;
    }
    starred(&PREFIXES, name).or_else(|| family(name))
}

/// What a header says in a vendor's own rows.
pub(crate) fn own<'a>(rows: &'static [Header], name: &'a str) -> Option<Meaning<'a>> {
    rows.iter()
        .find(|row| row.name == name)
        .map(|row| row.means)
        .or_else(|| rows.iter().find_map(|row| star(row, name)))
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

fn starred<'a>(rows: &[Option<&'static Header>], name: &'a str) -> Option<Meaning<'a>> {
    rows.iter().flatten().find_map(|row| star(row, name))
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
    };
    if words.is_empty() {
        return Some(Meaning::Part(plain, Part::Item));
    }
    let (part, object) = match ends_in_part(words) {
        Some((part, object)) => (part, object),
        None => starts_with_part(words)?,
    };
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
        Word::Wait => Meaning::Wait(Unit::Seconds),
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
                return (
                    rest.strip_suffix("-per")
                        .unwrap_or(if rest == "per" { "" } else { rest }),
                    seconds,
                );
            }
        }
    }
    (words, 0)
}

/// Whether "limit" stands in a name: every fifth byte is enough to find it.
fn mentions_limit(name: &[u8]) -> bool {
    let mut at = 4;
    while let Some(byte) = name.get(at) {
        // How far before this byte the word would begin.
        let before = match byte {
            b'l' => 0,
            b'm' => 2,
            b't' => 4,
            b'i' => {
                if name[at - 1] == b'l' {
                    1
                } else {
                    3
                }
            }
            _ => {
                at += 5;
                continue;
            }
        };
        let start = at - before;
        if name
            .get(start..start + 5)
            .is_some_and(|word| word == b"limit")
        {
            return true;
        }
        at += 5;
    }
    false
}

/// What a word in a name says.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Word {
    Part(Part),
    Wait,
    Cost,
    Nothing,
}

/// Words for parts; of two that end alike, the longer stands first.
const WORDS: [(&str, Word); 45] = [
    (
        "reset-after-seconds",
        Word::Part(Part::ResetAfter(Unit::Seconds)),
    ),
    ("reset-after-ms", Word::Part(Part::ResetAfter(Unit::Millis))),
    ("retry-after-seconds", Word::Wait),
    ("retry-after", Word::Wait),
    ("retryafter", Word::Wait),
    ("reset-after", Word::Part(Part::ResetAfter(Unit::Seconds))),
    ("reset-in", Word::Part(Part::ResetAfter(Unit::Seconds))),
    ("resets-in", Word::Part(Part::ResetAfter(Unit::Seconds))),
    ("reset-timestamp", Word::Part(Part::ResetDate)),
    ("reset-time", Word::Part(Part::ResetDate)),
    ("reset-date", Word::Part(Part::ResetDate)),
    ("resettime", Word::Part(Part::ResetDate)),
    ("reset-ms", Word::Part(Part::Reset(Unit::Millis))),
    ("time-reset-ms", Word::Part(Part::ResetAfter(Unit::Millis))),
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
    (
        "interval-milliseconds",
        Word::Part(Part::Window(Unit::Millis)),
    ),
    ("interval-ms", Word::Part(Part::Window(Unit::Millis))),
    ("window-ms", Word::Part(Part::Window(Unit::Millis))),
    ("window-sec", Word::Part(Part::Window(Unit::Seconds))),
    ("window-seconds", Word::Part(Part::Window(Unit::Seconds))),
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
const DIMENSIONS: [(&str, Dimension); 9] = [
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

/// The rows' names by their hash, with open addressing.
struct Index {
    slots: [u16; SLOTS],
    headers: [Option<&'static Header>; MOST],
}

impl Index {
    fn find(&self, name: &str) -> Option<&'static Header> {
        let mut at = slot(name.as_bytes());
        loop {
            let header = self.headers[usize::from(self.slots[at]).checked_sub(1)?]?;
            if header.name == name {
                return Some(header);
            }
            at = (at + 1) % SLOTS;
        }
    }

    const fn build() -> Self {
        let mut index = Self {
            slots: [0; SLOTS],
            headers: [None; MOST],
        };
        let (mut file, mut count) = (0, 0);
        while file < VENDORS.len() {
            let mut row = 0;
            while row < VENDORS[file].len() {
                let headers = VENDORS[file][row].headers;
                let mut at = 0;
                while at < headers.len() {
                    index.headers[count] = Some(&headers[at]);
                    count += 1;
                    let mut place = slot(headers[at].name.as_bytes());
                    while index.slots[place] != 0 {
                        place = (place + 1) % SLOTS;
                    }
                    index.slots[place] = count as u16;
                    at += 1;
                }
                row += 1;
            }
            file += 1;
        }
        index
    }
}

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

/// Where a name's search begins.
const fn slot(name: &[u8]) -> usize {
    let mut hash = name.len() as u64;
    let mut rest = name;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        hash = (hash ^ u64::from_le_bytes(*word))
            .wrapping_mul(SPREAD)
            .rotate_left(29);
        rest = after;
    }
    // The last bytes again, whole: cheaper than one by one.
    if let Some((_, word)) = name.split_last_chunk::<8>() {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(SPREAD);
    } else {
        while let Some((byte, after)) = rest.split_first() {
            hash = (hash ^ *byte as u64).wrapping_mul(SPREAD);
            rest = after;
        }
    }
    (hash >> (64 - SLOTS.trailing_zeros())) as usize
}

/// The fractional part of the golden ratio: multiplying by it spreads the bits (Knuth, 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// More rows than this do not compile.
const MOST: usize = 192;

/// Five times as many, so that a name of no interest mostly meets an empty slot at once.
const SLOTS: usize = 1024;

static INDEX: Index = Index::build();
static PREFIXES: [Option<&Header>; 8] = prefixes();

#[cfg(test)]
mod tests {
    use super::super::vendors::all;
    use super::*;

    #[test]
    fn every_row_is_found_by_its_name() {
        for header in all().flat_map(|vendor| vendor.headers) {
            let found = INDEX.find(header.name).map(|found| found.means);
            assert_eq!(found, Some(header.means), "{}", header.name);
        }
    }
}
