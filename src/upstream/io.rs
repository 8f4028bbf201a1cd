//! A connection's bytes, TLS or not.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// What has happened on a connection, for whoever only holds its HTTP side.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace(Arc<Traced>);

#[derive(Debug, Default)]
struct Traced {
    heard: AtomicU64,
    deaf: AtomicBool,
}

impl Trace {
    /// Bytes that have come so far. Whoever waits for the head of an answer can tell by it a flood of interim
    /// answers from silence (R121).
    pub(super) fn heard(&self) -> u64 {
        self.0.heard.load(Ordering::Relaxed)
    }

    /// Whether the other side no longer takes what is sent.
    pub(super) fn is_deaf(&self) -> bool {
        self.0.deaf.load(Ordering::Relaxed)
    }
}

/// A connection to an upstream.
///
/// A write that fails is no error here: an upstream that answers early and closes resets what is still
/// being sent, while its answer waits to be read (R114). What is sent from then on goes nowhere, the answer
/// is read, and then comes the end or the error, from the side that says which of them it is.
#[derive(Debug)]
pub(super) struct Io {
    stream: Stream,
    trace: Trace,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Io {
    pub(super) fn plain(stream: TcpStream) -> Io {
        Io { stream: Stream::Plain(stream), trace: Trace::default() }
    }

    pub(super) fn tls(stream: TlsStream<TcpStream>) -> Io {
        Io { stream: Stream::Tls(Box::new(stream)), trace: Trace::default() }
    }

    pub(super) fn trace(&self) -> Trace {
        self.trace.clone()
    }

    /// What a failed write or flush of `ok` comes to.
    fn outcome<T>(&self, polled: Poll<io::Result<T>>, ok: T) -> Poll<io::Result<T>> {
        match polled {
            Poll::Ready(Err(error)) => {
                tracing::debug!(%error, "an upstream no longer takes what is sent");
                self.trace.0.deaf.store(true, Ordering::Relaxed);
                Poll::Ready(Ok(ok))
            }
            other => other,
        }
    }

    /// Whether both sides agreed on HTTP/2.
    pub(super) fn speaks_h2(&self) -> bool {
        match &self.stream {
            Stream::Plain(_) => false,
            Stream::Tls(tls) => tls.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_read(cx, buf),
        };
        let read = buf.filled().len() - before;
        if read > 0 {
            // only ever written here, by whoever owns the connection at the time
            self.trace.0.heard.store(self.trace.heard() + read as u64, Ordering::Relaxed);
        }
        polled
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.trace.is_deaf() {
            return Poll::Ready(Ok(bytes.len()));
        }
        let polled = match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_write(cx, bytes),
        };
        self.outcome(polled, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = slices.iter().map(|slice| slice.len()).sum();
        if self.trace.is_deaf() {
            return Poll::Ready(Ok(all));
        }
        let polled = match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_write_vectored(cx, slices),
        };
        self.outcome(polled, all)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.trace.is_deaf() {
            return Poll::Ready(Ok(()));
        }
        let polled = match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_flush(cx),
        };
        self.outcome(polled, ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.trace.is_deaf() {
            return Poll::Ready(Ok(()));
        }
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_shutdown(cx),
        }
    }
}
