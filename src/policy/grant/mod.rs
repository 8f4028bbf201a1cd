//! Grants: the credential's owner says when it may be spent (DESIGN §8).

mod narrow;
mod read;
mod route;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::service::Datalog;
use crate::words::{CredentialName, FileErrors, GrantName, ServiceName};

pub use narrow::{Narrow, Template, Unresolved};
pub use route::{CredentialRoute, RouteChoice};

/// One grant file. A grant without a policy loads and allows nothing (R155).
#[derive(Debug, Clone)]
pub struct Grant {
    /// Its name: `grant("name")` is stated while it is tried.
    pub name: GrantName,
    /// The service that it is about.
    pub service: ServiceName,
    /// The longest that a token with this grant may live.
    pub max_lifetime: Option<Duration>,
    /// What is spent when neither a route nor a rule chooses.
    pub fallback: Fallback,
    /// What rules may choose with `use_credential`: `credentials`, and `credential` itself.
    pub choices: BTreeSet<CredentialName>,
    /// Credentials by resource; most specific first is [`Grant::route`]'s business.
    pub routes: Vec<CredentialRoute>,
    /// What the provider is asked to narrow the credential to.
    pub narrow: Option<Narrow>,
    /// The rules, checks and policies.
    pub datalog: Datalog,
    /// What an agent is told: a minijinja template over the token's facts.
    pub card: Option<Arc<str>>,
    /// SHA-256 of the file's text, the first 16 hex digits.
    pub version: Arc<str>,
    /// The file, as errors name it.
    pub file: Arc<str>,
}

/// What is spent when nothing else chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fallback {
    /// This credential.
    Credential(CredentialName),
    /// None: the request goes out without one.
    Anonymous,
    /// The file names none: an item that no route and no rule gives a credential is refused.
    Nothing,
}

impl Grant {
    /// Reads a grant file. `file` is only named in errors.
    pub fn parse(text: &str, file: &str) -> Result<Grant, FileErrors> {
        read::grant(text, file)
    }

    /// Every credential that the grant may spend.
    pub fn credentials(&self) -> BTreeSet<&CredentialName> {
        self.choices.iter().chain(self.routes.iter().map(|route| &route.credential)).collect()
    }

    /// Which `[[credential_route]]` an item's resources choose: the most specific one that matches all
    /// of them. `resources` are facts' terms joined with `/` ([`super::allow::joined`]).
    pub fn route(&self, resources: &[String], ignore_case: bool) -> RouteChoice<'_> {
        route::choose(&self.routes, resources, ignore_case)
    }
}

/// SHA-256 of a file's text, the first 16 hex digits.
pub fn version_of(text: &str) -> Arc<str> {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(text.as_bytes());
    hex::encode(digest.get(..8).unwrap_or_default()).into()
}
