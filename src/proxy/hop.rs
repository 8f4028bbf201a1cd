//! Requests at the hop: `CONNECT`, absolute-form, base-URL form, and our own endpoints (DESIGN §3.3).

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use http::uri::PathAndQuery;
use http::{Method, Request, Response, Uri};
use hyper::body::{Body as _, Incoming};
use hyper_util::rt::TokioIo;

use super::guard::{Guard, Signals};
use super::holder::{self, Holder};
use super::identify;
use super::intercept;
use super::lane::{Arrival, Mode};
use super::record::{Ticket, now};
use super::refuse::{Place, Refusal};
use super::reply::Reply;
use super::state::State;
use super::stream::{Prefixed, Stream};
use super::{refuse, serve};
use crate::admin::endpoints;
use crate::config::Role;
use crate::facts::{Body, Path, Query, RequestView};
use crate::policy::{self, Decision, Situation};
use crate::words::{Authority, Reason, Scheme};

/// What a connection goes on with once its `CONNECT` is answered.
pub type Next = Arc<Mutex<Option<BoxFuture<'static, ()>>>>;

/// Answers one request of a client's connection to the proxy.
pub async fn answer(
    state: Arc<State>,
    source: Option<IpAddr>,
    request: Request<Incoming>,
    signals: Arc<Signals>,
    next: Next,
) -> Response<Reply> {
    if request.method() == Method::CONNECT {
        return connect(state, source, request, signals, &next).await;
    }
    if endpoints::is_one(request.uri().path()) && request.uri().scheme().is_none() {
        return endpoints::answer(&state, source, Role::Proxy, request).await;
    }
    let mode = if request.uri().scheme().is_some() { Mode::Absolute } else { Mode::BaseUrl };
    let unread = !request.body().is_end_stream();
    match arrive(&state, source, mode, request) {
        Ok((arrival, request)) => {
            let limit = state.snapshot().config.limits.max_connections_per_token;
            let Some(_connected) = arrival.holder.connect(limit) else {
                let refusal = Reason::Overloaded.into();
                return refuse(&state, &ticket_of(&arrival, &request), mode.place(), &refusal).await;
            };
            serve(&state, &arrival, request).await
        }
        Err(refused) => {
            let (ticket, refusal) = *refused;
            let mut response = refuse(&state, &ticket, mode.place(), &refusal).await;
            if unread {
                let close = http::HeaderValue::from_static("close");
                response.headers_mut().insert(http::header::CONNECTION, close);
            }
            response
        }
    }
}

fn ticket_of<B>(arrival: &Arrival, request: &Request<B>) -> Ticket {
    let mut ticket = Ticket::new(arrival.mode.as_str(), arrival.source);
    ticket.holder = Some(arrival.holder.clone());
    ticket.authority = Some(arrival.authority.clone());
    (ticket.method, ticket.uri) = (Some(request.method().clone()), request.uri().clone());
    ticket
}

type Arrived = Result<(Arrival, Request<Incoming>), Box<(Ticket, Refusal)>>;

/// A request that names its authority itself: the target alone decides where it goes (R03).
fn arrive(state: &State, source: Option<IpAddr>, mode: Mode, mut request: Request<Incoming>) -> Arrived {
    let mut ticket = Ticket::new(mode.as_str(), source);
    ticket.method = Some(request.method().clone());
    let named = match mode {
        Mode::BaseUrl => rewritten(request.uri()),
        _ => absolute(request.uri()),
    };
    let (authority, target) = match named {
        Ok(named) => named,
        Err(refusal) => {
            ticket.uri = request.uri().clone();
            return Err(Box::new((ticket, refusal)));
        }
    };
    ticket.authority = Some(authority.clone());
    ticket.uri = target.clone();
    let holder = match identify(state, &request, mode.place()) {
        Ok(holder) => holder,
        Err(refusal) => return Err(Box::new((ticket, refusal))),
    };
    ticket.holder = Some(holder.clone());
    if intercept::is_ourselves(state, &authority) {
        return Err(Box::new((ticket, Reason::Loop.into())));
    }
    *request.uri_mut() = target;
    Ok((Arrival::new(authority, source, holder, mode), request))
}

