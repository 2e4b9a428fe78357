//! A file of settings as it is written: those of every provider, and beside them each provider's
//! own, with where its keys are found. It never holds a key itself.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use paceline::{Limiter, Settings};
use reqwest::Url;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor,
};

use super::super::keys::Auth;

/// A file of settings.
#[derive(Default)]
pub(in crate::command) struct File {
    /// Those of every host that no provider names.
    pub(in crate::command) settings: Settings,
    pub(in crate::command) providers: Vec<Provider>,
}

/// A provider with settings and keys of its own.
pub(in crate::command) struct Provider {
    pub(in crate::command) name: String,
    pub(in crate::command) settings: Settings,
    pub(in crate::command) place: Place,
}

/// Where a provider is, and where its keys are found.
#[derive(Default)]
pub(in crate::command) struct Place {
    pub(in crate::command) base_url: Option<Url>,
    pub(in crate::command) hosts: Vec<Url>,
    pub(in crate::command) key_env: Vec<String>,
    pub(in crate::command) key_file: Vec<PathBuf>,
    pub(in crate::command) auth: Option<Auth>,
}

impl Place {
    /// Every address of it.
    pub(in crate::command) fn origins(&self) -> Vec<Url> {
        self.base_url.iter().chain(&self.hosts).cloned().collect()
    }
}

impl File {
    /// Reads a file, and checks every setting. A batch has time: without `max_wait` it waits for
    /// ever.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or what is wrong in it and where.
    pub(in crate::command) fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read the settings in {shown}: {error}"))?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        Self::parse(&text, folder).map_err(|error| format!("{shown} cannot be used: {error}"))
    }

    /// The settings in a text. Files of keys lie relative to `folder`.
    pub(super) fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let said = |error: toml::de::Error| error.to_string().trim_end().to_owned();
        // Once for what is wrong and where, …
        let whole: With<Providers> = toml::from_str(text).map_err(said)?;
        // … and once for what a provider leaves to the settings of all.
        let mut table: toml::Table = toml::from_str(text).map_err(said)?;
        let own = table.remove(PROVIDERS);
        let mut providers: Vec<Provider> = Vec::new();
        for (name, With { extra: place, .. }) in whole.extra.0 {
            let mut merged = table.clone();
            if let Some(toml::Value::Table(own)) = own.as_ref().and_then(|own| own.get(&name)) {
                merge(&mut merged, own);
            }
            let settings = settings(merged).map_err(|error| format!("provider {name}: {error}"))?;
            let mut place = place;
            for file in &mut place.key_file {
                *file = folder.join(&*file);
            }
            if place.origins().is_empty() {
                return Err(format!("provider {name} needs a base_url or hosts"));
            }
            for other in &providers {
                let theirs = other.place.origins();
                if place
                    .origins()
                    .iter()
                    .any(|url| theirs.iter().any(|own| own.origin() == url.origin()))
                {
                    return Err(format!(
                        "the providers {} and {name} name the same host",
                        other.name
                    ));
                }
            }
            providers.push(Provider {
                name,
                settings,
                place,
            });
        }
        Ok(Self {
            settings: settings(table)?,
            providers,
        })
    }
}

fn settings(table: toml::Table) -> Result<Settings, String> {
    let waits = table.contains_key("max_wait");
    let mut settings = Settings::deserialize(table).map_err(|error| error.to_string())?;
    settings.max_wait = settings.max_wait.filter(|_| waits);
    // The limiter knows the range of every setting, those of its parts too.
    let limiter = Limiter::builder().settings(settings.clone()).build();
    limiter.map_err(|error| error.to_string())?;
    Ok(settings)
}

/// Lays a provider's own settings over those of all; of a table such as `retry`, field by field.
fn merge(all: &mut toml::Table, own: &toml::Table) {
    for (name, value) in own {
        if Place::FIELDS.contains(&name.as_str()) {
            continue;
        }
        match (all.get_mut(name), value) {
            (Some(toml::Value::Table(all)), toml::Value::Table(own)) if name == "retry" => {
                all.extend(own.clone());
            }
            _ => drop(all.insert(name.clone(), value.clone())),
        }
    }
}

