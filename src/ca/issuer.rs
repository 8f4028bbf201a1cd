//! The issuing certificate: made once, or supplied by an operator; never made again silently.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose,
    SerialNumber,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use time::{Duration, OffsetDateTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;

use super::pem::push_certificate;
use crate::credential::{KeyFileError, make_key, read_key};

/// A CA lives for a year: long enough for sandbox images, short enough to be replaced one day.
const LIFE: Duration = Duration::days(366);
/// Clients whose clock is behind must accept it at once.
const BACKDATED: Duration = Duration::days(1);

/// Why there is no usable CA. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// A file can't be read or written.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// One of the two files is missing.
    #[error(
        "`{}` is missing although `{}` is there: restore it from a backup; or, to make a new CA that every \
         client must be given again, move `{}` away", missing.display(), there.display(), there.display()
    )]
    Half {
        /// The one that is not there.
        missing: PathBuf,
        /// The one that is.
        there: PathBuf,
    },
    /// No certificate in it, or one that can't be read.
    #[error("`{}` holds no readable certificate: it must be PEM, the issuing certificate and those above it", file.display())]
    NoCertificate {
        /// The file.
        file: PathBuf,
    },
    /// No private key in it, or one that can't be read.
    #[error("`{}` holds no readable private key: it must be PEM, unencrypted, ECDSA or RSA", file.display())]
    NoKey {
        /// The file.
        file: PathBuf,
    },
    /// The key belongs to none of the certificates.
    #[error(
        "no certificate in `{}` belongs to the private key: put the certificate of that key there, or restore \
         both from one backup", file.display()
    )]
    Mismatch {
        /// The certificates.
        file: PathBuf,
    },
    /// The certificate that fits may not sign others.
    #[error(
        "the certificate in `{}` that belongs to the key is not a CA: it needs basicConstraints CA:TRUE and, \
         if it has a keyUsage, keyCertSign", file.display()
    )]
    NotACa {
        /// The certificates.
        file: PathBuf,
    },
    /// It has expired, or its time has not come.
    #[error(
        "the CA in `{}` is valid from {from} to {until} only: check the clock, or supply another; to make a new \
         one that every client must be given again, move `ca.pem` and `ca.key` away", file.display()
    )]
    NotNow {
        /// The certificates.
        file: PathBuf,
        /// First second.
        from: OffsetDateTime,
        /// Last second.
        until: OffsetDateTime,
    },
    /// Cryptography refused.
    #[error("cannot use the CA's key: {0}")]
    Crypto(String),
}

/// The key that signs, its certificate, and those above it.
pub(super) struct Issuer {
    pub(super) signer: rcgen::Issuer<'static, KeyPair>,
    /// The issuer's name as DER.
    pub(super) name: Vec<u8>,
    /// What is sent behind a leaf: nothing if the issuer is itself the root that clients trust.
    pub(super) intermediates: Vec<CertificateDer<'static>>,
    pub(super) not_before: OffsetDateTime,
    pub(super) not_after: OffsetDateTime,
    certificates: Vec<CertificateDer<'static>>,
}

impl Issuer {
    /// The issuing certificate first, then those above it.
    pub(super) fn certificates_pem(&self) -> String {
        let mut out = String::new();
        self.certificates.iter().for_each(|der| push_certificate(&mut out, der));
        out
    }
}

/// Reads `ca.pem` and `ca.key`, or makes both if neither is there.
pub(super) fn load_or_make(data_dir: &Path, now: OffsetDateTime) -> Result<Issuer, CaError> {
    let (cert_file, key_file) = (data_dir.join("ca.pem"), data_dir.join("ca.key"));
    let half = |missing: &Path, there: &Path| CaError::Half { missing: missing.into(), there: there.into() };
    match (read_key(&cert_file)?, read_key(&key_file)?) {
        (Some(certs), Some(key)) => from_pem(&certs, &key, &cert_file, &key_file, now),
        // Many tools keep a CA and its key in one file.
        (Some(certs), None) if PrivateKeyDer::from_pem_slice(&certs).is_ok() => {
            from_pem(&certs, &certs, &cert_file, &cert_file, now)
        }
        (Some(_), None) => Err(half(&key_file, &cert_file)),
        (None, Some(_)) => Err(half(&cert_file, &key_file)),
        (None, None) => {
            make(&cert_file, &key_file, now)?;
            let certs = read_key(&cert_file)?.ok_or_else(|| half(&cert_file, &key_file))?;
            let key = read_key(&key_file)?.ok_or_else(|| half(&key_file, &cert_file))?;
            from_pem(&certs, &key, &cert_file, &key_file, now)
        }
    }
}

/// Makes a root of our own, with a name that no other deployment has: a client that trusts two of them
/// would otherwise pick the wrong one by its name.
fn make(cert_file: &Path, key_file: &Path, now: OffsetDateTime) -> Result<(), CaError> {
    let key = KeyPair::generate().map_err(crypto)?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, format!("kleis CA {:08x}", rand::random::<u32>()));
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params.not_before = now - BACKDATED;
    params.not_after = now + LIFE;
    params.serial_number = Some(random_serial());
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).map_err(crypto)?;
    make_key(key_file, zeroize::Zeroizing::new(key.serialize_pem()).as_bytes())?;
    make_key(cert_file, certificate.pem().as_bytes())?;
    Ok(())
}

