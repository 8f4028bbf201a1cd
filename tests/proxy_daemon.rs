//! The daemon's life: start, listeners, signals, limits, end.
#![allow(
    clippy::string_slice,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic"
)]

mod support;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kleis::cli::origin::answer;
use support::raw::{connect, exchange, read_answer, read_to_end, tls};
use support::{Options, World, free_address, text, write};
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// A world whose origin answers `/slow` only when it is told to; it tells when it was asked.
async fn slow_world() -> (World, Arc<Notify>, Arc<Notify>) {
    let (asked, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (asked.clone(), go.clone());
    let play = move |request: http::Request<hyper::body::Incoming>| {
        let (tell, wait) = (tell.clone(), wait.clone());
        Box::pin(async move {
            if request.uri().path() == "/slow" {
                tell.notify_one();
                wait.notified().await;
            }
            answer(200, "text/plain", "done")
        }) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>
    };
    let world = World::with(Options { play: Some(Arc::new(play)), ..Options::default() }).await;
    (world, asked, go)
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_lets_open_requests_end_takes_no_new_ones_and_leaves_nothing_behind() {
    let (mut world, asked, go) = slow_world().await;
    let token = world.token(&["good"]);
    let tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    let mut stream = tls(tunnel, &world.ca_file(), "api.good.test", &["http/1.1"]).await.unwrap();
    let idle = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    let mut idle = tls(idle, &world.ca_file(), "api.good.test", &["http/1.1"]).await.unwrap();
    stream.write_all(b"GET /slow HTTP/1.1\r\nHost: api.good.test\r\n\r\n").await.unwrap();
    asked.notified().await;
    world.signal("TERM");
    // what is idle ends at once, and nobody comes in any more
    assert_eq!(read_to_end(&mut idle).await, "");
    assert!(tokio::net::TcpStream::connect(world.proxy).await.is_err());
    go.notify_one();
    let answer = read_to_end(&mut stream).await;
    assert!(status(&answer) == 200 && answer.ends_with("done"), "{answer}");
    assert!(world.wait().success());
    assert!(!world.home.path().join("data/control.sock").exists());
    let outcome = world.audit().into_iter().rev().find(|line| line["kind"] == "outcome").unwrap();
    assert_eq!(outcome["status"], 200);
    world.kleis_ok(&["audit", "verify"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_instant_it_starts_again_and_has_lost_nothing_that_was_acknowledged() {
    let mut world = World::start().await;
    let token = world.token(&["good"]);
    world.kleis_ok(&["token", "revoke", "--bearer", "test:1"]);
    world.signal("KILL");
    world.wait();
    world.restart();
    let refused =
        support::raw::inside(&world, "api.good.test", &token, "GET / HTTP/1.1\r\nHost: api.good.test\r\n\r\n");
    let answer = refused.await;
    assert!(answer.to_ascii_lowercase().contains("x-kleis-reason: token_revoked"), "{answer}");
    world.kleis_ok(&["audit", "verify"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_on_one_home_does_not_start_and_says_why() {
    let world = World::start().await;
    let second = Command::new(env!("CARGO_BIN_EXE_kleisd")).arg("--home").arg(world.home.path()).output().unwrap();
    assert!(!second.status.success());
    assert!(text(&second.stderr).contains("another kleis"), "{}", text(&second.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_says_where_and_what_in_a_line_and_fails() {
    for (path, content, said) in [
        ("config/config.toml", "listen = 5\n", "config.toml"),
        ("config/grants/x.toml", "name = \"x\"\nservise = \"github\"\n", "servise"),
        ("data/root.key", "nonsense\n", "root.key"),
        ("data/ca.key", "nonsense\n", "ca."),
    ] {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), "config/config.toml", &format!("listen = \"{}\"\n", free_address()));
        write(home.path(), path, content);
        let out = Command::new(env!("CARGO_BIN_EXE_kleisd")).arg("--home").arg(home.path()).output().unwrap();
        let told = text(&out.stderr);
        assert!(!out.status.success() && told.contains(said), "{path}: {told}");
        assert!(!told.contains("panicked") && !told.contains("nonsense"), "{told}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "config/config.toml", &format!("listen = \"{}\"\n", taken.local_addr().unwrap()));
    let out = Command::new(env!("CARGO_BIN_EXE_kleisd")).arg("--home").arg(home.path()).output().unwrap();
    assert!(text(&out.stderr).contains("cannot listen on `127.0.0.1:"), "{}", text(&out.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_a_unix_socket_listen_beside_the_proxy() {
    let metrics = free_address();
    let socket = tempfile::tempdir().unwrap();
    let path = socket.path().join("proxy.sock");
    let tables = format!(
        "[[listen]]\naddress = \"{metrics}\"\nrole = \"metrics\"\n[[listen]]\naddress = \"unix:{}\"\nrole = \"proxy\"\n",
        path.display()
    );
    let world = World::with(Options { tables, ..Options::default() }).await;
    let token = world.token(&["good"]);
    let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    let head = format!("CONNECT api.good.test:443 HTTP/1.1\r\nProxy-Authorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(status(&read_answer(&mut stream).await), 200);
    let mut stream = tls(stream, &world.ca_file(), "api.good.test", &[]).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: api.good.test\r\nConnection: close\r\n\r\n").await.unwrap();
    assert_eq!(status(&read_to_end(&mut stream).await), 200);
    let ask = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let page = exchange(metrics, ask.as_bytes()).await;
    let counted = "kleis_requests_total{service=\"good\",decision=\"allow\",reason=\"\"} 1";
    assert!(page.contains(counted) && page.contains("kleis_tunnels_total 1"), "{page}");
    assert!(!page.contains(&token[..20]));
    assert_eq!(status(&exchange(metrics, b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn r123_an_http2_head_has_a_limit_and_the_connection_survives() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    let stream = tls(tunnel, &world.ca_file(), "api.good.test", &["h2"]).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let driving = tokio::spawn(connection);
    let mut request = http::Request::get("https://api.good.test/").body(Empty::<Bytes>::new()).unwrap();
    for index in 0..40 {
        let name = http::HeaderName::from_bytes(format!("x-{index}").as_bytes()).unwrap();
        request.headers_mut().insert(name, "a".repeat(4000).parse().unwrap());
    }
    // our own SETTINGS stop an honest client; whoever sends it all the same gets a 431 or a reset
    let answered = sender.send_request(request).await;
    assert!(answered.as_ref().is_err() || answered.unwrap().status() == 431);
    let ok = http::Request::get("https://api.good.test/").body(Empty::<Bytes>::new()).unwrap();
    let _ = sender.send_request(ok).await;
    assert!(world.origin.seen().len() <= 1);
    driving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tokens_connections_have_a_limit_of_their_own() {
    let options = Options { tables: "[limits]\nmax_connections_per_token = 2\n".into(), ..Options::default() };
    let world = World::with(options).await;
    let token = world.token(&["good"]);
    let one = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    let _two = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
    let refused = connect(world.proxy, "api.good.test:443", &token).await.unwrap_err();
    assert!(status(&refused) == 503 && refused.to_ascii_lowercase().contains("overloaded"), "{refused}");
    drop(one);
    let deadline = Instant::now() + Duration::from_secs(10);
    while connect(world.proxy, "api.good.test:443", &token).await.is_err() {
        assert!(Instant::now() < deadline, "its place is not given back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_loads_the_configuration_again() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    write(
        world.home.path(),
        "config/grants/good.toml",
        "name = \"good\"\nservice = \"good\"\ndatalog = '''deny if true;'''\ncredential = \"good/main\"\n",
    );
    world.signal("HUP");
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let request = "GET / HTTP/1.1\r\nHost: api.good.test\r\n\r\n";
        if status(&support::raw::inside(&world, "api.good.test", &token, request).await) == 403 {
            break;
        }
        assert!(Instant::now() < deadline, "it is not in force");
    }
}
