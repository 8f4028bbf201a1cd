//! Who is being talked to: scheme, host and port, parsed once and then only compared.
//!
//! INVARIANT 3: one value of [`Authority`] is used for policy, resolving, dialling, SNI, the leaf, the
//! outgoing `Host`, the pool key and the audit. Whatever a client says later (SNI, `Host`,
//! `:authority`) is parsed by the same function and compared with it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The scheme of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Clear text.
    Http,
    /// TLS, verified.
    Https,
}

impl Scheme {
    /// `http` or `https`.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// 80 or 443.
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// A host in its one spelling: a lower-case ASCII name without a trailing dot, or an address.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A DNS name: labels of letters, digits, `-` and `_`, at most 63 each and 253 together.
    Name(Arc<str>),
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address, without a zone.
    V6(Ipv6Addr),
}

/// Why a text is no authority. None of the texts repeats what was given: it may be hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// Nothing, or nothing before the port.
    #[error("the host is empty")]
    Empty,
    /// `user@host`.
    #[error("an authority has no user in it")]
    Userinfo,
    /// A byte that no host has; also any byte outside ASCII (use the `xn--` form).
    #[error("the host has a character that no host name has")]
    Character,
    /// An empty label, one over 63, or more than 253 characters in all.
    #[error("the host has an empty or over-long label")]
    Label,
    /// Looks like a number but is not four decimal numbers: resolvers read such text in several ways.
    #[error("a numeric host must be a plain dotted IPv4 address")]
    Numeric,
    /// A bad, zoned or unbracketed IPv6 literal, or brackets around something else.
    #[error("an IPv6 address stands in brackets, without a zone")]
    Ipv6,
    /// Missing where it is required, 0, above 65535, or with leading zeros or other characters.
    #[error("the port must be a number from 1 to 65535 without leading zeros")]
    Port,
}

impl Host {
    /// Parses a host without a port, as it stands in an SNI, a `Host` line or a manifest.
    pub fn parse(raw: &str) -> Result<Host, AuthorityError> {
        if let Some(rest) = raw.strip_prefix('[') {
            let inner = rest.strip_suffix(']').ok_or(AuthorityError::Ipv6)?;
            return inner.parse().map(Host::V6).map_err(|_| AuthorityError::Ipv6);
        }
        if raw.contains('@') {
            return Err(AuthorityError::Userinfo);
        }
        if raw.contains(':') {
            return Err(AuthorityError::Ipv6);
        }
        let name = raw.strip_suffix('.').unwrap_or(raw);
        if name.is_empty() {
            return Err(if raw.is_empty() { AuthorityError::Empty } else { AuthorityError::Label });
        }
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
            return Err(AuthorityError::Character);
        }
        if name.len() > 253 || name.split('.').any(|label| label.is_empty() || label.len() > 63) {
            return Err(AuthorityError::Label);
        }
        if looks_numeric(name) {
            return name.parse().map(Host::V4).map_err(|_| AuthorityError::Numeric);
        }
        Ok(Host::Name(name.to_ascii_lowercase().into()))
    }

    /// The address, if the host is one.
    pub fn as_ip(&self) -> Option<IpAddr> {
        match self {
            Host::Name(_) => None,
            Host::V4(ip) => Some(IpAddr::V4(*ip)),
            Host::V6(ip) => Some(IpAddr::V6(*ip)),
        }
    }

    /// The name, if the host is one.
    pub fn as_name(&self) -> Option<&str> {
        match self {
            Host::Name(name) => Some(name),
            Host::V4(_) | Host::V6(_) => None,
        }
    }
}

/// `inet_aton` reads `127.1`, `0x7f.1` and `2130706433` as addresses, and some resolvers call it: a
/// name whose last label is a number is an address or nothing (the rule of the URL standard).
fn looks_numeric(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    last.bytes().all(|b| b.is_ascii_digit()) || hex.is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()))
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::V4(ip) => write!(f, "{ip}"),
            Host::V6(ip) => write!(f, "[{ip}]"),
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Scheme, host and port of an upstream, normalised.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Authority {
    scheme: Scheme,
    host: Host,
    port: u16,
}

impl Authority {
    /// From parts that have been parsed before.
    pub fn new(scheme: Scheme, host: Host, port: u16) -> Authority {
        Authority { scheme, host, port }
    }

    /// Parses `host[:port]`; the scheme's default port is filled in.
    pub fn parse(scheme: Scheme, raw: &str) -> Result<Authority, AuthorityError> {
        let (host, port) = split_port(raw)?;
        let port = match port {
            Some(text) => parse_port(text)?,
            None => scheme.default_port(),
        };
        Ok(Authority { scheme, host: Host::parse(host)?, port })
    }

