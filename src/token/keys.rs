//! The keys that sign tokens.

use std::fmt;

use biscuit_auth::{Algorithm, KeyPair, PrivateKey, PublicKey, RootKeyProvider};
use rand::{CryptoRng, RngCore};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Why a text holds no root keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RootKeysError {
    /// Nothing in it.
    #[error("there is no key in it: use lines of `ID ed25519-private/HEX`, or one PKCS#8 PEM")]
    Empty,
    /// A line that isn't one. The line is not repeated: it may be a key.
    #[error("line {0} is not a key: use `ID ed25519-private/HEX`")]
    Line(usize),
    /// The same id twice.
    #[error("root key id {0} is there twice")]
    Twice(u32),
    /// A PEM that isn't an Ed25519 key.
    #[error("the PEM is not an Ed25519 private key in PKCS#8")]
    Pem,
}

struct RootKey {
    id: u32,
    pair: KeyPair,
}

/// The root keys that are live. The first one signs; all of them verify, so that a rotation ends no
/// token before its time. Private halves are wiped when dropped.
pub struct RootKeys {
    keys: Vec<RootKey>,
    fingerprint: [u8; 32],
}

impl RootKeys {
    /// One new key, with id 1.
    pub fn generate(rng: &mut (impl RngCore + CryptoRng)) -> RootKeys {
        RootKeys::from_keys(vec![RootKey { id: 1, pair: KeyPair::new_with_rng(Algorithm::Ed25519, rng) }])
    }

    /// Reads what [`RootKeys::to_bytes`] writes: one `ID ed25519-private/HEX` a line, `#` comments, the
    /// first line's key signs. A single PKCS#8 PEM is read as key 1.
    pub fn from_bytes(bytes: &[u8]) -> Result<RootKeys, RootKeysError> {
        let text = std::str::from_utf8(bytes).map_err(|_| RootKeysError::Empty)?;
        if text.trim_start().starts_with("-----BEGIN") {
            let pair = KeyPair::from_private_key_pem_with_algorithm(text.trim(), Algorithm::Ed25519)
                .map_err(|_| RootKeysError::Pem)?;
            return Ok(RootKeys::from_keys(vec![RootKey { id: 1, pair }]));
        }
        let mut keys: Vec<RootKey> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = parse_line(line).ok_or(RootKeysError::Line(index + 1))?;
            if keys.iter().any(|k| k.id == key.id) {
                return Err(RootKeysError::Twice(key.id));
            }
            keys.push(key);
        }
        if keys.is_empty() { Err(RootKeysError::Empty) } else { Ok(RootKeys::from_keys(keys)) }
    }

    /// The content of a key file.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        const COMMENT: &str = "# kleis root keys: the first one signs, all verify\n";
        // Room for all of it: a buffer that grows would leave copies behind.
        let mut text = Zeroizing::new(Vec::with_capacity(COMMENT.len() + self.keys.len() * 128));
        text.extend_from_slice(COMMENT.as_bytes());
        for key in &self.keys {
            let hex = Zeroizing::new(key.pair.private().to_bytes_hex());
            text.extend_from_slice(format!("{} ed25519-private/", key.id).as_bytes());
            text.extend_from_slice(hex.as_bytes());
            text.push(b'\n');
        }
        text
    }

    /// Puts a new key before the others: it signs from now on. Returns its id.
    pub fn rotate(&mut self, rng: &mut (impl RngCore + CryptoRng)) -> u32 {
        let id = self.keys.iter().map(|k| k.id).max().map_or(1, |max| max.wrapping_add(1));
        self.keys.insert(0, RootKey { id, pair: KeyPair::new_with_rng(Algorithm::Ed25519, rng) });
        self.fingerprint = fingerprint(&self.keys);
        id
    }

    /// Forgets a key: its tokens end. The last one stays. Whether it was there.
    pub fn retire(&mut self, id: u32) -> bool {
        if self.keys.len() < 2 {
            return false;
        }
        let before = self.keys.len();
        self.keys.retain(|k| k.id != id);
        self.fingerprint = fingerprint(&self.keys);
        before != self.keys.len()
    }

    /// Ids and public halves (hex), the signing key first.
    pub fn public(&self) -> Vec<(u32, String)> {
        self.keys.iter().map(|k| (k.id, k.pair.public().to_bytes_hex())).collect()
    }

    /// A hash over all public halves and ids, for caches of verified tokens.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    pub(super) fn signer(&self) -> Option<(u32, &KeyPair)> {
        self.keys.first().map(|k| (k.id, &k.pair))
    }

    fn from_keys(keys: Vec<RootKey>) -> RootKeys {
        let fingerprint = fingerprint(&keys);
        RootKeys { keys, fingerprint }
    }
}

fn parse_line(line: &str) -> Option<RootKey> {
    let (id, key) = line.split_once(char::is_whitespace)?;
    let hex = key.trim().strip_prefix("ed25519-private/")?;
    let key = PrivateKey::from_bytes_hex(hex, Algorithm::Ed25519).ok()?;
    Some(RootKey { id: id.parse().ok()?, pair: KeyPair::from(&key) })
}

fn fingerprint(keys: &[RootKey]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for key in keys {
        hash.update(key.id.to_be_bytes());
        hash.update(key.pair.public().to_bytes());
    }
    hash.finalize().into()
}

impl RootKeyProvider for &RootKeys {
    /// By id; a token without one is tried with the signing key.
    fn choose(&self, key_id: Option<u32>) -> Result<PublicKey, biscuit_auth::error::Format> {
        let key = match key_id {
            Some(id) => self.keys.iter().find(|k| k.id == id),
            None => self.keys.first(),
        };
        key.map(|k| k.pair.public()).ok_or(biscuit_auth::error::Format::UnknownPublicKey)
    }
}

impl fmt::Debug for RootKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|k| k.id)).finish()
    }
}
