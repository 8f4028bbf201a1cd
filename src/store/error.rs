//! What goes wrong in the store, with the mend.

use std::path::PathBuf;

/// Why the store could not do it. No message holds a stored value.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file is no database any more.
    #[error(
        "the database `{}` is damaged ({what}): stop kleisd, keep a copy, and restore `kleis.db` from a backup; \
         without one, move it away: credentials must then be added again, and every token revoked so far is \
         valid again unless you also make a new root key (move `root.key` away)", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the engine said.
        what: String,
    },
    /// Made by a newer kleis.
    #[error("the database `{}` was written by a newer kleis (schema {found}, this one knows {known}): upgrade kleis", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The system refused.
    #[error("cannot {action} `{}`: {why}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        why: String,
    },
    /// The name is taken.
    #[error("{what} `{name}` exists already")]
    Exists {
        /// The kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The engine failed.
    #[error("the store failed: {0}")]
    Engine(String),
    /// A row that no kleis could have written.
    #[error("the store holds a {0} that cannot be read: it was changed by something else than kleis")]
    Row(&'static str),
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}
