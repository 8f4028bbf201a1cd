//! What a decision is.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::facts::Fact;
use crate::token::RevocationId;
use crate::words::{Authority, CredentialName, GrantName, Reason, ServiceName, SpecName, Timestamp};

/// The outcome of [`super::decide`].
///
/// Re-entrant by design: a later `Suspend` (a lookup, an approval, a budget) becomes a new variant.
#[derive(Debug)]
#[non_exhaustive]
pub enum Decision {
    /// The request may be made.
    Permit(Permit),
    /// It may not.
    Denial(Denial),
}

/// The right to make one request, once.
///
/// INVARIANT 1: only `policy::decide` makes one (the fields are private to this room), it can't be
/// cloned, and `credential::bind` consumes it.
#[derive(Debug)]
pub struct Permit {
    pub(super) authority: Authority,
    pub(super) service: Option<ServiceName>,
    pub(super) candidate: Candidate,
    pub(super) items: Vec<DecidedItem>,
    pub(super) credential: CredentialChoice,
    pub(super) narrowing: Narrowing,
    pub(super) watch: Watch,
    pub(super) fuel: u64,
}

impl Permit {
    /// Where the request may go, and nowhere else.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The service; `None` for passthrough.
    pub fn service(&self) -> Option<&ServiceName> {
        self.service.as_ref()
    }

    /// What allowed it.
    pub fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// What it means, for the audit.
    pub fn items(&self) -> &[DecidedItem] {
        &self.items
    }

    /// The credential to spend.
    pub fn credential(&self) -> &CredentialChoice {
        &self.credential
    }

    /// What the provider is asked to narrow the credential to.
    pub fn narrowing(&self) -> &Narrowing {
        &self.narrowing
    }

    /// What the relay must watch while it goes on.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Work done, in candidate rows.
    pub fn fuel(&self) -> u64 {
        self.fuel
    }
}

/// One grant, or one allow line of a spec, that may decide a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Candidate {
    /// A grant by name, with the hash of its file's text.
    Grant {
        /// Its name.
        name: GrantName,
        /// SHA-256 of the file, the first 16 hex digits.
        version: Arc<str>,
    },
    /// A line of a spec.
    SpecLine {
        /// The spec.
        spec: SpecName,
        /// 1-based.
        line: u32,
        /// SHA-256 of the file, the first 16 hex digits.
        version: Arc<str>,
    },
    /// The configuration's `passthrough`.
    Passthrough,
}

/// Which credential a permit spends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialChoice {
    /// This one.
    Named(CredentialName),
    /// None: the candidate is anonymous, or the host is passed through.
    Anonymous,
}

/// What the provider is asked for: the grant's `narrow` with this request's values filled in.
/// Part of every cache key (R161).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Narrowing {
    /// Repository names (without the owner), sorted. `None`: not narrowed; never an empty list.
    pub repositories: Option<Vec<Arc<str>>>,
    /// Permission → access. Empty: not narrowed.
    pub permissions: BTreeMap<Arc<str>, Arc<str>>,
    /// The owner of what the request is about, where its facts name exactly one.
    pub owner: Option<Arc<str>>,
}

/// What must stay true while a request is relayed.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// Any of these revoked cuts the stream.
    pub revocation_ids: Arc<[RevocationId]>,
    /// From this second on the stream is cut.
    pub expires: Option<Timestamp>,
    /// The token's checks look at the time in another form: decide again every 10 s.
    pub decide_again: bool,
}

/// An item as it was decided, for the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedItem {
    /// Its operation, if it has one.
    pub operation: Option<Arc<str>>,
    /// The facts of the predicates that the service's `resources` and selectors name:
    /// `repository("o", "r")`, `ref_update("refs/heads/x")`.
    pub resources: Vec<Fact>,
}

/// Why a request may not be made.
#[derive(Debug, Clone)]
pub struct Denial {
    /// The code.
    pub reason: Reason,
    /// One line for the client: what was refused and, where it helps, what would be allowed.
    pub message: String,
    /// Checks that failed, of the candidate that came furthest.
    pub failed: Vec<FailedCheck>,
    /// The rule or policy that came closest, and the first atom of it that nothing matched.
    pub closest: Option<String>,
    /// The candidate that came furthest.
    pub candidate: Option<Candidate>,
    /// The items, and which of them failed.
    pub items: Vec<DecidedItem>,
    /// Index into `items` of the first that was not allowed.
    pub failed_item: Option<usize>,
    /// Work done, in candidate rows.
    pub fuel: u64,
}

impl Denial {
    /// A denial that nothing more is known of.
    pub(super) fn because(reason: Reason, message: impl Into<String>) -> Denial {
        Denial {
            reason,
            message: message.into(),
            failed: Vec::new(),
            closest: None,
            candidate: None,
            items: Vec::new(),
            failed_item: None,
            fuel: 0,
        }
    }
}

/// A check that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCheck {
    /// Where it stands.
    pub origin: Origin,
    /// Its text, as datalog.
    pub text: String,
}

/// Where a rule or check comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// The manifest, the grant, or the proxy itself.
    Authorizer,
    /// A block of the token; 0 is the authority block.
    Block(u32),
}

#[cfg(test)]
impl Permit {
    /// For tests of what comes after a decision.
    pub(crate) fn in_test(
        authority: Authority,
        service: Option<ServiceName>,
        credential: CredentialChoice,
        narrowing: Narrowing,
    ) -> Permit {
        let (candidate, watch) = (Candidate::Passthrough, Watch::default());
        Permit { authority, service, candidate, items: Vec::new(), credential, narrowing, watch, fuel: 0 }
    }
}
