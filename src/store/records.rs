//! What the store keeps, row by row.

use crate::token::RevocationId;
use crate::words::{CredentialName, GrantName, HostPattern, IssuerName, ServiceName, SpecName, Timestamp};

/// Whose token it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenKind {
    /// Makes requests.
    Bearer,
    /// Asks for tokens.
    Issuer,
}

/// What is kept of a token that was issued: enough to list and to revoke it, never the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// The revocation id of its last block: revoking it ends this token and its descendants only.
    pub id: RevocationId,
    /// Whose it is.
    pub kind: TokenKind,
    /// What the maker called it.
    pub label: Option<String>,
    /// The issuer: who had it made, or whose credential it is.
    pub issuer: Option<IssuerName>,
    /// Who holds it; empty for an issuer's credential.
    pub bearer: String,
    /// Its spec, if it has one.
    pub spec: Option<SpecName>,
    /// Its grants otherwise.
    pub grants: Vec<GrantName>,
    /// The id of the token that it was derived from.
    pub parent: Option<RevocationId>,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends.
    pub expires: Option<Timestamp>,
    /// When it ends unless somebody renews it.
    pub lease_until: Option<Timestamp>,
    /// When it was revoked. Read only: inserting a record ignores it.
    pub revoked: Option<Timestamp>,
}

/// Which tokens.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenFilter {
    /// All of them.
    All,
    /// Those of a bearer.
    Bearer(String),
    /// Those that an issuer had made, and its credentials.
    Issuer(IssuerName),
    /// Those of a spec.
    Spec(SpecName),
}

/// How a stored credential is doing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialState {
    /// It can be spent.
    Ready,
    /// Its provider refuses it for good: somebody must log in again.
    NeedsLogin {
        /// Why, for the operator. Never a secret.
        why: String,
    },
}

/// A credential as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRecord {
    /// `service/account`.
    pub name: CredentialName,
    /// The service it serves.
    pub service: ServiceName,
    /// `static`, `exec`, …
    pub provider: String,
    /// `api_key`, `oauth`, …
    pub kind: String,
    /// The only places where it may go.
    pub hosts: Vec<HostPattern>,
    /// The provider's settings: JSON, byte for byte as sealed.
    pub settings: String,
    /// Counts up whenever the material is replaced.
    pub generation: u64,
    /// The key that sealed it.
    pub seal_key_id: String,
    /// The sealed material.
    pub sealed: Vec<u8>,
    /// Hash of the declared file that seeded it (DESIGN §13, source and sink); `None` if it was installed.
    pub source: Option<String>,
    /// How it is doing.
    pub state: CredentialState,
    /// When it was added.
    pub created: Timestamp,
    /// When its material was last replaced.
    pub updated: Timestamp,
}

/// What replaces a credential's material, if nobody else was faster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The generation that the caller has read.
    pub expected: u64,
    /// The key that sealed the new material.
    pub seal_key_id: String,
    /// The new material.
    pub sealed: Vec<u8>,
    /// How it is doing.
    pub state: CredentialState,
    /// Now.
    pub at: Timestamp,
}

/// The outcome of a compare-and-swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swap {
    /// Replaced; the new generation.
    Done(u64),
    /// Somebody replaced it before: read it again.
    Lost,
}

/// Where an audit chain stands.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct AuditHead {
    /// The number of the last entry.
    pub seq: u64,
    /// Its hash, hex.
    pub hash: String,
}
