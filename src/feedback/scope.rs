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

/// Whether a scope is that of an account or an address: `org`, `*@organization`,
/// `organization/per_hour`.
pub(crate) fn is_account(scope: &str) -> bool {
    let scope = scope.rsplit('@').next().unwrap_or(scope);
    let scope = scope.split('/').next().unwrap_or(scope);
    ACCOUNTS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(scope))
}

/// Words for what several keys of one user have in common.
const ACCOUNTS: [&str; 7] = [
    "account",
    "ip",
    "org",
    "organization",
    "team",
    "tenant",
    "workspace",
];

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_told_from_a_key_and_a_route() {
        for scope in [
            "org",
            "Organization",
            "*@organization",
            "organization/per_day",
            "ip",
        ] {
            assert!(is_account(scope), "{scope}");
        }
        for scope in ["user", "core", "default@key", "app/call_count", "", "orgs"] {
            assert!(!is_account(scope), "{scope}");
        }
    }
}
