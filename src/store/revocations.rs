//! Which tokens have been revoked: in memory, for every request, and told to whoever relays streams.

use std::fmt;
use std::sync::Arc;

use dashmap::DashSet;
use tokio::sync::watch;

use super::{Store, StoreError};
use crate::token::RevocationId;

/// All revoked ids. Loaded at the start, added to when a revocation is on disk. Cheap to clone.
#[derive(Clone, Default)]
pub struct Revocations(Arc<Inner>);

#[derive(Default)]
struct Inner {
    revoked: DashSet<RevocationId>,
    /// Counts additions.
    changed: watch::Sender<u64>,
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

    /// Tells of every addition, when it is in force: who relays streams looks at them then. Several
    /// additions at once may be told as one.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Adds what the store has written.
    pub(crate) fn add(&self, ids: &[RevocationId]) {
        if ids.is_empty() {
            return;
        }
        for id in ids {
            self.0.revoked.insert(id.clone());
        }
        // After they are in: whoever is told finds them.
        self.0.changed.send_modify(|count| *count += 1);
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
        write!(f, "Revocations({})", self.0.revoked.len())
    }
}
