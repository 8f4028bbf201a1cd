//! What the CA promises, checked by parsing and by the verifiers of others.

mod clients;
mod files;
mod profile;

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;

use super::Ca;
use super::pem::push_certificate;
use crate::words::Host;

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

fn ca() -> (tempfile::TempDir, Ca) {
    let dir = tempfile::tempdir().unwrap();
    let ca = Ca::load_or_make(dir.path()).unwrap();
    (dir, ca)
}

/// The leaf alone, and when it should be minted again.
fn leaf_der(ca: &Ca, name: &str, now: OffsetDateTime) -> CertificateDer<'static> {
    ca.mint.certificate(&host(name), now - super::leaf::BACKDATED, now + super::leaf::LIFE).unwrap()
}

fn write_pem(path: &Path, ders: &[CertificateDer<'static>]) {
    let mut text = String::new();
    ders.iter().for_each(|der| push_certificate(&mut text, der));
    std::fs::write(path, text).unwrap();
}

/// Runs a program and returns what it printed; `None` if it is not installed.
fn run(program: &str, args: &[&str]) -> Option<(bool, String)> {
    match std::process::Command::new(program).args(args).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            Some((output.status.success(), text))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {program} is not installed");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Serves TLS handshakes on a loopback port, answering each connection with a few bytes of HTTP.
fn serve(address: &str, config: Arc<ServerConfig>) -> u16 {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (mut socket, config) = (socket.unwrap(), config.clone());
            std::thread::spawn(move || {
                let mut tls = rustls::ServerConnection::new(config).unwrap();
                let mut stream = rustls::Stream::new(&mut tls, &mut socket);
                let mut head = [0; 1024];
                if stream.read(&mut head).is_ok_and(|n| n > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
                }
            });
        }
    });
    port
}
