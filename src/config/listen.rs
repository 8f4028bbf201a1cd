//! Where the daemon listens, and what sandboxes call it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::words::{Authority, Scheme};

/// One `[[listen]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Where.
    pub address: ListenAddress,
    /// What is served there.
    pub role: Role,
}

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListenAddress {
    /// `127.0.0.1:8080`, `[::1]:8080`. Port 0 takes a free one.
    Tcp(SocketAddr),
    /// `unix:/run/kleis/proxy.sock`.
    Unix(PathBuf),
}

/// What a listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Clients; the endpoints too unless there is an admin listener.
    #[default]
    Proxy,
    /// The endpoints alone.
    Admin,
    /// Prometheus metrics, without a token.
    Metrics,
}

impl Role {
    /// The words of `role`.
    pub const WORDS: [(&'static str, Role); 3] =
        [("proxy", Role::Proxy), ("admin", Role::Admin), ("metrics", Role::Metrics)];
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Role::WORDS.iter().find(|(_, role)| role == self).map_or("", |(word, _)| word);
        f.write_str(word)
    }
}

impl Default for Listen {
    fn default() -> Listen {
        Listen { address: ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 8080))), role: Role::Proxy }
    }
}

impl ListenAddress {
    /// Parses an address; a name is not one, so that it never depends on a resolver who may connect.
    pub fn parse(text: &str) -> Result<ListenAddress, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            // RFC-less but hard: `sun_path` holds 108 bytes on Linux, the closing zero among them.
            return match path.starts_with('/') && path.len() < 108 {
                true => Ok(ListenAddress::Unix(path.into())),
                false => {
                    Err(format!("`{text}` is not a socket: use `unix:` and an absolute path of at most 107 bytes"))
                }
            };
        }
        text.parse().map(ListenAddress::Tcp).map_err(|_| {
            format!("`{text}` is not an address: use `127.0.0.1:8080`, `[::1]:8080` or `unix:/run/kleis/proxy.sock`")
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => write!(f, "{address}"),
            ListenAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// `public_url`: what sandboxes reach the proxy at. Scheme, host and port; no path, no user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl(Authority);

impl PublicUrl {
    /// Parses `http://host[:port]` or `https://host[:port]`.
    pub fn parse(text: &str) -> Result<PublicUrl, String> {
        let wrong = |why: &str| format!("`{text}` is not a URL of the proxy: {why}");
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            _ => return Err(wrong("use `http://host:port` or `https://host`")),
        };
        let host = rest.strip_suffix('/').unwrap_or(rest);
        if host.contains(['/', '?', '#']) {
            return Err(wrong("it has no path and no query"));
        }
        Authority::parse(scheme, host).map(PublicUrl).map_err(|error| wrong(&error.to_string()))
    }

    /// Scheme, host and port.
    pub fn authority(&self) -> &Authority {
        &self.0
    }
}

impl fmt::Display for PublicUrl {
    /// `http://host:port`, without a slash behind it; the port only if it is not the scheme's own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme().as_str(), self.0.host_header())
    }
}
