//! Rules that can never fire.

use std::collections::BTreeSet;

use super::{OURS, Warnings};
use crate::facts::STANDARD_PREDICATES;
use crate::policy::grant::Grant;
use crate::service::{Catalog, Service};
use crate::words::nearest;

/// Warns of each body with a predicate that nothing gives a fact of.
pub(super) fn never_fires(
    catalog: &Catalog,
    service: &Service,
    grant: &Grant,
    stated: &dyn Fn(&str) -> bool,
    warnings: &mut Warnings,
) {
    let derivable = derivable(service, grant, stated);
    let heads: BTreeSet<&str> = grant.datalog.rules.iter().map(|rule| rule.statement.head.name.as_str()).collect();
    for (body, place) in grant.datalog.bodies() {
        let missing = |name: &str| !derivable.contains(name) && !stated(name);
        let missing: BTreeSet<&str> =
            body.body.iter().map(|atom| atom.name.as_str()).filter(|name| missing(name)).collect();
        for name in missing {
            let hint = if heads.contains(name) {
                "no rule that derives it can fire".to_owned()
            } else if let Some(near) = nearest(name, derivable.iter().copied()) {
                format!("did you mean `{near}`?")
            } else if let Some(other) = catalog.iter().find(|other| other.reserved().contains(name)) {
                format!("only `{}` emits it, and this grant is about `{}`", other.name(), service.name())
            } else {
                "it comes from a token, or never".to_owned()
            };
            warnings.add(Some(place), format!("nothing emits `{name}`: {hint}"));
        }
    }
}

/// Every predicate that can have a fact: what is stated, and what rules derive from it.
fn derivable<'g>(service: &'g Service, grant: &'g Grant, stated: &dyn Fn(&str) -> bool) -> BTreeSet<&'g str> {
    let mut known: BTreeSet<&str> = STANDARD_PREDICATES.iter().chain(&OURS).copied().collect();
    known.extend(service.reserved().iter().map(AsRef::as_ref));
    known.extend(grant.datalog.facts.iter().map(|fact| fact.statement.predicate.name.as_str()));
    loop {
        let before = known.len();
        for rule in grant.datalog.rules.iter().map(|rule| &rule.statement) {
            if rule.body.iter().all(|atom| known.contains(atom.name.as_str()) || stated(&atom.name)) {
                known.insert(&rule.head.name);
            }
        }
        if known.len() == before {
            return known;
        }
    }
}