    /// Parses a CONNECT target: `host:port` and nothing else (RFC 9110 §9.3.6). The scheme of what
    /// will be spoken inside is not known yet; `https` until the first bytes say otherwise.
    pub fn parse_connect(raw: &str) -> Result<Authority, AuthorityError> {
        let (host, port) = split_port(raw)?;
        let port = parse_port(port.ok_or(AuthorityError::Port)?)?;
        Ok(Authority { scheme: Scheme::Https, host: Host::parse(host)?, port })
    }

    /// The same host and port under another scheme.
    pub fn with_scheme(&self, scheme: Scheme) -> Authority {
        Authority { scheme, host: self.host.clone(), port: self.port }
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host`, or `host:port` when the port is not the scheme's own: what a `Host` field holds.
    pub fn host_header(&self) -> String {
        if self.port == self.scheme.default_port() {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Splits at the port's colon, minding brackets. `None` if there is no colon behind the host.
fn split_port(raw: &str) -> Result<(&str, Option<&str>), AuthorityError> {
    if raw.contains('@') {
        return Err(AuthorityError::Userinfo);
    }
    if raw.starts_with('[') {
        let (inner, rest) = raw.split_once(']').ok_or(AuthorityError::Ipv6)?;
        let host = raw.get(..=inner.len()).ok_or(AuthorityError::Ipv6)?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(AuthorityError::Ipv6),
        };
    }
    match raw.split_once(':') {
        Some((_, port)) if port.contains(':') => Err(AuthorityError::Ipv6),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((raw, None)),
    }
}

fn parse_port(text: &str) -> Result<u16, AuthorityError> {
    if text.starts_with('0') || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(AuthorityError::Port);
    }
    text.parse().map_err(|_| AuthorityError::Port)
}

impl fmt::Display for Authority {
    /// `scheme://host:port`, always with the port.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme.as_str(), self.host, self.port)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(raw: &str) -> Result<String, AuthorityError> {
        Authority::parse_connect(raw).map(|a| a.to_string())
    }

    #[test]
    fn r18_one_trailing_dot_equals_none() {
        assert_eq!(connect("evil.test.:443"), connect("evil.test:443"));
        assert_eq!(Host::parse("api.good.test."), Host::parse("API.Good.test"));
        assert_eq!(connect("evil.test..:443"), Err(AuthorityError::Label));
        assert_eq!(connect(".:443"), Err(AuthorityError::Label));
    }

    #[test]
    fn r08_ipv6_literals_stand_in_brackets_without_a_zone() {
        assert_eq!(connect("[::1]:8443").as_deref(), Ok("https://[::1]:8443"));
        assert_eq!(connect("[2001:db8::1]:443").as_deref(), Ok("https://[2001:db8::1]:443"));
        for wrong in
            ["::1:443", "[::1%25eth0]:443", "[::1%eth0]:443", "[api.good.test]:443", "[::1]443", "[::1", "[]:443"]
        {
            assert!(connect(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn r21_only_ascii_names_with_sane_labels_parse() {
        assert_eq!(connect("xn--e1afmkfd.test:443").as_deref(), Ok("https://xn--e1afmkfd.test:443"));
        assert!(connect("under_score.test:443").is_ok());
        assert_eq!(connect("пример.test:443"), Err(AuthorityError::Character));
        assert_eq!(connect(&format!("{}.test:443", "a".repeat(64))), Err(AuthorityError::Label));
        assert_eq!(connect(&format!("{}:443", ["a"; 130].join("."))), Err(AuthorityError::Label));
    }

    #[test]
    fn a_connect_target_is_host_and_port_and_nothing_else() {
        for wrong in [
            "",
            ":443",
            "a.test",
            "a.test:",
            "a.test:0",
            "a.test:0443",
            "a.test:65536",
            "a.test:+1",
            "u@a.test:443",
            "u:p@a.test:443",
            "a..test:443",
            "a.test:443/x",
            "http://a.test:443",
            "a b:443",
            "a%2etest:443",
            "a.test:44 3",
        ] {
            assert!(connect(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numeric_hosts_are_plain_addresses_or_nothing() {
        assert_eq!(connect("127.0.0.1:80").as_deref(), Ok("https://127.0.0.1:80"));
        for wrong in
            ["127.1:80", "2130706433:80", "0x7f.0.0.1:80", "0177.0.0.1:80", "1.2.3.4.5:80", "a.0x1:80", "256.1.1.1:80"]
        {
            assert_eq!(connect(wrong), Err(AuthorityError::Numeric), "{wrong}");
        }
    }

    #[test]
    fn default_ports_are_filled_in_and_left_out_of_the_host_field() {
        let secure = Authority::parse(Scheme::Https, "Api.Good.Test").unwrap();
        assert_eq!((secure.port(), secure.host_header().as_str()), (443, "api.good.test"));
        let odd = Authority::parse(Scheme::Http, "a.test:443").unwrap();
        assert_eq!(odd.host_header(), "a.test:443");
    }
}
