//! The life of a request (DESIGN §3).
//!
//! `listen` ▶ `guard` ▶ `identify` ▶ `intercept` ▶ `read` ▶ facts ▶ decide ▶ bind ▶ `forward` ▶ `record`.
//! Whatever the way in, what comes out of interception is one [`Arrival`], and from there on there is one
//! pipeline: [`serve`].

pub mod connection;
pub mod exec;
pub mod forward;
pub mod framing;
pub mod guard;
pub mod holder;
pub mod hop;
pub mod identify;
pub mod intercept;
pub mod judging;
pub mod lane;
pub mod listen;
pub mod meter;
pub mod read;
pub mod record;
pub mod refuse;
pub mod relay;
pub mod reply;
pub mod state;
pub mod stream;
pub mod tunnel;
pub mod upgrade;
pub mod upload;
pub mod watched;
pub mod watchers;

use std::sync::Arc;

use http::header::{ACCEPT, CONNECTION};
use http::{HeaderValue, Request, Response, Version};
use hyper::body::{Body as _, Incoming};

use crate::credential::{Bound, bind};
use crate::facts::{Body, RequestFacts};
use crate::policy::{self, Decision, Denial, Permit, Situation};
use crate::wire::PushReport;
use crate::words::{Reason, Timestamp};
use forward::{ForwardError, Outbound, Upload};
use read::Read;
use record::{Outcome, Ticket, now};
use refuse::Asked;
use relay::{Guard, RelayBody, Terms};
use reply::Reply;
use upgrade::ClientUpgrade;

pub use holder::Holder;
pub use lane::{Arrival, Lane, Mode};
pub use meter::Counts;
pub use refuse::{Place, Refusal};
pub use state::State;

