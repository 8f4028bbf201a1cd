//! A request by hand.

use std::net::IpAddr;

use crate::words::{Authority, AuthorityError, Scheme};

/// A request as somebody writes it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The method.
    pub method: String,
    /// Where it goes.
    pub authority: Authority,
    /// The path as sent, `/` at least.
    pub path: String,
    /// The query as sent, without its question mark.
    pub query: Option<String>,
    /// Names in lower case.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body; empty: none.
    pub body: Vec<u8>,
    /// Where the client is.
    pub client: Option<IpAddr>,
}

/// Why a text is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescribeError {
    /// A method is a word of letters.
    #[error("`{0}` is not a method: use GET, POST, …")]
    Method(String),
    /// No scheme, or another one.
    #[error("`{0}` is not a URL: use `https://host/path`")]
    Url(String),
    /// The host or port.
    #[error("`{given}` is not a URL: {error}")]
    Authority {
        /// What was given.
        given: String,
        /// What is wrong with it.
        error: AuthorityError,
    },
    /// A header's name or value.
    #[error("`{0}` is not a header: use `name: value`")]
    Header(String),
}

impl Described {
    /// From a method and an `http` or `https` URL. A fragment is not sent, and so not part of it.
    pub fn parse(method: &str, url: &str) -> Result<Described, DescribeError> {
        if method.is_empty() || !method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-') {
            return Err(DescribeError::Method(method.to_owned()));
        }
        let (scheme, rest) = match url.split_once("://") {
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(("http", rest)) => (Scheme::Http, rest),
            _ => return Err(DescribeError::Url(url.to_owned())),
        };
        let rest = rest.split('#').next().unwrap_or(rest);
        let (host, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let authority = Authority::parse(scheme, host);
        let authority = authority.map_err(|error| DescribeError::Authority { given: url.to_owned(), error })?;
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (target, None),
        };
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        let method = method.to_owned();
        Ok(Described { method, authority, path, query, headers: Vec::new(), body: Vec::new(), client: None })
    }

    /// Adds a header; the name in any case.
    pub fn header(&mut self, name: &str, value: &str) -> Result<(), DescribeError> {
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(token) || value.contains(['\r', '\n', '\0']) {
            return Err(DescribeError::Header(name.to_owned()));
        }
        self.headers.push((name.to_ascii_lowercase(), value.trim().as_bytes().to_vec()));
        Ok(())
    }

    /// Sets the body, and its `Content-Type` unless there is one.
    pub fn body(&mut self, media: &str, body: impl Into<Vec<u8>>) {
        self.body = body.into();
        if !media.is_empty() && !self.headers.iter().any(|(name, _)| name == "content-type") {
            self.headers.push(("content-type".to_owned(), media.as_bytes().to_vec()));
        }
    }
}
