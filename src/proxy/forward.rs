//! Forwarding: a bound request goes up, its answer comes down (DESIGN §3.7, §5).

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode, response};
use hyper::body::Incoming;

use super::relay::{Cut, Guard, RelayBody};
use super::upgrade::{self, ClientUpgrade};
use super::upload::UploadBody;
use crate::credential::Bound;
use crate::upstream::{Answer, Body, PoolKey, SendOptions, Upgraded, UpstreamError, Upstreams};
use crate::words::Reason;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const PROXY_AUTHENTICATION_INFO: HeaderName = HeaderName::from_static("proxy-authentication-info");

/// Fields that belong to one hop whatever `Connection` says (RFC 9110 §7.6.1), but for `TE` and `Upgrade`.
const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHENTICATION_INFO,
    PROXY_AUTHORIZATION,
    TRANSFER_ENCODING,
];

/// A request that is ready to go: judged, stripped, with its credential in it.
pub struct Outbound {
    /// Where it goes, and with what it may share a connection.
    pub key: PoolKey,
    /// Its head; the URI is the path and query as judged, the version the client's. Nothing edits its fields
    /// after the injection, but for framing and hop-by-hop ones.
    pub head: http::request::Parts,
    /// Fields that are stripped or injected, and so may not come back as trailers either (R40).
    pub never_in_trailers: Arc<[HeaderName]>,
}

impl Outbound {
    /// The request of a [`Bound`], once: nothing else has a credential in it (invariant 1). `version` is the
    /// client's.
    pub fn of(bound: &mut Bound, version: http::Version, never_in_trailers: Arc<[HeaderName]>) -> Option<Outbound> {
        let (key, mut head) = bound.take_request()?;
        head.version = version;
        Some(Outbound { key, head, never_in_trailers })
    }
}

/// A request's body: what was read for judging, and the rest.
pub enum Upload {
    /// None.
    Empty,
    /// All of it was read.
    Whole(Bytes),
    /// What was read, if anything, byte for byte; the rest streams.
    Stream {
        /// Already read.
        prefix: Vec<Bytes>,
        /// To come.
        rest: Incoming,
    },
}

impl Upload {
    /// Reads what is still to come and throws it away; whether that came to its end.
    pub async fn discard(self) -> bool {
        match self {
            Upload::Empty | Upload::Whole(_) => true,
            Upload::Stream { rest, .. } => super::upload::discard(rest).await,
        }
    }

    /// The same body again, if it is in hand: what a retry after a 401 needs.
    pub fn again(&self) -> Option<Upload> {
        match self {
            Upload::Empty => Some(Upload::Empty),
            Upload::Whole(bytes) => Some(Upload::Whole(bytes.clone())),
            Upload::Stream { .. } => None,
        }
    }
}

/// Why there is no answer to pass on.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// The upstream's trouble.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The guard cut before the answer began.
    #[error("cut before the answer: {0}")]
    Cut(Cut),
}

impl ForwardError {
    /// The code for the client.
    pub fn reason(&self) -> Reason {
        match self {
            ForwardError::Upstream(error) => error.reason,
            ForwardError::Cut(Cut::Revoked) => Reason::TokenRevoked,
            ForwardError::Cut(Cut::Expired) => Reason::TokenExpired,
            ForwardError::Cut(Cut::Denied) => Reason::PolicyDenied,
            ForwardError::Cut(Cut::Idle) => Reason::UpstreamTimeout,
            ForwardError::Cut(Cut::ShuttingDown) => Reason::ShuttingDown,
        }
    }
}

/// Drops a request's hop-by-hop fields and all that `Connection` lists. To be called before anything is
/// judged or injected: a client that lists `Authorization` must not take away what is injected later.
///
/// `TE` keeps `trailers`, which gRPC needs. `Upgrade` goes too: [`ClientUpgrade::of`] remembers it. Fails with
/// the name of a listed field on which policy or injection relies (DESIGN §5).
pub fn drop_hop_by_hop(headers: &mut HeaderMap, relied_on: impl Fn(&HeaderName) -> bool) -> Result<(), HeaderName> {
    let listed = listed_by_connection(headers);
    if let Some(name) = listed.iter().find(|name| headers.contains_key(*name) && relied_on(name)) {
        return Err(name.clone());
    }
    drop_fixed(headers, &listed);
    Ok(())
}

