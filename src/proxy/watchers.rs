//! Who may go on relaying: guards that a revocation or the time cuts (DESIGN §3.7, invariant 9).
//!
//! A permit says what must stay true while its request is relayed: none of the token's ids revoked, its
//! time not up. Each relay owns a [`Guard`]; all guards are listed in one [`Watchers`], which a single task
//! sweeps: at once when something has been revoked, and every second for what ends by time. So a relay costs
//! no timer and no task of its own.
//!
//! The answer's body is kept inside the guard. A cut takes it out and drops it there and then, and the
//! upstream's connection with it: also when the client has stopped reading and nobody polls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

pub use super::watched::{Again, Cut, Guard, OnEnd, Report, Terms};
use super::watched::{Place, Watched};
use crate::policy::Watch;
use crate::token::RevocationId;
use crate::words::Timestamp;

const SHARDS: usize = 16;

/// Every open relay of this process. Cheap to clone.
#[derive(Clone)]
pub struct Watchers(Arc<Registry>);

pub(super) struct Registry {
    shards: [Mutex<Shard>; SHARDS],
    next: AtomicUsize,
    open: AtomicUsize,
    born: Instant,
}

/// A slab: places are found again by index, and used again.
#[derive(Default)]
struct Shard {
    places: Vec<Weak<Watched>>,
    free: Vec<usize>,
}

impl Default for Watchers {
    fn default() -> Self {
        Watchers::new()
    }
}

impl Watchers {
    /// None yet.
    pub fn new() -> Watchers {
        Watchers(Arc::new(Registry {
            shards: std::array::from_fn(|_| Mutex::default()),
            next: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            born: Instant::now(),
        }))
    }

    /// A guard for one relay. It begins by waiting for the answer's head.
    pub fn guard(&self, watch: &Watch, terms: Terms) -> Guard {
        let index = self.0.next.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let mut shard = self.0.shard(index);
        let at = shard.free.pop().unwrap_or(shard.places.len());
        let watched = Arc::new(Watched::new(watch, terms, Place { registry: self.0.clone(), index, at }));
        match shard.places.get_mut(at) {
            Some(place) => *place = Arc::downgrade(&watched),
            None => shard.places.push(Arc::downgrade(&watched)),
        }
        drop(shard);
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Guard::new(watched)
    }

    /// How many relays are open.
    pub fn len(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Looks at all of them once: whose ids are revoked, whose time is up.
    pub fn sweep(&self, now: Timestamp, revoked: &dyn Fn(&[RevocationId]) -> bool) {
        let uptime = u32::try_from(self.0.born.elapsed().as_secs()).unwrap_or(u32::MAX);
        self.sweep_at(now, uptime, revoked);
    }

    fn sweep_at(&self, now: Timestamp, uptime: u32, revoked: &dyn Fn(&[RevocationId]) -> bool) {
        for watched in self.all() {
            if let Some(cut) = watched.due(now, uptime, revoked) {
                watched.cut(cut);
            }
        }
    }

    /// Cuts all of them: the last step of a shutdown.
    pub fn cut_all(&self, cut: Cut) {
        for watched in self.all() {
            watched.cut(cut);
        }
    }

    /// The open ones. Looked at outside the locks: the end of one takes the lock of its shard.
    fn all(&self) -> impl Iterator<Item = Arc<Watched>> + '_ {
        (0..SHARDS).flat_map(|index| {
            let open: Vec<_> = self.0.shard(index).places.iter().filter_map(Weak::upgrade).collect();
            open
        })
    }

    /// The one task: sweeps whenever `changed` is notified, and every second. Never ends by itself.
    pub async fn run(
        self,
        mut changed: watch::Receiver<u64>,
        clock: impl Fn() -> Timestamp + Send,
        revoked: impl Fn(&[RevocationId]) -> bool + Send + Sync,
    ) {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = true;
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                change = changed.changed(), if told => told = change.is_ok(),
            }
            self.sweep(clock(), &revoked);
        }
    }
}

