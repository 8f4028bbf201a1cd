//! An answer's body on its way to the client (DESIGN §3.7): under guard, counted, frame by frame as it comes.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

pub use super::watchers::{Again, Cut, Guard, OnEnd, Report, Terms, Watchers};
use crate::upstream::{AnswerBody, BodyError};

/// An answer's body, as the client's connection sends it. Nothing is held back: a frame that is there is
/// given out (R109).
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
            let mut answer = guard.answer();
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
        self.guard.answer().take();
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
            let mut answer = self.guard.answer();
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
        self.guard.answer().as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

impl Drop for RelayBody {
    fn drop(&mut self) {
        // the client is gone or has all: nothing may hold the upstream's connection any longer
        if !self.ended {
            self.guard.answer().take();
        }
    }
}
