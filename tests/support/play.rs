//! An origin with something of everything: echo, sizes, ranges, events, WebSocket, gRPC, redirects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use kleis::cli::origin::{AnswerBody, Play, answer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The routes below, for every name.
pub fn play() -> Arc<Play> {
    Arc::new(|request| Box::pin(route(request)))
}

async fn route(request: Request<Incoming>) -> Response<AnswerBody> {
    let path = request.uri().path().to_owned();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    match segments.as_slice() {
        ["big", size] => big(&request, size.parse().unwrap()),
        ["sink"] => sink(request).await,
        ["events", count] => events(count.parse().unwrap()),
        ["ws"] => websocket(request),
        ["redirect"] => redirect(),
        ["early"] => answer(413, "text/plain", "too large, says the origin"),
        ["status", code] => answer(code.parse().unwrap(), "text/plain", ""),
        ["echo.Echo", "Unary" | "Both"] => grpc(request),
        _ => echo(request).await,
    }
}

/// What was asked, as JSON; credentials only as whether they are there.
async fn echo(request: Request<Incoming>) -> Response<AnswerBody> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|all| all.to_bytes()).unwrap_or_default();
    let told = serde_json::json!({
        "method": parts.method.as_str(),
        "path": parts.uri.path(),
        "query": parts.uri.query(),
        "length": body.len(),
        "body": String::from_utf8_lossy(&body[..body.len().min(4096)]),
        "authorized": parts.headers.contains_key("authorization"),
        "version": format!("{:?}", parts.version),
    });
    answer(200, "application/json", told.to_string())
}

/// `size` bytes, or the range of them that was asked for.
fn big(request: &Request<Incoming>, size: usize) -> Response<AnswerBody> {
    let range = request.headers().get("range").and_then(|v| v.to_str().ok()?.strip_prefix("bytes=")?.split_once('-'));
    let (first, last) = match range {
        Some((first, last)) => (first.parse().unwrap(), last.parse().unwrap_or(size - 1)),
        None => (0, size.saturating_sub(1)),
    };
    let length = last + 1 - first;
    let piece = Bytes::from(vec![b'x'; 65536]);
    let pieces =
        (0..length.div_ceil(65536)).map(move |i| Ok(Frame::data(piece.slice(..(length - i * 65536).min(65536)))));
    let mut response = Response::new(StreamBody::new(futures_util::stream::iter(pieces)).boxed_unsync());
    response.headers_mut().insert("content-length", HeaderValue::from(length));
    if range.is_some() {
        *response.status_mut() = http::StatusCode::PARTIAL_CONTENT;
        let told = format!("bytes {first}-{last}/{size}");
        response.headers_mut().insert("content-range", HeaderValue::from_str(&told).unwrap());
    }
    response
}

/// How many bytes came, and which trailers behind them.
async fn sink(request: Request<Incoming>) -> Response<AnswerBody> {
    let mut body = request.into_body();
    let (mut length, mut trailers) = (0, Vec::new());
    while let Some(Ok(frame)) = body.frame().await {
        match frame.into_data() {
            Ok(data) => length += data.len(),
            Err(frame) => trailers.extend(frame.into_trailers().unwrap().keys().map(ToString::to_string)),
        }
    }
    answer(200, "application/json", serde_json::json!({"length": length, "trailers": trailers}).to_string())
}

/// Server-sent events, one each 50 ms, never in one piece.
fn events(count: usize) -> Response<AnswerBody> {
    let stream = futures_util::stream::iter(0..count).then(|i| async move {
        if i > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(Frame::data(Bytes::from(format!("data: {i}\n\n"))))
    });
    let mut response = Response::new(StreamBody::new(stream).boxed_unsync());
    response.headers_mut().insert("content-type", HeaderValue::from_static("text/event-stream"));
    response
}

/// Signed storage that our credential must not follow to (R90).
fn redirect() -> Response<AnswerBody> {
    let mut response = answer(302, "text/plain", "");
    let to = HeaderValue::from_static("https://store.test/object?X-Amz-Signature=abc");
    response.headers_mut().insert("location", to);
    response
}

/// A WebSocket (RFC 6455) that greets in the segment of its 101 and then echoes bytes as they are.
fn websocket(request: Request<Incoming>) -> Response<AnswerBody> {
    use base64::Engine;
    let key = request.headers().get("sec-websocket-key").cloned();
    let Some(key) = key else { return answer(400, "text/plain", "no key") };
    let salted = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key.to_str().unwrap());
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, salted.as_bytes());
    tokio::spawn(async move {
        let upgraded = hyper::upgrade::on(request).await.unwrap();
        let mut stream = hyper_util::rt::TokioIo::new(upgraded);
        stream.write_all(b"\x81\x05hello").await.unwrap();
        let mut buffer = vec![0; 65536];
        // frames of a client are masked; an echo unmasks them
        while let Ok(n @ 1..) = stream.read(&mut buffer).await {
            if stream.write_all(&unmask(&buffer[..n])).await.is_err() {
                return;
            }
        }
    });
    let mut response = answer(101, "text/plain", "");
    let headers = response.headers_mut();
    headers.clear();
    headers.insert("connection", HeaderValue::from_static("Upgrade"));
    headers.insert("upgrade", HeaderValue::from_static("websocket"));
    let accept = base64::engine::general_purpose::STANDARD.encode(digest);
    headers.insert("sec-websocket-accept", HeaderValue::from_str(&accept).unwrap());
    response
}

/// One whole small masked frame as an unmasked one; a close frame is answered in kind.
fn unmask(frame: &[u8]) -> Vec<u8> {
    let length = usize::from(frame[1] & 0x7f);
    assert!(length < 126, "the test sends small frames only");
    let (mask, payload) = frame[2..].split_at(4);
    let mut out = vec![frame[0], frame[1] & 0x7f];
    out.extend(payload[..length].iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// Every message of the request comes back, then the status as a trailer.
fn grpc(request: Request<Incoming>) -> Response<AnswerBody> {
    let body = request.into_body().into_data_stream().map(|data| data.map(Frame::data).map_err(std::io::Error::other));
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))]);
    let stream = body.chain(futures_util::stream::iter([Ok(Frame::trailers(trailers))]));
    let mut response = Response::new(StreamBody::new(stream).boxed_unsync());
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}
