//! `RateLimit` and `RateLimit-Policy` in every draft, the lists under the older names, and what
//! proxies made of them.
//!
//! The parser is lenient: it takes all that RFC 9651 takes, and also tokens for strings, members
//! without a name, and two strings in a row. Where a strict parser reads a field, this one reads
//! the same. A member that cannot be read spoils its field and no other.

use std::borrow::Cow;
use std::time::Duration;

use smallvec::SmallVec;

use super::dates;
use super::draft::{Draft, Source, seconds};
use super::json::{self, Scalar};
use super::tally::Tally;
use super::values::{Delay, Unit, Written, count, grouped, trim};
use super::vendors::{Key, Own, Part};
use super::{Dimension, Reset};

/// A member of a list, with the parameters that mean something here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Member<'a> {
    /// A string or a token: a policy's name.
    pub(crate) name: Option<&'a str>,
    /// A number: a limit, what is left, a reset.
    pub(crate) value: Option<f64>,
    pub(crate) quota: Option<f64>,
    pub(crate) remaining: Option<f64>,
    /// As written: it is read with the grammar of every other reset.
    pub(crate) reset: Option<&'a [u8]>,
    pub(crate) window: Option<f64>,
    pub(crate) unit: Option<&'a str>,
    /// A part of a dictionary of draft 7, not a member of a list.
    pub(crate) entry: bool,
}

type Members<'a> = SmallVec<[Member<'a>; 4]>;

/// Turns the lists of a tally into drafts.
pub(crate) fn settle<'a>(tally: &mut Tally<'a>, own: &Own) {
    let lists = std::mem::take(&mut tally.lists);
    let mut done: SmallVec<[&str; 4]> = SmallVec::new();
    for (key, _, _) in &lists {
        if !done.contains(&key.family) {
            done.push(key.family);
            family(tally, key, &lists, own);
        }
    }
}

/// The lists of one family.
fn family<'a>(
    tally: &mut Tally<'a>,
    key: &Key<'a>,
    lists: &[(Key<'a>, Part, &'a [u8])],
    own: &Own,
) {
    let gather = |part: Part, all: &mut Members<'a>| {
        for (other, told, value) in lists {
            let same = std::mem::discriminant(told) == std::mem::discriminant(&part);
            if same && other.family == key.family && members(value, all).is_none() {
                // One member that cannot be read spoils its field.
                all.clear();
                return;
            }
        }
    };
    let braces = |list: &&(Key<'_>, Part, &[u8])| {
        list.0.family == key.family && list.1 == Part::Item && trim(list.2).starts_with(b"{")
    };
    if let Some((_, _, value)) = lists.iter().find(braces) {
        return object(tally, key, value);
    }
    let (mut items, mut policies) = (Members::new(), Members::new());
    gather(Part::Item, &mut items);
    gather(Part::Policy, &mut policies);
    // Draft 7 is a dictionary, whose members have no names beside their keys.
    let dictionary = items.iter().any(|item| item.entry && item.name.is_none());
    if !items.is_empty() && !dictionary {
        return named(tally, key, &items, &policies);
    }
    let mut live = Live::default();
    gather(Part::Limit, &mut live.limit);
    gather(Part::Remaining, &mut live.remaining);
    gather(Part::Reset(Unit::Seconds), &mut live.reset);
    gather(Part::Used, &mut live.used);
    let mut drafts = tally.drafts.iter();
    let place = drafts.position(|draft| draft.plain && draft.family == key.family);
    // Beside a single count a list is none: its commas stand between thousands, or its first
    // member is the live one.
    let single = place.is_some_and(|place| tally.drafts[place].counts());
    let grouped = |list: &(Key<'_>, Part, &[u8])| list.0.family == key.family && thousands(list.2);
    if live.is_list() && !single && !lists.iter().any(grouped) {
        return live.zip(tally, key, &policies, own);
    }
    let mut draft = match place {
        Some(place) => tally.drafts.remove(place),
        None => Draft::new(key, Source::Header),
    };
    live.first(&mut draft, key, lists);
    // Draft 7: a dictionary of the same three.
    for item in &items {
        draft.limit = draft.limit.or(item.quota);
        draft.remaining = draft.remaining.or(item.remaining);
        draft.reset = draft.reset.or_else(|| delay(item.reset?, tally.now));
    }
    let mut rest = live.policies();
    rest.extend(policies);
    describe(tally, key, draft, rest);
}