/// Whose request it is: verified, not yet asked whether it still is welcome.
fn identify<B>(state: &State, request: &Request<B>, place: Place) -> Result<Arc<Holder>, Refusal> {
    let raw = identify::token(request.headers(), place)?;
    let verified = state.holders.verify(&raw, state.operator.root_keys());
    verified.map_err(|error| Refusal::new(error.reason()).because(error))
}

/// `http://host/path` or `https://host/path`.
fn absolute(uri: &Uri) -> Result<(Authority, Uri), Refusal> {
    let scheme = match uri.scheme_str() {
        Some("http") => Scheme::Http,
        Some("https") => Scheme::Https,
        _ => return Err(Refusal::new(Reason::Malformed).say("the target's scheme is http or https")),
    };
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let authority = Authority::parse(scheme, authority).map_err(|error| malformed(&error))?;
    Ok((authority, origin_form(uri.path_and_query().map_or("/", PathAndQuery::as_str))?))
}

/// `/https/host[:port]/path`.
fn rewritten(uri: &Uri) -> Result<(Authority, Uri), Refusal> {
    let wrong = || {
        let form = "use this proxy as a proxy, or with `/https/host/path` or `/http/host/path`";
        Refusal::new(Reason::Malformed).say(form)
    };
    let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let (scheme, rest) = match target {
        _ if target.starts_with("/https/") => (Scheme::Https, target.strip_prefix("/https/")),
        _ => (Scheme::Http, target.strip_prefix("/http/")),
    };
    let rest = rest.ok_or_else(wrong)?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let authority = Authority::parse(scheme, host).map_err(|error| malformed(&error))?;
    let path = if path.starts_with('/') { origin_form(path)? } else { origin_form(&format!("/{path}"))? };
    Ok((authority, path))
}

fn origin_form(target: &str) -> Result<Uri, Refusal> {
    let target = if target.starts_with('?') { format!("/{target}") } else { target.to_owned() };
    PathAndQuery::try_from(target).map(Uri::from).map_err(|error| malformed(&error))
}

fn malformed(error: &dyn std::error::Error) -> Refusal {
    Refusal::new(Reason::Malformed).say(error.to_string())
}

/// `CONNECT host:port`: identity and authority are settled here, for all that comes through the tunnel.
async fn connect(
    state: Arc<State>,
    source: Option<IpAddr>,
    request: Request<Incoming>,
    signals: Arc<Signals>,
    next: &Next,
) -> Response<Reply> {
    let mut ticket = Ticket::new(Mode::Tunnel.as_str(), source);
    ticket.method = Some(Method::CONNECT);
    let target = request.uri().authority().map_or("", |authority| authority.as_str());
    let settled = identify(&state, &request, Place::Hop).and_then(|holder| {
        ticket.holder = Some(holder.clone());
        let authority = Authority::parse_connect(target).map_err(|error| malformed(&error))?;
        ticket.authority = Some(authority.clone());
        admit(&state, &holder, &authority)?;
        let limit = state.snapshot().config.limits.max_connections_per_token;
        let connected = holder.connect(limit).ok_or(Reason::Overloaded)?;
        Ok((holder, authority, connected))
    });
    let (holder, authority, connected) = match settled {
        Ok(settled) => settled,
        Err(refusal) => return refuse(&state, &ticket, Place::Hop, &refusal).await,
    };
    let blind = match pass_blindly(&state, source, &holder, &authority).await {
        Ok(blind) => blind,
        Err(refused) => return refuse(&state, &refused.0, Place::Hop, &refused.1).await,
    };
    let opened = state.meters.tunnel();
    signals.switch_to_raw();
    let tunnel = async move {
        if let Some(client) = client_of(request).await {
            match blind {
                Some(blind) => blind.join(client).await,
                None => intercept::tunnel(&state, authority, source, holder, client).await,
            }
        }
        drop((connected, opened));
    };
    *next.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::pin(tunnel));
    // a plain 200: some clients take a body or a length for the tunnel's first bytes
    Response::new(Reply::empty())
}

/// Whether there is a tunnel at all. Whoever has a token is told inside it what is wrong with the rest:
/// hardly any client shows the answer to a refused CONNECT.
fn admit(state: &State, holder: &Arc<Holder>, authority: &Authority) -> Result<(), Refusal> {
    if intercept::is_ourselves(state, authority) {
        return Err(Reason::Loop.into());
    }
    let snapshot = state.snapshot();
    if snapshot.catalog.claim(authority).is_some() || state.ca.is_cached(authority.host()) {
        return Ok(());
    }
    // nobody claims it: a leaf is minted only to say no under that name, so not without end
    holder::still_valid(holder, state.operator.revocations(), now())?;
    if snapshot.config.passes(authority) || holder.may_mint() {
        return Ok(());
    }
    Err(Reason::HostUnclaimed.into())
}

