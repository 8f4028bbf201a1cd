//! A connection's bytes, TLS or not.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Counts what has been heard, so that whoever waits for the head of an answer can tell a flood of
/// interim answers from silence (R121).
pub(super) type Heard = Arc<AtomicU64>;

/// A connection to an upstream.
#[derive(Debug)]
pub(super) struct Io {
    stream: Stream,
    heard: Heard,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Io {
    pub(super) fn plain(stream: TcpStream) -> Io {
        Io { stream: Stream::Plain(stream), heard: Heard::default() }
    }

    pub(super) fn tls(stream: TlsStream<TcpStream>) -> Io {
        Io { stream: Stream::Tls(Box::new(stream)), heard: Heard::default() }
    }

    pub(super) fn heard(&self) -> Heard {
        self.heard.clone()
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
            self.heard.store(self.heard.load(Ordering::Relaxed) + read as u64, Ordering::Relaxed);
        }
        polled
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_shutdown(cx),
        }
    }
}
