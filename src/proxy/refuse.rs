//! How a client is told no: the one table of reason code → status → text (DESIGN §17).
//!
//! Two texts, two readers: the client learns what it may do about it, the audit learns the cause. An
//! error's own text is a cause and never reaches a client (R125, R130): it may hold an address, a
//! header, a secret.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderName, PROXY_AUTHENTICATE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Response, StatusCode};

use super::framing::Violation;
use super::guard::Late;
use super::reply::Reply;
use crate::facts::Path;
use crate::policy::Denial;
use crate::service::{RefusalContext, Service};
use crate::wire::PushReport;
use crate::words::{Authority, Reason};

/// Names the request in every refusal: `kleis explain ID` says more.
pub const X_KLEIS_REQUEST_ID: HeaderName = HeaderName::from_static("x-kleis-request-id");
/// The reason's code, for clients that switch on it.
pub const X_KLEIS_REASON: HeaderName = HeaderName::from_static("x-kleis-reason");

/// What git's client accepts as the answer to a push.
pub const PUSH_RESULT: &str = "application/x-git-receive-pack-result";

/// Where a refusal is spoken: one reason has different statuses for different ears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At the hop: the answer to a `CONNECT` or to an absolute-form request.
    Hop,
    /// Inside a tunnel, where a 407 makes git give up and a 401 makes SDKs log in again.
    Inside,
    /// In base-URL mode: the client believes that we are the service.
    BaseUrl,
    /// At one of our own endpoints.
    Endpoint,
}

/// A request that is not made, and why.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The code.
    pub reason: Reason,
    /// What the client is told behind the table's text, if there is more to say. Made by us of words
    /// of ours and of the policy's; never of a header, a query, an address or an error's text.
    pub message: Option<String>,
    /// What the audit and the log are told. May name addresses; never holds a secret.
    pub cause: Option<String>,
    /// The denial, when policy refused.
    pub denial: Option<Box<Denial>>,
    /// Seconds after which asking again may help.
    pub retry_after: Option<u64>,
    /// Set for a push whose sender reads its refusal in git's report and nowhere else.
    pub push: Option<PushReport>,
}

impl Refusal {
    /// The table's text alone.
    pub fn new(reason: Reason) -> Refusal {
        Refusal { reason, message: None, cause: None, denial: None, retry_after: None, push: None }
    }

    /// Tells the client more.
    pub fn say(mut self, message: impl Into<String>) -> Refusal {
        self.message = Some(message.into());
        self
    }

