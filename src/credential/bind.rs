//! Attaching a secret to the request that was judged (invariants 1, 2 and 5).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::uri::{PathAndQuery, Uri};

use super::inject::{Unsendable, has_place, inject};
use super::live::{CredentialError, Kind, Live};
use super::strip::{Head, Stripped, any_injection};
use super::vault::Vault;
use crate::policy::{CredentialChoice, Permit};
use crate::service::{Injection, Service};
use crate::upstream::{Partition, PoolKey};
use crate::words::{Authority, CredentialName, Reason, Scheme, Timestamp};

/// A token that was minted this recently may not be known to all of an upstream's servers (R132): seconds.
const YOUNG: u64 = 10;
/// How long to wait before a young token is tried again, and how often.
const YOUNG_WAITS: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(1500)];

/// A request that may be sent: judged, stripped, and with its secret in it if it spends one.
///
/// INVARIANT 1: made by [`bind`] from a [`Permit`] and by [`Bound::rebind`] from another of its kind, and by
/// nothing else; the forwarder takes the head out of one and gets it from nowhere else.
pub struct Bound {
    permit: Permit,
    service: Option<Arc<Service>>,
    head: Option<Head>,
    partition: Partition,
    spent: Option<Spent>,
    /// What was judged, for another attempt; kept only where another secret could be had.
    judged: Option<Stripped>,
    attempts: usize,
}

impl fmt::Debug for Bound {
    /// Without the head: a secret may stand in its path or query, where nothing marks it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").field("permit", &self.permit).field("spent", &self.spent).finish_non_exhaustive()
    }
}

/// Which credential a request spends, for the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// Its name.
    pub name: CredentialName,
    /// Its kind.
    pub kind: Kind,
    /// Of its material.
    pub generation: u64,
    minted: Option<Timestamp>,
    serial: u64,
}

/// Why a permitted request can't be sent. [`BindError::reason`] is for the client, the text for the operator.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The credential can't be had.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// Clear text, and the manifest does not say that this may be (R16).
    #[error("credential {name} is not sent to {authority} in clear text: use https")]
    Cleartext {
        /// The credential.
        name: CredentialName,
        /// Where it would have gone.
        authority: Authority,
    },
    /// Sealed for other hosts than the manifest now names (invariant 2).
    #[error("credential {name} was not added for {authority}: add it again if the manifest has a new host")]
    NotSealedFor {
        /// The credential.
        name: CredentialName,
        /// Where it would have gone.
        authority: Authority,
    },
    /// It belongs to another service.
    #[error("credential {name} is not one of the service that claims {authority}")]
    OtherService {
        /// The credential.
        name: CredentialName,
        /// Where it would have gone.
        authority: Authority,
    },
    /// The manifest injects something there, but not for this kind of credential.
    #[error("the manifest has no `inject` at {authority} for a credential of kind `{kind}` such as {name}")]
    NoPlace {
        /// The credential.
        name: CredentialName,
        /// Its kind.
        kind: Kind,
        /// Where it would have gone.
        authority: Authority,
    },
    /// The secret can't stand where the manifest wants it.
    #[error("credential {name}: {why}")]
    Unsendable {
        /// The credential.
        name: CredentialName,
        /// Says nothing of the secret.
        why: String,
    },
    /// The request is not the one that was judged.
    #[error("the request to be sent is not the one that was judged")]
    OtherRequest,
}

impl BindError {
    /// The code for the client.
    pub fn reason(&self) -> Reason {
        match self {
            BindError::Credential(error) => error.reason(),
            BindError::Cleartext { .. } => Reason::CleartextCredential,
            BindError::NotSealedFor { .. } | BindError::OtherService { .. } | BindError::NoPlace { .. } => {
                Reason::CredentialMissing
            }
            BindError::Unsendable { .. } => Reason::CredentialUnavailable,
            BindError::OtherRequest => Reason::PolicyError,
        }
    }

