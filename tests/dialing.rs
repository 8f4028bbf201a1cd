//! Where the upstream side goes and where it does not: addresses, certificates, the parent proxy, ourselves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "tests may panic"
)]

#[path = "forwarding/world.rs"]
#[allow(dead_code, reason = "shared with tests/forwarding.rs, which uses the rest")]
mod world;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use kleis::upstream::{
    Answer, Body, Partition, PoolKey, SendOptions, SimpleLimits, Timeouts, UpstreamConfig, UpstreamError, Upstreams,
};
use kleis::words::{Authority, Host, Reason, Scheme, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use world::{Origin, PATIENCE, certificate, read_head, settings, text};

const BOTH: &[&[u8]] = &[b"h2", b"http/1.1"];

fn https(authority: &str) -> Authority {
    Authority::parse(Scheme::Https, authority).unwrap()
}

async fn get(upstreams: &Upstreams, authority: Authority) -> Result<String, UpstreamError> {
    let key = PoolKey { authority, partition: Partition::anonymous() };
    let request = Request::get("/").body(Body::empty()).unwrap();
    match timeout(PATIENCE, upstreams.send(&key, request, SendOptions::default())).await.unwrap()? {
        Answer::Response(answer) => {
            let whole = answer.into_body().collect().await.unwrap().to_bytes();
            Ok(String::from_utf8(whole.to_vec()).unwrap())
        }
        Answer::Upgraded(..) => panic!("an upgrade"),
    }
}

async fn reason(upstreams: &Upstreams, authority: Authority) -> Reason {
    get(upstreams, authority).await.unwrap_err().reason
}

fn any_ca() -> (UpstreamConfig, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, certificate(&["x.test"], |_| {}).1).unwrap();
    let short = Duration::from_secs(2);
    let timeouts = Timeouts { connect: short, tls: short, ..Timeouts::default() };
    (UpstreamConfig { ca_file: Some(ca_file), timeouts, ..UpstreamConfig::default() }, dir)
}

#[tokio::test]
async fn r103_metadata_loopback_and_private_addresses_are_refused_in_every_spelling() {
    let (config, _dir) = any_ca();
    let upstreams = Upstreams::new(config).unwrap();
    for address in [
        "169.254.169.254",
        "127.0.0.1",
        "127.8.8.8",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "[::1]",
        "[::]",
        "[fd00::1]",
        "[fe80::1]",
        "[ff02::1]",
        "[fd00:ec2::254]",
        "[::ffff:127.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::a00:1]",
        "[2002:7f00:1::]",
        "[2002:a9fe:a9fe::1]",
        "[::7f00:1]",
        "[2001:0:0:0:0:0:80ff:fffe]",
    ] {
        for port in [80, 443] {
            let authority = https(&format!("{address}:{port}"));
            assert_eq!(reason(&upstreams, authority.clone()).await, Reason::AddressForbidden, "{address}");
            assert_eq!(upstreams.dial_blind(&authority).await.unwrap_err().reason, Reason::AddressForbidden);
        }
    }
}

#[tokio::test]
async fn r106_a_name_with_a_private_answer_is_refused_unless_its_range_is_listed() {
    let origin = Origin::play(BOTH, |_| async { text(200, "hello") }).await;
    let dir = tempfile::tempdir().unwrap();
    let mut config = settings(&origin, &dir);
    config.resolve.clear();
    // resolves to loopback on every machine
    let authority = https(&format!("localhost:{}", origin.address.port()));
    let error = get(&Upstreams::new(config.clone()).unwrap(), authority.clone()).await.unwrap_err();
    assert_eq!(error.reason, Reason::AddressForbidden);
    assert!(error.source.to_string().contains("upstream.allow_private"), "{}", error.source);
    assert_eq!(origin.count(), 0, "nothing was dialled");
    config.allow_private = vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
    // dialled now; its certificate is another name's
    assert_eq!(reason(&Upstreams::new(config).unwrap(), authority).await, Reason::UpstreamTls);
}