/// The fields that `Connection` lists, without those that have a rule of their own.
fn listed_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(','));
    let names = names.filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok());
    names.filter(|name| *name != TE && *name != UPGRADE).collect()
}

fn drop_fixed(headers: &mut HeaderMap, listed: &[HeaderName]) {
    let wants_trailers = headers
        .get_all(TE)
        .iter()
        .any(|te| te.to_str().is_ok_and(|te| te.split(',').any(|item| item.trim().eq_ignore_ascii_case("trailers"))));
    for name in HOP_BY_HOP.iter().chain(listed) {
        headers.remove(name);
    }
    headers.remove(UPGRADE);
    if wants_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    } else {
        headers.remove(TE);
    }
}

/// Sends a request and returns its answer, ready for the client: hop-by-hop fields gone, body under guard.
///
/// `upgrade` is the client's side of an upgrade that it asked for; when the upstream answers 101 (and
/// proves it, for WebSocket), both sides are joined in a task of their own once the client has its 101.
/// Redirects are answers like any other: the client follows them, through its own next request (R90).
pub async fn forward(
    upstreams: &Upstreams,
    outbound: Outbound,
    upload: Upload,
    upgrade: Option<ClientUpgrade>,
    guard: Guard,
) -> Result<Response<RelayBody>, ForwardError> {
    let Outbound { key, mut head, never_in_trailers } = outbound;
    make_fields(&mut head.headers);
    let accept = upgrade.as_ref().and_then(|upgrade| upgrade::expected_accept(&head, &upgrade.to));
    if let Some(upgrade) = &upgrade {
        head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        head.headers.insert(UPGRADE, upgrade.to.clone());
    }
    let early_close = head.version < http::Version::HTTP_2;
    let body = match upload {
        Upload::Empty => Body::empty(),
        Upload::Whole(bytes) => {
            guard.count_up(bytes.len() as u64);
            Body::whole(bytes)
        }
        Upload::Stream { prefix, rest } => {
            Body::stream(UploadBody::new(prefix, rest, guard.clone(), never_in_trailers))
        }
    };
    let request = http::Request::from_parts(head, body);
    let options = SendOptions { upgrade: upgrade.is_some() };
    let sent = guard.watch(upstreams.send(&key, request, options)).await.map_err(ForwardError::Cut)??;
    match (sent, upgrade) {
        (Answer::Response(answer), _) => {
            let (mut head, body) = answer.into_parts();
            settle_length(&mut head)?;
            clean(&mut head);
            if early_close && body.is_early() {
                // its upload will not be read to the end: it had better not wait for that (R114)
                head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(Response::from_parts(head, RelayBody::new(body, guard)))
        }
        (Answer::Upgraded(answer, io), Some(upgrade)) => {
            Ok(switched(answer, io, upgrade, accept.as_ref(), guard, upstreams)?)
        }
        (Answer::Upgraded(..), None) => Err(unagreed().into()),
    }
}

/// Framing is made by whoever sends; an `Expect` has been answered by us; crumbs of a cookie are joined
/// (RFC 9113 §8.2.3), because an HTTP/1.1 upstream reads one field.
fn make_fields(headers: &mut HeaderMap) {
    headers.remove(CONTENT_LENGTH);
    headers.remove(EXPECT);
    drop_fixed(headers, &[]);
    let mut crumbs = headers.get_all(COOKIE).iter();
    if let (Some(first), Some(second)) = (crumbs.next(), crumbs.next()) {
        let mut whole = [first.as_bytes(), b"; ", second.as_bytes()].concat();
        for crumb in crumbs {
            whole.extend_from_slice(b"; ");
            whole.extend_from_slice(crumb.as_bytes());
        }
        if let Ok(whole) = HeaderValue::from_bytes(&whole) {
            headers.insert(COOKIE, whole);
        }
    }
}

/// One framing: what hyper read the body by is what the client is told. A length beside chunks, or said
/// twice, would let an upstream put an answer of its own behind this one; a coding that we did not offer
/// can't be undone here.
fn settle_length(head: &mut response::Parts) -> Result<(), UpstreamError> {
    if head.headers.contains_key(TRANSFER_ENCODING) {
        head.headers.remove(CONTENT_LENGTH);
    }
    let codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    let mut codings = codings.flat_map(|value| value.as_bytes().split(|b| *b == b','));
    if !codings.all(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"chunked")) {
        return Err(broken("the answer has a transfer coding that was not asked for"));
    }
    let mut lengths = head.headers.get_all(CONTENT_LENGTH).iter();
    if let (Some(first), Some(_)) = (lengths.next().cloned(), lengths.next()) {
        head.headers.insert(CONTENT_LENGTH, first);
    }
    Ok(())
}