    /// Tells the audit more.
    pub fn because(mut self, cause: impl ToString) -> Refusal {
        self.cause = Some(cause.to_string());
        self
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Refusal {
        Refusal::new(reason)
    }
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Refusal {
        Refusal {
            reason: denial.reason,
            message: Some(denial.message.clone()),
            cause: denial.closest.clone(),
            denial: Some(Box::new(denial)),
            retry_after: None,
            push: None,
        }
    }
}

/// THE table. A reason that is new has no row until somebody writes one: there is no `_` arm.
fn row(reason: Reason, place: Place) -> (StatusCode, &'static str) {
    use StatusCode as S;
    let identity = match place {
        Place::Hop => S::PROXY_AUTHENTICATION_REQUIRED,
        Place::Inside => S::FORBIDDEN,
        Place::BaseUrl | Place::Endpoint => S::UNAUTHORIZED,
    };
    let ended = match place {
        Place::Hop | Place::Inside => S::FORBIDDEN,
        Place::BaseUrl | Place::Endpoint => S::UNAUTHORIZED,
    };
    match reason {
        Reason::TokenMissing => {
            (identity, "this proxy needs a token: put it into the proxy URL, as http://kleis:TOKEN@host:port")
        }
        Reason::TokenInvalid => (identity, "the token is not one of this proxy's"),
        Reason::TokenExpired => (ended, "the token has expired"),
        Reason::TokenRevoked => (ended, "the token has been revoked"),
        Reason::HostUnclaimed => {
            (S::FORBIDDEN, "no service of this proxy claims that host, and it is not passed through")
        }
        Reason::ModeUnsupported => (S::FORBIDDEN, "this host can't be reached that way"),
        Reason::AuthorityMismatch => {
            (S::MISDIRECTED_REQUEST, "the request names another host than the connection was opened for")
        }
        Reason::AddressForbidden => (S::FORBIDDEN, "the host's address is in a range that this proxy does not dial"),
        Reason::Loop => (S::LOOP_DETECTED, "the request leads back to this proxy"),
        Reason::Malformed => (S::BAD_REQUEST, "the request is malformed"),
        Reason::AmbiguousPath => (S::BAD_REQUEST, "the path can be read in more than one way"),
        Reason::AmbiguousFraming => (S::BAD_REQUEST, "the length of the body can be read in more than one way"),
        Reason::ExpectationFailed => (S::EXPECTATION_FAILED, "only `Expect: 100-continue` is understood"),
        Reason::HeadTooLarge => (S::REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's head is too large"),
        Reason::PolicyDenied => (S::FORBIDDEN, "the policy does not allow this request"),
        Reason::NoGrantForService => (S::FORBIDDEN, "the token holds no grant for this service"),
        Reason::Narrowed => (S::FORBIDDEN, "the token was narrowed and does not allow this request"),
        Reason::PolicyTooExpensive => (S::FORBIDDEN, "deciding this request takes more work than is allowed"),
        Reason::PolicyError => (S::FORBIDDEN, "the policy could not be evaluated for this request"),
        Reason::TokenUnsupported => (S::FORBIDDEN, "the token uses a feature that this proxy does not evaluate"),
        Reason::CleartextCredential => (S::FORBIDDEN, "a credential is not spent on clear text: use https"),
        Reason::BodyUnreadable => (S::FORBIDDEN, "the request's body can't be read, and the decision needs it"),
        Reason::BodyTooLargeToJudge => {
            (S::PAYLOAD_TOO_LARGE, "the request's body is larger than what may be read to judge it")
        }
        Reason::CredentialMissing => (S::FORBIDDEN, "no credential is installed for this"),
        Reason::CredentialNeedsLogin => (S::FORBIDDEN, "the credential has to be renewed by its owner"),
        Reason::CredentialUnavailable => (S::SERVICE_UNAVAILABLE, "the credential can't be obtained at the moment"),
        Reason::UpstreamUnreachable => (S::BAD_GATEWAY, "the upstream can't be reached"),
        Reason::UpstreamTls => (S::BAD_GATEWAY, "the upstream's certificate could not be verified"),
        Reason::UpstreamTimeout => (S::GATEWAY_TIMEOUT, "the upstream did not answer in time"),
        Reason::UpstreamProtocol => (S::BAD_GATEWAY, "the upstream's answer is no valid HTTP"),
        Reason::Overloaded => (S::SERVICE_UNAVAILABLE, "the proxy is at its limit"),
        Reason::ShuttingDown => (S::SERVICE_UNAVAILABLE, "the proxy is shutting down"),
        Reason::AuditUnavailable => (S::SERVICE_UNAVAILABLE, "the request can't be recorded, so it is not made"),
    }
}

impl Refusal {
    /// The status, for that ear.
    pub fn status(&self, place: Place) -> StatusCode {
        row(self.reason, place).0
    }

    /// What the client is told: the table's text, what there is to say beyond it, and the checks that
    /// failed.
    pub fn text(&self, place: Place) -> String {
        let mut text = row(self.reason, place).1.to_owned();
        if let Some(message) = &self.message {
            let _ = write!(text, ": {message}");
        }
        for failed in self.denial.iter().flat_map(|denial| &denial.failed).take(3) {
            let _ = write!(text, "; this failed: `{}`", failed.text);
        }
        text
    }
}

/// What a refusal is an answer to, as far as it is known: picks the dialect.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// The service that claims the authority.
    pub service: Option<&'a Service>,
    /// The method.
    pub method: Option<&'a Method>,
    /// The authority.
    pub authority: Option<&'a Authority>,
    /// The path as sent.
    pub path: Option<&'a str>,
}

/// The answer that says no.
pub fn answer(refusal: &Refusal, place: Place, asked: Asked<'_>, request_id: &str) -> Response<Reply> {
    let status = refusal.status(place);
    let text = refusal.text(place);
    let plain = || format!("kleis: {text}\nrequest: {request_id}\n");
    let (status, media, body) = match &refusal.push {
        Some(push) => {
            let body = push.render(refusal.reason.code(), &plain());
            (StatusCode::OK, HeaderValue::from_static(PUSH_RESULT), body.into())
        }
        None => match in_dialect(refusal, status, &text, asked, request_id) {
            Some((media, body)) => (status, media, Bytes::from(body)),
            None => (status, HeaderValue::from_static("text/plain"), plain().into()),
        },
    };
    let mut response = Response::new(Reply::text(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media);
    headers.insert(X_KLEIS_REASON, HeaderValue::from_static(refusal.reason.code()));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(X_KLEIS_REQUEST_ID, id);
    }
    if let Some(seconds) = refusal.retry_after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    challenge(status, headers);
    if matches!(refusal.reason, Reason::AuthorityMismatch | Reason::ShuttingDown) {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Both schemes, in lines of their own: git and curl answer only `Basic`, and some clients read one line.
fn challenge(status: StatusCode, headers: &mut http::HeaderMap) {
    const BASIC: HeaderValue = HeaderValue::from_static("Basic realm=\"kleis\", charset=\"UTF-8\"");
    const BEARER: HeaderValue = HeaderValue::from_static("Bearer realm=\"kleis\"");
    if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        headers.append(PROXY_AUTHENTICATE, BASIC);
        headers.append(PROXY_AUTHENTICATE, BEARER);
    } else if status == StatusCode::UNAUTHORIZED {
        headers.append(WWW_AUTHENTICATE, BASIC);
    }
}

fn in_dialect(
    refusal: &Refusal,
    status: StatusCode,
    text: &str,
    asked: Asked<'_>,
    request_id: &str,
) -> Option<(HeaderValue, String)> {
    let (service, method, authority) = (asked.service?, asked.method?, asked.authority?);
    let path = asked.path.and_then(|path| Path::parse(path).ok());
    let dialect = service.refusal(method.as_str(), authority, path.as_ref())?;
    let context = RefusalContext {
        reason: text,
        code: refusal.reason.code(),
        status: status.as_u16(),
        request_id,
        service: service.name().as_str(),
    };
    Some((HeaderValue::from_str(dialect.media()).ok()?, dialect.render(&context)?))
}

/// The answer to bytes that are no request, written before anything has been parsed.
pub fn raw(violation: Violation, late: Late, request_id: &str) -> Bytes {
    let status = match late {
        Late::Yes => StatusCode::REQUEST_TIMEOUT,
        Late::No => row(violation.reason, Place::Hop).0,
    };
    let body = format!("kleis: {}\nrequest: {request_id}\n", violation.text);
    Bytes::from(format!(
        "HTTP/1.1 {} {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nX-Kleis-Reason: {}\r\n\
         X-Kleis-Request-Id: {request_id}\r\nConnection: close\r\n\r\n{body}",
        status.as_u16(),
        status.canonical_reason().unwrap_or_default(),
        body.len(),
        violation.reason,
    ))
}
