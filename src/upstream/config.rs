//! What the upstream side is set up with.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use crate::words::{Authority, Host, Secret};

/// Settings of the upstream side: `[upstream]` of the configuration, and what else it must know.
#[derive(Debug, Clone, Default)]
pub struct UpstreamConfig {
    /// Roots instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// A corporate proxy that everything goes through: `http://[user:password@]host:port`. May hold a password.
    pub proxy: Option<Secret>,
    /// Ranges that may be dialled although they are private.
    pub allow_private: Vec<IpNet>,
    /// Host and port → address: an operator's word, dialled whatever range it is in.
    pub resolve: HashMap<(Host, u16), SocketAddr>,
    /// Our own listening addresses; an unspecified one stands for every address of this machine (R108).
    pub own_addresses: Vec<SocketAddr>,
    /// Names under which we are reached: `public_url`'s.
    pub own_names: Vec<Authority>,
    /// Limits of time.
    pub timeouts: Timeouts,
    /// Bytes of an answer's head.
    pub max_head: Option<usize>,
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// A TCP connection, all addresses together; also a parent proxy's answer to CONNECT.
    pub connect: Duration,
    /// A TLS handshake.
    pub tls: Duration,
    /// The head of an answer, after the request's last byte has left. Models think for minutes.
    pub head: Duration,
    /// Silence in both directions of a stream, an upgraded connection or a tunnel.
    pub idle: Duration,
    /// How long an unused connection is kept.
    pub pool_idle: Duration,
    /// How long one side may stay open after the other has closed (R115).
    pub linger: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(10),
            tls: Duration::from_secs(10),
            head: Duration::from_secs(600),
            idle: Duration::from_secs(300),
            pool_idle: Duration::from_secs(60),
            linger: Duration::from_secs(30),
        }
    }
}
