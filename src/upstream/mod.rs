//! Upstreams: resolve, check the address, dial, verify, pool (DESIGN §3.7, §15 `[upstream]`).
//!
//! Layer 2: a client of HTTP, never a server of it. Everything that leaves this machine for an upstream
//! leaves through [`Upstreams`]: requests through [`Upstreams::send`], blind tunnels through
//! [`Upstreams::dial_blind`], and the exchanges of credential providers through [`Upstreams::simple`].
//!
//! Three promises are kept here and nowhere else:
//!
//! - **The address that is dialled is the address that was checked** (R103, R106): rules are applied after
//!   resolving, to the very socket address that `connect` is called with.
//! - **TLS is verified or nothing is sent** (R74): there is no switch for it and no fallback.
//! - **Retries are ours** (R119): a request is sent twice only if it is idempotent or no byte of it left.

mod address;
mod body;
mod config;
mod error;
mod key;

pub use address::{AddressRules, Forbidden};
pub use body::{AnswerBody, Body, BodyError};
pub use config::{Timeouts, UpstreamConfig};
pub use error::{Retry, SetupError, UpstreamError};
pub use key::{Partition, PoolKey};

use std::time::Duration;

use bytes::Bytes;

use crate::words::Authority;

/// What becomes of a request that was sent.
#[derive(Debug)]
pub enum Answer {
    /// An ordinary answer. Its body is still on its way.
    Response(http::Response<AnswerBody>),
    /// `101 Switching Protocols`, which was asked for: the connection is ours from here on.
    Upgraded(http::response::Parts, Upgraded),
}

/// A connection that no longer speaks HTTP. Bytes that came in the same segment as the 101 are read first.
#[derive(Debug)]
pub struct Upgraded {}

/// How one request is to be sent.
#[derive(Debug, Clone, Default)]
pub struct SendOptions {
    /// The request asks for an upgrade: it goes over HTTP/1.1, on a connection of its own.
    pub upgrade: bool,
    /// How long the answer's head may take, instead of [`Timeouts::head`].
    pub head_timeout: Option<Duration>,
}

/// Every upstream, and the connections to them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Upstreams {}

impl Upstreams {
    /// Loads the roots; dials nothing. The pool's sweeper starts with the first connection.
    pub fn new(config: UpstreamConfig) -> Result<Upstreams, SetupError> {
        let _ = config;
        todo!()
    }

    /// Sends one request and waits for the head of its answer; the body goes up meanwhile and afterwards.
    ///
    /// The request's target is in origin-form; `Host` (or `:authority`) is written here, from the key's
    /// authority, and framing fields from the body's size. Hop-by-hop fields must be gone already.
    pub async fn send(
        &self,
        key: &PoolKey,
        request: http::Request<Body>,
        options: SendOptions,
    ) -> Result<Answer, UpstreamError> {
        let _ = (key, request, options);
        todo!()
    }

    /// A TCP connection to an authority for a blind tunnel, after the same checks.
    pub async fn dial_blind(&self, authority: &Authority) -> Result<tokio::net::TcpStream, UpstreamError> {
        let _ = authority;
        todo!()
    }

    /// A small exchange of our own (a provider's token request): bounded answer, one deadline for all of it, no
    /// redirects, no retries. The URI is absolute.
    pub async fn simple(
        &self,
        request: http::Request<Bytes>,
        limits: SimpleLimits,
    ) -> Result<http::Response<Bytes>, UpstreamError> {
        let _ = (request, limits);
        todo!()
    }
}

/// Bounds of [`Upstreams::simple`].
#[derive(Debug, Clone, Copy)]
pub struct SimpleLimits {
    /// For everything, from resolving to the last byte.
    pub deadline: Duration,
    /// Bytes of the answer's body; one more is an error.
    pub max_body: usize,
}

impl Default for SimpleLimits {
    /// 30 s and 256 KiB.
    fn default() -> Self {
        SimpleLimits { deadline: Duration::from_secs(30), max_body: 256 * 1024 }
    }
}
