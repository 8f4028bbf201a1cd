//! An HTTP/1.1 connection, driven by whoever uses it.
//!
//! hyper's client gives a handle and a driver, and expects the driver in a task of its own. Here the two stay
//! together: the request that holds the connection polls the driver itself, and an idle connection is
//! polled by nobody. That saves two wake-ups a request, and a connection is never answered by a task that
//! nobody waits for. The price: that an idle connection has been closed is seen when it is taken out
//! ([`H1::is_alive`]) or by the pool's sweep.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::body::Body;
use super::error::UpstreamError;
use super::gauge::Open;
use super::io::{Io, Trace};
use crate::words::Reason;

/// Bytes that may come before the head of the final answer, interim answers included (R121).
const MAX_BEFORE_HEAD: u64 = 512 * 1024;
/// Fields of an answer's head.
const MAX_FIELDS: usize = 256;

/// One connection.
pub(super) struct H1 {
    sender: http1::SendRequest<Body>,
    driver: http1::Connection<TokioIo<Io>, Body>,
    trace: Trace,
    /// Whether the driver has come to its end.
    finished: bool,
    _open: Open,
}

/// What became of a request.
pub(super) enum Sent {
    /// Its answer, and the connection if it goes on.
    Answer(Response<Incoming>, Option<Box<H1>>),
    /// A 101, and what the connection has become.
    Switched(Response<()>, Io, Bytes),
}

/// A request that failed; the request itself if no byte of it has left.
pub(super) struct Failed {
    pub(super) error: UpstreamError,
    pub(super) unsent: Option<Box<Request<Body>>>,
}

impl H1 {
    pub(super) async fn open(io: Io, max_head: usize) -> Result<Box<H1>, UpstreamError> {
        let trace = io.trace();
        let mut builder = http1::Builder::new();
        builder.max_headers(MAX_FIELDS).max_header_size(max_head);
        let (sender, driver) = builder
            .handshake(TokioIo::new(io))
            .await
            .map_err(|e| UpstreamError::unsent(Reason::UpstreamUnreachable, e))?;
        Ok(Box::new(H1 { sender, driver, trace, finished: false, _open: Open::new("http/1.1") }))
    }

    /// Whether an idle connection can take a request: the upstream has neither closed it nor said
    /// anything out of turn.
    pub(super) fn is_alive(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.poll_driver(&mut context);
        !self.finished && self.sender.is_ready() && !self.trace.is_deaf()
    }

    /// Moves bytes. Returns whether the connection has come to its end.
    pub(super) fn poll_driver(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.finished && Pin::new(&mut self.driver).poll_without_shutdown(cx).is_ready() {
            self.finished = true;
        }
        self.finished
    }

    /// Whether request and answer are both through, so that the next request may come.
    pub(super) fn is_free(&mut self, cx: &mut Context<'_>) -> bool {
        if self.trace.is_deaf() {
            return false;
        }
        (self.sender.is_ready() && !self.finished) || (!self.poll_driver(cx) && self.sender.is_ready())
    }

    /// Sends one request and waits for the head of its answer.
    pub(super) async fn exchange(mut self: Box<Self>, request: Request<Body>, upgrade: bool) -> Result<Sent, Failed> {
        let heard_before = self.trace.heard();
        let mut answer = pin!(self.sender.try_send_request(request));
        let answered = poll_fn(|cx| {
            let finished = self.poll_driver(cx);
            match answer.as_mut().poll(cx) {
                Poll::Ready(answered) => Poll::Ready(answered.map_err(|mut e| Failed {
                    unsent: e.take_message().map(Box::new),
                    error: UpstreamError::new(reason(e.error()), e.into_error()),
                })),
                Poll::Pending if finished => Poll::Ready(Err(broken("the connection ended before an answer"))),
                Poll::Pending if self.trace.heard() - heard_before > MAX_BEFORE_HEAD => {
                    Poll::Ready(Err(broken("too much came before the head of an answer")))
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await?;
        if answered.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.switch(answered, upgrade).await;
        }
        let conn = (!self.finished).then_some(self);
        Ok(Sent::Answer(answered, conn))
    }

    /// Takes the connection out of HTTP after a 101 that was asked for.
    async fn switch(mut self: Box<Self>, answer: Response<Incoming>, asked: bool) -> Result<Sent, Failed> {
        if !asked {
            return Err(broken("the upstream switched protocols, which nobody had asked for"));
        }
        let (head, _no_body) = answer.into_parts();
        if !self.finished {
            poll_fn(|cx| if self.poll_driver(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
        }
        let parts = self.driver.into_parts();
        Ok(Sent::Switched(Response::from_parts(head, ()), parts.io.into_inner(), parts.read_buf))
    }
}

fn broken(text: &'static str) -> Failed {
    Failed { error: UpstreamError::said(Reason::UpstreamProtocol, text).sent(), unsent: None }
}

/// What a failure of hyper's is for the client.
fn reason(error: &hyper::Error) -> Reason {
    if error.is_parse() || error.is_parse_too_large() || error.is_parse_status() {
        Reason::UpstreamProtocol
    } else {
        Reason::UpstreamUnreachable
    }
}

impl std::fmt::Debug for H1 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("H1").field("finished", &self.finished).finish_non_exhaustive()
    }
}
