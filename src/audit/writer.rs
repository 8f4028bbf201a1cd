//! The one writer.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use time::OffsetDateTime;

use super::chain::Link;
use super::files::{self, io_error};
use super::queue::{KEPT, Pending, Queue};
use super::sync::Syncer;
use super::{AuditError, OperatorEntry, Raw, encode};

/// The file that is written to.
pub(super) struct Current {
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
    /// Bytes of whole lines in it.
    pub(super) length: u64,
    /// `2026-11-30`
    pub(super) day: String,
}

/// Owned by the writing thread.
pub(super) struct Writer {
    pub(super) dir: PathBuf,
    pub(super) rotate_bytes: u64,
    pub(super) link: Link,
    pub(super) current: Option<Current>,
    /// Entries that could not be written since the last that could.
    pub(super) lost: u64,
    /// The last entry that was written, for whoever asks.
    pub(super) written: Arc<Mutex<Link>>,
    pub(super) syncer: Arc<Syncer>,
}

impl Writer {
    /// The thread: until the queue is closed and empty.
    pub(super) fn run(mut self, queue: &Queue) {
        let mut spare = Pending::default();
        let mut buffer = Vec::new();
        while let Some(mut pending) = queue.take(spare) {
            let outcome = self.write(&pending, &mut buffer);
            if let Err(error) = &outcome {
                metrics::counter!("kleis_audit_failures_total").increment(1);
                tracing::error!(%error, entries = pending.count(), "the audit could not be written");
            }
            let mut flushes = std::mem::take(&mut pending.flushes);
            pending.done(outcome);
            buffer.clear();
            buffer.shrink_to(KEPT);
            self.syncer.flush(&mut flushes);
            spare = pending;
        }
        self.syncer.close();
    }

    /// Writes all entries with one `write(2)`, or none of them.
    fn write(&mut self, pending: &Pending, buffer: &mut Vec<u8>) -> Result<(), AuditError> {
        self.lost += pending.dropped;
        if pending.count() == 0 && self.lost == 0 {
            return Ok(());
        }
        let outcome = self.try_write(pending, buffer);
        match outcome {
            Ok(()) => self.lost = 0,
            Err(_) => self.lost += pending.count(),
        }
        outcome
    }

    fn try_write(&mut self, pending: &Pending, buffer: &mut Vec<u8>) -> Result<(), AuditError> {
        let mut current = self.file_for_now()?;
        let mut link = self.link;
        buffer.clear();
        if self.lost > 0 {
            link.append(buffer, &gap(self.lost));
        }
        pending.entries().for_each(|fields| link.append(buffer, fields));
        if let Err(error) = (&*current.file).write_all(buffer) {
            // Half a line must not stay: the next entry would be glued to it. If it can't be taken away
            // (the file is gone, say), the next entry begins a new file.
            let error = io_error("write", &current.path)(error);
            if current.file.set_len(current.length).is_ok() {
                self.current = Some(current);
            }
            return Err(error);
        }
        current.length += buffer.len() as u64;
        self.link = link;
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = link;
        self.syncer.written(&current.file, &current.path, link);
        self.current = Some(current);
        Ok(())
    }

    /// The current file, or a new one when it is full or of another day.
    fn file_for_now(&mut self) -> Result<Current, AuditError> {
        let today = day(SystemTime::now());
        let fits =
            |current: &Current| current.length == 0 || (current.length < self.rotate_bytes && current.day == today);
        if let Some(current) = self.current.take().filter(fits) {
            return Ok(current);
        }
        let (file, path) = files::create(&self.dir, self.link.seq + 1, &today)?;
        Ok(Current { file: Arc::new(file), path, length: 0, day: today })
    }
}

/// UTC: `2026-11-30`.
pub(super) fn day(at: SystemTime) -> String {
    let at = OffsetDateTime::from(at);
    format!("{:04}-{:02}-{:02}", at.year(), u8::from(at.month()), at.day())
}

/// Says that entries are missing here because they could not be written.
fn gap(lost: u64) -> Vec<u8> {
    let mut fields = Vec::new();
    let count = lost.to_string();
    let detail = [("lost", Raw(count.as_bytes()))];
    let entry = OperatorEntry { operation: "audit.gap", by: "kleis", detail: &detail, error: None };
    encode::operator(&mut fields, &entry, SystemTime::now());
    fields
}
