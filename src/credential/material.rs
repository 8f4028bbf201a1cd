//! Where a secret comes from before any provider has made something of it.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::live::Failure;
use crate::words::Secret;

/// No secret is larger.
pub(super) const SECRET_LIMIT: usize = 64 * 1024;
/// A file that changed this recently may still be being written: until it has settled, the value before
/// it is used. New content is in force this long after the last write.
const SETTLE: Duration = Duration::from_millis(250);
/// How long the value before is used when the file is gone or empty: longer than any way of replacing a
/// file in two steps, shorter than an operator who removes it would wait.
const GRACE: Duration = Duration::from_secs(5);

/// A secret with the generation of what it was read from.
#[derive(Clone)]
pub(super) struct Material {
    pub(super) secret: Secret,
    pub(super) generation: u64,
    /// Unique in this process: another number is another content.
    pub(super) serial: u64,
}

/// Numbers for contents and live secrets, never used twice.
pub(super) fn next_serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A file that is looked at whenever its secret is spent (R146).
pub(super) struct SecretFile {
    path: PathBuf,
    generations: Arc<AtomicU64>,
    held: Mutex<Option<Held>>,
}

struct Held {
    stamp: Stamp,
    /// Whether the file had been left alone for a while when it was read: only then does an unchanged
    /// stamp mean unchanged content (two writes within a tick of the clock have one stamp).
    settled: bool,
    missing_since: Option<SystemTime>,
    material: Material,
}

/// Which content this is, as far as the file system tells.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: SystemTime,
}

impl Stamp {
    /// By the time of the inode's change, which unlike the modification time nobody can set: renaming a
    /// file, writing into it and restoring an old date all move it.
    fn of(meta: &Metadata) -> Stamp {
        let seconds = Duration::from_secs(meta.ctime().max(0) as u64);
        let changed = UNIX_EPOCH + seconds + Duration::from_nanos(meta.ctime_nsec().max(0) as u64);
        Stamp { device: meta.dev(), inode: meta.ino(), size: meta.size(), changed }
    }

    fn is_settled(&self, now: SystemTime) -> bool {
        // A time in the future comes from a clock that was set back: nothing to wait for.
        now.duration_since(self.changed).map_or(true, |age| age >= SETTLE)
    }
}

impl SecretFile {
    pub(super) fn new(path: PathBuf, generations: Arc<AtomicU64>) -> SecretFile {
        SecretFile { path, generations, held: Mutex::new(None) }
    }

    /// The current content. Never empty, never half of one and half of another: while a file is being
    /// written or replaced, the value before it is given.
    pub(super) fn read(&self) -> Result<Material, Failure> {
        self.read_at(SystemTime::now())
    }

    fn read_at(&self, now: SystemTime) -> Result<Material, Failure> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = match std::fs::metadata(&self.path) {
            Ok(meta) if meta.len() > 0 => Stamp::of(&meta),
            Ok(_) => return self.bridge(&mut held, now, "is empty"),
            Err(error) => return self.bridge(&mut held, now, &format!("cannot be read: {error}")),
        };
        if let Some(held) = held.as_mut() {
            held.missing_since = None;
            let unchanged = held.stamp == stamp;
            if (unchanged && held.settled) || (!unchanged && !stamp.is_settled(now)) {
                return Ok(held.material.clone());
            }
        }
        let Some((stamp, secret)) = read_whole(&self.path).map_err(|why| self.failure(&why))? else {
            return self.bridge(&mut held, now, "changes while it is read");
        };
        let settled = stamp.is_settled(now);
        let material = match held.take() {
            Some(held) if held.material.secret == secret => held.material,
            _ => {
                let generation = self.generations.fetch_add(1, Ordering::Relaxed) + 1;
                Material { secret, generation, serial: next_serial() }
            }
        };
        *held = Some(Held { stamp, settled, missing_since: None, material: material.clone() });
        Ok(material)
    }

    /// Goes on with the value before for a little while.
    fn bridge(&self, held: &mut Option<Held>, now: SystemTime, why: &str) -> Result<Material, Failure> {
        if let Some(held) = held.as_mut() {
            let since = *held.missing_since.get_or_insert(now);
            if now.duration_since(since).unwrap_or_default() < GRACE {
                return Ok(held.material.clone());
            }
        }
        *held = None;
        Err(self.failure(why))
    }

    fn failure(&self, why: &str) -> Failure {
        Failure::Material(format!("secret_file `{}` {why}", self.path.display()))
    }
}

/// Reads a file whose stamp is the same before and after; `None` if it kept changing.
fn read_whole(path: &Path) -> Result<Option<(Stamp, Secret)>, String> {
    for _ in 0..3 {
        let wrong = |error: std::io::Error| format!("cannot be read: {error}");
        let mut file = File::open(path).map_err(wrong)?;
        let before = Stamp::of(&file.metadata().map_err(wrong)?);
        let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(4096));
        Read::by_ref(&mut file).take(SECRET_LIMIT as u64 + 1).read_to_end(&mut bytes).map_err(wrong)?;
        if bytes.len() > SECRET_LIMIT {
            return Err(format!("is larger than {SECRET_LIMIT} bytes"));
        }
        let after = Stamp::of(&file.metadata().map_err(wrong)?);
        if before == after && after.size == bytes.len() as u64 && !bytes.is_empty() {
            return Ok(Some((after, Secret::new(bytes.as_slice()))));
        }
    }
    Ok(None)
}

