//! Secrets at rest: sealed under one key, tied to all that says where they may go.

use std::fmt;
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::key_file::{KeyFileError, make_key, read_key};
use crate::words::{CredentialName, HostPattern, Secret, ServiceName};

/// Bytes of a key.
const KEY: usize = 32;
/// Bytes of an XChaCha nonce (draft-irtf-cfrg-xchacha §2): large enough to be drawn at random.
const NONCE: usize = 24;

/// Which key sealed a secret: 16 hex digits of a hash of the key. Stored beside each sealed secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SealKeyId(String);

impl SealKeyId {
    /// From the store.
    pub fn new(text: impl Into<String>) -> SealKeyId {
        SealKeyId(text.into())
    }

    /// As it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SealKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SealKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a sealed secret is tied to: none of it can be changed in the store without the secret becoming
/// unreadable. INVARIANT 2: the hosts are among it, so that no later edit sends it elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Label<'a> {
    /// The credential's name.
    pub name: &'a CredentialName,
    /// The service it serves.
    pub service: &'a ServiceName,
    /// `static`, `exec`, `github-app`, …
    pub provider: &'a str,
    /// `api_key`, `oauth`, or whatever word manifests use in `when`.
    pub kind: &'a str,
    /// Where it may go.
    pub hosts: &'a [HostPattern],
    /// The provider's settings, as JSON, byte for byte as stored: the command of an `exec` must not be
    /// exchanged for another either.
    pub settings: &'a str,
}

/// A sealed secret, as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The key that opens it.
    pub key_id: SealKeyId,
    /// Nonce, ciphertext and tag.
    pub blob: Vec<u8>,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes, key {})", self.blob.len(), self.key_id)
    }
}

/// Why a secret could not be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The key's file.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// Not a key of ours.
    #[error("`{}` is not a seal key: it must hold exactly {KEY} bytes; restore it from a backup, or move it away and add the credentials again", path.display())]
    NotAKey {
        /// The file.
        path: PathBuf,
    },
    /// Sealed under another key.
    #[error("sealed with key {wanted}, and seal.key is {have}: restore that seal.key, or add the credential again")]
    OtherKey {
        /// The key that is needed.
        wanted: SealKeyId,
        /// The one that is there.
        have: SealKeyId,
    },
    /// The blob or what it is tied to has been changed.
    #[error(
        "the sealed secret does not belong to this name, service, provider, kind, hosts and settings: \
         the store was changed by something else than kleis; add the credential again"
    )]
    Tampered,
    /// Larger than any secret may be, or the cipher refused.
    #[error("a secret this large cannot be sealed")]
    TooLarge,
}

/// Seals and opens secrets with the key of `seal.key`.
#[derive(Clone)]
pub struct Seal {
    key: Zeroizing<[u8; KEY]>,
    id: SealKeyId,
}

impl Seal {
    /// Reads the key, or makes it if there is none.
    pub fn load_or_make(path: &Path) -> Result<Seal, SealError> {
        if let Some(seal) = Seal::load(path)? {
            return Ok(seal);
        }
        make_key(path, Zeroizing::new(rand::random::<[u8; KEY]>()).as_slice())?;
        // Read back: another process may have been first, and then its key is the one.
        Seal::load(path)?.ok_or_else(|| SealError::NotAKey { path: path.to_owned() })
    }

    fn load(path: &Path) -> Result<Option<Seal>, SealError> {
        let Some(bytes) = read_key(path)? else { return Ok(None) };
        let key = <[u8; KEY]>::try_from(bytes.as_slice()).map_err(|_| SealError::NotAKey { path: path.to_owned() })?;
        Ok(Some(Seal::from_key(key)))
    }

    /// From the key itself.
    pub fn from_key(key: [u8; KEY]) -> Seal {
        let mut hash = Sha256::new_with_prefix(b"kleis seal key id\0");
        hash.update(key);
        let mut id = hex::encode(hash.finalize());
        id.truncate(16);
        Seal { key: Zeroizing::new(key), id: SealKeyId(id) }
    }

    /// The key's id.
    pub fn key_id(&self) -> &SealKeyId {
        &self.id
    }

    /// Seals a secret under a fresh nonce.
    pub fn seal(&self, label: &Label<'_>, secret: &Secret) -> Result<Sealed, SealError> {
        let nonce: [u8; NONCE] = rand::random();
        let aad = associated_data(label);
        let payload = Payload { msg: secret.expose(), aad: &aad };
        let sealed = self.cipher().encrypt(XNonce::from_slice(&nonce), payload).map_err(|_| SealError::TooLarge)?;
        let mut blob = nonce.to_vec();
        blob.extend_from_slice(&sealed);
        Ok(Sealed { key_id: self.id.clone(), blob })
    }

