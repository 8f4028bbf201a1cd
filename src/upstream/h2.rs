//! An HTTP/2 connection, shared by many requests.
//!
//! The `h2` crate is used as it is, without hyper's client around it: hyper starts a task for each request and
//! passes head and answer through channels, a quarter of what a small request costs. Here the request's
//! own task polls its stream; one task for each connection moves the bytes.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, Reason as Code, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use http_body::Body as _;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::body::{Body, BodyError};
use super::error::UpstreamError;
use super::gauge::Open;
use super::io::Io;
use crate::words::Reason;

/// A stream's window: what an upstream may send ahead of a slow client. Large, because a download's speed is
/// window / round trip, and it is the most that a stalled stream holds in memory.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// The window of all streams of a connection together.
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;
/// Fewer, larger frames; upstreams that don't care send 16 KiB as ever.
const MAX_FRAME: u32 = 64 * 1024;
/// Streams at once on one connection, if the upstream allows so many.
const MAX_STREAMS: usize = 256;
/// Interim answers to one request (R121).
const MAX_INTERIM: usize = 64;
/// A connection with open streams that has been silent for so long is asked whether it still lives.
const PING_EVERY: Duration = Duration::from_secs(30);
/// How long the answer to that may take.
const PING_WAIT: Duration = Duration::from_secs(15);

/// One connection.
#[derive(Debug)]
pub(super) struct H2 {
    sender: SendRequest<Bytes>,
    active: AtomicUsize,
    born: Instant,
    /// When the last stream ended: milliseconds of the connection's life.
    quiet_since: AtomicU64,
    closed: AtomicBool,
    close: Notify,
}

/// One stream's place on its connection.
pub(super) struct Place {
    connection: Arc<H2>,
    sender: SendRequest<Bytes>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Place")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let connection = &self.connection;
        if connection.active.fetch_sub(1, Ordering::Relaxed) == 1 {
            let lived = connection.born.elapsed().as_millis();
            connection.quiet_since.store(u64::try_from(lived).unwrap_or(u64::MAX), Ordering::Relaxed);
            if connection.is_closed() {
                connection.close.notify_one();
            }
        }
    }
}

impl H2 {
    /// Speaks the preface and starts the connection's task.
    pub(super) async fn open(io: Io, max_head: usize) -> Result<Arc<H2>, UpstreamError> {
        let (sender, mut connection) = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(MAX_FRAME)
            .max_header_list_size(u32::try_from(max_head).unwrap_or(u32::MAX))
            .max_send_buffer_size(256 * 1024)
            .enable_push(false)
            .handshake(io)
            .await
            .map_err(|e| UpstreamError::unsent(Reason::UpstreamUnreachable, e))?;
        let pings = connection.ping_pong();
        let h2 = Arc::new(H2 {
            sender,
            active: AtomicUsize::new(0),
            born: Instant::now(),
            quiet_since: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            close: Notify::new(),
        });
        tokio::spawn(drive(h2.clone(), connection, pings));
        Ok(h2)
    }

    /// A place for one more stream, unless the connection is full or on its way out.
    pub(super) fn place(self: &Arc<Self>) -> Option<Place> {
        if self.active() < self.sender.current_max_send_streams().min(MAX_STREAMS) { self.squeeze() } else { None }
    }

    /// A place although the connection may be full: the stream waits for its turn.
    pub(super) fn squeeze(self: &Arc<Self>) -> Option<Place> {
        if self.is_closed() {
            return None;
        }
        let mut sender = self.sender.clone();
        if let Poll::Ready(Err(error)) = sender.poll_ready(&mut Context::from_waker(Waker::noop())) {
            // a GOAWAY, or no more stream ids: what runs runs to its end, nothing new begins
            tracing::debug!(%error, "an upstream's HTTP/2 connection takes no more streams");
            self.retire();
            return None;
        }
        self.active.fetch_add(1, Ordering::Relaxed);
        Some(Place { connection: self.clone(), sender })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Whether no stream has been open for so long.
    pub(super) fn quiet_for(&self, long: Duration) -> bool {
        let since = Duration::from_millis(self.quiet_since.load(Ordering::Relaxed));
        self.active() == 0 && self.born.elapsed().saturating_sub(since) >= long
    }

    /// Takes no more streams; the connection ends when the last one has.
    pub(super) fn retire(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.close.notify_one();
    }
}

/// The connection's task: moves bytes until the connection ends, is retired, or no longer answers.
async fn drive(h2: Arc<H2>, connection: Connection<Io, Bytes>, mut pings: Option<PingPong>) {
    let _open = Open::new("h2");
    let mut connection = pin!(connection);
    let mut retired = false;
    let mut next_ping = pin!(sleep(PING_EVERY));
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "an upstream's HTTP/2 connection ended");
                }
                break;
            }
            () = h2.close.notified() => retired = true,
            () = &mut next_ping => {
                if h2.active() > 0 && let Some(pings) = &mut pings {
                    // the connection must be driven while the pong is awaited
                    let alive = tokio::select! {
                        _ended = &mut connection => false,
                        pong = timeout(PING_WAIT, pings.ping(Ping::opaque())) => matches!(pong, Ok(Ok(_))),
                    };
                    if !alive {
                        break;
                    }
                }
                next_ping.as_mut().reset(Instant::now() + PING_EVERY);
            }
        }
        if retired && h2.active() == 0 {
            break;
        }
    }
    h2.closed.store(true, Ordering::Relaxed);
}

/// A request that failed, with its body if that has not been touched.
pub(super) struct Failed {
    pub(super) error: UpstreamError,
    /// The upstream has said that it did nothing with the request.
    pub(super) unprocessed: bool,
}

