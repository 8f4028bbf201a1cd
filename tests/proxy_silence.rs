//! What leaks back: nothing of a request's secrets, nothing of the inside, in answers, logs and audit.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests may panic"
)]

mod support;

use support::raw::{connect, exchange, inside, read_answer, tls};
use support::{GOOD, Options, World, write};
use tokio::io::AsyncWriteExt;

const SECRET_QUERY: &str = "q-6b1f07";
const SECRET_HEADER: &str = "h-0ea9d4";

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn r125_r127_refusals_and_logs_at_the_finest_level_hold_nothing_of_the_request() {
    let options = Options {
        env: vec![("KLEIS_LOG".into(), "trace,hyper=trace,h2=trace,rustls=trace,tokio_rustls=trace".into())],
        files: vec![(
            "config/services/broken.toml".into(),
            "name = \"broken\"\nabout = \"nobody there\"\nhosts = [\"down.test\", \"private.test\"]\n[credential]\nhosts = [\"down.test\"]\n\
             [[credential.inject]]\nhosts = [\"down.test\"]\nkind = \"header\"\nname = \"Authorization\"\ntemplate = \"Bearer {{secret}}\"\n\
             [[route]]\nmatch = \"GET down.test /{rest*}\"\nemit = ['operation(\"read\")']\n\
             [[route]]\nmatch = \"GET private.test /{rest*}\"\nemit = ['operation(\"read\")']\n"
                .into(),
        ), (
            "config/grants/broken.toml".into(),
            "name = \"broken\"\nservice = \"broken\"\nanonymous = true\ndatalog = '''allow if grant(\"broken\"), operation(\"read\");'''\n".into(),
        )],
        tables: String::new(),
        ..Options::default()
    };
    let world = World::with(options).await;
    let token = world.token(&["good-read", "broken"]);
    let mut answers = Vec::new();
    for (host, line) in [
        ("api.good.test", "POST /denied"),
        ("api.good.test", "GET /a/../b"),
        ("evil.test", "GET /unclaimed"),
        ("down.test", "GET /unreachable"),
        ("api.good.test", "GET /allowed"),
    ] {
        let request = format!(
            "{line}?key={SECRET_QUERY} HTTP/1.1\r\nHost: {host}\r\nX-Secret: {SECRET_HEADER}\r\nAuthorization: Bearer {SECRET_HEADER}\r\n\r\n"
        );
        answers.push(inside(&world, host, &token, &request).await);
    }
    let statuses: Vec<_> = answers.iter().map(|answer| status(answer)).collect();
    assert_eq!(statuses, [403, 400, 403, 502, 200], "{answers:#?}");
    let audit: String = world.audit().iter().map(ToString::to_string).collect();
    let log = world.log();
    for secret in [SECRET_QUERY, SECRET_HEADER, GOOD, &GOOD[..8], &token, &token[..24]] {
        for answer in &answers {
            assert!(!answer.contains(secret), "{secret} in {answer}");
        }
        assert!(!audit.contains(secret), "{secret} in the audit");
        let line = log.lines().find(|line| line.contains(secret));
        assert!(line.is_none(), "{secret} in the log: {line:?}");
    }
    for answer in &answers[..4] {
        let told = answer.to_ascii_lowercase();
        assert!(told.contains("x-kleis-reason: ") && told.contains("x-kleis-request-id: "), "{answer}");
        assert!(!answer.contains("127.0.0.1") && !answer.contains("os error"), "{answer}");
    }
    world.assert_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_answer_those_who_may_and_no_page_of_a_browser() {
    let world = World::start().await;
    let token = world.token(&["good"]);
    let ask = async |path: &str, fields: &str| {
        let head =
            format!("GET /.kleis/v1/{path} HTTP/1.1\r\nHost: {}\r\n{fields}Connection: close\r\n\r\n", world.proxy);
        exchange(world.proxy, head.as_bytes()).await
    };
    assert_eq!(status(&ask("health", "").await), 200);
    assert_eq!(status(&ask("ca", "").await), 401);
    let login = format!("Authorization: Bearer {token}\r\n");
    let ca = ask("ca", &login).await;
    assert!(ca.contains("-----BEGIN CERTIFICATE-----"), "{ca}");
    assert_eq!(status(&ask("status", &login).await), 403);
    assert_eq!(status(&ask("metrics", &login).await), 403);
    assert_eq!(status(&ask("nothing", &login).await), 404);
    assert_eq!(status(&ask("health", "Origin: http://evil.test\r\n").await), 421);
    let rebound = "GET /.kleis/v1/health HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&exchange(world.proxy, rebound.as_bytes()).await), 421);
    let issuer = world.kleis(&["issuer", "token", "orchestra", "--ttl", "1h"]);
    if issuer.status.success() {
        let login = format!("Authorization: Bearer {}\r\n", support::text(&issuer.stdout).trim());
        let told = ask("status", &login).await;
        assert!(told.contains("good/main") && !told.contains(GOOD), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r163_r164_a_bad_file_changes_nothing_and_a_good_one_counts_at_once() {
    let world = World::start().await;
    let token = world.token(&["good-read"]);
    let ask = async |line: &str| {
        let tunnel = connect(world.proxy, "api.good.test:443", &token).await.unwrap();
        let mut stream = tls(tunnel, &world.ca_file(), "api.good.test", &["http/1.1"]).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nHost: api.good.test\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        status(&read_answer(&mut stream).await)
    };
    assert_eq!((ask("GET /").await, ask("POST /").await), (200, 403));
    let logged = async |text: &str| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !world.log().contains(text) {
            assert!(std::time::Instant::now() < deadline, "`{text}` is not logged: {}", world.log());
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    write(
        world.home.path(),
        "config/grants/good-read.toml",
        "name = \"good-read\"\nservice = \"good\"\nnonsense = true\n",
    );
    logged("the configuration was not loaded").await;
    assert_eq!((ask("GET /").await, ask("POST /").await), (200, 403));
    let wider = "name = \"good-read\"\nservice = \"good\"\ncredential = \"good/main\"\ndatalog = '''allow if grant(\"good-read\");'''\n";
    write(world.home.path(), "config/grants/good-read.toml", wider);
    logged("the configuration was loaded").await;
    assert_eq!((ask("GET /").await, ask("POST /").await), (200, 200));
    world.assert_silent();
}
