//! Our own endpoints, below `/.kleis/v1/` (DESIGN §11).

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;

use super::control::as_json;
use super::{metrics, status};
use crate::audit::{EndpointEntry, Raw};
use crate::config::Role;
use crate::facts::{Body, Path, Query, RequestView};
use crate::policy::{self, Situation};
use crate::proxy::holder::still_valid;
use crate::proxy::identify;
use crate::proxy::read::passed_through;
use crate::proxy::record::{RequestId, now};
use crate::proxy::refuse::{X_KLEIS_REASON, X_KLEIS_REQUEST_ID};
use crate::proxy::reply::Reply;
use crate::proxy::{Holder, Place, Refusal, State};
use crate::token::Identity;
use crate::words::{Authority, Host, Reason, Scheme};

const PREFIX: &str = "/.kleis/v1/";

/// Whether a path is one of ours. None of them is ever an upstream's.
pub fn is_one(path: &str) -> bool {
    path.starts_with("/.kleis/") || path == "/.kleis"
}

/// Answers a request to an endpoint, on a listener of that role.
pub async fn answer(
    state: &Arc<State>,
    source: Option<IpAddr>,
    here: Role,
    request: Request<Incoming>,
) -> Response<Reply> {
    let id = RequestId::new();
    if let Err(refusal) = from_nearby(state, request.headers()) {
        return refused(&refusal, &id);
    }
    let name = request.uri().path().strip_prefix(PREFIX).unwrap_or_default();
    let name = if is_served(state, here, name) { name } else { "" };
    match (request.method(), name) {
        (&Method::GET | &Method::HEAD, "health") => health(state),
        (&Method::GET | &Method::HEAD, "ca" | "status" | "metrics") => {
            let caller = identify(state, &request);
            let admitted = caller.as_ref().map_err(Clone::clone);
            let admitted = admitted.and_then(|holder| admit(state, source, &request, name, &id, holder));
            let (status, reason, response) = match &admitted {
                Ok(()) => (StatusCode::OK, None, page(state, name)),
                Err(refusal) => (refusal.status(Place::Endpoint), Some(refusal.reason), refused(refusal, &id)),
            };
            record(state, source, name, &id, caller.ok().as_deref(), status, reason).await;
            response
        }
        (_, "health" | "ca" | "status" | "metrics") => {
            as_json(StatusCode::METHOD_NOT_ALLOWED, &json!({"error": "use GET", "reason": "malformed"}))
        }
        _ => as_json(StatusCode::NOT_FOUND, &json!({"error": "there is no such endpoint", "reason": "not_found"})),
    }
}

/// With an admin listener, the proxy's listeners keep only what sandboxes need.
fn is_served(state: &State, here: Role, name: &str) -> bool {
    let for_sandboxes = matches!(name, "health" | "ca" | "setup");
    here == Role::Admin || for_sandboxes || !state.listening.iter().any(|(role, _)| *role == Role::Admin)
}

