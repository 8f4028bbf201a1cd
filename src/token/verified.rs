//! A token whose signatures have been verified.

use std::fmt;
use std::sync::Arc;

use super::ast;
use crate::facts::Fact;
use crate::words::{GrantName, IssuerName, SpecName, Timestamp};

/// The revocation id of one block (its signature), printed as lower-case hex.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RevocationId(Arc<[u8]>);

impl RevocationId {
    /// From the bytes of the signature.
    pub fn new(bytes: &[u8]) -> RevocationId {
        RevocationId(bytes.into())
    }

    /// From hex, as [`fmt::Display`] prints it.
    pub fn parse(text: &str) -> Option<RevocationId> {
        let bytes = hex::decode(text).ok()?;
        (32..=128).contains(&bytes.len()).then(|| RevocationId(bytes.into()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for RevocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for RevocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One block, as syntax.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// The block's ground facts.
    pub facts: Vec<Fact>,
    /// Its rules.
    pub rules: Vec<ast::Rule>,
    /// Its checks.
    pub checks: Vec<ast::Check>,
    /// Whether it is signed by a third party or trusts one: outside the compiled subset (DESIGN §14).
    pub third_party: bool,
}

/// Who a token stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// May make requests.
    Bearer {
        /// `bearer("…")`.
        bearer: Arc<str>,
        /// `issued_by("…")`, when an issuer had it made.
        issued_by: Option<IssuerName>,
        /// What may decide its requests.
        candidates: Candidates,
    },
    /// May ask for tokens, and spends nothing.
    Issuer(IssuerName),
}

/// Where to look for candidates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Candidates {
    /// `grant("a"); grant("b");`, in the order in which they stand.
    Grants(Vec<GrantName>),
    /// `spec("worker");`
    Spec(SpecName),
}

/// A token whose signatures have been verified against a root key of ours. Made by `token::verify` and
/// nowhere else. It says nothing of expiry or revocation: those are asked for at each request.
#[derive(Debug, Clone)]
pub struct VerifiedToken {
    pub(super) identity: Identity,
    pub(super) blocks: Arc<[Block]>,
    pub(super) revocation_ids: Arc<[RevocationId]>,
    pub(super) expires: Option<Timestamp>,
    pub(super) odd_expiry: bool,
    pub(super) sealed: bool,
}

impl VerifiedToken {
    /// Who it stands for.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The blocks, the authority block first.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// One for each block, the authority block's first. Any of them revoked ends the token.
    pub fn revocation_ids(&self) -> &[RevocationId] {
        &self.revocation_ids
    }

    /// The earliest `check if time($t), $t < …` of any block: from that second on the token is expired.
    pub fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// Whether a block looks at the time in another form than the plain one: open streams evaluate it
    /// again every 10 s.
    pub fn has_odd_expiry(&self) -> bool {
        self.odd_expiry
    }

    /// Whether nothing can be appended.
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }
}
