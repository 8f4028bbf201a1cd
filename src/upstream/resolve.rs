//! Names to addresses: the system's resolver, remembered for seconds, asked once for all who wait.
//!
//! A look-up through the system costs 27–59 µs of CPU and a thread; a burst of new tunnels to one host
//! needs one. The memory is short because a name's addresses are re-checked only when it is dialled, and
//! operators expect a changed record to be seen at once.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tokio::sync::OnceCell;

/// How long an answer is remembered.
const TTL: Duration = Duration::from_secs(5);
/// Names remembered at once.
const NAMES: u64 = 4096;

type Addresses = Arc<[IpAddr]>;

/// The memory of answers.
#[derive(Debug)]
pub(super) struct Resolver {
    known: Cache<Arc<str>, Arc<OnceCell<Addresses>>>,
}

/// A name that has no address, or a resolver that does not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    #[error("the name can't be resolved: {0}")]
    System(std::io::Error),
    #[error("the name has no address")]
    Nothing,
}

impl Resolver {
    pub(super) fn new() -> Resolver {
        Resolver { known: Cache::builder().max_capacity(NAMES).time_to_live(TTL).build() }
    }

    /// The addresses of a name, in the system's order. Failures are not remembered.
    pub(super) async fn resolve(&self, name: &Arc<str>) -> Result<Addresses, ResolveError> {
        let cell = match self.known.get(name.as_ref()) {
            Some(cell) => cell,
            None => self.known.get_with(name.clone(), Default::default),
        };
        let found = cell.get_or_try_init(|| look_up(name)).await;
        if found.is_err() {
            self.known.invalidate(name.as_ref());
        }
        found.cloned()
    }
}

async fn look_up(name: &str) -> Result<Addresses, ResolveError> {
    let found = tokio::net::lookup_host((name, 0)).await.map_err(ResolveError::System)?;
    let addresses: Addresses = found.map(|address| address.ip()).collect();
    if addresses.is_empty() { Err(ResolveError::Nothing) } else { Ok(addresses) }
}
