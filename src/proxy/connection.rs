//! Serving HTTP on a client's connection, whatever is below it.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::framing::{HeadLimits, Violation};
use super::guard::{Guard, Late, Patience, Refuse, Signals};
use super::holder::Holder;
use super::record::Ticket;
use super::refuse::{self, Refusal};
use super::reply::Reply;
use super::state::State;
use crate::config::Limits;
use crate::words::Authority;

/// How long an answer may take for a client that has closed its half (R115).
const LINGER: Duration = Duration::from_secs(30);
/// Streams of one HTTP/2 connection at a time.
const MAX_STREAMS: u32 = 200;
/// Bytes on their way in one stream, and in all of a connection's, before the sender has to wait.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// Whose bytes these are, as far as it is known, for the record of those that are no request.
#[derive(Debug, Clone)]
pub struct Origin {
    /// As in [`Ticket::mode`].
    pub mode: &'static str,
    /// Where the client is.
    pub source: Option<IpAddr>,
    /// Whose tunnel it is.
    pub holder: Option<Arc<Holder>>,
    /// Where it leads.
    pub authority: Option<Authority>,
}

impl Origin {
    fn ticket(&self) -> Ticket {
        let mut ticket = Ticket::new(self.mode, self.source);
        ticket.holder.clone_from(&self.holder);
        ticket.authority.clone_from(&self.authority);
        ticket
    }
}

/// Writes down that a client broke a rule, then says so.
fn refuse_bytes(state: &Arc<State>, origin: Origin) -> Refuse {
    let state = state.clone();
    Arc::new(move |violation: Violation, late: Late| {
        let (state, origin) = (state.clone(), origin.clone());
        Box::pin(async move {
            let ticket = origin.ticket();
            let refusal = Refusal::new(violation.reason).because(violation.text);
            ticket.refused(state.audit(), &state.meters, &refusal).await;
            tracing::info!(request = %ticket.id, reason = violation.reason.code(), cause = violation.text, "refused");
            refuse::raw(violation, late, ticket.id.as_str())
        })
    })
}

/// The limits of a head, as configured.
pub fn head_limits(limits: &Limits) -> HeadLimits {
    let head = usize::try_from(limits.max_head).unwrap_or(usize::MAX);
    HeadLimits { head, target: HeadLimits::default().target.min(head), ..HeadLimits::default() }
}

/// Serves HTTP/1.1 until the client or the drain ends it. `first` has been read already.
pub async fn serve_h1<IO, F, R>(state: &Arc<State>, io: IO, first: BytesMut, origin: Origin, answer: F)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>, Arc<Signals>) -> R,
    R: Future<Output = Response<Reply>>,
{
    let snapshot = state.snapshot();
    let limits = &snapshot.config.limits;
    let patience =
        Patience { head: limits.head_timeout, idle: limits.idle_timeout, linger: LINGER.min(limits.idle_timeout) };
    let guard = Guard::new(io, first, head_limits(limits), patience, refuse_bytes(state, origin));
    drop(snapshot);
    let signals = guard.signals();
    let service = service_fn(|request| {
        let answer = answer(request, signals.clone());
        let signals = signals.clone();
        async move {
            let response = answer.await;
            if response.status() == http::StatusCode::SWITCHING_PROTOCOLS {
                signals.switch_to_raw();
            }
            Ok::<_, Infallible>(response.map(|reply| reply.telling(Some(signals))))
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(guard), service).with_upgrades();
    let ended = state.drain.drive(connection, |connection| std::pin::Pin::new(connection).graceful_shutdown()).await;
    if let Err(error) = ended {
        tracing::debug!(error = %error, "a client's connection ended");
    }
}

/// Serves HTTP/2 until the client, the drain, or idleness ends it.
pub async fn serve_h2<IO, F, R>(state: &Arc<State>, io: IO, answer: F)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>) -> R,
    R: Future<Output = Response<Reply>> + Send + 'static,
{
    let snapshot = state.snapshot();
    let limits = &snapshot.config.limits;
    let idle = limits.idle_timeout;
    let max_head = u32::try_from(limits.max_head).unwrap_or(u32::MAX);
    drop(snapshot);
    // streams begun, and streams open
    let seen = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let service = service_fn(|request| {
        let open = OpenStream::begin(&seen);
        let answer = answer(request);
        async move {
            let response = answer.await;
            Ok::<_, Infallible>(response.map(|reply| reply.holding(open)))
        }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(max_head)
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    // extended CONNECT is not advertised: a WebSocket client falls back at once (R50)
    let connection = builder.serve_connection(TokioIo::new(io), service);
    let mut connection = std::pin::pin!(connection);
    let mut begun_before = 0;
    loop {
        let driven = state.drain.drive(connection.as_mut(), |connection| connection.as_mut().graceful_shutdown());
        match tokio::time::timeout(idle, driven).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => return tracing::debug!(error = %error, "a client's connection ended"),
            Err(_) => {
                let (begun, open) = (seen.0.load(Ordering::Relaxed), seen.1.load(Ordering::Relaxed));
                if open == 0 && begun == begun_before {
                    connection.as_mut().graceful_shutdown();
                }
                begun_before = begun;
            }
        }
    }
}

/// A stream of an HTTP/2 connection, until its answer has gone.
#[derive(Debug)]
pub struct OpenStream(Arc<(AtomicU64, AtomicU64)>);

impl OpenStream {
    fn begin(seen: &Arc<(AtomicU64, AtomicU64)>) -> OpenStream {
        seen.0.fetch_add(1, Ordering::Relaxed);
        seen.1.fetch_add(1, Ordering::Relaxed);
        OpenStream(seen.clone())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.1.fetch_sub(1, Ordering::Relaxed);
    }
}
