//! What is recorded (DESIGN §16). None of these types has room for a secret.

use std::net::IpAddr;
use std::time::Duration;

use crate::facts::Fact;
use crate::policy::{Candidate, DecidedItem, FailedCheck};
use crate::token::RevocationId;
use crate::words::{CredentialName, IssuerName, Reason, ServiceName};

/// Text that came from outside: it is escaped, capped, and kept apart when it is not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Raw<'a>(pub &'a [u8]);

impl<'a> From<&'a str> for Raw<'a> {
    fn from(text: &'a str) -> Raw<'a> {
        Raw(text.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Raw<'a> {
    fn from(bytes: &'a [u8]) -> Raw<'a> {
        Raw(bytes)
    }
}

/// A decision, written before any secret is used.
#[derive(Debug, Clone, Default)]
pub struct DecisionEntry<'a> {
    /// Made by the proxy for this request.
    pub request_id: &'a str,
    /// The token's, the authority block's first; empty when there is no token.
    pub revocation_ids: &'a [RevocationId],
    /// Who asked.
    pub bearer: Option<Raw<'a>>,
    /// Who had the token made.
    pub issued_by: Option<&'a IssuerName>,
    /// Where the client is.
    pub client: Option<IpAddr>,
    /// How the request arrived: `connect`, `absolute`, `rewrite`, …
    pub mode: &'static str,
    /// The service, if any claims the authority.
    pub service: Option<&'a ServiceName>,
    /// As sent.
    pub method: Option<Raw<'a>>,
    /// Where the request goes, as far as it is known.
    pub authority: Option<Raw<'a>>,
    /// As sent, without the query.
    pub path: Option<Raw<'a>>,
    /// The query as sent. Only the names are written: values are masked.
    pub query: Option<Raw<'a>>,
    /// What the request means.
    pub items: &'a [DecidedItem],
    /// `None`: allowed.
    pub reason: Option<Reason>,
    /// What was not told to the client.
    pub cause: Option<Raw<'a>>,
    /// Checks that failed.
    pub failed: &'a [FailedCheck],
    /// The rule that came closest.
    pub closest: Option<Raw<'a>>,
    /// What allowed it, or came furthest.
    pub candidate: Option<&'a Candidate>,
    /// The credential that will be spent.
    pub credential: Option<&'a CredentialName>,
    /// Its generation, where it is known already.
    pub generation: Option<u64>,
    /// Work done by the policy.
    pub fuel: Option<u64>,
    /// How long reading and deciding took.
    pub took: Option<Duration>,
    /// The whole fact set, when `audit.facts = "full"`.
    pub facts: Option<&'a [Fact]>,
}

/// What came of a request that was allowed.
#[derive(Debug, Clone, Default)]
pub struct OutcomeEntry<'a> {
    /// The decision's.
    pub request_id: &'a str,
    /// The upstream's status.
    pub status: Option<u16>,
    /// Why it came to nothing: an upstream that can't be reached, a revocation in mid-stream.
    pub reason: Option<Reason>,
    /// What was not told to the client.
    pub cause: Option<Raw<'a>>,
    /// The credential that was spent.
    pub credential: Option<&'a CredentialName>,
    /// Its generation.
    pub generation: Option<u64>,
    /// Body bytes to the upstream.
    pub bytes_up: u64,
    /// Body bytes from the upstream.
    pub bytes_down: u64,
    /// Until the upstream's head.
    pub first_byte: Option<Duration>,
    /// From beginning to end.
    pub took: Option<Duration>,
}

/// A call of one of our own endpoints.
#[derive(Debug, Clone, Default)]
pub struct EndpointEntry<'a> {
    /// Made by the proxy for this request.
    pub request_id: &'a str,
    /// `derive`, `setup`, `revoke`, …
    pub endpoint: &'a str,
    /// The caller's token.
    pub revocation_ids: &'a [RevocationId],
    /// The caller: `issuer:NAME` or the bearer.
    pub caller: Option<Raw<'a>>,
    /// Where the client is.
    pub client: Option<IpAddr>,
    /// What it was about, in words: never a token, never a secret.
    pub detail: &'a [(&'static str, Raw<'a>)],
    /// The answer's status.
    pub status: u16,
    /// Why it was refused.
    pub reason: Option<Reason>,
}

/// A change by an operator, or by kleis itself.
#[derive(Debug, Clone, Default)]
pub struct OperatorEntry<'a> {
    /// `credential.add`, `token.revoke`, `audit.alarm`, …
    pub operation: &'a str,
    /// Who: `uid:1000`, `kleisd`.
    pub by: &'a str,
    /// What it was about, in words: never a token, never a secret.
    pub detail: &'a [(&'static str, Raw<'a>)],
    /// Why it failed, if it did.
    pub error: Option<Raw<'a>>,
}
