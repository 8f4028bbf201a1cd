//! What goes wrong on the way to an upstream.

use std::path::PathBuf;
use std::sync::Arc;

use crate::words::Reason;

/// Whether the request that failed may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// No byte of it has left: anything may be sent again.
    Safe,
    /// It may have been acted upon.
    No,
}

/// A request that got no answer.
///
/// The reason is for the client; the source is for the audit and the log, and never for the client (R125): it
/// may name internal addresses.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}: {source}")]
pub struct UpstreamError {
    /// The code that the client is told.
    pub reason: Reason,
    /// Whether it may be sent again.
    pub retry: Retry,
    /// The cause.
    #[source]
    pub source: Arc<dyn std::error::Error + Send + Sync>,
}

/// A cause in words, where no library has made one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Said(&'static str);

impl UpstreamError {
    /// An error after which nothing may be sent again.
    pub fn new(reason: Reason, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        UpstreamError { reason, retry: Retry::No, source: Arc::new(source) }
    }

    /// An error before the first byte.
    pub fn unsent(reason: Reason, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        UpstreamError { reason, retry: Retry::Safe, source: Arc::new(source) }
    }

    /// An error before the first byte, in words.
    pub(super) fn said(reason: Reason, text: &'static str) -> Self {
        UpstreamError::unsent(reason, Said(text))
    }

    /// The same error of a request of which bytes may have left.
    pub(super) fn sent(self) -> Self {
        UpstreamError { retry: Retry::No, ..self }
    }
}

/// Why the upstream side can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// `upstream.ca_file` can't be read.
    #[error("`upstream.ca_file` {} can't be read: {source}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It holds no usable certificate.
    #[error("`upstream.ca_file` {} holds no certificate that can be a root: it takes PEM", path.display())]
    NoRoots {
        /// The file.
        path: PathBuf,
    },
    /// The system has no roots.
    #[error("no root certificate was found on this system: install its CA package, or set `upstream.ca_file`")]
    NoSystemRoots,
    /// `upstream.proxy` is not a URL of an HTTP proxy.
    #[error("`upstream.proxy` is no proxy: use `http://host:port` or `http://user:password@host:port`")]
    Proxy,
    /// The TLS library refused its own settings.
    #[error("TLS can't be set up: {0}")]
    Tls(#[from] rustls::Error),
}
