//! A strict reader in front of hyper's HTTP/1 server.
//!
//! hyper sees only whole heads that [`framing`](super::framing) has passed, and never a byte of the next
//! request while one is being read. What breaks the rules is answered here: a fixed refusal, then the
//! connection closes after a bounded drain, so that the client reads the answer and not a reset (R114).
//! The guard also keeps the connection's clock (slow heads, idle keep-alive, slow bodies: R117) with
//! one lazily moved timer, where hyper would allocate one for each request.
//!
//! It costs one pass over a head and no copy: bytes are read into hyper's own buffer and checked there;
//! only what must wait (half a head, the next request of a pipeline) is put aside.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::framing::{Framing, Head, HeadLimits, Progress, Violation};
use crate::words::Reason;

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a head, from its first byte; for the first head, from the connection's begin.
    pub head: Duration,
    /// Between requests, and between two pieces of a body.
    pub idle: Duration,
    /// For an answer to a client that has closed its half (R115): a late answer is still delivered.
    pub linger: Duration,
}

/// What a connection's service and its guard tell each other.
#[derive(Debug, Default)]
pub struct Signals {
    /// A request is being answered.
    busy: AtomicBool,
    /// One has been answered since the guard last looked.
    served: AtomicBool,
    /// The connection is no longer HTTP: what comes is relayed as it is.
    raw: AtomicBool,
    violation: std::sync::OnceLock<Violation>,
    waiting: AtomicWaker,
}

impl Signals {
    /// The answer has gone out to its end, or never will.
    pub fn answered(&self) {
        self.served.store(true, Ordering::Relaxed);
        self.busy.store(false, Ordering::Release);
        self.waiting.wake();
    }

    /// From here on bytes pass unread: a tunnel or an upgrade.
    pub fn switch_to_raw(&self) {
        self.raw.store(true, Ordering::Release);
    }

    /// What ended the connection, if the client broke a rule.
    pub fn violation(&self) -> Option<Violation> {
        self.violation.get().copied()
    }
}

/// Makes the answer to a violation, once it is recorded.
pub type Refuse = Arc<dyn Fn(Violation, Late) -> Answering + Send + Sync>;
/// An answer in the making.
pub type Answering = Pin<Box<dyn Future<Output = Bytes> + Send>>;

/// The wrapper.
pub struct Guard<S> {
    io: S,
    signals: Arc<Signals>,
    limits: HeadLimits,
    patience: Patience,
    refuse: Refuse,
    /// Read but not passed on yet.
    aside: BytesMut,
    /// How many bytes at the front of `aside` may be passed on.
    passed: usize,
    phase: Phase,
    deadline: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    /// A body is waited for. While nobody asks for more of it, because whoever it goes to is slow, its time
    /// stands still.
    waiting_for_body: bool,
}

enum Phase {
    Head(Head),
    Body(Framing),
    Raw,
    /// The client has closed its half.
    Ended,
    /// A rule is broken; the answer to that.
    Refused(Answering),
    /// What is left to be said.
    Saying(Bytes),
    /// All is said: what still comes is thrown away, up to a bound.
    Draining {
        left: u64,
        shut: bool,
    },
    Closed,
}

/// Whether a violation is one of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// The head did not come in time: a 408.
    Yes,
    /// It came, and was wrong.
    No,
}

/// What is read of an unwanted body before the connection is closed with data unread, which resets it.
const MAX_DRAIN: u64 = 64 * 1024 * 1024;
/// How long that may take from one read to the next.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);

impl<S> Guard<S> {
    /// Guards `io`, of which nothing has been read but `first`.
    pub fn new(io: S, first: BytesMut, limits: HeadLimits, patience: Patience, refuse: Refuse) -> Guard<S> {
        Guard {
            io,
            signals: Arc::default(),
            limits,
            patience,
            refuse,
            aside: first,
            passed: 0,
            phase: Phase::Head(Head::default()),
            deadline: Instant::now() + patience.head,
            timer: None,
            waiting_for_body: false,
        }
    }

    /// What the service that answers on this connection talks to.
    pub fn signals(&self) -> Arc<Signals> {
        self.signals.clone()
    }

    /// The connection itself, and what was read of it but not passed on.
    pub fn into_parts(self) -> (S, BytesMut) {
        (self.io, self.aside)
    }