/// A secret as it can be sent: one newline at the end is how editors end files and is taken off; whatever
/// else would break a header or be a paste gone wrong is an error (R59). The text never quotes it.
pub(super) fn sendable(secret: &Secret) -> Result<Secret, Failure> {
    let bytes = secret.expose();
    let trimmed = bytes.strip_suffix(b"\n").map_or(bytes, |rest| rest.strip_suffix(b"\r").unwrap_or(rest));
    let wrong = |why: &str| Err(Failure::Material(format!("the secret {why}")));
    if trimmed.is_empty() {
        return wrong("is empty");
    }
    if trimmed.len() > SECRET_LIMIT {
        return wrong("is larger than 64 KiB");
    }
    if trimmed.iter().any(|b| b.is_ascii_control()) {
        return wrong("has a control character in it: one newline at its end is taken off, nothing else may be there");
    }
    if trimmed.first() == Some(&b' ') || trimmed.last() == Some(&b' ') {
        return wrong("begins or ends with a space");
    }
    Ok(if trimmed.len() == bytes.len() { secret.clone() } else { Secret::new(trimmed) })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(dir: &Path, content: &str) -> SecretFile {
        fs::write(dir.join("secret"), content).unwrap();
        SecretFile::new(dir.join("secret"), Arc::default())
    }

    fn text(file: &SecretFile, after: Duration) -> String {
        let material = file.read_at(SystemTime::now() + after).unwrap();
        material.secret.expose_str().unwrap().to_owned()
    }

    #[test]
    fn r59_one_trailing_newline_is_taken_off_and_nothing_else_is_repaired() {
        for (given, sent) in [("tok", "tok"), ("tok\n", "tok"), ("tok\r\n", "tok"), ("t k", "t k"), ("tök", "tök")] {
            assert_eq!(sendable(&Secret::new(given)).unwrap(), Secret::new(sent), "{given:?}");
        }
        let largest = "x".repeat(SECRET_LIMIT);
        assert!(sendable(&Secret::new(largest.as_str())).is_ok());
        for wrong in
            ["", "\n", "\r\n", "tok\n\n", "tok\r\nX-Evil: 1", "a\0b", "tok\r", "\ttok", " tok", "tok ", "a\x7f"]
        {
            let error = sendable(&Secret::new(wrong)).unwrap_err().to_string();
            assert!(error.starts_with("the secret ") && !error.contains("tok"), "{error}");
        }
        assert!(sendable(&Secret::new(largest + "x")).is_err());
    }

    #[test]
    fn r146_a_renamed_file_a_swapped_link_and_a_write_in_place_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        for (name, content) in [("one", "first"), ("two", "second"), ("three", "third")] {
            fs::write(dir.path().join(name), content).unwrap();
        }
        std::os::unix::fs::symlink("one", &path).unwrap();
        let watched = SecretFile::new(path.clone(), Arc::default());
        let later = Duration::from_secs(1);
        assert_eq!(text(&watched, later), "first");
        std::os::unix::fs::symlink("two", dir.path().join("next")).unwrap();
        fs::rename(dir.path().join("next"), &path).unwrap();
        assert_eq!(text(&watched, later), "second", "as Kubernetes swaps them");
        fs::rename(dir.path().join("three"), &path).unwrap();
        assert_eq!(text(&watched, later), "third");
        fs::write(&path, "fourth").unwrap();
        assert_eq!(text(&watched, later), "fourth");
        fs::write(&path, "fourt2").unwrap();
        assert_eq!(text(&watched, later), "fourt2", "the same size, perhaps in the same tick");
    }

    #[test]
    fn r146_while_a_file_is_written_the_value_before_is_given_and_never_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let watched = file(dir.path(), "first");
        let path = dir.path().join("secret");
        assert_eq!(text(&watched, Duration::ZERO), "first", "a new file is not waited for");
        fs::write(&path, "sec").unwrap();
        assert_eq!(text(&watched, Duration::ZERO), "first");
        fs::write(&path, "").unwrap();
        assert_eq!(text(&watched, Duration::from_secs(1)), "first");
        fs::remove_file(&path).unwrap();
        assert_eq!(text(&watched, Duration::from_secs(2)), "first");
        fs::write(&path, "second").unwrap();
        assert_eq!(text(&watched, Duration::from_secs(3)), "second");
        fs::remove_file(&path).unwrap();
        assert_eq!(text(&watched, Duration::from_secs(4)), "second");
        let gone = watched.read_at(SystemTime::now() + Duration::from_secs(10));
        assert!(matches!(gone, Err(Failure::Material(why)) if why.contains("cannot be read")));
    }

    #[test]
    fn the_generation_counts_contents() {
        let dir = tempfile::tempdir().unwrap();
        let watched = file(dir.path(), "first");
        let at = |after: u64| watched.read_at(SystemTime::now() + Duration::from_secs(after)).unwrap();
        let first = at(1);
        assert_eq!((first.generation, at(2).generation), (1, 1));
        fs::write(dir.path().join("secret"), "first").unwrap();
        assert_eq!((at(3).generation, at(3).serial), (1, first.serial), "rewritten with the same content");
        fs::write(dir.path().join("secret"), "second").unwrap();
        assert_eq!(at(4).generation, 2);
        assert_ne!(at(4).serial, first.serial);
    }

    #[test]
    fn a_file_that_cannot_be_a_secret_is_told_without_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let large = file(dir.path(), &"x".repeat(SECRET_LIMIT + 1));
        assert!(large.read().is_err_and(|error| error.to_string().contains("larger than 65536 bytes")));
        let none = SecretFile::new(dir.path().join("none"), Arc::default());
        assert!(none.read().is_err_and(|error| error.to_string().contains("`") && error.to_string().contains("none")));
    }
}
