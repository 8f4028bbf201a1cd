//! Bytes as they are: a client that sends what no library would, and a server that records all it gets.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Longer than anything takes; reaching it is a failed test.
const PATIENCE: Duration = Duration::from_secs(20);

/// A clear-text server that records every byte and gives every request head the same answer.
pub struct Recorder {
    address: SocketAddr,
    bytes: Arc<Mutex<Vec<u8>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Recorder {
    /// Starts on a free port of 127.0.0.1.
    pub async fn start(answer: &'static str) -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let all = bytes.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let all = all.clone();
                tokio::spawn(async move {
                    let mut buffer = vec![0; 65536];
                    let mut pending = Vec::new();
                    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
                        all.lock().unwrap().extend_from_slice(&buffer[..n]);
                        pending.extend_from_slice(&buffer[..n]);
                        while let Some(end) = pending.windows(4).position(|w| w == b"\r\n\r\n") {
                            pending.drain(..end + 4);
                            if stream.write_all(answer.as_bytes()).await.is_err() {
                                return;
                            }
                        }
                    }
                });
            }
        });
        Recorder { address, bytes, task }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All that it has got, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sends bytes on a fresh connection and reads until the other side closes.
pub async fn exchange(to: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    read_to_end(&mut stream).await
}

/// Reads until the other side closes (or resets).
pub async fn read_to_end(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut all = Vec::new();
    let reading = async {
        let mut buffer = vec![0; 65536];
        while let Ok(n @ 1..) = stream.read(&mut buffer).await {
            all.extend_from_slice(&buffer[..n]);
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("the other side neither answers nor closes");
    String::from_utf8_lossy(&all).into_owned()
}

/// Reads one answer: its head, and as much body as its Content-Length says.
pub async fn read_answer(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut all = Vec::new();
    let reading = async {
        let mut byte = [0];
        while !all.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte).await {
                Ok(1) => all.push(byte[0]),
                _ => return,
            }
        }
        let head = String::from_utf8_lossy(&all).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        if stream.read_exact(&mut body).await.is_ok() {
            all.extend_from_slice(&body);
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("no answer");
    String::from_utf8_lossy(&all).into_owned()
}

/// `CONNECT target` with a token; the tunnel, or the refusal's text.
pub async fn connect(proxy: SocketAddr, target: &str, token: &str) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = read_answer(&mut stream).await;
    if answer.starts_with("HTTP/1.1 200") { Ok(stream) } else { Err(answer) }
}

/// TLS over a tunnel, trusting the CA in `ca_file`.
pub async fn tls<S>(
    stream: S,
    ca_file: &std::path::Path,
    sni: &str,
    alpn: &[&str],
) -> std::io::Result<tokio_rustls::client::TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in rustls::pki_types::CertificateDer::pem_file_iter(ca_file).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
    let name = rustls::pki_types::ServerName::try_from(sni.to_owned()).unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// One HTTP/1.1 exchange inside an intercepted tunnel: the answer as text.
pub async fn inside(world: &super::World, host: &str, token: &str, request: &str) -> String {
    let tunnel = connect(world.proxy, &format!("{host}:443"), token).await.unwrap();
    let mut stream = tls(tunnel, &world.ca_file(), host, &["http/1.1"]).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    read_answer(&mut stream).await
}
