//! What goes wrong in the record, with the mend.

use std::path::PathBuf;

use super::Verification;

/// Why the record could not be written or read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The system refused.
    #[error("cannot {action} `{}`: {why}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        why: String,
    },
    /// What is there isn't what was written.
    #[error(
        "the audit record was cut or changed since the last run: {}; keep a copy of the directory, see `kleis audit verify`, \
         then start kleisd once with `--accept-audit-break` to go on with the break recorded",
        first(.0)
    )]
    Broken(Box<Verification>),
    /// Too much is waiting to be written.
    #[error("the audit can't keep up: {0} entries are waiting")]
    Overloaded(usize),
    /// The store.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// The last sync failed.
    #[error("the audit can't be synced to disk: see the log for the system's answer")]
    Unsynced,
    /// No thread.
    #[error("the audit's thread can't be started: {0}")]
    Thread(String),
    /// The writer is gone.
    #[error("the audit is closed")]
    Closed,
}

fn first(verification: &Verification) -> String {
    verification.findings.first().map_or_else(String::new, |finding| finding.what.clone())
}
