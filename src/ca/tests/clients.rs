//! Verifiers that clients really use.

use std::path::Path;

use super::super::Ca;
use super::files::house;
use super::*;

const PYTHON: &str = r#"
import socket, ssl, sys
address, port, name, ca = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
# The defaults of Python 3.13 and later.
context.verify_flags |= ssl.VERIFY_X509_STRICT | 0x80000
with socket.create_connection((address, int(port))) as plain:
    with context.wrap_socket(plain, server_hostname=name) as tls:
        tls.sendall(b"GET / HTTP/1.1\r\n\r\n")
        print(tls.version(), tls.cipher()[0], tls.recv(100)[:12])
"#;

const GO: &str = r#"
package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

func main() {
	roots := x509.NewCertPool()
	ca, _ := os.ReadFile(os.Args[1])
	roots.AppendCertsFromPEM(ca)
	text, _ := os.ReadFile(os.Args[2])
	block, _ := pem.Decode(text)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err == nil {
		_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: os.Args[3]})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
"#;

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

#[test]
fn r64_openssl_in_strict_mode_accepts_every_leaf() {
    let (dir, ca) = ca();
    let long = format!("{}.{}.test", "a".repeat(60), "b".repeat(60));
    for name in ["api.good.test", "127.0.0.2", "[::1]", &long, "xn--e1afmkfd.test"] {
        let file = path(dir.path(), "leaf.pem");
        write_pem(file.as_ref(), &[leaf_der(&ca, name, OffsetDateTime::now_utc())]);
        let plain = name.trim_matches(|c| c == '[' || c == ']');
        let check = if host(name).as_ip().is_some() { "-verify_ip" } else { "-verify_hostname" };
        let ca_file = path(dir.path(), "ca.pem");
        let args =
            ["verify", "-x509_strict", "-purpose", "sslserver", check, plain, "-CAfile", ca_file.as_str(), &file];
        let Some((ok, out)) = run("openssl", &args) else { return };
        assert!(ok, "{name}: {out}");
    }
}

#[test]
fn r64_r69_python_with_the_flags_of_3_13_accepts_names_and_addresses() {
    let (dir, ca) = ca();
    let ca_file = path(dir.path(), "ca.pem");
    for (address, name, target) in [
        ("127.0.0.1", "api.good.test", "api.good.test"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("::1", "::1", "[::1]"),
    ] {
        let port = serve(address, ca.leaf(&host(target)).unwrap()).to_string();
        let Some((ok, out)) = run("python3", &["-c", PYTHON, address, &port, name, &ca_file]) else { return };
        assert!(ok && out.contains("HTTP/1.1 200"), "{name}: {out}");
        assert!(out.contains("TLS_AES_128_GCM_SHA256"), "{out}");
    }
    let port = serve("127.0.0.1", ca.leaf(&host("api.good.test")).unwrap()).to_string();
    let (ok, _) = run("python3", &["-c", PYTHON, "127.0.0.1", &port, "evil.test", &ca_file]).unwrap();
    assert!(!ok, "one name in each leaf");
}

#[test]
fn r67_a_client_that_trusts_only_the_house_root_is_sent_the_intermediate() {
    use std::os::unix::fs::PermissionsExt;
    let (root, intermediate, key) = house();
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("ca.pem", format!("{root}{intermediate}")), ("ca.key", key), ("root.pem", root)] {
        std::fs::write(dir.path().join(name), text).unwrap();
        std::fs::set_permissions(dir.path().join(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let ca = Ca::load_or_make(dir.path()).unwrap();
    let port = serve("127.0.0.1", ca.leaf(&host("api.good.test")).unwrap()).to_string();
    let root_file = path(dir.path(), "root.pem");
    let args = ["-c", PYTHON, "127.0.0.1", &port, "api.good.test", &root_file];
    let Some((ok, out)) = run("python3", &args) else { return };
    assert!(ok, "{out}");
}

#[test]
fn r64_go_accepts_the_chain() {
    let (dir, ca) = ca();
    let program = path(dir.path(), "main.go");
    std::fs::write(&program, GO).unwrap();
    for (name, asked) in [("api.good.test", "api.good.test"), ("127.0.0.2", "127.0.0.2"), ("[::1]", "[::1]")] {
        let file = path(dir.path(), "leaf.pem");
        write_pem(file.as_ref(), &[leaf_der(&ca, name, OffsetDateTime::now_utc())]);
        let Some((ok, out)) = run("go", &["run", &program, &path(dir.path(), "ca.pem"), &file, asked]) else { return };
        assert!(ok, "{name}: {out}");
    }
}

#[test]
fn r64_rustls_accepts_the_chain_over_both_versions_and_both_protocols() {
    let (_dir, ca) = ca();
    let mut roots = rustls::RootCertStore::empty();
    use rustls::pki_types::pem::PemObject;
    roots.add(CertificateDer::from_pem_slice(ca.ca_pem().as_bytes()).unwrap()).unwrap();
    let server = ca.leaf(&host("api.good.test")).unwrap();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for alpn in ["h2", "http/1.1"] {
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let mut config = rustls::ClientConfig::builder_with_provider(provider)
                .with_protocol_versions(&[version])
                .unwrap()
                .with_root_certificates(roots.clone())
                .with_no_client_auth();
            config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
            let mut client =
                rustls::ClientConnection::new(Arc::new(config), "api.good.test".try_into().unwrap()).unwrap();
            let mut accepted = rustls::ServerConnection::new(server.clone()).unwrap();
            handshake(&mut client, &mut accepted);
            assert_eq!(accepted.alpn_protocol(), Some(alpn.as_bytes()));
        }
    }
}

fn handshake(client: &mut rustls::ClientConnection, server: &mut rustls::ServerConnection) {
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut bytes = wire.as_slice();
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).unwrap();
        }
        server.process_new_packets().unwrap();
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut bytes = wire.as_slice();
        while !bytes.is_empty() {
            client.read_tls(&mut bytes).unwrap();
        }
        client.process_new_packets().unwrap();
    }
}
