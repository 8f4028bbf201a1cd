//! Leaves: one for each name, signed in well under a tenth of a millisecond.

use std::sync::Arc;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use time::{Duration, OffsetDateTime};

use super::issuer::{CaError, Issuer, random_serial};
use super::rename::with_issuer;
use crate::words::Host;

/// Sandboxes are paused and wake up with yesterday's clock.
pub(super) const BACKDATED: Duration = Duration::hours(6);
/// Long enough that a client which was told a time too early still accepts it, far below the 825 days
/// that Apple's platforms allow.
pub(super) const LIFE: Duration = Duration::days(7);

/// Why there is no leaf.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LeafError {
    /// No leaf may outlive the CA.
    #[error("the CA has expired: supply another, or move `ca.pem` and `ca.key` away to make a new one")]
    CaExpired,
    /// Cryptography refused.
    #[error("cannot mint a leaf: {0}")]
    Crypto(String),
}

/// Mints leaves. All share one key, made when the process starts: a key for each name would cost as much
/// as the handshake, and the CA's own key must not meet clients.
pub(super) struct Mint {
    issuer: Issuer,
    key: KeyPair,
    signing_key: Arc<dyn SigningKey>,
    /// What all leaves have in common; each clones it and puts its certificate in.
    template: ServerConfig,
    /// Whether rcgen writes the issuer's name as the issuer does.
    renames: bool,
}

impl Mint {
    pub(super) fn new(issuer: Issuer) -> Result<Mint, CaError> {
        let key = KeyPair::generate().map_err(|error| CaError::Crypto(error.to_string()))?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let crypto = |error: rustls::Error| CaError::Crypto(error.to_string());
        let signing_key = aws_lc_rs::sign::any_supported_type(&der).map_err(crypto)?;
        let template = template().map_err(crypto)?;
        let mut mint = Mint { issuer, key, signing_key, template, renames: false };
        mint.renames = mint.misnames_issuer()?;
        Ok(mint)
    }

    /// Mints a leaf for nobody and looks at the issuer's name in it.
    fn misnames_issuer(&self) -> Result<bool, CaError> {
        let trial = self
            .certificate(&Host::V4([127, 0, 0, 1].into()), self.issuer.not_before, self.issuer.not_after)
            .map_err(|error| CaError::Crypto(error.to_string()))?;
        let (_, parsed) =
            x509_parser::parse_x509_certificate(&trial).map_err(|error| CaError::Crypto(error.to_string()))?;
        Ok(parsed.issuer().as_raw() != self.issuer.name)
    }

    /// How many certificates are sent behind a leaf.
    #[cfg(test)]
    pub(super) fn chain_behind(&self) -> usize {
        self.issuer.intermediates.len()
    }

    /// A configuration whose leaf is for that host alone, and when to ask for another. One name in each
    /// leaf: with two, a browser would send requests for the second over a connection to the first.
    pub(super) fn leaf(
        &self,
        host: &Host,
        now: OffsetDateTime,
    ) -> Result<(Arc<ServerConfig>, OffsetDateTime), LeafError> {
        let not_after = (now + LIFE).min(self.issuer.not_after);
        if not_after <= now {
            return Err(LeafError::CaExpired);
        }
        let certificate = self.certificate(host, (now - BACKDATED).max(self.issuer.not_before), not_after)?;
        let mut chain = Vec::with_capacity(1 + self.issuer.intermediates.len());
        chain.push(certificate);
        chain.extend(self.issuer.intermediates.iter().cloned());
        let certified = CertifiedKey::new(chain, self.signing_key.clone());
        let mut config = self.template.clone();
        config.cert_resolver = Arc::new(SingleCertAndKey::from(certified));
        Ok((Arc::new(config), now + (not_after - now) / 2))
    }

    pub(super) fn certificate(
        &self,
        host: &Host,
        not_before: OffsetDateTime,
        not_after: OffsetDateTime,
    ) -> Result<CertificateDer<'static>, LeafError> {
        let crypto = |error: rcgen::Error| LeafError::Crypto(error.to_string());
        let mut params = CertificateParams::default();
        params.not_before = not_before;
        params.not_after = not_after;
        params.serial_number = Some(random_serial());
        params.distinguished_name = subject(host);
        params.subject_alt_names = vec![match host {
            Host::Name(name) => SanType::DnsName(name.as_ref().try_into().map_err(crypto)?),
            Host::V4(ip) => SanType::IpAddress((*ip).into()),
            Host::V6(ip) => SanType::IpAddress((*ip).into()),
        }];
        // "Explicit": with basicConstraints CA:FALSE and a subject key identifier.
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&self.key, &self.issuer.signer).map_err(crypto)?;
        if !self.renames {
            return Ok(certificate.der().clone());
        }
        with_issuer(certificate.der(), &self.issuer.name, self.issuer.signer.key())
            .map(CertificateDer::from)
            .ok_or_else(|| LeafError::Crypto("the issuer's name cannot be written".to_owned()))
    }
}

/// The name again, for old eyes that look there. A common name has at most 64 characters (RFC 5280
/// upper bounds): a longer one is left out, and rcgen then marks the alternative name critical, as an
/// empty subject demands.
fn subject(host: &Host) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    let text = host.as_ip().map_or_else(|| host.to_string(), |ip| ip.to_string());
    if text.len() <= 64 {
        name.push(DnType::CommonName, text);
    }
    name
}

fn template() -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::server::ResolvesServerCertUsingSni::new()));
    // AES-128 with SHA-256 first: most clients would choose AES-256 with SHA-384, for which common
    // servers have no hardware help, and the hop is local.
    config.ignore_client_order = true;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Stateless tickets under one key for all leaves: nothing is kept for each client. A session resumes
    // only under the name that it was made for (rustls compares the SNI).
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 1;
    Ok(config)
}

fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        ],
        ..aws_lc_rs::default_provider()
    }
}