/// Settings, and fields beside them.
struct With<E> {
    extra: E,
}

/// Fields that stand beside settings.
trait Extra: Default {
    const FIELDS: &'static [&'static str];

    /// Reads the value of one of them.
    fn take<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<(), A::Error>;
}

#[derive(Default)]
struct Providers(BTreeMap<String, With<Place>>);

impl Extra for Providers {
    const FIELDS: &'static [&'static str] = &[PROVIDERS];

    fn take<'de, A: MapAccess<'de>>(&mut self, _: &str, map: &mut A) -> Result<(), A::Error> {
        self.0 = map.next_value()?;
        Ok(())
    }
}

impl Extra for Place {
    const FIELDS: &'static [&'static str] = &["base_url", "hosts", "key_env", "key_file", "auth"];

    fn take<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<(), A::Error> {
        match field {
            "base_url" => self.base_url = Some(map.next_value::<Address>()?.0),
            "hosts" => {
                let hosts: Vec<Address> = map.next_value()?;
                self.hosts = hosts.into_iter().map(|Address(url)| url).collect();
            }
            "key_env" => self.key_env = map.next_value::<OneOrMore<String>>()?.into(),
            "key_file" => self.key_file = map.next_value::<OneOrMore<PathBuf>>()?.into(),
            _ => {
                let Read(auth) = map.next_value()?;
                self.auth = Some(auth);
            }
        }
        Ok(())
    }
}

/// One value, or a list of them.
#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts was expected")]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> From<OneOrMore<T>> for Vec<T> {
    fn from(values: OneOrMore<T>) -> Self {
        match values {
            OneOrMore::One(value) => vec![value],
            OneOrMore::More(values) => values,
        }
    }
}

/// Where a key goes. What is wrong with it is said while the file's own reader looks at it.
struct Read(Auth);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

/// A web address; a host alone is meant with TLS.
struct Address(Url);

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let whole = if text.contains("://") {
            text.clone()
        } else {
            format!("https://{text}")
        };
        let url = Url::parse(&whole).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        url.map(Self).ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} is no host: write api.example.com or https://HOST:PORT"
            ))
        })
    }
}

impl<'de, E: Extra> Deserialize<'de> for With<E> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Whole<E>(E);
        impl<'de, E: Extra> Visitor<'de> for Whole<E> {
            type Value = With<E>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of settings")
            }

            fn visit_map<A: MapAccess<'de>>(mut self, map: A) -> Result<With<E>, A::Error> {
                let extra = &mut self.0;
                Settings::deserialize(MapAccessDeserializer::new(Beside { map, extra }))?;
                Ok(With { extra: self.0 })
            }
        }
        from.deserialize_map(Whole(E::default()))
    }
}

/// A map from which the extra fields are taken out on the way.
struct Beside<'a, A, E> {
    map: A,
    extra: &'a mut E,
}

impl<'de, A: MapAccess<'de>, E: Extra> MapAccess<'de> for Beside<'_, A, E> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let mut seed = Some(seed);
        loop {
            let sieve = Sieve {
                seed: &mut seed,
                fields: E::FIELDS,
            };
            match self.map.next_key_seed(sieve)? {
                None => return Ok(None),
                Some(Field::Setting(name)) => return Ok(Some(name)),
                Some(Field::Extra(name)) => self.extra.take(&name, &mut self.map)?,
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// Tells the names of settings from those of extra fields. What is wrong with a name is said while
/// the file's own reader looks at it, so that it knows the line.
struct Sieve<'a, K> {
    seed: &'a mut Option<K>,
    fields: &'static [&'static str],
}

enum Field<T> {
    Setting(T),
    Extra(String),
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Sieve<'_, K> {
    type Value = Field<K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        let name = String::deserialize(from)?;
        if self.fields.contains(&name.as_str()) {
            return Ok(Field::Extra(name));
        }
        if !SETTINGS.contains(&name.as_str()) {
            let known = [self.fields, &SETTINGS].concat().join("`, `");
            return Err(D::Error::custom(format!(
                "unknown field `{name}`, expected one of `{known}`"
            )));
        }
        let seed = self
            .seed
            .take()
            .expect("each key that is a setting ends the loop");
        seed.deserialize(name.into_deserializer())
            .map(Field::Setting)
    }
}

