//! A credential: its secret, where it is put, and what may be shown of it.
//!
//! A secret leaves this file in two ways only: put on an attempt, or asked for by name
//! ([`ApiKey::expose_secret`]). `Debug` and errors show the kind and a fingerprint.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use sha2::{Digest, Sha256};

use crate::error::{Error, Kind};
use crate::scheduler::events::Fingerprint;

/// One credential of a provider.
///
/// ```
/// use paceline::ApiKey;
/// let key = ApiKey::bearer("s3cret");
/// assert!(!format!("{key:?}").contains("s3cret"));
/// ```
///
/// A bearer key goes into `Authorization`, which every client drops when a redirect leads to
/// another host. Other headers and query parameters are not dropped by reqwest's default: use a
/// client made by [`http_client`](crate::http_client), or one that follows no redirects.
#[derive(Clone)]
pub struct ApiKey(Arc<Credential>);

struct Credential {
    fingerprint: Fingerprint,
    secret: Box<str>,
    place: Place,
}

#[derive(Clone)]
enum Place {
    /// The application sends its own credential, or the limit goes by address.
    Nowhere,
    Bearer(Option<HeaderValue>),
    Header(String, Option<(HeaderName, HeaderValue)>),
    Query(String),
}

impl ApiKey {
    /// Sent as `Authorization: Bearer SECRET`. White space around the secret is not part of it.
    #[must_use]
    pub fn bearer(secret: impl AsRef<str>) -> Self {
        let secret = secret.as_ref().trim();
        let value = HeaderValue::try_from(format!("Bearer {secret}"));
        Self::new(secret, Place::Bearer(value.ok().map(sensitive)))
    }

    /// Sent as the header `name`.
    #[must_use]
    pub fn header(name: impl AsRef<str>, secret: impl AsRef<str>) -> Self {
        let (name, secret) = (name.as_ref().trim(), secret.as_ref().trim());
        let value = HeaderValue::from_str(secret).ok().map(sensitive);
        let field = HeaderName::try_from(name).ok().zip(value);
        Self::new(secret, Place::Header(name.to_owned(), field))
    }

    /// Sent as the query parameter `name`. It is put on the attempt only: the response's URL and
    /// every error show the URL without it.
    #[must_use]
    pub fn query(name: impl Into<String>, secret: impl AsRef<str>) -> Self {
        Self::new(secret.as_ref().trim(), Place::Query(name.into()))
    }

    /// The key of a limiter without keys: nothing is sent.
    pub(crate) fn anonymous() -> Self {
        Self(Arc::new(Credential {
            fingerprint: Fingerprint::ANONYMOUS,
            secret: "".into(),
            place: Place::Nowhere,
        }))
    }

    /// The same credential under another fingerprint: that of an account whose secrets change.
    pub(super) fn known_as(&self, fingerprint: Fingerprint) -> Self {
        Self(Arc::new(Credential {
            fingerprint,
            secret: self.0.secret.clone(),
            place: self.0.place.clone(),
        }))
    }

    fn new(secret: &str, place: Place) -> Self {
        let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        let [a, b, c, d, e, f, ..] = hash;
        Self(Arc::new(Credential {
            fingerprint: Fingerprint::from_hash([a, b, c, d, e, f]),
            secret: secret.into(),
            place,
        }))
    }

