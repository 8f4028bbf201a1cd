//! Relays under a guard that can cut them (DESIGN §3.7, invariant 9).
//!
//! A permit says what must stay true while its request is relayed: none of the token's ids revoked, its
//! time not up. Each relay owns a [`Guard`]; all guards are listed in one [`Watchers`], which a single task
//! sweeps: at once when something has been revoked, and every second for what ends by time. So a relay costs
//! no timer and no task of its own.
//!
//! The answer's body is kept inside the guard. A cut takes it out and drops it there and then, and the
//! upstream's connection with it: also when the client has stopped reading and nobody polls.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::policy::Watch;
use crate::token::RevocationId;
use crate::upstream::{AnswerBody, BodyError};
use crate::words::Timestamp;

const SHARDS: usize = 16;
/// How often checks in an odd form are evaluated again, in seconds (DESIGN §10).
const DECIDE_EVERY: u64 = 10;

/// Why a relay was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Cut {
    /// One of the token's ids was revoked.
    #[error("the token was revoked")]
    Revoked = 1,
    /// The token's time is up.
    #[error("the token expired")]
    Expired = 2,
    /// Its checks, evaluated again, no longer hold.
    #[error("the token's checks no longer hold")]
    Denied = 3,
    /// Nothing moved for longer than the limit.
    #[error("nothing moved for too long")]
    Idle = 4,
    /// The daemon is going down.
    #[error("the proxy is shutting down")]
    ShuttingDown = 5,
}

impl Cut {
    fn from_code(code: u8) -> Option<Cut> {
        [Cut::Revoked, Cut::Expired, Cut::Denied, Cut::Idle, Cut::ShuttingDown]
            .into_iter()
            .find(|cut| *cut as u8 == code)
    }
}

/// What a relay came to; told once, when its last part is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes of bodies (or of the tunnel) towards the upstream.
    pub up: u64,
    /// Bytes towards the client.
    pub down: u64,
    /// Why it was cut, if it was.
    pub cut: Option<Cut>,
    /// Whether the answer reached its end.
    pub complete: bool,
}

/// Evaluates the token's checks again, at a time.
pub type Again = Box<dyn Fn(Timestamp) -> bool + Send + Sync>;
/// Told what a relay came to.
pub type OnEnd = Box<dyn FnOnce(Report) + Send + Sync>;

/// What a guard is made with, besides the permit's [`Watch`].
pub struct Terms {
    /// Silence that ends it once the answer has begun.
    pub idle: Duration,
    /// How long the answer's head may take, after the last byte of the request.
    pub head: Duration,
    /// For tokens whose checks look at the time in an odd form: evaluated every 10 s; `false` cuts.
    pub decide_again: Option<Again>,
    /// Told at the end.
    pub on_end: Option<OnEnd>,
}

/// Every open relay of this process. Cheap to clone.
#[derive(Clone)]
pub struct Watchers(Arc<Registry>);

struct Registry {
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

struct Watched {
    ids: Arc<[RevocationId]>,
    expires: Timestamp,
    decide_again: Option<Again>,
    on_end: Option<OnEnd>,
    registry: Arc<Registry>,
    place: (usize, usize),
    /// Limits of silence in seconds: before the answer's head, and after.
    limits: (u32, u32),
    cut: AtomicU8,
    begun: AtomicBool,
    complete: AtomicBool,
    /// Whether anything has moved since the last sweep.
    moved: AtomicBool,
    /// Written by the sweep alone: seconds of the registry's life.
    quiet_since: AtomicU32,
    decided: AtomicU32,
    up: AtomicU64,
    down: AtomicU64,
    waker: AtomicWaker,
    answer: Mutex<Option<AnswerBody>>,
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
        let seconds = |d: Duration| u32::try_from(d.as_secs().max(1)).unwrap_or(u32::MAX);
        let mut shard = self.0.shard(index);
        let at = shard.free.pop().unwrap_or(shard.places.len());
        let watched = Arc::new(Watched {
            ids: watch.revocation_ids.clone(),
            expires: watch.expires.unwrap_or(Timestamp::MAX),
            decide_again: terms.decide_again,
            on_end: terms.on_end,
            registry: self.0.clone(),
            place: (index, at),
            limits: (seconds(terms.head), seconds(terms.idle)),
            cut: AtomicU8::new(0),
            begun: AtomicBool::new(false),
            complete: AtomicBool::new(false),
            moved: AtomicBool::new(true),
            quiet_since: AtomicU32::new(0),
            decided: AtomicU32::new(0),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            waker: AtomicWaker::new(),
            answer: Mutex::new(None),
        });
        match shard.places.get_mut(at) {
            Some(place) => *place = Arc::downgrade(&watched),
            None => shard.places.push(Arc::downgrade(&watched)),
        }
        drop(shard);
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Guard(watched)
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
    fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        // the index is always below SHARDS
        let shard = self.shards.get(index).unwrap_or(&self.shards[0]);
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Why it is to be cut now, if it is.
    fn due(&self, now: Timestamp, uptime: u32, revoked: &dyn Fn(&[RevocationId]) -> bool) -> Option<Cut> {
        if revoked(&self.ids) {
            return Some(Cut::Revoked);
        }
        if now >= self.expires {
            return Some(Cut::Expired);
        }
        if self.moved.swap(false, Ordering::Relaxed) {
            self.quiet_since.store(uptime, Ordering::Relaxed);
        }
        let (head, idle) = self.limits;
        let limit = if self.begun.load(Ordering::Relaxed) { idle } else { head };
        if uptime.saturating_sub(self.quiet_since.load(Ordering::Relaxed)) >= limit {
            return Some(Cut::Idle);
        }
        let holds = self.decide_again.as_ref()?;
        if uptime.saturating_sub(self.decided.load(Ordering::Relaxed)) < DECIDE_EVERY as u32 {
            return None;
        }
        self.decided.store(uptime, Ordering::Relaxed);
        if holds(now) { None } else { Some(Cut::Denied) }
    }

