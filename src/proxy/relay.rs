//! Bodies on their way, under a guard that can cut them (DESIGN §3.7, invariant 9).
//!
//! A permit says what must stay true while its request is relayed: none of the token's ids revoked, its
//! time not up. Each relay owns a [`Guard`]; all guards are listed in one [`Watchers`], which a single task
//! sweeps: at once when something has been revoked, and every second for what ends by time. So a relay costs
//! no timer and no task of its own, and nothing but one atomic load for each frame.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::policy::Watch;
use crate::token::RevocationId;
use crate::upstream::{AnswerBody, BodyError};
use crate::words::Timestamp;

/// Why a relay was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Cut {
    /// One of the token's ids was revoked.
    Revoked = 1,
    /// The token's time is up.
    Expired = 2,
    /// Its checks, evaluated again, no longer hold.
    Denied = 3,
    /// Nothing moved for longer than the limit.
    Idle = 4,
    /// The daemon is going down.
    ShuttingDown = 5,
}

/// What a relay came to; told once, when its last part is gone.
#[derive(Debug, Clone, Copy, Default)]
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

/// What a guard is made with, besides the permit's [`Watch`].
pub struct Terms {
    /// Silence that ends it once the answer has begun.
    pub idle: Duration,
    /// How long the answer's head may take.
    pub head: Duration,
    /// For tokens whose checks look at the time in an odd form: evaluated every 10 s; `false` cuts.
    pub decide_again: Option<Box<dyn Fn(Timestamp) -> bool + Send + Sync>>,
    /// Told at the end.
    pub on_end: Option<Box<dyn FnOnce(Report) + Send + Sync>>,
}

/// Every open relay of this process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Watchers(Arc<()>);

impl Watchers {
    /// None yet.
    pub fn new() -> Watchers {
        Watchers::default()
    }

    /// A guard for one relay. It begins by waiting for the answer's head.
    pub fn guard(&self, watch: &Watch, terms: Terms) -> Guard {
        let _ = (watch, terms);
        todo!()
    }

    /// How many relays are open.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Looks at all of them once: whose ids are revoked, whose time is up.
    pub fn sweep(&self, now: Timestamp, revoked: &dyn Fn(&RevocationId) -> bool) {
        let _ = (now, revoked);
        todo!()
    }

    /// Cuts all of them: the last step of a shutdown.
    pub fn cut_all(&self, cut: Cut) {
        let _ = cut;
        todo!()
    }

    /// The one task: sweeps whenever `changed` is notified, and every second. Ends when its sender is gone.
    pub async fn run(
        self,
        changed: tokio::sync::watch::Receiver<u64>,
        clock: impl Fn() -> Timestamp + Send,
        revoked: impl Fn(&RevocationId) -> bool + Send,
    ) {
        let _ = (changed, clock, revoked);
        todo!()
    }
}

/// The right to go on relaying, while it lasts. Cheap to clone; the report is told when the last one is gone.
#[derive(Clone)]
pub struct Guard(Arc<()>);

impl Guard {
    /// Why it was cut, if it was.
    pub fn cut(&self) -> Option<Cut> {
        todo!()
    }
}

/// An answer's body, as the client's connection sends it: under guard, counted, flushed frame by frame.
pub struct RelayBody {
    body: AnswerBody,
    guard: Guard,
}

impl RelayBody {
    /// An answer's body under its guard.
    pub fn new(body: AnswerBody, guard: Guard) -> RelayBody {
        RelayBody { body, guard }
    }
}

impl HttpBody for RelayBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let _ = (&self.body, &self.guard);
        todo!()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
