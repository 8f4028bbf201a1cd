//! Who asks: the login at the hop, what of it goes on (nothing), and what each client negotiates.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests may panic"
)]

mod support;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::raw::{connect, exchange, inside, read_answer, tls};
use support::{DUMMY, GOOD, World};
use tokio::io::AsyncWriteExt;

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn r79_a_missing_login_is_407_with_both_challenges_and_the_connection_goes_on() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let mut stream = tokio::net::TcpStream::connect(world.proxy).await.unwrap();
    let bare = "CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n";
    stream.write_all(format!("{bare}\r\n").as_bytes()).await.unwrap();
    let answer = read_answer(&mut stream).await.to_ascii_lowercase();
    assert_eq!(status(&answer), 407, "{answer}");
    assert!(
        answer.contains("\r\nproxy-authenticate: basic realm=") && answer.contains("\r\nproxy-authenticate: bearer")
    );
    assert!(answer.contains("content-length:") && !answer.contains("connection: close"), "{answer}");
    assert_eq!(world.last_reason().as_deref(), Some("token_missing"));
    use base64::Engine;
    let login = base64::engine::general_purpose::STANDARD.encode(format!("kleis:{token}"));
    stream.write_all(format!("{bare}Proxy-Authorization: Basic {login}\r\n\r\n").as_bytes()).await.unwrap();
    assert_eq!(status(&read_answer(&mut stream).await), 200);
    let mut stream = tls(stream, &world.ca_file(), "api.good.test", &[]).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: api.good.test\r\n\r\n").await.unwrap();
    assert_eq!(status(&read_answer(&mut stream).await), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn r130_wrong_logins_are_told_the_same_words_and_nothing_of_what_they_sent() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let forged = format!("{}AAAA", &token[..token.len() - 4]);
    let mut told = Vec::new();
    for login in [
        "Bearer secretword".to_owned(),
        format!("Bearer {forged}"),
        "Basic c2VjcmV0d29yZA==".to_owned(),
        "Digest secretword".to_owned(),
    ] {
        let head =
            format!("CONNECT api.good.test:443 HTTP/1.1\r\nProxy-Authorization: {login}\r\nConnection: close\r\n\r\n");
        let answer = exchange(world.proxy, head.as_bytes()).await;
        assert_eq!(status(&answer), 407, "{answer}");
        assert!(!answer.contains("secretword") && !answer.contains(&forged[..20]), "{answer}");
        told.push(answer.split("kleis: ").nth(1).unwrap().split('\n').next().unwrap().to_owned());
    }
    assert!(told.iter().all(|text| *text == told[0]), "{told:?}");
    assert!(
        !world.log().contains("secretword")
            && !world.audit().iter().any(|line| line.to_string().contains("secretword"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn r53_r61_nothing_that_is_meant_for_the_proxy_goes_on() {
    let world = World::start().await;
    let token = world.token(&["good", "internal"]);
    let fields = format!(
        "Proxy-Authorization: Bearer {token}\r\nX-Kleis-Token: {token}\r\nProxy-Connection: keep-alive\r\n\
         X-Forwarded-Host: evil.test\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: host=evil.test\r\nX-Original-URL: /admin\r\n\
         X-Rewrite-URL: /admin\r\nVia: 1.1 agent\r\nCookie: a=b\r\n"
    );
    let request = format!("GET /in HTTP/1.1\r\nHost: api.good.test\r\n{fields}\r\n");
    let answer = inside(&world, "api.good.test", &token, &request).await;
    assert_eq!(status(&answer), 200, "{answer}");
    let seen = world.origin.seen();
    let shown = format!("{seen:?}").to_ascii_lowercase();
    for gone in [
        token.to_ascii_lowercase().as_str(),
        "proxy-",
        "x-kleis",
        "forwarded",
        "x-original",
        "x-rewrite",
        "via",
        "evil.test",
        "cookie",
    ] {
        assert!(!shown.contains(gone), "{gone} in {shown}");
    }
    let request = format!(
        "GET http://plain.good.test/out HTTP/1.1\r\nHost: plain.good.test\r\n{fields}Connection: close\r\n\r\n"
    );
    assert_eq!(status(&exchange(world.proxy, request.as_bytes()).await), 200);
    let shown = world.plain.text().to_ascii_lowercase();
    assert!(
        shown.contains("get /out") && !shown.contains(&token.to_ascii_lowercase()) && !shown.contains("proxy-"),
        "{shown}"
    );
    world.assert_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_the_upstream_gets_one_authorization_whatever_the_client_sent() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let twenty = format!("Authorization: Bearer {DUMMY}\r\n").repeat(20);
    for fields in [
        format!("Authorization: Bearer {DUMMY}\r\nAuthorization: Bearer other\r\n"),
        format!("authorization: Bearer {DUMMY}\r\n"),
        format!("AUTHORIZATION:\tBearer\t{DUMMY}\r\n"),
        "Authorization:\r\n".to_owned(),
        twenty,
        String::new(),
    ] {
        let request = format!("GET /x HTTP/1.1\r\nHost: api.good.test\r\n{fields}\r\n");
        let answer = inside(&world, "api.good.test", &token, &request).await;
        assert_eq!(status(&answer), 200, "{fields:?}: {answer}");
    }
    for seen in world.origin.seen() {
        assert_eq!(seen.count("authorization"), 1, "{seen:?}");
        assert_eq!(seen.header("authorization"), Some(format!("Bearer {GOOD}").as_str()));
    }
    // listing it among the hop's own fields does not take it away
    let request = "GET /x HTTP/1.1\r\nHost: api.good.test\r\nAuthorization: x\r\nConnection: authorization\r\n\r\n";
    assert_eq!(status(&inside(&world, "api.good.test", &token, request).await), 400);
    world.assert_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_the_clients_protocol_is_chosen_from_its_own_list() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    for (offered, chosen) in
        [(&["http/1.1"][..], Some("http/1.1")), (&[], None), (&["h2"], Some("h2")), (&["h2", "http/1.1"], Some("h2"))]
    {
        let tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
        let mut stream = tls(tunnel, &world.ca_file(), "api.good.test", offered).await.unwrap();
        let negotiated = stream.get_ref().1.alpn_protocol().map(|p| String::from_utf8_lossy(p).into_owned());
        assert_eq!(negotiated.as_deref(), chosen);
        if chosen != Some("h2") {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: api.good.test\r\n\r\n").await.unwrap();
            assert_eq!(status(&read_answer(&mut stream).await), 200);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r50_websockets_over_http2_are_not_advertised() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    let stream = tls(tunnel, &world.ca_file(), "api.good.test", &["h2"]).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let driving = tokio::spawn(connection);
    let mut request = http::Request::connect("https://api.good.test/ws").body(Empty::<Bytes>::new()).unwrap();
    request.extensions_mut().insert(hyper::ext::Protocol::from_static("websocket"));
    // refused at once, by our SETTINGS or on the stream: nobody waits
    let refused = tokio::time::timeout(std::time::Duration::from_secs(2), sender.send_request(request)).await.unwrap();
    assert!(refused.is_err() || !refused.unwrap().status().is_success());
    assert!(world.origin.seen().is_empty());
    driving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn r78_a_client_that_does_not_trust_the_ca_is_told_apart() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    assert!(tls(tunnel, &world.home.path().join("origin-ca.pem"), "api.good.test", &[]).await.is_err());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !world.log().contains("does not trust this proxy's CA") {
        assert!(std::time::Instant::now() < deadline, "nothing in the log");
        tokio::task::yield_now().await;
    }
    assert!(world.log().contains("api.good.test") && world.log().contains("test:1"), "{}", world.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_is_refused_at_once_inside_open_tunnels_and_at_new_ones() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    let mut stream = tls(tunnel, &world.ca_file(), "api.good.test", &["http/1.1"]).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: api.good.test\r\n\r\n";
    stream.write_all(request).await.unwrap();
    assert_eq!(status(&read_answer(&mut stream).await), 200);
    world.kleis_ok(&["token", "revoke", "--bearer", "test:1"]);
    stream.write_all(request).await.unwrap();
    let answer = read_answer(&mut stream).await;
    assert_eq!(status(&answer), 403, "{answer}");
    assert!(answer.to_ascii_lowercase().contains("x-kleis-reason: token_revoked"), "{answer}");
    // a claimed name: the reason is told inside
    let answer = inside(&world, "api.good.test", &token, "GET / HTTP/1.1\r\nHost: api.good.test\r\n\r\n").await;
    assert_eq!(status(&answer), 403, "{answer}");
    // no leaf is minted for any other
    assert!(connect(world.proxy, "evil.test:443", &token).await.is_err_and(|answer| status(&answer) == 403));
    assert_eq!(world.origin.seen().len(), 1);
}