    fn violate(&mut self, violation: Violation, late: Late) {
        let _ = self.signals.violation.set(violation);
        self.phase = Phase::Refused((self.refuse)(violation, late));
        self.aside = BytesMut::new();
        self.passed = 0;
    }

    fn await_head(&mut self) {
        self.phase = Phase::Head(Head::default());
        self.deadline = Instant::now() + self.patience.idle;
    }

    fn enter_body(&mut self, framing: Framing) {
        self.signals.busy.store(true, Ordering::Release);
        if framing.is_over() {
            self.await_head();
        } else {
            self.phase = Phase::Body(framing);
        }
    }

    /// Looks at what is put aside; what may go on is counted in `passed`.
    fn examine(&mut self) {
        match &mut self.phase {
            Phase::Head(head) => {
                if head.is_new() {
                    // RFC 9112 §2.2: an empty line or two before a request line is ignored
                    while self.aside.starts_with(b"\r\n") {
                        self.aside.advance(2);
                    }
                    if self.aside.is_empty() || self.aside.as_ref() == b"\r" {
                        return;
                    }
                    self.deadline = self.deadline.min(Instant::now() + self.patience.head);
                }
                match head.feed(&self.aside, &self.limits) {
                    Ok(Progress::Partial) => {}
                    Ok(Progress::Complete(length, framing)) => {
                        self.passed = length;
                        self.enter_body(framing);
                    }
                    Err(violation) => self.violate(violation, Late::No),
                }
            }
            Phase::Body(framing) => match framing.follow(&self.aside) {
                Ok(taken) => {
                    self.passed = taken;
                    if framing.is_over() {
                        self.await_head();
                    }
                }
                Err(violation) => self.violate(violation, Late::No),
            },
            Phase::Raw => self.passed = self.aside.len(),
            Phase::Ended | Phase::Refused(_) | Phase::Saying(_) | Phase::Draining { .. } | Phase::Closed => {}
        }
    }

    /// Looks at bytes that were read straight into the reader's buffer; answers how many may stay there.
    fn examine_fresh(&mut self, fresh: &[u8]) -> usize {
        match &mut self.phase {
            Phase::Head(head) if fresh.first() != Some(&b'\r') => match head.feed(fresh, &self.limits) {
                Ok(Progress::Partial) => self.put_aside(fresh, 0, true),
                Ok(Progress::Complete(length, framing)) => {
                    self.enter_body(framing);
                    let rest = fresh.get(length..).unwrap_or_default();
                    // the body of the same request, if it came along
                    let body = match &mut self.phase {
                        Phase::Body(framing) => framing.follow(rest),
                        _ => Ok(0),
                    };
                    match body {
                        Ok(body) => {
                            self.finish_body();
                            self.put_aside(fresh, length + body, false)
                        }
                        Err(violation) => {
                            self.violate(violation, Late::No);
                            0
                        }
                    }
                }
                Err(violation) => {
                    self.violate(violation, Late::No);
                    0
                }
            },
            Phase::Body(framing) => match framing.follow(fresh) {
                Ok(taken) => {
                    self.finish_body();
                    self.put_aside(fresh, taken, false)
                }
                Err(violation) => {
                    self.violate(violation, Late::No);
                    0
                }
            },
            Phase::Raw => fresh.len(),
            _ => self.put_aside(fresh, 0, false),
        }
    }

    fn finish_body(&mut self) {
        if matches!(&self.phase, Phase::Body(framing) if framing.is_over()) {
            self.await_head();
        }
    }

    fn put_aside(&mut self, fresh: &[u8], keep: usize, head_begun: bool) -> usize {
        self.aside.extend_from_slice(fresh.get(keep..).unwrap_or_default());
        if head_begun {
            self.deadline = self.deadline.min(Instant::now() + self.patience.head);
        }
        keep
    }

    /// Whether the client has run out of time. One timer for the connection: it is armed for the
    /// nearest deadline and asked, when it fires, whether the deadline has moved on meanwhile.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let deadline = self.deadline;
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
            if deadline < timer.deadline() {
                timer.as_mut().reset(deadline);
            }
            ready!(timer.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }

