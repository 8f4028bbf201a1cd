//! A MITM of the same stack as kleisd that decides nothing: what the load bench measures kleisd against.
//!
//! Answers every CONNECT, ends the TLS inside with a leaf of its CA, sets one `Authorization` and sends the
//! request on. No token, no policy, no audit. `guarded` relays as kleisd does (under a guard, hop-by-hop
//! fields gone); without it the upstream side alone is under it. The libraries, the CA and the pool are the
//! same as kleisd's, so the difference between the two is what deciding costs.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{Either, Full};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kleis::ca::Ca;
use kleis::policy::Watch;
use kleis::proxy::forward::{Outbound, Upload, drop_hop_by_hop, forward};
use kleis::proxy::relay::{RelayBody, Terms, Watchers};
use kleis::upstream::{Answer, AnswerBody, Body, Partition, PoolKey, SendOptions, UpstreamConfig, Upstreams};
use kleis::words::{Authority, Host};
use tokio::net::{TcpListener, TcpStream};

/// Anything that ends it.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;
type Down = Either<Either<AnswerBody, RelayBody>, Full<Bytes>>;

struct Mitm {
    ca: Ca,
    upstreams: Upstreams,
    watchers: Option<Watchers>,
    authorization: HeaderValue,
}

/// Runs it: `LISTEN DATA_DIR ORIGIN_CA.pem AUTHORIZATION [guarded]`.
pub fn run(arguments: &[String]) -> Result<(), Fault> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(listen(arguments))
}

async fn listen(arguments: &[String]) -> Result<(), Fault> {
    let [listen, data, origin_ca, authorization, rest @ ..] = arguments else {
        return Err("LISTEN DATA_DIR ORIGIN_CA.pem AUTHORIZATION [guarded]".into());
    };
    let config = UpstreamConfig {
        ca_file: Some(PathBuf::from(origin_ca)),
        allow_private: vec!["127.0.0.0/8".parse()?, "::1/128".parse()?],
        resolve: std::env::var("BARE_RESOLVE").ok().and_then(|text| override_of(&text)).into_iter().collect(),
        ..UpstreamConfig::default()
    };
    let watchers = rest.first().map(|_| Watchers::new());
    if let Some(watchers) = watchers.clone() {
        let (changed, changes) = tokio::sync::watch::channel(0);
        tokio::spawn(async move {
            watchers.run(changes, || 0, |_| false).await;
            drop(changed);
        });
    }
    let mitm = Arc::new(Mitm {
        ca: Ca::load_or_make(data.as_ref())?,
        upstreams: Upstreams::new(config)?,
        watchers,
        authorization: HeaderValue::try_from(authorization.as_str())?,
    });
    let listener = TcpListener::bind(listen.parse::<SocketAddr>()?).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(hop(stream, mitm.clone()));
    }
}

/// `host:port=ip:port`, as `upstream.resolve` of kleisd.
fn override_of(text: &str) -> Option<((Host, u16), SocketAddr)> {
    let (name, address) = text.split_once('=')?;
    let authority = Authority::parse_connect(name).ok()?;
    Some(((authority.host().clone(), authority.port()), address.parse().ok()?))
}

/// The hop: CONNECT and nothing else.
async fn hop(stream: TcpStream, mitm: Arc<Mitm>) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        let mitm = mitm.clone();
        async move {
            let authority = request.uri().authority().map(|a| Authority::parse_connect(a.as_str()));
            let mut answer = Response::new(Full::new(Bytes::new()));
            match authority {
                Some(Ok(authority)) if request.method() == Method::CONNECT => {
                    let upgrade = hyper::upgrade::on(&mut request);
                    tokio::spawn(async move {
                        if let Ok(upgraded) = upgrade.await
                            && let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>()
                        {
                            let _ = inside(parts.io.into_inner(), authority, mitm).await;
                        }
                    });
                }
                _ => *answer.status_mut() = http::StatusCode::BAD_REQUEST,
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

/// The tunnel: TLS, then requests.
async fn inside(stream: TcpStream, authority: Authority, mitm: Arc<Mitm>) -> Result<(), Fault> {
    let config = mitm.ca.leaf(authority.host())?;
    let tls = tokio_rustls::TlsAcceptor::from(config).accept(stream).await?;
    let h2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
    let key = PoolKey { authority, partition: Partition::anonymous() };
    let service = service_fn(move |request| serve(request, key.clone(), mitm.clone()));
    let io = TokioIo::new(tls);
    if h2 {
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .serve_connection(io, service)
            .await?;
    } else {
        hyper::server::conn::http1::Builder::new().serve_connection(io, service).await?;
    }
    Ok(())
}

async fn serve(request: Request<Incoming>, key: PoolKey, mitm: Arc<Mitm>) -> Result<Response<Down>, Infallible> {
    let (mut head, body) = request.into_parts();
    let answered = match &mitm.watchers {
        None => {
            head.headers.insert(AUTHORIZATION, mitm.authorization.clone());
            let body = if body.is_end_stream() { Body::empty() } else { Body::stream(body) };
            let sent = mitm.upstreams.send(&key, Request::from_parts(head, body), SendOptions::default()).await;
            sent.map_err(Fault::from).and_then(|answer| match answer {
                Answer::Response(answer) => Ok(answer.map(Either::Left)),
                Answer::Upgraded(..) => Err("an upgrade".into()),
            })
        }
        Some(watchers) => {
            let _ = drop_hop_by_hop(&mut head.headers, |_| false);
            head.headers.insert(AUTHORIZATION, mitm.authorization.clone());
            let long = Duration::from_secs(300);
            let terms = Terms { idle: long, head: long, decide_again: None, on_end: Some(Box::new(|_| {})) };
            let guard = watchers.guard(&Watch::default(), terms);
            let upload =
                if body.is_end_stream() { Upload::Empty } else { Upload::Stream { prefix: Vec::new(), rest: body } };
            let outbound = Outbound { key, head, never_in_trailers: Arc::from([]) };
            let answer = forward(&mitm.upstreams, outbound, upload, None, guard).await;
            answer.map(|answer| answer.map(Either::Right)).map_err(Fault::from)
        }
    };
    Ok(answered.map_or_else(
        |fault| {
            let mut answer = Response::new(Either::Right(Full::from(fault.to_string())));
            *answer.status_mut() = http::StatusCode::BAD_GATEWAY;
            answer
        },
        |answer| answer.map(Either::Left),
    ))
}
