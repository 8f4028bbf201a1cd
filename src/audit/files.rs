//! The files of the record: `000000000001-2026-11-30.jsonl`, named by their first entry and its day.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::AuditError;

const SUFFIX: &str = ".jsonl";

/// A file of the record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogFile {
    /// The number of its first entry, by its name.
    pub(super) first: u64,
    pub(super) path: PathBuf,
}

impl LogFile {
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or(OsStr::new("?")).to_string_lossy().into_owned()
    }
}

pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> AuditError {
    let path = path.to_owned();
    move |error| AuditError::Io { action, path, why: error.to_string() }
}

/// Makes the directory, 0700, if there is none.
pub(super) fn make_dir(dir: &Path) -> Result<(), AuditError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io_error("make", dir))
}

/// The files in order. A directory that isn't there has none.
pub(super) fn list(dir: &Path) -> Result<Vec<LogFile>, AuditError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(io_error("list", dir))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(io_error("list", dir))?.path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let first = name.strip_suffix(SUFFIX).and_then(|stem| stem.split_once('-')).map(|(first, _)| first.parse());
        if let Some(Ok(first)) = first {
            files.push(LogFile { first, path });
        }
    }
    files.sort();
    Ok(files)
}

/// Makes a new file, 0600. Never an existing one, and never through a link.
pub(super) fn create(dir: &Path, first: u64, day: &str) -> Result<(File, PathBuf), AuditError> {
    let path = dir.join(format!("{first:012}-{day}{SUFFIX}"));
    let file =
        OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path).map_err(io_error("make", &path))?;
    // The name too must survive a crash.
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error("sync", dir))?;
    Ok((file, path))
}

/// Opens an existing file to append. Never through a link.
pub(super) fn append_to(path: &Path) -> Result<File, AuditError> {
    let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    OpenOptions::new().append(true).custom_flags(no_follow).open(path).map_err(io_error("open", path))
}

/// Calls back with each line, without its newline, and whether it had one.
pub(super) fn each_line(
    path: &Path,
    mut line: impl FnMut(&[u8], bool) -> Result<(), AuditError>,
) -> Result<(), AuditError> {
    let file = File::open(path).map_err(io_error("open", path))?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        if reader.read_until(b'\n', &mut buffer).map_err(io_error("read", path))? == 0 {
            return Ok(());
        }
        match buffer.strip_suffix(b"\n") {
            Some(whole) => line(whole, true)?,
            None => line(&buffer, false)?,
        }
    }
}
