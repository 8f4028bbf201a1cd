//! Providers: what turns a credential's material into a secret that an upstream takes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::clock::Clock;
use super::exchange::Exchange;
use super::exec::Exec;
use super::github_app::GithubApp;
use super::live::Failure;
use super::material::{Material, sendable};
use crate::policy::Narrowing;
use crate::words::{Secret, Timestamp};

/// The providers there are.
pub const PROVIDERS: &[&str] = &["static", "exec", "github-app"];

/// One credential's provider, with its settings.
pub(super) enum Provider {
    /// The material itself.
    Static,
    /// What a command prints.
    Exec(Exec),
    /// An installation token of a GitHub App.
    GithubApp(GithubApp),
}

/// What a provider may use.
pub(super) struct Surroundings {
    pub(super) exchange: Arc<dyn Exchange>,
    pub(super) clock: Clock,
}

/// What a provider gave.
pub(super) struct Obtained {
    pub(super) secret: Secret,
    /// From then on it is replaced when somebody asks.
    pub(super) refresh_at: Timestamp,
    /// From then on it is of no use.
    pub(super) expires_at: Timestamp,
    /// When it was minted, if it is new in the world: its upstream may not know it everywhere yet.
    pub(super) minted: Option<Timestamp>,
}

/// Why a provider gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProviderError {
    pub(super) failure: Failure,
    /// How long to leave it alone; `None`: as long as the number of failures in a row suggests.
    pub(super) hold: Option<Duration>,
}

impl From<Failure> for ProviderError {
    fn from(failure: Failure) -> ProviderError {
        ProviderError { failure, hold: None }
    }
}

impl Provider {
    /// Reads a provider's settings. The error says what would be accepted.
    pub(super) fn parse(provider: &str, settings: &Value) -> Result<Provider, String> {
        match provider {
            "static" => match settings.as_object() {
                Some(map) if map.is_empty() => Ok(Provider::Static),
                _ => Err("provider `static` has no settings".to_owned()),
            },
            "exec" => Exec::parse(settings).map(Provider::Exec),
            "github-app" => GithubApp::parse(settings).map(Provider::GithubApp),
            other => {
                let near = crate::words::nearest(other, PROVIDERS.iter().copied());
                let hint = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
                Err(format!("`{other}` is not a provider: use {}{hint}", PROVIDERS.join(", ")))
            }
        }
    }

    /// Whether it can do nothing without material.
    pub(super) fn needs_material(&self) -> bool {
        match self {
            Provider::Static | Provider::GithubApp(_) => true,
            Provider::Exec(_) => false,
        }
    }

    /// Whether the material is one that this provider could use, as far as looking at it tells.
    pub(super) fn check_material(&self, material: &Secret) -> Result<(), Failure> {
        match self {
            Provider::Static => sendable(material).map(drop),
            Provider::Exec(_) => Ok(()),
            Provider::GithubApp(_) => GithubApp::check_material(material),
        }
    }

    /// The part of a narrowing that makes a difference to what it gives: two requests that agree in it
    /// may share a secret, and no others may (R161).
    pub(super) fn scope(&self, narrowing: &Narrowing) -> Narrowing {
        match self {
            Provider::Static | Provider::Exec(_) => Narrowing::default(),
            Provider::GithubApp(app) => app.scope(narrowing),
        }
    }

    /// Asks for a secret.
    pub(super) async fn obtain(
        &self,
        around: &Surroundings,
        material: Option<&Material>,
        scope: &Narrowing,
    ) -> Result<Obtained, ProviderError> {
        let given = match self {
            Provider::Static => Obtained {
                secret: needed(material)?.secret.clone(),
                refresh_at: Timestamp::MAX,
                expires_at: Timestamp::MAX,
                minted: None,
            },
            Provider::Exec(exec) => exec.obtain(around, material.map(|m| &m.secret)).await?,
            Provider::GithubApp(app) => app.obtain(around, &needed(material)?.secret, scope).await?,
        };
        Ok(Obtained { secret: sendable(&given.secret)?, ..given })
    }
}

fn needed(material: Option<&Material>) -> Result<&Material, Failure> {
    material.ok_or_else(|| Failure::Material("there is no secret: name a `secret_file` or a `secret_env`".to_owned()))
}

/// Looks at a credential that somebody is about to install or has declared. `material` is `None` where it
/// can't be known yet.
pub fn check(provider: &str, settings: &Value, material: Option<&Secret>) -> Result<(), String> {
    let provider = Provider::parse(provider, settings)?;
    match material {
        Some(material) => provider.check_material(material).map_err(|failure| failure.to_string()),
        None => Ok(()),
    }
}

/// Reads settings into a type, with an error that names the key.
pub(super) fn settings<T: serde::de::DeserializeOwned>(provider: &str, value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| format!("settings of provider `{provider}`: {error}"))
}