    /// When it may be worth asking again, for `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            BindError::Credential(error) => error.retry_after,
            BindError::Cleartext { .. }
            | BindError::NotSealedFor { .. }
            | BindError::OtherService { .. }
            | BindError::NoPlace { .. }
            | BindError::Unsendable { .. }
            | BindError::OtherRequest => None,
        }
    }
}

/// Consumes the permit and makes the one request that it allows: chooses the secret, checks where it may
/// go, and puts it in. Nothing edits the head afterwards but framing and hop-by-hop fields.
pub async fn bind(
    permit: Permit,
    stripped: Stripped,
    service: Option<&Arc<Service>>,
    vault: &Vault,
) -> Result<Bound, BindError> {
    let same = *permit.authority() == stripped.authority
        && permit.service() == stripped.service.as_ref()
        && permit.service() == service.map(|service| service.name());
    if !same {
        return Err(BindError::OtherRequest);
    }
    let spend = match (permit.credential(), service) {
        (CredentialChoice::Named(name), Some(service)) => plan(name, service, &stripped, vault)?,
        (CredentialChoice::Named(_), None) => return Err(BindError::OtherRequest),
        (CredentialChoice::Anonymous, _) => None,
    };
    let service = service.cloned();
    let Some(plan) = spend else { return Ok(Bound::without_secret(permit, service, stripped)) };
    let live = vault.obtain(&plan.name, permit.narrowing()).await?;
    Bound::with_secret(permit, service, stripped, plan, live, 0)
}

/// What will be injected, established before a secret is asked for.
struct Plan {
    name: CredentialName,
    injections: Vec<Injection>,
}

/// `None`: no secret goes to that place. A host that the service claims and `credential.hosts` does not
/// name (signed storage, downloads) is reached without one.
fn plan(
    name: &CredentialName,
    service: &Arc<Service>,
    stripped: &Stripped,
    vault: &Vault,
) -> Result<Option<Plan>, BindError> {
    let authority = &stripped.authority;
    let owned = || (name.clone(), authority.clone());
    let terms = vault.terms(name)?;
    if terms.service != *service.name() {
        let (name, authority) = owned();
        return Err(BindError::OtherService { name, authority });
    }
    if !service.may_send_secret_to(authority) {
        return Ok(None);
    }
    // INVARIANT 2: in force is the manifest's hosts ∩ the sealed ones.
    if terms.hosts.is_some_and(|hosts| !hosts.iter().any(|host| host.matches(authority))) {
        let (name, authority) = owned();
        return Err(BindError::NotSealedFor { name, authority });
    }
    let injections = service.injections(authority, &terms.kind);
    if injections.is_empty() {
        let (name, authority) = owned();
        return match any_injection(service, &stripped.authority) {
            none if none.is_empty() => Ok(None),
            _ if authority.scheme() == Scheme::Http
                && !service.injections(&authority.with_scheme(Scheme::Https), &terms.kind).is_empty() =>
            {
                Err(BindError::Cleartext { name, authority })
            }
            _ => Err(BindError::NoPlace { name, kind: terms.kind, authority }),
        };
    }
    // Clear text has to be allowed for each of them, whatever chose them.
    if authority.scheme() == Scheme::Http && !injections.iter().all(|injection| injection.allows_cleartext()) {
        let (name, authority) = owned();
        return Err(BindError::Cleartext { name, authority });
    }
    let injections: Vec<_> = injections.into_iter().filter(|one| has_place(one, &stripped.head)).cloned().collect();
    let spends = injections.iter().any(|injection| injection.template().has_secret());
    Ok(spends.then(|| Plan { name: name.clone(), injections }))
}

impl Bound {
    fn without_secret(permit: Permit, service: Option<Arc<Service>>, stripped: Stripped) -> Bound {
        let partition = Partition::anonymous();
        Bound { permit, service, head: Some(stripped.head), partition, spent: None, judged: None, attempts: 0 }
    }

