//! Where a limiter's keys may go.
//!
//! A key that leaves for the wrong host is lost. So a limiter with keys serves the hosts that it
//! was told, else those of its vendor, else the one of the first request; everything else passes
//! it by untouched.

use std::borrow::Cow;
use std::sync::OnceLock;

#[cfg(feature = "reqwest")]
use reqwest::Url;

use crate::error::{Error, Kind};
use crate::feedback::Profile;

/// The hosts of one limiter.
#[derive(Debug, Default)]
pub(super) struct Scope {
    told: Vec<Host>,
    profile: Option<Profile>,
    /// Of the first request.
    first: OnceLock<(Host, Profile)>,
}

/// A host, or one port of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    name: Box<str>,
    port: Option<u16>,
}

/// Where a request goes.
pub(super) struct There<'a> {
    /// Empty where that is for the service behind to know.
    pub(super) host: Cow<'a, str>,
    port: Option<u16>,
}

impl Scope {
    /// The hosts told, such as `"api.example.com"` or `"api.example.com:8443"`, and the vendor.
    pub(super) fn new(hosts: &[String], profile: Option<Profile>) -> Result<Self, Error> {
        let told = hosts.iter().map(|host| Host::parse(host));
        Ok(Self {
            told: told.collect::<Result<_, _>>()?,
            profile,
            first: OnceLock::new(),
        })
    }

    /// What is known about the vendor of what goes there, if the limiter is for it.
    pub(super) fn admits(&self, there: &There<'_>, has_keys: bool) -> Option<Profile> {
        let host = &*there.host;
        let admitted = if host.is_empty() {
            // Who sends it has a host of its own, and nobody else can know it.
            true
        } else if !self.told.is_empty() {
            self.told.iter().any(|host| host.is_of(there))
        } else if !has_keys {
            true
        } else if let Some(profile) = self.profile.as_ref().filter(|p| !p.hosts().is_empty()) {
            profile.serves(host)
        } else {
            self.first(there).0.is_of(there)
        };
        admitted.then(|| self.profile(there))
    }

    /// What was said about the vendor, else what its host says.
    fn profile(&self, there: &There<'_>) -> Profile {
        if let Some(profile) = &self.profile {
            return profile.clone();
        }
        if there.host.is_empty() {
            return Profile::default();
        }
        let (first, profile) = self.first(there);
        if first.is_of(there) {
            return profile.clone();
        }
        there.profile()
    }

    fn first(&self, there: &There<'_>) -> &(Host, Profile) {
        self.first.get_or_init(|| {
            let host = Host {
                name: (*there.host).into(),
                port: there.port,
            };
            (host, there.profile())
        })
    }
}

impl There<'_> {
    fn profile(&self) -> Profile {
        Profile::by_host(&self.host).unwrap_or_default()
    }
}

#[cfg(feature = "reqwest")]
impl<'a> From<&'a Url> for There<'a> {
    fn from(url: &'a Url) -> Self {
        Self {
            host: url.host_str().unwrap_or_default().into(),
            port: url.port_or_known_default(),
        }
    }
}

#[cfg(feature = "tower")]
impl<'a> From<&'a http::Uri> for There<'a> {
    fn from(uri: &'a http::Uri) -> Self {
        let host = uri.host().unwrap_or_default();
        let known = match uri.scheme_str() {
            Some("http") => Some(80),
            Some("https") => Some(443),
            _ => None,
        };
        Self {
            // A URL has it so already.
            host: if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
                host.to_ascii_lowercase().into()
            } else {
                host.into()
            },
            port: uri.port_u16().or(known),
        }
    }
}

impl Host {
    fn parse(text: &str) -> Result<Self, Error> {
        let fault = || Error::from(Kind::Host(text.to_owned()));
        let name = Self::name(text).ok_or_else(fault)?;
        let port = match text.rsplit_once(':') {
            // Port 80 is the default of the scheme that was made up there.
            Some((_, port)) if !port.ends_with(']') => Some(port.parse().map_err(|_| fault())?),
            _ => None,
        };
        Ok(Self { name, port })
    }

    /// What the URL parser makes of it is what requests are compared with.
    #[cfg(feature = "reqwest")]
    fn name(text: &str) -> Option<Box<str>> {
        let url = Url::parse(&format!("http://{text}/")).ok()?;
        let is_bare = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        url.host_str().filter(|_| is_bare).map(Into::into)
    }

    #[cfg(not(feature = "reqwest"))]
    fn name(text: &str) -> Option<Box<str>> {
        let bare: http::uri::Authority = text.parse().ok()?;
        let host = bare.host();
        let is_bare = !host.is_empty() && !text.contains('@');
        is_bare.then(|| host.to_ascii_lowercase().into())
    }

    fn is_of(&self, there: &There<'_>) -> bool {
        there.host == *self.name && self.port.is_none_or(|port| there.port == Some(port))
    }
}

#[cfg(all(test, feature = "reqwest"))]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().expect("a URL")
    }

    fn scope(hosts: &[&str]) -> Scope {
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        Scope::new(&hosts, None).expect("hosts")
    }

    #[test]
    fn a_host_is_itself_and_no_other_whatever_it_looks_like() {
        let scope = scope(&["api.example.com", "[::1]:8080"]);
        for (there, admitted) in [
            ("https://api.example.com/v1", true),
            ("https://API.example.com:8443/", true),
            ("https://example.com/", false),
            ("https://api.example.com.evil.test/", false),
            ("https://evil.test/?api.example.com", false),
            ("https://api.example.com@evil.test/", false),
            ("http://[::1]:8080/", true),
            ("http://[::1]:8081/", false),
        ] {
            assert_eq!(
                scope.admits(&(&url(there)).into(), true).is_some(),
                admitted,
                "{there}"
            );
        }
    }

    #[test]
    fn with_keys_and_without_hosts_the_first_request_decides() {
        let scope = Scope::default();
        let admits = |there, has_keys| scope.admits(&(&url(there)).into(), has_keys).is_some();
        assert!(admits("https://a.test/", true));
        assert!(admits("https://a.test/other", true));
        assert!(!admits("https://b.test/", true));
        assert!(!admits("http://a.test/", true), "another port");
        assert!(admits("https://b.test/", false), "there is no key to lose");
    }

    #[test]
    fn a_vendors_hosts_are_its_own_and_its_profile_is_known_by_them() {
        let openai = Scope::new(&[], Some(Profile::OPENAI)).expect("no hosts");
        assert!(
            openai
                .admits(&(&url("https://evil.test/v1")).into(), true)
                .is_none()
        );
        assert!(
            openai
                .admits(&(&url("https://api.openai.com/v1")).into(), true)
                .is_some()
        );
        let anyone = Scope::default();
        for (there, profile) in [
            ("https://api.openai.com/v1", Profile::OPENAI),
            ("https://api.anthropic.com/v1", Profile::ANTHROPIC),
            ("https://a.test/", Profile::NONE),
            ("https://api.openai.com/v1", Profile::OPENAI),
        ] {
            assert_eq!(anyone.admits(&(&url(there)).into(), false), Some(profile));
        }
    }

    #[test]
    fn what_is_not_a_host_is_refused_by_name() {
        for text in [
            "",
            "https://a.test",
            "a.test/v1",
            "a.test:port",
            "me@a.test",
            "a b",
        ] {
            let error = Scope::new(&[text.to_owned()], None)
                .expect_err(text)
                .to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
