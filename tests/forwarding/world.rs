//! A proxy that decides nothing between clients and origins of any kind: what the upstream side does, alone.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kleis::policy::Watch;
use kleis::proxy::forward::{ForwardError, Outbound, Upload, drop_hop_by_hop, forward};
use kleis::proxy::relay::{Report, Terms, Watchers};
use kleis::proxy::upgrade::ClientUpgrade;
use kleis::token::RevocationId;
use kleis::upstream::{Partition, PoolKey, Timeouts, UpstreamConfig, Upstreams};
use kleis::words::{Authority, Host, Scheme};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Longer than anything takes; reaching it is a failed test.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A body of a played answer.
pub type Played = http_body_util::combinators::UnsyncBoxBody<Bytes, std::io::Error>;

/// A CA and a leaf for some names.
pub fn certificate(names: &[&str], spoil: impl FnOnce(&mut rcgen::CertificateParams)) -> (TlsAcceptor, String) {
    acceptor(names, spoil, &[b"h2", b"http/1.1"])
}

fn acceptor(
    names: &[&str],
    spoil: impl FnOnce(&mut rcgen::CertificateParams),
    alpn: &[&[u8]],
) -> (TlsAcceptor, String) {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    let pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let mut leaf = rcgen::CertificateParams::new(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).unwrap();
    spoil(&mut leaf);
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(leaf.der().to_vec())],
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|p| p.to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), pem)
}

