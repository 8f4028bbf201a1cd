//! All credentials of one kleisd, and the live secrets made from them.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use super::clock::Clock;
use super::entry::{Definition, Entry};
use super::exchange::Exchange;
use super::live::{CredentialError, Declared, Failure, Kind, Live, State};
use super::provider::Surroundings;
use super::seal::Seal;
use crate::policy::Narrowing;
use crate::store::CredentialRecord;
use crate::words::{CredentialName, HostPattern, ServiceName};

/// Installed and declared credentials, and a cache of what their providers gave.
pub struct Vault {
    seal: Seal,
    around: Arc<Surroundings>,
    entries: ArcSwap<HashMap<CredentialName, Arc<Entry>>>,
    definitions: Mutex<Definitions>,
}

#[derive(Default)]
struct Definitions {
    installed: Vec<CredentialRecord>,
    declared: Vec<Declared>,
    /// Where the generations of each declared credential stand: a changed declaration goes on counting.
    generations: HashMap<CredentialName, Arc<AtomicU64>>,
}

/// A credential as anybody may know it.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// `service/account`.
    pub name: CredentialName,
    /// The service it serves.
    pub service: ServiceName,
    /// Its provider.
    pub provider: String,
    /// Its kind.
    pub kind: Kind,
    /// Where it may go; `None` for a declared one that leaves it to the manifest.
    pub hosts: Option<Arc<[HostPattern]>>,
    /// Whether a file of the configuration declares it.
    pub declared: bool,
    /// How it is doing.
    pub state: State,
}

/// Which service a credential serves, how it is injected, and where it may go.
pub(super) struct Terms {
    pub(super) service: ServiceName,
    pub(super) kind: Kind,
    pub(super) hosts: Option<Arc<[HostPattern]>>,
}

impl Vault {
    /// An empty vault.
    pub fn new(seal: Seal, exchange: Arc<dyn Exchange>) -> Vault {
        Vault::with_clock(seal, exchange, Clock::system())
    }

    /// The same with another clock.
    pub fn with_clock(seal: Seal, exchange: Arc<dyn Exchange>, clock: Clock) -> Vault {
        let around = Arc::new(Surroundings { exchange, clock });
        Vault { seal, around, entries: ArcSwap::default(), definitions: Mutex::default() }
    }

    /// Replaces all installed credentials: at start and after each change of the store. What did not
    /// change keeps its live secrets.
    pub fn set_installed(&self, all: Vec<CredentialRecord>) {
        let mut definitions = self.definitions();
        definitions.installed = all;
        self.rebuild(&mut definitions);
    }

    /// Replaces all declared credentials: with each configuration snapshot. A declared one hides an
    /// installed one of the same name.
    pub fn set_declared(&self, all: Vec<Declared>) {
        let mut definitions = self.definitions();
        definitions.declared = all;
        self.rebuild(&mut definitions);
    }

    fn rebuild(&self, definitions: &mut Definitions) {
        let before = self.entries.load();
        let mut after = HashMap::new();
        let Definitions { installed, declared, generations } = definitions;
        let all = installed.iter().cloned().map(Definition::Installed);
        let all = all.chain(declared.iter().cloned().map(Definition::Declared));
        for definition in all {
            let name = definition.name().clone();
            let entry = match before.get(&name) {
                Some(entry) if *entry.definition() == definition => entry.clone(),
                _ => {
                    let generations = generations.entry(name.clone()).or_default().clone();
                    Arc::new(Entry::new(definition, &self.seal, generations))
                }
            };
            after.insert(name, entry);
        }
        self.entries.store(Arc::new(after));
    }

    /// A secret to spend now. One attempt at a time for each credential, generation and narrowing; all
    /// who wait get its result.
    pub async fn obtain(&self, name: &CredentialName, narrowing: &Narrowing) -> Result<Live, CredentialError> {
        let entry = self.entry(name)?;
        entry.obtain(&self.around, narrowing).await
    }

    /// Another secret than the one that an upstream has refused, if there may be one: a provider is asked
    /// again at most once a minute, a file is read again. `None`: there is none.
    pub(super) async fn obtain_other(
        &self,
        name: &CredentialName,
        narrowing: &Narrowing,
        refused: u64,
    ) -> Result<Option<Live>, CredentialError> {
        let entry = self.entry(name)?;
        if !entry.discard(&self.around, narrowing, refused) {
            return Ok(None);
        }
        let live = entry.obtain(&self.around, narrowing).await?;
        Ok(Some(live).filter(|live| live.serial != refused))
    }

    /// One credential, without its secret.
    pub fn get(&self, name: &CredentialName) -> Option<Known> {
        self.entries.load().get(name).map(|entry| entry.known())
    }

    /// Every credential, by name.
    pub fn list(&self) -> Vec<Known> {
        let mut all: Vec<_> = self.entries.load().values().map(|entry| entry.known()).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Every credential with its state, by name.
    pub fn states(&self) -> Vec<(CredentialName, State)> {
        self.list().into_iter().map(|known| (known.name, known.state)).collect()
    }

    /// The accounts of a service, by name: which credentials a spec's line without an account may mean.
    pub fn accounts(&self, service: &ServiceName) -> Vec<CredentialName> {
        self.list().into_iter().filter(|known| known.service == *service).map(|known| known.name).collect()
    }

    /// What is known of a credential before anything is asked of its provider.
    pub(super) fn terms(&self, name: &CredentialName) -> Result<Terms, CredentialError> {
        let entry = self.entry(name)?;
        Ok(Terms {
            service: entry.definition().service().clone(),
            kind: entry.kind().clone(),
            hosts: entry.hosts().cloned(),
        })
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.around.clock
    }

    fn entry(&self, name: &CredentialName) -> Result<Arc<Entry>, CredentialError> {
        let entry = self.entries.load().get(name).cloned();
        entry.ok_or_else(|| CredentialError { name: name.clone(), failure: Failure::Missing, retry_after: None })
    }

    fn definitions(&self) -> MutexGuard<'_, Definitions> {
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("credentials", &self.entries.load().keys()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
