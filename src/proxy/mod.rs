//! The life of a request (DESIGN §3).
//!
//! `listen` ▶ `guard` ▶ `identify` ▶ `intercept` ▶ `read` ▶ facts ▶ decide ▶ bind ▶ `forward` ▶ `record`.
//! Whatever the way in, what comes out of interception is one [`Arrival`], and from there on there is
//! one pipeline.

pub mod forward;
pub mod framing;
pub mod guard;
pub mod refuse;
pub mod relay;
pub mod tunnel;
pub mod upgrade;
pub mod upload;
pub mod watched;
pub mod watchers;

use std::net::IpAddr;
use std::sync::Arc;

use crate::token::VerifiedToken;
use crate::words::Authority;

pub use refuse::{Place, Refusal};

/// Which way a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `CONNECT`, then TLS that we end.
    Tunnel,
    /// `CONNECT`, then clear text.
    ClearTunnel,
    /// `GET http://host/…` or `GET https://host/…` at the hop.
    Absolute,
    /// `/<scheme>/<host[:port]>/<path>`.
    BaseUrl,
}

/// Who wants what from where. Fixed once, whatever the mode: nothing that the client says later changes it.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The one authority.
    pub authority: Authority,
    /// The client's address, if the listener knows one.
    pub source: Option<IpAddr>,
    /// Whose token it was.
    pub identity: Arc<VerifiedToken>,
    /// The way in.
    pub mode: Mode,
}
