//! One relay and what may end it before its end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;

use super::watchers::Registry;
use crate::policy::Watch;
use crate::token::RevocationId;
use crate::upstream::AnswerBody;
use crate::words::Timestamp;

/// How often checks in an odd form are evaluated again, in seconds (DESIGN §10).
const DECIDE_EVERY: u32 = 10;

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

/// Where a relay is listed.
pub(super) struct Place {
    pub(super) registry: Arc<Registry>,
    pub(super) index: usize,
    pub(super) at: usize,
}

/// One relay, as both its parts and the sweep see it.
pub(super) struct Watched {
    ids: Arc<[RevocationId]>,
    expires: Timestamp,
    decide_again: Option<Again>,
    on_end: Option<OnEnd>,
    place: Place,
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

impl Watched {
    pub(super) fn new(watch: &Watch, terms: Terms, place: Place) -> Watched {
        let seconds = |d: Duration| u32::try_from(d.as_secs().max(1)).unwrap_or(u32::MAX);
        Watched {
            ids: watch.revocation_ids.clone(),
            expires: watch.expires.unwrap_or(Timestamp::MAX),
            decide_again: terms.decide_again,
            on_end: terms.on_end,
            place,
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
        }
    }

    /// Why it is to be cut now, if it is.
    pub(super) fn due(&self, now: Timestamp, uptime: u32, revoked: &dyn Fn(&[RevocationId]) -> bool) -> Option<Cut> {
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
        if uptime.saturating_sub(self.decided.load(Ordering::Relaxed)) < DECIDE_EVERY {
            return None;
        }
        self.decided.store(uptime, Ordering::Relaxed);
        if holds(now) { None } else { Some(Cut::Denied) }
    }

    /// Cuts it, once.
    pub(super) fn cut(&self, cut: Cut) {
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
        self.place.registry.leave(self.place.index, self.place.at);
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
    pub(super) fn new(watched: Arc<Watched>) -> Guard {
        Guard(watched)
    }

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

impl Guard {
    /// The answer's body, while it is relayed.
    pub(super) fn answer(&self) -> MutexGuard<'_, Option<AnswerBody>> {
        self.0.answer()
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("cut", &self.cut()).finish_non_exhaustive()
    }
}