/// An answer's head, with the stream of its body and what is still to be sent up.
pub(super) struct Sent {
    pub(super) answer: Response<RecvStream>,
    pub(super) rest: Option<Pump>,
    pub(super) place: Place,
}

/// Sends one request on its place and waits for the head of its answer, sending the body meanwhile.
pub(super) async fn exchange(mut place: Place, request: Request<()>, body: Body) -> Result<Sent, Failed> {
    let no_body = body.is_end_stream();
    let (answer, stream) = place.sender.send_request(request, no_body).map_err(failed)?;
    let mut pump = (!no_body).then(|| Pump { body, stream, chunk: Bytes::new() });
    let mut answer = pin!(answer);
    let mut interim = 0;
    let answered = poll_fn(|cx| {
        if let Some(sending) = &mut pump
            && let Poll::Ready(sent) = sending.poll(cx)
        {
            pump = None;
            if let Err(error) = sent {
                return Poll::Ready(Err(Failed { error, unprocessed: false }));
            }
        }
        poll_answer(answer.as_mut(), &mut interim, cx)
    })
    .await?;
    Ok(Sent { answer: answered, rest: pump, place })
}

fn poll_answer(
    mut answer: Pin<&mut ResponseFuture>,
    interim: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<Result<Response<RecvStream>, Failed>> {
    while let Poll::Ready(Some(Ok(_interim))) = answer.poll_informational(cx) {
        *interim += 1;
        if *interim > MAX_INTERIM {
            let error = UpstreamError::said(Reason::UpstreamProtocol, "too many interim answers").sent();
            return Poll::Ready(Err(Failed { error, unprocessed: false }));
        }
    }
    answer.poll(cx).map_err(failed)
}

fn failed(error: h2::Error) -> Failed {
    // RFC 9113 §8.7: a refused stream, and one above the last that a GOAWAY names, was not processed
    let unprocessed = error.is_remote() && (error.is_go_away() || error.reason() == Some(Code::REFUSED_STREAM));
    let reason = match error.reason() {
        _ if unprocessed || error.is_io() || error.is_go_away() => Reason::UpstreamUnreachable,
        _ => Reason::UpstreamProtocol,
    };
    Failed { error: UpstreamError::new(reason, error), unprocessed }
}

/// Moves a request's body into its stream as fast as the upstream's windows allow.
pub(super) struct Pump {
    body: Body,
    stream: SendStream<Bytes>,
    /// Read from the body and not yet sent.
    chunk: Bytes,
}

impl Pump {
    /// Ready when the body is through, or when the upstream wants no more of it.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), UpstreamError>> {
        loop {
            if !self.chunk.is_empty() {
                match ready!(self.poll_chunk(cx)) {
                    Some(()) => {}
                    None => return Poll::Ready(Ok(())),
                }
            }
            if let Poll::Ready(reset) = self.stream.poll_reset(cx) {
                // the answer says why: an early one ends with NO_ERROR
                tracing::trace!(?reset, "an upstream wants no more of a body");
                return Poll::Ready(Ok(()));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => return Poll::Ready(self.finish(|stream| stream.send_data(Bytes::new(), true))),
                Some(Err(error)) => {
                    self.stream.send_reset(Code::CANCEL);
                    return Poll::Ready(Err(aborted(error)));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.chunk = data,
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        return Poll::Ready(self.finish(|stream| stream.send_trailers(trailers)));
                    }
                },
            }
        }
    }

    /// Sends what the window allows of the chunk; `None` when the stream is over.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        while !self.chunk.is_empty() {
            self.stream.reserve_capacity(self.chunk.len());
            let mut room = self.stream.capacity();
            if room == 0 {
                match ready!(self.stream.poll_capacity(cx)) {
                    Some(Ok(more)) => room = more,
                    Some(Err(_)) | None => return Poll::Ready(None),
                }
            }
            let part = self.chunk.split_to(room.min(self.chunk.len()));
            let last = self.chunk.is_empty() && self.body.is_end_stream();
            if self.stream.send_data(part, last).is_err() || last {
                return Poll::Ready(None);
            }
        }
        Poll::Ready(Some(()))
    }

    fn finish(
        &mut self,
        end: impl FnOnce(&mut SendStream<Bytes>) -> Result<(), h2::Error>,
    ) -> Result<(), UpstreamError> {
        if let Err(error) = end(&mut self.stream) {
            // the stream is over already, and the answer says why
            tracing::trace!(%error, "the end of a body came too late");
        }
        Ok(())
    }
}

impl Future for Pump {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pump::poll(&mut self, cx).map(|_| ())
    }
}

/// The client broke off its own upload.
fn aborted(error: BodyError) -> UpstreamError {
    #[derive(Debug, thiserror::Error)]
    #[error("the request's body broke off: {0}")]
    struct Aborted(BodyError);
    UpstreamError::new(Reason::Malformed, Aborted(error))
}

/// The next part of an answer's body.
pub(super) fn poll_body(
    stream: &mut RecvStream,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<http_body::Frame<Bytes>, BodyError>>> {
    match ready!(stream.poll_data(cx)) {
        Some(Ok(data)) => {
            // what the client's connection has taken makes room: it takes no more than it can send
            let _ = stream.flow_control().release_capacity(data.len());
            Poll::Ready(Some(Ok(http_body::Frame::data(data))))
        }
        // an upstream that has answered in full may tell us to stop sending (RFC 9113 §8.1)
        Some(Err(error)) if error.reason() == Some(Code::NO_ERROR) => Poll::Ready(None),
        Some(Err(error)) => Poll::Ready(Some(Err(error.into()))),
        None => {
            let trailers: Option<HeaderMap> = ready!(stream.poll_trailers(cx))?;
            Poll::Ready(trailers.map(|trailers| Ok(http_body::Frame::trailers(trailers))))
        }
    }
}
