//! Which tokens have been revoked: in memory, for every request, and told to every open stream.

use std::sync::Arc;

use super::{Store, StoreError};
use crate::token::RevocationId;

/// All revoked ids. Loaded at the start, added to when a revocation is on disk.
#[derive(Debug, Clone)]
pub struct Revocations {}

impl Revocations {
    /// Loads them.
    pub async fn load(store: &Store) -> Result<Revocations, StoreError> {
        let _ = store;
        todo!()
    }

    /// Whether any of these is revoked. For every request: a hash lookup for each id, no lock that a
    /// writer holds for long.
    pub fn any_revoked(&self, ids: &[RevocationId]) -> bool {
        todo!("{ids:?}")
    }

    /// Watches these ids, for as long as a stream is open.
    pub fn watch(&self, ids: &[RevocationId]) -> RevocationWatch {
        todo!("{ids:?}")
    }

    /// Adds what the store has written. Wakes every watch of them.
    pub(crate) fn add(&self, ids: &[RevocationId]) {
        todo!("{ids:?}")
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Watches some ids until it is dropped. Whoever relays a stream holds one, and cuts when it fires.
#[derive(Debug)]
pub struct RevocationWatch {
    _private: Arc<()>,
}

impl RevocationWatch {
    /// Returns once one of the ids is revoked, at once if one is already; never otherwise. Cancel-safe.
    pub async fn revoked(&self) {
        todo!()
    }

    /// Whether one of the ids is revoked.
    pub fn is_revoked(&self) -> bool {
        todo!()
    }
}
