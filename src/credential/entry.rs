//! One credential in the vault.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::flight::Flight;
use super::live::{CredentialError, Declared, Failure, Kind, Live, Source, State};
use super::material::{Material, SecretFile, next_serial, sendable};
use super::provider::{Provider, Surroundings};
use super::seal::{Label, Seal, SealKeyId, Sealed};
use super::vault::Known;
use crate::policy::Narrowing;
use crate::store::CredentialRecord;
use crate::words::{CredentialName, HostPattern, Secret, ServiceName, Timestamp};

/// Live secrets kept for one credential: narrowings come from requests, so their number is bounded.
const FLIGHTS: u64 = 4096;

/// What somebody wrote or installed.
#[derive(PartialEq)]
pub(super) enum Definition {
    Installed(CredentialRecord),
    Declared(Declared),
}

impl Definition {
    pub(super) fn name(&self) -> &CredentialName {
        match self {
            Definition::Installed(record) => &record.name,
            Definition::Declared(declared) => &declared.name,
        }
    }

    pub(super) fn service(&self) -> &ServiceName {
        match self {
            Definition::Installed(record) => &record.service,
            Definition::Declared(declared) => &declared.service,
        }
    }
}

/// A credential, ready to be spent or with the reason why it can't.
pub(super) struct Entry {
    definition: Definition,
    kind: Kind,
    hosts: Option<Arc<[HostPattern]>>,
    /// Shared with attempts, which outlive requests and changes of the definition.
    works: Arc<Result<Works, Failure>>,
    flights: moka::sync::Cache<(u64, Narrowing), Arc<Flight>>,
    state: Mutex<State>,
}

struct Works {
    provider: Provider,
    well: Well,
}

/// Where the material is.
enum Well {
    Still(Material),
    File(SecretFile),
    Dry,
}

impl Entry {
    pub(super) fn new(definition: Definition, seal: &Seal, generations: Arc<AtomicU64>) -> Entry {
        let (kind, hosts, works) = match &definition {
            Definition::Installed(record) => {
                let hosts: Arc<[HostPattern]> = record.hosts.clone().into();
                (Kind::from(record.kind.as_str()), Some(hosts), open(record, seal))
            }
            Definition::Declared(declared) => {
                let hosts = declared.hosts.as_ref().map(|hosts| hosts.clone().into());
                (declared.kind.clone(), hosts, draw(declared, generations))
            }
        };
        let state = match &works {
            Ok(_) => State::Unused,
            Err(failure) => State::Failing { since: 0, why: failure.to_string() },
        };
        let flights = moka::sync::Cache::new(FLIGHTS);
        Entry { definition, kind, hosts, works: Arc::new(works), flights, state: Mutex::new(state) }
    }