#[tokio::test]
async fn r108_the_proxy_does_not_call_itself() {
    let own = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = own.local_addr().unwrap().port();
    let (mut config, _dir) = any_ca();
    config.allow_private = vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
    config.own_addresses = vec![SocketAddr::from(([0, 0, 0, 0], port))];
    config.own_names = vec![https("proxy.test:8080")];
    config.resolve = [((Host::parse("sneaky.test").unwrap(), 443), SocketAddr::from(([127, 0, 0, 1], port)))].into();
    let upstreams = Upstreams::new(config).unwrap();
    for own in [
        format!("127.0.0.1:{port}"),
        format!("127.1.2.3:{port}"),
        format!("localhost:{port}"),
        format!("[::1]:{port}"),
        "proxy.test:8080".to_owned(),
        "sneaky.test".to_owned(),
    ] {
        assert_eq!(reason(&upstreams, https(&own)).await, Reason::Loop, "{own}");
        let error = upstreams.dial_blind(&https(&own).with_scheme(Scheme::Http)).await.unwrap_err();
        assert_eq!(error.reason, Reason::Loop, "{own}");
    }
    let arrived = timeout(Duration::from_millis(20), own.accept()).await;
    assert!(arrived.is_err(), "nothing reached our own port");
}

/// An origin whose leaf is spoiled, at `api.good.test`.
async fn spoiled(
    names: &[&str],
    spoil: impl FnOnce(&mut rcgen::CertificateParams),
) -> (SocketAddr, String, Arc<Mutex<Vec<u8>>>) {
    let (tls, pem) = certificate(names, spoil);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let got = Arc::new(Mutex::new(Vec::new()));
    let all = got.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = tls.accept(stream).await {
                let mut buffer = [0; 4096];
                while let Ok(n @ 1..) = stream.read(&mut buffer).await {
                    all.lock().unwrap().extend_from_slice(&buffer[..n]);
                }
            }
        }
    });
    (address, pem, got)
}

#[tokio::test]
async fn r74_a_certificate_that_does_not_verify_is_a_502_with_nothing_sent_and_no_fallback() {
    let (_, stranger) = certificate(&["api.good.test"], |_| {});
    let old = |leaf: &mut rcgen::CertificateParams| {
        leaf.not_before = rcgen::date_time_ymd(2001, 1, 1);
        leaf.not_after = rcgen::date_time_ymd(2002, 1, 1);
    };
    let wrong_use = |leaf: &mut rcgen::CertificateParams| {
        leaf.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    };
    let good = |_: &mut rcgen::CertificateParams| {};
    let cases = [
        ("expired", spoiled(&["api.good.test"], old).await, None),
        ("wrong name", spoiled(&["api.other.test"], good).await, None),
        ("wrong use", spoiled(&["api.good.test"], wrong_use).await, None),
        ("unknown CA", spoiled(&["api.good.test"], good).await, Some(stranger)),
    ];
    for (case, (address, pem, got), instead) in cases {
        let (mut config, dir) = any_ca();
        let ca_file = dir.path().join("origin.pem");
        std::fs::write(&ca_file, instead.unwrap_or(pem)).unwrap();
        config.ca_file = Some(ca_file);
        config.resolve = [((Host::parse("api.good.test").unwrap(), 443), address)].into();
        let upstreams = Upstreams::new(config).unwrap();
        for _ in 0..2 {
            assert_eq!(reason(&upstreams, https("api.good.test")).await, Reason::UpstreamTls, "{case}");
        }
        assert!(got.lock().unwrap().is_empty(), "{case}: something was sent");
    }
}

#[tokio::test]
async fn r74_an_upstream_that_closes_or_hangs_in_the_handshake_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (mut config, _dir) = any_ca();
    config.timeouts.tls = Duration::from_millis(300);
    config.resolve = [((Host::parse("api.good.test").unwrap(), 443), address)].into();
    let upstreams = Upstreams::new(config).unwrap();
    let server = tokio::spawn(async move {
        drop(listener.accept().await.unwrap());
        let held = listener.accept().await.unwrap();
        std::future::pending::<()>().await;
        drop(held);
    });
    assert_eq!(reason(&upstreams, https("api.good.test")).await, Reason::UpstreamTls);
    assert_eq!(reason(&upstreams, https("api.good.test")).await, Reason::UpstreamTimeout);
    server.abort();
}