/// One request, from its head to its answer's head; a refusal is an answer like any other.
pub async fn serve(state: &Arc<State>, arrival: &Arrival, request: Request<Incoming>) -> Response<Reply> {
    let mut ticket = Ticket::new(arrival.mode.as_str(), arrival.source);
    ticket.holder = Some(arrival.holder.clone());
    ticket.authority = Some(arrival.authority.clone());
    (ticket.method, ticket.uri) = (Some(request.method().clone()), request.uri().clone());
    let unread = !request.body().is_end_stream() && request.version() < Version::HTTP_2;
    match pass(state, arrival, &mut ticket, request).await {
        Ok(response) => response,
        Err(refusal) => {
            let mut response = refuse(state, &ticket, arrival.mode.place(), &refusal).await;
            if unread {
                // whoever is still sending had better read the answer than be kept in the line (R114)
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
    }
}

/// The pipeline. What comes out of one step is what the next one takes: without a `Permit` nothing is bound,
/// and nothing that is not bound is sent.
async fn pass(
    state: &Arc<State>,
    arrival: &Arrival,
    ticket: &mut Ticket,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Refusal> {
    let lane = arrival.lane(state);
    ticket.service.clone_from(&lane.service);
    still_welcome(state, arrival, now())?;
    let program = lane.program()?;
    let version = request.version();
    let read = read::read(state, &lane, arrival, program, ticket.id.as_str(), request).await?;
    let accounts = state.accounts.load();
    let situation = Situation { now: now(), accounts: &accounts, account: read.stripped.account() };
    let decision = policy::decide(program, &read.facts, &situation);
    drop(accounts);
    let permit = match decision {
        Decision::Permit(permit) => permit,
        Decision::Denial(denial) => return Err(denied(denial, read).await),
    };
    let config = &lane.snapshot.config;
    let full = (config.audit_facts == crate::config::AuditFacts::Full).then_some(&read.facts);
    ticket.allowed(state.audit(), &state.meters, &permit, full, config.audit_on_failure).await?;
    let outcome = Outcome::of(ticket, state.audit(), &state.meters);
    let guard = guard(state, &lane, &permit, read.facts, &outcome);
    let departure = Departure { state, arrival, lane: &lane, version, guard, outcome: &outcome };
    let bound = bind(permit, read.stripped, lane.service.as_ref(), &state.vault).await;
    let sent = match bound {
        Ok(bound) => departure.send(bound, read.upload, read.upgrade).await,
        Err(error) => Err(unbound(&error)),
    };
    drop(read.held);
    sent.map(|response| response.map(Reply::relay)).inspect_err(|refusal| outcome.failed(refusal))
}

/// A denial, in the words that its client shows. git shows its user nothing of a refused push but the
/// status, unless it is answered in git's protocol; for that the push must have come to its end.
async fn denied(denial: Denial, read: Read) -> Refusal {
    let mut refusal = Refusal::from(denial);
    let accepts = read.stripped.headers().get_all(ACCEPT).iter();
    let is_git = accepts.filter_map(|value| value.to_str().ok()).any(|value| value.contains(refuse::PUSH_RESULT));
    if let Body::Decoded(push) = &read.facts.body
        && is_git
        && let Some(report) = PushReport::of(push)
        && read.upload.discard().await
    {
        refusal.push = Some(report);
    }
    refusal
}

/// What may have changed since the token was verified: asked at every request (invariant 9).
fn still_welcome(state: &State, arrival: &Arrival, now: Timestamp) -> Result<(), Refusal> {
    if let Some(reason) = arrival.settled {
        return Err(reason.into());
    }
    if state.drain.has_begun() {
        return Err(Reason::ShuttingDown.into());
    }
    holder::still_valid(&arrival.holder, state.operator.revocations(), now)
}

/// What ends the request if the token ends, and tells when it has come to its end.
fn guard(state: &Arc<State>, lane: &Arc<Lane>, permit: &Permit, facts: RequestFacts, outcome: &Arc<Outcome>) -> Guard {
    let limits = &lane.snapshot.config.limits;
    let told = outcome.clone();
    let decide_again = permit.watch().decide_again.then(|| {
        let (state, compiled) = (state.clone(), lane.compiled());
        Box::new(move |now| {
            let accounts = state.accounts.load();
            let Some(Ok(program)) = compiled.as_deref() else { return false };
            matches!(policy::decide(program, &facts, &Situation::at(now, &accounts)), Decision::Permit(_))
        }) as Box<dyn Fn(Timestamp) -> bool + Send + Sync>
    });
    let terms = Terms {
        idle: limits.idle_timeout,
        head: limits.answer_timeout,
        decide_again,
        on_end: Some(Box::new(move |report| told.end(report))),
    };
    state.watchers.guard(permit.watch(), terms)
}

/// What a request leaves with, besides itself.
struct Departure<'a> {
    state: &'a State,
    arrival: &'a Arrival,
    lane: &'a Lane,
    /// The client's.
    version: Version,
    guard: Guard,
    outcome: &'a Outcome,
}

impl Departure<'_> {
    /// Sends what is bound; once more, with another secret, if the upstream refuses this one and the body
    /// is in hand.
    async fn send(
        self,
        mut bound: Bound,
        mut upload: Upload,
        mut upgrade: Option<ClientUpgrade>,
    ) -> Result<Response<RelayBody>, Refusal> {
        loop {
            let again = upload.again();
            let response = self.send_once(&mut bound, upload, upgrade.take()).await?;
            let (Some(in_hand), Some(wait)) = (again, bound.retry_after(response.status(), &self.state.vault)) else {
                return Ok(response);
            };
            tokio::time::sleep(wait).await;
            still_welcome(self.state, self.arrival, now())?;
            match bound.rebind(&self.state.vault).await.map_err(|error| unbound(&error))? {
                Some(other) => (bound, upload) = (other, in_hand),
                None => return Ok(response),
            }
        }
    }

    async fn send_once(
        &self,
        bound: &mut Bound,
        upload: Upload,
        upgrade: Option<ClientUpgrade>,
    ) -> Result<Response<RelayBody>, Refusal> {
        self.outcome.spends(bound.spent());
        let (key, mut head) = bound.take_request().ok_or(Reason::PolicyError)?;
        head.version = self.version;
        let outbound = Outbound { key, head, never_in_trailers: self.lane.never_in_trailers.clone() };
        let upstreams = self.state.upstreams.load_full();
        let sent = forward::forward(&upstreams, outbound, upload, upgrade, self.guard.clone()).await;
        let mut response = sent.map_err(|error| unanswered(&error))?;
        self.outcome.answered(response.status());
        // only we say why a request was refused
        for ours in [refuse::X_KLEIS_REASON, refuse::X_KLEIS_REQUEST_ID] {
            response.headers_mut().remove(ours);
        }
        Ok(response)
    }
}

fn unbound(error: &crate::credential::BindError) -> Refusal {
    let mut refusal = Refusal::new(error.reason()).because(error);
    refusal.retry_after = error.retry_after().map(|wait| wait.as_secs().max(1));
    refusal
}

fn unanswered(error: &ForwardError) -> Refusal {
    Refusal::new(error.reason()).because(error)
}

/// Writes a refusal down and makes the answer of it.
pub async fn refuse(state: &State, ticket: &Ticket, place: Place, refusal: &Refusal) -> Response<Reply> {
    ticket.refused(state.audit(), &state.meters, refusal).await;
    tracing::info!(
        request = %ticket.id,
        reason = refusal.reason.code(),
        service = ticket.service.as_ref().map(|service| service.name().as_str()),
        cause = refusal.cause.as_deref(),
        "refused"
    );
    let asked = Asked {
        service: ticket.service.as_deref(),
        method: ticket.method.as_ref(),
        authority: ticket.authority.as_ref(),
        path: Some(ticket.uri.path()),
    };
    refuse::answer(refusal, place, asked, ticket.id.as_str())
}
