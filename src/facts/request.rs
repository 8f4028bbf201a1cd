//! A request as the proxy read it, without the types of any HTTP library.

use std::net::IpAddr;

use super::Term;
use crate::words::{Authority, Timestamp};

/// The head of a request. Header names are lower-case; credentials of the client are already gone.
#[derive(Debug, Clone, Copy)]
pub struct RequestView<'a> {
    /// Made by the proxy for this request.
    pub id: &'a str,
    /// As sent.
    pub method: &'a str,
    /// The one authority.
    pub authority: &'a Authority,
    /// The path as sent, beginning with a slash (or `*`).
    pub path: &'a str,
    /// The query as sent, without its question mark.
    pub query: Option<&'a str>,
    /// Fields in order, repeated ones kept.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// `Content-Length`, if there is one.
    pub size: Option<u64>,
    /// Where the client is, if it is known.
    pub client: Option<IpAddr>,
    /// Now.
    pub time: Timestamp,
}

impl<'a> RequestView<'a> {
    /// The first field of that (lower-case) name, if it is visible text.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.headers.iter().find(|(n, _)| *n == name)?;
        std::str::from_utf8(value).ok()
    }
}

/// What is known of a request's body.
#[derive(Debug, Clone, Default)]
pub enum Body {
    /// There is none.
    #[default]
    Absent,
    /// There is one, and no decoder is configured for it: `body_opaque(true)`.
    Opaque,
    /// There is one that the configured decoder can't read: `body_opaque(true)`,
    /// `body_undecodable(true)`. The text says what was wrong, without repeating the body.
    Undecodable(String),
    /// More nodes than the manifest allows: `body_truncated(true)` and no node.
    Truncated,
    /// Decoded. Only demanded paths are in it when the manifest names `body_paths`.
    Decoded(Term),
}
