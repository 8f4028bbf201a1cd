//! All services together: who claims a host (invariant 13).

use std::sync::Arc;

use super::Service;
use crate::words::{Authority, FileErrors};

/// The services in force.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    services: Vec<Arc<Service>>,
}

impl Catalog {
    /// Checks that names are unique, that no two services claim the same host and port, and that no
    /// `no_proxy` covers a claimed host.
    pub fn new(services: Vec<Service>) -> Result<Catalog, FileErrors> {
        let _ = services;
        todo!()
    }

    /// The shipped services, each replaced by a given one of the same name, and the given ones. What
    /// `config/services/` is loaded with.
    pub fn with_embedded(services: Vec<Service>) -> Result<Catalog, FileErrors> {
        let _ = services;
        todo!()
    }

    /// The shipped services alone.
    pub fn embedded() -> Result<Catalog, FileErrors> {
        Catalog::with_embedded(Vec::new())
    }

    /// File name and text of the manifests in force unless replaced.
    pub const EMBEDDED: &'static [(&'static str, &'static str)] = &[];

    /// File name and text of manifests to copy and edit; they claim nothing until somebody does.
    pub const EXAMPLES: &'static [(&'static str, &'static str)] = &[];

    /// The service that claims an authority's host and port.
    pub fn claim(&self, authority: &Authority) -> Option<&Arc<Service>> {
        let _ = authority;
        todo!()
    }

    /// The service of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Service>> {
        self.services.iter().find(|service| service.name().as_str() == name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.iter()
    }
}