/// Whether the commas of a value stand between thousands for sure: no list has a member "000".
fn thousands(value: &[u8]) -> bool {
    let mut groups = value.split(|&byte| byte == b',').skip(1).peekable();
    groups.peek().is_some()
        && groups.any(|group| group.starts_with(b"0") && group.len() == 3)
        && grouped(value).is_some()
}

/// The live values of a family, as lists.
#[derive(Default)]
struct Live<'a> {
    limit: Members<'a>,
    remaining: Members<'a>,
    reset: Members<'a>,
    used: Members<'a>,
}

impl<'a> Live<'a> {
    /// Whether these are values by position: `1, 15000`. Where members of the limit carry their
    /// windows, the first is the live one and the rest are policies.
    fn is_list(&self) -> bool {
        let windows = self.limit.iter().any(|member| member.window.is_some());
        !windows
            && [&self.limit, &self.remaining, &self.reset, &self.used]
                .iter()
                .any(|list| list.len() > 1)
    }

    /// Adds the first of each to what was told alone.
    fn first(&self, draft: &mut Draft<'a>, key: &Key<'a>, lists: &[(Key<'a>, Part, &'a [u8])]) {
        let first = |part: Part, members: &Members<'_>| {
            let told = lists
                .iter()
                .find(|list| list.0.family == key.family && list.1 == part);
            let whole = told.and_then(|list| grouped(list.2));
            whole.or_else(|| members.first().and_then(|member| member.value))
        };
        draft.limit = draft.limit.or_else(|| first(Part::Limit, &self.limit));
        draft.remaining = draft
            .remaining
            .or_else(|| first(Part::Remaining, &self.remaining));
        draft.used = draft.used.or_else(|| first(Part::Used, &self.used));
    }

    /// What stands after the live limit; a lone limit with a window is its own policy.
    fn policies(mut self) -> Members<'a> {
        let alone = self.limit.len() == 1 && self.limit[0].window.is_some();
        let from = usize::from(!alone).min(self.limit.len());
        self.limit.drain(from..).collect()
    }

    fn zip(self, tally: &mut Tally<'a>, key: &Key<'a>, policies: &Members<'a>, own: &Own) {
        let lists = [&self.limit, &self.remaining, &self.reset, &self.used];
        let length = lists.iter().map(|list| list.len()).max().unwrap_or(0);
        // Lists of different lengths cannot be told apart by position.
        let even = |list: &&Members<'_>| list.is_empty() || list.len() == length;
        if !lists.iter().all(even) {
            return;
        }
        for at in 0..length {
            let value = |list: &Members<'_>| list.get(at).and_then(|member| member.value);
            let mut draft = Draft::new(key, Source::Header);
            draft.limit = value(&self.limit);
            draft.remaining = value(&self.remaining);
            draft.used = value(&self.used);
            draft.reset = self
                .reset
                .get(at)
                .and_then(|member| delay(member.reset?, tally.now));
            draft.window = match policies.get(at) {
                Some(policy) if policies.len() == length => policy.window.and_then(seconds),
                _ => own
                    .places
                    .get(at)
                    .map(|secs| Duration::from_secs(u64::from(*secs))),
            };
            if draft.scope.is_empty() {
                draft.scope = own.list_scope.into();
            }
            tally.push(draft);
        }
    }
}

/// Drafts 8 and later: items and policies that go by names.
fn named<'a>(tally: &mut Tally<'a>, key: &Key<'a>, items: &Members<'a>, policies: &Members<'a>) {
    for item in items {
        let policy = policies.iter().find(|policy| policy.name == item.name);
        let unit = item.unit.or_else(|| policy?.unit);
        let mut draft = labelled(key, item.name, unit);
        draft.limit = item.quota.or_else(|| policy?.quota);
        draft.remaining = item.remaining;
        draft.reset = item.reset.and_then(|reset| delay(reset, tally.now));
        draft.window = item.window.or_else(|| policy?.window).and_then(seconds);
        tally.push(draft);
    }
    for policy in policies {
        if items.iter().all(|item| item.name != policy.name) {
            tally.push(described(key, policy));
        }
    }
}

