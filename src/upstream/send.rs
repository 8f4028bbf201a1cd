//! Sending a request: find or make a connection, exchange, retry where that is safe (R119).

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, uri};
use http_body::Body as _;

use super::body::{AnswerBody, Body, Task};
use super::error::{Retry, UpstreamError};
use super::h1::{self, H1};
use super::h2::{self, H2, Place};
use super::key::PoolKey;
use super::pool::{Dialled, Found, Slot};
use super::upgraded::Upgraded;
use super::{Answer, Inner, SendOptions};
use crate::words::Reason;

/// Dials for all that a request waits for before it gives up: each may have found the upstream closing again.
const MAX_WAITS: usize = 4;

/// A connection, or a place on one, for one request.
enum Lease {
    H1(Box<H1>),
    H2(Place),
}

/// The parts of a request that go upstream; nothing else of it does.
struct Outgoing {
    method: Method,
    target: uri::PathAndQuery,
    headers: HeaderMap,
    body: Body,
}

/// What came of one try.
enum Tried {
    Answered(Answer),
    /// Failed; the request, if it may be sent once more.
    Failed(UpstreamError, Option<Outgoing>),
}

impl Inner {
    pub(super) async fn send(
        self: &Arc<Self>,
        key: &PoolKey,
        request: Request<Body>,
        options: SendOptions,
    ) -> Result<Answer, UpstreamError> {
        let mut outgoing = Outgoing::new(request)?;
        let slot = self.pool.slot(key);
        if options.upgrade {
            return self.upgrade(&slot, outgoing).await;
        }
        let (lease, reused) = self.lease(&slot).await?;
        match outgoing.exchange(lease, &slot, reused).await {
            Tried::Answered(answer) => return Ok(answer),
            Tried::Failed(error, None) => return Err(error),
            Tried::Failed(error, Some(again)) => {
                tracing::debug!(%error, authority = %key.authority, "a pooled connection was stale, trying a fresh one");
                outgoing = again;
            }
        }
        let lease = self.fresh(&slot).await?;
        match outgoing.exchange(lease, &slot, false).await {
            Tried::Answered(answer) => Ok(answer),
            Tried::Failed(error, _) => Err(error),
        }
    }

    /// A connection, and whether it has served before.
    async fn lease(self: &Arc<Self>, slot: &Arc<Slot>) -> Result<(Lease, bool), UpstreamError> {
        for waits in 0..=MAX_WAITS {
            match slot.find(|| self.clone().dial_for_all(slot.clone())) {
                Found::H1(connection) => return Ok((Lease::H1(connection), waits == 0)),
                Found::H2(place) => return Ok((Lease::H2(place), waits == 0)),
                Found::Dial => return Ok((self.fresh(slot).await?, false)),
                Found::Wait(dialling) => dialling.await?,
            }
        }
        Err(UpstreamError::said(Reason::UpstreamUnreachable, "the upstream closes each connection at once"))
    }

    /// A connection that nobody has used.
    async fn fresh(self: &Arc<Self>, slot: &Arc<Slot>) -> Result<Lease, UpstreamError> {
        match self.dial(slot, false).await? {
            Dialled::H1(connection) => Ok(Lease::H1(connection)),
            Dialled::H2(h2) => {
                slot.learn(&h2);
                let gone = || UpstreamError::said(Reason::UpstreamUnreachable, "the upstream closed at once");
                Ok(Lease::H2(h2.squeeze().ok_or_else(gone)?))
            }
        }
    }

    async fn dial(&self, slot: &Slot, http1_only: bool) -> Result<Dialled, UpstreamError> {
        let io = self.dialer.dial(&slot.key.authority, http1_only).await?;
        self.pool.start_sweeping(self.timeouts.pool_idle);
        if io.speaks_h2() {
            Ok(Dialled::H2(H2::open(io, self.max_head).await?))
        } else {
            Ok(Dialled::H1(H1::open(io, self.max_head).await?))
        }
    }

