//! A request's body on its way up: what was read for judging, then the rest as it comes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::HeaderName;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;

use super::relay::Guard;
use crate::upstream::BodyError;

/// What is still read of a body that nobody wants any more, so that its sender gets to read the answer.
const MAX_DRAIN: u64 = 64 * 1024 * 1024;
/// How long that may take.
const DRAIN_TIME: Duration = Duration::from_secs(30);

/// A streamed request body under guard.
pub(super) struct UploadBody {
    prefix: VecDeque<Bytes>,
    /// `None` once it has ended.
    rest: Option<Incoming>,
    guard: Guard,
    never_in_trailers: Arc<[HeaderName]>,
}

impl UploadBody {
    pub(super) fn new(prefix: Vec<Bytes>, rest: Incoming, guard: Guard, never_in_trailers: Arc<[HeaderName]>) -> Self {
        let prefix = prefix.into_iter().filter(|part| !part.is_empty()).collect();
        UploadBody { prefix, rest: Some(rest), guard, never_in_trailers }
    }
}

impl HttpBody for UploadBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(cut) = self.guard.cut() {
            return Poll::Ready(Some(Err(cut.into())));
        }
        if let Some(part) = self.prefix.pop_front() {
            self.guard.count_up(part.len() as u64);
            return Poll::Ready(Some(Ok(Frame::data(part))));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let Some(frame) = ready!(Pin::new(rest).poll_frame(cx)).transpose()? else {
            self.rest = None;
            return Poll::Ready(None);
        };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(data) => {
                self.guard.count_up(data.len() as u64);
                Frame::data(data)
            }
            Err(frame) => {
                let mut trailers = frame.into_trailers().unwrap_or_default();
                clean(&mut trailers, &self.never_in_trailers);
                Frame::trailers(trailers)
            }
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.prefix.is_empty() && self.rest.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint);
        let held: u64 = self.prefix.iter().map(|part| part.len() as u64).sum();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(held));
        }
        hint.set_lower(hint.lower().saturating_add(held));
        hint
    }
}

impl Drop for UploadBody {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take()
            && self.guard.cut().is_none()
        {
            drain(rest);
        }
    }
}

/// Reads what is left of a body that will not be forwarded, within bounds, in the background.
///
/// Closing a connection with unread bytes in it resets it, and the reset overtakes the answer: the client
/// never learns why it was refused (R114).
pub fn drain(body: Incoming) {
    if body.is_end_stream() {
        return;
    }
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(discard(body));
}

/// Reads a body to its end and throws it away; `false` if the bounds, or the client, ended it before.
pub(super) async fn discard(mut body: Incoming) -> bool {
    let reading = async {
        let mut left = MAX_DRAIN;
        loop {
            match http_body_util::BodyExt::frame(&mut body).await {
                None => return true,
                Some(Err(_)) => return false,
                Some(Ok(frame)) => {
                    left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
                    if left == 0 {
                        return false;
                    }
                }
            }
        }
    };
    tokio::time::timeout(DRAIN_TIME, reading).await.unwrap_or(false)
}

/// Removes from trailers what decides who asks, where it goes and how it is framed (RFC 9110 §6.5.1): some
/// servers merge trailers into the head (R40).
fn clean(trailers: &mut HeaderMap, never: &[HeaderName]) {
    let names: Vec<HeaderName> = trailers.keys().cloned().collect();
    for name in names {
        if never.contains(&name) || is_forbidden(name.as_str()) {
            trailers.remove(&name);
        }
    }
}

fn is_forbidden(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "age",
        "cache-control",
        "connection",
        "date",
        "expect",
        "expires",
        "forwarded",
        "from",
        "host",
        "keep-alive",
        "location",
        "max-forwards",
        "origin",
        "pragma",
        "range",
        "referer",
        "retry-after",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "vary",
        "via",
        "warning",
    ];
    // whole families: what authenticates, what routes, what says how to read the body, what is conditional
    const PARTS: &[&str] =
        &["auth", "cookie", "token", "secret", "password", "session", "credential", "api-key", "apikey"];
    const PREFIXES: &[&str] = &[
        "content-",
        "if-",
        "proxy-",
        "sec-",
        "x-forwarded",
        "x-http-method",
        "x-method",
        "x-original-",
        "x-rewrite-",
        "x-kleis",
        "x-real-ip",
        "accept",
    ];
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || PARTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r40_auth_framing_and_routing_fields_do_not_come_in_as_trailers() {
        let mut trailers = HeaderMap::new();
        for name in [
            "authorization",
            "host",
            "content-length",
            "x-api-key",
            "transfer-encoding",
            "cookie",
            "x-forwarded-host",
            "x-injected",
            "grpc-status",
            "x-amz-checksum-crc32",
            "server-timing",
        ] {
            trailers.insert(HeaderName::from_static(name), "x".parse().unwrap());
        }
        clean(&mut trailers, &[HeaderName::from_static("x-injected")]);
        let mut left: Vec<_> = trailers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["grpc-status", "server-timing", "x-amz-checksum-crc32"]);
    }
}
