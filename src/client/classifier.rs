//! What priority a request has that names none itself.

use http::Method;

use crate::scheduler::events::Priority;

/// Rules from a request to its priority; the first that fits counts. It is asked for requests that
/// carry no [`Priority`] and no [`Ask`](crate::Ask) of their own, and where the hook `ask_with`
/// has left the priority as it was.
///
/// ```
/// use http::Method;
/// use paceline::{Classifier, Priority};
/// let classifier = Classifier::new()
///     .path("/hotels/*/price", Priority::HIGH)
///     .path("/export/*", Priority::BACKGROUND)
///     .method(Method::POST, Priority::HIGH);
/// assert_eq!(classifier.of(&Method::GET, "/export/2026/all"), Some(Priority::BACKGROUND));
/// assert_eq!(classifier.of(&Method::GET, "/hotels/7/price"), Some(Priority::HIGH));
/// assert_eq!(classifier.of(&Method::GET, "/about"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classifier(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    method: Option<Method>,
    path: Option<Box<str>>,
    priority: Priority,
}

impl Classifier {
    /// One without rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests with this method.
    #[must_use]
    pub fn method(self, method: Method, priority: Priority) -> Self {
        self.with(Some(method), None, priority)
    }

    /// Requests to this path, in which each `*` stands for any text.
    #[must_use]
    pub fn path(self, path: impl Into<Box<str>>, priority: Priority) -> Self {
        self.with(None, Some(path.into()), priority)
    }

    /// Requests with this method to this path.
    #[must_use]
    pub fn route(self, method: Method, path: impl Into<Box<str>>, priority: Priority) -> Self {
        self.with(Some(method), Some(path.into()), priority)
    }

    fn with(mut self, method: Option<Method>, path: Option<Box<str>>, priority: Priority) -> Self {
        self.0.push(Rule {
            method,
            path,
            priority,
        });
        self
    }

    /// The priority of a request, if a rule fits.
    #[must_use]
    pub fn of(&self, method: &Method, path: &str) -> Option<Priority> {
        let fits = |rule: &&Rule| {
            rule.method.as_ref().is_none_or(|known| known == method)
                && rule.path.as_ref().is_none_or(|known| is_like(path, known))
        };
        self.0.iter().find(fits).map(|rule| rule.priority)
    }
}

/// Whether a path is like a pattern. Linear but for the number of stars.
fn is_like(path: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return path == pattern;
    };
    let Some(mut path) = path.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    // The first place of each part leaves the most for the next.
    for part in parts {
        let Some(at) = path.find(part) else {
            return false;
        };
        path = &path[at + part.len()..];
    }
    path.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        let fits = [
            ("/a", "/a"),
            ("/a/b", "/a*"),
            ("/a/b/c", "/a/*/c"),
            ("/a//c", "/a/*/c"),
            ("/a/x/b/y/c", "*/x/*/c"),
            ("", "*"),
        ];
        for (path, pattern) in fits {
            assert!(is_like(path, pattern), "{path} {pattern}");
        }
        let misses = [
            ("/a", "/b"),
            ("/a/c", "/a/*/c"),
            ("/ab", "/a"),
            ("/a/b", "*/c"),
            ("aa", "a*aa"),
        ];
        for (path, pattern) in misses {
            assert!(!is_like(path, pattern), "{path} {pattern}");
        }
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        let classifier = Classifier::new()
            .route(Method::GET, "/x", Priority::LOW)
            .method(Method::GET, Priority::HIGH);
        assert_eq!(classifier.of(&Method::GET, "/x"), Some(Priority::LOW));
        assert_eq!(classifier.of(&Method::GET, "/y"), Some(Priority::HIGH));
        assert_eq!(classifier.of(&Method::PUT, "/x"), None);
    }
}
