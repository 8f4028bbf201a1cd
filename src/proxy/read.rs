//! Reading a request: its head in the one form that is judged and sent, and as much of its body as the
//! decision needs (DESIGN §3.4, §5).

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST};
use http::{HeaderMap, HeaderName, Request, request};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::exec;
use super::forward::{Upload, drop_hop_by_hop};
use super::judging::Held;
use super::lane::{Arrival, Lane};
use super::record::now;
use super::refuse::Refusal;
use super::state::State;
use super::upgrade::ClientUpgrade;
use crate::config::{AuditFacts, Limits};
use crate::credential::{Head, Stripped};
use crate::facts::{self, Body, Demand, Hidden, Item, Path, Query, RequestFacts, RequestView};
use crate::policy::Program;
use crate::service::{Reading, ReadingError, Service};
use crate::wire::{self, Bounds, Decoded, Decoder, Reach};
use crate::words::Reason;

/// A request, read.
pub struct Read {
    /// The head: what is judged, and what is sent once a secret is bound to it.
    pub stripped: Stripped,
    /// What a decision is made from.
    pub facts: RequestFacts,
    /// The body, to be sent byte for byte as it came.
    pub upload: Upload,
    /// The client's wish to go on in another protocol.
    pub upgrade: Option<ClientUpgrade>,
    /// The memory that its body takes.
    pub held: Held,
}

/// Reads a request.
pub async fn read(
    state: &State,
    lane: &Lane,
    arrival: &Arrival,
    program: &Program,
    id: &str,
    mut request: Request<Incoming>,
) -> Result<Read, Refusal> {
    check_expectation(request.headers())?;
    let upgrade = ClientUpgrade::of(&mut request);
    let (parts, body) = request.into_parts();
    let service = lane.service.as_deref();
    let stripped = strip(parts, arrival, program, service)?;
    let (path, query) = target(&stripped)?;
    let headers: Vec<(&str, &[u8])> =
        stripped.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let view = RequestView {
        id,
        method: stripped.method().as_str(),
        authority: &arrival.authority,
        path: stripped.path(),
        query: stripped.query(),
        headers: &headers,
        size: if body.is_end_stream() { None } else { body.size_hint().exact() },
        client: arrival.source,
        time: now(),
    };
    let everything;
    let demand = if lane.snapshot.config.audit_facts == AuditFacts::Full {
        everything = Demand::everything();
        &everything
    } else {
        program.demand()
    };
    let mut held = state.judging.hold();
    let (facts, upload) = match service {
        Some(service) => {
            let asked = Asked { service, demand, view: &view, path: &path, query: &query };
            asked.read(&lane.snapshot.config.limits, body, &mut held).await?
        }
        None => {
            let known = if body.is_end_stream() { Body::Absent } else { Body::Opaque };
            (passed_through(demand, &view, &path, &query, known), whole_stream(body))
        }
    };
    drop(headers);
    Ok(Read { stripped, facts, upload, upgrade, held })
}

/// git asks before large pushes, curl before large uploads: hyper says `100 Continue` when the body is first
/// wanted. Nobody knows what any other expectation means.
fn check_expectation(headers: &HeaderMap) -> Result<(), Refusal> {
    for value in headers.get_all(EXPECT) {
        if !value.as_bytes().eq_ignore_ascii_case(b"100-continue") {
            return Err(Reason::ExpectationFailed.into());
        }
    }
    Ok(())
}

/// The head without what belongs to this hop, and without the client's own credentials.
fn strip(
    parts: request::Parts,
    arrival: &Arrival,
    program: &Program,
    service: Option<&Service>,
) -> Result<Stripped, Refusal> {
    let mut headers = parts.headers;
    drop_hop_by_hop(&mut headers, |name| is_relied_on(name, program.demand(), service)).map_err(|name| {
        Refusal::new(Reason::Malformed).say("`Connection` lists a field that the decision relies on").because(name)
    })?;
    // the outgoing one is made of the authority (invariant 3)
    headers.remove(HOST);
    let head = Head {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().map(str::to_owned),
        headers,
    };
    Ok(Stripped::new(head, &arrival.authority, service))
}

/// Whether a field may not be taken away by listing it in `Connection` (DESIGN §5).
fn is_relied_on(name: &HeaderName, demand: &Demand, service: Option<&Service>) -> bool {
    let about_the_body = [CONTENT_LENGTH, CONTENT_TYPE, CONTENT_ENCODING, HOST, EXPECT].contains(name);
    about_the_body
        || service.is_some_and(|service| service.strips_header(name.as_str()))
        || (demand.wants_key("request_header", name.as_str()) && !is_hop_only(name))
}

/// Fields that say nothing beyond this hop, whatever a policy asks for.
fn is_hop_only(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "close" | "keep-alive" | "proxy-connection" | "te" | "trailer" | "upgrade" | "http2-settings"
    ) || name.as_str().starts_with("proxy-")
}

fn target(stripped: &Stripped) -> Result<(Path, Query), Refusal> {
    let path = Path::parse(stripped.path());
    let path = path.map_err(|error| Refusal::new(Reason::AmbiguousPath).say(error.to_string()))?;
    let query = Query::parse(stripped.query());
    let query = query.map_err(|error| Refusal::new(Reason::AmbiguousPath).say(error.to_string()))?;
    Ok((path, query))
}

/// Facts of what is passed through, a tunnel among it.
pub fn passed_through(demand: &Demand, view: &RequestView<'_>, path: &Path, query: &Query, body: Body) -> RequestFacts {
    let shared = facts::standard(view, path, query, &body, None, Hidden::NOTHING, demand);
    RequestFacts {
        authority: view.authority.clone(),
        service: None,
        method: view.method.into(),
        path: view.path.into(),
        client: view.client,
        shared,
        body,
        items: vec![Item::default()],
    }
}