    /// Opens a secret. Fails if the key, the blob or any part of the label differs.
    pub fn open(&self, label: &Label<'_>, sealed: &Sealed) -> Result<Secret, SealError> {
        if sealed.key_id != self.id {
            return Err(SealError::OtherKey { wanted: sealed.key_id.clone(), have: self.id.clone() });
        }
        let (nonce, ciphertext) = sealed.blob.split_at_checked(NONCE).ok_or(SealError::Tampered)?;
        let aad = associated_data(label);
        let payload = Payload { msg: ciphertext, aad: &aad };
        self.cipher().decrypt(XNonce::from_slice(nonce), payload).map(Secret::new).map_err(|_| SealError::Tampered)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(self.key.as_slice().into())
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seal({})", self.id)
    }
}

/// Each part with its length before it: no two labels have the same bytes, whatever is in them.
fn associated_data(label: &Label<'_>) -> Vec<u8> {
    fn part(to: &mut Vec<u8>, bytes: &[u8]) {
        to.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        to.extend_from_slice(bytes);
    }
    let mut out = b"kleis credential 1\0".to_vec();
    part(&mut out, label.name.as_str().as_bytes());
    part(&mut out, label.service.as_str().as_bytes());
    part(&mut out, label.provider.as_bytes());
    part(&mut out, label.kind.as_bytes());
    part(&mut out, &(label.hosts.len() as u64).to_be_bytes());
    for host in label.hosts {
        part(&mut out, host.to_string().as_bytes());
    }
    part(&mut out, Sha256::digest(label.settings.as_bytes()).as_slice());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(texts: &[&str]) -> Vec<HostPattern> {
        texts.iter().map(|t| HostPattern::parse(t).unwrap()).collect()
    }

    #[test]
    fn a_secret_opens_only_with_the_label_it_was_sealed_with() {
        let seal = Seal::from_key([7; KEY]);
        let name = CredentialName::parse("github/me").unwrap();
        let service = ServiceName::parse("github").unwrap();
        let (sealed_hosts, wider) = (hosts(&["api.good.test"]), hosts(&["api.good.test", "evil.test"]));
        let label = Label {
            name: &name,
            service: &service,
            provider: "exec",
            kind: "api_key",
            hosts: &sealed_hosts,
            settings: r#"{"command":"a"}"#,
        };
        let secret = Secret::new("GOOD");
        let sealed = seal.seal(&label, &secret).unwrap();
        assert_eq!(seal.open(&label, &sealed).unwrap(), secret);

        let other_name = CredentialName::parse("github/you").unwrap();
        let other_service = ServiceName::parse("gitlab").unwrap();
        for changed in [
            Label { name: &other_name, ..label },
            Label { service: &other_service, ..label },
            Label { provider: "static", ..label },
            Label { kind: "oauth", ..label },
            Label { hosts: &wider, ..label },
            Label { hosts: &[], ..label },
            Label { settings: r#"{"command":"b"}"#, ..label },
        ] {
            assert!(matches!(seal.open(&changed, &sealed), Err(SealError::Tampered)), "{changed:?}");
        }
    }

    #[test]
    fn a_changed_blob_and_another_key_do_not_open() {
        let seal = Seal::from_key([7; KEY]);
        let (name, service) = (CredentialName::parse("a/b").unwrap(), ServiceName::parse("a").unwrap());
        let label = Label { name: &name, service: &service, provider: "static", kind: "", hosts: &[], settings: "{}" };
        let sealed = seal.seal(&label, &Secret::new("GOOD")).unwrap();
        for at in [0, NONCE, sealed.blob.len() - 1] {
            let mut broken = sealed.clone();
            broken.blob[at] ^= 1;
            assert!(matches!(seal.open(&label, &broken), Err(SealError::Tampered)));
        }
        let short = Sealed { blob: vec![0; 5], ..sealed.clone() };
        assert!(matches!(seal.open(&label, &short), Err(SealError::Tampered)));
        let other = Seal::from_key([8; KEY]);
        assert!(matches!(other.open(&label, &sealed), Err(SealError::OtherKey { .. })));
    }

    #[test]
    fn the_key_is_made_once_and_a_damaged_one_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("seal.key");
        let first = Seal::load_or_make(&path).unwrap();
        assert_eq!(first.key_id(), Seal::load_or_make(&path).unwrap().key_id());
        std::fs::write(&path, b"short").unwrap();
        assert!(Seal::load_or_make(&path).unwrap_err().to_string().contains("exactly 32 bytes"));
    }

    #[test]
    fn nothing_of_a_seal_is_printed() {
        let seal = Seal::from_key([7; KEY]);
        assert_eq!(format!("{seal:?}"), format!("Seal({})", seal.key_id()));
    }
}
