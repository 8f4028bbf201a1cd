//! Forwarding: a bound request goes up, its answer comes down (DESIGN §3.7, §5).

use bytes::Bytes;
use hyper::body::Incoming;

use super::relay::{Cut, Guard, RelayBody};
use crate::upstream::{PoolKey, UpstreamError, Upstreams};

/// A request that is ready to go: judged, stripped, with its credential in it.
pub struct Outbound {
    /// Where it goes, and with what it may share a connection.
    pub key: PoolKey,
    /// Its head; the URI is the path and query as judged. Nothing edits its fields after the injection, but
    /// for framing and hop-by-hop ones.
    pub head: http::request::Parts,
}

/// A request's body: what was read for judging, and the rest.
pub enum Upload {
    /// None.
    Empty,
    /// All of it was read.
    Whole(Bytes),
    /// What was read, if anything, byte for byte; the rest streams.
    Stream {
        /// Already read.
        prefix: Vec<Bytes>,
        /// To come.
        rest: Incoming,
    },
}

/// Why there is no answer to pass on.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// The upstream's trouble.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The guard cut before the answer began.
    #[error("cut before the answer: {0:?}")]
    Cut(Cut),
}

/// Sends a request and returns its answer, ready for the client: hop-by-hop fields gone, body under guard.
///
/// `client_upgrade` is the client's side of an upgrade that it asked for; when the upstream answers 101 (and
/// proves it, for WebSocket), both sides are joined in a task of their own once the client has its 101.
pub async fn forward(
    upstreams: &Upstreams,
    outbound: Outbound,
    upload: Upload,
    client_upgrade: Option<hyper::upgrade::OnUpgrade>,
    guard: Guard,
) -> Result<http::Response<RelayBody>, ForwardError> {
    let _ = (upstreams, outbound, upload, client_upgrade, guard);
    todo!()
}
