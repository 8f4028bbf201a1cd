//! Real clients through a real kleisd to a TLS origin: curl, Python, Node, WebSocket, events, gRPC.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests may panic"
)]

mod support;

use std::process::Command;

use support::{DUMMY, GOOD, Options, World, clients, play, text};

/// A world whose origin plays everything, a token for it, and a sandbox's home.
async fn world() -> (World, String, tempfile::TempDir) {
    let world = World::with(Options { play: Some(play::play()), ..Options::default() }).await;
    let token = world.token(&["good", "internal"]);
    (world, token, tempfile::tempdir().unwrap())
}

/// Runs a client; its standard output. Anything but success fails the test.
fn run(mut command: Command) -> String {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {}{}", text(&out.stdout), text(&out.stderr));
    text(&out.stdout)
}

/// `program args` in the sandbox, or `None` if it is not installed.
fn sandboxed(world: &World, token: &str, home: &tempfile::TempDir, program: &str, args: &[&str]) -> Option<String> {
    let mut command = clients::sandboxed(world, &clients::find(program)?, token, home.path());
    command.args(args);
    if program == "node" {
        command.env("NODE_PATH", concat!(env!("CARGO_MANIFEST_DIR"), "/target/clients/node/node_modules"));
    }
    Some(run(command))
}

/// The origin saw GOOD and only GOOD in every request to api.good.test.
fn assert_injected(world: &World, at_least: usize) {
    let seen: Vec<_> = world.origin.seen().into_iter().filter(|s| s.authority.starts_with("api.good.test")).collect();
    assert!(seen.len() >= at_least, "{} requests", seen.len());
    for one in &seen {
        assert_eq!(one.header("authorization"), Some(format!("Bearer {GOOD}").as_str()), "{one:?}");
        assert!(
            one.count("authorization") == 1 && one.count("proxy-authorization") == 0 && one.count("x-api-key") == 0
        );
        assert!(!format!("{one:?}").contains(DUMMY), "{one:?}");
    }
    world.assert_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_works_with_both_http_versions_uploads_downloads_and_ranges() {
    let (world, token, home) = world().await;
    let curl = |args: &[&str]| sandboxed(&world, &token, &home, "curl", args).unwrap();
    let auth = format!("Authorization: Bearer {DUMMY}");
    for version in ["--http1.1", "--http2"] {
        let told = curl(&["-sS", version, "-H", &auth, "-H", "X-Api-Key: DUMMY", "https://api.good.test/x?a=1&a=2"]);
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told["query"], &told["authorized"]), (&"a=1&a=2".into(), &true.into()));
        let size =
            curl(&["-sS", version, "-o", "/dev/null", "-w", "%{size_download}", "https://api.good.test/big/20000000"]);
        assert_eq!(size, "20000000");
        let range = curl(&["-sS", version, "-r", "10-19", "https://api.good.test/big/1000"]);
        assert_eq!(range, "xxxxxxxxxx");
        let file = home.path().join("upload");
        std::fs::write(&file, vec![b'u'; 3 << 20]).unwrap();
        let told = curl(&["-sS", version, "-T", file.to_str().unwrap(), "https://api.good.test/sink"]);
        assert!(told.contains(&format!("\"length\":{}", 3 << 20)), "{told}");
        let told =
            curl(&["-sS", version, "-H", "Transfer-Encoding: chunked", "-d", "@upload", "https://api.good.test/sink"]);
        assert!(told.contains(&format!("\"length\":{}", 3 << 20)), "{told}");
        let events = curl(&["-sSN", version, "https://api.good.test/events/4"]);
        assert_eq!(events, "data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\n");
    }
    assert_injected(&world, 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn r90_a_redirect_to_signed_storage_is_the_clients_and_gets_no_credential() {
    let (world, token, home) = world().await;
    let code =
        sandboxed(&world, &token, &home, "curl", &["-sS", "-w", "%{http_code}", "https://api.good.test/redirect"]);
    assert_eq!(code.unwrap(), "302");
    assert!(world.origin.seen().iter().all(|seen| !seen.authority.starts_with("store.test")));
}

#[tokio::test(flavor = "multi_thread")]
async fn python_works_with_urllib_requests_httpx_and_aiohttp() {
    let (world, token, home) = world().await;
    let script = format!(
        r#"
import asyncio, urllib.request
url = "https://api.good.test/py"
headers = {{"Authorization": "Bearer {DUMMY}"}}
assert urllib.request.urlopen(urllib.request.Request(url, headers=headers)).status == 200
import requests
assert requests.post(url, data=b"x" * 100000, headers=headers).json()["length"] == 100000
import httpx
assert httpx.get(url, headers=headers).json()["authorized"] is True
with httpx.Client(http2=True) as client:
    assert client.get(url).json()["authorized"] is True
import aiohttp
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session:
        async with session.get(url) as response:
            assert (await response.json())["authorized"] is True
asyncio.run(main())
print("ok")
"#
    );
    let Some(said) = sandboxed(&world, &token, &home, "python", &["-c", &script]) else { return };
    assert_eq!(said.trim(), "ok");
    assert_injected(&world, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn node_works_with_undici_in_tunnels_for_both_schemes() {
    let (world, token, home) = world().await;
    let script = r#"
const { fetch, EnvHttpProxyAgent, setGlobalDispatcher } = require('undici');
setGlobalDispatcher(new EnvHttpProxyAgent());
(async () => {
  const secure = await fetch('https://api.good.test/node', { method: 'POST', body: 'x'.repeat(1000), headers: { authorization: 'Bearer DUMMY' } });
  if (!(await secure.json()).authorized) throw new Error('not authorized');
  const plain = await fetch('http://plain.good.test/node');
  if (await plain.text() !== 'plain') throw new Error('clear text in a tunnel (R09)');
  console.log('ok');
})().catch(error => { console.error(error); process.exit(1); });
"#;
    let Some(said) = sandboxed(&world, &token, &home, "node", &["-e", script]) else { return };
    assert_eq!(said.trim(), "ok");
    assert_injected(&world, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn r111_a_websocket_gets_the_credential_on_its_handshake_and_keeps_early_bytes() {
    let (world, token, home) = world().await;
    let script = r#"
import asyncio, websockets
async def main():
    async with websockets.connect("wss://api.good.test/ws") as ws:
        assert await ws.recv() == "hello"
        await ws.send("ping me")
        assert await ws.recv() == "ping me"
        await ws.send(b"\x00\xff")
        assert await ws.recv() == b"\x00\xff"
asyncio.run(main())
print("ok")
"#;
    let Some(said) = sandboxed(&world, &token, &home, "python", &["-c", script]) else { return };
    assert_eq!(said.trim(), "ok");
    assert_injected(&world, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn r46_grpc_works_end_to_end_with_its_trailers() {
    let (world, token, home) = world().await;
    let script = r#"
import grpc
with open(__import__("os").environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"], "rb") as f:
    credentials = grpc.ssl_channel_credentials(f.read())
channel = grpc.secure_channel("api.good.test:443", credentials)
same = lambda b: b
unary = channel.unary_unary("/echo.Echo/Unary", request_serializer=same, response_deserializer=same)
assert unary(b"one", timeout=20) == b"one"
both = channel.stream_stream("/echo.Echo/Both", request_serializer=same, response_deserializer=same)
assert list(both(iter([b"a", b"b", b"c"]), timeout=20)) == [b"a", b"b", b"c"]
print("ok")
"#;
    let Some(said) = sandboxed(&world, &token, &home, "python", &["-c", script]) else { return };
    assert_eq!(said.trim(), "ok");
    assert_injected(&world, 2);
}
