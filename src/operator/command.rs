//! What can be asked of the one door, and what it answers: JSON over `control.sock`.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::store::{AuditHead, CredentialState, TokenFilter, TokenKind};
use crate::words::{CredentialName, GrantName, HostPattern, IssuerName, ServiceName, SpecName, Timestamp};

/// Text that goes through the control socket and nowhere else: a secret on its way in, a token on its
/// way out. Not shown by `Debug`, wiped when dropped.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Confidential(Zeroizing<String>);

impl Confidential {
    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Confidential {
    fn from(text: String) -> Confidential {
        Confidential(Zeroizing::new(text))
    }
}

impl From<Confidential> for String {
    fn from(text: Confidential) -> String {
        text.0.as_str().to_owned()
    }
}

impl fmt::Debug for Confidential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Confidential(…)")
    }
}

/// One thing to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Command {
    /// Seal and keep a credential.
    CredentialAdd(CredentialAdd),
    /// All installed credentials, without their secrets.
    CredentialList,
    /// One of them.
    CredentialShow {
        /// Which.
        name: CredentialName,
    },
    /// Forget one.
    CredentialRemove {
        /// Which.
        name: CredentialName,
    },
    /// Make a bearer's token.
    TokenMint(TokenMint),
    /// Make an issuer's credential.
    IssuerToken {
        /// For whom. That the configuration has it is the caller's to check.
        issuer: IssuerName,
        /// Seconds.
        ttl: u64,
        /// What to call it in lists.
        label: Option<String>,
    },
    /// Tokens that were issued.
    TokenList {
        /// Which.
        filter: TokenFilter,
        /// Expired and revoked ones too.
        all: bool,
    },
    /// End tokens.
    Revoke {
        /// Which.
        what: Revoke,
    },
    /// What there is.
    Status,
}

/// A credential to install. Hosts, provider and kind are settled by the caller, who knows the manifest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialAdd {
    /// `service/account`.
    pub name: CredentialName,
    /// The service it serves.
    pub service: ServiceName,
    /// `static`, `exec`, …
    pub provider: String,
    /// `api_key`, `oauth`, …
    pub kind: String,
    /// The only places where it may go. INVARIANT 2: sealed with the secret.
    pub hosts: Vec<HostPattern>,
    /// The provider's settings, JSON.
    pub settings: String,
    /// The material.
    pub secret: Confidential,
    /// Replace the material of one that is there, instead of failing.
    #[serde(default)]
    pub replace: bool,
}

/// A token to make.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenMint {
    /// Its spec; then no grants.
    #[serde(default)]
    pub spec: Option<SpecName>,
    /// Its grants; then no spec.
    #[serde(default)]
    pub grants: Vec<GrantName>,
    /// Who will hold it.
    pub bearer: String,
    /// Seconds.
    pub ttl: u64,
    /// Datalog: `task_fork("o", "r")`.
    #[serde(default)]
    pub facts: Vec<String>,
    /// Allow lines that take away.
    #[serde(default)]
    pub narrow: Vec<String>,
    /// Datalog: `check if …`.
    #[serde(default)]
    pub checks: Vec<String>,
    /// What to call it in lists.
    #[serde(default)]
    pub label: Option<String>,
}

/// Which tokens to end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Revoke {
    /// The token with this id and what derives from it; an id that was never seen is fine.
    Id(String),
    /// The token itself is at hand: its own id is revoked.
    Token(Confidential),
    /// All that match now.
    Matching(TokenFilter),
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reply {
    /// Nothing more to say.
    Done,
    /// Credentials.
    Credentials {
        /// By name.
        credentials: Vec<CredentialView>,
    },
    /// A credential that was added.
    CredentialAdded {
        /// What is there now.
        credential: CredentialView,
        /// It was there before and has new material.
        replaced: bool,
    },
    /// A token that was made: shown once.
    Token(TokenMade),
    /// Tokens.
    Tokens {
        /// The newest first.
        tokens: Vec<TokenView>,
    },
    /// Revocations.
    Revoked {
        /// Ids that are revoked now and weren't before.
        ids: Vec<String>,
        /// Ids that were revoked already.
        already: u64,
    },
    /// What there is.
    Status(Status),
}

/// What there is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// Revoked ids.
    pub revocations: u64,
    /// Installed credentials.
    pub credentials: Vec<CredentialView>,
    /// Where the record stands.
    pub audit_head: Option<AuditHead>,
    /// The live root keys; the first one signs.
    pub root_key_ids: Vec<u32>,
    /// The key that seals.
    pub seal_key_id: String,
}

/// A credential without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in `store::CredentialRecord`")]
pub struct CredentialView {
    pub name: CredentialName,
    pub service: ServiceName,
    pub provider: String,
    pub kind: String,
    pub hosts: Vec<HostPattern>,
    pub settings: String,
    pub generation: u64,
    pub seal_key_id: String,
    pub state: CredentialState,
    pub created: Timestamp,
    pub updated: Timestamp,
}

/// A token that was made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TokenMade {
    /// The token.
    pub token: Confidential,
    /// The last one is its own.
    pub revocation_ids: Vec<String>,
    /// The true expiry.
    pub expires: Timestamp,
}

/// A token that was issued, without the token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in `store::TokenRecord`")]
pub struct TokenView {
    pub revocation_id: String,
    pub kind: TokenKind,
    pub label: Option<String>,
    pub issuer: Option<IssuerName>,
    pub bearer: String,
    pub spec: Option<SpecName>,
    pub grants: Vec<GrantName>,
    pub parent: Option<String>,
    pub created: Timestamp,
    pub expires: Option<Timestamp>,
    pub lease_until: Option<Timestamp>,
    pub revoked: Option<Timestamp>,
}
