//! HTTP/1 framing: what two readers could read differently is refused, and the connection closed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests may panic"
)]

mod support;

use std::time::{Duration, Instant};

use support::raw::{connect, exchange, read_answer, read_to_end, tls};
use support::{Options, World};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// Bytes inside a tunnel to api.good.test; everything that comes back until the proxy closes.
async fn inside(world: &World, token: &str, bytes: &[u8]) -> String {
    let tunnel = connect(world.proxy, "api.good.test:443", token).await.unwrap();
    let mut stream = tls(tunnel, &world.ca_file(), "api.good.test", &["http/1.1"]).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    read_to_end(&mut stream).await
}

#[tokio::test(flavor = "multi_thread")]
async fn r30_r31_r35_r41_ambiguous_bytes_are_answered_400_and_closed_and_nothing_is_sent() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let mut wrong = Vec::new();
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length: 0x5",
        "Content-Length: -1",
        "Content-Length: 5 5",
        "Content-Length: 99999999999999999999",
    ] {
        wrong.push((format!("POST / HTTP/1.1\r\nHost: api.good.test\r\n{fields}\r\n\r\nhello"), "ambiguous_framing"));
    }
    for head in [
        "GET / HTTP/1.1\nHost: api.good.test\n\n",
        "GET / HTTP/1.1\r\nHost: api.good.test\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.good.test\r\nX-A: b\rTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.good.test\r\nX-A: b\r\n c\r\n\r\n",
        "GET /x\r\n\r\n",
        "GET /x HTTP/0.9\r\n\r\n",
        "GET /x HTTP/1.9\r\nHost: api.good.test\r\n\r\n",
        "GET /x HTTP/2.0\r\nHost: api.good.test\r\n\r\n",
        "GET /x http/1.1\r\nHost: api.good.test\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        wrong.push((head.to_owned(), "malformed"));
    }
    for (bytes, reason) in &wrong {
        let answer = inside(&world, &token, bytes.as_bytes()).await;
        assert_eq!(status(&answer), 400, "{bytes:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 400").count(), 1, "{answer}");
        assert_eq!(world.last_reason().as_deref(), Some(*reason), "{bytes:?}");
    }
    // and the same at the hop, before anybody is identified
    for (bytes, _) in &wrong {
        assert_eq!(status(&exchange(world.proxy, bytes.as_bytes()).await), 400, "{bytes:?}");
    }
    assert!(world.origin.seen().is_empty());
    let ok = "GET / HTTP/1.1\r\nHost: api.good.test\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&inside(&world, &token, ok.as_bytes()).await), 200);
    world.assert_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn r37_a_request_behind_a_body_is_judged_on_its_own() {
    let world = World::start().await;
    let token = world.token(&["good-read"]);
    let bytes = "GET /a HTTP/1.1\r\nHost: api.good.test\r\n\r\nDELETE /x HTTP/1.1\r\nHost: api.good.test\r\nConnection: close\r\n\r\n";
    let answers = inside(&world, &token, bytes.as_bytes()).await;
    let (first, second) = answers.split_at(answers[1..].find("HTTP/1.1").unwrap() + 1);
    assert_eq!((status(first), status(second)), (200, 403), "{answers}");
    assert_eq!(world.origin.seen().len(), 1);
    let writer = world.token(&["good"]);
    let body = "GET /z HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    let bytes = format!(
        "POST /b HTTP/1.1\r\nHost: api.good.test\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let answer = inside(&world, &writer, bytes.as_bytes()).await;
    assert_eq!((status(&answer), answer.matches("HTTP/1.1").count()), (200, 1), "{answer}");
    let seen = world.origin.seen();
    assert_eq!((seen.len(), seen[1].target.as_str()), (2, "/b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn r42_http_1_0_works_and_is_never_answered_in_chunks() {
    let world = World::start().await;
    let token = world.token(&["good", "internal"]);
    let mut stream = tokio::net::TcpStream::connect(world.proxy).await.unwrap();
    let head = format!("CONNECT api.good.test:443 HTTP/1.0\r\nProxy-Authorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = read_answer(&mut stream).await;
    assert!(status(&answer) == 200 && !answer.to_ascii_lowercase().contains("content-length"), "{answer}");
    let mut stream = tls(stream, &world.ca_file(), "api.good.test", &[]).await.unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(status(&answer) == 200 && !answer.to_ascii_lowercase().contains("chunked"), "{answer}");
    let plain = format!(
        "GET http://plain.good.test/ HTTP/1.0\r\nConnection: keep-alive\r\nProxy-Authorization: Bearer {token}\r\n\r\n"
    );
    let mut stream = tokio::net::TcpStream::connect(world.proxy).await.unwrap();
    for _ in 0..2 {
        stream.write_all(plain.as_bytes()).await.unwrap();
        let answer = read_answer(&mut stream).await;
        assert!(answer.ends_with("plain") && !answer.contains("chunked"), "{answer}");
    }
    assert!(world.plain.text().contains("HTTP/1.1\r\nhost: plain.good.test"), "{}", world.plain.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn r114_a_refusal_reaches_a_client_that_is_still_sending() {
    let world = World::start().await;
    let token = world.token(&["good-read"]);
    let tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    let mut stream = tls(tunnel, &world.ca_file(), "api.good.test", &["http/1.1"]).await.unwrap();
    let size = 20 << 20;
    let head = format!("POST /x HTTP/1.1\r\nHost: api.good.test\r\nContent-Length: {size}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // it reads only when it has sent everything
    let part = vec![b'x'; 1 << 20];
    for _ in 0..size >> 20 {
        stream.write_all(&part).await.unwrap();
    }
    let answer = read_to_end(&mut stream).await;
    assert_eq!(status(&answer), 403, "{answer}");
    assert!(answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
    assert!(world.origin.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn r117_slow_heads_are_closed_at_the_limit_and_others_are_served_meanwhile() {
    let options = Options { tables: "[limits]\nhead_timeout = \"2s\"\n".into(), ..Options::default() };
    let world = World::with(options).await;
    let token = world.token(&["good"]);
    let begun = Instant::now();
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = tokio::net::TcpStream::connect(world.proxy).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
        slow.push(stream);
    }
    let tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    let mut inner = tls(tunnel, &world.ca_file(), "api.good.test", &["http/1.1"]).await.unwrap();
    inner.write_all(b"GET / HTT").await.unwrap();
    let ok = "GET / HTTP/1.1\r\nHost: api.good.test\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&inside(&world, &token, ok.as_bytes()).await), 200);
    assert!(begun.elapsed() < Duration::from_secs(2), "the honest client had to wait");
    for mut stream in slow {
        assert_eq!(status(&read_to_end(&mut stream).await), 408);
    }
    assert_eq!(status(&read_to_end(&mut inner).await), 408);
}

#[tokio::test(flavor = "multi_thread")]
async fn r123_heads_that_are_too_large_are_refused_early() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let many = "X: y\r\n".repeat(300);
    for head in [
        format!("GET / HTTP/1.1\r\nHost: api.good.test\r\nX: {}\r\n\r\n", "a".repeat(64 << 10)),
        format!("GET / HTTP/1.1\r\nHost: api.good.test\r\n{many}\r\n"),
        format!("GET /{} HTTP/1.1\r\nHost: api.good.test\r\n\r\n", "a".repeat(32 << 10)),
    ] {
        let answer = inside(&world, &token, head.as_bytes()).await;
        assert_eq!(status(&answer), 431, "{answer}");
    }
    let login = format!("CONNECT a.test:443 HTTP/1.1\r\nProxy-Authorization: Bearer {}\r\n\r\n", "a".repeat(1 << 20));
    assert_eq!(status(&exchange(world.proxy, login.as_bytes()).await), 431);
    assert!(world.origin.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn other_expectations_than_100_continue_are_417() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let head = "POST / HTTP/1.1\r\nHost: api.good.test\r\nExpect: magic\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(status(&inside(&world, &token, head.as_bytes()).await), 417);
    let tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    let mut stream = tls(tunnel, &world.ca_file(), "api.good.test", &["http/1.1"]).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: api.good.test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut told = [0; 25];
    stream.read_exact(&mut told).await.unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hi").await.unwrap();
    assert_eq!(status(&read_answer(&mut stream).await), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_connections_are_told_so() {
    let options = Options { tables: "[limits]\nmax_connections = 3\n".into(), ..Options::default() };
    let world = World::with(options).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = tokio::net::TcpStream::connect(world.proxy).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        assert_eq!(status(&read_answer(&mut stream).await), 400);
        held.push(stream);
    }
    let mut stream = tokio::net::TcpStream::connect(world.proxy).await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(status(&answer) == 503 && answer.contains("overloaded"), "{answer}");
}
