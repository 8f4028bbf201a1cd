//! Bodies, as they go up and come down.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::task::JoinHandle;

use super::h1::H1;
use super::h2::{self as h2_connection, Place};
use super::pool::Slot;

/// Any failure of a body; what it was is for the log.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A request's body on its way up.
pub struct Body(Kind);

enum Kind {
    Empty,
    /// In hand: can be sent again.
    Whole(Option<Bytes>),
    Stream(Stream),
}

struct Stream {
    body: Pin<Box<dyn HttpBody<Data = Bytes, Error = BodyError> + Send>>,
    /// Set when the last frame has been taken.
    ended: Arc<AtomicBool>,
}

impl Body {
    /// No body.
    pub fn empty() -> Body {
        Body(Kind::Empty)
    }

    /// A body in hand.
    pub fn whole(bytes: impl Into<Bytes>) -> Body {
        let bytes = bytes.into();
        Body(if bytes.is_empty() { Kind::Empty } else { Kind::Whole(Some(bytes)) })
    }

    /// A body that comes as it comes.
    pub fn stream<B>(body: B) -> Body
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BodyError>,
    {
        if body.is_end_stream() {
            return Body::empty();
        }
        Body(Kind::Stream(Stream { body: Box::pin(body.map_err(Into::into)), ended: Arc::default() }))
    }

    /// The same body again, if it is in hand.
    pub fn again(&self) -> Option<Body> {
        match &self.0 {
            Kind::Empty => Some(Body::empty()),
            Kind::Whole(bytes) => Some(Body(Kind::Whole(bytes.clone()))),
            Kind::Stream(_) => None,
        }
    }

    /// Tells, from afar, when a streamed body is through.
    pub(super) fn progress(&self) -> Option<Arc<AtomicBool>> {
        match &self.0 {
            Kind::Empty | Kind::Whole(_) => None,
            Kind::Stream(stream) => Some(stream.ended.clone()),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.0 {
            Kind::Empty => "Body(empty)",
            Kind::Whole(_) => "Body(whole)",
            Kind::Stream(_) => "Body(stream)",
        })
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(stream) => {
                let polled = stream.body.as_mut().poll_frame(cx);
                if matches!(polled, Poll::Ready(None | Some(Err(_)))) || stream.body.is_end_stream() {
                    stream.ended.store(true, Ordering::Relaxed);
                }
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty | Kind::Whole(None) => true,
            Kind::Whole(Some(_)) => false,
            Kind::Stream(stream) => stream.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty | Kind::Whole(None) => SizeHint::with_exact(0),
            Kind::Whole(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream(stream) => stream.body.size_hint(),
        }
    }
}

/// An answer's body on its way down. Dropping it before its end gives its connection (or stream) up.
#[derive(Debug)]
pub struct AnswerBody {
    kind: Down,
    /// A task that still sends the request's body, after an early answer.
    upload: Option<Task>,
    early: bool,
}

#[derive(Debug)]
enum Down {
    H1 {
        body: Incoming,
        /// The connection that the body comes from, and where it goes back to.
        home: Option<(Box<H1>, Arc<Slot>)>,
    },
    H2 {
        stream: RecvStream,
        /// What `Content-Length` has promised and not come yet.
        left: Option<u64>,
        _place: Place,
    },
    Ended,
}

/// A task that ends with whoever waits for it.
#[derive(Debug)]
pub(super) struct Task(pub(super) JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The upstream ended a stream before all that it had promised was there.
#[derive(Debug, thiserror::Error)]
#[error("the answer's body ended {0} bytes early")]
struct Short(u64);

impl AnswerBody {
    /// The body of an answer over HTTP/1.1. Goes home at once if it has none.
    pub(super) fn h1(body: Incoming, home: Option<(Box<H1>, Arc<Slot>)>) -> AnswerBody {
        let ended = body.is_end_stream();
        let mut answer = AnswerBody { kind: Down::H1 { body, home }, upload: None, early: false };
        if ended {
            answer.go_home(&mut Context::from_waker(std::task::Waker::noop()));
        }
        answer
    }

    /// The body of an answer over HTTP/1.1 that began before its request had ended; `upload` goes on with the
    /// request.
    pub(super) fn early_h1(body: Incoming, upload: Option<Task>) -> AnswerBody {
        AnswerBody { kind: Down::H1 { body, home: None }, upload, early: true }
    }

    /// The body of an answer over HTTP/2.
    pub(super) fn h2(stream: RecvStream, length: Option<u64>, place: Place, upload: Option<Task>) -> AnswerBody {
        let early = upload.is_some();
        AnswerBody { kind: Down::H2 { stream, left: length, _place: place }, upload, early }
    }

    /// Whether the answer began before its request had ended.
    pub fn is_early(&self) -> bool {
        self.early
    }

    /// Gives the connection back, if the request is through as well.
    fn go_home(&mut self, cx: &mut Context<'_>) {
        if let Down::H1 { home, .. } = &mut self.kind
            && let Some((mut connection, slot)) = home.take()
            && connection.is_free(cx)
        {
            slot.put(connection);
        }
        self.kind = Down::Ended;
        self.upload = None;
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let polled = match &mut this.kind {
            Down::Ended => Poll::Ready(None),
            Down::H1 { body, home } => poll_h1(body, home, cx),
            Down::H2 { stream, left, .. } => poll_h2(stream, left, cx),
        };
        let ended = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Err(_))) => {
                this.kind = Down::Ended;
                false
            }
            Poll::Ready(Some(Ok(_))) => this.is_end_stream(),
            Poll::Pending => false,
        };
        if ended {
            this.go_home(cx);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Down::Ended => true,
            Down::H1 { body, .. } => body.is_end_stream(),
            Down::H2 { stream, .. } => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Down::Ended => SizeHint::with_exact(0),
            Down::H1 { body, .. } => body.size_hint(),
            Down::H2 { left: Some(left), .. } => SizeHint::with_exact(*left),
            Down::H2 { stream, .. } if stream.is_end_stream() => SizeHint::with_exact(0),
            Down::H2 { .. } => SizeHint::default(),
        }
    }
}

/// The body first: what is there needs no driving. Then the connection, then what it may have brought.
fn poll_h1(
    body: &mut Incoming,
    home: &mut Option<(Box<H1>, Arc<Slot>)>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
    if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
        return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
    }
    if let Some((connection, _)) = home
        && connection.poll_driver(cx)
    {
        *home = None;
    }
    Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
}

fn poll_h2(
    stream: &mut RecvStream,
    left: &mut Option<u64>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
    let polled = h2_connection::poll_body(stream, cx);
    match (&polled, left) {
        (Poll::Ready(Some(Ok(frame))), Some(left)) => {
            *left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
            polled
        }
        (Poll::Ready(None), Some(left)) if *left > 0 => Poll::Ready(Some(Err(Box::new(Short(*left))))),
        _ => polled,
    }
}
