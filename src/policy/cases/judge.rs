//! Deciding about a described request, in the order in which the proxy does it.

use std::sync::Arc;

use super::Described;
use crate::facts::{Body, Demand, Hidden, Item, Path, Query, RequestFacts, RequestView, standard};
use crate::policy::{Accounts, Decision, Denial, Program, Rulebook, Situation, compile, compile_passthrough, decide};
use crate::service::{Reading, ReadingError, Service};
use crate::token::VerifiedToken;
use crate::wire::{Bounds, Decoded, Decoder, Reach, decode};
use crate::words::{Authority, Reason, Timestamp};

/// What a described request is judged by.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The policy.
    pub rulebook: &'a Arc<Rulebook>,
    /// The credentials that exist.
    pub accounts: &'a Accounts,
    /// The account that the client's placeholder names.
    pub account: Option<&'a str>,
    /// The configuration's `passthrough`.
    pub passes: &'a dyn Fn(&Authority) -> bool,
    /// Bytes of a body that may be read: the configuration's `max_body`.
    pub max_body: usize,
    /// Now.
    pub now: Timestamp,
    /// Makes every fact, for whoever wants to see them; otherwise only those that are read.
    pub all_facts: bool,
}

/// A decision, and the facts that it was made from (none if it was refused before there were any).
#[derive(Debug)]
pub struct Judged {
    /// The decision.
    pub decision: Decision,
    /// The facts.
    pub facts: Option<RequestFacts>,
}

/// May the token's holder make this request? Like the proxy, but for `exec:` decoders, which don't run
/// here (their bodies count as unreadable), and for what binding refuses afterwards.
pub fn judge(setting: &Setting<'_>, token: &VerifiedToken, request: &Described) -> Judged {
    let refused = |denial: Denial| Judged { decision: Decision::Denial(denial), facts: None };
    if token.expires().is_some_and(|expires| expires <= setting.now) {
        return refused(Denial::because(Reason::TokenExpired, "the token has expired"));
    }
    let service = setting.rulebook.catalog().claim(&request.authority);
    let program = match service {
        Some(service) => compile(setting.rulebook, service.name(), token),
        None if (setting.passes)(&request.authority) => compile_passthrough(setting.rulebook, token),
        None => {
            let message = format!("no service claims `{}`, and it is not passed through", request.authority);
            Err(Denial::because(Reason::HostUnclaimed, message))
        }
    };
    let program = match program {
        Ok(program) => program,
        Err(denial) => return refused(denial),
    };
    match facts(setting, &program, service.map(Arc::as_ref), request) {
        Ok(facts) => {
            let mut situation = Situation::at(setting.now, setting.accounts);
            situation.account = setting.account;
            Judged { decision: decide(&program, &facts, &situation), facts: Some(facts) }
        }
        Err(denial) => refused(*denial),
    }
}

fn facts(
    setting: &Setting<'_>,
    program: &Program,
    service: Option<&Service>,
    request: &Described,
) -> Result<RequestFacts, Box<Denial>> {
    let everything = Demand::everything();
    let demand = if setting.all_facts { &everything } else { program.demand() };
    let headers: Vec<(&str, &[u8])> =
        request.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    let view = RequestView {
        id: "described",
        method: &request.method,
        authority: &request.authority,
        path: &request.path,
        query: request.query.as_deref(),
        headers: &headers,
        size: u64::try_from(request.body.len()).ok().filter(|size| *size > 0),
        client: request.client,
        time: setting.now,
    };
    let ambiguous = |what: String| Box::new(Denial::because(Reason::AmbiguousPath, what));
    let path = Path::parse(&request.path).map_err(|error| ambiguous(error.to_string()))?;
    let query = Query::parse(view.query).map_err(|error| ambiguous(error.to_string()))?;
    let Some(service) = service else {
        let body = if request.body.is_empty() { Body::Absent } else { Body::Opaque };
        return Ok(passed_through(&view, &path, &query, body, demand));
    };
    let unreadable = |error: ReadingError| Box::new(Denial::because(error.reason(), error.to_string()));
    let reading = service.reading(&view, &path, &query).map_err(unreadable)?;
    let body = body(setting, service, &view, &reading, demand, &request.body)?;
    service.facts(&view, &path, &query, &reading, body, demand).map_err(unreadable)
}

fn passed_through(view: &RequestView<'_>, path: &Path, query: &Query, body: Body, demand: &Demand) -> RequestFacts {
    RequestFacts {
        authority: view.authority.clone(),
        service: None,
        method: view.method.into(),
        path: view.path.into(),
        client: view.client,
        shared: standard(view, path, query, &body, None, Hidden::NOTHING, demand),
        body,
        items: vec![Item::default()],
    }
}

fn body(
    setting: &Setting<'_>,
    service: &Service,
    view: &RequestView<'_>,
    reading: &Reading,
    demand: &Demand,
    bytes: &[u8],
) -> Result<Body, Box<Denial>> {
    if bytes.is_empty() {
        return Ok(Body::Absent);
    }
    let wanted = reading.wants_body(demand) || demand.wants("body") || demand.wants("request_body");
    let Some(decoder) = reading.decoder().filter(|_| wanted) else {
        return Ok(Body::Opaque);
    };
    if matches!(decoder, Decoder::Exec(_)) {
        return Ok(Body::Undecodable("a command decodes this body, and none runs here".to_owned()));
    }
    if decoder.reach() == Reach::Nothing {
        return Ok(Body::Opaque);
    }
    let bounds = Bounds {
        max_decoded: setting.max_body,
        max_prefix: service.max_decode_prefix(),
        max_nodes: service.max_body_facts(),
        body_paths: service.body_paths().clone(),
    };
    let text = |name| view.header(name).unwrap_or_default();
    match decode(decoder, text("content-type"), text("content-encoding"), bytes, true, &bounds) {
        Decoded::Ready(tree) => Ok(Body::Decoded(tree)),
        Decoded::Truncated => Ok(Body::Truncated),
        Decoded::Failed(what) => Ok(Body::Undecodable(what)),
        Decoded::NeedMore => Ok(Body::Undecodable("it ends too early".to_owned())),
        Decoded::TooLarge => {
            let message = "the body is too large to be judged";
            Err(Box::new(Denial::because(Reason::BodyTooLargeToJudge, message)))
        }
    }
}
