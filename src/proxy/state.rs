//! What every request needs: one value, shared by all connections.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::holder::Holders;
use super::judging::Judging;
use super::meter::Meters;
use super::relay::Watchers;
use crate::audit::Audit;
use crate::ca::Ca;
use crate::config::{ListenAddress, Live, Role, Snapshot};
use crate::credential::Vault;
use crate::operator::{Operator, OperatorError};
use crate::policy::Accounts;
use crate::upstream::Upstreams;
use crate::words::Timestamp;

/// The proxy's surroundings.
pub struct State {
    /// The configuration in force.
    pub config: Arc<Live>,
    /// The one door: store, audit, root keys, revocations.
    pub operator: Operator,
    /// Credentials.
    pub vault: Arc<Vault>,
    /// Leaves.
    pub ca: Arc<Ca>,
    /// The other side. Replaced when `[upstream]` changes.
    pub upstreams: Arc<ArcSwap<Upstreams>>,
    /// Open relays.
    pub watchers: Watchers,
    /// Which credentials exist.
    pub accounts: ArcSwap<Accounts>,
    /// Verified tokens and compiled programs.
    pub holders: Holders,
    /// Memory for bodies that are read to be judged.
    pub judging: Judging,
    /// Counters.
    pub meters: Arc<Meters>,
    /// Whether the daemon is going down.
    pub drain: Drain,
    /// Where we listen, as it came out.
    pub listening: Vec<(Role, ListenAddress)>,
    /// Since when.
    pub started: Timestamp,
}

impl State {
    /// One configuration, to be used from a request's beginning to its end.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.config.snapshot()
    }

    /// The record.
    pub fn audit(&self) -> &Audit {
        self.operator.audit()
    }

    /// Follows the installed credentials: requests see a change before it has been answered.
    pub async fn follow_credentials(self: &Arc<Self>) -> Result<(), OperatorError> {
        let state = Arc::downgrade(self);
        let listener = move |all| {
            if let Some(state) = state.upgrade() {
                state.vault.set_installed(all);
                state.refresh_accounts();
            }
        };
        self.operator.on_credentials(listener).await
    }

    /// The ports that we listen on.
    pub fn own_ports(&self) -> impl Iterator<Item = u16> + '_ {
        self.listening.iter().filter_map(|(_, address)| match address {
            ListenAddress::Tcp(address) => Some(address.port()),
            ListenAddress::Unix(_) => None,
        })
    }

    /// Lists the credentials anew: after one has come or gone.
    pub fn refresh_accounts(&self) {
        let known = self.vault.list().into_iter().map(|known| (known.service, known.name));
        self.accounts.store(Arc::new(Accounts::new(known)));
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("listening", &self.listening).finish_non_exhaustive()
    }
}

/// A graceful end: asked once, heard by every connection.
///
/// A connection that waits costs nothing while it works: it looks at one flag each time it is polled, and is
/// woken once.
#[derive(Debug, Default)]
pub struct Drain {
    begun: AtomicBool,
    told: Notify,
}

impl Drain {
    /// From here on no new work is taken.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Waits for the begin.
    pub async fn wait(&self) {
        let told = self.told.notified();
        if !self.has_begun() {
            told.await;
        }
    }

    /// Drives a connection to its end; when the drain begins it is asked, once, to come to one.
    pub async fn drive<C: Future + Unpin>(&self, mut connection: C, finish: impl Fn(&mut C)) -> C::Output {
        let mut told = pin!(self.told.notified());
        let (mut listening, mut finishing) = (false, false);
        poll_fn(|cx| {
            if !listening {
                // a task has one waker: registering it once is enough
                listening = told.as_mut().poll(cx).is_pending();
            }
            if !finishing && self.has_begun() {
                finishing = true;
                finish(&mut connection);
            }
            match std::pin::Pin::new(&mut connection).poll(cx) {
                Poll::Ready(output) => Poll::Ready(output),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}
