//! What is known about a vendor beyond what its responses say.

use std::fmt;

use super::vendors::{self, Vendor};

/// What is known about a vendor: a reference to its row in the table.
///
/// ```
/// use paceline::feedback::Profile;
/// assert_eq!(Profile::by_host("api.openai.com"), Some(Profile::OPENAI));
/// assert_eq!(Profile::by_name("GitHub").map(|profile| profile.name()), Some("github"));
/// assert!(Profile::OPENAI.replays("/v1/chat/completions"));
/// ```
#[derive(Clone)]
pub struct Profile(&'static Vendor);

impl Profile {
    /// Nothing is known: only what means the same whoever sends it is read.
    pub const NONE: Self = Self(&Vendor::NONE);
    /// OpenAI.
    pub const OPENAI: Self = Self(vendors::row("openai"));
    /// Anthropic.
    pub const ANTHROPIC: Self = Self(vendors::row("anthropic"));
    /// GitHub.
    pub const GITHUB: Self = Self(vendors::row("github"));
    /// The Gemini API.
    pub const GEMINI: Self = Self(vendors::row("gemini"));
    /// Groq.
    pub const GROQ: Self = Self(vendors::row("groq"));
    /// OpenRouter.
    pub const OPENROUTER: Self = Self(vendors::row("openrouter"));
    /// Rakuten's web services.
    pub const RAKUTEN: Self = Self(vendors::row("rakuten"));
    /// Stripe.
    pub const STRIPE: Self = Self(vendors::row("stripe"));

    /// The profile of this name, or of another that the vendor goes by; only letters and digits
    /// count, in any case. None if no vendor has it.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let wanted = letters(name);
        let named = |known: &str| letters(known) == wanted;
        vendors::all()
            .find(|vendor| named(vendor.name))
            .or_else(|| vendors::all().find(|vendor| vendor.also.iter().any(|also| named(also))))
            .map(Self)
    }

    /// The name of a profile that a misspelt one most likely means; none if it is like none.
    ///
    /// ```
    /// assert_eq!(paceline::Profile::nearest("opnai"), Some("openai"));
    /// ```
    #[must_use]
    pub fn nearest(name: &str) -> Option<&'static str> {
        let wanted = letters(name);
        let near = vendors::all().flat_map(|vendor| {
            let names = std::iter::once(&vendor.name).chain(vendor.also);
            names.map(|known| (edits(&letters(known), &wanted), vendor.name))
        });
        let (edits, nearest) = near.min()?;
        (edits * LETTERS_AN_EDIT <= wanted.len()).then_some(nearest)
    }

    /// The profile of the vendor that serves this host; the closest pattern wins. None if no
    /// vendor does.
    #[must_use]
    pub fn by_host(host: &str) -> Option<Self> {
        let host = host.trim_end_matches('.');
        vendors::all()
            .flat_map(|vendor| vendor.hosts.iter().map(move |pattern| (vendor, *pattern)))
            .filter(|(_, pattern)| fits(pattern, host))
            .max_by_key(|(_, pattern)| (!pattern.contains('*'), pattern.len()))
            .map(|(vendor, _)| Self(vendor))
    }

    /// The names of all profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        vendors::all().map(|vendor| vendor.name)
    }

    /// The name by which [`Profile::by_name`] finds it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.0.name
    }

    /// The hosts that it is for; `*` stands for one or more labels.
    #[must_use]
    pub const fn hosts(&self) -> &'static [&'static str] {
        self.0.hosts
    }

    /// Whether it is for this host.
    #[must_use]
    pub fn serves(&self, host: &str) -> bool {
        self.0.hosts.iter().any(|pattern| fits(pattern, host))
    }

    /// Whether it was made from a [`Description`](super::Description).
    #[must_use]
    pub const fn is_described(&self) -> bool {
        self.0.described
    }

    /// What is worth knowing about the vendor's signals.
    #[must_use]
    pub const fn notes(&self) -> &'static str {
        self.0.notes
    }

    /// Whether a POST to this path may be sent again after an error: a generation call, which
    /// changes nothing at the server. The path may have a query.
    #[must_use]
    pub fn replays(&self, path: &str) -> bool {
        let path = path.split('?').next().unwrap_or(path).trim_end_matches('/');
        self.0.replays.iter().any(|end| path.ends_with(end))
    }

    /// The header by which the server recognises a repeated request, if it does.
    #[must_use]
    pub const fn idempotency_header(&self) -> Option<&'static str> {
        self.0.idempotency
    }

    /// Whether [`read`](super::read) has a use for the body of a response with this status.
    #[must_use]
    pub fn wants_body(&self, status: http::StatusCode) -> bool {
        status.as_u16() >= 400 || self.0.own.ok_bodies
    }

    /// A row as a profile.
    pub(crate) const fn of(vendor: &'static Vendor) -> Self {
        Self(vendor)
    }

    pub(crate) const fn vendor(&self) -> &'static Vendor {
        self.0
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::NONE
    }
}

/// In a file: the name of a vendor, or a table as [`Description`](super::Description) has it.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Profile {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NameOrTable)
    }
}

#[cfg(feature = "serde")]
struct NameOrTable;