    /// A dial in a task of its own: whoever asked first may go away, the others still wait for it.
    fn dial_for_all(self: Arc<Self>, slot: Arc<Slot>) -> BoxFuture<'static, Result<(), UpstreamError>> {
        let dial = tokio::spawn(async move {
            let dialled = self.dial(&slot, false).await;
            let (dialled, outcome) = match dialled {
                Ok(dialled) => (Ok(dialled), Ok(())),
                Err(error) => (Err(()), Err(error)),
            };
            slot.dialled(dialled);
            outcome
        });
        async move { dial.await.unwrap_or_else(|e| Err(UpstreamError::unsent(Reason::UpstreamUnreachable, e))) }.boxed()
    }

    /// An upgrade, on a connection of its own.
    async fn upgrade(&self, slot: &Arc<Slot>, outgoing: Outgoing) -> Result<Answer, UpstreamError> {
        let Dialled::H1(connection) = self.dial(slot, true).await? else {
            return Err(UpstreamError::said(Reason::UpstreamProtocol, "the upstream chose HTTP/2 unasked"));
        };
        let request = outgoing.into_h1(slot);
        let progress = request.body().progress();
        match connection.exchange(request, true).await {
            Ok(h1::Sent::Switched(response, io, early)) => Ok(Answer::Upgraded(response, Upgraded::new(early, io))),
            Ok(h1::Sent::Answer(answer, connection)) => Ok(answered_h1(answer, connection, slot, progress)),
            Err(failed) => Err(failed.error),
        }
    }
}

impl Outgoing {
    fn new(request: Request<Body>) -> Result<Outgoing, UpstreamError> {
        let (head, body) = request.into_parts();
        if head.method == Method::CONNECT {
            return Err(UpstreamError::said(Reason::Malformed, "a CONNECT is not a request to an upstream"));
        }
        let target = head.uri.into_parts().path_and_query;
        let mut headers = head.headers;
        // framing is re-made from the body, the authority from the key
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        headers.remove(HOST);
        let target = target.unwrap_or_else(|| uri::PathAndQuery::from_static("/"));
        Ok(Outgoing { method: head.method, target, headers, body })
    }

    /// The same request again, if it may be sent twice: nothing changes by it, and its body is in hand.
    fn again(&self) -> Option<Outgoing> {
        let idempotent = matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let body = if idempotent { self.body.again() } else { None }?;
        Some(Outgoing { method: self.method.clone(), target: self.target.clone(), headers: self.headers.clone(), body })
    }

    async fn exchange(self, lease: Lease, slot: &Arc<Slot>, reused: bool) -> Tried {
        let spare = if reused { self.again() } else { None };
        match lease {
            Lease::H1(connection) => self.over_h1(connection, slot, reused, spare).await,
            Lease::H2(place) => self.over_h2(place, slot, reused, spare).await,
        }
    }

    async fn over_h1(self, connection: Box<H1>, slot: &Arc<Slot>, reused: bool, spare: Option<Outgoing>) -> Tried {
        let request = self.into_h1(slot);
        let progress = request.body().progress();
        match connection.exchange(request, false).await {
            Ok(h1::Sent::Answer(answer, connection)) => {
                Tried::Answered(answered_h1(answer, connection, slot, progress))
            }
            Ok(h1::Sent::Switched(..)) => {
                let unasked = UpstreamError::said(Reason::UpstreamProtocol, "the upstream switched protocols unasked");
                Tried::Failed(unasked.sent(), None)
            }
            Err(failed) => match failed.unsent {
                Some(request) => {
                    let error = UpstreamError { retry: Retry::Safe, ..failed.error };
                    Tried::Failed(error, if reused { Outgoing::new(*request).ok() } else { None })
                }
                // an answer that is no HTTP was an answer: it is not asked for twice
                None if failed.error.reason == Reason::UpstreamProtocol => Tried::Failed(failed.error, None),
                None => Tried::Failed(failed.error, spare),
            },
        }
    }

