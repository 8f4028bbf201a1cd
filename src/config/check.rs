//! What holds between files, and what is probably not meant.

use std::path::Path;

use super::files::{Files, TextFile};
use super::{Config, Home, declared};
use crate::credential::{Declared, Source, normalise_permissions};
use crate::policy::{Grant, Rulebook, Spec};
use crate::service::{Catalog, Service};
use crate::words::{FileErrors, SpecName, nearest};

/// What has come to light while reading.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) errors: FileErrors,
    pub(super) warnings: Vec<String>,
}

/// Whether this process is the one that spends the secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    /// It is: what is missing is an error.
    Here,
    /// Another one is, in another environment and perhaps as another user.
    Elsewhere,
}

/// Reads a spec: its name is the file's stem.
pub(super) fn spec(file: &TextFile) -> Result<Spec, FileErrors> {
    let stem = file.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let name = SpecName::parse(&stem).map_err(|error| FileErrors::one(&file.name, format!("file name: {error}")))?;
    Spec::parse(name, &file.text, &file.name)
}

/// An issuer may not be given a predicate that something else gives meaning to.
pub(super) fn reserved_facts(home: &Home, config: &Config, rulebook: &Rulebook) -> Result<(), FileErrors> {
    let mut errors = FileErrors::default();
    for issuer in &config.issuers {
        for name in issuer.facts.iter().filter_map(|pattern| pattern.exact()).filter(|name| rulebook.is_reserved(name))
        {
            let message = format!(
                "issuer `{}` may not state `{name}`: the proxy, a manifest or a grant gives it its meaning",
                issuer.name
            );
            errors.extend(FileErrors::one(&home.config_file().display().to_string(), message));
        }
    }
    errors.into_result()
}

impl Reading {
    fn complain(&mut self, file: &str, message: impl Into<String>) {
        self.errors.extend(FileErrors::one(file, message));
    }

    /// Keeps the value, or the errors.
    fn keep<T>(&mut self, result: Result<T, FileErrors>) -> Option<T> {
        result.map_err(|errors| self.errors.extend(errors)).ok()
    }

    /// Reads each file; those that are wrong are told together.
    pub(super) fn each<T>(&mut self, files: &[TextFile], parse: impl Fn(&TextFile) -> Result<T, FileErrors>) -> Vec<T> {
        files.iter().filter_map(|file| self.keep(parse(file))).collect()
    }

    pub(super) fn config(&mut self, home: &Home, files: &Files) -> Config {
        let Some(file) = &files.config else {
            self.warnings.push(format!("there is no {}: everything is at its default", home.config_file().display()));
            return Config::default();
        };
        let config = self.keep(Config::parse(&file.text, &file.name, home.config_dir())).unwrap_or_default();
        if let Some(path) = &config.upstream.ca_file
            && let Err(error) = std::fs::File::open(path)
        {
            self.complain(&file.name, format!("`upstream.ca_file`: cannot read `{}`: {error}", path.display()));
        }
        config
    }

    /// The shipped services and the operator's own. `None` if any of them is wrong.
    pub(super) fn catalog(&mut self, config: &Config, files: &Files) -> Option<Catalog> {
        let services = self.each(&files.services, |file| Service::parse(&file.text, &file.name));
        for service in services.iter().filter(|service| service.uses_exec() && !config.allow_exec) {
            let message = "an `exec:` decoder runs a command: it needs `allow_exec = true` in config.toml";
            self.complain(service.file(), message);
        }
        for service in &services {
            let warnings = service.warnings().iter();
            self.warnings.extend(warnings.map(ToString::to_string));
        }
        let complete = services.len() == files.services.len();
        let catalog = self.keep(Catalog::with_embedded(services));
        catalog.filter(|_| complete)
    }

