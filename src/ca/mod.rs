//! The certificate authority that clients trust, and a leaf for each name that they ask for.
//!
//! Layer 2. The profile is the one that every client measured accepts, Python 3.13's strict checks
//! among them: ECDSA P-256 throughout, key identifiers on both sides, a short life that begins in the
//! past, one name in each leaf. The CA is made once and then only read: making a new one would break
//! every sandbox image that trusts the old, so damaged material is an error that says what to do.

mod bundle;
mod issuer;
mod leaf;
mod pem;
mod rename;

use std::path::Path;
use std::sync::Arc;

use time::OffsetDateTime;

pub use bundle::bundle;
pub use issuer::CaError;
pub use leaf::LeafError;

use crate::words::Host;
use issuer::Issuer;
use leaf::Mint;

/// Leaves kept ready. A leaf with its configuration takes about 3 KiB.
const CACHED_LEAVES: u64 = 4096;

/// The CA, with its leaves in a bounded cache.
pub struct Ca {
    mint: Mint,
    cache: moka::sync::Cache<Host, Leaf>,
    certificates: String,
    not_after: OffsetDateTime,
}

#[derive(Clone)]
struct Leaf {
    config: Arc<rustls::ServerConfig>,
    renew_at: OffsetDateTime,
}

impl Ca {
    /// Reads `ca.pem` and `ca.key` in the data directory, or makes both if neither is there.
    ///
    /// An operator may put a CA of the house there: `ca.pem` then holds the issuing certificate and
    /// those above it in any order, and the issuing one is found by its key.
    pub fn load_or_make(data_dir: &Path) -> Result<Ca, CaError> {
        Ca::new(issuer::load_or_make(data_dir, OffsetDateTime::now_utc())?)
    }

    fn new(issuer: Issuer) -> Result<Ca, CaError> {
        let certificates = issuer.certificates_pem();
        let not_after = issuer.not_after;
        let mint = Mint::new(issuer)?;
        Ok(Ca { mint, cache: moka::sync::Cache::new(CACHED_LEAVES), certificates, not_after })
    }

    /// A finished server configuration for a TLS handshake with a client that wants to talk to that
    /// host: ALPN `h2` and `http/1.1`. Cached; minted again before it expires.
    pub fn leaf(&self, host: &Host) -> Result<Arc<rustls::ServerConfig>, LeafError> {
        self.leaf_at(host, OffsetDateTime::now_utc())
    }

    fn leaf_at(&self, host: &Host, now: OffsetDateTime) -> Result<Arc<rustls::ServerConfig>, LeafError> {
        if let Some(leaf) = self.cache.get(host).filter(|leaf| now < leaf.renew_at) {
            return Ok(leaf.config);
        }
        let (config, renew_at) = self.mint.leaf(host, now)?;
        self.cache.insert(host.clone(), Leaf { config: config.clone(), renew_at });
        Ok(config)
    }

    /// Whether a leaf for that host is already there.
    pub fn is_cached(&self, host: &Host) -> bool {
        self.cache.contains_key(host)
    }

    /// The certificates that clients are given to trust, PEM: ours, and those above it if an operator
    /// supplied them.
    pub fn ca_pem(&self) -> &str {
        &self.certificates
    }

    /// The system's roots and ours, PEM: variables like `SSL_CERT_FILE` replace a store.
    pub fn bundle(&self) -> String {
        bundle(&self.certificates)
    }

    /// Whole days until the CA expires; negative when it has.
    pub fn days_left(&self) -> i64 {
        (self.not_after - OffsetDateTime::now_utc()).whole_days()
    }
}

#[cfg(test)]
mod tests;
