//! The audit: what was decided and what came of it, hash-chained (DESIGN §16).
//!
//! One writer, a thread of its own; callers hand it finished JSON and wait until `write(2)` is done.
//! Whatever has piled up meanwhile is written at once, and synced within a second by another thread,
//! which then keeps the head of the chain in the store.

mod chain;
mod encode;
mod entry;
mod error;
mod files;
mod json;
mod queue;
mod read;
mod recover;
mod sync;
mod verify;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

pub use entry::{DecisionEntry, EndpointEntry, OperatorEntry, OutcomeEntry, Raw};
pub use error::AuditError;
pub use read::{after, show, tail};
pub use verify::{Finding, Verification, verify};

use crate::store::{AuditHead, Store};
use chain::Link;
use queue::{Queue, Written};
use sync::Syncer;
use writer::Writer;

/// What to do when the record can't be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// Refuse the request.
    #[default]
    Refuse,
    /// Let it through, log and count.
    Continue,
}

/// How to keep the record.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// What to do when it can't be written.
    pub on_failure: OnFailure,
    /// This node's name in the store.
    pub node: String,
    /// A new file begins when one has reached this size, and every day (UTC).
    pub rotate_bytes: u64,
    /// Go on although the record was cut or changed since the last run, with the break recorded.
    /// Otherwise opening fails and says what is wrong, unless `on_failure` is to continue.
    pub accept_break: bool,
}

impl Default for AuditOptions {
    fn default() -> Self {
        AuditOptions {
            on_failure: OnFailure::Refuse,
            node: "local".into(),
            rotate_bytes: 32 << 20,
            accept_break: false,
        }
    }
}

/// The record's writer. Cheap to clone; when the last clone is dropped, what was handed over is still
/// written.
#[derive(Clone)]
pub struct Audit(Arc<Inner>);

struct Inner {
    queue: Arc<Queue>,
    syncer: Arc<Syncer>,
    written: Arc<Mutex<Link>>,
    on_failure: OnFailure,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Audit {
    /// Opens the record, checks its end against the head in the store, and starts the writer.
    pub async fn open(dir: &Path, store: &Store, options: AuditOptions) -> Result<Audit, AuditError> {
        let head = store.audit_head(&options.node).await?;
        let found = {
            let (dir, options) = (dir.to_owned(), options.clone());
            tokio::task::spawn_blocking(move || recover::recover(&dir, head.as_ref(), &options))
        };
        let found = found.await.map_err(|_| AuditError::Closed)??;
        let (queue, syncer) = (Arc::new(Queue::default()), Arc::new(Syncer::default()));
        let written = Arc::new(Mutex::new(found.link));
        let writer = Writer {
            dir: dir.to_owned(),
            rotate_bytes: options.rotate_bytes,
            link: found.link,
            current: found.current,
            lost: 0,
            written: Arc::clone(&written),
            syncer: Arc::clone(&syncer),
        };
        start_threads(writer, &queue, &syncer, store.clone(), options.node)?;
        let audit = Audit(Arc::new(Inner { queue, syncer, written, on_failure: options.on_failure }));
        for alarm in &found.alarms {
            tracing::error!(operation = alarm.operation, detail = ?alarm.detail, "the audit record raises an alarm");
            let detail: Vec<_> = alarm.detail.iter().map(|(key, text)| (*key, Raw::from(text.as_str()))).collect();
            let entry = OperatorEntry { operation: alarm.operation, by: "kleis", detail: &detail, error: None };
            audit.operator(&entry).await?;
        }
        Ok(audit)
    }

    /// Records a decision. INVARIANT 12: wait for `Ok` before a secret is used.
    pub async fn decision(&self, entry: &DecisionEntry<'_>) -> Result<(), AuditError> {
        self.wait(self.0.queue.push(|out, now| encode::decision(out, entry, now))).await
    }

    /// Records what came of it. Never waits; callable from anywhere, `Drop` included. What can't be
    /// written is counted, and the count recorded when it can again.
    pub fn outcome(&self, entry: &OutcomeEntry<'_>) {
        if let Err(error) = self.0.queue.push(|out, now| encode::outcome(out, entry, now)) {
            tracing::error!(%error, "an outcome could not be recorded");
        }
    }

    /// Records a call of an endpoint.
    pub async fn endpoint(&self, entry: &EndpointEntry<'_>) -> Result<(), AuditError> {
        self.wait(self.0.queue.push(|out, now| encode::endpoint(out, entry, now))).await
    }

    /// Records a change by an operator.
    pub async fn operator(&self, entry: &OperatorEntry<'_>) -> Result<(), AuditError> {
        self.wait(self.0.queue.push(|out, now| encode::operator(out, entry, now))).await
    }

    /// The last entry written.
    pub fn head(&self) -> Option<AuditHead> {
        self.0.written.lock().unwrap_or_else(PoisonError::into_inner).head()
    }

    /// Waits until all that was handed over is on disk and the head is in the store.
    pub async fn flush(&self) -> Result<(), AuditError> {
        let (done, flushed) = oneshot::channel();
        self.0.queue.flush(done);
        flushed.await.map_err(|_| AuditError::Closed)?
    }

    /// Flushes, and takes no more entries.
    pub async fn close(&self) -> Result<(), AuditError> {
        let outcome = self.flush().await;
        self.0.queue.close();
        outcome
    }

    async fn wait(&self, written: Result<Written, AuditError>) -> Result<(), AuditError> {
        let outcome = match written {
            Ok(written) => written.await,
            Err(error) => Err(error),
        };
        let outcome = outcome.and_then(|()| match self.0.syncer.is_failing() {
            true => Err(AuditError::Unsynced),
            false => Ok(()),
        });
        match (outcome, self.0.on_failure) {
            // Logged and counted where it failed.
            (Err(_), OnFailure::Continue) => Ok(()),
            (outcome, _) => outcome,
        }
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Audit({:?}, {:?})", self.head(), self.0.on_failure)
    }
}

fn start_threads(
    writer: Writer,
    queue: &Arc<Queue>,
    syncer: &Arc<Syncer>,
    store: Store,
    node: String,
) -> Result<(), AuditError> {
    let runtime = tokio::runtime::Handle::current();
    let failed = |error: std::io::Error| AuditError::Thread(error.to_string());
    let (queue, syncer) = (Arc::clone(queue), Arc::clone(syncer));
    let thread = |name: &str| std::thread::Builder::new().name(name.into());
    thread("audit-sync").spawn(move || syncer.run(&store, &node, &runtime)).map_err(failed)?;
    thread("audit-write").spawn(move || writer.run(&queue)).map_err(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests;
