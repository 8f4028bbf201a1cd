//! Open connections, kept for the next request of the same key.
//!
//! A key has one [`Slot`]: its idle HTTP/1.1 connections and its HTTP/2 ones. The first request for a host that
//! nobody has talked to dials for all that come meanwhile, because it may turn out to speak HTTP/2, where one
//! connection carries them all; a host known to speak HTTP/1.1 is dialled by each request that finds no idle
//! connection.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use http::HeaderValue;
use http::uri;

use super::error::UpstreamError;
use super::h1::H1;
use super::h2::{H2, Place};
use super::key::PoolKey;

/// Idle HTTP/1.1 connections kept for one key.
const IDLE_PER_KEY: usize = 128;
/// HTTP/2 connections opened for one key before streams have to wait for their turn.
const H2_PER_KEY: usize = 8;
const SHARDS: usize = 16;

/// One dial, awaited by many.
pub(super) type Dialling = Shared<BoxFuture<'static, Result<(), UpstreamError>>>;

/// What a request finds for its key.
pub(super) enum Found {
    /// An idle connection, alive a moment ago.
    H1(Box<H1>),
    /// A place on a shared connection.
    H2(Place),
    /// Somebody (perhaps this request) dials for all.
    Wait(Dialling),
    /// Nothing idle; a connection of one's own is to be dialled.
    Dial,
}

/// What is known of the protocol of a key's upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Unknown,
    Http1,
    Http2,
}

/// The connections of one key.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: PoolKey,
    /// What `Host` holds.
    pub(super) host: HeaderValue,
    /// What `:scheme` and `:authority` hold.
    pub(super) scheme: uri::Scheme,
    pub(super) authority: Option<uri::Authority>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    idle: Vec<(Box<H1>, Instant)>,
    shared: Vec<Arc<H2>>,
    speaks: Speaks,
    dialling: Option<Dialling>,
}