/// Adds what the policies say to the live reading, and those of other quotas as their own.
fn describe<'a>(tally: &mut Tally<'a>, key: &Key<'a>, mut live: Draft<'a>, policies: Members<'a>) {
    let mut mine: Option<usize> = None;
    for (at, policy) in policies.iter().enumerate() {
        let Some(window) = policy.window.and_then(seconds) else {
            continue;
        };
        let fits = live
            .reset
            .is_none_or(|reset| reset.after <= window + Duration::from_secs(1));
        let closer = mine.is_none_or(|mine| policies[mine].window > policy.window);
        if policy.limit().is_some() && policy.limit() == live.limit && fits && closer {
            mine = Some(at);
        }
    }
    let unit = policies.first().and_then(|policy| policy.unit);
    if let Some(at) = mine {
        live.window = policies[at].window.and_then(seconds);
        if let Some(name) = policies[at].name {
            live.scope = unescaped(name);
        }
        // Where units differ, nobody can tell which of them is left.
        let one = policies.iter().all(|policy| policy.unit == unit);
        (live.dimension, live.plain) = match (one, unit) {
            (true, None) => (live.dimension, live.plain),
            (true, unit) => (dimension(unit), false),
            (false, _) => (Dimension::Points, false),
        };
    }
    let told: SmallVec<[&Member<'_>; 4]> = policies
        .iter()
        .enumerate()
        .filter(|(at, policy)| {
            let again = policies[..*at].contains(policy)
                || mine.is_some_and(|mine| policies[mine] == **policy);
            // One that says no more than the live limit does.
            let echo = policy.limit() == live.limit
                && policy.window.is_none()
                && policy.name.is_none()
                && policy.unit.is_none();
            Some(*at) != mine && !again && !echo
        })
        .map(|(_, policy)| policy)
        .collect();
    for policy in told {
        tally.push(described(key, policy));
    }
    tally.push(live);
}

/// A policy as a reading of its own: a limit and its window.
fn described<'a>(key: &Key<'a>, policy: &Member<'a>) -> Draft<'a> {
    let mut draft = labelled(key, policy.name, policy.unit);
    draft.limit = policy.limit();
    draft.window = policy.window.and_then(seconds);
    draft
}

fn labelled<'a>(key: &Key<'a>, name: Option<&'a str>, unit: Option<&str>) -> Draft<'a> {
    let mut draft = Draft::new(key, Source::Field);
    draft.scope = unescaped(name.unwrap_or(key.scope));
    if unit.is_some() {
        (draft.dimension, draft.plain) = (dimension(unit), false);
    }
    draft
}

/// A name without the backslashes that stand before quotes in it.
fn unescaped(name: &str) -> Cow<'_, str> {
    if !name.contains('\\') {
        return name.into();
    }
    let mut escaped = false;
    let kept = name.chars().filter(|&letter| {
        escaped = letter == '\\' && !escaped;
        !escaped
    });
    kept.collect::<String>().into()
}

/// What a quota unit counts. One that nobody knows never feeds the count of requests.
fn dimension(unit: Option<&str>) -> Dimension {
    match unit {
        None | Some("requests" | "request") => Dimension::Requests,
        Some("content-bytes" | "bytes") => Dimension::Bytes,
        Some("concurrent-requests") => Dimension::Concurrent,
        Some("tokens") => Dimension::Tokens,
        Some(_) => Dimension::Points,
    }
}

fn delay(reset: &[u8], now: i64) -> Option<Reset> {
    Written::read(reset, now)?
        .reset(Unit::Seconds, now)
        .map(Reset::from)
}

/// `{"name":…,"period":60,"limit":1000,"remaining":999,"until":…}`
fn object<'a>(tally: &mut Tally<'a>, key: &Key<'a>, value: &'a [u8]) {
    let mut draft = Draft::new(key, Source::Header);
    let now = tally.now;
    json::visit(value, |place, scalar| match (place.path, scalar) {
        ([b"name"], Scalar::Text(name)) => draft.scope = String::from_utf8_lossy(name),
        ([b"period" | b"window"], Scalar::Number(text)) => {
            draft.window = count(text).and_then(seconds)
        }
        ([b"limit"], Scalar::Number(text)) => draft.limit = count(text),
        ([b"remaining"], Scalar::Number(text)) => draft.remaining = count(text),
        ([b"until" | b"reset"], Scalar::Number(text) | Scalar::Text(text)) => {
            draft.reset = delay(text, now);
        }
        _ => {}
    });
    tally.push(draft);
}

