//! Inside a tunnel: TLS that we end, clear-text HTTP, or neither (DESIGN §3.3).

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::HOST;
use http::{Method, Request, Response, Uri, Version};
use hyper::body::Incoming;
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection::{Origin, serve_h1, serve_h2};
use super::guard::Signals;
use super::holder::Holder;
use super::lane::{Arrival, Lane, Mode};
use super::record::{Outcome, Ticket};
use super::refuse::Refusal;
use super::relay::Guard;
use super::reply::Reply;
use super::state::State;
use super::stream::{Prefixed, Stream};
use super::{forward, guard, refuse, serve, tunnel};
use crate::config::ListenAddress;
use crate::facts::RequestFacts;
use crate::policy::Permit;
use crate::words::{Authority, Host, Reason, Scheme};

/// Looks into a tunnel and serves what is spoken there.
pub async fn tunnel(
    state: &Arc<State>,
    authority: Authority,
    source: Option<IpAddr>,
    holder: Arc<Holder>,
    mut client: Prefixed<Stream>,
) {
    let patience = state.snapshot().config.limits.head_timeout;
    // some clients wait for the other side to speak first: they are not kept for ever
    let first = tokio::time::timeout(patience, client.first_byte()).await;
    match first {
        // the first byte of a TLS record of the handshake
        Ok(Ok(Some(0x16))) => end_tls(state, authority, source, holder, client).await,
        Ok(Ok(Some(byte))) if byte.is_ascii_uppercase() => {
            let authority = authority.with_scheme(Scheme::Http);
            let arrival = Arc::new(Arrival::new(authority, source, holder, Mode::ClearTunnel));
            let (first, stream) = client.into_parts();
            serve_inside_h1(state, stream, first, arrival).await;
        }
        Ok(Ok(Some(_))) => unknown(state, authority, source, holder, "neither TLS nor HTTP").await,
        // closed without a word: curl does so after a failed look-up, and nothing is wrong
        Ok(Ok(None) | Err(_)) => {}
        Err(_) => unknown(state, authority, source, holder, "nothing was said").await,
    }
}

/// Closed and recorded; nothing is relayed.
async fn unknown(state: &State, authority: Authority, source: Option<IpAddr>, holder: Arc<Holder>, cause: &str) {
    state.meters.unknown_protocol();
    let mut ticket = Ticket::new(Mode::Tunnel.as_str(), source);
    ticket.service = state.snapshot().catalog.claim(&authority).cloned();
    (ticket.authority, ticket.holder) = (Some(authority), Some(holder));
    let refusal = Refusal::new(Reason::Malformed).because(cause);
    refuse(state, &ticket, super::Place::Inside, &refusal).await;
}

/// Ends the client's TLS with a leaf for the tunnel's host, and serves what ALPN chose.
async fn end_tls(
    state: &Arc<State>,
    authority: Authority,
    source: Option<IpAddr>,
    holder: Arc<Holder>,
    client: Prefixed<Stream>,
) {
    let patience = state.snapshot().config.limits.head_timeout;
    let mut settled = None;
    let handshake = async {
        let hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), client).await?;
        // SNI is only compared (invariant 3); the leaf is for the authority in any case, so that the client
        // can be told. Without SNI (addresses, old clients) there is nothing to compare.
        let named = hello.client_hello().server_name().map(Host::parse);
        if named.is_some_and(|named| named.as_ref() != Ok(authority.host())) {
            settled = Some(Reason::AuthorityMismatch);
        }
        let leaf = state.ca.leaf(authority.host()).map_err(io::Error::other)?;
        // pages of the answer and acknowledgements of a handshake are small: nothing waits for more
        hello.into_stream(leaf).await
    };
    let shaken = tokio::time::timeout(patience, handshake).await;
    state.meters.handshake();
    match shaken {
        Ok(Ok(stream)) => {
            let mut arrival = Arrival::new(authority, source, holder, Mode::Tunnel);
            arrival.settled = settled;
            serve_tls(state, stream, Arc::new(arrival)).await;
        }
        Ok(Err(error)) => not_shaken(state, &authority, &holder, &error),
        Err(_) => tracing::debug!(host = %authority.host(), "a TLS handshake took too long"),
    }
}

