//! The running daemon: joins the rooms, starts and ends what serves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use tokio::net::UnixListener;
use tokio::task::JoinSet;

use super::{control, metrics};
use crate::audit::AuditOptions;
use crate::ca::{Ca, CaError};
use crate::config::{Config, Home, HomeError, ListenAddress, Live, Outcome, Role, Snapshot, Watcher};
use crate::credential::{Exchange, ExchangeBounds, ExchangeError, Seal, SealError, Vault};
use crate::operator::{Operator, OperatorError};
use crate::policy::Accounts;
use crate::proxy::listen::{BindError, Listener, bind_unix};
use crate::proxy::record::now;
use crate::proxy::relay::{Cut, Watchers};
use crate::proxy::state::Drain;
use crate::proxy::{Counts, State};
use crate::store::{AuditHead, StoreError};
use crate::upstream::{SetupError, UpstreamConfig, Upstreams};
use crate::words::FileErrors;

/// How long open requests may take after the end was asked for.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

/// How to start a daemon.
#[derive(Debug, Clone, Default)]
pub struct DaemonOptions {
    /// Go on although the audit was cut or changed since the last run; the break is recorded.
    pub accept_audit_break: bool,
}

/// Why a daemon can't start. Says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] FileErrors),
    /// The home.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The data directory, the store, the root keys or the audit.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The key that seals credentials.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The CA.
    #[error(transparent)]
    Ca(#[from] CaError),
    /// The side of the upstreams.
    #[error(transparent)]
    Upstream(#[from] SetupError),
    /// An address.
    #[error(transparent)]
    Listen(#[from] BindError),
    /// The control socket.
    #[error("cannot listen on `{0}`: {1}")]
    Control(String, std::io::Error),
    /// The meters.
    #[error("metrics can't be set up: {0}")]
    Metrics(String),
}

/// A running daemon. Dropping it ends it at once; [`Daemon::stop`] ends it in order.
#[derive(Debug)]
pub struct Daemon {
    state: Arc<State>,
    addresses: Vec<SocketAddr>,
    serving: JoinSet<()>,
    background: JoinSet<()>,
    // it stops when it is dropped
    _watcher: Option<Watcher>,
}

impl Daemon {
    /// Starts. When it returns, connections are accepted.
    pub async fn start(home: Home, options: DaemonOptions) -> Result<Daemon, StartError> {
        // the one place where the process chooses its cryptography; an embedding program may have before
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        metrics::install().map_err(|error| StartError::Metrics(error.to_string()))?;
        home.create()?;
        let config = Live::open(home.clone())?;
        let snapshot = config.snapshot();
        let audit = AuditOptions {
            on_failure: snapshot.config.audit_on_failure,
            accept_break: options.accept_audit_break,
            ..AuditOptions::default()
        };
        let operator = Operator::open(home.data_dir(), audit).await?;
        let listeners: Vec<Listener> = snapshot.config.listen.iter().map(Listener::bind).collect::<Result<_, _>>()?;
        let listening: Vec<_> = listeners.iter().map(|listener| (listener.role, listener.address())).collect();
        let upstreams = Upstreams::new(upstream_config(&snapshot.config, &listening))?;
        let upstreams = Arc::new(ArcSwap::from_pointee(upstreams));
        let seal = Seal::load_or_make(&home.data_dir().join("seal.key"))?;
        let vault = Arc::new(Vault::new(seal, Arc::new(Current(upstreams.clone()))));
        let ca = Arc::new(Ca::load_or_make(home.data_dir())?);
        let state = Arc::new(State {
            config,
            operator,
            vault,
            ca,
            upstreams,
            watchers: Watchers::new(),
            accounts: ArcSwap::from_pointee(Accounts::default()),
            holders: Default::default(),
            judging: Default::default(),
            meters: Default::default(),
            drain: Drain::default(),
            listening,
            started: now(),
        });
        state.vault.set_declared(snapshot.declared.to_vec());
        state.follow_credentials().await?;
        let path = home.control_socket();
        let control =
            bind_unix(&path, 0o600).map_err(|error| StartError::Control(path.display().to_string(), error))?;
        Ok(Daemon::run(state, listeners, control))
    }

    fn run(state: Arc<State>, listeners: Vec<Listener>, control: UnixListener) -> Daemon {
        let (mut serving, mut background) = (JoinSet::new(), JoinSet::new());
        background.spawn(control::serve(control, state.clone()));
        background.spawn(metrics::upkeep());
        background.spawn(follow_configuration(state.clone()));
        let revoked = state.operator.revocations().clone();
        let changes = revoked.changes();
        background.spawn(state.watchers.clone().run(changes, now, move |ids| revoked.any_revoked(ids)));
        for listener in listeners {
            serving.spawn(listener.serve(state.clone()));
        }
        let watcher = Watcher::start(state.config.clone()).inspect_err(|error| {
            tracing::warn!(%error, "files can't be watched: send SIGHUP after a change of the configuration");
        });
        warn_of(&state.snapshot());
        let addresses = state.listening.iter().filter_map(|(role, address)| match (role, address) {
            (Role::Proxy, ListenAddress::Tcp(address)) => Some(*address),
            _ => None,
        });
        Daemon { addresses: addresses.collect(), state, serving, background, _watcher: watcher.ok() }
    }

    /// The TCP addresses of the proxy. A configured port 0 is the one that was given.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Every address that it listens on, and for what.
    pub fn listening(&self) -> &[(Role, ListenAddress)] {
        &self.state.listening
    }

    /// What everything in it shares.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Totals since the start.
    pub fn counts(&self) -> Counts {
        self.state.meters.counts()
    }

    /// Waits until all that was recorded so far is on disk.
    pub async fn flush(&self) {
        if let Err(error) = self.state.audit().flush().await {
            tracing::error!(%error, "the audit can't be flushed");
        }
    }

    /// The last entry of the audit.
    pub fn audit_head(&self) -> Option<AuditHead> {
        self.state.audit().head()
    }

    /// Reads the configuration again. How that went is logged, and in the status.
    pub async fn reload(&self) {
        let config = self.state.config.clone();
        // files are read and policy is compiled: not on a thread that serves
        let _ = tokio::task::spawn_blocking(move || config.reload()).await;
    }

    /// Ends in order: nothing new is taken, what is open may come to its end within bounds, the record is
    /// written out.
    pub async fn stop(mut self) {
        self.state.drain.begin();
        let ended = async {
            all_of(&mut self.serving).await;
            // upgraded connections outlive the one that they began on
            while !self.state.watchers.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(DRAIN_PATIENCE, ended).await.is_err() {
            let open = self.state.watchers.len();
            tracing::warn!(open, "requests were still open at the end: they are cut");
            self.state.watchers.cut_all(Cut::ShuttingDown);
            let _ = tokio::time::timeout(Duration::from_secs(1), all_of(&mut self.serving)).await;
        }
        self.serving.shutdown().await;
        self.background.shutdown().await;
        let _ = std::fs::remove_file(self.state.config.home().control_socket());
        if let Err(error) = self.state.operator.close().await {
            tracing::error!(%error, "the data directory could not be closed in order");
        }
    }

    /// Serves until SIGTERM or SIGINT; reloads on SIGHUP. A second signal ends it at once.
    pub async fn run_until_signal(self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut hup = signal(SignalKind::hangup())?;
        loop {
            tokio::select! {
                _ = term.recv() => break,
                _ = int.recv() => break,
                _ = hup.recv() => self.reload().await,
            }
        }
        tracing::info!("kleisd ends: what is open has {} s", DRAIN_PATIENCE.as_secs());
        tokio::select! {
            () = self.stop() => {}
            _ = term.recv() => tracing::warn!("ended at once by a second signal"),
            _ = int.recv() => tracing::warn!("ended at once by a second signal"),
        }
        Ok(())
    }
}

async fn all_of(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// What the upstream side is set up with: the addresses that we really have, so that it never dials them.
fn upstream_config(config: &Config, listening: &[(Role, ListenAddress)]) -> UpstreamConfig {
    let own = listening.iter().filter_map(|(_, address)| match address {
        ListenAddress::Tcp(address) => Some(*address),
        ListenAddress::Unix(_) => None,
    });
    UpstreamConfig { own_addresses: own.collect(), ..config.upstream_config() }
}

/// Takes over what a reload has changed beyond the snapshot itself, and tells how each reload went.
async fn follow_configuration(state: Arc<State>) {
    let mut reloads = state.config.subscribe();
    let mut in_force = state.snapshot().generation;
    while reloads.changed().await.is_ok() {
        let reload = reloads.borrow_and_update().clone();
        match &reload.outcome {
            // files were touched and say what they said before
            Outcome::InForce { .. } if reload.generation == in_force => {}
            Outcome::InForce { needs_restart } => {
                in_force = reload.generation;
                take_over(&state, &state.snapshot());
                tracing::info!(generation = reload.generation, "the configuration was loaded");
                for key in needs_restart {
                    tracing::warn!("`{key}` has changed: it takes effect when kleisd starts again");
                }
            }
            Outcome::Failed(errors) => {
                let generation = reload.generation;
                tracing::error!(generation, "the configuration was not loaded, what was in force still is:\n{errors}");
            }
        }
    }
}

fn take_over(state: &State, snapshot: &Snapshot) {
    state.vault.set_declared(snapshot.declared.to_vec());
    state.refresh_accounts();
    match Upstreams::new(upstream_config(&snapshot.config, &state.listening)) {
        Ok(upstreams) => state.upstreams.store(Arc::new(upstreams)),
        Err(error) => tracing::error!(%error, "`[upstream]` can't be taken over, what was in force still is"),
    }
    warn_of(snapshot);
}

fn warn_of(snapshot: &Snapshot) {
    for warning in snapshot.warnings.iter() {
        tracing::warn!("{warning}");
    }
}

/// The upstream side in force, for the exchanges of providers.
struct Current(Arc<ArcSwap<Upstreams>>);

impl Exchange for Current {
    fn call(
        &self,
        request: http::Request<bytes::Bytes>,
        bounds: ExchangeBounds,
    ) -> BoxFuture<'_, Result<http::Response<bytes::Bytes>, ExchangeError>> {
        let upstreams = self.0.load_full();
        Box::pin(async move { upstreams.call(request, bounds).await })
    }
}