    async fn over_h2(self, place: Place, slot: &Arc<Slot>, reused: bool, spare: Option<Outgoing>) -> Tried {
        let spare = spare.or_else(|| if reused { self.unprocessed_spare() } else { None });
        let method = self.method.clone();
        let progress = self.body.progress();
        let (request, body) = match self.into_h2(slot) {
            Ok(request) => request,
            Err(error) => return Tried::Failed(error, None),
        };
        match h2::exchange(place, request, body).await {
            Ok(sent) => Tried::Answered(answered_h2(sent, &method)),
            Err(failed) => {
                let untouched = progress.is_none_or(|ended| !ended.load(Ordering::Relaxed));
                let error = if failed.unprocessed && untouched {
                    UpstreamError { retry: Retry::Safe, ..failed.error }
                } else {
                    failed.error
                };
                let idempotent = matches!(method, Method::GET | Method::HEAD | Method::OPTIONS);
                let broken = error.reason == Reason::UpstreamUnreachable;
                Tried::Failed(error, spare.filter(|_| failed.unprocessed || (idempotent && broken)))
            }
        }
    }

    /// What may be sent again only if the upstream says that it did nothing with it: any request with its body
    /// in hand.
    fn unprocessed_spare(&self) -> Option<Outgoing> {
        let body = self.body.again()?;
        Some(Outgoing { method: self.method.clone(), target: self.target.clone(), headers: self.headers.clone(), body })
    }

    fn into_h1(self, slot: &Slot) -> Request<Body> {
        let mut request = Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = Uri::from(self.target);
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = self.headers;
        request.headers_mut().insert(HOST, slot.host.clone());
        // Said here, because hyper would send a GET's streamed body as none at all, and a POST without one
        // without a length, which some servers answer with 411.
        match request.body().size_hint().exact() {
            Some(0) if !means_a_body(request.method()) => {}
            Some(length) => {
                request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
            }
            None => {
                request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
        }
        request
    }

    fn into_h2(self, slot: &Slot) -> Result<(Request<()>, Body), UpstreamError> {
        let mut parts = uri::Parts::default();
        parts.scheme = Some(slot.scheme.clone());
        parts.authority = slot.authority.clone();
        parts.path_and_query = Some(self.target);
        let uri = Uri::from_parts(parts).map_err(|e| UpstreamError::unsent(Reason::Malformed, e))?;
        let mut request = Request::new(());
        *request.method_mut() = self.method;
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = self.headers;
        if let Some(length) = self.body.size_hint().exact()
            && (length > 0 || means_a_body(request.method()))
        {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        Ok((request, self.body))
    }
}

fn means_a_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

/// An answer that begins before its request has ended gets a task for the rest of the request: neither
/// direction waits for the other (R114).
fn answered_h1(
    answer: Response<hyper::body::Incoming>,
    connection: Option<Box<H1>>,
    slot: &Arc<Slot>,
    progress: Option<Arc<AtomicBool>>,
) -> Answer {
    let uploading = progress.is_some_and(|ended| !ended.load(Ordering::Relaxed));
    let (head, body) = answer.into_parts();
    let body = match connection {
        Some(mut connection) if uploading => {
            let rest = poll_fn(move |cx| if connection.poll_driver(cx) { Poll::Ready(()) } else { Poll::Pending });
            AnswerBody::early_h1(body, Some(Task(tokio::spawn(rest))))
        }
        None if uploading => AnswerBody::early_h1(body, None),
        connection => AnswerBody::h1(body, connection.map(|connection| (connection, slot.clone()))),
    };
    Answer::Response(Response::from_parts(head, body))
}

fn answered_h2(sent: h2::Sent, method: &Method) -> Answer {
    let (head, stream) = sent.answer.into_parts();
    let bodiless = *method == Method::HEAD || head.status == StatusCode::NOT_MODIFIED;
    let length = head.headers.get(CONTENT_LENGTH).filter(|_| !bodiless);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let upload = sent.rest.map(|rest| Task(tokio::spawn(rest)));
    Answer::Response(Response::from_parts(head, AnswerBody::h2(stream, length, sent.place, upload)))
}