const PROVIDERS: &str = "providers";

/// The fields of [`Settings`].
const SETTINGS: [&str; 19] = [
    "profile",
    "mode",
    "ceilings",
    "shared_ceilings",
    "key_concurrency",
    "max_concurrency",
    "concurrency",
    "pace",
    "max_wait",
    "attempt_timeout",
    "reserve",
    "shedding",
    "delays",
    "tenants",
    "queue",
    "retry",
    "penalty",
    "hint_scope",
    "longest_park",
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn parse(text: &str) -> Result<File, String> {
        File::parse(text, Path::new("/etc/limits"))
    }

    const TWO: &str = r#"
        max_wait = "90s"
        ceilings = ["500/1m"]
        retry = { errors = 5, refusals = 7 }

        [providers.openai]
        base_url = "https://api.openai.com/v1"
        key_env = ["A", "B"]
        ceilings = ["30000 tokens/1m"]
        retry = { errors = 1 }

        [providers.local]
        hosts = ["localhost:8080", "http://127.0.0.1:9"]
        key_file = "keys.txt"
        auth = "header:x-key"
        profile = "openai"
    "#;

    #[test]
    fn a_provider_lays_its_own_settings_over_those_of_all() {
        let file = parse(TWO).expect("good");
        let [local, openai] = &file.providers[..] else {
            panic!("two providers")
        };
        assert_eq!(
            openai.settings.ceilings,
            ["30000 tokens/1m".parse().expect("a ceiling")]
        );
        assert_eq!(
            (openai.settings.retry.errors, openai.settings.retry.refusals),
            (1, 7)
        );
        assert_eq!(openai.settings.max_wait, Some(Duration::from_secs(90)));
        assert_eq!(openai.place.key_env, ["A", "B"]);
        assert_eq!(local.settings.retry, file.settings.retry);
        assert_eq!(local.place.key_file, [Path::new("/etc/limits/keys.txt")]);
        let hosts: Vec<_> = local.place.hosts.iter().map(Url::as_str).collect();
        assert_eq!(hosts, ["https://localhost:8080/", "http://127.0.0.1:9/"]);
        assert!(local.place.auth.is_some() && local.settings.profile.is_some());
    }

    #[test]
    fn what_is_wrong_with_a_provider_is_named_with_its_place() {
        for (text, parts) in [
            (
                "[providers.a]\nhots = []\n",
                ["line 2", "expected one of `base_url`, `hosts`"],
            ),
            ("[provider.a]\n", ["line 1", "unknown field `provider`"]),
            (
                "[providers.a]\nqueue = 1\n",
                ["provider a", "needs a base_url or hosts"],
            ),
            (
                "[providers.a]\nhosts = [\"h\"]\nauth = \"basic\"\n",
                ["line 3", "header:NAME"],
            ),
            (
                "[providers.a]\nhosts = [\"h\"]\nprofile = \"opnai\"\n",
                ["line 3", "opnai"],
            ),
            (
                "[providers.a]\nhosts = [\"ftp://h\"]\n",
                ["line 2", "is no host"],
            ),
            (
                "[providers.a]\nhosts = [\"h\"]\nqueue = 0\n",
                ["provider a", "queue is 0"],
            ),
            (
                "[providers.a]\nhosts = [\"h\"]\nkey_env = 5\n",
                ["line 3", "a list of texts"],
            ),
            (
                "[providers.a]\nhosts = [\"h\"]\n[providers.b]\nbase_url = \"https://h/v1\"\n",
                ["a and b", "the same host"],
            ),
        ] {
            let error = parse(text).err().expect(text);
            for part in parts {
                assert!(error.contains(part), "{part} is not in {error}");
            }
        }
    }

    #[test]
    fn the_names_of_settings_are_those_that_the_limiter_knows() {
        let error = toml::from_str::<Settings>("nothing = 1")
            .expect_err("unknown")
            .to_string();
        for name in SETTINGS {
            assert!(error.contains(&format!("`{name}`")), "{name}");
        }
        let named = error.matches('`').count() / 2 - 1;
        assert_eq!(named, SETTINGS.len(), "{error}");
    }
}
