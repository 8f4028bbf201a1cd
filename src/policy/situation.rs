//! What a decision depends on besides the program and the request's facts.

use std::collections::HashMap;
use std::sync::Arc;

use crate::words::{CredentialName, ServiceName, Timestamp};

/// The time, the credentials that exist, and the account that the client asked for.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// Now. `time(…)` is made from it, whatever the facts say.
    pub now: Timestamp,
    /// The credentials that exist, by the service that they are for: an allow line without an account
    /// gives the service's only one, and refuses once there are two.
    pub accounts: &'a Accounts,
    /// The account in the placeholder that the client sent where a credential would be (`work` for
    /// `kleis-work`): only a candidate that spends that account decides.
    pub account: Option<&'a str>,
}

impl<'a> Situation<'a> {
    /// At this time, with these credentials, no account asked for.
    pub fn at(now: Timestamp, accounts: &'a Accounts) -> Situation<'a> {
        Situation { now, accounts, account: None }
    }
}

/// The names of all credentials, by service. Made anew when one is added or removed.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    by_service: HashMap<ServiceName, Arc<[CredentialName]>>,
}

impl Accounts {
    /// From pairs of service and credential, in any order.
    pub fn new(pairs: impl IntoIterator<Item = (ServiceName, CredentialName)>) -> Accounts {
        let mut lists: HashMap<ServiceName, Vec<CredentialName>> = HashMap::new();
        for (service, credential) in pairs {
            lists.entry(service).or_default().push(credential);
        }
        let by_service = lists
            .into_iter()
            .map(|(service, mut names)| {
                names.sort();
                names.dedup();
                (service, names.into())
            })
            .collect();
        Accounts { by_service }
    }

    /// The credentials of a service, sorted.
    pub fn of(&self, service: &ServiceName) -> &[CredentialName] {
        self.by_service.get(service).map_or(&[], |names| names)
    }
}