impl Slot {
    fn new(key: PoolKey) -> Slot {
        let host = key.authority.host_header();
        Slot {
            // a parsed host is made of letters, digits and punctuation, so neither of these fails
            authority: uri::Authority::try_from(host.as_str()).ok(),
            host: HeaderValue::try_from(host).unwrap_or_else(|_| HeaderValue::from_static("")),
            scheme: match key.authority.scheme() {
                crate::words::Scheme::Http => uri::Scheme::HTTP,
                crate::words::Scheme::Https => uri::Scheme::HTTPS,
            },
            key,
            state: Mutex::new(State { idle: Vec::new(), shared: Vec::new(), speaks: Speaks::Unknown, dialling: None }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is for a request. `dial` is called, once, if it is up to this one to dial for all.
    pub(super) fn find(&self, dial: impl FnOnce() -> BoxFuture<'static, Result<(), UpstreamError>>) -> Found {
        loop {
            let mut state = self.state();
            if let Some(place) = state.shared.iter().find_map(H2::place) {
                return Found::H2(place);
            }
            if let Some((mut connection, _)) = state.idle.pop() {
                drop(state);
                if connection.is_alive() {
                    return Found::H1(connection);
                }
                continue;
            }
            state.shared.retain(|h2| !h2.is_closed());
            if state.speaks == Speaks::Http1 {
                return Found::Dial;
            }
            if state.shared.len() >= H2_PER_KEY {
                let emptiest = state.shared.iter().min_by_key(|h2| h2.active());
                if let Some(place) = emptiest.and_then(H2::squeeze) {
                    return Found::H2(place);
                }
            }
            if let Some(dialling) = &state.dialling {
                return Found::Wait(dialling.clone());
            }
            let dialling = dial().shared();
            state.dialling = Some(dialling.clone());
            return Found::Wait(dialling);
        }
    }

    /// Keeps a connection that is free again.
    pub(super) fn put(&self, connection: Box<H1>) {
        let mut state = self.state();
        if state.idle.len() < IDLE_PER_KEY {
            state.idle.push((connection, Instant::now()));
        }
    }

    /// The end of a dial for all.
    pub(super) fn dialled(&self, outcome: Result<Dialled, ()>) {
        let mut state = self.state();
        state.dialling = None;
        match outcome {
            Ok(Dialled::H1(connection)) => {
                state.speaks = Speaks::Http1;
                state.idle.push((connection, Instant::now()));
            }
            Ok(Dialled::H2(h2)) => {
                state.speaks = Speaks::Http2;
                state.shared.push(h2);
            }
            Err(()) => {}
        }
    }

    /// What a request's own dial has brought, where the protocol was thought to be HTTP/1.1.
    pub(super) fn learn(&self, h2: &Arc<H2>) {
        let mut state = self.state();
        state.speaks = Speaks::Http2;
        state.shared.push(h2.clone());
    }

    /// Ends what has been idle for too long, or has been closed from afar. Returns whether nothing is left.
    fn sweep(&self, longest: Duration) -> bool {
        let mut state = self.state();
        let kept = std::mem::take(&mut state.idle);
        let mut kept: Vec<_> = kept.into_iter().filter(|(_, since)| since.elapsed() < longest).collect();
        kept.retain_mut(|(connection, _)| connection.is_alive());
        state.idle = kept;
        state.shared.retain(|h2| {
            if h2.active() == 0 && h2.quiet_for(longest) {
                h2.retire();
            }
            !h2.is_closed()
        });
        state.idle.is_empty() && state.shared.is_empty() && state.dialling.is_none()
    }

    /// Idle and shared connections.
    fn count(&self) -> (usize, usize) {
        let state = self.state();
        (state.idle.len(), state.shared.len())
    }
}

/// A new connection.
pub(super) enum Dialled {
    H1(Box<H1>),
    H2(Arc<H2>),
}

/// All slots.
#[derive(Debug)]
pub(super) struct Pool {
    shards: [Mutex<HashMap<PoolKey, Arc<Slot>>>; SHARDS],
    hasher: RandomState,
    swept: AtomicUsize,
}

impl Pool {
    pub(super) fn new() -> Pool {
        Pool {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            swept: AtomicUsize::new(0),
        }
    }

    /// The slot of a key, made if there is none.
    pub(super) fn slot(&self, key: &PoolKey) -> Arc<Slot> {
        let shard = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or_default();
        let Some(shard) = self.shards.get(shard) else { return Arc::new(Slot::new(key.clone())) };
        let mut slots = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(key) {
            return slot.clone();
        }
        let slot = Arc::new(Slot::new(key.clone()));
        slots.insert(key.clone(), slot.clone());
        slot
    }

    /// One sweep of everything.
    pub(super) fn sweep(&self, longest: Duration) {
        let (mut idle, mut shared) = (0, 0);
        for shard in &self.shards {
            let slots: Vec<_> = shard.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
            let empty: Vec<_> = slots.into_iter().filter(|slot| slot.sweep(longest)).collect();
            let mut slots = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for slot in empty {
                // two: the map's and this one
                if Arc::strong_count(&slot) == 2 {
                    slots.remove(&slot.key);
                }
            }
            for slot in slots.values() {
                let (a, b) = slot.count();
                idle += a;
                shared += b;
            }
        }
        metrics::gauge!("kleis_upstream_idle", "protocol" => "http/1.1").set(idle as f64);
        metrics::gauge!("kleis_upstream_shared").set(shared as f64);
    }

    /// Starts the sweeper, once, on the runtime that this is called on.
    pub(super) fn start_sweeping(self: &Arc<Self>, longest: Duration) {
        if self.swept.swap(1, Ordering::Relaxed) == 1 {
            return;
        }
        let pool: Weak<Pool> = Arc::downgrade(self);
        let every = (longest / 4).clamp(Duration::from_millis(50), Duration::from_secs(5));
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(every);
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                let Some(pool) = pool.upgrade() else { return };
                pool.sweep(longest);
            }
        });
    }
}
