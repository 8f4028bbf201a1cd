//! Small exchanges of our own: what credential providers ask their token endpoints.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response, Uri, uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use super::body::{AnswerBody, Body};
use super::error::UpstreamError;
use super::key::{Partition, PoolKey};
use super::{Answer, SendOptions, Upstreams};
use crate::credential::{Exchange, ExchangeBounds, ExchangeError};
use crate::words::{Authority, Reason, Scheme};

/// Bounds of [`Upstreams::simple`].
#[derive(Debug, Clone, Copy)]
pub struct SimpleLimits {
    /// For everything, from resolving to the last byte.
    pub deadline: Duration,
    /// Bytes of the answer's body; one more is an error.
    pub max_body: usize,
}

impl Default for SimpleLimits {
    /// 30 s and 256 KiB.
    fn default() -> Self {
        SimpleLimits { deadline: Duration::from_secs(30), max_body: 256 * 1024 }
    }
}

pub(super) async fn exchange(
    upstreams: &Upstreams,
    request: Request<Bytes>,
    limits: SimpleLimits,
) -> Result<Response<Bytes>, UpstreamError> {
    let (head, body) = request.into_parts();
    let (authority, target) = absolute(&head.uri)
        .ok_or_else(|| UpstreamError::said(Reason::Malformed, "the URL is not `http://…` or `https://…`"))?;
    let key = PoolKey { authority, partition: Partition::own() };
    let mut request = Request::new(Body::whole(body));
    *request.method_mut() = head.method;
    *request.uri_mut() = Uri::from(target);
    *request.headers_mut() = head.headers;
    let whole = async {
        match upstreams.send(&key, request, SendOptions::default()).await? {
            Answer::Response(answer) => {
                let (head, body) = answer.into_parts();
                Ok(Response::from_parts(head, collect(body, limits.max_body).await?))
            }
            Answer::Upgraded(..) => Err(UpstreamError::said(Reason::UpstreamProtocol, "an upgrade nobody asked for")),
        }
    };
    match timeout(limits.deadline, whole).await {
        Ok(answered) => answered,
        Err(elapsed) => Err(UpstreamError::new(Reason::UpstreamTimeout, elapsed)),
    }
}

/// The authority and the target of an absolute URI.
fn absolute(uri: &Uri) -> Option<(Authority, uri::PathAndQuery)> {
    let scheme = match uri.scheme_str()? {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return None,
    };
    let authority = Authority::parse(scheme, uri.authority()?.as_str()).ok()?;
    Some((authority, uri.path_and_query().cloned().unwrap_or_else(|| uri::PathAndQuery::from_static("/"))))
}

/// The whole of a small body.
async fn collect(body: AnswerBody, max: usize) -> Result<Bytes, UpstreamError> {
    let collected = Limited::new(body, max).collect().await;
    let collected = collected.map_err(|error| {
        if error.is::<LengthLimitError>() {
            UpstreamError::new(Reason::UpstreamProtocol, TooLarge)
        } else {
            UpstreamError::said(Reason::UpstreamUnreachable, "the answer broke off").sent()
        }
    })?;
    Ok(collected.to_bytes())
}

impl Exchange for Upstreams {
    fn call(
        &self,
        request: Request<Bytes>,
        bounds: ExchangeBounds,
    ) -> BoxFuture<'_, Result<Response<Bytes>, ExchangeError>> {
        let limits = SimpleLimits { deadline: bounds.timeout, max_body: bounds.max_body };
        async move { self.simple(request, limits).await.map_err(|error| said_for_operators(&error, bounds)) }.boxed()
    }
}

/// The cause, in the words of the credential room: they go to the operator.
fn said_for_operators(error: &UpstreamError, bounds: ExchangeBounds) -> ExchangeError {
    match error.reason {
        Reason::UpstreamTls => ExchangeError::Tls(error.source.to_string()),
        Reason::UpstreamTimeout => ExchangeError::Timeout(bounds.timeout),
        Reason::UpstreamProtocol if error.source.is::<TooLarge>() => ExchangeError::TooLarge(bounds.max_body),
        Reason::UpstreamProtocol => ExchangeError::Protocol(error.source.to_string()),
        _ => ExchangeError::Unreachable(error.source.to_string()),
    }
}

/// One byte more than allowed.
#[derive(Debug, thiserror::Error)]
#[error("the answer is larger than the limit")]
struct TooLarge;