/// Alive, and whether new work is taken. No detail: anybody may ask.
fn health(state: &State) -> Response<Reply> {
    let draining = state.drain.has_begun();
    let status = if draining { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    as_json(status, &json!({"ok": !draining}))
}

fn page(state: &State, name: &str) -> Response<Reply> {
    let mut response = match name {
        "ca" => {
            let mut response = Response::new(Reply::text(state.ca.ca_pem().to_owned()));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-pem-file"));
            response
        }
        "metrics" => metrics::page(state),
        _ => as_json(StatusCode::OK, &status::brief(state)),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Against browsers and DNS rebinding: a page somewhere may make a browser send requests here, under a name
/// of its own choice, and says who it is in `Origin`.
fn from_nearby(state: &State, headers: &HeaderMap) -> Result<(), Refusal> {
    let foreign = |what: &str| Err(Refusal::new(Reason::AuthorityMismatch).say(what));
    let text = |value: &HeaderValue| value.to_str().map(str::to_owned).unwrap_or_default();
    if let Some(host) = headers.get(HOST).map(text)
        && !is_own_name(state, &host)
    {
        return foreign("`Host` is neither an address of this proxy nor its `public_url`");
    }
    if let Some(origin) = headers.get(ORIGIN).map(text) {
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if !host.is_some_and(|host| is_own_name(state, host)) {
            return foreign("a page of another origin may not call this");
        }
    }
    Ok(())
}

/// An address or `localhost` with a port of ours, or `public_url`'s host and port.
fn is_own_name(state: &State, text: &str) -> bool {
    let Ok(named) = Authority::parse(Scheme::Http, text) else { return false };
    let snapshot = state.snapshot();
    let public = snapshot.config.public_url.as_ref().map(|url| url.authority());
    if public.is_some_and(|own| own.host() == named.host() && own.host_header() == text.to_ascii_lowercase()) {
        return true;
    }
    let is_local = named.host().as_ip().is_some() || named.host().as_name() == Some("localhost");
    let mut ports = state.own_ports().peekable();
    // a Unix socket has no port
    is_local && (ports.peek().is_none() || ports.any(|port| port == named.port()))
}

fn identify(state: &State, request: &Request<Incoming>) -> Result<Arc<Holder>, Refusal> {
    let raw = identify::token(request.headers(), Place::Endpoint)?;
    let holder = state.holders.verify(&raw, state.operator.root_keys());
    holder.map_err(|error| Refusal::new(error.reason()).because(error))
}

/// Whether the caller may have what it asks for: a live token, of the right kind, whose own checks hold.
fn admit(
    state: &State,
    source: Option<IpAddr>,
    request: &Request<Incoming>,
    name: &str,
    id: &RequestId,
    holder: &Holder,
) -> Result<(), Refusal> {
    still_valid(holder, state.operator.revocations(), now())?;
    if name != "ca" && !matches!(holder.identity(), Identity::Issuer(_)) {
        return Err(Refusal::new(Reason::PolicyDenied).say("this endpoint is for issuers"));
    }
    let program = policy::compile_endpoint(&state.snapshot().rulebook, holder)?;
    let authority = Authority::new(Scheme::Http, Host::Name("localhost".into()), 80);
    let path = request.uri().path();
    let (Ok(parsed), Ok(query)) = (Path::parse(path), Query::parse(None)) else {
        return Err(Reason::AmbiguousPath.into());
    };
    let view = RequestView {
        id: id.as_str(),
        method: request.method().as_str(),
        authority: &authority,
        path,
        query: None,
        headers: &[],
        size: None,
        client: source,
        time: now(),
    };
    let facts = passed_through(program.demand(), &view, &parsed, &query, Body::Absent);
    Ok(policy::admit(&program, &facts, &Situation::at(now(), &state.accounts.load()))?)
}

async fn record(
    state: &State,
    source: Option<IpAddr>,
    name: &str,
    id: &RequestId,
    caller: Option<&Holder>,
    status: StatusCode,
    reason: Option<Reason>,
) {
    let who = caller.map(|holder| match holder.identity() {
        Identity::Bearer { bearer, .. } => bearer.to_string(),
        Identity::Issuer(issuer) => format!("issuer:{issuer}"),
    });
    let entry = EndpointEntry {
        request_id: id.as_str(),
        endpoint: name,
        revocation_ids: caller.map_or(&[], |holder| holder.revocation_ids()),
        caller: who.as_deref().map(Raw::from),
        client: source,
        detail: &[],
        status: status.as_u16(),
        reason,
    };
    if let Err(error) = state.audit().endpoint(&entry).await {
        tracing::error!(%error, "an endpoint's call could not be recorded");
    }
}

fn refused(refusal: &Refusal, id: &RequestId) -> Response<Reply> {
    let status = refusal.status(Place::Endpoint);
    let text = refusal.text(Place::Endpoint);
    let told = json!({"error": text, "reason": refusal.reason.code(), "request_id": id.as_str()});
    let mut response = as_json(status, &told);
    let headers = response.headers_mut();
    headers.insert(X_KLEIS_REASON, HeaderValue::from_static(refusal.reason.code()));
    if let Ok(id) = HeaderValue::from_str(id.as_str()) {
        headers.insert(X_KLEIS_REQUEST_ID, id);
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"kleis\""));
    }
    response
}
