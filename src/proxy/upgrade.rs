//! Upgrades: WebSocket and whatever else follows a 101 (DESIGN §5; R111, R115).
//!
//! Extended CONNECT (WebSocket over HTTP/2) is not advertised: a client that tries it falls back (R50).

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Version, request};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use sha1::{Digest, Sha1};

use super::relay::Guard;
use super::tunnel;
use crate::upstream::Upgraded;

/// RFC 6455 §1.3: what a server appends to the key.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A client's wish to go on in another protocol.
pub struct ClientUpgrade {
    /// What it asks for: the value of `Upgrade`.
    pub to: HeaderValue,
    /// Its side of the connection, once it has its 101.
    pub on: OnUpgrade,
}

impl ClientUpgrade {
    /// The client's wish, if it has one. To be asked before hop-by-hop fields are dropped.
    ///
    /// `h2c` is no wish that anybody needs: a proxy that passes it on no longer sees the requests.
    pub fn of<B>(request: &mut http::Request<B>) -> Option<ClientUpgrade> {
        if request.version() != Version::HTTP_11 || request.method() == Method::CONNECT {
            return None;
        }
        let headers = request.headers();
        let wants = lists(headers, &CONNECTION, "upgrade");
        let to = headers.get(UPGRADE).filter(|_| wants)?.clone();
        let names_h2c = to.to_str().is_ok_and(|to| to.split(',').any(|p| p.trim().eq_ignore_ascii_case("h2c")));
        if names_h2c {
            return None;
        }
        let on = request.extensions_mut().remove::<OnUpgrade>()?;
        Some(ClientUpgrade { to, on })
    }
}

/// Whether a field, as a comma-separated list, names something.
fn lists(headers: &HeaderMap, field: &http::HeaderName, token: &str) -> bool {
    let values = headers.get_all(field).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|item| item.trim().eq_ignore_ascii_case(token))
}

/// What the answer's `Sec-WebSocket-Accept` must be, if the request is a WebSocket's.
pub(super) fn expected_accept(head: &request::Parts, to: &HeaderValue) -> Option<HeaderValue> {
    if !to.to_str().is_ok_and(|to| to.trim().eq_ignore_ascii_case("websocket")) {
        return None;
    }
    let key = head.headers.get(SEC_WEBSOCKET_KEY)?;
    let digest = Sha1::new().chain_update(key.as_bytes()).chain_update(GUID).finalize();
    HeaderValue::try_from(STANDARD.encode(digest)).ok()
}

/// Whether a 101 is an answer to what was asked: it names a protocol of the request, and proves that it has
/// read the key where there was one.
pub(super) fn is_agreed(answer: &HeaderMap, asked: &HeaderValue, accept: Option<&HeaderValue>) -> bool {
    let (Some(Ok(chosen)), Ok(asked)) = (answer.get(UPGRADE).map(HeaderValue::to_str), asked.to_str()) else {
        return false;
    };
    let name = |protocol: &str| protocol.trim().to_ascii_lowercase();
    let offered: Vec<String> = asked.split(',').map(name).collect();
    let accepted = match accept {
        Some(accept) => answer.get(SEC_WEBSOCKET_ACCEPT) == Some(accept),
        None => true,
    };
    accepted && chosen.split(',').all(|protocol| offered.contains(&name(protocol)))
}

/// Joins both sides once the client has its 101, in a task of its own.
pub(super) fn join(client: OnUpgrade, upstream: Upgraded, guard: Guard, linger: Duration) {
    tokio::spawn(async move {
        let client = match guard.watch(client).await {
            Ok(Ok(client)) => TokioIo::new(client),
            Ok(Err(error)) => return tracing::debug!(%error, "a client went away before its upgrade"),
            Err(cut) => return tracing::debug!(%cut, "cut before an upgrade"),
        };
        if let Err(error) = tunnel::join(client, upstream, Bytes::new(), guard, linger).await {
            tracing::debug!(%error, "an upgraded connection ended");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn websocket(key: &'static str) -> request::Parts {
        let request = http::Request::get("/").header(SEC_WEBSOCKET_KEY, key).body(()).unwrap();
        request.into_parts().0
    }

    fn answer(upgrade: &'static str, accept: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, HeaderValue::from_static(upgrade));
        headers.insert(SEC_WEBSOCKET_ACCEPT, HeaderValue::from_static(accept));
        headers
    }

    #[test]
    fn a_websocket_answer_must_prove_that_it_has_read_the_key() {
        // the example of RFC 6455 §1.3
        let to = HeaderValue::from_static("websocket");
        let accept = expected_accept(&websocket("dGhlIHNhbXBsZSBub25jZQ=="), &to);
        assert_eq!(accept.as_ref().unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(is_agreed(&answer("WebSocket", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), &to, accept.as_ref()));
        assert!(!is_agreed(&answer("websocket", "AAAAAAAAAAAAAAAAAAAAAAAAAAA="), &to, accept.as_ref()));
        assert!(!is_agreed(&answer("h2c", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), &to, accept.as_ref()));
        assert!(!is_agreed(&HeaderMap::new(), &to, accept.as_ref()));
    }

    #[test]
    fn another_protocol_must_be_one_that_was_asked_for() {
        let asked = HeaderValue::from_static("tcp, spdy/3.1");
        assert!(is_agreed(&answer("tcp", ""), &asked, None));
        assert!(!is_agreed(&answer("websocket", ""), &asked, None));
    }
}
