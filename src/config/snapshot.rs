//! Everything below `config/`, read together.

use std::sync::Arc;

use super::{Config, Home};
use crate::credential::Declared;
use crate::policy::{Grant, Rulebook, Spec};
use crate::service::Catalog;
use crate::words::FileErrors;

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
    pub grants: Arc<[Arc<Grant>]>,
    /// Specs, by name.
    pub specs: Arc<[Arc<Spec>]>,
    /// `credentials/*.toml`.
    pub declared: Arc<[Declared]>,
    /// What loads and is probably not meant; each line names its file.
    pub warnings: Arc<[String]>,
    /// 1 for the first that a process loads; part of every cache key.
    pub generation: u64,
}

/// Reads the configuration. Either all of it is good, or all that is wrong in all files is told.
pub fn load(home: &Home) -> Result<Snapshot, FileErrors> {
    let _ = home;
    todo!()
}