    fn cut(&self, cut: Cut) {
        if self.cut.compare_exchange(0, cut as u8, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        metrics::counter!("kleis_relays_cut_total", "cause" => format!("{cut:?}").to_lowercase()).increment(1);
        let answer = self.answer().take();
        drop(answer);
        self.waker.wake();
    }

    fn answer(&self) -> MutexGuard<'_, Option<AnswerBody>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let (index, at) = self.place;
        let mut shard = self.registry.shard(index);
        if let Some(place) = shard.places.get_mut(at) {
            *place = Weak::new();
            shard.free.push(at);
        }
        drop(shard);
        self.registry.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(on_end) = self.on_end.take() {
            on_end(Report {
                up: *self.up.get_mut(),
                down: *self.down.get_mut(),
                cut: Cut::from_code(*self.cut.get_mut()),
                complete: *self.complete.get_mut(),
            });
        }
    }
}

/// The right to go on relaying, while it lasts. Cheap to clone; the report is told when the last one is gone.
#[derive(Clone)]
pub struct Guard(Arc<Watched>);

impl Guard {
    /// Why it was cut, if it was.
    pub fn cut(&self) -> Option<Cut> {
        Cut::from_code(self.0.cut.load(Ordering::Acquire))
    }

    /// Ready when it is cut. One task at a time is woken: the one that polled last.
    pub fn poll_cut(&self, cx: &mut Context<'_>) -> Poll<Cut> {
        if let Some(cut) = self.cut() {
            return Poll::Ready(cut);
        }
        self.0.waker.register(cx.waker());
        self.cut().map_or(Poll::Pending, Poll::Ready)
    }

    /// Runs a future until it ends or the guard cuts; a cut drops it.
    pub async fn watch<F: Future>(&self, future: F) -> Result<F::Output, Cut> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(cut) = self.poll_cut(cx) {
                return Poll::Ready(Err(cut));
            }
            future.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// The answer has begun (or the tunnel is open): from here on silence has the shorter limit.
    pub fn begin(&self) {
        self.0.begun.store(true, Ordering::Relaxed);
        self.0.moved.store(true, Ordering::Relaxed);
    }

    /// Bytes went up.
    pub fn count_up(&self, bytes: u64) {
        self.0.up.fetch_add(bytes, Ordering::Relaxed);
        self.0.moved.store(true, Ordering::Relaxed);
    }

    /// Bytes came down.
    pub fn count_down(&self, bytes: u64) {
        self.0.down.fetch_add(bytes, Ordering::Relaxed);
        self.0.moved.store(true, Ordering::Relaxed);
    }

    /// The answer has reached its end.
    pub fn complete(&self) {
        self.0.complete.store(true, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("cut", &self.cut()).finish_non_exhaustive()
    }
}

/// An answer's body, as the client's connection sends it: under guard, counted, frame by frame as it comes.
#[derive(Debug)]
pub struct RelayBody {
    guard: Guard,
    ended: bool,
}

impl RelayBody {
    /// An answer's body under its guard.
    pub fn new(body: AnswerBody, guard: Guard) -> RelayBody {
        guard.begin();
        let ended = body.is_end_stream();
        if ended {
            guard.complete();
        } else {
            let mut answer = guard.0.answer();
            // a cut between the head and here has looked for the body in vain
            *answer = if guard.cut().is_none() { Some(body) } else { None };
            drop(answer);
        }
        RelayBody { guard, ended }
    }

    /// No body: what goes with a 101.
    pub fn empty(guard: Guard) -> RelayBody {
        RelayBody { guard, ended: true }
    }

    fn end(&mut self) {
        self.ended = true;
        self.guard.complete();
        // the connection goes back to the pool now, not when the client has taken the last byte
        self.guard.0.answer().take();
    }
}

impl HttpBody for RelayBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(cut) = self.guard.poll_cut(cx) {
            return Poll::Ready(Some(Err(cut.into())));
        }
        let (polled, ended) = {
            let mut answer = self.guard.0.answer();
            let Some(body) = answer.as_mut() else {
                return Poll::Ready(self.guard.cut().map(|cut| Err(cut.into())));
            };
            let polled = Pin::new(&mut *body).poll_frame(cx);
            let ended = matches!(polled, Poll::Ready(None)) || (polled.is_ready() && body.is_end_stream());
            (polled, ended)
        };
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.guard.count_down(frame.data_ref().map_or(0, |data| data.len() as u64));
        }
        if ended && !matches!(polled, Poll::Ready(Some(Err(_)))) {
            self.end();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        if self.ended {
            return SizeHint::with_exact(0);
        }
        self.guard.0.answer().as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

impl Drop for RelayBody {
    fn drop(&mut self) {
        // the client is gone or has all: nothing may hold the upstream's connection any longer
        if !self.ended {
            self.guard.0.answer().take();
        }
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
