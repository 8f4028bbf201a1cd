//! What the upstream side does with requests and answers, between real sockets and real TLS: protocol pairs,
//! framing, trailers, early and interim answers, stale connections, upgrades, cuts.
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
#[allow(dead_code, reason = "each test file uses a part of it")]
mod world;

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use kleis::proxy::relay::Cut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use world::{Origin, PATIENCE, Played, Proxy, get, h1, h2, text};

const BOTH: &[&[u8]] = &[b"h2", b"http/1.1"];
const ONLY_H1: &[&[u8]] = &[b"http/1.1"];

/// Tells what it got.
async fn echo(request: Request<Incoming>) -> Response<Played> {
    let (head, body) = request.into_parts();
    let fields: Vec<String> = head.headers.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
    let host = head.uri.authority().map(ToString::to_string).unwrap_or_default();
    let body = body.collect().await.unwrap();
    let trailers = format!("{:?}", body.trailers());
    let told = format!(
        "{:?} {} {} {host}\n{}\n{}\n{trailers}",
        head.version,
        head.method,
        head.uri.path_and_query().unwrap(),
        fields.join("\n"),
        String::from_utf8_lossy(&body.to_bytes()),
    );
    text(200, told)
}

async fn body_text(answer: Response<Incoming>) -> String {
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn h1_to_h1() {
    let origin = Origin::play(ONLY_H1, echo).await;
    let proxy = Proxy::start(&origin).await;
    for _ in 0..3 {
        let told = h1(&proxy, "POST /a%2Fb?q=%20x HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello").await;
        assert!(told.contains("HTTP/1.1 POST /a%2Fb?q=%20x"), "{told}");
        assert!(told.contains("host: api.good.test") && told.contains("content-length: 5"), "{told}");
        assert!(told.contains("authorization: Bearer GOOD") && told.contains("\nhello\n"), "{told}");
    }
    assert_eq!(origin.count(), 1, "one connection serves all");
}

#[tokio::test]
async fn r45_h1_to_h2_the_upstreams_protocol_is_chosen_on_its_own() {
    let origin = Origin::play(BOTH, echo).await;
    let proxy = Proxy::start(&origin).await;
    let all = (0..16).map(|_| h1(&proxy, "POST /x HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello"));
    for told in futures_util::future::join_all(all).await {
        assert!(told.contains("HTTP/2.0 POST /x api.good.test"), "{told}");
        assert!(told.contains("content-length: 5") && !told.contains("\nhost:"), "{told}");
    }
    assert_eq!(origin.count(), 1, "16 clients share one connection");
}

#[tokio::test]
async fn h2_to_h1() {
    let origin = Origin::play(ONLY_H1, echo).await;
    let proxy = Proxy::start(&origin).await;
    let mut client = h2(&proxy).await;
    let told = body_text(client.send_request(get("/y")).await.unwrap()).await;
    assert!(told.contains("HTTP/1.1 GET /y") && told.contains("host: api.good.test"), "{told}");
}

#[tokio::test]
async fn r46_h2_to_h2_streams_both_ways_and_keeps_trailers() {
    let origin = Origin::play(BOTH, |request: Request<Incoming>| async move {
        assert_eq!(request.headers()["te"], "trailers");
        // a bidirectional stream: each message is answered before the next one comes
        let messages = request.into_body().into_data_stream().map(|data| Ok(Frame::data(data.unwrap())));
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let end = futures_util::stream::once(async { Ok(Frame::trailers(trailers)) });
        Response::new(StreamBody::new(messages.chain(end)).boxed_unsync())
    })
    .await;
    let proxy = Proxy::start(&origin).await;
    let (send, messages) = tokio::sync::mpsc::unbounded_channel::<Bytes>();
    let messages = futures_util::stream::unfold(messages, |mut messages| async {
        messages.recv().await.map(|m| (Ok::<_, Infallible>(Frame::data(m)), messages))
    });
    let request = Request::post("https://api.good.test/echo.Echo/Both")
        .header("te", "trailers")
        .header("content-type", "application/grpc")
        .body(StreamBody::new(Box::pin(messages)))
        .unwrap();
    let mut client = h2(&proxy).await;
    let mut answer = timeout(PATIENCE, client.send_request(request)).await.unwrap().unwrap().into_body();
    for message in ["one", "two", "three"] {
        send.send(Bytes::from(message)).unwrap();
        let frame = timeout(PATIENCE, answer.frame()).await.unwrap().unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), message);
    }
    drop(send);
    let frame = timeout(PATIENCE, answer.frame()).await.unwrap().unwrap().unwrap();
    assert_eq!(frame.into_trailers().unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn bodies_of_any_size_come_through_whole_in_every_pair() {
    for alpn in [ONLY_H1, BOTH] {
        let origin = Origin::play(alpn, |request: Request<Incoming>| async move {
            let sent = request.into_body().collect().await.unwrap().to_bytes();
            Response::new(Full::new(sent).map_err(|never| match never {}).boxed_unsync())
        })
        .await;
        let proxy = Proxy::start(&origin).await;
        let sent: Vec<u8> = (0..9_000_000u32).map(|i| (i % 251) as u8).collect();
        let mut client = h2(&proxy).await;
        let request = Request::put("https://api.good.test/").body(Full::new(Bytes::from(sent.clone()))).unwrap();
        let back = client.send_request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert!(back == sent, "{alpn:?} h2");
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        let head = format!("PUT / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", sent.len());
        let (mut read, mut write) = stream.split();
        let mut answer = Vec::new();
        let (wrote, got) = tokio::join!(
            async {
                write.write_all(head.as_bytes()).await?;
                write.write_all(&sent).await
            },
            read.read_to_end(&mut answer)
        );
        wrote.unwrap();
        got.unwrap();
        assert!(answer.ends_with(&sent), "{alpn:?} h1");
        assert_eq!(
            proxy.reports.lock().unwrap().iter().map(|r| (r.up, r.down, r.complete)).collect::<Vec<_>>(),
            [(9_000_000, 9_000_000, true), (9_000_000, 9_000_000, true)]
        );
    }
}

#[tokio::test]
async fn a_streamed_body_of_unknown_length_is_chunked_also_for_a_get() {
    let origin = Origin::play(ONLY_H1, echo).await;
    let proxy = Proxy::start(&origin).await;
    for method in ["POST", "GET"] {
        let told =
            h1(&proxy, &format!("{method} / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
                .await;
        assert!(told.contains("transfer-encoding: chunked") && told.contains("\nabc\n"), "{told}");
    }
    let told = h1(&proxy, "POST / HTTP/1.1\r\n\r\n").await;
    assert!(told.contains("content-length: 0"), "a POST without a body says so: {told}");
}

#[tokio::test]
async fn r40_request_trailers_lose_what_authenticates_and_keep_the_rest() {
    for alpn in [ONLY_H1, BOTH] {
        let origin = Origin::play(alpn, echo).await;
        let proxy = Proxy::start(&origin).await;
        let told = h1(
            &proxy,
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ntrailer: authorization, host, content-length, x-api-key, \
             x-checksum\r\n\r\n3\r\nabc\r\n0\r\nauthorization: Bearer EVIL\r\nhost: evil.test\r\ncontent-length: 9\r\n\
             x-api-key: EVIL\r\nx-checksum: 7\r\n\r\n",
        )
        .await;
        assert!(told.contains("x-checksum\": \"7"), "{told}");
        assert!(!told.contains("EVIL") && !told.contains("evil.test"), "{told}");
    }
}

#[tokio::test]
async fn r42_an_http_1_0_client_gets_no_chunks_and_the_origin_an_http_1_1_request() {
    let origin = Origin::play(ONLY_H1, |request: Request<Incoming>| async move {
        assert_eq!(request.version(), http::Version::HTTP_11);
        assert!(request.headers().contains_key("host"));
        let parts = ["some ", "parts"].map(|part| Ok(Frame::data(Bytes::from(part))));
        Response::new(StreamBody::new(futures_util::stream::iter(parts)).boxed_unsync())
    })
    .await;
    let proxy = Proxy::start(&origin).await;
    let answer = h1(&proxy, "GET / HTTP/1.0\r\n\r\n").await;
    assert!(answer.ends_with("\r\n\r\nsome parts"), "{answer}");
    assert!(!answer.to_lowercase().contains("chunked"), "{answer}");
}

#[tokio::test]
async fn r90_a_redirect_is_passed_on_and_not_followed() {
    let origin = Origin::play(BOTH, |_| async {
        let mut answer = text(302, "");
        answer.headers_mut().insert("location", HeaderValue::from_static("https://store.test/?X-Amz-Signature=1"));
        answer
    })
    .await;
    let proxy = Proxy::start(&origin).await;
    let answer = h1(&proxy, "GET / HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 302") && answer.contains("https://store.test/?X-Amz-Signature=1"), "{answer}");
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn r109_each_event_is_there_before_the_next_one_is_made() {
    for alpn in [ONLY_H1, BOTH] {
        let (send, events) = tokio::sync::mpsc::unbounded_channel::<Bytes>();
        let events = std::sync::Arc::new(std::sync::Mutex::new(Some(events)));
        let origin = Origin::play(alpn, move |_| {
            let events = events.lock().unwrap().take().unwrap();
            async {
                let events = futures_util::stream::unfold(events, |mut events| async {
                    events.recv().await.map(|event| (Ok(Frame::data(event)), events))
                });
                let mut answer = Response::new(StreamBody::new(Box::pin(events)).boxed_unsync());
                answer.headers_mut().insert("content-type", HeaderValue::from_static("text/event-stream"));
                answer
            }
        })
        .await;
        let proxy = Proxy::start(&origin).await;
        let mut client = h2(&proxy).await;
        let mut answer = client.send_request(get("/events")).await.unwrap().into_body();
        for number in 0..20 {
            let event = format!("data: {number}\n\n");
            send.send(Bytes::from(event.clone())).unwrap();
            let frame = timeout(PATIENCE, answer.frame()).await.unwrap().unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), event);
        }
        drop(send);
        let end = timeout(PATIENCE, answer.collect()).await.unwrap().unwrap();
        assert!(end.to_bytes().is_empty());
    }
}

#[tokio::test]
async fn a_revocation_cuts_an_open_stream_and_the_client_sees_an_error() {
    let origin = Origin::play(BOTH, |_| async {
        let first = futures_util::stream::iter([Ok(Frame::data(Bytes::from("first")))]);
        Response::new(StreamBody::new(first.chain(futures_util::stream::pending())).boxed_unsync())
    })
    .await;
    let proxy = Proxy::start(&origin).await;
    let mut client = h2(&proxy).await;
    let mut answer = client.send_request(get("/events")).await.unwrap().into_body();
    answer.frame().await.unwrap().unwrap();
    proxy.watchers.sweep(0, &|ids| ids.contains(&world::watched_id()));
    let cut = timeout(PATIENCE, answer.frame()).await.unwrap().unwrap();
    assert!(cut.is_err(), "{cut:?}");
    let report = proxy.reports.lock().unwrap()[0];
    assert_eq!((report.cut, report.complete, report.down), (Some(Cut::Revoked), false, 5));
}

#[tokio::test]
async fn a_cut_reaches_the_upstream_although_the_client_reads_nothing() {
    let (gone, upstream_gone) = tokio::sync::oneshot::channel();
    let gone = std::sync::Mutex::new(Some(gone));
    let origin = Origin::raw(ONLY_H1, move |mut stream, _| {
        let gone = gone.lock().unwrap().take();
        async move {
            world::read_head(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n").await.unwrap();
            while stream.write_all(&[b'x'; 65536]).await.is_ok() {}
            let _ = gone.unwrap().send(());
        }
    })
    .await;
    let proxy = Proxy::start(&origin).await;
    let mut client = TcpStream::connect(proxy.address).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    client.readable().await.unwrap();
    // not a byte is read: the proxy's buffers fill up, and nobody polls its body any more
    let (watchers, sweeper) = (proxy.watchers.clone(), proxy.watchers.clone());
    let sweeping = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if !sweeper.is_empty() {
                tokio::time::sleep(Duration::from_millis(200)).await;
                sweeper.cut_all(Cut::Revoked);
            }
        }
    });
    timeout(PATIENCE, upstream_gone).await.unwrap().unwrap();
    sweeping.abort();
    drop(watchers);
}

