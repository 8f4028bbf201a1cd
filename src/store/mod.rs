//! The store: what must survive (DESIGN §15).
//!
//! Typed methods over portable SQL; below them an engine (SQLite now) that runs statements. What a
//! method has returned `Ok` for is on disk: a process killed at any instant loses nothing that was
//! acknowledged.

mod data_dir;
mod error;
mod records;
mod revocations;

use std::path::Path;

pub use data_dir::{DataDir, DataDirError};
pub use error::StoreError;
pub use records::{
    AuditHead, CredentialRecord, CredentialState, Replacement, Swap, TokenFilter, TokenKind, TokenRecord,
};
pub use revocations::{RevocationWatch, Revocations};

use crate::token::RevocationId;
use crate::words::{CredentialName, Timestamp};

/// The store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {}

impl Store {
    /// Opens the database, makes it (0600) if there is none, and brings its tables up to date.
    pub async fn open(path: &Path) -> Result<Store, StoreError> {
        todo!("{}", path.display())
    }

    /// Waits for what is being written, and closes the database.
    pub async fn close(&self) {
        todo!()
    }

    /// Records a token that was issued.
    pub async fn insert_token(&self, token: &TokenRecord) -> Result<(), StoreError> {
        todo!("{token:?}")
    }

    /// One token.
    pub async fn token(&self, id: &RevocationId) -> Result<Option<TokenRecord>, StoreError> {
        todo!("{id}")
    }

    /// Tokens, the newest first.
    pub async fn tokens(&self, filter: &TokenFilter) -> Result<Vec<TokenRecord>, StoreError> {
        todo!("{filter:?}")
    }

    /// Revokes ids, known or not. On disk when it returns. Those that were not revoked before.
    /// Callers go through [`crate::operator::Operator`], which also tells [`Revocations`].
    pub async fn revoke(&self, ids: &[RevocationId], at: Timestamp) -> Result<Vec<RevocationId>, StoreError> {
        todo!("{ids:?} {at}")
    }

    /// Every revoked id.
    pub async fn revoked(&self) -> Result<Vec<RevocationId>, StoreError> {
        todo!()
    }

    /// Adds a credential; [`StoreError::Exists`] if the name is taken.
    pub async fn insert_credential(&self, credential: &CredentialRecord) -> Result<(), StoreError> {
        todo!("{credential:?}")
    }

    /// One credential.
    pub async fn credential(&self, name: &CredentialName) -> Result<Option<CredentialRecord>, StoreError> {
        todo!("{name}")
    }

    /// All credentials, by name.
    pub async fn credentials(&self) -> Result<Vec<CredentialRecord>, StoreError> {
        todo!()
    }

    /// Replaces a credential's material if its generation is still the expected one.
    pub async fn replace_credential(&self, name: &CredentialName, with: &Replacement) -> Result<Swap, StoreError> {
        todo!("{name} {with:?}")
    }

    /// Removes a credential. Whether there was one.
    pub async fn remove_credential(&self, name: &CredentialName) -> Result<bool, StoreError> {
        todo!("{name}")
    }

    /// Where a node's audit chain stands.
    pub async fn audit_head(&self, node: &str) -> Result<Option<AuditHead>, StoreError> {
        todo!("{node}")
    }

    /// Keeps where a node's audit chain stands.
    pub async fn set_audit_head(&self, node: &str, head: &AuditHead) -> Result<(), StoreError> {
        todo!("{node} {head:?}")
    }
}