    pub(super) fn definition(&self) -> &Definition {
        &self.definition
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(super) fn hosts(&self) -> Option<&Arc<[HostPattern]>> {
        self.hosts.as_ref()
    }

    pub(super) fn known(&self) -> Known {
        let (provider, declared) = match &self.definition {
            Definition::Installed(record) => (record.provider.clone(), false),
            Definition::Declared(declared) => (declared.provider.clone(), true),
        };
        Known {
            name: self.definition.name().clone(),
            service: self.definition.service().clone(),
            provider,
            kind: self.kind.clone(),
            hosts: self.hosts.clone(),
            declared,
            state: self.state.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    pub(super) async fn obtain(
        &self,
        around: &Arc<Surroundings>,
        narrowing: &Narrowing,
    ) -> Result<Live, CredentialError> {
        let now = around.clock.now();
        let outcome = self.draw_and_ask(around, narrowing, now).await;
        self.note(&outcome, now);
        outcome
    }

    async fn draw_and_ask(
        &self,
        around: &Arc<Surroundings>,
        narrowing: &Narrowing,
        now: Timestamp,
    ) -> Result<Live, CredentialError> {
        let error = |failure| self.error(failure, None);
        let works = self.works.as_ref().as_ref().map_err(|failure| error(failure.clone()))?;
        let material = works.well.draw().map_err(error)?;
        if let (Provider::Static, Some(material)) = (&works.provider, &material) {
            let secret = sendable(&material.secret).map_err(error)?;
            let replaceable = matches!(works.well, Well::File(_));
            return Ok(self.live(secret, material.generation, None, material.serial, replaceable));
        }
        let generation = material.as_ref().map_or(0, |material| material.generation);
        let scope = works.provider.scope(narrowing);
        let flight = self.flights.get_with((generation, scope.clone()), Arc::default);
        let (works, around) = (self.works.clone(), around.clone());
        let attempt = || async move {
            match works.as_ref() {
                Ok(works) => works.provider.obtain(&around, material.as_ref(), &scope).await,
                Err(failure) => Err(failure.clone().into()),
            }
        };
        match flight.get(now, attempt).await {
            Ok(held) => Ok(self.live(held.secret.clone(), generation, held.minted, held.serial, true)),
            Err(refused) => {
                let wait = Duration::from_secs(refused.until.saturating_sub(now));
                Err(self.error(refused.failure, Some(wait)))
            }
        }
    }

    /// Gives up a secret that an upstream has refused. Whether there may be another.
    pub(super) fn discard(&self, around: &Surroundings, narrowing: &Narrowing, serial: u64) -> bool {
        let Ok(works) = self.works.as_ref() else { return false };
        let Ok(material) = works.well.draw() else { return false };
        if let (Provider::Static, Some(material)) = (&works.provider, &material) {
            return material.serial != serial;
        }
        let generation = material.map_or(0, |material| material.generation);
        let flight = self.flights.get(&(generation, works.provider.scope(narrowing)));
        flight.is_none_or(|flight| flight.discard(serial, around.clock.now()))
    }

    fn live(&self, secret: Secret, generation: u64, minted: Option<Timestamp>, serial: u64, replaceable: bool) -> Live {
        Live { secret, kind: self.kind.clone(), generation, hosts: self.hosts.clone(), minted, serial, replaceable }
    }

    fn error(&self, failure: Failure, retry_after: Option<Duration>) -> CredentialError {
        let retry_after = retry_after.filter(|wait| !wait.is_zero());
        CredentialError { name: self.definition.name().clone(), failure, retry_after }
    }

    /// Keeps the state, and tells the operator's log when it changes.
    fn note(&self, outcome: &Result<Live, CredentialError>, now: Timestamp) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let name = self.definition.name();
        match outcome {
            Ok(_) if *state == State::Ok => {}
            Ok(_) => {
                if matches!(*state, State::Failing { .. }) {
                    tracing::info!(credential = %name, "credential works again");
                }
                *state = State::Ok;
            }
            Err(error) if matches!(error.failure, Failure::NotHere(_)) => {
                tracing::info!(credential = %name, why = %error.failure, "credential has nothing for this request");
            }
            Err(error) => {
                let why = error.failure.to_string();
                let since = match &*state {
                    State::Failing { why: before, .. } if *before == why => return,
                    State::Failing { since, .. } if *since > 0 => *since,
                    _ => now,
                };
                tracing::warn!(credential = %name, %why, "credential cannot be obtained");
                *state = State::Failing { since, why };
            }
        }
    }
}

impl Well {
    fn draw(&self) -> Result<Option<Material>, Failure> {
        match self {
            Well::Still(material) => Ok(Some(material.clone())),
            Well::File(file) => file.read().map(Some),
            Well::Dry => Ok(None),
        }
    }
}

/// An installed credential: its seal is opened here, so that a changed store is told at once.
fn open(record: &CredentialRecord, seal: &Seal) -> Result<Works, Failure> {
    let settings = serde_json::from_str(&record.settings)
        .map_err(|error| Failure::Settings(format!("its settings are no JSON: {error}")))?;
    let provider = Provider::parse(&record.provider, &settings).map_err(Failure::Settings)?;
    let sealed = Sealed { key_id: SealKeyId::new(record.seal_key_id.as_str()), blob: record.sealed.clone() };
    let secret = seal.open(&Label::from(record), &sealed).map_err(|error| Failure::Seal(error.to_string()))?;
    let material = Material { secret, generation: record.generation, serial: next_serial() };
    Ok(Works { provider, well: Well::Still(material) })
}

fn draw(declared: &Declared, generations: Arc<AtomicU64>) -> Result<Works, Failure> {
    let provider = Provider::parse(&declared.provider, &declared.settings).map_err(Failure::Settings)?;
    let well = match &declared.source {
        Source::File(path) => Well::File(SecretFile::new(path.clone(), generations)),
        Source::Env(name) => {
            let value = std::env::var_os(name).filter(|value| !value.is_empty());
            let value = value.ok_or_else(|| Failure::Material(format!("secret_env `{name}` is not set")))?;
            let secret = Secret::new(std::os::unix::ffi::OsStringExt::into_vec(value));
            let generation = generations.fetch_add(1, Ordering::Relaxed) + 1;
            Well::Still(Material { secret, generation, serial: next_serial() })
        }
        Source::None if provider.needs_material() => {
            let why =
                format!("provider `{}` needs a secret: name a `secret_file` or a `secret_env`", declared.provider);
            return Err(Failure::Settings(why));
        }
        Source::None => Well::Dry,
    };
    Ok(Works { provider, well })
}
