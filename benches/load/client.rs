//! Closed-loop load through CONNECT and TLS.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use http::Request;
use http_body_util::{BodyExt, Either, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::bare::Fault;
use crate::origin::{Filler, HOST};

type Up = Either<Empty<bytes::Bytes>, Filler>;

/// One way of putting load on a proxy.
#[derive(Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub h2: bool,
    /// Tunnels at once, and streams at once in each.
    pub tunnels: usize,
    pub streams: usize,
    /// A new tunnel for each request.
    pub fresh: bool,
    pub path: &'static str,
    /// Bytes to send.
    pub upload: u64,
    /// Requests, where time is not the measure.
    pub count: Option<i64>,
}

/// Where to go, and as whom.
#[derive(Clone)]
pub struct Target {
    pub proxy: SocketAddr,
    pub login: String,
    pub tls: TlsConnector,
}

impl Target {
    pub fn new(proxy: SocketAddr, login: &str, ca: &Path, h2: bool) -> Result<Target, Fault> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&std::fs::read(ca)?).flatten());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![if h2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        // a new `curl` or `git` process resumes nothing either
        config.resumption = rustls::client::Resumption::disabled();
        let login = base64::engine::general_purpose::STANDARD.encode(login);
        Ok(Target { proxy, login, tls: TlsConnector::from(Arc::new(config)) })
    }

    /// CONNECT, then TLS.
    pub async fn open(&self) -> Result<TlsStream<TcpStream>, Fault> {
        let mut tcp = TcpStream::connect(self.proxy).await?;
        tcp.set_nodelay(true)?;
        let login = &self.login;
        let request =
            format!("CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\nProxy-Authorization: Basic {login}\r\n\r\n");
        tcp.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(tcp.read_u8().await?);
        }
        if !head.starts_with(b"HTTP/1.1 200") {
            return Err(String::from_utf8_lossy(&head).into());
        }
        Ok(self.tls.connect(ServerName::try_from(HOST)?, tcp).await?)
    }
}

/// A tunnel that has served one request and is kept.
pub async fn held(target: &Target, h2: bool) -> Result<Sender, Fault> {
    let mut sender = Sender::open(target, h2).await?;
    let small = Scenario {
        name: "idle",
        about: "",
        h2,
        tunnels: 1,
        streams: 1,
        fresh: false,
        path: "/small",
        upload: 0,
        count: None,
    };
    sender.ask(&small).await?;
    Ok(sender)
}

/// A tunnel that can be asked.
pub enum Sender {
    H1(http1::SendRequest<Up>),
    H2(http2::SendRequest<Up>),
}

impl Sender {
    async fn open(target: &Target, h2: bool) -> Result<Sender, Fault> {
        let io = TokioIo::new(target.open().await?);
        if h2 {
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(1 << 20)
                .initial_connection_window_size(4 << 20)
                .handshake(io)
                .await?;
            tokio::spawn(connection);
            return Ok(Sender::H2(sender));
        }
        let (sender, connection) = http1::handshake(io).await?;
        tokio::spawn(connection);
        Ok(Sender::H1(sender))
    }

    /// One request, its answer read to the end; bytes that came.
    async fn ask(&mut self, scenario: &Scenario) -> Result<u64, Fault> {
        let body =
            if scenario.upload > 0 { Either::Right(Filler::new(scenario.upload)) } else { Either::Left(Empty::new()) };
        let mut request = Request::new(body);
        *request.method_mut() = if scenario.upload > 0 { http::Method::POST } else { http::Method::GET };
        let headers = request.headers_mut();
        headers.insert("authorization", http::HeaderValue::from_static("Bearer placeholder"));
        headers.insert("user-agent", http::HeaderValue::from_static("bench/1"));
        headers.insert("accept", http::HeaderValue::from_static("application/json"));
        let answer = match self {
            Sender::H1(sender) => {
                *request.uri_mut() = scenario.path.parse()?;
                request.headers_mut().insert("host", http::HeaderValue::from_static(HOST));
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::H2(sender) => {
                *request.uri_mut() = format!("https://{HOST}{}", scenario.path).parse()?;
                sender.send_request(request).await?
            }
        };
        if !answer.status().is_success() {
            let status = answer.status();
            let text = answer.into_body().collect().await?.to_bytes();
            return Err(format!("{status}: {}", String::from_utf8_lossy(&text)).into());
        }
        let mut body = answer.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok(length)
    }
}

/// What a run came to.
#[derive(Default)]
pub struct Outcome {
    pub requests: u64,
    pub bytes: u64,
    pub took: Duration,
    /// Sorted.
    pub latencies: Vec<Duration>,
}

impl Outcome {
    pub fn percentile(&self, part: f64) -> Duration {
        let at = (self.latencies.len() as f64 * part) as usize;
        self.latencies.get(at.min(self.latencies.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

/// Runs a scenario for a time, or for its count of requests.
pub async fn run(target: &Target, scenario: Scenario, time: Duration) -> Result<Outcome, Fault> {
    let left = Arc::new(AtomicI64::new(scenario.count.unwrap_or(i64::MAX)));
    let bytes = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let until = begun + if scenario.count.is_some() { Duration::from_secs(300) } else { time };
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..scenario.tunnels {
        let opened = if scenario.fresh { None } else { Some(Sender::open(target, scenario.h2).await?) };
        for _ in 0..scenario.streams {
            let mut sender = match &opened {
                Some(Sender::H2(sender)) => Some(Sender::H2(sender.clone())),
                _ => None,
            };
            if sender.is_none() && !scenario.fresh {
                sender = Some(Sender::open(target, scenario.h2).await?);
            }
            let (target, left, bytes) = (target.clone(), left.clone(), bytes.clone());
            workers.spawn(async move {
                let mut latencies = Vec::new();
                while Instant::now() < until && left.fetch_sub(1, Ordering::Relaxed) > 0 {
                    let asked = Instant::now();
                    let mut fresh = if scenario.fresh { Some(Sender::open(&target, scenario.h2).await?) } else { None };
                    let Some(sender) = fresh.as_mut().or(sender.as_mut()) else { return Err("no tunnel".into()) };
                    let down = sender.ask(&scenario).await?;
                    bytes.fetch_add(down + scenario.upload, Ordering::Relaxed);
                    latencies.push(asked.elapsed());
                }
                Ok::<_, Fault>(latencies)
            });
        }
    }
    let mut outcome = Outcome::default();
    while let Some(worker) = workers.join_next().await {
        outcome.latencies.extend(worker??);
    }
    outcome.took = begun.elapsed();
    outcome.latencies.sort_unstable();
    outcome.requests = outcome.latencies.len() as u64;
    outcome.bytes = bytes.load(Ordering::Relaxed);
    Ok(outcome)
}
