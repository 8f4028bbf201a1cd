//! The certificate authority that clients trust, and a leaf for each name that they ask for.
//!
//! Layer 2.

use std::path::Path;
use std::sync::Arc;

use crate::words::Host;

/// Why there is no usable CA. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum CaError {}

/// Why there is no leaf.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LeafError {}

/// The CA, with its leaves in a bounded cache.
pub struct Ca {
    _private: (),
}

impl Ca {
    /// Reads `ca.pem` and `ca.key` in the data directory, or makes both if neither is there.
    pub fn load_or_make(_data_dir: &Path) -> Result<Ca, CaError> {
        todo!()
    }

    /// A finished server configuration for a TLS handshake with a client that wants to talk to that
    /// host: ALPN `h2` and `http/1.1`. Cached; minted again before it expires.
    pub fn leaf(&self, _host: &Host) -> Result<Arc<rustls::ServerConfig>, LeafError> {
        todo!()
    }

    /// Whether a leaf for that host is already there.
    pub fn is_cached(&self, _host: &Host) -> bool {
        todo!()
    }

    /// The certificate that clients must trust, PEM.
    pub fn ca_pem(&self) -> &str {
        todo!()
    }

    /// The system's roots and ours, PEM: variables like `SSL_CERT_FILE` replace a store.
    pub fn bundle(&self) -> String {
        todo!()
    }

    /// Whole days until the CA expires.
    pub fn days_left(&self) -> i64 {
        todo!()
    }
}