#[tokio::test]
async fn r69_an_address_is_verified_against_an_ip_san() {
    let (tls, pem) = certificate(&["127.0.0.1"], |_| {});
    let mut ports = Vec::new();
    for address in ["127.0.0.1:0", "127.0.0.2:0"] {
        let listener = TcpListener::bind(address).await.unwrap();
        ports.push(listener.local_addr().unwrap().port());
        let tls = tls.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = tls.accept(stream).await else { continue };
                assert_eq!(stream.get_ref().1.server_name(), None, "an address is no SNI");
                stream.write_all(b"x").await.unwrap();
            }
        });
    }
    let (mut config, dir) = any_ca();
    let ca_file = dir.path().join("origin.pem");
    std::fs::write(&ca_file, pem).unwrap();
    config.ca_file = Some(ca_file);
    config.allow_private = vec!["127.0.0.0/8".parse().unwrap()];
    let upstreams = Upstreams::new(config).unwrap();
    // verified (what comes back then is no HTTP), where another address is not
    assert_ne!(reason(&upstreams, https(&format!("127.0.0.1:{}", ports[0]))).await, Reason::UpstreamTls);
    assert_eq!(reason(&upstreams, https(&format!("127.0.0.2:{}", ports[1]))).await, Reason::UpstreamTls);
}

#[tokio::test]
async fn what_refuses_and_what_does_not_exist_is_unreachable() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (mut config, _dir) = any_ca();
    config.resolve = [((Host::parse("api.good.test").unwrap(), 443), closed)].into();
    let upstreams = Upstreams::new(config).unwrap();
    assert_eq!(reason(&upstreams, https("api.good.test")).await, Reason::UpstreamUnreachable);
    assert_eq!(reason(&upstreams, https("no-such-name.invalid")).await, Reason::UpstreamUnreachable);
}

/// A parent proxy that answers CONNECT with `answer` and then joins both sides.
async fn parent(answer: &'static str, to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let seen = seen.clone();
            tokio::spawn(async move {
                let head = read_head(&mut client).await.unwrap();
                seen.lock().unwrap().push(head);
                client.write_all(answer.as_bytes()).await.unwrap();
                let mut origin = TcpStream::connect(to).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut origin).await;
            });
        }
    });
    (address, heads)
}

#[tokio::test]
async fn r42_r53_a_parent_proxy_gets_a_host_its_own_login_and_nothing_else() {
    let origin = Origin::play(BOTH, |_| async { text(200, "through") }).await;
    let dir = tempfile::tempdir().unwrap();
    let mut config = settings(&origin, &dir);
    config.resolve.clear();
    let (address, heads) = parent("HTTP/1.1 200 Connection established\r\nvia: x\r\n\r\n", origin.address).await;
    config.proxy = Some(Secret::new(format!("http://bob:p%40ss@{address}")));
    let upstreams = Upstreams::new(config).unwrap();
    assert_eq!(get(&upstreams, https("api.good.test")).await.unwrap(), "through");
    let heads = heads.lock().unwrap().clone();
    assert_eq!(
        heads,
        ["CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\
          Proxy-Authorization: Basic Ym9iOnBAc3M=\r\n\r\n"]
    );
    // what can be judged without resolving still is
    assert_eq!(reason(&upstreams, https("169.254.169.254")).await, Reason::AddressForbidden);
}

#[tokio::test]
async fn r122_a_parents_200_with_a_length_has_no_body() {
    let origin = Origin::play(BOTH, |_| async { text(200, "through") }).await;
    for answer in
        ["HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n", "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut config = settings(&origin, &dir);
        config.resolve.clear();
        let (address, _) = parent(answer, origin.address).await;
        config.proxy = Some(Secret::new(format!("http://{address}")));
        let upstreams = Upstreams::new(config).unwrap();
        assert_eq!(get(&upstreams, https("api.good.test")).await.unwrap(), "through", "{answer}");
    }
}

#[tokio::test]
async fn what_a_tunnel_says_first_is_not_lost_behind_a_parents_head() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        read_head(&mut client).await.unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n220 mail.test ESMTP").await.unwrap();
    });
    let (mut config, _dir) = any_ca();
    config.proxy = Some(Secret::new(format!("http://{address}")));
    let mut tunnel = Upstreams::new(config).unwrap().dial_blind(&https("mail.test:25")).await.unwrap();
    let mut greeting = String::new();
    timeout(PATIENCE, tunnel.read_to_string(&mut greeting)).await.unwrap().unwrap();
    assert_eq!(greeting, "220 mail.test ESMTP");
}

