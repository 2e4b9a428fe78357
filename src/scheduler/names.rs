//! The buckets of a provider as small numbers, and what the server calls them.
//!
//! A caller, or a vendor's rules, name a bucket by what can be seen before a request is sent; the
//! server may say afterwards in which of its buckets it was counted. Where it always says the same,
//! that one is the home of the named one: two that have one home share their limits.
//!
//! Bounded: whatever is named beyond the bound shares the default bucket, so a caller that names a
//! bucket per request cannot grow memory.

use std::collections::HashMap;

use super::events::Name;

/// Interned bucket names. Number 0 is the default bucket.
#[derive(Debug)]
pub(crate) struct Names {
    ids: HashMap<Name, u32>,
    /// By number.
    homes: Vec<Home>,
}

/// Where the limits of a bucket are kept.
#[derive(Debug)]
enum Home {
    /// With it: the server has said nothing, or not always the same.
    Own,
    /// The same, and nothing that the server says will change it.
    Mixed,
    /// With another, which the server calls so.
    Label(u32, Name),
}

impl Names {
    /// The number of the default bucket.
    pub(crate) const DEFAULT: u32 = 0;

    pub(crate) fn new() -> Self {
        Self {
            ids: HashMap::new(),
            homes: vec![Home::Mixed],
        }
    }

    /// The bucket that keeps the limits of this one.
    pub(crate) fn home(&self, id: u32) -> u32 {
        match self.homes.get(id as usize) {
            Some(Home::Label(home, _)) => *home,
            _ => id,
        }
    }

    /// The server calls the bucket of a request so.
    pub(crate) fn learn(&mut self, id: u32, label: &str) {
        match self.homes.get(id as usize) {
            Some(Home::Own) => {}
            Some(Home::Label(_, known)) if known.as_str() != label => {
                self.homes[id as usize] = Home::Mixed;
                return;
            }
            _ => return,
        }
        // What stands after a `#` has limits of its own under each label.
        let named = self.name(id).map(Name::as_str).unwrap_or_default();
        let home = match named.split_once('#') {
            Some((_, part)) => format!("{label}#{part}"),
            None => label.to_owned(),
        };
        let home = self.id(Some(&home.into()));
        if home != Self::DEFAULT {
            self.homes[id as usize] = Home::Label(home, label.to_owned().into());
        }
    }

    /// The name of a bucket; none for the default one.
    pub(crate) fn name(&self, id: u32) -> Option<&Name> {
        let named = self.ids.iter().find(|(_, other)| **other == id);
        named.map(|(name, _)| name)
    }

    /// The number of a bucket that was named before.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
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
        self.homes.push(Home::Own);
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
    fn a_bucket_that_the_server_names_lives_there_until_it_says_another_name() {
        let mut names = Names::new();
        let [code, issues] = ["/search/code", "/search/issues"].map(|n| names.id(Some(&n.into())));
        names.learn(code, "search");
        names.learn(issues, "search");
        assert_eq!(names.home(code), names.home(issues));
        assert_ne!(names.home(code), code);
        names.learn(code, "code_search");
        names.learn(code, "search");
        assert_eq!(names.home(code), code);
        names.learn(Names::DEFAULT, "search");
        assert_eq!(names.home(Names::DEFAULT), Names::DEFAULT);
    }

    #[test]
    fn parts_with_limits_of_their_own_do_not_share_a_label() {
        let mut names = Names::new();
        let [one, two] = ["/c/*#1", "/c/*#2"].map(|name| names.id(Some(&name.into())));
        names.learn(one, "abcd");
        names.learn(two, "abcd");
        assert_ne!(names.home(one), names.home(two));
    }

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
