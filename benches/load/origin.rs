//! The origin: TLS, HTTP/1.1 and HTTP/2, `/small`, `/big/N` and `/sink`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::bare::Fault;

/// The name that is played.
pub const HOST: &str = "api.bench.test";

/// Serves until the process ends; the CA is written to `ca_out`.
pub async fn serve(listener: TcpListener, ca_out: &Path) -> Result<(), Fault> {
    let tls = TlsAcceptor::from(Arc::new(config(ca_out)?));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let tls = tls.clone();
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let (io, service) = (TokioIo::new(stream), service_fn(answer));
            let _ = if h2 {
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .initial_stream_window_size(1 << 20)
                    .initial_connection_window_size(4 << 20)
                    .serve_connection(io, service)
                    .await
            } else {
                hyper::server::conn::http1::Builder::new().serve_connection(io, service).await
            };
        });
    }
}

/// A listener on a free port of 127.0.0.1.
pub async fn bind() -> Result<(TcpListener, SocketAddr), Fault> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

async fn answer(request: Request<Incoming>) -> Result<Response<Either<Full<Bytes>, Filler>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = match path.strip_prefix("/big/").and_then(|size| size.parse().ok()) {
        Some(left) => Either::Right(Filler { left, piece: Bytes::from_static(&[b'x'; 32 * 1024]) }),
        None => {
            let mut body = request.into_body();
            let mut length = 0;
            while let Some(Ok(frame)) = body.frame().await {
                length += frame.data_ref().map_or(0, Bytes::len);
            }
            Either::Left(Full::from(format!("{{\"ok\":true,\"got\":{length}}}")))
        }
    };
    Ok(Response::new(body))
}

/// So many bytes, a piece at a time.
pub struct Filler {
    left: u64,
    piece: Bytes,
}

impl Filler {
    /// So many.
    pub fn new(left: u64) -> Filler {
        Filler { left, piece: Bytes::from_static(&[b'x'; 32 * 1024]) }
    }
}

impl Body for Filler {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let size = (self.piece.len() as u64).min(self.left);
        self.left -= size;
        Poll::Ready(Some(Ok(Frame::data(self.piece.slice(..size as usize)))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

fn config(ca_out: &Path) -> Result<rustls::ServerConfig, Fault> {
    let ca_key = rcgen::KeyPair::generate()?;
    let mut ca = rcgen::CertificateParams::new(Vec::<String>::new())?;
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    std::fs::write(ca_out, ca.self_signed(&ca_key)?.pem())?;
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let key = rcgen::KeyPair::generate()?;
    let leaf = rcgen::CertificateParams::new(vec![HOST.to_owned()])?.signed_by(&key, &issuer)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(leaf.der().to_vec())],
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
