//! A trust store that holds the system's roots and ours.

use super::pem::push_certificate;

/// The system's roots and the given certificates, as one PEM text. `SSL_CERT_FILE` and its kin
/// *replace* a client's store: with ours alone in it, every host that is passed through would fail.
///
/// Roots that can't be read are logged and left out.
pub fn bundle(ca_pem: &str) -> String {
    let system = rustls_native_certs::load_native_certs();
    for error in &system.errors {
        tracing::warn!(%error, "a system root certificate cannot be read");
    }
    if system.certs.is_empty() {
        tracing::warn!("no system root certificates found: clients will trust only kleis");
    }
    let mut out = String::with_capacity(ca_pem.len() + system.certs.len() * 2048);
    for certificate in &system.certs {
        push_certificate(&mut out, certificate);
    }
    out.push_str(ca_pem);
    out
}
