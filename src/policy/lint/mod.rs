//! What is legal in a grant and probably not meant: `kleis grant check` prints it.
//!
//! Pure: services and grant in, warnings out. Nothing here decides anything.

mod operations;
mod reach;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::grant::{Fallback, Grant};
use crate::facts::STANDARD_PREDICATES;
use crate::service::{Catalog, Place, Placed, Service};
use crate::token::ast;
use crate::words::nearest;

/// One thing to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The file.
    pub file: Arc<str>,
    /// Where, if it is about one statement.
    pub place: Option<Place>,
    /// Lower case, no full stop.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Place { line, column }) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Predicates that the proxy and the token room state, besides [`STANDARD_PREDICATES`].
const OURS: [&str; 7] = ["operation", "grant", "spec", "bearer", "issuer", "issued_by", "use_credential"];

/// Looks a grant over. `stated` says which predicates tokens may bring (the issuers' `facts`).
pub fn lint(catalog: &Catalog, grant: &Grant, stated: &dyn Fn(&str) -> bool) -> Vec<Warning> {
    let mut warnings = Warnings { file: grant.file.clone(), list: Vec::new() };
    let Some(service) = catalog.get(grant.service.as_str()) else {
        let near = nearest(grant.service.as_str(), catalog.iter().map(|service| service.name().as_str()));
        let hint = near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default();
        warnings.add(None, format!("unknown service `{}`{hint}", grant.service));
        return warnings.list;
    };
    shape(grant, &mut warnings);
    grant.datalog.checks.iter().for_each(|check| reject_or(check, &mut warnings));
    grant.datalog.checks.iter().for_each(|check| check_all(service, check, &mut warnings));
    reach::never_fires(catalog, service, grant, stated, &mut warnings);
    operations::unknown(service, grant, &mut warnings);
    operations::companions(service, grant, &mut warnings);
    warnings.list.sort_by_key(|warning| warning.place);
    warnings.list
}

struct Warnings {
    file: Arc<str>,
    list: Vec<Warning>,
}

impl Warnings {
    fn add(&mut self, place: Option<Place>, message: impl Into<String>) {
        self.list.push(Warning { file: self.file.clone(), place, message: message.into() });
    }
}

/// A grant that can do nothing.
fn shape(grant: &Grant, warnings: &mut Warnings) {
    let allows = |policy: &Placed<ast::Policy>| policy.statement.kind == ast::PolicyKind::Allow;
    if !grant.datalog.policies.iter().any(allows) {
        warnings.add(
            None,
            format!("no `allow if`: this grant allows nothing (end it in `allow if grant(\"{}\");`)", grant.name),
        );
    }
    if grant.fallback == Fallback::Nothing && grant.routes.is_empty() && grant.choices.is_empty() {
        warnings.add(None, "no credential: name one in `credential`, or say `anonymous = true`");
    }
}

fn reject_or(check: &Placed<ast::Check>, warnings: &mut Warnings) {
    if check.statement.kind == ast::CheckKind::Reject && check.statement.queries.len() > 1 {
        let message = "`reject if … or …`: here any alternative that matches refuses, as the specification says; \
                       biscuit-auth passes when only one does: write a `reject if` for each";
        warnings.add(Some(check.place), message);
    }
}

/// `check all` fails where nothing matches.
fn check_all(service: &Service, check: &Placed<ast::Check>, warnings: &mut Warnings) {
    if check.statement.kind != ast::CheckKind::All {
        return;
    }
    for query in &check.statement.queries {
        let operations: BTreeSet<&ast::Term> = query
            .body
            .iter()
            .filter(|atom| atom.name == "operation")
            .filter_map(|atom| atom.terms.first())
            .filter(|term| matches!(term, ast::Term::Str(_)))
            .collect();
        if operations.len() > 1 {
            let message = "`check all` that can never match: an item has one operation, so this refuses every request";
            warnings.add(Some(check.place), message);
            continue;
        }
        let always = |name: &str| STANDARD_PREDICATES.contains(&name) || OURS.contains(&name);
        let sometimes =
            query.body.iter().find(|atom| !always(&atom.name) && service.reserved().contains(atom.name.as_str()));
        if let Some(atom) = sometimes {
            let message = format!(
                "`check all` fails where nothing matches: it refuses every request without `{}`, reads among them",
                atom.name
            );
            warnings.add(Some(check.place), message);
        }
    }
}
