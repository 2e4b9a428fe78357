//! An answer that turns its request away in a way in which all may be turned away: a missing key, a
//! wrong path, a wrong method, a page for people.

use http::header::AUTHORIZATION;

use super::ending::Reply;
use super::record::Code;
use super::request::{self, Request};

/// What an answer says that turns its request away, where all requests may be turned away so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnedAway {
    /// What has to be equal for it to be the same slip each time.
    pub(crate) place: String,
    /// What to do about it.
    pub(crate) hint: String,
}

impl Reply {
    /// How it turns its request away, where all may be turned away so.
    pub(crate) fn turns_away(&self, request: &Request, has_keys: bool) -> Option<TurnedAway> {
        let Self::Answer(answer) = self else {
            return None;
        };
        if self.is_served() {
            return None;
        }
        let has_keys = has_keys || request.headers.contains_key(AUTHORIZATION);
        let (method, url) = (&request.method, request::without_query(&request.url));
        if let Some((code, said)) = &answer.meaning.flaw {
            // One page for whatever was asked for is that of a place for people.
            let (place, hint) = (request.url.origin().ascii_serialization(), said.clone());
            return (*code == Code::Html).then(|| TurnedAway {
                place: format!("{place} {said}"),
                hint,
            });
        }
        // Many things that are not there, or not for everybody, are an answer; one that never is is
        // a slip. What stands in the query is a part of what was asked for.
        let thing = format!("{method} {}", request.url);
        let (place, hint) = match answer.status.as_u16() {
            status @ (401 | 403) => (
                if status == 401 { String::new() } else { thing },
                match has_keys {
                    true => format!(
                        "{url} does not take this key: check it, where it goes (--auth), and what \
                         it is allowed to do"
                    ),
                    false => format!(
                        "{url} asks for a key, and none was given: --key-env NAME takes it from a \
                         variable, --key-file PATH from a file"
                    ),
                },
            ),
            404 => (
                thing,
                format!(
                    "nothing is at {url}, or nothing of what is asked for there (such as a model): \
                     check --base-url and the requests"
                ),
            ),
            405 => (
                format!("{method} {url}"),
                format!("{url} takes no {method}: check the method and the urls of the requests"),
            ),
            _ if answer.status.is_redirection() => (
                thing,
                format!(
                    "{url}: {}: is that the address that is meant?",
                    answer.said.as_ref()?
                ),
            ),
            _ => return None,
        };
        Some(TurnedAway { place, hint })
    }
}