    pub(super) fn declared(&mut self, files: &Files, catalog: Option<&Catalog>, secrets: Secrets) -> Vec<Declared> {
        let mut all: Vec<Declared> = Vec::new();
        for file in &files.credentials {
            let base = file.path.parent().unwrap_or(Path::new("/"));
            let Some(declared) = self.keep(declared::parse(&file.text, &file.name, base)) else { continue };
            if all.iter().any(|other| other.name == declared.name) {
                self.complain(
                    &file.name,
                    format!("credential `{}` is declared in another file already", declared.name),
                );
            }
            if secrets == Secrets::Here {
                self.material(file, &declared.source);
            }
            if let Some(catalog) = catalog
                && catalog.get(declared.service.as_str()).is_none()
            {
                let near = nearest(declared.service.as_str(), catalog.iter().map(|service| service.name().as_str()));
                let hint = near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default();
                self.complain(&file.name, format!("unknown service `{}`{hint}", declared.service));
            }
            all.push(declared);
        }
        all
    }

    /// A secret that isn't there is told when the file is loaded, not when somebody needs it. It is not
    /// read here: it may be rotated at any time, and is read when it is spent.
    fn material(&mut self, file: &TextFile, source: &Source) {
        match source {
            Source::File(path) => {
                if let Err(error) = std::fs::File::open(path) {
                    self.complain(&file.name, format!("`secret_file`: cannot read `{}`: {error}", path.display()));
                }
            }
            Source::Env(name) if std::env::var_os(name).is_none_or(|value| value.is_empty()) => {
                self.complain(&file.name, format!("`secret_env`: the environment has no `{name}`"));
            }
            Source::Env(_) | Source::None => {}
        }
    }

    /// Names that one file gives and another uses.
    pub(super) fn cross_check(&mut self, home: &Home, config: &Config, grants: &[Grant], specs: &[Spec]) {
        for (index, grant) in grants.iter().enumerate() {
            if let Some(other) = grants.iter().take(index).find(|other| other.name == grant.name) {
                self.complain(&grant.file, format!("grant `{}` is in `{}` already", grant.name, other.file));
            }
            // Only one provider has permissions, so far; a slip in one would be told by its API at every
            // request (R134).
            if let Some(Err(why)) = grant.narrow.as_ref().map(|narrow| normalise_permissions(&narrow.permissions)) {
                self.complain(&grant.file, format!("`narrow.permissions`: {why}"));
            }
        }
        let file = home.config_file().display().to_string();
        let known = |name: &str| specs.iter().any(|spec| spec.name.as_str() == name);
        if let Some(name) = &config.default_spec
            && !known(name.as_str())
        {
            let near = nearest(name.as_str(), specs.iter().map(|spec| spec.name.as_str()));
            let hint = near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default();
            self.complain(&file, format!("`default_spec`: there is no spec `{name}`{hint}"));
        }
        for issuer in &config.issuers {
            if let Some(path) = &issuer.token_file
                && path.starts_with(home.data_dir())
            {
                let message =
                    format!("issuer `{}`: `token_file` is inside `data/`, which nobody else may enter", issuer.name);
                self.complain(&file, message);
            }
            let specs = issuer.specs.iter().filter_map(|pattern| pattern.exact()).filter(|name| !known(name));
            let missing = specs.map(|name| format!("spec `{name}`"));
            let known = |name: &str| grants.iter().any(|grant| grant.name.as_str() == name);
            let missing_grants = issuer.grants.iter().filter_map(|pattern| pattern.exact()).filter(|name| !known(name));
            for name in missing.chain(missing_grants.map(|name| format!("grant `{name}`"))) {
                self.warnings.push(format!("{file}: issuer `{}` may use {name}, which does not exist", issuer.name));
            }
        }
    }

    /// Goes on only with what is whole: an unreadable manifest would make every rule about it look wrong.
    pub(super) fn whole(
        mut self,
        catalog: Option<Catalog>,
        grants: &[Grant],
        specs: &[Spec],
    ) -> Result<(Catalog, Vec<String>), FileErrors> {
        let Some(catalog) = catalog.filter(|_| self.errors.0.is_empty()) else {
            return Err(self.errors);
        };
        if grants.is_empty() && specs.is_empty() {
            self.warnings.push("there is no grant and no spec: every request is refused".to_owned());
        }
        for grant in grants.iter().filter(|grant| grant.datalog.policies.is_empty()) {
            self.warnings.push(format!("{}: no policy: this grant allows nothing", grant.file));
        }
        for spec in specs.iter().filter(|spec| spec.entries.is_empty()) {
            self.warnings.push(format!("{}: no `grant` and no `allow`: this spec allows nothing", spec.file));
        }
        Ok((catalog, self.warnings))
    }
}
