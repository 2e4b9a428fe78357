//! Labels with a bounded number of values.

use std::sync::{Arc, PoisonError, RwLock};

use crate::scheduler::events::Priority;

/// What stands for all that comes beyond a bound: OpenTelemetry's word for an unknown method.
pub(super) const OTHER: &str = "_OTHER";

/// The first so many names that were seen.
#[derive(Debug)]
pub(super) struct Table {
    names: RwLock<Vec<Arc<str>>>,
    most: usize,
    other: Arc<str>,
}

impl Table {
    /// A table of at most `most` names, at most 255, that knows these.
    pub(super) fn new(most: usize, known: &[&str]) -> Self {
        Self {
            names: RwLock::new(known.iter().map(|&name| Arc::from(name)).collect()),
            most: most.min(usize::from(u8::MAX)),
            other: OTHER.into(),
        }
    }

    /// The place of a name, which is beyond the last if there is no room for it.
    pub(super) fn place(&self, name: &str) -> u8 {
        let find = |names: &[Arc<str>]| names.iter().position(|known| **known == *name);
        let known = find(&self.names.read().unwrap_or_else(PoisonError::into_inner));
        let place = known.or_else(|| {
            let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
            find(&names).or_else(|| {
                (names.len() < self.most).then(|| {
                    names.push(name.into());
                    names.len() - 1
                })
            })
        });
        place.map_or(u8::MAX, |place| place as u8)
    }

    /// The name in a place.
    pub(super) fn name(&self, place: u8) -> Arc<str> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.get(usize::from(place)).unwrap_or(&self.other).clone()
    }

    /// The label for a name.
    pub(super) fn label(&self, name: &str) -> Arc<str> {
        self.name(self.place(name))
    }
}

/// Which providers and servers have labels of their own, in limiters that are told together: a
/// limiter alone, or those of all hosts.
#[derive(Debug)]
pub(crate) struct Labels {
    pub(super) providers: Table,
    #[cfg(feature = "reqwest")]
    pub(super) servers: Table,
}

impl Default for Labels {
    fn default() -> Self {
        Self {
            providers: Table::new(MOST_HOSTS, &[]),
            #[cfg(feature = "reqwest")]
            servers: Table::new(MOST_HOSTS, &[]),
        }
    }
}

/// Providers, and servers, with a label of their own: programs that name their APIs have tens, and a
/// crawler must not make a million series.
const MOST_HOSTS: usize = 128;

/// The named level at or below a priority.
pub(super) fn level(priority: Priority) -> &'static str {
    let levels = Priority::LEVELS.iter();
    let mut at_or_below = levels.filter(|(_, level)| *level <= priority);
    at_or_below.next().map_or("background", |(name, _)| name)
}

/// A method that the HTTP specifications know, or [`OTHER`].
#[cfg(feature = "reqwest")]
pub(super) fn method(method: &http::Method) -> &'static str {
    const KNOWN: [&str; 9] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
    ];
    let known = KNOWN.iter().find(|known| **known == method.as_str());
    known.copied().unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_as_many_names_as_it_may() {
        let table = Table::new(3, &["default"]);
        let labels = ["default", "a", "b", "c", "a"].map(|name| table.label(name));
        assert_eq!(
            labels.map(|label| label.to_string()),
            ["default", "a", "b", OTHER, "a"]
        );
    }

    #[test]
    fn a_priority_is_told_by_its_level() {
        let levels = [0, 10, 29, 30, 60, 99, 255].map(|number| level(Priority(number)));
        let expected = [
            "background",
            "background",
            "background",
            "low",
            "normal",
            "high",
            "selected",
        ];
        assert_eq!(levels, expected);
    }
}
