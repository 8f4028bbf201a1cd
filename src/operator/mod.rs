//! The one door through which state changes (DESIGN §15).
//!
//! kleisd opens it and serves it on `control.sock`; when no daemon runs, the CLI opens it in its own
//! process. Either holds the data directory's lock, so there is one audit writer and one owner of the
//! revocations in memory.

mod command;

use std::path::Path;
use std::sync::Arc;

pub use command::{
    Command, Confidential, CredentialAdd, CredentialView, Reply, Revoke, TokenMade, TokenMint, TokenView,
};

use crate::audit::{Audit, AuditError, AuditOptions};
use crate::store::{DataDirError, Revocations, Store, StoreError};
use crate::token::{MintError, RootKeys, SourceError};

/// Why it was not done. Safe to show to the operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The data directory.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The record.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The token.
    #[error(transparent)]
    Mint(#[from] MintError),
    /// Datalog on the command line.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// What was asked for isn't there.
    #[error("{0}")]
    Missing(String),
}

/// The one door. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Operator {}

impl Operator {
    /// Takes the data directory's lock, makes what is missing (keys, database), opens the rest.
    pub async fn open(data: &Path, audit: AuditOptions) -> Result<Operator, OperatorError> {
        todo!("{} {audit:?}", data.display())
    }

    /// Does it, and records it. `by` is who asked: `uid:1000`, `kleisd`.
    pub async fn execute(&self, by: &str, command: Command) -> Result<Reply, OperatorError> {
        todo!("{by} {command:?}")
    }

    /// The store.
    pub fn store(&self) -> &Store {
        todo!()
    }

    /// The record.
    pub fn audit(&self) -> &Audit {
        todo!()
    }

    /// The root keys.
    pub fn root_keys(&self) -> &Arc<RootKeys> {
        todo!()
    }

    /// The revoked ids.
    pub fn revocations(&self) -> &Revocations {
        todo!()
    }

    /// Writes out what is pending and closes.
    pub async fn close(&self) -> Result<(), OperatorError> {
        todo!()
    }
}