/// What looks like a lost connection from here is, most often, a client without our CA (R78).
fn not_shaken(state: &State, authority: &Authority, holder: &Holder, error: &io::Error) {
    let alert = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let distrust = match alert {
        Some(rustls::Error::AlertReceived(alert)) => {
            use rustls::AlertDescription as A;
            let about_us = [A::UnknownCA, A::BadCertificate, A::CertificateUnknown, A::UnsupportedCertificate];
            about_us.contains(alert) || *alert == A::DecryptError
        }
        Some(_) => false,
        None => error.kind() == io::ErrorKind::UnexpectedEof,
    };
    if distrust {
        state.meters.untrusted();
        let bearer = bearer(holder);
        tracing::warn!(host = %authority.host(), bearer, "the client does not trust this proxy's CA: give it `ca.pem` (see `kleis setup`)");
    } else {
        tracing::info!(host = %authority.host(), %error, "a TLS handshake with a client failed");
    }
}

fn bearer(holder: &Holder) -> &str {
    match holder.identity() {
        crate::token::Identity::Bearer { bearer, .. } => bearer,
        crate::token::Identity::Issuer(issuer) => issuer.as_str(),
    }
}

async fn serve_tls(state: &Arc<State>, stream: TlsStream<Prefixed<Stream>>, arrival: Arc<Arrival>) {
    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    if !h2 {
        return serve_inside_h1(state, stream, BytesMut::new(), arrival).await;
    }
    serve_h2(state, stream, |request| {
        let (state, arrival) = (state.clone(), arrival.clone());
        async move { inside(&state, &arrival, request, None).await }
    })
    .await;
}

async fn serve_inside_h1<IO>(state: &Arc<State>, io: IO, first: BytesMut, arrival: Arc<Arrival>)
where
    IO: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let origin = Origin {
        mode: arrival.mode.as_str(),
        source: arrival.source,
        holder: Some(arrival.holder.clone()),
        authority: Some(arrival.authority.clone()),
    };
    serve_h1(state, io, first, origin, |request, signals| {
        let (state, arrival) = (state.clone(), arrival.clone());
        async move { inside(&state, &arrival, request, Some(signals)).await }
    })
    .await;
}

/// One request inside a tunnel. Every name in it is compared with the tunnel's authority.
async fn inside(
    state: &Arc<State>,
    arrival: &Arrival,
    mut request: Request<Incoming>,
    _signals: Option<Arc<Signals>>,
) -> Response<Reply> {
    match same_authority(arrival, &request) {
        Ok(target) => {
            *request.uri_mut() = target;
            serve(state, arrival, request).await
        }
        Err(refusal) => {
            let mut ticket = Ticket::new(arrival.mode.as_str(), arrival.source);
            ticket.holder = Some(arrival.holder.clone());
            ticket.authority = Some(arrival.authority.clone());
            ticket.service = state.snapshot().catalog.claim(&arrival.authority).cloned();
            (ticket.method, ticket.uri) = (Some(request.method().clone()), request.uri().clone());
            let mut response = refuse(state, &ticket, super::Place::Inside, &refusal).await;
            if request.version() >= Version::HTTP_2 {
                // of this stream alone: the others are not affected (R12)
                response.headers_mut().remove(http::header::CONNECTION);
            }
            response
        }
    }
}