impl Registry {
    /// Frees a place.
    pub(super) fn leave(&self, index: usize, at: usize) {
        let mut shard = self.shard(index);
        if let Some(place) = shard.places.get_mut(at) {
            *place = Weak::new();
            shard.free.push(at);
        }
        drop(shard);
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        // the index is always below SHARDS
        let shard = self.shards.get(index).unwrap_or(&self.shards[0]);
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(id: u8, expires: Option<Timestamp>) -> Watch {
        Watch { revocation_ids: [RevocationId::new(&[id; 64])].into(), expires, decide_again: false }
    }

    fn terms() -> Terms {
        Terms { idle: Duration::from_secs(5), head: Duration::from_secs(60), decide_again: None, on_end: None }
    }

    const NOBODY: &dyn Fn(&[RevocationId]) -> bool = &|_| false;

    #[test]
    fn a_revoked_id_cuts_its_relays_and_no_others() {
        let watchers = Watchers::new();
        let (mine, other) = (watchers.guard(&watch(1, None), terms()), watchers.guard(&watch(2, None), terms()));
        watchers.sweep(0, &|ids| ids[0].as_bytes() == [1; 64]);
        assert_eq!(mine.cut(), Some(Cut::Revoked));
        assert_eq!(other.cut(), None);
    }

    #[test]
    fn a_relay_is_cut_in_the_second_in_which_its_token_expires() {
        let watchers = Watchers::new();
        let guard = watchers.guard(&watch(1, Some(100)), terms());
        watchers.sweep(99, NOBODY);
        assert_eq!(guard.cut(), None);
        watchers.sweep(100, NOBODY);
        assert_eq!(guard.cut(), Some(Cut::Expired));
    }

    #[test]
    fn silence_has_a_long_limit_before_the_answer_and_a_short_one_after() {
        let watchers = Watchers::new();
        let guard = watchers.guard(&watch(1, None), terms());
        watchers.sweep_at(0, 10, NOBODY);
        watchers.sweep_at(0, 69, NOBODY);
        assert_eq!(guard.cut(), None, "models think");
        guard.begin();
        watchers.sweep_at(0, 69, NOBODY);
        watchers.sweep_at(0, 73, NOBODY);
        assert_eq!(guard.cut(), None);
        guard.count_down(1);
        watchers.sweep_at(0, 73, NOBODY);
        watchers.sweep_at(0, 77, NOBODY);
        assert_eq!(guard.cut(), None, "an event came in between");
        watchers.sweep_at(0, 78, NOBODY);
        assert_eq!(guard.cut(), Some(Cut::Idle));
    }

    #[test]
    fn odd_checks_are_evaluated_again_every_ten_seconds() {
        let watchers = Watchers::new();
        let again: Again = Box::new(|now| now < 50);
        let guard = watchers.guard(&watch(1, None), Terms { decide_again: Some(again), ..terms() });
        watchers.sweep_at(40, 10, NOBODY);
        watchers.sweep_at(60, 19, NOBODY);
        assert_eq!(guard.cut(), None);
        watchers.sweep_at(60, 20, NOBODY);
        assert_eq!(guard.cut(), Some(Cut::Denied));
    }

    #[test]
    fn the_report_is_told_once_at_the_end_and_places_are_used_again() {
        let watchers = Watchers::new();
        let told = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..100 {
            let told = told.clone();
            let on_end: OnEnd = Box::new(move |report| told.lock().unwrap().push(report));
            let guard = watchers.guard(&watch(1, None), Terms { on_end: Some(on_end), ..terms() });
            let second = guard.clone();
            guard.count_up(3);
            second.count_down(4);
            drop(guard);
            assert_eq!(watchers.len(), 1);
            second.complete();
        }
        assert!(watchers.is_empty());
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 100);
        assert_eq!(told[0], Report { up: 3, down: 4, cut: None, complete: true });
        let places: usize = (0..SHARDS).map(|i| watchers.0.shard(i).places.len()).sum();
        assert!(places <= SHARDS, "{places}");
    }

    #[tokio::test]
    async fn a_revocation_wakes_whoever_waits_for_an_answer() {
        let watchers = Watchers::new();
        let guard = watchers.guard(&watch(1, None), terms());
        let waiting = tokio::spawn({
            let guard = guard.clone();
            async move { guard.watch(std::future::pending::<()>()).await }
        });
        tokio::task::yield_now().await;
        let (change, changed) = watch::channel(0);
        let running = tokio::spawn(watchers.run(changed, || 0, |_| true));
        change.send(1).unwrap();
        assert_eq!(waiting.await.unwrap(), Err(Cut::Revoked));
        running.abort();
    }
}
