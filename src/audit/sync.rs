//! Syncs what the writer has written, and keeps the head in the store.
//!
//! A thread of its own: a sync takes as long as the disk likes, and nobody's decision waits for it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::AuditError;
use super::chain::Link;
use super::files::io_error;
use super::queue::Flushed;
use crate::store::Store;

/// When nothing has been written for this long, it is time.
const QUIET: Duration = Duration::from_millis(25);
/// When there is no end of writing. Well below the promised second: a slow disk takes the rest.
const LATEST: Duration = Duration::from_millis(250);

/// Between the writer and the syncing thread.
#[derive(Default)]
pub(super) struct Syncer {
    state: Mutex<State>,
    wake: Condvar,
    /// The last sync failed: what was written may not survive.
    failing: AtomicBool,
}

#[derive(Default)]
struct State {
    files: Vec<(Arc<File>, PathBuf)>,
    link: Option<Link>,
    flushes: Vec<Flushed>,
    closed: bool,
}

impl Syncer {
    /// The writer has written to this file, up to this entry.
    pub(super) fn written(&self, file: &Arc<File>, path: &Path, link: Link) {
        let mut state = self.lock();
        if !state.files.iter().any(|(known, _)| Arc::ptr_eq(known, file)) {
            state.files.push((Arc::clone(file), path.to_owned()));
        }
        let idle = state.link.replace(link).is_none();
        drop(state);
        if idle {
            self.wake.notify_one();
        }
    }

    /// Somebody waits for a sync.
    pub(super) fn flush(&self, flushes: &mut Vec<Flushed>) {
        if flushes.is_empty() {
            return;
        }
        self.lock().flushes.append(flushes);
        self.wake.notify_one();
    }

    /// The writer has ended: one last sync.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }

    /// Whether the last sync failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// The thread.
    pub(super) fn run(&self, store: &Store, node: &str, runtime: &tokio::runtime::Handle) {
        loop {
            let (files, link, flushes, closed) = self.wait();
            let outcome = sync(&files).and_then(|()| match link.and_then(|link| link.head()) {
                // The head only after the entry: never a head whose entry a crash could take away.
                Some(head) => runtime.block_on(store.set_audit_head(node, &head)).map_err(AuditError::from),
                None => Ok(()),
            });
            self.failing.store(outcome.is_err(), Ordering::Relaxed);
            if let Err(error) = &outcome {
                metrics::counter!("kleis_audit_failures_total").increment(1);
                tracing::error!(%error, "the audit could not be synced");
                self.keep(files);
            }
            for flush in flushes {
                let _ = flush.send(outcome.clone());
            }
            if closed {
                return;
            }
        }
    }

    /// Waits until there is something to sync and it is time.
    #[allow(clippy::type_complexity, reason = "the parts of the state, taken once")]
    fn wait(&self) -> (Vec<(Arc<File>, PathBuf)>, Option<Link>, Vec<Flushed>, bool) {
        let mut state = self.lock();
        while state.link.is_none() && state.flushes.is_empty() && !state.closed {
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let start = Instant::now();
        while state.flushes.is_empty() && !state.closed && start.elapsed() < LATEST {
            let before = state.link;
            state = self.wake.wait_timeout(state, QUIET).unwrap_or_else(PoisonError::into_inner).0;
            if state.link == before {
                break;
            }
        }
        (std::mem::take(&mut state.files), state.link.take(), std::mem::take(&mut state.flushes), state.closed)
    }

    /// Keeps the files that were not synced: the next entry or flush tries again.
    fn keep(&self, files: Vec<(Arc<File>, PathBuf)>) {
        let mut state = self.lock();
        for (file, path) in files {
            if !state.files.iter().any(|(known, _)| Arc::ptr_eq(known, &file)) {
                state.files.push((file, path));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sync(files: &[(Arc<File>, PathBuf)]) -> Result<(), AuditError> {
    for (file, path) in files {
        file.sync_data().map_err(io_error("sync", path))?;
    }
    Ok(())
}