#[tokio::test]
async fn a_parent_that_refuses_is_unreachable() {
    let origin = Origin::play(BOTH, |_| async { text(200, "no") }).await;
    let (address, _) = parent("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", origin.address).await;
    let (mut config, _dir) = any_ca();
    config.proxy = Some(Secret::new(format!("http://{address}")));
    let error = get(&Upstreams::new(config).unwrap(), https("api.good.test")).await.unwrap_err();
    assert_eq!(error.reason, Reason::UpstreamUnreachable);
    assert!(error.source.to_string().contains("407"), "{}", error.source);
}

#[tokio::test]
async fn partitions_share_no_connection() {
    let origin = Origin::play(BOTH, |_| async { text(200, "x") }).await;
    let dir = tempfile::tempdir().unwrap();
    let upstreams = Upstreams::new(settings(&origin, &dir)).unwrap();
    let credential = kleis::words::CredentialName::parse("good/me").unwrap();
    let partitions = [
        Partition::anonymous(),
        Partition::of(credential.clone(), 1, Default::default()),
        Partition::of(credential.clone(), 2, Default::default()),
    ];
    for _ in 0..2 {
        for partition in &partitions {
            let key = PoolKey { authority: https("api.good.test"), partition: partition.clone() };
            let request = Request::get("/").body(Body::empty()).unwrap();
            upstreams.send(&key, request, SendOptions::default()).await.unwrap();
        }
    }
    assert_eq!(origin.count(), 3);
}

#[tokio::test]
async fn idle_connections_are_closed_by_the_sweep() {
    for alpn in [BOTH, &[b"http/1.1"]] {
        let (closed, gone) = tokio::sync::oneshot::channel();
        let closed = Mutex::new(Some(closed));
        let origin = Origin::raw(alpn, move |stream, _| {
            let closed = closed.lock().unwrap().take();
            async move {
                let service =
                    hyper::service::service_fn(|_| async { Ok::<_, std::convert::Infallible>(text(200, "x")) });
                let executor = hyper_util::rt::TokioExecutor::new();
                let builder = hyper_util::server::conn::auto::Builder::new(executor);
                let _ = builder.serve_connection(hyper_util::rt::TokioIo::new(stream), service).await;
                let _ = closed.unwrap().send(());
            }
        })
        .await;
        let dir = tempfile::tempdir().unwrap();
        let mut config = settings(&origin, &dir);
        config.timeouts.pool_idle = Duration::from_millis(100);
        let upstreams = Upstreams::new(config).unwrap();
        get(&upstreams, https("api.good.test")).await.unwrap();
        timeout(PATIENCE, gone).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_simple_exchange_is_bounded_in_size_and_time() {
    let origin = Origin::play(BOTH, |request: Request<hyper::body::Incoming>| async move {
        match request.uri().path() {
            "/large" => text(200, "x".repeat(1001)),
            "/slow" => std::future::pending().await,
            _ => text(201, request.into_body().collect().await.unwrap().to_bytes()),
        }
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let upstreams = Upstreams::new(settings(&origin, &dir)).unwrap();
    let limits = SimpleLimits { deadline: Duration::from_secs(10), max_body: 1000 };
    let ask = |path: &str| {
        Request::post(format!("https://api.good.test{path}")).body(Bytes::from_static(b"grant_type=x")).unwrap()
    };
    let answer = upstreams.simple(ask("/token"), limits).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.body().as_ref()), (201, &b"grant_type=x"[..]));
    assert_eq!(upstreams.simple(ask("/large"), limits).await.unwrap_err().reason, Reason::UpstreamProtocol);
    let limits = SimpleLimits { deadline: Duration::from_millis(100), ..limits };
    assert_eq!(upstreams.simple(ask("/slow"), limits).await.unwrap_err().reason, Reason::UpstreamTimeout);
}

#[test]
fn settings_that_can_not_work_say_what_would() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("missing.pem");
    let error = |config| Upstreams::new(config).unwrap_err().to_string();
    assert!(
        error(UpstreamConfig { ca_file: Some(path.clone()), ..UpstreamConfig::default() }).contains("can't be read")
    );
    std::fs::write(&path, "not a certificate").unwrap();
    assert!(error(UpstreamConfig { ca_file: Some(path), ..UpstreamConfig::default() }).contains("takes PEM"));
}
