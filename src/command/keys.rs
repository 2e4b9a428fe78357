//! Where the keys of the command come from, and where they go. A key is never a value on the
//! command line, and is never shown.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use http::HeaderName;
use paceline::{ApiKey, Profile};

/// Keys with what each is called: its variable, or its file and line.
pub(super) type Named = Vec<(ApiKey, String)>;

/// The keys in these variables and files.
///
/// # Errors
///
/// One is not there, and what to do.
pub(super) fn read(env: &[String], files: &[PathBuf], auth: &Auth) -> Result<Named, String> {
    let mut keys = Vec::new();
    for name in env {
        let secret = secret_in_env(name)?;
        keys.push((auth.key(auth.bare(&secret)), name.clone()));
    }
    for path in files {
        let file = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        for (line, secret) in secrets_in_file(path)? {
            keys.push((auth.key(auth.bare(&secret)), format!("{file} line {line}")));
        }
    }
    Ok(keys)
}

/// Where a key goes.
#[derive(Clone, Debug)]
pub(super) enum Auth {
    Bearer,
    Header(HeaderName),
    Query(String),
}

impl Auth {
    /// Where the vendors that take no bearer key want it.
    pub(super) fn of(profile: &Profile) -> Self {
        match profile.name() {
            "anthropic" => Self::Header(HeaderName::from_static("x-api-key")),
            "azure-openai" => Self::Header(HeaderName::from_static("api-key")),
            "gemini" => Self::Header(HeaderName::from_static("x-goog-api-key")),
            "rakuten" => Self::Query("applicationId".to_owned()),
            _ => Self::Bearer,
        }
    }

    /// A key without what people copy along with it: quotes, and the `Bearer` that is put before
    /// it anyway.
    fn bare<'a>(&self, secret: &'a str) -> &'a str {
        let mut bare = secret.trim();
        for quote in ['"', '\''] {
            let inner = bare.strip_prefix(quote);
            bare = inner
                .and_then(|inner| inner.strip_suffix(quote))
                .unwrap_or(bare);
        }
        match (self, bare.split_once(' ')) {
            (Self::Bearer, Some((scheme, key))) if scheme.eq_ignore_ascii_case("bearer") => {
                key.trim()
            }
            _ => bare,
        }
    }

    fn key(&self, secret: &str) -> ApiKey {
        match self {
            Self::Bearer => ApiKey::bearer(secret),
            Self::Header(name) => ApiKey::header(name, secret),
            Self::Query(name) => ApiKey::query(name.clone(), secret),
        }
    }
}

impl fmt::Display for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bearer => f.write_str("bearer"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Query(name) => write!(f, "query:{name}"),
        }
    }
}

impl FromStr for Auth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "bearer" => Ok(Self::Bearer),
            Some(("header", name)) => match HeaderName::from_str(name) {
                Ok(name) => Ok(Self::Header(name)),
                Err(_) => Err("the name after `header:` is no header name".to_owned()),
            },
            Some(("query", name)) if !name.is_empty() => Ok(Self::Query(name.to_owned())),
            _ => Err("it is none of bearer, header:NAME, query:NAME".to_owned()),
        }
    }
}

fn secret_in_env(name: &str) -> Result<String, String> {
    // What does not look like a name may be the key itself, and is not repeated.
    let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let shown = name.bytes().all(is_name);
    match std::env::var(name) {
        Ok(secret) if !secret.trim().is_empty() => Ok(secret),
        Ok(_) if shown => Err(format!(
            "the environment variable {name} of --key-env is empty"
        )),
        Err(_) if shown => Err(format!(
            "the environment variable {name} of --key-env is not set: export {name}=…"
        )),
        _ => Err(
            "--key-env takes the name of an environment variable that holds a key, \
                  not the key itself; this one is not set or empty"
                .to_owned(),
        ),
    }
}

/// What a line of a file of settings for a shell, `export NAME=value`, has behind its name; any
/// other line as it is. A key may end in `=`, but has seldom one between capitals and more.
fn value(line: &str) -> &str {
    let setting = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let is_name = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        name.starts_with(|first: char| first.is_ascii_uppercase()) && name.bytes().all(is_part)
    };
    match setting.split_once('=') {
        Some((name, value)) if is_name(name) && !value.trim_start_matches('=').is_empty() => value,
        _ => line,
    }
}

/// The keys in a file, with their lines.
fn secrets_in_file(path: &Path) -> Result<Vec<(usize, String)>, String> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read the keys in {shown}: {error}"))?;
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let secrets: Vec<_> = (1..)
        .zip(lines)
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| (number, value(line).to_owned()))
        .collect();
    if secrets.is_empty() {
        return Err(format!("there is no key in {shown}: write one a line"));
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_along_with_a_key_is_no_part_of_it() {
        let bare = |line| Auth::Bearer.bare(value(line)).to_owned();
        for line in [
            "sk-1=",
            "\"sk-1=\"",
            "Bearer sk-1=",
            "bearer  sk-1=",
            "API_KEY=sk-1=",
            "export API_KEY='sk-1='",
            "API_KEY=\"Bearer sk-1=\"",
        ] {
            assert_eq!(bare(line), "sk-1=", "{line}");
        }
        assert_eq!(bare("ABCD=="), "ABCD==", "padding is no setting");
        let header = Auth::Header(http::header::AUTHORIZATION);
        assert_eq!(header.bare("Bearer sk-1"), "Bearer sk-1");
    }
}
