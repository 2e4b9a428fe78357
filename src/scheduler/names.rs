//! The buckets of a provider as small numbers.
//!
//! Bounded: whatever is named beyond the bound shares the default bucket, so a caller that names a
//! bucket per request cannot grow memory.

use std::collections::HashMap;

use super::events::Name;

/// Interned bucket names. Number 0 is the default bucket.
#[derive(Debug)]
pub(crate) struct Names {
    ids: HashMap<Name, u32>,
}

impl Names {
    /// The number of the default bucket.
    pub(crate) const DEFAULT: u32 = 0;

    pub(crate) fn new() -> Self {
        Self {
            ids: HashMap::new(),
        }
    }

    /// The name of a bucket; none for the default one.
    pub(crate) fn name(&self, id: u32) -> Option<&Name> {
        let named = self.ids.iter().find(|(_, other)| **other == id);
        named.map(|(name, _)| name)
    }

    /// The number of a bucket, new if it was never named. Beyond the bound it is the default one.
    pub(crate) fn id(&mut self, name: Option<&Name>) -> u32 {
        let Some(name) = name else {
            return Self::DEFAULT;
        };
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        if self.ids.len() >= MOST {
            return Self::DEFAULT;
        }
        let id = self.ids.len() as u32 + 1;
        self.ids.insert(name.clone(), id);
        id
    }
}

/// Buckets with state of their own. Providers have tens (models, routes); whoever names more is
/// naming requests.
const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_keeps_its_number_and_a_million_names_stay_bounded() {
        let mut names = Names::new();
        assert_eq!(names.id(None), 0);
        let first = names.id(Some(&"gpt-5".into()));
        for n in 0..1_000_000 {
            let id = names.id(Some(&format!("request-{n}").into()));
            assert!(id as usize <= MOST);
        }
        assert_eq!(names.id(Some(&"gpt-5".into())), first);
        assert_eq!(names.name(first), Some(&"gpt-5".into()));
        assert_eq!(names.name(Names::DEFAULT), None);
        assert_eq!(names.id(Some(&"one-more".into())), Names::DEFAULT);
    }
}