/// Adds the members of a list; none if one of them cannot be read.
pub(crate) fn members<'a>(value: &'a [u8], all: &mut Members<'a>) -> Option<()> {
    let mut member = Member::default();
    let mut told = false;
    let mut rest = value;
    while !rest.is_empty() {
        let (end, sign) = part(rest);
        let text = trim(&rest[..end]);
        if !text.is_empty() {
            let sides = sign.map(|sign| rest[..end].split_at(sign));
            // A word without a value after the first is a parameter that is true.
            if !told || sides.is_some() || text.starts_with(b"\"") {
                member.take(text, sides)?;
            }
            told = true;
        }
        let separator = rest.get(end).copied();
        rest = rest.get(end + 1..).unwrap_or(b"");
        if told && (separator != Some(b';') || rest.is_empty()) {
            if all.len() < MOST {
                all.push(std::mem::take(&mut member));
            }
            told = false;
        }
    }
    Some(())
}

/// How long the first part of a list is, and where its equals sign stands. What is quoted holds
/// neither separators nor signs.
fn part(text: &[u8]) -> (usize, Option<usize>) {
    let (mut quoted, mut escaped, mut sign) = (false, false, None);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'"' => quoted = !quoted,
            b'\\' => escaped = quoted,
            _ if quoted => {}
            b'=' if sign.is_none() => sign = Some(at),
            b',' | b';' => return (at, sign),
            _ => {}
        }
    }
    (text.len(), sign)
}

impl<'a> Member<'a> {
    /// Takes a part: a name with a value on both sides of its sign, or one that stands alone.
    fn take(&mut self, text: &'a [u8], sides: Option<(&'a [u8], &'a [u8])>) -> Option<()> {
        let Some((name, value)) = sides else {
            match count(text) {
                Some(number) => (self.value, self.reset) = (Some(number), Some(text)),
                // Of two strings the last is the name: the first describes the kind of window.
                None => self.name = Some(word(text)?),
            }
            return Some(());
        };
        let (name, value) = (trim(name), trim(&value[1..]));
        let number = || count(value).filter(|number| *number >= 0.0);
        match name {
            b"q" | b"limit" => self.quota = Some(number()?),
            b"r" | b"remaining" => self.remaining = Some(number()?),
            b"t" | b"reset" => {
                number()?;
                self.reset = Some(value);
            }
            b"w" => self.window = Some(number()?),
            b"qu" | b"unit" => self.unit = Some(word(value)?),
            b"name" => self.name = Some(word(value)?),
            _ => {}
        }
        self.entry |= matches!(name, b"limit" | b"remaining" | b"reset");
        Some(())
    }
}

impl Member<'_> {
    fn limit(&self) -> Option<f64> {
        self.quota.or(self.value)
    }
}

/// A string or a token.
fn word(text: &[u8]) -> Option<&str> {
    let inner = match text {
        [b'"', inner @ .., b'"'] => inner,
        [b'"', ..] | [] => return None,
        token => token,
    };
    std::str::from_utf8(inner).ok()
}

/// The delays of `Retry-After`: one, or several that were joined by commas. Dates hold a comma of
/// their own, so a list is split only before what begins a member.
pub(crate) fn waits(value: &[u8], now: i64, unit: Unit) -> Option<Delay> {
    if let Some(written) = Written::read(value, now) {
        return Some(written.wait(unit, now));
    }
    let mut longest: Option<Delay> = None;
    let mut rest = value.trim_ascii();
    while !rest.is_empty() {
        let comma = |from: usize| {
            rest[from..]
                .iter()
                .position(|&byte| byte == b',')
                .map(|at| from + at)
        };
        let mut end = comma(0).unwrap_or(rest.len());
        if dates::weekday(&rest[..end]).is_some() && end < rest.len() {
            end = comma(end + 1).unwrap_or(rest.len());
        }
        let (one, after) = rest.split_at(end);
        let delay = Written::read(one, now).map(|written| written.wait(unit, now));
        longest = match (longest, delay) {
            (Some(this), Some(that)) if this.after >= that.after => Some(this),
            (this, that) => that.or(this),
        };
        rest = after.strip_prefix(b",").unwrap_or(after).trim_ascii_start();
    }
    longest
}

