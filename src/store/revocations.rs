//! Which tokens have been revoked: in memory, for every request, and told to every open stream.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::{DashMap, DashSet};
use tokio_util::sync::CancellationToken;

use super::{Store, StoreError};
use crate::token::RevocationId;

/// All revoked ids. Loaded at the start, added to when a revocation is on disk. Cheap to clone.
#[derive(Clone, Default)]
pub struct Revocations(Arc<Inner>);

#[derive(Default)]
struct Inner {
    revoked: DashSet<RevocationId>,
    /// Open streams by the ids that end them: a revocation wakes those it concerns and no others.
    watched: DashMap<RevocationId, HashMap<u64, CancellationToken>>,
    next: AtomicU64,
    /// Counts additions, for whoever looks at all its streams at once.
    changed: tokio::sync::watch::Sender<u64>,
}

impl Revocations {
    /// Loads them.
    pub async fn load(store: &Store) -> Result<Revocations, StoreError> {
        let ids = store.revoked().await?;
        let revoked = DashSet::with_capacity(ids.len());
        for id in ids {
            revoked.insert(id);
        }
        Ok(Revocations(Arc::new(Inner { revoked, ..Inner::default() })))
    }

    /// Whether any of these is revoked. For every request: a hash lookup for each id, no lock that a
    /// writer holds for long.
    pub fn any_revoked(&self, ids: &[RevocationId]) -> bool {
        ids.iter().any(|id| self.0.revoked.contains(id))
    }

    /// Watches these ids, for as long as a stream is open.
    pub fn watch(&self, ids: &[RevocationId]) -> RevocationWatch {
        let key = self.0.next.fetch_add(1, Ordering::Relaxed);
        let signal = CancellationToken::new();
        for id in ids {
            self.0.watched.entry(id.clone()).or_default().insert(key, signal.clone());
        }
        // Asked after entering: a revocation either finds the entry or is found here.
        if self.any_revoked(ids) {
            signal.cancel();
        }
        RevocationWatch { inner: Arc::clone(&self.0), ids: ids.into(), key, signal }
    }

    /// Adds what the store has written. Wakes every watch of them.
    pub(crate) fn add(&self, ids: &[RevocationId]) {
        for id in ids {
            self.0.revoked.insert(id.clone());
            if let Some(watches) = self.0.watched.get(id) {
                watches.values().for_each(CancellationToken::cancel);
            }
        }
        self.0.changed.send_modify(|count| *count += 1);
    }

    /// Tells of every addition, when it is in force.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.revoked.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.revoked.is_empty()
    }
}

impl fmt::Debug for Revocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revocations({} revoked, {} watched)", self.0.revoked.len(), self.0.watched.len())
    }
}

/// Watches some ids until it is dropped. Whoever relays a stream holds one, and cuts when it fires.
pub struct RevocationWatch {
    inner: Arc<Inner>,
    ids: Box<[RevocationId]>,
    key: u64,
    signal: CancellationToken,
}

impl RevocationWatch {
    /// Returns once one of the ids is revoked, at once if one is already; never otherwise. Cancel-safe.
    pub async fn revoked(&self) {
        self.signal.cancelled().await;
    }

    /// Whether one of the ids is revoked.
    pub fn is_revoked(&self) -> bool {
        self.signal.is_cancelled()
    }
}

impl Drop for RevocationWatch {
    fn drop(&mut self) {
        for id in &self.ids {
            self.inner.watched.remove_if_mut(id, |_, watches| {
                watches.remove(&self.key);
                watches.is_empty()
            });
        }
    }
}

impl fmt::Debug for RevocationWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RevocationWatch({} ids, revoked: {})", self.ids.len(), self.is_revoked())
    }
}
