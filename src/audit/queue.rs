//! What waits for the writer, and how callers wait for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use tokio::sync::oneshot;

use super::AuditError;

/// Bytes that may wait. Every request waits for its own decision, so that this many means a disk that
/// hangs.
const MAX_WAITING: usize = 32 << 20;

/// Bytes of memory that are kept from one batch to the next.
pub(super) const KEPT: usize = 256 << 10;

/// An answer to a flush.
pub(super) type Flushed = oneshot::Sender<Result<(), AuditError>>;

/// Between callers and the writer.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    pending: Pending,
    closed: bool,
    sleeping: bool,
}

/// Entries that are written together.
#[derive(Default)]
pub(super) struct Pending {
    /// The fields of all entries, one behind the other.
    bytes: Vec<u8>,
    /// Where each entry ends.
    ends: Vec<usize>,
    /// Who waits for them.
    batch: Arc<Batch>,
    /// Who waits for a sync of them.
    pub(super) flushes: Vec<Flushed>,
    /// Entries for which there was no room.
    pub(super) dropped: u64,
}

impl Pending {
    pub(super) fn entries(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(start..*end))
    }

    pub(super) fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Tells everybody who waits, and is empty again, its memory kept.
    pub(super) fn done(&mut self, outcome: Result<(), AuditError>) {
        std::mem::take(&mut self.batch).done(outcome);
        self.bytes.clear();
        self.ends.clear();
        // A burst's memory is given back.
        self.bytes.shrink_to(KEPT);
        self.ends.shrink_to(KEPT / 256);
        self.dropped = 0;
    }

    fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.flushes.is_empty() && self.dropped == 0
    }
}

impl Queue {
    /// Hands an entry over. The future is done when it has been written; nobody has to await it.
    pub(super) fn push(&self, put: impl FnOnce(&mut Vec<u8>, SystemTime)) -> Result<Written, AuditError> {
        let now = SystemTime::now();
        // Encoded outside of the lock.
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            put(scratch, now);
            let mut state = self.lock();
            if state.closed {
                return Err(AuditError::Closed);
            }
            let waiting = state.pending.ends.len();
            if state.pending.bytes.len() + scratch.len() > MAX_WAITING {
                state.pending.dropped += 1;
                return Err(AuditError::Overloaded(waiting));
            }
            state.pending.bytes.extend_from_slice(scratch);
            let end = state.pending.bytes.len();
            state.pending.ends.push(end);
            let batch = Arc::clone(&state.pending.batch);
            self.wake_writer(state);
            Ok(Written { batch })
        })
    }

    /// Asks for a sync of all that was handed over before.
    pub(super) fn flush(&self, done: Flushed) {
        let mut state = self.lock();
        if state.closed {
            let _ = done.send(Err(AuditError::Closed));
            return;
        }
        state.pending.flushes.push(done);
        self.wake_writer(state);
    }

    /// Takes no more. The writer ends when it has written what is there.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.wake_writer(state);
    }

    /// For the writer: waits for work and swaps it for the empty `spare`. `None`: closed and empty.
    pub(super) fn take(&self, spare: Pending) -> Option<Pending> {
        let mut state = self.lock();
        while state.pending.is_empty() {
            if state.closed {
                return None;
            }
            state.sleeping = true;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.sleeping = false;
        Some(std::mem::replace(&mut state.pending, spare))
    }

    fn wake_writer(&self, mut state: MutexGuard<'_, State>) {
        let sleeping = std::mem::take(&mut state.sleeping);
        drop(state);
        if sleeping {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under this lock can leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    static SCRATCH: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// One group commit, as its callers see it.
#[derive(Default)]
struct Batch(Mutex<BatchState>);

enum BatchState {
    Pending(Vec<Waker>),
    Done(Result<(), AuditError>),
}

impl Default for BatchState {
    fn default() -> Self {
        BatchState::Pending(Vec::new())
    }
}

impl Batch {
    fn done(&self, outcome: Result<(), AuditError>) {
        let before = std::mem::replace(&mut *self.lock(), BatchState::Done(outcome));
        if let BatchState::Pending(wakers) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BatchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Done when the entry has been written, or could not be.
pub(super) struct Written {
    batch: Arc<Batch>,
}

impl Future for Written {
    type Output = Result<(), AuditError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self.batch.lock() {
            BatchState::Done(outcome) => Poll::Ready(outcome.clone()),
            BatchState::Pending(wakers) => {
                if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}
