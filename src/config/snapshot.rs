//! Everything below `config/`, read together.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::check::{self, Reading, Secrets};
use super::files::Files;
use super::{Config, Home};
use crate::credential::{Declared, Source};
use crate::policy::{Grant, Rulebook, Spec};
use crate::service::Catalog;
use crate::words::{FileErrors, GrantName, SpecName};

/// One configuration: immutable, shared, swapped as a whole.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// `config.toml`.
    pub config: Arc<Config>,
    /// The services in force.
    pub catalog: Arc<Catalog>,
    /// The compiled policy.
    pub rulebook: Arc<Rulebook>,
    /// Grants, by name.
    pub grants: BTreeMap<String, Arc<Grant>>,
    /// Specs, by name.
    pub specs: BTreeMap<String, Arc<Spec>>,
    /// `credentials/*.toml`.
    pub declared: Arc<[Declared]>,
    /// What loads and is probably not meant.
    pub warnings: Arc<[String]>,
    /// 1 for the first that a process loads; part of every cache key.
    pub generation: u64,
    /// Of everything that was read: the same text is the same configuration.
    pub(super) digest: [u8; 32],
    /// Whether there is a `config.toml`: once there was one, its absence is an error.
    pub(super) has_config_file: bool,
}

impl Snapshot {
    /// Files outside `config/` that it depends on: the secrets' and the CA's.
    pub(super) fn other_files(&self) -> Vec<PathBuf> {
        let secrets = self.declared.iter().filter_map(|declared| match &declared.source {
            Source::File(path) => Some(path.clone()),
            Source::Env(_) | Source::None => None,
        });
        secrets.chain(self.config.upstream.ca_file.clone()).collect()
    }
}

/// Reads the configuration. Either all of it is good, or all that is wrong in all files is told.
///
/// A home without `config.toml` is all defaults, and without grants and specs everything is refused
/// (R155); the warnings say both.
pub fn load(home: &Home) -> Result<Snapshot, FileErrors> {
    load_with(home, Secrets::Here)
}

/// The same for a command beside the daemon: it spends no secret, so `secret_env` and `secret_file` need
/// not be there for it.
pub fn load_beside(home: &Home) -> Result<Snapshot, FileErrors> {
    load_with(home, Secrets::Elsewhere)
}

fn load_with(home: &Home, secrets: Secrets) -> Result<Snapshot, FileErrors> {
    let mut reading = Reading::default();
    let files = Files::read(home, &mut reading.errors, &mut reading.warnings);
    let config = reading.config(home, &files);
    let catalog = reading.catalog(&config, &files);
    let grants = reading.each(&files.grants, |file| Grant::parse(&file.text, &file.name));
    let specs = reading.each(&files.specs, check::spec);
    let declared = reading.declared(&files, catalog.as_ref(), secrets);
    reading.cross_check(home, &config, &grants, &specs);
    let (catalog, warnings) = reading.whole(catalog, &grants, &specs)?;
    let grant_names: Vec<GrantName> = grants.iter().map(|grant| grant.name.clone()).collect();
    let spec_names: Vec<SpecName> = specs.iter().map(|spec| spec.name.clone()).collect();
    let stated = |predicate: &str| config.issuers.iter().any(|issuer| issuer.may_state(predicate));
    let rulebook = Rulebook::compile_knowing(&catalog, grants, specs, config.limits.policy, &stated)?;
    check::reserved_facts(home, &config, &rulebook)?;
    Ok(Snapshot {
        catalog: Arc::new(catalog),
        grants: named(grant_names, |name| rulebook.grant(name)),
        specs: named(spec_names, |name| rulebook.spec(name)),
        rulebook: Arc::new(rulebook),
        declared: declared.into(),
        warnings: warnings.into(),
        generation: 1,
        digest: files.digest(config.upstream.ca_file.as_deref()),
        has_config_file: files.config.is_some(),
        config: Arc::new(config),
    })
}

fn named<'r, N: ToString, T: 'r>(names: Vec<N>, find: impl Fn(&N) -> Option<&'r Arc<T>>) -> BTreeMap<String, Arc<T>> {
    names.iter().filter_map(|name| find(name).map(|found| (name.to_string(), found.clone()))).collect()
}
