//! Headers that speak of limits and tell nothing that can be acted on.
//!
//! Whoever sees one of them in a response asks what became of it. It is not told from a list, but
//! tried: such a header changes nothing where it stands alone, nor where it is taken away.

use std::time::SystemTime;

use http::HeaderMap;
use http::header::{CONTENT_TYPE, DATE};
use paceline::feedback::{self, Feedback, Profile};

use super::response::Response;

/// Their names, in the order in which they came.
pub(super) fn names<'r>(
    profile: &Profile,
    response: &'r Response<'_>,
    received: SystemTime,
) -> Vec<&'r str> {
    let read = |headers: &HeaderMap| -> Feedback {
        feedback::read(
            profile,
            response.status,
            headers,
            Some(response.body),
            received,
        )
    };
    let mut bare = HeaderMap::new();
    for name in [DATE, CONTENT_TYPE] {
        if let Some(value) = response.headers.get(&name) {
            bare.insert(name, value.clone());
        }
    }
    let (whole, nothing) = (read(&response.headers), read(&bare));
    let tells = |name: &http::HeaderName| {
        let (mut alone, mut without) = (bare.clone(), response.headers.clone());
        for value in response.headers.get_all(name) {
            alone.append(name, value.clone());
        }
        without.remove(name);
        read(&alone) != nothing || read(&without) != whole
    };
    response
        .headers
        .keys()
        .filter(|name| speaks_of_limits(name.as_str()) && !tells(name))
        .map(http::HeaderName::as_str)
        .collect()
}

fn speaks_of_limits(name: &str) -> bool {
    ["limit", "throttl", "quota", "retry"]
        .iter()
        .any(|word| name.contains(word))
}