    /// What may be shown of it: the first bytes of the SHA-256 of its secret.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint
    }

    /// The secret itself, for a client that paceline does not know. Empty for the anonymous key of
    /// a limiter without keys.
    #[must_use]
    pub fn expose_secret(&self) -> &str {
        &self.0.secret
    }

    /// The start of the secret: enough of it to know the key by, so that a text that has it shows the
    /// key even where a server has masked the rest. What all keys of a vendor begin with does not
    /// count. None of a key so short that its text stands elsewhere by chance.
    #[cfg(feature = "reqwest")]
    pub(crate) fn telltale(&self) -> Option<&str> {
        let secret = self.expose_secret();
        let start = &secret.as_bytes()[..secret.len().min(LONGEST_PREFIX)];
        let prefix = start.iter().rposition(|byte| matches!(byte, b'-' | b'_'));
        let end = match prefix {
            Some(at) => at + 1 + TELLING,
            // All tokens of one signer may begin alike, for as long as their heads are.
            None => secret.len() / 2,
        };
        let end = end.max(SHORTEST).min(secret.len());
        (end >= SHORTEST).then(|| secret.get(..end)).flatten()
    }

    /// Puts it among the headers of an attempt, marked as sensitive; a query key changes nothing.
    pub fn put_on(&self, headers: &mut HeaderMap) {
        match &self.0.place {
            Place::Bearer(Some(value)) => {
                headers.insert(header::AUTHORIZATION, value.clone());
            }
            Place::Header(_, Some((name, value))) => {
                headers.insert(name, value.clone());
            }
            _ => {}
        }
    }

    /// The query parameter to add to an attempt's URL, if this is a query key.
    #[must_use]
    pub fn query_pair(&self) -> Option<(&str, &str)> {
        match &self.0.place {
            Place::Query(name) => Some((name, &self.0.secret)),
            _ => None,
        }
    }

    /// What is wrong with it, if anything is.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let fault = if self.0.secret.is_empty() {
            "is empty"
        } else if self.0.secret.contains(',') {
            // A whole list that was sent as one key has been seen in the wild.
            "contains a comma: give each key of a list by itself"
        } else if !self.0.secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            "contains a space, a control character or a character outside ASCII"
        } else {
            match &self.0.place {
                Place::Header(_, None) => "is for a header whose name is not valid",
                Place::Query(name) if name.is_empty() => "is for a query parameter without a name",
                _ => return Ok(()),
            }
        };
        Err(Kind::Key(format!("a {} key {fault}", self.0.place)).into())
    }
}

impl PartialEq for ApiKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.fingerprint == other.0.fingerprint
    }
}

impl Eq for ApiKey {}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}, {})", self.0.place, self.0.fingerprint)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("anonymous"),
            Self::Bearer(_) => f.write_str("bearer"),
            Self::Header(name, _) => write!(f, "header {name}"),
            Self::Query(name) => write!(f, "query {name}"),
        }
    }
}

/// What vendors begin their keys with is no longer: `sk-ant-api03-` has 13 characters.
#[cfg(feature = "reqwest")]
const LONGEST_PREFIX: usize = 16;
/// Characters of a key's own that are not met by chance: a thousand million of letters and digits.
/// OpenAI's answer to a wrong key shows as many.
#[cfg(feature = "reqwest")]
const TELLING: usize = 5;
/// A shorter text stands elsewhere by chance.
#[cfg(feature = "reqwest")]
const SHORTEST: usize = 6;

fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_start_of_the_secrets_sha256() {
        // echo -n secret | sha256sum
        assert_eq!(
            ApiKey::bearer("secret").fingerprint().to_string(),
            "2bb80d537b1d"
        );
        assert_eq!(ApiKey::bearer(" secret\n"), ApiKey::query("key", "secret"));
    }

    #[test]
    fn nothing_that_is_shown_contains_the_secret() {
        let keys = [
            ApiKey::bearer("hunter2"),
            ApiKey::header("x-api-key", "hunter2"),
            ApiKey::query("key", "hunter2"),
        ];
        for key in keys {
            let mut headers = HeaderMap::new();
            key.put_on(&mut headers);
            let shown = format!("{key:?} {key:#?} {headers:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[cfg(feature = "reqwest")]
    #[test]
    fn a_key_is_known_by_the_start_of_what_is_its_own() {
        for (secret, telltale) in [
            ("sk-abcdefghijklmnop", Some("sk-abcde")),
            ("sk-proj-abcdefghijklm", Some("sk-proj-abcde")),
            ("sk-ant-api03-abcdefghij", Some("sk-ant-api03-abcde")),
            ("0123456789abcdef0123", Some("0123456789")),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIi", Some("eyJhbGciOiJIUz")),
            ("a_b_c_d_e_f_g_h_i_j", Some("a_b_c_d_e_f_g_h_i_j")),
            ("short", None),
            ("secret", Some("secret")),
            ("", None),
        ] {
            assert_eq!(ApiKey::bearer(secret).telltale(), telltale, "{secret}");
        }
    }

    #[test]
    fn a_key_that_cannot_be_sent_is_refused_with_its_kind_and_without_its_text() {
        for secret in ["", " \n", "a,b,c", "x y", "pässword", "x\u{7f}y"] {
            let error = ApiKey::bearer(secret).check().unwrap_err().to_string();
            assert!(error.starts_with("a bearer key "), "{error}");
            assert!(
                secret.trim().is_empty() || !error.contains(secret),
                "{error}"
            );
        }
        assert!(ApiKey::header("x api", "secret").check().is_err());
        assert!(ApiKey::bearer("sk-Abc_123.~+/=").check().is_ok());
    }
}
