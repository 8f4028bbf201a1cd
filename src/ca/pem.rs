//! Writing certificates as PEM (RFC 7468).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Appends one certificate, in lines of 64 characters.
pub(super) fn push_certificate(out: &mut String, der: &[u8]) {
    out.push_str("-----BEGIN CERTIFICATE-----\n");
    let text = STANDARD.encode(der);
    let mut rest = text.as_str();
    while let Some((line, behind)) = rest.split_at_checked(64) {
        out.push_str(line);
        out.push('\n');
        rest = behind;
    }
    if !rest.is_empty() {
        out.push_str(rest);
        out.push('\n');
    }
    out.push_str("-----END CERTIFICATE-----\n");
}
