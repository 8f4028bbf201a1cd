//! What may share a connection.

use std::sync::Arc;

use crate::policy::Narrowing;
use crate::words::{Authority, CredentialName};

/// Whose credential a connection carries. Requests of different partitions never share one (R161): what an
/// upstream ties to a connection can't pass from one credential to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Partition(Option<Arc<Spent>>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Spent {
    credential: CredentialName,
    generation: u64,
    narrowing: Narrowing,
}

impl Partition {
    /// Requests without a credential.
    pub fn anonymous() -> Partition {
        Partition(None)
    }

    /// Requests that spend this credential. Cloning is cheap: whoever holds the live secret keeps one.
    pub fn of(credential: CredentialName, generation: u64, narrowing: Narrowing) -> Partition {
        Partition(Some(Arc::new(Spent { credential, generation, narrowing })))
    }
}

/// Where a request goes, and with what it may share a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolKey {
    /// The one authority of the request.
    pub authority: Authority,
    /// The credential's part.
    pub partition: Partition,
}
