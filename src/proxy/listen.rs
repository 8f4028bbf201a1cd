//! Listeners: accept, bound, serve (DESIGN §3.1).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;

use super::connection::{Origin, serve_h1};
use super::hop;
use super::state::State;
use super::stream::Stream;
use crate::admin::{endpoints, metrics};
use crate::config::{Listen, ListenAddress, Role};

/// Why an address can't be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on `{address}`: {source}")]
pub struct BindError {
    address: String,
    source: io::Error,
}

/// A bound listener and what is served there.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    /// What is served.
    pub role: Role,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Binds. A Unix socket that a process has left behind is replaced.
    pub fn bind(listen: &Listen) -> Result<Listener, BindError> {
        let bound = match &listen.address {
            ListenAddress::Tcp(address) => bind_tcp(*address).map(Socket::Tcp),
            ListenAddress::Unix(path) => bind_unix(path, 0o660).map(|socket| Socket::Unix(socket, path.clone())),
        };
        let socket = bound.map_err(|source| BindError { address: listen.address.to_string(), source })?;
        Ok(Listener { socket, role: listen.role })
    }

    /// Where it listens; a port 0 is the one that was given.
    pub fn address(&self) -> ListenAddress {
        match &self.socket {
            Socket::Tcp(socket) => {
                ListenAddress::Tcp(socket.local_addr().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0))))
            }
            Socket::Unix(_, path) => ListenAddress::Unix(path.clone()),
        }
    }

    async fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        match &self.socket {
            Socket::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                // without it a new tunnel stalls for 44 ms: Nagle meets delayed acknowledgements
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Some(canonical(peer.ip()))))
            }
            Socket::Unix(socket, _) => Ok((Stream::Unix(socket.accept().await?.0), None)),
        }
    }

    /// Accepts until the drain begins; then waits for what is open, within bounds that the caller sets.
    pub async fn serve(self, state: Arc<State>) {
        let mut connections = JoinSet::new();
        let open = Arc::new(AtomicU32::new(0));
        let mut pause = Duration::from_millis(10);
        loop {
            tokio::select! {
                accepted = self.accept() => match accepted {
                    Ok((stream, source)) => {
                        pause = Duration::from_millis(10);
                        let limit = state.snapshot().config.limits.max_connections;
                        match Place::take(&open, limit) {
                            Some(place) => {
                                connections.spawn(serve(state.clone(), self.role, stream, source, place));
                            }
                            None => turn_away(stream).await,
                        }
                    }
                    Err(error) => {
                        // out of file descriptors, most likely: trying at once again would only burn
                        tracing::error!(%error, "cannot accept a connection");
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(Duration::from_secs(1));
                    }
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                () = state.drain.wait() => break,
            }
        }
        if let Socket::Unix(_, path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
        drop(self);
        while connections.join_next().await.is_some() {}
    }
}

/// An IPv4 client of a dual-stack listener is an IPv4 client.
fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
        SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(1024)
}

/// Binds a Unix socket with these permission bits, in place of one that nobody serves any more.
pub fn bind_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket {
        match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process serves it")),
            Err(_) => std::fs::remove_file(path)?,
        }
    }
    // bound under another name and renamed: nobody connects before the permission bits are set
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let _ = std::fs::remove_file(&beside);
    let listener = UnixListener::bind(&beside)?;
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(mode))?;
    std::fs::rename(&beside, path)?;
    Ok(listener)
}

/// One of the connections that may be open.
struct Place(Arc<AtomicU32>);

impl Place {
    fn take(open: &Arc<AtomicU32>, limit: u32) -> Option<Place> {
        if open.fetch_add(1, Ordering::Relaxed) < limit {
            return Some(Place(open.clone()));
        }
        open.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Says that there is no room, as far as the socket's buffer takes it, and closes.
async fn turn_away(mut stream: Stream) {
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 32\r\n\
        X-Kleis-Reason: overloaded\r\nRetry-After: 1\r\nConnection: close\r\n\r\nkleis: the proxy is at its limit";
    tracing::warn!("a connection was turned away: `max_connections` are open");
    let _ = tokio::time::timeout(Duration::from_millis(10), async {
        stream.write_all(ANSWER).await?;
        stream.shutdown().await
    })
    .await;
}

async fn serve(state: Arc<State>, role: Role, stream: Stream, source: Option<IpAddr>, place: Place) {
    let opened = state.meters.connection();
    let origin = Origin { mode: "hop", source, holder: None, authority: None };
    let shared = state.clone();
    match role {
        Role::Proxy => {
            let next = hop::Next::default();
            let answer = |request, signals| hop::answer(shared.clone(), source, request, signals, next.clone());
            serve_h1(&state, stream, BytesMut::new(), origin, answer).await;
            // the tunnel is the same connection: it keeps its place, and the drain waits for it
            let tunnel = next.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(tunnel) = tunnel {
                tunnel.await;
            }
        }
        Role::Admin => {
            let answer = |request, _| {
                let state = shared.clone();
                async move { endpoints::answer(&state, source, Role::Admin, request).await }
            };
            serve_h1(&state, stream, BytesMut::new(), origin, answer).await;
        }
        Role::Metrics => {
            let answer = |request, _| {
                let state = shared.clone();
                async move { metrics::answer(&state, &request) }
            };
            serve_h1(&state, stream, BytesMut::new(), origin, answer).await;
        }
    }
    drop((opened, place));
}