/// A blind tunnel that is decided, recorded and dialled, if the configuration passes the host through and the
/// token's checks allow it. `None`: the tunnel is looked into, also if that is only to say no.
async fn pass_blindly(
    state: &Arc<State>,
    source: Option<IpAddr>,
    holder: &Arc<Holder>,
    authority: &Authority,
) -> Result<Option<intercept::Blind>, Box<(Ticket, Refusal)>> {
    let snapshot = state.snapshot();
    if snapshot.catalog.claim(authority).is_some() || !snapshot.config.passes(authority) {
        return Ok(None);
    }
    let arrival = Arrival::new(authority.clone(), source, holder.clone(), Mode::Blind);
    let lane = arrival.lane(state);
    let Ok(program) = lane.program() else { return Ok(None) };
    let mut ticket = Ticket::new(Mode::Blind.as_str(), source);
    ticket.method = Some(Method::CONNECT);
    ticket.holder = Some(holder.clone());
    ticket.authority = Some(authority.clone());
    let (Ok(path), Ok(query)) = (Path::parse("/"), Query::parse(None)) else { return Ok(None) };
    let view = RequestView {
        id: ticket.id.as_str(),
        method: "CONNECT",
        authority,
        path: "/",
        query: None,
        headers: &[],
        size: None,
        client: source,
        time: now(),
    };
    let facts = super::read::passed_through(program.demand(), &view, &path, &query, Body::Absent);
    let accounts = state.accounts.load_full();
    let decision = policy::decide(program, &facts, &Situation::at(now(), &accounts));
    let Decision::Permit(permit) = decision else { return Ok(None) };
    match intercept::Blind::open(state, &lane, &mut ticket, permit, facts).await {
        Ok(blind) => Ok(Some(blind)),
        Err(refusal) => Err(Box::new((ticket, refusal))),
    }
}

/// The client's connection once it has its 200, with what it has sent meanwhile.
async fn client_of(request: Request<Incoming>) -> Option<Prefixed<Stream>> {
    let upgraded = hyper::upgrade::on(request).await.ok()?;
    let parts = upgraded.downcast::<TokioIo<Guard<Stream>>>().ok()?;
    let mut early = BytesMut::from(parts.read_buf);
    let (stream, aside) = parts.io.into_inner().into_parts();
    early.extend_from_slice(&aside);
    Some(Prefixed::new(early, stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(target: &str) -> Result<(String, String), Reason> {
        let uri: Uri = target.parse().unwrap();
        let named = if uri.scheme().is_some() { absolute(&uri) } else { rewritten(&uri) };
        named.map(|(authority, uri)| (authority.to_string(), uri.to_string())).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn the_base_url_form_names_scheme_host_and_the_rest() {
        let told = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(split("/https/api.good.test/v1/x?a=b"), told("https://api.good.test:443", "/v1/x?a=b"));
        assert_eq!(split("/https/API.good.test.:8443"), told("https://api.good.test:8443", "/"));
        assert_eq!(split("/http/plain.good.test?x"), told("http://plain.good.test:80", "/?x"));
        assert_eq!(split("/https/h.test//a"), told("https://h.test:443", "//a"));
        for wrong in [
            "/",
            "/x",
            "/ftp/h.test/",
            "/https/",
            "/https//x",
            "/https/u@h.test/",
            "/HTTPS/h.test/",
            "/https/h.test:0/",
        ] {
            assert_eq!(split(wrong), Err(Reason::Malformed), "{wrong}");
        }
    }

    #[test]
    fn the_absolute_form_is_http_or_https_without_a_user() {
        let told = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(split("http://a.test/x?y"), told("http://a.test:80", "/x?y"));
        assert_eq!(split("https://a.test:443"), told("https://a.test:443", "/"));
        for wrong in ["ftp://a.test/", "http://u:p@a.test/", "http://a.test:0/"] {
            assert_eq!(split(wrong), Err(Reason::Malformed), "{wrong}");
        }
    }
}
