//! The names of scopes and buckets, as they leave the reader.

use std::borrow::Cow;

/// A name as it may be kept: readable, bounded, and without an allocation where it is a usual one.
pub(crate) fn owned(name: &str) -> Option<Cow<'static, str>> {
    if let Some(usual) = USUAL.iter().find(|usual| **usual == name) {
        return Some(Cow::Borrowed(usual));
    }
    let readable = name.len() <= LONGEST && !name.chars().any(char::is_control);
    readable.then(|| Cow::Owned(name.to_owned()))
}

/// Names longer than this are no names: the longest quota ids have some 80 letters.
const LONGEST: usize = 200;

const USUAL: [&str; 16] = [
    "core",
    "default",
    "search",
    "graphql",
    "code_search",
    "integration_manifest",
    "user",
    "project",
    "global",
    "shared",
    "burst",
    "daily",
    "hour",
    "minute",
    "day",
    "api",
];
