//! Who is the upstream? One authority is fixed when a tunnel or an absolute-form request opens; every later
//! name is only compared with it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests may panic"
)]

mod support;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::raw::{connect, exchange, inside, read_answer, read_to_end, tls};
use support::{GOOD, Options, World};
use tokio::io::AsyncWriteExt;

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// `METHOD TARGET` at the hop, with a token.
async fn hop(world: &World, token: &str, line: &str, fields: &str) -> String {
    let head = format!("{line} HTTP/1.1\r\n{fields}Proxy-Authorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    exchange(world.proxy, head.as_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_a_host_line_that_names_another_site_is_refused_and_nothing_is_sent() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    for host in ["evil.test", "api.good.test:444", "api.good.test.evil.test", "", "user@api.good.test"] {
        let tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
        let mut stream = tls(tunnel, &world.ca_file(), "api.good.test", &["http/1.1"]).await.unwrap();
        stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await.unwrap();
        // it ends: the connection is closed behind the answer
        let answer = read_to_end(&mut stream).await;
        assert_eq!(status(&answer), 421, "{host}: {answer}");
        assert_eq!(world.last_reason().as_deref(), Some("authority_mismatch"), "{host}");
    }
    assert!(world.origin.seen().is_empty());
    for host in ["api.good.test", "API.Good.test:443", "api.good.test."] {
        let answer = inside(&world, "api.good.test", &token, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
        assert_eq!(status(&answer), 200, "{host}: {answer}");
    }
    assert!(world.origin.seen().iter().all(|seen| seen.authority == "api.good.test"));
    world.assert_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hello_that_names_another_site_is_told_so_under_the_name_of_the_tunnel() {
    let world = World::start().await;
    let token = world.token(&["good", "other"]);
    let tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    // a client that verifies the name finds the wrong leaf
    assert!(tls(tunnel, &world.ca_file(), "api.other.test", &[]).await.is_err());
    assert!(world.origin.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn r03_the_target_alone_decides_where_a_plain_request_goes() {
    let world = World::start().await;
    let token = world.token(&["good", "internal"]);
    let answer = hop(&world, &token, "GET http://plain.good.test/", "Host: api.good.test\r\n").await;
    assert_eq!(status(&answer), 200, "{answer}");
    assert!(world.plain.text().contains("host: plain.good.test"), "{}", world.plain.text());
    let answer = hop(&world, &token, "GET http://evil.test/", "Host: api.good.test\r\n").await;
    assert_eq!(status(&answer), 403, "{answer}");
    assert_eq!(world.last_reason().as_deref(), Some("host_unclaimed"));
    let answer = hop(&world, &token, "GET https://api.good.test/", "Host: evil.test\r\n").await;
    assert_eq!(status(&answer), 200, "{answer}");
    assert_eq!(world.origin.seen().len(), 1);
    assert_eq!(world.origin.seen()[0].authority, "api.good.test");
    world.assert_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_an_absolute_target_of_the_same_host_and_port_works_inside_tls() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    for target in ["http://api.good.test:443/pkg", "https://api.good.test/pkg"] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: api.good.test\r\n\r\n");
        let answer = inside(&world, "api.good.test", &token, &request).await;
        assert_eq!(status(&answer), 200, "{answer}");
    }
    let seen = world.origin.seen();
    assert!(seen.len() == 2 && seen.iter().all(|seen| seen.target == "/pkg"), "{seen:?}");
    for target in ["http://evil.test:443/", "http://api.good.test/", "https://api.other.test/"] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: api.good.test\r\n\r\n");
        let answer = inside(&world, "api.good.test", &token, &request).await;
        assert_eq!(status(&answer), 421, "{target}: {answer}");
    }
    assert_eq!(world.origin.seen().len(), 2);
    world.assert_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn r08_r18_r21_a_connect_target_is_one_host_and_port_in_any_legal_spelling() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let asked = async |target: &str| {
        let head = format!("CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Bearer {token}\r\n\r\n");
        let mut stream = tokio::net::TcpStream::connect(world.proxy).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        status(&read_answer(&mut stream).await)
    };
    for wrong in [
        "::1:443",
        "[::1%25eth0]:443",
        "api.good.test:0",
        "api.good.test:0443",
        "u@api.good.test:443",
        "a..b:443",
        "127.1:443",
    ] {
        assert_eq!(asked(wrong).await, 400, "{wrong}");
    }
    let long = format!("{}.test:443", "a".repeat(64));
    assert_eq!(asked(&long).await, 400);
    assert_eq!(asked("пример.test:443").await, 400);
    for right in [
        "api.good.test.:443",
        "API.GOOD.TEST:443",
        "[2001:db8::1]:443",
        "xn--e1afmkfd.test:443",
        "under_score.test:443",
    ] {
        assert_eq!(asked(right).await, 200, "{right}");
    }
    let tunnel = connect(world.proxy, "api.good.test.:443", &token).await.unwrap();
    let mut stream = tls(tunnel, &world.ca_file(), "api.good.test", &[]).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: api.good.test.\r\n\r\n").await.unwrap();
    assert_eq!(status(&read_answer(&mut stream).await), 200);
    world.assert_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn r09_clear_text_in_a_tunnel_is_judged_like_any_request() {
    let world = World::start().await;
    let token = world.token(&["good", "internal"]);
    let mut tunnel = connect(world.proxy, "plain.good.test:80", &token).await.unwrap();
    tunnel.write_all(b"GET /x HTTP/1.1\r\nHost: plain.good.test\r\n\r\n").await.unwrap();
    let answer = read_answer(&mut tunnel).await;
    assert!(answer.ends_with("plain"), "{answer}");
    let mut tunnel = connect(world.proxy, "plain.good.test:80", &token).await.unwrap();
    tunnel.write_all(b"DELETE /x HTTP/1.1\r\nHost: plain.good.test\r\n\r\n").await.unwrap();
    assert_eq!(status(&read_answer(&mut tunnel).await), 403);
    // neither TLS nor HTTP: closed, recorded
    let mut tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    tunnel.write_all(b"\x00\x01 what is this\n").await.unwrap();
    assert_eq!(read_to_end(&mut tunnel).await, "");
    assert_eq!(world.last_reason().as_deref(), Some("malformed"));
    world.assert_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_in_which_nothing_is_said_does_not_stay_open() {
    let options = Options { tables: "[limits]\nhead_timeout = \"1s\"\n".into(), ..Options::default() };
    let world = World::with(options).await;
    let token = world.token(&["good"]);
    let mut tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    assert_eq!(read_to_end(&mut tunnel).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn r12_another_origin_on_an_http2_connection_is_refused_on_its_stream_alone() {
    let world = World::start().await;
    let token = world.token(&["good", "other"]);
    let tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    let stream = tls(tunnel, &world.ca_file(), "api.good.test", &["h2"]).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let driving = tokio::spawn(connection);
    let mut ask = async |host: &str| {
        let request = http::Request::get(format!("https://{host}/")).body(Empty::<Bytes>::new()).unwrap();
        sender.send_request(request).await.unwrap().status().as_u16()
    };
    assert_eq!(ask("api.good.test").await, 200);
    assert_eq!(ask("api.other.test").await, 421);
    assert_eq!(ask("api.good.test").await, 200);
    assert_eq!(world.origin.seen().len(), 2);
    world.assert_silent();
    driving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_plain_http_and_a_tunnel_have_one_verdict() {
    let world = World::start().await;
    let token = world.token(&["internal"]);
    let answer =
        hop(&world, &token, "POST http://internal.good.test/x", "Host: internal.good.test\r\nContent-Length: 0\r\n")
            .await;
    assert_eq!(status(&answer), 403, "{answer}");
    assert_eq!(world.last_reason().as_deref(), Some("policy_denied"));
    let request = "POST /x HTTP/1.1\r\nHost: internal.good.test\r\nContent-Length: 0\r\n\r\n";
    let answer = inside(&world, "internal.good.test", &token, request).await;
    assert_eq!(status(&answer), 403, "{answer}");
    assert_eq!(world.last_reason().as_deref(), Some("policy_denied"));
    let answer = hop(&world, &token, "GET http://internal.good.test/x", "Host: internal.good.test\r\n").await;
    assert_eq!(status(&answer), 200, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_r17_a_credential_is_not_sent_in_clear_text_nor_to_another_port() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let answer = hop(&world, &token, "GET http://api.good.test/", "Host: api.good.test\r\n").await;
    assert_eq!(status(&answer), 403, "{answer}");
    for target in ["api.good.test:8443", "api.good.test:80"] {
        let mut tunnel = connect(world.proxy, target, &token).await.unwrap();
        if target.ends_with(":80") {
            tunnel.write_all(b"GET / HTTP/1.1\r\nHost: api.good.test\r\n\r\n").await.unwrap();
            assert_eq!(status(&read_answer(&mut tunnel).await), 403);
        } else {
            let mut stream = tls(tunnel, &world.ca_file(), "api.good.test", &[]).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: api.good.test:8443\r\n\r\n").await.unwrap();
            assert_eq!(status(&read_answer(&mut stream).await), 403);
        }
    }
    assert!(world.origin.seen().is_empty() && !world.plain.text().contains(GOOD));
    world.assert_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn r108_the_proxy_does_not_call_itself() {
    let options = Options {
        config: "public_url = \"http://proxy.test:8080\"\npassthrough = [\"*\"]\n".into(),
        ..Options::default()
    };
    let world = World::with(options).await;
    let token = world.token(&["good"]);
    let port = world.proxy.port();
    for own in
        [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}"), "proxy.test:8080".into()]
    {
        let answer = hop(&world, &token, &format!("CONNECT {own}"), "").await;
        assert_eq!(status(&answer), 508, "{own}: {answer}");
        let answer = hop(&world, &token, &format!("GET http://{own}/"), &format!("Host: {own}\r\n")).await;
        assert_eq!(status(&answer), 508, "{own}: {answer}");
        assert_eq!(world.last_reason().as_deref(), Some("loop"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_nobody_claims_is_refused_inside_the_tunnel_with_the_reason() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let answer = inside(&world, "evil.test", &token, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n").await;
    assert_eq!(status(&answer), 403, "{answer}");
    assert!(answer.to_ascii_lowercase().contains("x-kleis-reason: host_unclaimed"), "{answer}");
    assert!(world.origin.seen().is_empty());
    world.assert_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_base_url_form_needs_no_tunnel_and_no_ca() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    for login in [
        format!("Authorization: Bearer {token}"),
        format!("X-Api-Key: {token}"),
        format!("Proxy-Authorization: Bearer {token}\r\nAuthorization: Bearer kleis"),
    ] {
        let request = format!(
            "GET /https/api.good.test/v1/x?a=b HTTP/1.1\r\nHost: 127.0.0.1\r\n{login}\r\nConnection: close\r\n\r\n"
        );
        let answer = exchange(world.proxy, request.as_bytes()).await;
        assert_eq!(status(&answer), 200, "{answer}");
    }
    for seen in world.origin.seen() {
        assert_eq!((seen.authority.as_str(), seen.target.as_str()), ("api.good.test", "/v1/x?a=b"));
        assert_eq!(seen.header("authorization"), Some(format!("Bearer {GOOD}").as_str()));
        assert!(!format!("{seen:?}").contains(&token));
    }
    let nobody = "GET /https/api.good.test/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    let answer = exchange(world.proxy, nobody.as_bytes()).await;
    assert_eq!(status(&answer), 401, "{answer}");
    assert!(answer.to_ascii_lowercase().contains("www-authenticate: basic"), "{answer}");
    world.assert_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blind_tunnel_is_a_decision_and_ends_with_its_token() {
    let options = Options { config: "passthrough = [\"evil.test\"]\n".into(), ..Options::default() };
    let world = World::with(options).await;
    let token = world.token(&["good"]);
    let tunnel = connect(world.proxy, "evil.test:443", &token).await.unwrap();
    let origin_ca = world.home.path().join("origin-ca.pem");
    let mut stream = tls(tunnel, &origin_ca, "evil.test", &["http/1.1"]).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n").await.unwrap();
    assert_eq!(status(&read_answer(&mut stream).await), 200);
    let decision = world.audit().into_iter().rev().find(|line| line["kind"] == "decision").unwrap();
    assert_eq!((decision["decision"].as_str(), decision["mode"].as_str()), (Some("allow"), Some("passthrough")));
    world.kleis_ok(&["token", "revoke", "--bearer", "test:1"]);
    let cut = tokio::time::timeout(Duration::from_secs(5), read_to_end(&mut stream)).await;
    assert_eq!(cut.as_deref(), Ok(""));
    world.assert_silent();
}
