//! Bytes both ways, under a guard: blind tunnels, and connections after an upgrade (R111, R115).

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::relay::{Cut, Guard};

/// Bytes moved at once. A tunnel borrows a buffer for the time of a copy, and holds one only while the
/// other side does not take what is in it.
const BUFFER: usize = 16 * 1024;
/// Buffers kept by each thread.
const SPARE: usize = 32;

thread_local! {
    static BUFFERS: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

fn borrow() -> Box<[u8]> {
    BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; BUFFER].into_boxed_slice())
}

fn give_back(buffer: Box<[u8]>) {
    BUFFERS.with_borrow_mut(|spare| {
        if spare.len() < SPARE {
            spare.push(buffer);
        }
    });
}

/// Copies both ways until both sides have closed, one has been closed and the other silent for `linger`, or
/// the guard cuts. `early` is what the client sent behind its CONNECT.
pub async fn join<C, U>(client: C, upstream: U, early: Bytes, guard: Guard, linger: Duration) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
{
    guard.begin();
    let (mut client, mut upstream) = (client, upstream);
    let mut up = Way { early, ..Way::default() };
    let mut down = Way::default();
    let mut lingering = pin!(None::<Sleep>);
    let ended = poll_fn(|cx| {
        if let Poll::Ready(cut) = guard.poll_cut(cx) {
            return Poll::Ready(Err(cut_off(cut)));
        }
        let before = (up.moved, down.moved);
        let up_done = up.poll(cx, &mut client, &mut upstream)?.is_ready();
        let down_done = down.poll(cx, &mut upstream, &mut client)?.is_ready();
        let moved = (up.moved - before.0, down.moved - before.1);
        if moved.0 > 0 {
            guard.count_up(moved.0);
        }
        if moved.1 > 0 {
            guard.count_down(moved.1);
        }
        match (up_done, down_done) {
            (true, true) => Poll::Ready(Ok(())),
            (false, false) => Poll::Pending,
            // One side has said its last word. The other may still answer, but not be silent for ever: a copy
            // that waits for both ends leaks sockets.
            _ => {
                match lingering.as_mut().as_pin_mut() {
                    Some(sleep) if moved != (0, 0) => sleep.reset(Instant::now() + linger),
                    Some(_) => {}
                    None => lingering.set(Some(sleep(linger))),
                }
                match lingering.as_mut().as_pin_mut() {
                    Some(sleep) => sleep.poll_elapsed(cx),
                    None => Poll::Pending,
                }
            }
        }
    })
    .await;
    if ended.is_ok() {
        guard.complete();
    }
    ended
}

/// A timer that ends the copy.
trait Elapsed {
    fn poll_elapsed(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

impl Elapsed for Sleep {
    fn poll_elapsed(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(cx).map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "one side closed, the other stayed silent")))
    }
}

fn cut_off(cut: Cut) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, cut)
}

/// One direction.
#[derive(Default)]
struct Way {
    /// Sent before anything that is read.
    early: Bytes,
    /// Read and not yet written: the buffer, and which part of it.
    held: Option<(Box<[u8]>, usize, usize)>,
    unflushed: bool,
    read_all: bool,
    closed: bool,
    moved: u64,
}

