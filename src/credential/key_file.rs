//! Files that hold a key: private, made once, never overwritten.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// What is wrong with a key file.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The system refused.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Others than its owner may read or write it.
    #[error("`{}` can be read by others (mode {mode:04o}): run `chmod 600 {}`", path.display(), path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Larger than any key.
    #[error("`{}` is too large for a key file: at most {KEY_FILE_LIMIT} bytes are accepted", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

/// No key or chain of certificates is larger.
const KEY_FILE_LIMIT: u64 = 1 << 20;

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> KeyFileError {
    let path = path.to_owned();
    move |source| KeyFileError::Io { action, path, source }
}

/// Reads a key, `None` if there is no such file. Refuses one that group or others may touch.
pub fn read_key(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, KeyFileError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("open", path)(error)),
    };
    let meta = file.metadata().map_err(io("look at", path))?;
    let mode = meta.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Open { path: path.to_owned(), mode });
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(4096));
    file.take(KEY_FILE_LIMIT + 1).read_to_end(&mut bytes).map_err(io("read", path))?;
    if bytes.len() as u64 > KEY_FILE_LIMIT {
        return Err(KeyFileError::TooLarge { path: path.to_owned() });
    }
    Ok(Some(bytes))
}

/// Writes a new file, mode 0600, on disk before it returns. Returns whether it was made: `false` when
/// the file exists, because somebody else was first; theirs stays.
///
/// The content is complete under its name or not there at all: it is written beside and linked.
pub fn make_key(path: &Path, content: &[u8]) -> Result<bool, KeyFileError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{:016x}.new", rand::random::<u64>()));
    let beside = PathBuf::from(beside);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).map_err(io("create", &beside))?;
    let written = file
        .write_all(content)
        .and_then(|()| file.sync_all())
        .and_then(|()| match fs::hard_link(&beside, path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        })
        .map_err(io("write", path));
    // The link is what counts; a left-over would only be clutter.
    let _ = fs::remove_file(&beside);
    let made = written?;
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|dir| dir.sync_all()).map_err(io("sync", parent))?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_privately() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.key");
        assert!(read_key(&path).unwrap().is_none());
        assert!(make_key(&path, b"first").unwrap());
        assert!(!make_key(&path, b"second").unwrap());
        assert_eq!(read_key(&path).unwrap().unwrap().as_slice(), b"first");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_key_that_others_can_read_is_refused_with_the_mend() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.key");
        make_key(&path, b"k").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = read_key(&path).unwrap_err().to_string();
        assert!(error.contains("0640") && error.contains("chmod 600"), "{error}");
    }
}
