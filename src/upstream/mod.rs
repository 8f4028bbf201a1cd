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
mod dial;
mod error;
mod gauge;
mod h1;
mod h2;
mod io;
mod key;
mod parent;
mod pool;
mod resolve;
mod send;
mod simple;
mod tls;
mod upgraded;

pub use address::{AddressRules, Forbidden};
pub use body::{AnswerBody, Body, BodyError};
pub use config::{Timeouts, UpstreamConfig};
pub use error::{Retry, SetupError, UpstreamError};
pub use key::{Partition, PoolKey};
pub use simple::SimpleLimits;
pub use upgraded::Upgraded;

use std::sync::Arc;

use dial::Dialer;
use pool::Pool;

use crate::words::Authority;

/// Bytes of an answer's head, unless the configuration says otherwise.
const MAX_HEAD: usize = 64 * 1024;

/// What becomes of a request that was sent.
#[derive(Debug)]
pub enum Answer {
    /// An ordinary answer. Its body is still on its way.
    Response(http::Response<AnswerBody>),
    /// `101 Switching Protocols`, which was asked for: the connection is ours from here on.
    Upgraded(http::Response<()>, Upgraded),
}

/// How one request is to be sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendOptions {
    /// The request asks for an upgrade: it goes over HTTP/1.1, on a connection of its own.
    pub upgrade: bool,
}

/// Every upstream, and the connections to them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Upstreams(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dialer: Dialer,
    pool: Arc<Pool>,
    timeouts: Timeouts,
    max_head: usize,
}

impl Upstreams {
    /// Loads the roots; dials nothing. The pool's sweeper starts with the first connection.
    pub fn new(config: UpstreamConfig) -> Result<Upstreams, SetupError> {
        let (timeouts, max_head) = (config.timeouts, config.max_head.unwrap_or(MAX_HEAD));
        let dialer = Dialer::new(config)?;
        Ok(Upstreams(Arc::new(Inner { dialer, pool: Arc::new(Pool::new()), timeouts, max_head })))
    }

    /// The limits of time.
    pub fn timeouts(&self) -> Timeouts {
        self.0.timeouts
    }

    /// Sends one request and waits for the head of its answer; the body goes up meanwhile and afterwards.
    ///
    /// The request's target is in origin-form; `Host` (or `:authority`) is written here, from the key's
    /// authority, and framing fields from the body's size. Hop-by-hop fields must be gone already. Interim
    /// answers are dropped, and their number is bounded. How long the head may take is for the caller to say,
    /// who drops the future: models think for minutes.
    pub async fn send(
        &self,
        key: &PoolKey,
        request: http::Request<Body>,
        options: SendOptions,
    ) -> Result<Answer, UpstreamError> {
        self.0.send(key, request, options).await
    }

    /// A TCP connection to an authority for a blind tunnel, after the same checks.
    pub async fn dial_blind(&self, authority: &Authority) -> Result<tokio::net::TcpStream, UpstreamError> {
        self.0.dialer.dial_tcp(authority).await
    }

    /// A small exchange of our own (a provider's token request): bounded answer, one deadline for all of it, no
    /// redirects. The URI is absolute; `Host` and framing are written here.
    pub async fn simple(
        &self,
        request: http::Request<bytes::Bytes>,
        limits: SimpleLimits,
    ) -> Result<http::Response<bytes::Bytes>, UpstreamError> {
        simple::exchange(self, request, limits).await
    }
}
