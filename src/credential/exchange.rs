//! The small HTTP client that providers speak through; the `upstream` room is one.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

/// Sends one whole request and gets one whole answer, both small. An implementation verifies the
/// certificate, applies the address rules and the upstream proxy, follows no redirect, sets no header
/// but framing and `Host`, and stops at the bounds.
pub trait Exchange: Send + Sync + 'static {
    /// `request` has an absolute URI. Its `Authorization` is a secret: it is never logged.
    fn call(
        &self,
        request: http::Request<Bytes>,
        bounds: ExchangeBounds,
    ) -> BoxFuture<'_, Result<http::Response<Bytes>, ExchangeError>>;
}

/// How long and how much.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeBounds {
    /// From dialling to the last byte of the answer.
    pub timeout: Duration,
    /// Bytes of the answer's body.
    pub max_body: usize,
}

impl Default for ExchangeBounds {
    fn default() -> Self {
        ExchangeBounds { timeout: Duration::from_secs(15), max_body: 1 << 20 }
    }
}

/// Why there is no answer. The text is for the operator and holds nothing of the request's headers.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ExchangeError {
    /// Not resolved, not connected, or a forbidden address.
    #[error("cannot reach it: {0}")]
    Unreachable(String),
    /// Certificate or handshake.
    #[error("its certificate or TLS handshake was refused: {0}")]
    Tls(String),
    /// No whole answer in time.
    #[error("no answer within {}", crate::words::format_duration(*.0))]
    Timeout(Duration),
    /// More than the bound.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// Not HTTP, cut short, or the like.
    #[error("the answer is broken: {0}")]
    Protocol(String),
}

/// An exchange that reaches nobody, for tests of what makes no request.
#[cfg(test)]
pub(super) fn nobody() -> impl Exchange {
    struct Nobody;
    impl Exchange for Nobody {
        fn call(
            &self,
            _: http::Request<Bytes>,
            _: ExchangeBounds,
        ) -> BoxFuture<'_, Result<http::Response<Bytes>, ExchangeError>> {
            Box::pin(async { Err(ExchangeError::Unreachable("nobody is there".to_owned())) })
        }
    }
    Nobody
}
