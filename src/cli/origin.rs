//! A TLS origin on loopback: what the demo, the doctor and the tests talk to instead of the world.
//!
//! It has a CA of its own, a leaf for the names it is asked to play, speaks HTTP/1.1 and HTTP/2, and
//! remembers each request it got, so that a test can say what reached an upstream and what did not.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A body of an answer: anything that streams.
pub type AnswerBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// What plays the upstream.
pub type Play = dyn Fn(Request<Incoming>) -> Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send>> + Send + Sync;

/// One request as the origin got it, its body apart.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// `Host` or `:authority`.
    pub authority: String,
    /// Path and query.
    pub target: String,
    /// The fields in order.
    pub headers: Vec<(String, String)>,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
}

impl Seen {
    /// The first field of that lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// How many fields of that lower-case name there were.
    pub fn count(&self, name: &str) -> usize {
        self.headers.iter().filter(|(n, _)| n == name).count()
    }
}

/// Why an origin can't be started.
#[derive(Debug, thiserror::Error)]
pub enum OriginError {
    /// The loopback port can't be had.
    #[error("no loopback port for the built-in origin: {0}")]
    Listen(#[from] std::io::Error),
    /// The certificates can't be made.
    #[error("no certificate for the built-in origin: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The TLS library refuses them.
    #[error("no TLS for the built-in origin: {0}")]
    Tls(#[from] rustls::Error),
}

/// A running origin; it stops when this is dropped.
pub struct Origin {
    address: SocketAddr,
    ca_pem: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Origin {
    /// Starts an origin for `names` on a free port of 127.0.0.1.
    pub async fn start(names: &[&str], play: Arc<Play>) -> Result<Origin, OriginError> {
        let (config, ca_pem) = server_config(names)?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let accepting = tokio::spawn(accept(listener, TlsAcceptor::from(config), play, seen.clone()));
        Ok(Origin { address, ca_pem, seen, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The CA to trust, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// What it has got so far, in order of arrival.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().map(|seen| seen.clone()).unwrap_or_default()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Makes a CA and one leaf for all names (and 127.0.0.1), good for as long as a test or a demo runs.
fn server_config(names: &[&str]) -> Result<(Arc<rustls::ServerConfig>, String), OriginError> {
    let ca_key = rcgen::KeyPair::generate()?;
    let mut ca = rcgen::CertificateParams::new(Vec::<String>::new())?;
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    ca.distinguished_name.push(rcgen::DnType::CommonName, "kleis built-in origin");
    ca.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::CrlSign];
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    let issuer = rcgen::Issuer::new(ca, ca_key);

    let mut all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    all.push("127.0.0.1".to_owned());
    let key = rcgen::KeyPair::generate()?;
    let mut leaf = rcgen::CertificateParams::new(all)?;
    leaf.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let leaf = leaf.signed_by(&key, &issuer)?;

    let chain = vec![CertificateDer::from(leaf.der().to_vec())];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((Arc::new(config), ca_pem))
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, play: Arc<Play>, seen: Arc<Mutex<Vec<Seen>>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, tls.clone(), play.clone(), seen.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// One connection. A client that goes away or speaks nonsense ends it; nobody is told.
async fn serve(stream: TcpStream, tls: TlsAcceptor, play: Arc<Play>, seen: Arc<Mutex<Vec<Seen>>>) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = tls.accept(stream).await else { return };
    let service = service_fn(move |request: Request<Incoming>| {
        if let Ok(mut seen) = seen.lock() {
            seen.push(note(&request));
        }
        let answer = play(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder.http2().enable_connect_protocol();
    let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
}

fn note(request: &Request<Incoming>) -> Seen {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let host = request.headers().get(http::header::HOST).map(text);
    Seen {
        method: request.method().to_string(),
        authority: request.uri().authority().map(ToString::to_string).or(host).unwrap_or_default(),
        target: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        version: format!("{:?}", request.version()),
    }
}

/// A whole answer in one piece.
pub fn answer(status: u16, media: &str, body: impl Into<Bytes>) -> Response<AnswerBody> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    if let Ok(media) = http::HeaderValue::from_str(media) {
        response.headers_mut().insert(http::header::CONTENT_TYPE, media);
    }
    response
}
