//! What the name of a header says: the index over the table's names, and a grammar for the names
//! of the common families that no row lists.
//!
//! A typical response has fifteen headers, and few speak of limits. So a name is hashed once and
//! looked up in a table built by the compiler; only names with "ratelimit" in them are read word
//! by word.

use super::Dimension;
use super::values::Unit;
use super::vendors::{Header, Key, Meaning, Part, VENDORS, Vendor, same};

/// What a row of the table says about a header of a vendor.
#[inline]
pub(crate) fn listed(vendor: &'static Vendor, name: &str) -> Option<&'static Meaning<'static>> {
    INDEX.find(vendor, name)
}

/// What the name of a header says that no row lists.
#[inline]
pub(crate) fn unlisted<'a>(vendor: &'static Vendor, name: &'a str) -> Option<Meaning<'a>> {
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

/// Whether "limit" stands in a name. Its rarest letter is looked for in eight bytes at a time.
fn mentions_limit(name: &[u8]) -> bool {
    let Some(last) = name.last_chunk::<8>().filter(|_| name.len() >= SHORTEST) else {
        return false;
    };
    let eight = |from: usize| name[from..].first_chunk::<8>().map_or(0, marks);
    let mut any = eight(0) | marks(last);
    let mut from = 8;
    while from + 8 < name.len() {
        any |= eight(from);
        from += 8;
    }
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
    /// By length, a bit for each mark that a name of this length has.
    marks: [u64; LONGEST],
    slots: [u16; SLOTS],
    entries: [Entry; MOST],
}

/// A header of the table.
#[derive(Clone, Copy)]
struct Entry {
    name: &'static str,
    means: Meaning<'static>,
    /// The only vendor whose header it is.
    own: Option<&'static Vendor>,
}

impl Index {
    /// The vendor's own meaning of a name before the one that all share.
    #[inline]
    fn find(
        &'static self,
        vendor: &'static Vendor,
        name: &str,
    ) -> Option<&'static Meaning<'static>> {
        let bytes = name.as_bytes();
        if self.marks.get(bytes.len())? & mark(bytes) == 0 {
            return None;
        }
        self.search(vendor, name)
    }

    fn search(
        &'static self,
        vendor: &'static Vendor,
        name: &str,
    ) -> Option<&'static Meaning<'static>> {
        let bytes = name.as_bytes();
        let mut at = slot(bytes);
        let mut shared = None;
        while self.slots[at] != 0 {
            let entry = &self.entries[usize::from(self.slots[at]) - 1];
            if entry.name == name {
                match entry.own {
                    None => shared = Some(&entry.means),
                    Some(own) if own.name == vendor.name => return Some(&entry.means),
                    Some(_) => {}
                }
            }
            at = (at + 1) % SLOTS;
        }
        shared
    }

    const fn build() -> Self {
        const EMPTY: Entry = Entry {
            name: "",
            means: Meaning::Nothing,
            own: None,
        };
        let mut index = Self {
            marks: [0; LONGEST],
            slots: [0; SLOTS],
            entries: [EMPTY; MOST],
        };
        let (mut file, mut count) = (0, 0);
        while file < VENDORS.len() {
            let mut row = 0;
            while row < VENDORS[file].len() {
                let vendor = &VENDORS[file][row];
                count = index.add(vendor.headers, None, count);
                count = index.add(vendor.own.headers, Some(vendor), count);
                row += 1;
            }
            file += 1;
        }
        index
    }

    const fn add(
        &mut self,
        headers: &'static [Header],
        own: Option<&'static Vendor>,
        mut count: usize,
    ) -> usize {
        let mut at = 0;
        while at < headers.len() {
            let name = headers[at].name;
            let means = self.numbered(headers[at].means, count);
            self.entries[count] = Entry { name, means, own };
            count += 1;
            self.marks[name.len()] |= mark(name.as_bytes());
            let mut place = slot(name.as_bytes());
            while self.slots[place] != 0 {
                place = (place + 1) % SLOTS;
            }
            self.slots[place] = count as u16;
            at += 1;
        }
        count
    }
}

impl Index {
    /// A meaning whose key has the number of the first equal key among `count` entries.
    const fn numbered(&self, means: Meaning<'static>, count: usize) -> Meaning<'static> {
        let Meaning::Part(key, part) = means else {
            return means;
        };
        let mut at = 0;
        while at < count {
            if let Meaning::Part(known, _) = self.entries[at].means
                && known.dimension as u8 == key.dimension as u8
                && known.window == key.window
                && known.plain == key.plain
                && same(known.scope.as_bytes(), key.scope.as_bytes())
                && same(known.family.as_bytes(), key.family.as_bytes())
            {
                return Meaning::Part(known, part);
            }
            at += 1;
        }
        Meaning::Part(
            Key {
                id: count as u16 + 1,
                ..key
            },
            part,
        )
    }
}

/// One of 64 marks of a name, by its last letter and the one in its middle: a name of no interest
/// seldom shares it with one of the same length in the table.
const fn mark(name: &[u8]) -> u64 {
    match name.last() {
        Some(last) => 1 << ((*last as usize * 5 + name[name.len() / 2] as usize) & 63),
        None => 0,
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

/// Where a name's search begins: by its end, its middle and its length. Names that differ nowhere
/// else are found one after the other.
const fn slot(name: &[u8]) -> usize {
    let mut hash = name.len() as u64;
    if let Some((before, end)) = name.split_last_chunk::<8>() {
        hash ^= u64::from_le_bytes(*end);
        let (_, from_middle) = name.split_at(before.len() / 2);
        if let Some((middle, _)) = from_middle.split_first_chunk::<8>() {
            hash ^= u64::from_le_bytes(*middle)
                .wrapping_mul(SPREAD)
                .rotate_left(32);
        }
    } else if let Some(first) = name.first() {
        hash ^= (*first as u64) << 8;
    }
    (hash.wrapping_mul(SPREAD) >> (64 - SLOTS.trailing_zeros())) as usize
}

/// The fractional part of the golden ratio: multiplying by it spreads the bits (Knuth, 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// More rows than this do not compile.
const MOST: usize = 320;

/// Some times as many, so that a name of no interest mostly meets an empty slot at once.
const SLOTS: usize = 1024;

/// "ratelimit" has nine letters.
const SHORTEST: usize = 9;

/// Longer names do not compile.
const LONGEST: usize = 64;

static INDEX: Index = Index::build();
static PREFIXES: [Option<&Header>; 8] = prefixes();

#[cfg(test)]
mod tests {
    use super::super::vendors::all;
    use super::*;

    /// What the index says, without the numbers that it gives to keys.
    fn found(vendor: &'static Vendor, name: &str) -> Option<Meaning<'static>> {
        INDEX.find(vendor, name).map(|means| match *means {
            Meaning::Part(key, part) => Meaning::Part(Key { id: 0, ..key }, part),
            other => other,
        })
    }

    #[test]
    fn every_row_is_found_by_its_name() {
        for vendor in all() {
            for header in vendor.own.headers {
                let found = found(vendor, header.name);
                assert_eq!(
                    found,
                    Some(header.means),
                    "{} of {}",
                    header.name,
                    vendor.name
                );
            }
            for header in vendor.headers {
                assert_eq!(
                    found(&Vendor::NONE, header.name),
                    Some(header.means),
                    "{}",
                    header.name
                );
            }
        }
    }

    #[test]
    fn equal_keys_have_one_number() {
        let number = |name: &str| match INDEX.find(&Vendor::NONE, name) {
            Some(Meaning::Part(key, _)) => key.id,
            other => panic!("{name} is {other:?}"),
        };
        assert_eq!(number("x-ratelimit-limit"), number("x-ratelimit-reset"));
        assert_ne!(number("x-ratelimit-limit"), number("ratelimit-limit"));
        assert_ne!(
            number("x-ratelimit-limit-tokens"),
            number("x-ratelimit-limit-requests")
        );
    }

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
