//! All services together: who claims a host (invariant 13).

use std::collections::HashMap;
use std::sync::Arc;

use super::Service;
use super::setup::check_no_proxy;
use crate::words::{Authority, FileErrors, Host, HostPattern};

/// The services in force.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    services: Vec<Arc<Service>>,
    exact: HashMap<(Host, u16), usize>,
    /// The most specific first.
    wildcards: Vec<(HostPattern, usize)>,
}

impl Catalog {
    /// Checks that names are unique, that no two services claim the same host and port, and that no
    /// `no_proxy` covers a claimed host.
    pub fn new(mut services: Vec<Service>) -> Result<Catalog, FileErrors> {
        services.sort_by(|a, b| a.name().cmp(b.name()));
        let mut errors = FileErrors::default();
        for pair in services.windows(2) {
            if let [first, second] = pair
                && first.name() == second.name()
            {
                let message = format!("the service `{}` is also described in `{}`", second.name, first.file());
                errors.extend(FileErrors::one(second.file(), message));
            }
        }
        let mut catalog = Catalog { services: services.into_iter().map(Arc::new).collect(), ..Catalog::default() };
        catalog.claim_all(&mut errors);
        catalog.check_bypasses(&mut errors);
        errors.into_result()?;
        Ok(catalog)
    }

    /// The shipped services, each replaced by a given one of the same name, and the given ones. What
    /// `config/services/` is loaded with.
    pub fn with_embedded(services: Vec<Service>) -> Result<Catalog, FileErrors> {
        let mut all = Vec::new();
        let mut errors = FileErrors::default();
        for (file, text) in Catalog::EMBEDDED {
            match Service::parse(text, file) {
                Ok(shipped) if services.iter().any(|given| given.name() == shipped.name()) => {}
                Ok(shipped) => all.push(shipped),
                Err(wrong) => errors.extend(wrong),
            }
        }
        errors.into_result()?;
        all.extend(services);
        Catalog::new(all)
    }

    /// The shipped services alone.
    pub fn embedded() -> Result<Catalog, FileErrors> {
        Catalog::with_embedded(Vec::new())
    }

    /// File name and text of the manifests in force unless replaced by one of the same name (with
    /// `hosts = []` it claims nothing).
    pub const EMBEDDED: &'static [(&'static str, &'static str)] =
        &[("manifests/github.toml", include_str!("../../manifests/github.toml"))];

    /// File name and text of manifests to copy to `config/services/` and edit; never in force as they are.
    pub const EXAMPLES: &'static [(&'static str, &'static str)] =
        &[("manifests/generic-bearer.toml", include_str!("../../manifests/generic-bearer.toml"))];

    /// The service that claims an authority's host and port: an exact name beats a wildcard, a longer
    /// wildcard a shorter one.
    pub fn claim(&self, authority: &Authority) -> Option<&Arc<Service>> {
        // a `Host` is cheap to clone: an address, or a shared name
        let exact = self.exact.get(&(authority.host().clone(), authority.port())).copied();
        let wild = || self.wildcards.iter().find(|(pattern, _)| pattern.matches(authority)).map(|(_, index)| *index);
        self.services.get(exact.or_else(wild)?)
    }

    /// The service of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Service>> {
        let place = self.services.binary_search_by(|service| service.name().as_str().cmp(name)).ok()?;
        self.services.get(place)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.iter()
    }

    fn claim_all(&mut self, errors: &mut FileErrors) {
        let mut claimed: HashMap<&HostPattern, usize> = HashMap::new();
        for (index, service) in self.services.iter().enumerate() {
            for host in service.hosts() {
                if let Some(other) = claimed.insert(host, index).and_then(|other| self.services.get(other)) {
                    errors.extend(FileErrors::one(service.file(), tie(service, other, host)));
                }
                match host.exact_host() {
                    Some(exact) => drop(self.exact.insert((exact.clone(), host.port()), index)),
                    None => self.wildcards.push((host.clone(), index)),
                }
            }
        }
        self.wildcards.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.specificity()));
    }

    /// A service's own hosts were looked at when it was read.
    fn check_bypasses(&self, errors: &mut FileErrors) {
        let claims: Vec<HostPattern> = self.services.iter().flat_map(|service| service.hosts()).cloned().collect();
        for service in &self.services {
            for entry in &service.setup().no_proxy {
                if let Err(why) = check_no_proxy(entry, &claims) {
                    errors.extend(FileErrors::one(service.file(), format!("`setup.no_proxy`: {why}")));
                }
            }
        }
    }
}

fn tie(service: &Service, other: &Service, host: &HostPattern) -> String {
    let shipped = Catalog::EMBEDDED.iter().any(|(file, _)| *file == other.file() || *file == service.file());
    let mend = if shipped { "; a file with the name of a shipped service replaces it" } else { "" };
    format!(
        "`{host}` is claimed by `{}` and by `{}` (`{}`): one service for each host and port{mend}",
        service.name,
        other.name,
        other.file()
    )
}