#[tokio::test]
async fn r111_a_websocket_flows_both_ways_and_early_bytes_are_not_lost() {
    let origin = Origin::raw(BOTH, |mut stream, _| async move {
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]), "upgrades go over HTTP/1.1");
        let head = world::read_head(&mut stream).await.unwrap();
        assert!(head.contains("authorization: Bearer GOOD") && head.contains("upgrade: websocket"), "{head}");
        let answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nearly";
        stream.write_all(answer.as_bytes()).await.unwrap();
        let (mut read, mut write) = tokio::io::split(stream);
        tokio::io::copy(&mut read, &mut write).await.unwrap();
        write.shutdown().await.unwrap();
    })
    .await;
    let proxy = Proxy::start(&origin).await;
    let mut client = TcpStream::connect(proxy.address).await.unwrap();
    client
        .write_all(
            b"GET /ws HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
              sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .await
        .unwrap();
    let head = timeout(PATIENCE, world::read_head(&mut client)).await.unwrap().unwrap();
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(head.contains("upgrade: websocket") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    let mut early = [0; 5];
    timeout(PATIENCE, client.read_exact(&mut early)).await.unwrap().unwrap();
    assert_eq!(&early, b"early");
    let frame = vec![b'f'; 1 << 20];
    let (mut read, mut write) = client.split();
    let mut back = vec![0; frame.len()];
    let (sent, got) = tokio::join!(write.write_all(&frame), timeout(PATIENCE, read.read_exact(&mut back)));
    sent.unwrap();
    got.unwrap().unwrap();
    assert!(back == frame);
    write.shutdown().await.unwrap();
    assert_eq!(timeout(PATIENCE, read.read(&mut back)).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn an_upgrade_that_nobody_asked_for_or_with_a_wrong_proof_is_a_502() {
    let answer = |accept: &str| {
        format!("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n{accept}\r\n")
    };
    let unasked = answer("");
    let origin = Origin::scripted(move |_, _| Some(unasked.clone().into_bytes())).await;
    let proxy = Proxy::start(&origin).await;
    let got = h1(&proxy, "GET / HTTP/1.1\r\n\r\n").await;
    assert!(got.starts_with("HTTP/1.1 502") && got.contains("upstream_protocol"), "{got}");

    let wrong = answer("sec-websocket-accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n");
    let origin = Origin::scripted(move |_, _| Some(wrong.clone().into_bytes())).await;
    let proxy = Proxy::start(&origin).await;
    let mut client = TcpStream::connect(proxy.address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                    sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    client.write_all(request).await.unwrap();
    let head = timeout(PATIENCE, world::read_head(&mut client)).await.unwrap().unwrap();
    assert!(head.starts_with("HTTP/1.1 502") && head.contains("upstream_protocol"), "{head}");
}

#[tokio::test]
async fn an_upgrade_that_is_declined_is_an_ordinary_answer() {
    let origin = Origin::play(BOTH, |_| async { text(426, "not here") }).await;
    let proxy = Proxy::start(&origin).await;
    let mut client = TcpStream::connect(proxy.address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
    client.write_all(request).await.unwrap();
    let head = timeout(PATIENCE, world::read_head(&mut client)).await.unwrap().unwrap();
    assert!(head.starts_with("HTTP/1.1 426"), "{head}");
}

#[tokio::test]
async fn r114_an_early_answer_reaches_a_client_that_reads_only_after_sending_all() {
    for alpn in [ONLY_H1, BOTH] {
        let origin = Origin::play(alpn, |_| async { text(413, "too large, says the origin") }).await;
        let proxy = Proxy::start(&origin).await;
        let mut client = TcpStream::connect(proxy.address).await.unwrap();
        let length = 20 << 20;
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        let piece = vec![b'x'; 1 << 16];
        for _ in 0..length / piece.len() {
            timeout(PATIENCE, client.write_all(&piece)).await.expect("it is read").expect("no reset");
        }
        let head = timeout(PATIENCE, world::read_head(&mut client)).await.expect("an answer").expect("no reset");
        assert!(head.starts_with("HTTP/1.1 413"), "{head}");
        let mut body = [0; 26];
        timeout(PATIENCE, client.read_exact(&mut body)).await.expect("a body").expect("no reset");
        assert_eq!(&body, b"too large, says the origin");
    }
}

#[tokio::test]
async fn r119_a_stale_connection_costs_a_get_nothing_and_a_post_is_never_sent_twice() {
    // every connection takes its second request and dies without an answer
    let origin = Origin::scripted(|_, request| {
        (request == 1).then(|| b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec())
    })
    .await;
    let proxy = Proxy::start(&origin).await;
    for _ in 0..3 {
        assert!(h1(&proxy, "GET / HTTP/1.1\r\n\r\n").await.ends_with("ok"));
    }
    assert_eq!(origin.count(), 3, "the first connection, and a fresh one for each retry");
    let answer = h1(&proxy, "POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\nx").await;
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("upstream_unreachable"), "{answer}");
    assert_eq!(origin.count(), 3, "the POST had left, so it is not sent again");
}

#[tokio::test]
async fn r119_a_connection_that_was_closed_while_idle_is_noticed_before_a_post_leaves() {
    let origin = Origin::raw(ONLY_H1, |mut stream, _| async move {
        world::read_head(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        stream.shutdown().await.unwrap();
    })
    .await;
    let proxy = Proxy::start(&origin).await;
    for _ in 0..3 {
        assert!(h1(&proxy, "GET / HTTP/1.1\r\n\r\n").await.ends_with("ok"));
        // its FIN is on the way or here
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(h1(&proxy, "POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\nx").await.ends_with("ok"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(origin.count(), 6);
}

#[tokio::test]
async fn r119_an_upstream_that_closes_every_connection_at_once_is_a_502_and_no_loop() {
    for alpn in [ONLY_H1, BOTH] {
        let origin = Origin::raw(alpn, |stream, _| async move { drop(stream) }).await;
        let proxy = Proxy::start(&origin).await;
        let answer = timeout(PATIENCE, h1(&proxy, "GET / HTTP/1.1\r\n\r\n")).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
        assert!(origin.count() <= 6, "{}", origin.count());
    }
}

#[tokio::test]
async fn r121_interim_answers_are_dropped_and_a_flood_of_them_ends() {
    let origin = Origin::scripted(|_, _| {
        let hints = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(3);
        let interim = format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n{hints}");
        Some(format!("{interim}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").into_bytes())
    })
    .await;
    let proxy = Proxy::start(&origin).await;
    for _ in 0..2 {
        let answer = h1(&proxy, "GET / HTTP/1.1\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok") && !answer.contains("link"), "{answer}");
    }
    let origin = Origin::raw(ONLY_H1, |mut stream, _| async move {
        world::read_head(&mut stream).await.unwrap();
        while stream.write_all(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n").await.is_ok() {}
    })
    .await;
    let proxy = Proxy::start(&origin).await;
    let answer = h1(&proxy, "GET / HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("upstream_protocol"), "{answer}");
}

#[tokio::test]
async fn r122_answers_without_a_body_do_not_make_anybody_wait() {
    let cases: &[(&str, &str, &str)] = &[
        ("HEAD", "200 OK\r\ncontent-length: 100", "content-length: 100"),
        ("GET", "304 Not Modified\r\ncontent-length: 100\r\netag: \"x\"", "etag: \"x\""),
        ("GET", "204 No Content\r\ntransfer-encoding: chunked\r\nx-a: b", "x-a: b"),
        ("GET", "204 No Content\r\ncontent-length: 5\r\nx-a: b", "x-a: b"),
        ("GET", "205 Reset Content\r\ncontent-length: 0\r\nx-a: b", "x-a: b"),
    ];
    for (method, answer, kept) in cases {
        let whole = format!("HTTP/1.1 {answer}\r\n\r\n");
        let origin = Origin::scripted(move |_, _| Some(whole.clone().into_bytes())).await;
        let proxy = Proxy::start(&origin).await;
        // both requests on one connection of the client, and on one of the upstream
        let mut client = TcpStream::connect(proxy.address).await.unwrap();
        for _ in 0..2 {
            client.write_all(format!("{method} / HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
            let head = timeout(PATIENCE, world::read_head(&mut client)).await.expect("no wait").unwrap();
            assert!(head.contains(kept), "{answer}: {head}");
            assert!(!head.contains("transfer-encoding"), "{answer}: {head}");
        }
        assert_eq!(origin.count(), 1, "{answer}: the connection is used again");
    }
}

#[tokio::test]
async fn r30_an_answer_with_two_framings_gives_the_client_one() {
    let cases = [
        ("content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("content-length: 5\r\ncontent-length: 5\r\n\r\nhello", "hello"),
        ("content-length: 5\r\ncontent-length: 3\r\n\r\nhello", "502"),
        ("content-length: +5\r\n\r\nhello", "502"),
        ("transfer-encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "502"),
    ];
    for (fields, expected) in cases {
        let origin = Origin::scripted(move |_, _| Some(format!("HTTP/1.1 200 OK\r\n{fields}").into_bytes())).await;
        let proxy = Proxy::start(&origin).await;
        let answer = h1(&proxy, "GET / HTTP/1.1\r\n\r\n").await.to_lowercase();
        if expected == "502" {
            assert!(answer.starts_with("http/1.1 502") && answer.contains("upstream_protocol"), "{fields}: {answer}");
        } else {
            let framings = answer.matches("content-length:").count() + answer.matches("transfer-encoding:").count();
            assert_eq!(framings, 1, "{fields}: {answer}");
            assert!(answer.contains("hello"), "{fields}: {answer}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_for_the_client_and_not_an_end() {
    let origin = Origin::scripted(|_, request| {
        (request == 1).then(|| b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n".to_vec())
    })
    .await;
    let proxy = Proxy::start(&origin).await;
    let mut client = h2(&proxy).await;
    let mut answer = client.send_request(get("/")).await.unwrap().into_body();
    assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), "hello");
    // the origin waits for another request; the test ends its patience by cutting the connection
    drop(origin);
    assert!(timeout(PATIENCE, answer.frame()).await.unwrap().unwrap().is_err());
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_and_an_ordinary_large_one_is_not() {
    let origin = Origin::scripted(|_, request| {
        let size = if request == 1 { 30_000 } else { 200_000 };
        Some(format!("HTTP/1.1 200 OK\r\nx-big: {}\r\ncontent-length: 2\r\n\r\nok", "x".repeat(size)).into_bytes())
    })
    .await;
    let proxy = Proxy::start(&origin).await;
    assert!(h1(&proxy, "GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    let answer = h1(&proxy, "GET / HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("upstream_protocol"), "{}", &answer[..300]);
}
