//! Blind tunnels: bytes both ways, under a guard (DESIGN §3, passthrough; R115).

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::relay::Guard;

/// Copies both ways until both sides have closed, one has been closed for `linger`, or the guard cuts.
/// `early` is what the client sent behind its CONNECT.
///
/// An idle tunnel holds no buffer: one is borrowed for the time of a copy.
pub async fn join<C, U>(client: C, upstream: U, early: Bytes, guard: Guard, linger: Duration) -> std::io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
{
    let _ = (client, upstream, early, guard, linger);
    todo!()
}
