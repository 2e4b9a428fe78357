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
        keys.push((auth.key(&secret_in_env(name)?), name.clone()));
    }
    for path in files {
        let file = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        for (line, secret) in secrets_in_file(path)? {
            keys.push((auth.key(&secret), format!("{file} line {line}")));
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

/// The keys in a file, with their lines.
fn secrets_in_file(path: &Path) -> Result<Vec<(usize, String)>, String> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read the keys in {shown}: {error}"))?;
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let secrets: Vec<_> = (1..)
        .zip(lines)
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| (number, line.to_owned()))
        .collect();
    if secrets.is_empty() {
        return Err(format!("there is no key in {shown}: write one a line"));
    }
    Ok(secrets)
}
