//! What may share a connection.

use std::sync::Arc;

use crate::policy::Narrowing;
use crate::words::{Authority, CredentialName};

/// Whose credential a connection carries. Requests of different partitions never share one (R161): what an
/// upstream ties to a connection can't pass from one credential to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Partition(Whose);

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
enum Whose {
    #[default]
    Nobody,
    /// The exchanges of providers, which carry what mints credentials.
    Own,
    Spent(Arc<Spent>),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Spent {
    credential: CredentialName,
    generation: u64,
    narrowing: Narrowing,
}

impl Partition {
    /// Requests without a credential.
    pub fn anonymous() -> Partition {
        Partition(Whose::Nobody)
    }

    /// The proxy's own requests.
    pub(super) fn own() -> Partition {
        Partition(Whose::Own)
    }

    /// Requests that spend this credential. Cloning is cheap: whoever holds the live secret keeps one.
    pub fn of(credential: CredentialName, generation: u64, narrowing: Narrowing) -> Partition {
        Partition(Whose::Spent(Arc::new(Spent { credential, generation, narrowing })))
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
