//! The data directory: private, and used by one process at a time.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Why the data directory can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataDirError {
    /// Somebody else has it.
    #[error(
        "another kleis{} uses `{}`: stop it first, or give this one a home of its own (`KLEIS_HOME`)",
        pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), path.display()
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// Who has it, if it said so.
        pid: Option<u32>,
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
    #[error("`{}` belongs to another user (uid {uid}): run kleis as its owner, or give it to this user with `chown`", path.display())]
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
        source: io::Error,
    },
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    let path = path.to_owned();
    move |source| DataDirError::Io { action, path, source }
}

/// A data directory that this process has for itself until it drops this.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// `flock`: the kernel lets go of it however the process ends.
    _lock: File,
}

impl DataDir {
    /// Makes the directory if there is none (0700), checks the modes of what is in it, takes its lock.
    pub fn lock(path: &Path) -> Result<DataDir, DataDirError> {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("make", path))?;
        DataDir::check(path)?;
        let lock_path = path.join("lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(failed("open", &lock_path))?;
        if let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            if error == rustix::io::Errno::WOULDBLOCK {
                return Err(DataDirError::Locked { path: path.to_owned(), pid: holder(&mut lock) });
            }
            return Err(failed("lock", &lock_path)(error.into()));
        }
        // For the message that a second one prints; the lock itself is the kernel's.
        let said = lock.set_len(0).and_then(|()| lock.write_all(std::process::id().to_string().as_bytes()));
        said.map_err(failed("write", &lock_path))?;
        Ok(DataDir { path: path.to_owned(), _lock: lock })
    }

    /// Refuses a directory, or a file in it, that others may read or write, or that isn't ours.
    pub fn check(path: &Path) -> Result<(), DataDirError> {
        check_one(path, "700")?;
        for entry in fs::read_dir(path).map_err(failed("list", path))? {
            let entry = entry.map_err(failed("list", path))?.path();
            let kind = fs::symlink_metadata(&entry).map_err(failed("look at", &entry))?.file_type();
            // A link leads to a mounted key, which whoever opens it looks at; a left-over socket leads
            // nowhere; the CA's certificate is for everybody.
            if kind.is_symlink() || kind.is_socket() || entry.file_name().is_some_and(|name| name == "ca.pem") {
                continue;
            }
            if kind.is_dir() {
                check_one(&entry, "700")?;
            } else {
                check_one(&entry, "600")?;
            }
        }
        Ok(())
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

fn check_one(path: &Path, accepted: &'static str) -> Result<(), DataDirError> {
    let meta = match fs::symlink_metadata(path) {
        // Somebody's temporary file that is gone already.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // The directory itself may be reached by a link.
        Ok(meta) if meta.file_type().is_symlink() => fs::metadata(path).map_err(failed("look at", path))?,
        other => other.map_err(failed("look at", path))?,
    };
    let mode = meta.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(DataDirError::Mode { path: path.to_owned(), mode, accepted });
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(DataDirError::Owner { path: path.to_owned(), uid: meta.uid() });
    }
    Ok(())
}

fn holder(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
