//! TLS towards upstreams: verified, or nothing is sent (R74).

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CipherSuite, ClientConfig, RootCertStore};

use super::error::SetupError;
use crate::words::Host;

/// Sessions remembered for resumption: a handshake with a ticket costs a third of a full one.
const SESSIONS: usize = 1024;

/// The two ways in which we say hello.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    /// Offers `h2` and `http/1.1`.
    pub(super) any: Arc<ClientConfig>,
    /// Offers `http/1.1` only: upgrades don't travel over HTTP/2 here.
    pub(super) http1: Arc<ClientConfig>,
}

impl Tls {
    /// With the roots of `ca_file`, or else the system's.
    pub(super) fn new(ca_file: Option<&Path>) -> Result<Tls, SetupError> {
        let roots = Arc::new(match ca_file {
            Some(path) => from_file(path)?,
            None => from_system()?,
        });
        let provider = Arc::new(provider());
        let config = |protocols: &[&[u8]]| -> Result<Arc<ClientConfig>, SetupError> {
            let mut config = ClientConfig::builder_with_provider(provider.clone())
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots.clone())
                .with_no_client_auth();
            config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
            config.resumption = Resumption::in_memory_sessions(SESSIONS);
            Ok(Arc::new(config))
        };
        Ok(Tls { any: config(&[b"h2", b"http/1.1"])?, http1: config(&[b"http/1.1"])? })
    }
}

/// aws-lc-rs with AES-128-GCM before AES-256-GCM. Both are beyond attack, and the hash of the first is
/// SHA-256, which processors have in hardware: 10 % of a handshake.
fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    let later = |suite: CipherSuite| match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => 0,
        CipherSuite::TLS13_AES_256_GCM_SHA384 => 1,
        _ => 2,
    };
    provider.cipher_suites.sort_by_key(|suite| later(suite.suite()));
    provider
}

fn from_file(path: &Path) -> Result<RootCertStore, SetupError> {
    let text = std::fs::read(path).map_err(|source| SetupError::CaFile { path: path.to_owned(), source })?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).filter_map(Result::ok));
    if roots.is_empty() { Err(SetupError::NoRoots { path: path.to_owned() }) } else { Ok(roots) }
}

fn from_system() -> Result<RootCertStore, SetupError> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some of the system's root certificates can't be read");
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() { Err(SetupError::NoSystemRoots) } else { Ok(roots) }
}

/// The name that the certificate must have: the authority's host, as a DNS name or as an IP SAN.
pub(super) fn server_name(host: &Host) -> Option<ServerName<'static>> {
    match host {
        Host::Name(name) => ServerName::try_from(name.to_string()).ok(),
        Host::V4(ip) => Some(ServerName::IpAddress((*ip).into())),
        Host::V6(ip) => Some(ServerName::IpAddress((*ip).into())),
    }
}