/// A TLS origin for `api.good.test`.
pub struct Origin {
    pub address: SocketAddr,
    pub ca_pem: String,
    /// TLS connections so far.
    pub connections: Arc<Mutex<usize>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Origin {
    /// An origin that hands each connection, after its handshake, to `serve` with its number.
    pub async fn raw<F, Fut>(alpn: &[&[u8]], serve: F) -> Origin
    where
        F: Fn(TlsStream<TcpStream>, usize) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (tls, ca_pem) = acceptor(&["api.good.test"], |_| {}, alpn);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(Mutex::new(0));
        let counted = connections.clone();
        let serve = Arc::new(serve);
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, serve, counted) = (tls.clone(), serve.clone(), counted.clone());
                stream.set_nodelay(true).unwrap();
                open.spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let number = {
                        let mut counted = counted.lock().unwrap();
                        *counted += 1;
                        *counted
                    };
                    serve(stream, number).await;
                });
            }
        });
        Origin { address, ca_pem, connections, task }
    }

    /// An origin that plays.
    pub async fn play<F, Fut>(alpn: &[&[u8]], play: F) -> Origin
    where
        F: Fn(Request<Incoming>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response<Played>> + Send + 'static,
    {
        Origin::raw(alpn, move |stream, _| {
            let play = play.clone();
            async move {
                let service = service_fn(move |request| {
                    let answer = play(request);
                    async move { Ok::<_, Infallible>(answer.await) }
                });
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
            }
        })
        .await
    }

    /// Answers of its own making, byte for byte: one for each request head, by its number on the connection.
    pub async fn scripted(script: impl Fn(usize, usize) -> Option<Vec<u8>> + Send + Sync + 'static) -> Origin {
        let script = Arc::new(script);
        Origin::raw(&[b"http/1.1"], move |mut stream, connection| {
            let script = script.clone();
            async move {
                let mut request = 0;
                while let Some(_head) = read_head(&mut stream).await {
                    request += 1;
                    let Some(answer) = script(connection, request) else { return };
                    if stream.write_all(&answer).await.is_err() {
                        return;
                    }
                    stream.flush().await.unwrap();
                }
            }
        })
        .await
    }

    pub fn count(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

/// Reads one head, byte by byte; `None` at the end.
pub async fn read_head(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// The settings that reach an origin under `api.good.test`.
pub fn settings(origin: &Origin, dir: &tempfile::TempDir) -> UpstreamConfig {
    let ca_file = dir.path().join("origin.pem");
    std::fs::write(&ca_file, &origin.ca_pem).unwrap();
    UpstreamConfig {
        ca_file: Some(ca_file),
        resolve: [((Host::parse("api.good.test").unwrap(), 443), origin.address)].into(),
        timeouts: Timeouts { connect: Duration::from_secs(3), tls: Duration::from_secs(3), ..Timeouts::default() },
        ..UpstreamConfig::default()
    }
}

/// The proxy, listening for HTTP/1.1 and HTTP/2 in clear text.
pub struct Proxy {
    pub address: SocketAddr,
    pub watchers: Watchers,
    pub reports: Arc<Mutex<Vec<Report>>>,
    pub upstreams: Upstreams,
    task: tokio::task::JoinHandle<()>,
    _dir: tempfile::TempDir,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The id that all relays of the proxy watch.
pub fn watched_id() -> RevocationId {
    RevocationId::new(&[7; 64])
}

impl Proxy {
    pub async fn start(origin: &Origin) -> Proxy {
        Proxy::with(origin, |_| {}).await
    }

    pub async fn with(origin: &Origin, change: impl FnOnce(&mut UpstreamConfig)) -> Proxy {
        let dir = tempfile::tempdir().unwrap();
        let mut config = settings(origin, &dir);
        change(&mut config);
        let upstreams = Upstreams::new(config).unwrap();
        let watchers = Watchers::new();
        let reports = Arc::new(Mutex::new(Vec::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (u, w, r) = (upstreams.clone(), watchers.clone(), reports.clone());
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let (u, w, r) = (u.clone(), w.clone(), r.clone());
                open.spawn(async move {
                    let service = service_fn(move |request| serve(request, u.clone(), w.clone(), r.clone()));
                    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
                });
            }
        });
        Proxy { address, watchers, reports, upstreams, task, _dir: dir }
    }
}

type Answered = Response<http_body_util::Either<kleis::proxy::relay::RelayBody, Full<Bytes>>>;

async fn serve(
    mut request: Request<Incoming>,
    upstreams: Upstreams,
    watchers: Watchers,
    reports: Arc<Mutex<Vec<Report>>>,
) -> Result<Answered, Infallible> {
    let upgrade = ClientUpgrade::of(&mut request);
    let (mut head, body) = request.into_parts();
    drop_hop_by_hop(&mut head.headers, |_| false).unwrap();
    head.headers.insert("authorization", http::HeaderValue::from_static("Bearer GOOD"));
    let authority = Authority::parse(Scheme::Https, "api.good.test").unwrap();
    let outbound =
        Outbound { key: PoolKey { authority, partition: Partition::anonymous() }, head, never_in_trailers: [].into() };
    let upload = if hyper::body::Body::is_end_stream(&body) {
        Upload::Empty
    } else {
        Upload::Stream { prefix: Vec::new(), rest: body }
    };
    let long = Duration::from_secs(300);
    let terms = Terms {
        idle: long,
        head: long,
        decide_again: None,
        on_end: Some(Box::new(move |report| reports.lock().unwrap().push(report))),
    };
    let watch = Watch { revocation_ids: [watched_id()].into(), ..Watch::default() };
    let guard = watchers.guard(&watch, terms);
    Ok(match forward(&upstreams, outbound, upload, upgrade, guard).await {
        Ok(answer) => answer.map(http_body_util::Either::Left),
        Err(error) => {
            let source = match &error {
                ForwardError::Upstream(error) => error.source.to_string(),
                ForwardError::Cut(cut) => cut.to_string(),
            };
            Response::builder()
                .status(502)
                .header("x-kleis-reason", error.reason().code())
                .body(http_body_util::Either::Right(Full::from(source)))
                .unwrap()
        }
    })
}

/// One HTTP/1.1 exchange as bytes, on a connection of its own that the proxy is asked to close.
pub async fn h1(proxy: &Proxy, request: &str) -> String {
    let mut stream = TcpStream::connect(proxy.address).await.unwrap();
    let request = request.replacen("\r\n\r\n", "\r\nhost: api.good.test\r\nconnection: close\r\n\r\n", 1);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("an answer").unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// A client's HTTP/2 connection to the proxy.
pub async fn h2<B>(proxy: &Proxy) -> hyper::client::conn::http2::SendRequest<B>
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let stream = TcpStream::connect(proxy.address).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// A GET over HTTP/2.
pub fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("https://api.good.test{path}")).body(Empty::new()).unwrap()
}

pub fn text(status: u16, body: impl Into<Bytes>) -> Response<Played> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(status).body(body).unwrap()
}
