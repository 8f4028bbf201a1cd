//! Allow lines: the grammar, the words, and what a line says about an item.

mod evaluation;
mod grammar;
mod words;

use super::*;
use crate::service::{Catalog, Service};

/// A service with verbs and selectors of every kind.
const HUB: &str = r#"
name = "hub"
hosts = ["hub.test"]
[[route]]
match = "GET hub.test /{owner}/{repo}/info/refs"
capture = { service = "query:service" }
emit = ['operation("discover")', 'repository($owner, $repo)', 'discover_service($service)']
[[route]]
match = "POST hub.test /{owner}/{repo}/git-receive-pack"
capture = { ref = "query:ref" }
emit = ['operation("push")', 'repository($owner, $repo)', 'ref_update($ref)']
[[route]]
match = "POST hub.test /{owner}/{repo}/git-upload-pack"
emit = ['operation("fetch")', 'repository($owner, $repo)']
[[route]]
match = "DELETE hub.test /{owner}/{repo}"
emit = ['operation("delete_repository")', 'repository($owner, $repo)']
[verbs.read]
about = "clone and fetch"
operations = ["fetch", { operation = "discover", with = 'discover_service("git-upload-pack")' }]
[verbs.push]
about = "push commits"
operations = ["push", { operation = "discover", with = 'discover_service("git-receive-pack")' }]
[verbs.delete]
about = "delete repositories"
operations = ["delete_repository"]
[selectors.repo]
about = "repository, owner/name"
predicate = "repository"
ignore_case = true
[selectors.ref]
about = "git ref being written"
predicate = "ref_update"
operations = ["push"]
"#;

fn catalog() -> Catalog {
    Catalog::new(vec![Service::parse(HUB, "hub.toml").unwrap_or_else(|errors| panic!("{errors}"))]).unwrap()
}

fn resolve(text: &str) -> Result<ResolvedLine, AllowError> {
    AllowLine::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).resolve(&catalog())
}
