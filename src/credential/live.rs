//! What a credential is, and what comes out of the vault when one is spent.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::seal::Label;
use crate::store::CredentialRecord;
use crate::words::{CredentialName, HostPattern, Reason, Secret, ServiceName, Timestamp};

/// The kind of a credential, which picks the injections that fit (`when` in a manifest).
pub type Kind = Arc<str>;

impl<'a> From<&'a CredentialRecord> for Label<'a> {
    fn from(record: &'a CredentialRecord) -> Label<'a> {
        Label {
            name: &record.name,
            service: &record.service,
            provider: &record.provider,
            kind: &record.kind,
            hosts: &record.hosts,
            settings: &record.settings,
        }
    }
}

/// A credential from `config/credentials/*.toml`.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    /// `service/account`.
    pub name: CredentialName,
    /// The service it serves.
    pub service: ServiceName,
    /// `static` when the file says nothing.
    pub provider: String,
    /// `api_key` when the file says nothing.
    pub kind: Kind,
    /// Narrows the manifest's hosts; `None` leaves them as they are.
    pub hosts: Option<Vec<HostPattern>>,
    /// The file's `[config]` table, as JSON.
    pub settings: serde_json::Value,
    /// Where the material is.
    pub source: Source,
}

/// Where the material of a declared credential is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `secret_file`: looked at whenever the credential is spent, read again when it has changed.
    File(PathBuf),
    /// `secret_env`: read when the declaration is loaded.
    Env(String),
    /// Neither: an `exec` that needs no material.
    None,
}

/// A secret that can be spent now.
#[derive(Debug, Clone)]
pub struct Live {
    /// What is injected.
    pub secret: Secret,
    /// Picks the injections.
    pub kind: Kind,
    /// Of the material it was made from.
    pub generation: u64,
    /// Where it may go; `None` for a declared one that leaves it to the manifest.
    pub hosts: Option<Arc<[HostPattern]>>,
    /// When it was minted, for providers that mint; a young one may not be known everywhere yet (R132).
    pub minted: Option<Timestamp>,
    /// Another number is another secret: unique in this process.
    pub serial: u64,
    /// Whether asking again could give another: not for what was installed as it is.
    pub replaceable: bool,
}

/// Why there is no secret. [`CredentialError::reason`] is for the client, the text for the operator: it
/// may quote a provider, and never the secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("credential {name}: {failure}")]
pub struct CredentialError {
    /// Which credential.
    pub name: CredentialName,
    /// What went wrong.
    pub failure: Failure,
    /// When it may be worth asking again.
    pub retry_after: Option<Duration>,
}

impl CredentialError {
    /// The code for the client.
    pub fn reason(&self) -> Reason {
        match self.failure {
            Failure::Missing | Failure::NotHere(_) => Reason::CredentialMissing,
            Failure::Seal(_)
            | Failure::Material(_)
            | Failure::Settings(_)
            | Failure::Provider(_)
            | Failure::Refused(_) => Reason::CredentialUnavailable,
        }
    }
}

/// What went wrong when a credential was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nobody has installed or declared it.
    #[error("not installed: `kleis credential add` or a file in `credentials/` makes it known")]
    Missing,
    /// The provider is fine and has nothing for what this request is about: an App that is not installed
    /// there. Says nothing about the credential's health.
    #[error("{0}")]
    NotHere(String),
    /// It does not open.
    #[error("{0}")]
    Seal(String),
    /// The material can't be read or is no usable secret.
    #[error("{0}")]
    Material(String),
    /// The provider's settings are wrong.
    #[error("{0}")]
    Settings(String),
    /// The provider has trouble; asking later may work.
    #[error("{0}")]
    Provider(String),
    /// The provider said no, and will again until somebody changes something.
    #[error("{0}")]
    Refused(String),
}

/// How a credential is doing, for `kleis status` and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Not used yet since the start.
    Unused,
    /// The last attempt gave a secret.
    Ok,
    /// The last attempt failed.
    Failing {
        /// When it began to.
        since: Timestamp,
        /// The operator's text.
        why: String,
    },
}
