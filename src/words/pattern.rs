//! Host patterns of manifests and configuration: `api.github.com`, `*.example.com`, `host:8443`, `*`.

use std::fmt;
use std::sync::Arc;

use super::authority::{Authority, Host};

/// A pattern over hosts and one port.
///
/// `*.example.com` is any name below `example.com`, not the apex. `*` is any host. Without a port the
/// pattern means 443 only (R17: a bare host that matched every port gave credentials to whoever bound one).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPattern {
    host: HostPart,
    port: u16,
}

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum HostPart {
    Exact(Host),
    /// With its leading dot: `.example.com`.
    Below(Arc<str>),
    Any,
}

/// Why a text is no host pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a host: use a name, `*.` and a name, or an address, with `:port` behind it if it is not 443")]
pub struct PatternError {
    /// What was given.
    pub given: String,
}

impl TryFrom<String> for HostPattern {
    type Error = PatternError;
    fn try_from(text: String) -> Result<Self, PatternError> {
        HostPattern::parse(&text)
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> String {
        pattern.to_string()
    }
}

impl HostPattern {
    /// Parses a pattern. International names are written as such or as `xn--` (UTS 46).
    pub fn parse(text: &str) -> Result<HostPattern, PatternError> {
        let wrong = || PatternError { given: text.to_owned() };
        let (star, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if !star && (rest == "*" || rest.starts_with("*:")) {
            let port =
                Authority::parse(super::Scheme::Https, &rest.replacen('*', "any", 1)).map_err(|_| wrong())?.port();
            return Ok(HostPattern { host: HostPart::Any, port });
        }
        let ascii = if rest.is_ascii() { rest.to_owned() } else { to_ascii(rest).ok_or_else(wrong)? };
        let authority = Authority::parse(super::Scheme::Https, &ascii).map_err(|_| wrong())?;
        let host = match (star, authority.host()) {
            (false, host) => HostPart::Exact(host.clone()),
            (true, Host::Name(name)) => HostPart::Below(format!(".{name}").into()),
            (true, Host::V4(_) | Host::V6(_)) => return Err(wrong()),
        };
        Ok(HostPattern { host, port: authority.port() })
    }

    /// Whether host and port match. The scheme is not looked at: whether a credential may be spent on
    /// clear text is decided elsewhere, and never by a pattern.
    pub fn matches(&self, authority: &Authority) -> bool {
        self.port == authority.port() && self.matches_host(authority.host())
    }

    /// Whether the host alone matches.
    pub fn matches_host(&self, host: &Host) -> bool {
        match &self.host {
            HostPart::Exact(exact) => exact == host,
            HostPart::Below(suffix) => {
                host.as_name().is_some_and(|name| name.len() > suffix.len() && name.ends_with(suffix.as_ref()))
            }
            HostPart::Any => true,
        }
    }

    /// The host, if the pattern is exact.
    pub fn exact_host(&self) -> Option<&Host> {
        match &self.host {
            HostPart::Exact(host) => Some(host),
            HostPart::Below(_) | HostPart::Any => None,
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Orders patterns that match one authority: an exact name beats a wildcard, a longer wildcard a
    /// shorter one, anything beats `*`.
    pub fn specificity(&self) -> usize {
        match &self.host {
            HostPart::Exact(_) => usize::MAX,
            HostPart::Below(suffix) => suffix.len(),
            HostPart::Any => 0,
        }
    }

    /// Whether every authority that `other` matches is matched by this one too.
    pub fn covers(&self, other: &HostPattern) -> bool {
        self.port == other.port
            && match (&self.host, &other.host) {
                (HostPart::Any, _) => true,
                (_, HostPart::Any) => false,
                (HostPart::Below(a), HostPart::Below(b)) => b.ends_with(a.as_ref()),
                (HostPart::Exact(_), HostPart::Below(_)) => false,
                (_, HostPart::Exact(host)) => self.matches_host(host),
            }
    }
}

/// The ASCII form of an international `name[:port]`.
fn to_ascii(text: &str) -> Option<String> {
    let (name, port) = text.split_once(':').map_or((text, None), |(n, p)| (n, Some(p)));
    let ascii = idna::domain_to_ascii_strict(name).ok()?;
    Some(match port {
        Some(port) => format!("{ascii}:{port}"),
        None => ascii,
    })
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostPart::Exact(host) => write!(f, "{host}")?,
            HostPart::Below(suffix) => write!(f, "*{suffix}")?,
            HostPart::Any => f.write_str("*")?,
        }
        if self.port == 443 { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl fmt::Debug for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Scheme;

    fn matches(pattern: &str, authority: &str) -> bool {
        HostPattern::parse(pattern).unwrap().matches(&Authority::parse(Scheme::Https, authority).unwrap())
    }

    #[test]
    fn r17_a_host_without_a_port_means_443_only() {
        assert!(matches("api.good.test", "api.good.test"));
        assert!(!matches("api.good.test", "api.good.test:8443"));
        assert!(!matches("api.good.test", "api.good.test:80"));
        assert!(matches("api.good.test:8443", "api.good.test:8443"));
    }

    #[test]
    fn a_wildcard_matches_below_and_not_the_apex_nor_a_longer_sibling() {
        assert!(matches("*.example.com", "a.b.example.com"));
        assert!(!matches("*.example.com", "example.com"));
        assert!(!matches("*.example.com", "notexample.com"));
        assert!(matches("*", "anything.test"));
        assert!(!matches("*", "anything.test:8443"));
    }

    #[test]
    fn international_names_are_compared_in_ascii() {
        assert!(matches("пример.test", "xn--e1afmkfd.test"));
    }

    #[test]
    fn covering_is_about_sets_of_hosts() {
        let covers = |a: &str, b: &str| HostPattern::parse(a).unwrap().covers(&HostPattern::parse(b).unwrap());
        assert!(covers("*.example.com", "*.a.example.com"));
        assert!(covers("*.example.com", "b.example.com"));
        assert!(!covers("b.example.com", "*.example.com"));
        assert!(!covers("*.example.com", "example.com"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for wrong in ["", "*.", "a.*.b", "**.x", "http://a", "*.1.2.3.4", "a:0", "a b"] {
            assert!(HostPattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