    fn with_secret(
        permit: Permit,
        service: Option<Arc<Service>>,
        stripped: Stripped,
        plan: Plan,
        live: Live,
        attempts: usize,
    ) -> Result<Bound, BindError> {
        let judged = live.replaceable.then(|| stripped.clone());
        let mut head = stripped.head;
        for injection in &plan.injections {
            inject(injection, &live.secret, &mut head)
                .map_err(|Unsendable(why)| BindError::Unsendable { name: plan.name.clone(), why })?;
        }
        let partition = Partition::of(plan.name.clone(), live.serial, permit.narrowing().clone());
        let Live { kind, generation, minted, serial, .. } = live;
        let spent = Some(Spent { name: plan.name, kind, generation, minted, serial });
        Ok(Bound { permit, service, head: Some(head), partition, spent, judged, attempts })
    }

    /// What allowed it, and what to watch while it goes on.
    pub fn permit(&self) -> &Permit {
        &self.permit
    }

    /// Where it goes.
    pub fn authority(&self) -> &Authority {
        self.permit.authority()
    }

    /// The credential that it spends.
    pub fn spent(&self) -> Option<&Spent> {
        self.spent.as_ref()
    }

    /// Takes the request out to be sent: once; `None` afterwards. The URI is path and query.
    pub(crate) fn take_request(&mut self) -> Option<(PoolKey, http::request::Parts)> {
        let head = self.head.take()?;
        let target = match &head.query {
            Some(query) => format!("{}?{query}", head.path),
            None => head.path,
        };
        let (mut parts, ()) = http::Request::new(()).into_parts();
        parts.method = head.method;
        parts.uri = Uri::from(PathAndQuery::try_from(target).ok()?);
        parts.headers = head.headers;
        Some((PoolKey { authority: self.authority().clone(), partition: self.partition.clone() }, parts))
    }

    /// Whether the upstream's answer is worth another attempt with [`Bound::rebind`], and after how long.
    /// Only for a request whose body is in hand.
    pub fn retry_after(&self, status: StatusCode, vault: &Vault) -> Option<Duration> {
        self.judged.as_ref()?;
        let young = self.is_young(vault);
        match status {
            StatusCode::UNAUTHORIZED if young => YOUNG_WAITS.get(self.attempts).copied(),
            StatusCode::UNAUTHORIZED if self.attempts == 0 => Some(Duration::ZERO),
            StatusCode::FORBIDDEN if young && self.attempts == 0 => YOUNG_WAITS.first().copied(),
            _ => None,
        }
    }

    /// The same request once more: with the same secret if that is so new that the upstream may not have
    /// known it yet, otherwise with another; `None` if there is no other. The caller has asked for
    /// revocation again, and waited as [`Bound::retry_after`] said.
    pub async fn rebind(self, vault: &Vault) -> Result<Option<Bound>, BindError> {
        let young = self.is_young(vault);
        let Bound { permit, service, spent, judged, attempts, .. } = self;
        let (Some(spent), Some(judged), Some(service)) = (spent, judged, service) else { return Ok(None) };
        let Some(plan) = plan(&spent.name, &service, &judged, vault)? else { return Ok(None) };
        let live = if young {
            if attempts == 0 {
                tracing::warn!(credential = %spent.name, "the upstream refuses a token that was just minted: trying again");
            }
            Some(vault.obtain(&spent.name, permit.narrowing()).await?)
        } else {
            vault.obtain_other(&spent.name, permit.narrowing(), spent.serial).await?
        };
        let Some(live) = live else { return Ok(None) };
        Bound::with_secret(permit, Some(service), judged, plan, live, attempts + 1).map(Some)
    }

    fn is_young(&self, vault: &Vault) -> bool {
        let minted = self.spent.as_ref().and_then(|spent| spent.minted);
        minted.is_some_and(|minted| vault.clock().now() < minted + YOUNG)
    }
}

#[cfg(test)]
mod tests;