    fn is_busy(&self) -> bool {
        self.signals.busy.load(Ordering::Acquire)
    }
}

impl<S: AsyncRead + Unpin> Guard<S> {
    /// Waits while an answer is on its way, then says that the client's half has ended.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_busy() {
            return Poll::Ready(Ok(()));
        }
        self.signals.waiting.register(cx.waker());
        if !self.is_busy() {
            return Poll::Ready(Ok(()));
        }
        match self.poll_deadline(cx) {
            // the answer is given up: hyper drops what makes it
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        }
    }

    /// While an answer is on its way nothing of the next request goes on. Reads ahead a little, to learn
    /// of a client that leaves.
    fn poll_ahead(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.aside.is_empty() {
            self.signals.waiting.register(cx.waker());
            return if self.is_busy() { Poll::Pending } else { Poll::Ready(Ok(())) };
        }
        let before = buf.filled().len();
        match Pin::new(&mut self.io).poll_read(cx, buf) {
            Poll::Ready(read) => read?,
            Poll::Pending => {
                // hyper does not ask again when the answer has gone out: the timer has to be set now
                while self.poll_deadline(cx).is_ready() {
                    self.deadline = Instant::now() + self.patience.idle;
                }
                return Poll::Pending;
            }
        }
        self.aside.extend_from_slice(buf.filled().get(before..).unwrap_or_default());
        buf.set_filled(before);
        if self.aside.is_empty() {
            self.phase = Phase::Ended;
            self.deadline = Instant::now() + self.patience.linger;
        }
        Poll::Ready(Ok(()))
    }

    /// What to do while nothing comes.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.phase {
            Phase::Raw => return Poll::Pending,
            Phase::Body(_) if !self.waiting_for_body => {
                self.waiting_for_body = true;
                self.deadline = Instant::now() + self.patience.idle;
            }
            _ => {}
        }
        ready!(self.poll_deadline(cx));
        if self.aside.is_empty() && self.signals.served.swap(false, Ordering::Relaxed) {
            self.deadline = Instant::now() + self.patience.idle;
            ready!(self.poll_deadline(cx));
        }
        match &self.phase {
            // between requests nobody waits for an answer
            Phase::Head(_) if self.aside.is_empty() => self.phase = Phase::Closed,
            Phase::Head(_) => {
                let text = "the head did not come in time";
                self.violate(Violation { reason: Reason::Malformed, text }, Late::Yes);
            }
            _ => return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the body stopped coming"))),
        }
        Poll::Ready(Ok(()))
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.io).poll_read(cx, buf) {
            Poll::Ready(Ok(())) => self.waiting_for_body = false,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return self.poll_silence(cx),
        }
        let fresh = buf.filled().get(before..).unwrap_or_default();
        if fresh.is_empty() {
            match self.phase {
                Phase::Head(_) if self.aside.is_empty() => {
                    self.phase = Phase::Ended;
                    self.deadline = Instant::now() + self.patience.linger;
                }
                _ => self.phase = Phase::Closed,
            }
            return Poll::Ready(Ok(()));
        }
        if self.aside.is_empty() {
            let keep = self.examine_fresh(fresh);
            buf.set_filled(before + keep);
        } else {
            self.aside.extend_from_slice(fresh);
            buf.set_filled(before);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guard<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        loop {
            if this.passed > 0 {
                let part = this.aside.split_to(this.passed.min(buf.remaining()).min(this.aside.len()));
                buf.put_slice(&part);
                this.passed -= part.len();
                return Poll::Ready(Ok(()));
            }
            match this.phase {
                Phase::Head(_) if this.signals.raw.load(Ordering::Acquire) => this.phase = Phase::Raw,
                Phase::Head(_) if this.is_busy() => {
                    ready!(this.poll_ahead(cx, buf))?;
                    continue;
                }
                Phase::Ended | Phase::Refused(_) => return this.poll_end(cx),
                Phase::Saying(_) | Phase::Draining { .. } | Phase::Closed => return Poll::Ready(Ok(())),
                Phase::Head(_) | Phase::Body(_) | Phase::Raw => {}
            }
            if !this.aside.is_empty() {
                this.examine();
                if this.passed > 0 || !matches!(this.phase, Phase::Head(_) | Phase::Body(_) | Phase::Raw) {
                    continue;
                }
            }
            ready!(this.poll_fill(cx, buf))?;
            if buf.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Guard<S> {
    /// Says what is left to say, then closes our half and reads on until the client has closed its own.
    fn poll_farewell(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.phase {
                Phase::Refused(answering) => {
                    let answer = ready!(answering.as_mut().poll(cx));
                    self.phase = Phase::Saying(answer);
                }
                Phase::Saying(answer) => {
                    while !answer.is_empty() {
                        let written = ready!(Pin::new(&mut self.io).poll_write(cx, answer))?;
                        if written == 0 {
                            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                        }
                        answer.advance(written);
                    }
                    ready!(Pin::new(&mut self.io).poll_flush(cx))?;
                    self.phase = Phase::Draining { left: MAX_DRAIN, shut: false };
                }
                // the answer has gone out before the body was read
                Phase::Body(_) => self.phase = Phase::Draining { left: MAX_DRAIN, shut: false },
                Phase::Draining { shut: shut @ false, .. } => {
                    ready!(Pin::new(&mut self.io).poll_shutdown(cx))?;
                    *shut = true;
                    self.deadline = Instant::now() + DRAIN_PATIENCE;
                }
                Phase::Draining { left, .. } => {
                    let mut space = [std::mem::MaybeUninit::uninit(); 8192];
                    let mut waste = ReadBuf::uninit(&mut space);
                    let read = Pin::new(&mut self.io).poll_read(cx, &mut waste);
                    let count = waste.filled().len() as u64;
                    *left = left.saturating_sub(count);
                    let enough = *left == 0;
                    match read {
                        Poll::Pending => {
                            ready!(self.poll_deadline(cx));
                            self.phase = Phase::Closed;
                        }
                        Poll::Ready(Ok(())) if count > 0 && !enough => self.deadline = Instant::now() + DRAIN_PATIENCE,
                        Poll::Ready(_) => self.phase = Phase::Closed,
                    }
                }
                // shutting down twice does nothing
                Phase::Head(_) | Phase::Raw | Phase::Ended | Phase::Closed => {
                    return Pin::new(&mut self.io).poll_shutdown(cx);
                }
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guard<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_farewell(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{BodyExt, Full};
    use hyper::body::Incoming;
    use hyper::{Request, Response};
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    const PATIENCE: Patience =
        Patience { head: Duration::from_secs(15), idle: Duration::from_secs(300), linger: Duration::from_secs(30) };

    fn answer() -> Refuse {
        Arc::new(|violation: Violation, late| {
            let status = if late == Late::Yes { 408 } else { 400 };
            let reason = violation.reason;
            let text = format!("HTTP/1.1 {status} x\r\nX-Kleis-Reason: {reason}\r\nConnection: close\r\n\r\n");
            Box::pin(async move { Bytes::from(text) })
        })
    }

    /// Serves one connection; answers each request with its method, path and body.
    fn serve() -> (DuplexStream, Arc<Signals>) {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let guard = Guard::new(server, BytesMut::new(), HeadLimits::default(), PATIENCE, answer());
        let signals = guard.signals();
        let told = signals.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let told = told.clone();
            async move {
                let line = format!("<{} {} ", request.method(), request.uri());
                let (early, wait) = (request.uri().path() == "/early", request.uri().path() == "/wait");
                if wait {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                }
                let body = if early {
                    drop(request);
                    Bytes::new()
                } else {
                    request.into_body().collect().await.map(|b| b.to_bytes()).unwrap_or_default()
                };
                let text = format!("{line}{}>", String::from_utf8_lossy(&body));
                told.answered();
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
            }
        });
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(guard), service);
        tokio::spawn(connection);
        (client, signals)
    }

    async fn talk(say: &[u8]) -> String {
        let (mut client, _) = serve();
        let mut heard = Vec::new();
        client.write_all(say).await.unwrap();
        client.shutdown().await.unwrap();
        client.read_to_end(&mut heard).await.unwrap();
        String::from_utf8_lossy(&heard).into_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn r37_pipelined_requests_are_seen_one_by_one_and_a_body_stays_a_body() {
        let said = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 21\r\n\r\nGET /z HTTP/1.1\r\nX: yDELETE /x HTTP/1.1\r\nHost: a\r\n\r\n\
            POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /d HTTP/1.1\r\nHost: a\r\n\r\n";
        let heard = talk(said).await;
        for part in ["<POST /a GET /z HTTP/1.1\r\nX: y>", "<DELETE /x >", "<POST /c abc>", "<GET /d >"] {
            assert!(heard.contains(part), "{part} in {heard}");
        }
        assert_eq!(heard.matches("200 OK").count(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn every_split_of_the_bytes_is_read_alike() {
        let said = b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\r\nGET /d HTTP/1.1\r\nHost: a\r\n\r\n";
        for size in 1..said.len() {
            let (mut client, _) = serve();
            for part in said.chunks(size) {
                client.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
            client.shutdown().await.unwrap();
            let mut heard = String::new();
            client.read_to_string(&mut heard).await.unwrap();
            assert!(heard.contains("<POST /c abc>") && heard.contains("<GET /d >"), "{size}: {heard}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_violation_is_answered_after_the_answers_before_it_and_closes() {
        let heard = talk(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\nHost: a\n\n").await;
        assert!(heard.contains("<GET /wait >"), "{heard}");
        assert!(heard.ends_with("HTTP/1.1 400 x\r\nX-Kleis-Reason: malformed\r\nConnection: close\r\n\r\n"), "{heard}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_chunk_ends_the_request_and_the_connection() {
        let heard =
            talk(b"POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\nGET /z HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(!heard.contains("/z"), "{heard}");
    }

    #[tokio::test(start_paused = true)]
    async fn r115_a_client_that_closed_its_half_gets_a_late_answer() {
        assert!(talk(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await.contains("<GET /wait >"));
    }

    #[tokio::test(start_paused = true)]
    async fn r117_a_slow_head_is_answered_408_and_an_idle_connection_closes_in_silence() {
        let (mut client, _) = serve();
        let mut heard = String::new();
        client.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
        let begun = Instant::now();
        client.read_to_string(&mut heard).await.unwrap();
        assert!(heard.starts_with("HTTP/1.1 408"), "{heard}");
        assert_eq!(begun.elapsed().as_secs(), 15);

        let (mut client, _) = serve();
        client.write_all(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let begun = Instant::now();
        let mut heard = String::new();
        client.read_to_string(&mut heard).await.unwrap();
        assert!(heard.ends_with("<GET /1 >"), "{heard}");
        assert!((300..=600).contains(&begun.elapsed().as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn r117_a_dribbling_head_has_no_more_time_than_a_silent_one() {
        let (mut client, _) = serve();
        let begun = Instant::now();
        let mut heard = [0; 16];
        loop {
            tokio::select! {
                read = client.read(&mut heard) => {
                    assert!(read.unwrap() > 0 && heard.starts_with(b"HTTP/1.1 408"));
                    break;
                }
                () = tokio::time::sleep(Duration::from_secs(5)) => client.write_all(b"G").await.unwrap(),
            }
        }
        assert_eq!(begun.elapsed().as_secs(), 15);
    }

    #[tokio::test(start_paused = true)]
    async fn r114_an_early_answer_reaches_a_client_that_is_still_sending() {
        let (mut client, _) = serve();
        client.write_all(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n").await.unwrap();
        // reads only when all is sent
        client.write_all(&vec![b'x'; 20_000_000]).await.unwrap();
        let mut heard = String::new();
        client.read_to_string(&mut heard).await.unwrap();
        assert!(heard.ends_with("<POST /early >"), "{heard}");
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_switch_bytes_pass_as_they_are() {
        let (mut client, server) = tokio::io::duplex(1024);
        let mut guard = Guard::new(server, BytesMut::new(), HeadLimits::default(), PATIENCE, answer());
        client.write_all(b"CONNECT a:1 HTTP/1.1\r\n\r\n\x16\x03\x01\n").await.unwrap();
        let mut buf = [0; 100];
        assert_eq!(guard.read(&mut buf).await.unwrap(), 24);
        guard.signals().switch_to_raw();
        assert_eq!(guard.read(&mut buf).await.unwrap(), 4);
        assert_eq!(&buf[..4], b"\x16\x03\x01\n");
    }
}