impl Way {
    /// Ready when the reader has ended and the writer knows it.
    fn poll<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        loop {
            if self.closed {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_early(cx, to))?;
            ready!(self.poll_held(cx, to))?;
            if self.read_all {
                ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                self.closed = true;
                return Poll::Ready(Ok(()));
            }
            let mut buffer = borrow();
            let mut space = ReadBuf::new(&mut buffer);
            let polled = Pin::new(&mut *from).poll_read(cx, &mut space);
            let read = space.filled().len();
            match polled {
                Poll::Ready(Ok(())) if read > 0 => self.held = Some((buffer, 0, read)),
                Poll::Ready(Ok(())) => {
                    give_back(buffer);
                    self.read_all = true;
                }
                Poll::Ready(Err(error)) => {
                    give_back(buffer);
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => {
                    give_back(buffer);
                    if self.unflushed {
                        ready!(Pin::new(&mut *to).poll_flush(cx))?;
                        self.unflushed = false;
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    fn poll_early<W: AsyncWrite + Unpin>(&mut self, cx: &mut Context<'_>, to: &mut W) -> Poll<io::Result<()>> {
        while !self.early.is_empty() {
            let written = ready!(Pin::new(&mut *to).poll_write(cx, &self.early))?;
            self.wrote(written)?;
            bytes::Buf::advance(&mut self.early, written);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_held<W: AsyncWrite + Unpin>(&mut self, cx: &mut Context<'_>, to: &mut W) -> Poll<io::Result<()>> {
        while let Some((buffer, begin, end)) = &mut self.held {
            let rest = buffer.get(*begin..*end).unwrap_or_default();
            let written = ready!(Pin::new(&mut *to).poll_write(cx, rest))?;
            *begin += written;
            let done = *begin >= *end;
            self.wrote(written)?;
            if done && let Some((buffer, ..)) = self.held.take() {
                give_back(buffer);
            }
        }
        Poll::Ready(Ok(()))
    }

    fn wrote(&mut self, written: usize) -> io::Result<()> {
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.moved += written as u64;
        self.unflushed = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Watch;
    use crate::proxy::relay::{Terms, Watchers};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    fn guarded(watchers: &Watchers) -> Guard {
        let long = Duration::from_secs(600);
        watchers.guard(&Watch::default(), Terms { idle: long, head: long, decide_again: None, on_end: None })
    }

    fn tunnel(linger: Duration) -> (DuplexStream, DuplexStream, Guard, tokio::task::JoinHandle<io::Result<()>>) {
        let watchers = Watchers::new();
        let guard = guarded(&watchers);
        let (client, near) = duplex(64 * 1024);
        let (far, upstream) = duplex(64 * 1024);
        let task = tokio::spawn(join(near, far, Bytes::from_static(b"early "), guard.clone(), linger));
        (client, upstream, guard, task)
    }

    #[tokio::test]
    async fn early_bytes_come_first_and_large_ones_whole() {
        let (mut client, mut upstream, _guard, task) = tunnel(Duration::from_secs(60));
        let sent = vec![7u8; 1 << 20];
        let expected = [b"early ".as_slice(), &sent].concat();
        let (written, read) = tokio::join!(
            async {
                client.write_all(&sent).await.unwrap();
                client.shutdown().await.unwrap();
                let mut answer = Vec::new();
                client.read_to_end(&mut answer).await.unwrap();
                answer
            },
            async {
                let mut read = Vec::new();
                upstream.read_to_end(&mut read).await.unwrap();
                upstream.write_all(b"late answer").await.unwrap();
                upstream.shutdown().await.unwrap();
                read
            }
        );
        assert_eq!(read, expected);
        assert_eq!(written, b"late answer", "a half-closed client still gets its answer");
        task.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn r115_a_silent_side_is_closed_after_the_linger_and_a_talking_one_is_not() {
        let (mut client, mut upstream, _guard, task) = tunnel(Duration::from_secs(30));
        client.shutdown().await.unwrap();
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            upstream.write_all(b"x").await.unwrap();
            assert_eq!(client.read_u8().await.unwrap(), b'x');
        }
        let before = tokio::time::Instant::now();
        let ended = task.await.unwrap();
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(before.elapsed() <= Duration::from_secs(31));
    }

    #[tokio::test]
    async fn a_cut_ends_a_tunnel_in_both_directions() {
        let watchers = Watchers::new();
        let guard = guarded(&watchers);
        let (mut client, near) = duplex(1024);
        let (far, mut upstream) = duplex(1024);
        let task = tokio::spawn(join(near, far, Bytes::new(), guard, Duration::from_secs(60)));
        client.write_all(b"x").await.unwrap();
        assert_eq!(upstream.read_u8().await.unwrap(), b'x');
        watchers.cut_all(Cut::Revoked);
        assert!(task.await.unwrap().is_err());
        assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
        assert_eq!(upstream.read(&mut [0; 8]).await.unwrap(), 0);
    }
}