/// 128 random bits. The first byte is neither zero nor negative, so that DER keeps all sixteen.
pub(super) fn random_serial() -> SerialNumber {
    let mut serial: [u8; 16] = rand::random();
    if let Some(first) = serial.first_mut() {
        *first = (*first & 0x7f) | 0x40;
    }
    SerialNumber::from_slice(&serial)
}

fn crypto(error: rcgen::Error) -> CaError {
    CaError::Crypto(error.to_string())
}

fn from_pem(
    certs: &[u8],
    key: &[u8],
    cert_file: &Path,
    key_file: &Path,
    now: OffsetDateTime,
) -> Result<Issuer, CaError> {
    let no_certificate = || CaError::NoCertificate { file: cert_file.to_owned() };
    let no_key = || CaError::NoKey { file: key_file.to_owned() };
    let ders: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(certs).collect::<Result<_, _>>().map_err(|_| no_certificate())?;
    let all: Vec<X509Certificate<'_>> = ders.iter().map(parse).collect::<Option<_>>().ok_or_else(no_certificate)?;
    if all.is_empty() {
        return Err(no_certificate());
    }
    let key_der = PrivateKeyDer::from_pem_slice(key).map_err(|_| no_key())?;
    let key = KeyPair::try_from(&key_der).map_err(|_| no_key())?;

    let chosen = choose(&all, &key, cert_file, now)?;
    let path = path_to_root(&all, chosen);
    let chosen = path.first().copied().ok_or_else(no_certificate)?;
    let der_of = |certificate: &X509Certificate<'_>| CertificateDer::from(certificate.as_raw().to_vec());
    let certificates: Vec<_> = path.iter().map(|certificate| der_of(certificate)).collect();
    let intermediates = path.iter().filter(|certificate| !is_root(certificate)).map(|c| der_of(c)).collect();
    if key_id(chosen).is_none() {
        tracing::warn!("the CA has no subject key identifier: strict clients (Python 3.13) will refuse its leaves");
    }
    let validity = chosen.validity();
    // A leaf must not outlive anything above it.
    let not_after = path.iter().map(|c| c.validity().not_after.to_datetime()).min().unwrap_or(now);
    let signer = signer(chosen, key);
    let name = chosen.subject().as_raw().to_vec();
    Ok(Issuer { signer, name, intermediates, not_before: validity.not_before.to_datetime(), not_after, certificates })
}

fn parse<'a>(der: &'a CertificateDer<'static>) -> Option<X509Certificate<'a>> {
    let (rest, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    rest.is_empty().then_some(certificate)
}

/// The certificate that belongs to the key; of several (a renewed one keeps its key) the one that is
/// valid longest.
fn choose<'a, 'b>(
    all: &'a [X509Certificate<'b>],
    key: &KeyPair,
    file: &Path,
    now: OffsetDateTime,
) -> Result<&'a X509Certificate<'b>, CaError> {
    let fits = |c: &&X509Certificate<'_>| c.public_key().subject_public_key.data.as_ref() == key.public_key_raw();
    let mut fitting: Vec<_> = all.iter().filter(fits).collect();
    if fitting.is_empty() {
        return Err(CaError::Mismatch { file: file.to_owned() });
    }
    fitting.retain(|c| may_sign(c));
    let until = |c: &&X509Certificate<'_>| c.validity().not_after.to_datetime();
    let chosen = fitting.into_iter().max_by_key(until).ok_or_else(|| CaError::NotACa { file: file.to_owned() })?;
    let (from, until) = (chosen.validity().not_before.to_datetime(), until(&chosen));
    if now < from || now >= until {
        return Err(CaError::NotNow { file: file.to_owned(), from, until });
    }
    Ok(chosen)
}

fn may_sign(certificate: &X509Certificate<'_>) -> bool {
    let is_ca = matches!(certificate.basic_constraints(), Ok(Some(constraints)) if constraints.value.ca);
    let usage = match certificate.key_usage() {
        Ok(Some(usage)) => usage.value.key_cert_sign(),
        Ok(None) => true,
        Err(_) => false,
    };
    is_ca && usage
}

fn is_root(certificate: &X509Certificate<'_>) -> bool {
    certificate.subject().as_raw() == certificate.issuer().as_raw()
}

fn key_id(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    })
}

/// What signs leaves. Its name may come out differently ([`super::rename`]); its key identifier is the one
/// in the certificate.
fn signer(certificate: &X509Certificate<'_>, key: KeyPair) -> rcgen::Issuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for attribute in certificate.subject().iter_attributes() {
        let (Some(kind), Ok(value)) = (attribute.attr_type().iter(), attribute.as_str()) else { continue };
        params.distinguished_name.push(DnType::from_oid(&kind.collect::<Vec<_>>()), value);
    }
    if let Some(id) = key_id(certificate) {
        params.key_identifier_method = KeyIdMethod::PreSpecified(id);
    }
    rcgen::Issuer::new(params, key)
}

/// From the issuing certificate upwards, as far as the file goes; each at most once.
fn path_to_root<'a, 'b>(
    all: &'a [X509Certificate<'b>],
    chosen: &'a X509Certificate<'b>,
) -> Vec<&'a X509Certificate<'b>> {
    let mut path = vec![chosen];
    while let Some(last) = path.last().copied() {
        if is_root(last) || path.len() > all.len() {
            break;
        }
        let above = all.iter().find(|c| {
            c.subject().as_raw() == last.issuer().as_raw() && !path.iter().any(|seen| seen.as_raw() == c.as_raw())
        });
        match above {
            Some(above) => path.push(above),
            None => break,
        }
    }
    path
}