/// The target in origin-form, if every name of the request is the tunnel's (invariant 3; R01, R12).
///
/// npm sends an absolute `http://host:443/…` inside TLS: the host and port are compared, the scheme is the
/// tunnel's (R05).
fn same_authority(arrival: &Arrival, request: &Request<Incoming>) -> Result<Uri, Refusal> {
    if request.method() == Method::CONNECT {
        return Err(Refusal::new(Reason::Malformed).say("there is no CONNECT inside a tunnel"));
    }
    let uri = request.uri();
    if let Some(authority) = uri.authority() {
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") | None => Scheme::Https,
            Some(_) => return Err(Refusal::new(Reason::Malformed).say("the target's scheme is http or https")),
        };
        // an HTTP/2 `:authority` has the tunnel's scheme; so has a name without a port
        let scheme = if request.version() >= Version::HTTP_2 { arrival.authority.scheme() } else { scheme };
        compare(arrival, Authority::parse(scheme, authority.as_str()))?;
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    if let Some(host) = hosts.next() {
        let host = host.to_str().unwrap_or("");
        compare(arrival, Authority::parse(arrival.authority.scheme(), host))?;
    }
    if hosts.next().is_some() {
        return Err(Refusal::new(Reason::Malformed).say("a request has one Host"));
    }
    match uri.path_and_query() {
        Some(target) => Ok(Uri::from(target.clone())),
        None => Ok(Uri::from_static("/")),
    }
}

fn compare(arrival: &Arrival, named: Result<Authority, crate::words::AuthorityError>) -> Result<(), Refusal> {
    match named {
        Ok(named) if named.host() == arrival.authority.host() && named.port() == arrival.authority.port() => Ok(()),
        _ => Err(Reason::AuthorityMismatch.into()),
    }
}

/// Whether an authority is this proxy, as far as its name or address says so; what a name resolves to is
/// looked at again when it is dialled (R108).
pub fn is_ourselves(state: &State, authority: &Authority) -> bool {
    let snapshot = state.snapshot();
    let config = &snapshot.config;
    let named = config.public_url.as_ref().map(|url| url.authority());
    if named.is_some_and(|own| own.host() == authority.host() && own.port() == authority.port()) {
        return true;
    }
    let is_local = match authority.host().as_ip() {
        Some(ip) => ip.is_loopback() || ip.is_unspecified(),
        None => authority.host().as_name() == Some("localhost"),
    };
    state.listening.iter().any(|(_, address)| match address {
        ListenAddress::Tcp(own) => {
            own.port() == authority.port()
                && (is_local && (own.ip().is_loopback() || own.ip().is_unspecified())
                    || authority.host().as_ip() == Some(own.ip()))
        }
        ListenAddress::Unix(_) => false,
    })
}

/// A blind tunnel, decided and dialled.
pub struct Blind {
    upstream: TcpStream,
    guard: Guard,
    linger: std::time::Duration,
}

impl Blind {
    /// Records the permit and dials. A blind tunnel is a decision like any other.
    pub async fn open(
        state: &Arc<State>,
        lane: &Arc<Lane>,
        ticket: &mut Ticket,
        permit: Permit,
        facts: RequestFacts,
    ) -> Result<Blind, Refusal> {
        let config = &lane.snapshot.config;
        let full = (config.audit_facts == crate::config::AuditFacts::Full).then_some(&facts);
        ticket.allowed(state.audit(), &state.meters, &permit, full, config.audit_on_failure).await?;
        let outcome = Outcome::of(ticket, state.audit(), &state.meters);
        let guard = guard(state, lane, &permit, facts, &outcome);
        let upstreams = state.upstreams.load_full();
        let dialled = guard.watch(upstreams.dial_blind(permit.authority())).await;
        let refused = match dialled {
            Ok(Ok(upstream)) => return Ok(Blind { upstream, guard, linger: upstreams.timeouts().linger }),
            Ok(Err(error)) => Refusal::new(error.reason).because(&error),
            Err(cut) => Refusal::new(forward::ForwardError::Cut(cut).reason()),
        };
        outcome.failed(&refused);
        Err(refused)
    }

    /// Copies both ways until one side has had enough, or the guard cuts.
    pub async fn join(self, client: Prefixed<Stream>) {
        let (early, client) = client.into_parts();
        let early: Bytes = early.freeze();
        if let Err(error) = tunnel::join(client, self.upstream, early, self.guard, self.linger).await {
            tracing::debug!(%error, "a blind tunnel ended");
        }
    }
}
