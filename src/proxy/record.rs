//! What is kept of a request: the decision before a secret is used, the outcome after (DESIGN §16,
//! invariant 12), and the counters.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::{Method, Uri};

use super::holder::Holder;
use super::meter::Meters;
use super::refuse::Refusal;
use super::relay::{Cut, Report};
use crate::audit::{Audit, DecisionEntry, OnFailure, OutcomeEntry, Raw};
use crate::credential::Spent;
use crate::facts::{Fact, RequestFacts};
use crate::policy::{CredentialChoice, Permit};
use crate::service::Service;
use crate::token::Identity;
use crate::words::{Authority, CredentialName, Reason, Timestamp};

/// Seconds since the epoch, now.
pub fn now() -> Timestamp {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Names a request, in answers and in the audit: the time, and a number that no other has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestId([u8; 24]);

impl RequestId {
    /// A new one. Sorts by time; unique also across restarts, by a random start.
    pub fn new() -> RequestId {
        static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(rand::random()));
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let number = u128::from(NEXT.fetch_add(1, Ordering::Relaxed) & ((1 << 52) - 1));
        let mut rest = (millis << 52) | number;
        let mut text = [b'0'; 24];
        for digit in text.iter_mut().rev() {
            *digit = b"0123456789abcdef".get((rest & 15) as usize).copied().unwrap_or(b'0');
            rest >>= 4;
        }
        RequestId(text)
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Default for RequestId {
    fn default() -> RequestId {
        RequestId::new()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A request as far as it is known: filled in on its way, written down whatever its end.
#[derive(Debug)]
pub struct Ticket {
    /// Its name.
    pub id: RequestId,
    /// When it came.
    pub begun: Instant,
    /// How it came: `connect`, `absolute`, `rewrite`, …
    pub mode: &'static str,
    /// Where from.
    pub client: Option<IpAddr>,
    /// Whose it is.
    pub holder: Option<Arc<Holder>>,
    /// Where to.
    pub authority: Option<Authority>,
    /// The service that claims it.
    pub service: Option<Arc<Service>>,
    /// As sent.
    pub method: Option<Method>,
    /// As sent.
    pub uri: Uri,
    /// Whether its decision is written down: what comes afterwards belongs to its outcome.
    pub decided: bool,
}

impl Ticket {
    /// Of a request of which nothing is known but where it came from.
    pub fn new(mode: &'static str, client: Option<IpAddr>) -> Ticket {
        Ticket {
            id: RequestId::new(),
            begun: Instant::now(),
            mode,
            client,
            holder: None,
            authority: None,
            service: None,
            method: None,
            uri: Uri::default(),
            decided: false,
        }
    }

    fn entry<'a>(&'a self, authority: Option<&'a str>) -> DecisionEntry<'a> {
        let mut entry = DecisionEntry {
            request_id: self.id.as_str(),
            client: self.client,
            mode: self.mode,
            service: self.service.as_ref().map(|service| service.name()),
            method: self.method.as_ref().map(|method| method.as_str().into()),
            authority: authority.map(Raw::from),
            path: self.method.as_ref().map(|_| self.uri.path().into()),
            query: self.uri.query().map(Raw::from),
            took: Some(self.begun.elapsed()),
            ..DecisionEntry::default()
        };
        if let Some(holder) = &self.holder {
            entry.revocation_ids = holder.revocation_ids();
            match holder.identity() {
                Identity::Bearer { bearer, issued_by, .. } => {
                    entry.bearer = Some(bearer.as_ref().into());
                    entry.issued_by = issued_by.as_ref();
                }
                Identity::Issuer(issuer) => entry.issued_by = Some(issuer),
            }
        }
        entry
    }

    /// Writes down that it is refused. Best effort: it is refused whether that can be written or not.
    pub async fn refused(&self, audit: &Audit, meters: &Meters, refusal: &Refusal) {
        if self.decided {
            return;
        }
        meters.refused(self.service.as_deref(), refusal.reason);
        let authority = self.authority.as_ref().map(Authority::to_string);
        let mut entry = self.entry(authority.as_deref());
        entry.reason = Some(refusal.reason);
        entry.cause = refusal.cause.as_deref().map(Raw::from);
        if let Some(denial) = &refusal.denial {
            entry.items = &denial.items;
            entry.failed = &denial.failed;
            entry.closest = denial.closest.as_deref().map(Raw::from);
            entry.candidate = denial.candidate.as_ref();
            entry.fuel = Some(denial.fuel);
            meters.fuel(denial.fuel);
        }
        if let Err(error) = audit.decision(&entry).await {
            tracing::error!(%error, reason = %refusal.reason, "a refusal could not be recorded");
        }
    }

    /// Writes down that it is allowed. INVARIANT 12: no secret is asked for before this returns `Ok`.
    pub async fn allowed(
        &mut self,
        audit: &Audit,
        meters: &Meters,
        permit: &Permit,
        facts: Option<&RequestFacts>,
        on_failure: OnFailure,
    ) -> Result<(), Refusal> {
        meters.allowed(self.service.as_deref(), permit.fuel());
        let authority = permit.authority().to_string();
        let mut entry = self.entry(Some(&authority));
        entry.items = permit.items();
        entry.candidate = Some(permit.candidate());
        entry.credential = match permit.credential() {
            CredentialChoice::Named(name) => Some(name),
            CredentialChoice::Anonymous => None,
        };
        entry.fuel = Some(permit.fuel());
        let facts: Option<Vec<Fact>> = facts.map(all_facts);
        entry.facts = facts.as_deref();
        let written = audit.decision(&entry).await;
        self.decided = written.is_ok();
        match (written, on_failure) {
            (Ok(()), _) => Ok(()),
            (Err(error), OnFailure::Refuse) => Err(Refusal::new(Reason::AuditUnavailable).because(error)),
            (Err(error), OnFailure::Continue) => {
                tracing::error!(%error, "a decision could not be recorded; the configuration says to go on");
                meters.unrecorded();
                Ok(())
            }
        }
    }
}

fn all_facts(facts: &RequestFacts) -> Vec<Fact> {
    let items = facts.items.iter().flat_map(|item| &item.facts);
    facts.shared.iter().chain(items).cloned().collect()
}

/// What comes of an allowed request; written down when the last byte has gone, or never will.
#[derive(Debug)]
pub struct Outcome {
    id: RequestId,
    begun: Instant,
    audit: Audit,
    meters: Arc<Meters>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    status: Option<u16>,
    first_byte: Option<Duration>,
    reason: Option<Reason>,
    cause: Option<String>,
    spent: Option<(CredentialName, u64)>,
}

impl Outcome {
    /// Of this request.
    pub fn of(ticket: &Ticket, audit: &Audit, meters: &Arc<Meters>) -> Arc<Outcome> {
        Arc::new(Outcome {
            id: ticket.id,
            begun: ticket.begun,
            audit: audit.clone(),
            meters: meters.clone(),
            known: Mutex::default(),
        })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The credential that it spends.
    pub fn spends(&self, spent: Option<&Spent>) {
        self.known().spent = spent.map(|spent| (spent.name.clone(), spent.generation));
    }

    /// The upstream has answered.
    pub fn answered(&self, status: http::StatusCode) {
        let mut known = self.known();
        known.status = Some(status.as_u16());
        known.first_byte = Some(self.begun.elapsed());
    }

    /// It came to nothing.
    pub fn failed(&self, refusal: &Refusal) {
        let mut known = self.known();
        known.reason = Some(refusal.reason);
        known.cause.clone_from(&refusal.cause);
    }

    /// The end, as the relay tells it.
    pub fn end(&self, report: Report) {
        let took = self.begun.elapsed();
        let known = self.known();
        let reason = known.reason.or(report.cut.map(cut_reason));
        self.audit.outcome(&OutcomeEntry {
            request_id: self.id.as_str(),
            status: known.status,
            reason,
            cause: known.cause.as_deref().map(Raw::from),
            credential: known.spent.as_ref().map(|(name, _)| name),
            generation: known.spent.as_ref().map(|(_, generation)| *generation),
            bytes_up: report.up,
            bytes_down: report.down,
            first_byte: known.first_byte,
            took: Some(took),
        });
        self.meters.ended(took, reason);
    }
}

fn cut_reason(cut: Cut) -> Reason {
    match cut {
        Cut::Revoked => Reason::TokenRevoked,
        Cut::Expired => Reason::TokenExpired,
        Cut::Denied => Reason::PolicyDenied,
        Cut::Idle => Reason::UpstreamTimeout,
        Cut::ShuttingDown => Reason::ShuttingDown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_are_short_distinct_and_sort_by_time() {
        let ids: Vec<_> = (0..1000).map(|_| RequestId::new().to_string()).collect();
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 24 && id.bytes().all(|b| b.is_ascii_hexdigit())));
        assert!(ids.first().map(|id| &id[..9]) <= ids.last().map(|id| &id[..9]));
    }
}