#[cfg(feature = "serde")]
impl<'de> serde::de::Visitor<'de> for NameOrTable {
    type Value = Profile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a vendor, or a table that describes one")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Profile, E> {
        Profile::by_name(name).ok_or_else(|| {
            let meant = Profile::nearest(name);
            let meant =
                meant.map_or_else(String::new, |meant| format!("is \"{meant}\" meant? Else "));
            E::custom(format!(
                "{name:?} is no vendor that is known: {meant}describe it with a table"
            ))
        })
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Profile, A::Error> {
        use serde::de::{Error, value::MapAccessDeserializer};
        let described: super::Description =
            serde::Deserialize::deserialize(MapAccessDeserializer::new(map))?;
        described.profile().map_err(A::Error::custom)
    }
}

impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        // Two that users described may have one name.
        std::ptr::eq(self.0, other.0)
            || self.0.name == other.0.name && !self.0.described && !other.0.described
    }
}

impl Eq for Profile {}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Profile").field(&self.0.name).finish()
    }
}

/// What counts of a name.
fn letters(name: &str) -> Vec<u8> {
    let letters = name.bytes().filter(u8::is_ascii_alphanumeric);
    letters.map(|byte| byte.to_ascii_lowercase()).collect()
}

/// How many letters must be put in, left out, changed or swapped with the next to make one word of
/// another.
fn edits(one: &[u8], other: &[u8]) -> usize {
    let first: Vec<usize> = (0..=other.len()).collect();
    let (mut before, mut row) = (first.clone(), first);
    for (i, letter) in one.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, wanted) in other.iter().enumerate() {
            let change = row[j] + usize::from(letter != wanted);
            let mut least = change.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && one[i - 1] == *wanted && other[j - 1] == *letter {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[other.len()]
}

/// A slip of the pen to so many letters: with more of them most short names would be like another.
const LETTERS_AN_EDIT: usize = 3;

/// Whether a host matches a pattern whose one `*` stands for one or more labels.
fn fits(pattern: &str, host: &str) -> bool {
    let same = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
    let Some((before, after)) = pattern.split_once('*') else {
        return same(pattern, host);
    };
    if let Some((first, rest)) = after.split_once('*') {
        // Two stars: the labels between them must stand somewhere.
        return fits(&format!("*{rest}"), host)
            && host.to_ascii_lowercase().contains(first)
            && host
                .get(..before.len())
                .is_some_and(|start| same(start, before));
    }
    host.len() > before.len() + after.len()
        && host
            .get(..before.len())
            .is_some_and(|start| same(start, before))
        && host
            .get(host.len() - after.len()..)
            .is_some_and(|end| same(end, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_given_once_and_found() {
        let also = vendors::all().flat_map(|vendor| vendor.also.iter().copied());
        let mut names: Vec<_> = Profile::names().chain(also).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name is given twice");
        for vendor in vendors::all() {
            for name in vendor.also.iter().chain([&vendor.name]) {
                let found = Profile::by_name(name).map(|profile| profile.name());
                assert_eq!(found, Some(vendor.name), "{name}");
            }
        }
        assert_eq!(
            Profile::by_name("AZURE_OPENAI").map(|found| found.name()),
            Some("azure-openai")
        );
        assert_eq!(Profile::by_name("nobody"), None);
    }

    #[test]
    fn fields_of_successes_are_known_by_their_whole_path() {
        for vendor in vendors::all().filter(|vendor| vendor.own.ok_bodies) {
            for field in vendor.own.fields {
                assert!(
                    field.path.starts_with('.'),
                    "{}: {}",
                    vendor.name,
                    field.path
                );
            }
        }
    }

    #[test]
    fn every_host_leads_to_the_vendor_that_lists_it() {
        for vendor in vendors::all() {
            for pattern in vendor.hosts {
                let host = pattern.replace('*', "eu-1");
                let found = Profile::by_host(&host).map(|profile| profile.name());
                assert_eq!(found, Some(vendor.name), "{host}");
            }
        }
    }

    #[test]
    fn a_slip_of_the_pen_is_known_and_another_word_is_not() {
        for (slip, meant) in [
            ("opnai", "openai"),
            ("Open-IA", "openai"),
            ("anthropc", "anthropic"),
            ("githbu", "github"),
            ("stripe", "stripe"),
        ] {
            assert_eq!(Profile::nearest(slip), Some(meant), "{slip}");
        }
        for other in ["", "q", "my-own-gateway", "localhost"] {
            assert_eq!(Profile::nearest(other), None, "{other}");
        }
    }

    #[test]
    fn the_closest_pattern_wins_and_strangers_have_none() {
        let name = |host: &str| Profile::by_host(host).map(|profile| profile.name());
        assert_eq!(
            name("bedrock-runtime.us-east-1.amazonaws.com"),
            Some("aws-bedrock")
        );
        assert_eq!(name("sqs.us-east-1.amazonaws.com"), Some("aws"));
        assert_eq!(name("my.openai.azure.com"), Some("azure-openai"));
        assert_eq!(name("API.GitHub.com."), Some("github"));
        assert_eq!(name("api.github.com.evil.example"), None);
        assert_eq!(name("evilapi.openai.com.example"), None);
        assert_eq!(name("localhost"), None);
    }

    #[test]
    fn generation_calls_are_replayed_and_others_not() {
        assert!(Profile::OPENAI.replays("/v1/chat/completions?x=1"));
        assert!(Profile::GEMINI.replays("/v1beta/models/gemini-pro:generateContent"));
        assert!(!Profile::OPENAI.replays("/v1/files"));
        assert!(!Profile::NONE.replays("/v1/chat/completions"));
    }
}
