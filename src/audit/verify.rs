//! Is the record whole? (R171)
//!
//! A chain alone can't see its own end: whoever drops the last lines leaves a valid chain. So the head
//! (number and hash of the last entry) is kept in the store as well, and can be exported.

use std::path::Path;

use super::chain::{self, GENESIS, Link};
use super::files::{self, LogFile};
use super::{AuditError, chain::Line};
use crate::store::AuditHead;

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Verification {
    /// Entries that were read.
    pub entries: u64,
    /// Files that were read.
    pub files: u64,
    /// The last good entry.
    pub head: Option<AuditHead>,
    /// What is wrong, in order. Empty: the record is whole.
    pub findings: Vec<Finding>,
}

impl Verification {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }
}

/// One thing wrong.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Finding {
    /// The file's name; empty for the record as a whole.
    pub file: String,
    /// 1-based.
    pub line: Option<u64>,
    /// In words.
    pub what: String,
}

/// Findings beyond this many are counted and not listed.
const MAX_FINDINGS: usize = 1000;

/// Reads the whole record and compares it with the head that was kept elsewhere. Beside a writer that
/// goes on, read the head before calling this.
pub fn verify(dir: &Path, head: Option<&AuditHead>) -> Result<Verification, AuditError> {
    let mut attempts = 3;
    loop {
        let mut walk = Walk::new(Link::START, head.and_then(Link::of));
        for file in files::list(dir)? {
            walk.file(&file)?;
        }
        attempts -= 1;
        // The end of a write that is going on looks like a cut line: look again.
        if walk.torn.is_none() || attempts == 0 {
            return Ok(walk.finish());
        }
        std::thread::yield_now();
    }
}

/// Reads only from the file that holds the entry `head`, as at every start: the files before were
/// compared when they were the last, and `verify` reads them again.
pub(super) fn verify_end(dir: &Path, head: Option<&AuditHead>) -> Result<End, AuditError> {
    let files = files::list(dir)?;
    let head = head.and_then(Link::of);
    let seq = head.map_or(0, |link| link.seq);
    let from = files.iter().rposition(|file| file.first <= seq.max(1)).unwrap_or(0);
    let mut walk = Walk::new(Link::START, head);
    // Older files may have been moved away: that is for `verify` to say, and stops no start.
    walk.begins_late = from > 0 || files.first().is_some_and(|file| file.first > 1);
    for file in files.get(from..).unwrap_or(&[]) {
        walk.file(file)?;
    }
    let torn = walk.torn.take();
    let link = walk.last;
    Ok(End { verification: walk.finish(), last: files.last().cloned(), link, torn })
}

/// Where a record ends.
pub(super) struct End {
    pub(super) verification: Verification,
    /// The last file.
    pub(super) last: Option<LogFile>,
    /// The last whole entry.
    pub(super) link: Link,
    /// A last line without a newline, cut by a crash in the middle of a write: where it begins, and its
    /// length.
    pub(super) torn: Option<(u64, u64)>,
}

struct Walk {
    result: Verification,
    last: Link,
    head: Option<Link>,
    head_seen: bool,
    /// The first line may have any number: earlier files are not read.
    begins_late: bool,
    torn: Option<(u64, u64)>,
    unlisted: u64,
}

impl Walk {
    fn new(start: Link, head: Option<Link>) -> Walk {
        Walk {
            result: Verification::default(),
            last: start,
            head,
            head_seen: false,
            begins_late: false,
            torn: None,
            unlisted: 0,
        }
    }

    fn found(&mut self, file: &str, line: Option<u64>, what: String) {
        if self.result.findings.len() < MAX_FINDINGS {
            self.result.findings.push(Finding { file: file.to_owned(), line, what });
        } else {
            self.unlisted += 1;
        }
    }

    fn file(&mut self, file: &LogFile) -> Result<(), AuditError> {
        let name = file.name();
        self.result.files += 1;
        if let Some((_, length)) = self.torn.take() {
            self.found(&name, None, format!("the file before ends in the middle of a line ({length} bytes)"));
        }
        let (mut number, mut offset) = (0u64, 0u64);
        files::each_line(&file.path, |line, whole| {
            number += 1;
            if whole {
                self.line(&name, number, line, file.first);
            } else {
                self.torn = Some((offset, line.len() as u64));
            }
            offset += line.len() as u64 + 1;
            Ok(())
        })
    }

    fn line(&mut self, file: &str, number: u64, line: &[u8], first: u64) {
        let Some(line) = chain::parse(line) else {
            return self.found(file, Some(number), "the line is not an entry of this record".into());
        };
        self.result.entries += 1;
        let seq = line.link.seq;
        if !line.intact {
            self.found(file, Some(number), format!("entry {seq} was changed: its hash does not fit"));
        }
        if number == 1 && seq != first {
            self.found(
                file,
                Some(1),
                format!("the file begins with entry {seq} and not with {first}, as its name says"),
            );
        }
        self.order(file, number, &line);
        if self.head.is_some_and(|head| head.seq == seq) {
            self.head_seen = true;
            if self.head.is_some_and(|head| head.hash != line.link.hash) {
                self.found(file, Some(number), format!("entry {seq} is not the one whose hash was kept as the head"));
            }
        }
        // After a gap or a swap, what follows is compared with what is there.
        self.last = line.link;
    }

    fn order(&mut self, file: &str, number: u64, line: &Line) {
        if std::mem::take(&mut self.begins_late) {
            return;
        }
        let (seq, expected) = (line.link.seq, self.last.seq + 1);
        let what = if seq > expected {
            match seq - expected {
                1 => format!("entry {expected} is missing"),
                _ => format!("entries {expected} to {} are missing", seq - 1),
            }
        } else if seq < expected {
            format!("entry {seq} stands behind entry {}", self.last.seq)
        } else if line.prev != self.last.hash {
            match self.last.hash == GENESIS {
                true => format!("entry {seq} is not a first entry"),
                false => format!("entry {seq} does not follow the entry {} that is there", self.last.seq),
            }
        } else {
            return;
        };
        self.found(file, Some(number), what);
    }

    fn finish(mut self) -> Verification {
        if let Some((_, length)) = self.torn {
            self.found("", None, format!("the record ends in the middle of a line ({length} bytes)"));
        }
        if let Some(head) = self.head.filter(|_| !self.head_seen) {
            let what = match (self.last.seq, head.seq) {
                (0, last) => format!("all entries are missing: {last} had been written"),
                (is, last) if is < last => {
                    format!(
                        "the last {} entries are missing: the record ends with {is}, and {last} had been written",
                        last - is
                    )
                }
                (_, last) => format!("entry {last}, whose hash was kept as the head, is missing"),
            };
            self.found("", None, what);
        }
        if self.unlisted > 0 {
            let what = format!("and {} more findings", self.unlisted);
            self.result.findings.push(Finding { file: String::new(), line: None, what });
        }
        self.result.head = self.last.head();
        self.result
    }
}
