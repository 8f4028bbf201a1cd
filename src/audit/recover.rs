//! What a start finds, and how the record goes on (R171).

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use super::chain::Link;
use super::files::{self, LogFile, io_error};
use super::verify::{End, verify_end};
use super::writer::Current;
use super::{AuditError, AuditOptions, OnFailure};
use crate::store::AuditHead;

/// How the record goes on.
pub(super) struct Found {
    pub(super) link: Link,
    pub(super) current: Option<Current>,
    pub(super) alarms: Vec<Alarm>,
}

/// Something that must be recorded first.
pub(super) struct Alarm {
    pub(super) operation: &'static str,
    pub(super) detail: Vec<(&'static str, String)>,
}

/// Compares the end of the record with the head in the store.
///
/// A last line that a crash cut in two is taken away, with an alarm: nobody was told that it had been
/// synced. Anything else that is wrong stops here, unless it is accepted: then the chain goes on from
/// the head, so that what is missing stays visible as a gap.
pub(super) fn recover(dir: &Path, head: Option<&AuditHead>, options: &AuditOptions) -> Result<Found, AuditError> {
    files::make_dir(dir)?;
    remove_empty(dir)?;
    let mut end = verify_end(dir, head)?;
    let mut alarms = Vec::new();
    if !end.verification.is_whole() {
        if !options.accept_break && options.on_failure == OnFailure::Refuse {
            return Err(AuditError::Broken(Box::new(end.verification)));
        }
        alarms.push(broken(&end, head));
        let kept = head.and_then(Link::of).unwrap_or(Link::START);
        let link = if end.link.seq > kept.seq { end.link } else { kept };
        return Ok(Found { link, current: None, alarms });
    }
    if let (Some((at, length)), Some(last)) = (end.torn, &end.last) {
        take_away(last, at)?;
        let detail = vec![("file", last.name()), ("removed_bytes", length.to_string())];
        alarms.push(Alarm { operation: "audit.torn", detail });
    }
    if head.is_none() && end.link.seq > 0 {
        let detail = vec![("found", end.link.seq.to_string())];
        alarms.push(Alarm { operation: "audit.no_head", detail });
    }
    let current = end.last.take().map(|file| reopen(&file)).transpose()?;
    Ok(Found { link: end.link, current, alarms })
}

/// A file that was made and never written to: its name would be wrong later.
fn remove_empty(dir: &Path) -> Result<(), AuditError> {
    for file in files::list(dir)? {
        let meta = std::fs::symlink_metadata(&file.path).map_err(io_error("look at", &file.path))?;
        if meta.is_file() && meta.len() == 0 {
            std::fs::remove_file(&file.path).map_err(io_error("remove", &file.path))?;
        }
    }
    Ok(())
}

fn take_away(file: &LogFile, from: u64) -> Result<(), AuditError> {
    let open = OpenOptions::new().write(true).open(&file.path).map_err(io_error("open", &file.path))?;
    open.set_len(from).and_then(|()| open.sync_all()).map_err(io_error("mend", &file.path))
}

fn broken(end: &End, head: Option<&AuditHead>) -> Alarm {
    let mut detail = vec![("found", end.link.seq.to_string())];
    if let Some(head) = head {
        detail.push(("expected", head.seq.to_string()));
        detail.push(("expected_hash", head.hash.clone()));
    }
    let whats: Vec<&str> = end.verification.findings.iter().take(8).map(|finding| finding.what.as_str()).collect();
    detail.push(("findings", whats.join("; ")));
    Alarm { operation: "audit.break", detail }
}

fn reopen(file: &LogFile) -> Result<Current, AuditError> {
    let open = files::append_to(&file.path)?;
    let length = open.metadata().map_err(io_error("look at", &file.path))?.len();
    // The day stands in the name; a file that somebody renamed is simply left at the next entry.
    let name = file.name();
    let day = name.split_once('-').and_then(|(_, rest)| rest.strip_suffix(".jsonl")).unwrap_or_default().to_owned();
    Ok(Current { file: Arc::new(open), path: file.path.clone(), length, day })
}