fn whole_stream(body: Incoming) -> Upload {
    if body.is_end_stream() { Upload::Empty } else { Upload::Stream { prefix: Vec::new(), rest: body } }
}

/// A request's head to a service, read.
struct Asked<'a> {
    service: &'a Service,
    demand: &'a Demand,
    view: &'a RequestView<'a>,
    path: &'a Path,
    query: &'a Query,
}

impl Asked<'_> {
    async fn read(&self, limits: &Limits, body: Incoming, held: &mut Held) -> Result<(RequestFacts, Upload), Refusal> {
        let Asked { service, demand, view, path, query } = *self;
        let wrong = |error: ReadingError| Refusal::new(error.reason()).say(error.to_string());
        let reading = service.reading(view, path, query).map_err(wrong)?;
        let (known, upload) = self.body(limits, &reading, body, held).await?;
        let facts = service.facts(view, path, query, &reading, known, demand).map_err(wrong)?;
        Ok((facts, upload))
    }

    /// Reads of the body what the decision needs, which most often is nothing.
    async fn body(
        &self,
        limits: &Limits,
        reading: &Reading,
        body: Incoming,
        held: &mut Held,
    ) -> Result<(Body, Upload), Refusal> {
        let demand = self.demand;
        let wanted = reading.wants_body(demand) || demand.wants("body") || demand.wants("request_body");
        let decoder = reading.decoder().filter(|decoder| **decoder != Decoder::None && wanted);
        let Some(decoder) = decoder else {
            let known = if body.is_end_stream() { Body::Absent } else { Body::Opaque };
            return Ok((known, whole_stream(body)));
        };
        let bounds = Bounds {
            max_decoded: usize::try_from(limits.max_body).unwrap_or(usize::MAX),
            max_prefix: self.service.max_decode_prefix(),
            max_nodes: self.service.max_body_facts(),
            body_paths: self.service.body_paths().clone(),
        };
        let in_query = *decoder == Decoder::Graphql && wire::has_graphql_parameters(self.query);
        if body.is_end_stream() {
            let known = match in_query {
                true => judged(wire::decode_graphql_query(self.query, &bounds))?,
                false => Body::Absent,
            };
            return Ok((known, Upload::Empty));
        }
        if in_query {
            // servers differ in which of the two they run
            let known = Body::Undecodable("GraphQL in the query and in the body".into());
            return Ok((known, whole_stream(body)));
        }
        let text = |name: HeaderName| self.view.header(name.as_str()).unwrap_or_default();
        let (media, encoding) = (text(CONTENT_TYPE), text(CONTENT_ENCODING));
        if decoder.reach() == Reach::Prefix {
            return beginning(decoder, media, encoding, body, &bounds, held).await;
        }
        let bytes = whole(body, bounds.max_decoded, held).await?;
        let decoded = match decoder {
            Decoder::Exec(command) => exec::decode(command, media, encoding, &bytes, &bounds).await,
            _ => wire::decode(decoder, media, encoding, &bytes, true, &bounds),
        };
        Ok((judged(decoded)?, Upload::Whole(bytes)))
    }
}

fn judged(decoded: Decoded) -> Result<Body, Refusal> {
    match decoded {
        Decoded::Ready(tree) => Ok(Body::Decoded(tree)),
        Decoded::Truncated => Ok(Body::Truncated),
        Decoded::Failed(what) => Ok(Body::Undecodable(what)),
        Decoded::NeedMore => Ok(Body::Undecodable("it ends too early".into())),
        Decoded::TooLarge => Err(Reason::BodyTooLargeToJudge.into()),
    }
}

/// All of a body, up to the limit: judging its first part would let the rest pass unseen (R100).
async fn whole(mut body: Incoming, limit: usize, held: &mut Held) -> Result<Bytes, Refusal> {
    let told = body.size_hint().lower();
    if told > limit as u64 {
        return Err(Reason::BodyTooLargeToJudge.into());
    }
    let Some(first) = next(&mut body).await? else { return Ok(Bytes::new()) };
    if body.is_end_stream() {
        return Ok(first);
    }
    let told = usize::try_from(told).unwrap_or(0).max(first.len());
    held.grow(told)?;
    let mut all = BytesMut::with_capacity(told);
    all.extend_from_slice(&first);
    while let Some(part) = next(&mut body).await? {
        if all.len() + part.len() > limit {
            return Err(Reason::BodyTooLargeToJudge.into());
        }
        held.grow(all.len() + part.len())?;
        all.extend_from_slice(&part);
    }
    Ok(all.freeze())
}

/// A body's beginning, until the decoder has seen enough; the rest streams through unseen.
async fn beginning(
    decoder: &Decoder,
    media: &str,
    encoding: &str,
    mut body: Incoming,
    bounds: &Bounds,
    held: &mut Held,
) -> Result<(Body, Upload), Refusal> {
    let mut prefix = Vec::new();
    let mut seen = BytesMut::new();
    loop {
        let part = next(&mut body).await?;
        let complete = part.is_none() || body.is_end_stream();
        if let Some(part) = part {
            held.grow(2 * (seen.len() + part.len()))?;
            seen.extend_from_slice(&part);
            prefix.push(part);
        }
        match wire::decode(decoder, media, encoding, &seen, complete, bounds) {
            Decoded::NeedMore if !complete => {}
            decoded => {
                let known = judged(decoded)?;
                let upload = match complete {
                    true => Upload::Whole(seen.freeze()),
                    false => Upload::Stream { prefix, rest: body },
                };
                return Ok((known, upload));
            }
        }
    }
}

/// The next bytes of a body; trailers are not looked at.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Refusal> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::new(Reason::Malformed).say("its body broke off").because(error))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}
