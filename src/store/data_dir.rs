//! The data directory: private, and used by one process at a time.

use std::path::{Path, PathBuf};

/// Why the data directory can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataDirError {
    /// Somebody else has it.
    #[error("another kleis uses `{}`: stop it first, or give this one a home of its own (`KLEIS_HOME`)", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// Others may read or write what is in it.
    #[error("`{}` is open to others (mode {mode:04o}): run `chmod {accepted} {}`", path.display(), path.display())]
    Mode {
        /// The directory or file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What would be accepted.
        accepted: &'static str,
    },
    /// Somebody else owns it.
    #[error("`{}` belongs to another user (uid {uid}): kleis must run as its owner", path.display())]
    Owner {
        /// The directory or file.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
    },
    /// The system refused.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// A data directory that this process has for itself until it drops this.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: std::fs::File,
}

impl DataDir {
    /// Makes the directory if there is none (0700), checks the modes of what is in it, takes its lock.
    pub fn lock(path: &Path) -> Result<DataDir, DataDirError> {
        todo!("{}", path.display())
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `kleis.db`
    pub fn database(&self) -> PathBuf {
        self.path.join("kleis.db")
    }

    /// `root.key`
    pub fn root_key(&self) -> PathBuf {
        self.path.join("root.key")
    }

    /// `seal.key`
    pub fn seal_key(&self) -> PathBuf {
        self.path.join("seal.key")
    }

    /// `audit/`
    pub fn audit(&self) -> PathBuf {
        self.path.join("audit")
    }
}