/// The head of an answer as the client gets it.
fn clean(head: &mut response::Parts) {
    let listed = listed_by_connection(&head.headers);
    for name in HOP_BY_HOP.iter().chain(&listed) {
        head.headers.remove(name);
    }
    head.headers.remove(UPGRADE);
    if head.status == StatusCode::NO_CONTENT || head.status == StatusCode::RESET_CONTENT {
        // there is no body, whatever it says (RFC 9110 §15.3.5, §15.3.6): a client that believes it waits
        head.headers.remove(CONTENT_LENGTH);
    }
    head.version = http::Version::HTTP_11;
    head.extensions = http::Extensions::new();
}

/// Joins both sides of an upgrade that was asked for and agreed to.
fn switched(
    answer: Response<()>,
    io: Upgraded,
    client: ClientUpgrade,
    accept: Option<&HeaderValue>,
    guard: Guard,
    upstreams: &Upstreams,
) -> Result<Response<RelayBody>, UpstreamError> {
    if !upgrade::is_agreed(answer.headers(), &client.to, accept) {
        return Err(unagreed());
    }
    let (mut head, ()) = answer.into_parts();
    let to = head.headers.remove(UPGRADE).unwrap_or(client.to);
    clean(&mut head);
    head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    head.headers.insert(UPGRADE, to);
    upgrade::join(client.on, io, guard.clone(), upstreams.timeouts().linger);
    Ok(Response::from_parts(head, RelayBody::empty(guard)))
}

fn unagreed() -> UpstreamError {
    broken("the upstream switched to a protocol that was not agreed on")
}

fn broken(text: &'static str) -> UpstreamError {
    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Broken(&'static str);
    UpstreamError::new(Reason::UpstreamProtocol, Broken(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn what_connection_lists_goes_unless_somebody_relies_on_it() {
        let mut fields =
            headers(&[("connection", "close, X-Mine"), ("x-mine", "1"), ("x-other", "2"), ("te", "trailers")]);
        drop_hop_by_hop(&mut fields, |_| false).unwrap();
        assert_eq!(fields, headers(&[("x-other", "2"), ("te", "trailers")]));
        let mut fields = headers(&[("connection", "authorization"), ("authorization", "x")]);
        assert_eq!(drop_hop_by_hop(&mut fields, |name| name == "authorization").unwrap_err(), "authorization");
    }

    #[test]
    fn r53_nothing_of_the_clients_proxy_login_stays() {
        let mut fields = headers(&[
            ("proxy-authorization", "Basic x"),
            ("proxy-connection", "keep-alive"),
            ("keep-alive", "5"),
            ("te", "gzip"),
            ("upgrade", "h2c"),
            ("transfer-encoding", "chunked"),
        ]);
        drop_hop_by_hop(&mut fields, |_| false).unwrap();
        assert!(fields.is_empty(), "{fields:?}");
    }

    #[test]
    fn crumbs_of_a_cookie_become_one_field() {
        let mut fields = HeaderMap::new();
        for crumb in ["a=1", "b=2", "c=3"] {
            fields.append(COOKIE, HeaderValue::from_static(crumb));
        }
        make_fields(&mut fields);
        assert_eq!(fields, headers(&[("cookie", "a=1; b=2; c=3")]));
    }
}
