//! Where a limiter's keys may go.
//!
//! A key that leaves for the wrong host is lost. So a limiter with keys serves the hosts that it
//! was told, else those of its vendor, else the one of the first request; everything else passes
//! it by untouched.

use std::sync::OnceLock;

use reqwest::Url;

use crate::error::{Error, Kind};

/// The hosts of one limiter.
#[derive(Debug, Default)]
pub(super) struct Scope {
    told: Vec<Host>,
    first: OnceLock<Host>,
}

/// A host, or one port of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    name: Box<str>,
    port: Option<u16>,
}

impl Scope {
    /// The hosts told: `"api.example.com"` or `"api.example.com:8443"`.
    pub(super) fn new(hosts: &[String]) -> Result<Self, Error> {
        let told = hosts.iter().map(|host| Host::parse(host));
        Ok(Self {
            told: told.collect::<Result<_, _>>()?,
            first: OnceLock::new(),
        })
    }

    /// Whether the limiter is for this URL. One that has keys and was told no hosts is for the
    /// first that it sees.
    pub(super) fn admits(&self, url: &Url, has_keys: bool) -> bool {
        if !self.told.is_empty() {
            return self.told.iter().any(|host| host.is_of(url));
        }
        if !has_keys {
            return true;
        }
        let first = self.first.get_or_init(|| Host {
            name: url.host_str().unwrap_or_default().into(),
            port: url.port_or_known_default(),
        });
        first.is_of(url)
    }
}

impl Host {
    fn parse(text: &str) -> Result<Self, Error> {
        let fault = || Kind::Host(text.to_owned());
        // What the URL parser makes of it is what requests are compared with.
        let url = Url::parse(&format!("http://{text}/")).map_err(|_| fault())?;
        let is_bare = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        let name = url.host_str().filter(|_| is_bare).ok_or_else(fault)?;
        let port = match text.rsplit_once(':') {
            // Port 80 is the default of the scheme that was made up above.
            Some((_, port)) if !port.ends_with(']') => {
                Some(port.parse().map_err(|_| Error::from(fault()))?)
            }
            _ => None,
        };
        Ok(Self {
            name: name.into(),
            port,
        })
    }

    fn is_of(&self, url: &Url) -> bool {
        url.host_str() == Some(&self.name)
            && self
                .port
                .is_none_or(|port| url.port_or_known_default() == Some(port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().expect("a URL")
    }

    fn scope(hosts: &[&str]) -> Scope {
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        Scope::new(&hosts).expect("hosts")
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
            assert_eq!(scope.admits(&url(there), true), admitted, "{there}");
        }
    }

    #[test]
    fn with_keys_and_without_hosts_the_first_request_decides() {
        let scope = Scope::default();
        assert!(scope.admits(&url("https://a.test/"), false));
        assert!(scope.admits(&url("https://b.test/"), true));
        assert!(!scope.admits(&url("https://a.test/"), true));
        assert!(!scope.admits(&url("http://b.test/"), true), "another port");
        assert!(scope.admits(&url("https://b.test/other"), true));
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
            let error = Scope::new(&[text.to_owned()]).expect_err(text).to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