/// More members than any server sends.
const MOST: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sfv::{BareItem, ListEntry};

    use super::*;

    fn parse(text: &str) -> Option<Vec<Member<'_>>> {
        let mut all = Members::new();
        members(text.as_bytes(), &mut all)?;
        Some(all.into_vec())
    }

    #[test]
    fn members_are_read_in_every_draft_and_beyond() {
        let quoted =
            parse(r#"100, 100;w=60;comment="sliding, soft; or so", 5000;w=3600"#).expect("a list");
        assert_eq!(quoted.len(), 3);
        assert_eq!(
            (quoted[1].value, quoted[1].window),
            (Some(100.0), Some(60.0))
        );
        let two = parse(r#""fixed window";"api";q=500;w=300"#).expect("a list");
        assert_eq!((two[0].name, two[0].quota), (Some("api"), Some(500.0)));
        let nameless = parse("q=100;w=86400").expect("a list");
        assert_eq!((nameless[0].name, nameless[0].quota), (None, Some(100.0)));
        let key = parse(r#""u";r=10;t=5;pk=:YQ==:, "u";r=90"#).expect("a list");
        assert_eq!(
            (key[0].remaining, key[1].remaining),
            (Some(10.0), Some(90.0))
        );
    }

    #[test]
    fn a_member_that_cannot_be_read_spoils_its_field() {
        for text in [
            r#""a";r=x"#,
            r#""a";r=-1"#,
            r#""a;r=1"#,
            r#""a";r=1, "b";w=1e3"#,
            "a;r=",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    /// What a strict parser reads in a policy or an item.
    fn strict(text: &str) -> Option<Vec<(String, [Option<f64>; 4])>> {
        let list: sfv::List = sfv::Parser::new(text).parse().ok()?;
        let number = |item: &BareItem| match item {
            BareItem::Integer(number) => i64::from(*number) as f64,
            _ => f64::NAN,
        };
        list.iter()
            .map(|entry| {
                let ListEntry::Item(item) = entry else {
                    return None;
                };
                let name = match &item.bare_item {
                    BareItem::String(name) => name.as_str().to_owned(),
                    BareItem::Token(name) => name.as_str().to_owned(),
                    _ => return None,
                };
                let of = |key: &str| item.params.get(key).map(&number);
                Some((name, [of("q"), of("r"), of("t"), of("w")]))
            })
            .collect()
    }

    proptest! {
        #[test]
        fn what_a_strict_parser_reads_is_read_the_same(
            parts in prop::collection::vec(
                ("\"[a-z0-9 ,;=._-]{1,12}\"|[a-z*][a-z0-9:/._-]{0,10}",
                 prop::collection::vec(("q|r|t|w|burst|pk|policy", "0|[1-9][0-9]{0,9}"), 0..5)),
                1..5,
            ),
            blanks in "[ ]{0,2}",
        ) {
            let text = parts
                .iter()
                .map(|(name, params)| {
                    let params = params.iter().map(|(key, value)| format!(";{blanks}{key}={value}"));
                    format!("{name}{}", params.collect::<String>())
                })
                .collect::<Vec<_>>()
                .join(&format!(",{blanks}"));
            let strict = strict(&text).expect("the text is a valid list");
            let ours = parse(&text).expect("ours reads what is valid");
            prop_assert_eq!(ours.len(), strict.len());
            for (ours, (name, [q, r, t, w])) in ours.iter().zip(&strict) {
                // A name that is a number is read as one: old drafts have such members.
                prop_assert_eq!(ours.name, Some(name.as_str()), "{}", text);
                let reset = ours.reset.and_then(count);
                prop_assert_eq!([ours.quota, ours.remaining, reset, ours.window], [*q, *r, *t, *w], "{}", text);
            }
        }

        #[test]
        fn nothing_makes_the_parser_panic(text in "\\PC{0,60}|[\"\\\\;,=:a-z0-9 ]{0,60}") {
            let _ = parse(&text);
            let _ = waits(text.as_bytes(), 1_773_144_000_000_000_000, Unit::Seconds);
        }
    }
}
