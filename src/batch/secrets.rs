//! The keys of a run, to be kept out of what servers say: some repeat what they were sent.

use memchr::memmem::Finder;

use crate::client::ApiKey;

/// The keys of a run. It is never shown.
#[derive(Default)]
pub(crate) struct Secrets(Vec<(Finder<'static>, String)>);

impl Secrets {
    /// Those that are long enough not to stand in a text by chance.
    pub(crate) fn of<'a>(keys: impl IntoIterator<Item = &'a ApiKey>) -> Self {
        let mut secrets = Vec::new();
        for key in keys {
            let secret = key.expose_secret();
            if secret.len() >= SHORTEST {
                let shown = format!("[key {}]", key.fingerprint());
                secrets.push((Finder::new(secret).into_owned(), shown));
            }
        }
        // The longer of two that begin alike goes first, or its end would stay.
        secrets.sort_by_key(|(finder, _)| std::cmp::Reverse(finder.needle().len()));
        Self(secrets)
    }

    /// The text without keys, if there are any in it. A key has no sign that JSON escapes.
    pub(crate) fn hidden(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut clean: Option<Vec<u8>> = None;
        for (finder, shown) in &self.0 {
            let from = clean.as_deref().unwrap_or(text);
            let Some(first) = finder.find(from) else {
                continue;
            };
            let mut to = Vec::with_capacity(from.len());
            let (mut at, mut next) = (0, Some(first));
            while let Some(found) = next {
                to.extend_from_slice(&from[at..found]);
                to.extend_from_slice(shown.as_bytes());
                at = found + finder.needle().len();
                next = finder.find(&from[at..]).map(|found| at + found);
            }
            to.extend_from_slice(&from[at..]);
            clean = Some(to);
        }
        clean
    }

    /// What a person is told, without keys and without parts of them: servers that repeat the key
    /// that they refuse leave out its middle only.
    pub(crate) fn masked(&self, text: String) -> String {
        let mut text = match self.hidden(text.as_bytes()) {
            Some(clean) => String::from_utf8_lossy(&clean).into_owned(),
            None => text,
        };
        for (finder, shown) in &self.0 {
            let (mut clean, mut rest) = (String::with_capacity(text.len()), text.as_str());
            while let Some(first) = rest.chars().next() {
                match part_at_start(rest, finder.needle()) {
                    0 => {
                        clean.push(first);
                        rest = &rest[first.len_utf8()..];
                    }
                    part => {
                        clean.push_str("[part of ");
                        clean.push_str(&shown[1..]);
                        rest = &rest[part..];
                    }
                }
            }
            text = clean;
        }
        text
    }
}

/// How much of a key a text begins with, if that is enough to tell it by.
fn part_at_start(text: &str, key: &[u8]) -> usize {
    let common = |from: &[u8]| {
        let both = from.iter().zip(text.as_bytes());
        both.take_while(|(a, b)| a == b).count()
    };
    let longest = (0..key.len()).map(|at| common(&key[at..])).max();
    let part = longest.filter(|part| *part >= SHORTEST).unwrap_or(0);
    // A key need not end where a character does.
    (0..=part)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0)
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

/// Shorter texts stand in answers by chance.
const SHORTEST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_in_a_text_becomes_its_fingerprint() {
        let keys = ["sk-12345678", "sk-12345678-long", "short"].map(ApiKey::bearer);
        let secrets = Secrets::of(&keys);
        let shown = |at: usize| format!("[key {}]", keys[at].fingerprint());
        let hidden = secrets.hidden(b"a sk-12345678 b sk-12345678-long short sk-12345678");
        let expected = format!("a {} b {} short {}", shown(0), shown(1), shown(0));
        assert_eq!(hidden, Some(expected.into_bytes()));
        assert_eq!(secrets.hidden(b"nothing of the kind"), None);
        assert!(!format!("{secrets:?}").contains("sk-"));
    }

    #[test]
    fn a_part_of_a_key_is_told_to_nobody() {
        let key = ApiKey::bearer("sk-abcdefghijklmnopqrstuvwxyz");
        let secrets = Secrets::of([&key]);
        let masked = |text: &str| secrets.masked(text.to_owned());
        let shown = key.fingerprint();
        assert_eq!(
            masked("Incorrect API key provided: sk-abcdefg…stuvwxyz, sk-abc*xyz"),
            format!(
                "Incorrect API key provided: [part of key {shown}]…[part of key {shown}], sk-abc*xyz"
            )
        );
        assert_eq!(masked("é no such model"), "é no such model");
        assert_eq!(
            masked("sk-abcdefghijklmnopqrstuvwxyz!"),
            format!("[key {shown}]!")
        );
    }
}
