//! Why something was not done.

use std::path::PathBuf;

use crate::audit::AuditError;
use crate::credential::{KeyFileError, SealError};
use crate::store::{DataDirError, StoreError};
use crate::token::{MintError, RootKeysError, SourceError};

/// Why it was not done. Safe to show to the operator: none of it holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The data directory.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// A key's file.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// The root keys.
    #[error("`{}` holds no root key: {error}; restore it from a backup, or move it away for a new one: every token ends then", path.display())]
    RootKeys {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: RootKeysError,
    },
    /// The seal.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The record.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// It was done and could not be recorded.
    #[error("it was done, but could not be recorded: {0}")]
    Unrecorded(AuditError),
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
    /// The runtime is going down.
    #[error("kleis is shutting down")]
    Closing,
}

impl OperatorError {
    /// A stable code, for JSON and exit codes.
    pub fn code(&self) -> &'static str {
        match self {
            OperatorError::DataDir(DataDirError::Locked { .. }) => "locked",
            OperatorError::Store(StoreError::Exists { .. }) => "exists",
            OperatorError::Mint(MintError::Library(_)) => "internal",
            OperatorError::Mint(_) | OperatorError::Source(_) | OperatorError::Invalid(_) => "invalid",
            OperatorError::Missing(_) => "missing",
            OperatorError::Closing => "shutting_down",
            OperatorError::Unrecorded(_) | OperatorError::Audit(_) => "audit_unavailable",
            OperatorError::DataDir(_)
            | OperatorError::KeyFile(_)
            | OperatorError::RootKeys { .. }
            | OperatorError::Seal(_)
            | OperatorError::Store(_) => "internal",
        }
    }
}
