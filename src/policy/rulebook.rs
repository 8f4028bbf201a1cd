//! Every loaded grant and spec, checked against the services and made ready to compile programs from.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use super::allow::ResolvedLine;
use super::datalog::{Input, Machine, MachineError, Narrow, Owner, Place, What};
use super::spec::Gives;
use super::{Grant, Limits, Spec};
use crate::facts::STANDARD_PREDICATES;
use crate::service::{Catalog, Datalog, Service};
use crate::words::{FileError, FileErrors, GrantName, SpecName, distance, nearest};

/// Predicates of the token itself: who it stands for and what may decide for it. Nobody but the token
/// room states them, and `grant` only the authorizer, for the grant that is tried.
pub(super) const TOKEN_PREDICATES: [&str; 5] = ["grant", "spec", "bearer", "issuer", "issued_by"];

/// The predicate by which a grant's rules choose a credential.
pub(super) const USE_CREDENTIAL: &str = "use_credential";

/// The frozen words of manifests and grants that were published for kleis (DESIGN §6): known, whether or
/// not a loaded manifest emits them.
const VOCABULARY: [&str; 21] = [
    "operation",
    "discover_service",
    "repository",
    "organization",
    "new_repository",
    "created_repository",
    "pull_request",
    "issue",
    "ref_update",
    "creates_ref",
    "deletes_ref",
    "ref_change",
    "wants_object",
    "pr_head",
    "pr_base",
    "review_event",
    "label_added",
    "label_removed",
    "label_created",
    "graphql_operation",
    "repository_private",
];

/// What the authorizer always adds in front.
pub(super) static FIRST: LazyLock<Datalog> =
    LazyLock::new(|| own("check if body_truncated(false); check if body_undecodable(false);"));

/// What the authorizer always adds at the end: nothing configured means nothing allowed (R155).
pub(super) static LAST: LazyLock<Datalog> = LazyLock::new(|| own("deny if true;"));

#[allow(clippy::expect_used, reason = "the texts are constants, and a test parses them")]
fn own(text: &str) -> Datalog {
    Datalog::parse(text, "kleis").expect("kleis' own datalog parses")
}

/// All policy of one configuration.
#[derive(Debug)]
pub struct Rulebook {
    limits: Limits,
    catalog: Catalog,
    grants: HashMap<GrantName, Arc<Grant>>,
    specs: HashMap<SpecName, Arc<SpecRules>>,
    reserved: BTreeSet<Arc<str>>,
}

/// A spec whose lines have been looked up.
#[derive(Debug)]
pub(super) struct SpecRules {
    pub(super) spec: Arc<Spec>,
    /// In file order.
    pub(super) entries: Vec<(u32, Entry)>,
}

/// What a line of a spec gives, looked up.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    Grant(Arc<Grant>),
    Line(Arc<ResolvedLine>),
}

impl Rulebook {
    /// Checks everything against everything: grants compile, their services and predicates exist, specs
    /// name grants, services, verbs and selectors that exist. All that is wrong comes at once.
    ///
    /// A predicate that nobody is known to state may still be an issuer's fact; one that looks like a
    /// known one misspelt is an error (R157). [`Rulebook::compile_knowing`] also takes what issuers state.
    pub fn compile(
        catalog: &Catalog,
        grants: Vec<Grant>,
        specs: Vec<Spec>,
        limits: Limits,
    ) -> Result<Rulebook, FileErrors> {
        Rulebook::compile_knowing(catalog, grants, specs, limits, &|_| false)
    }

    /// The same, knowing which predicates issuers may state.
    pub fn compile_knowing(
        catalog: &Catalog,
        grants: Vec<Grant>,
        specs: Vec<Spec>,
        limits: Limits,
        stated: &dyn Fn(&str) -> bool,
    ) -> Result<Rulebook, FileErrors> {
        let mut errors = FileErrors::default();
        for service in catalog.iter() {
            check_manifest(service, &mut errors);
        }
        let mut rulebook = Rulebook {
            limits,
            catalog: catalog.clone(),
            grants: HashMap::new(),
            specs: HashMap::new(),
            reserved: reserved(catalog, &grants),
        };
        for grant in grants {
            check_grant(catalog, &grant, &limits, stated, &mut errors);
            let (name, file) = (grant.name.clone(), grant.file.clone());
            if rulebook.grants.insert(name.clone(), Arc::new(grant)).is_some() {
                errors.extend(FileErrors::one(&file, format!("the grant {name} is described in another file too")));
            }
        }
        for spec in specs {
            let rules = rulebook.look_up(spec, &mut errors);
            rulebook.specs.insert(rules.spec.name.clone(), Arc::new(rules));
        }
        errors.into_result()?;
        Ok(rulebook)
    }

    fn look_up(&self, spec: Spec, errors: &mut FileErrors) -> SpecRules {
        let mut entries = Vec::with_capacity(spec.entries.len());
        let mut complain = |line: u32, column: u32, message: String| {
            let (line, column) = (Some(line), Some(column));
            errors.extend(FileErrors(vec![FileError { file: spec.file.to_string(), line, column, message }]));
        };
        for entry in &spec.entries {
            match &entry.gives {
                Gives::Grant(name) => match self.grants.get(name) {
                    Some(grant) => entries.push((entry.line, Entry::Grant(grant.clone()))),
                    None => {
                        let known = nearest(name.as_str(), self.grants.keys().map(GrantName::as_str));
                        let hint = known.map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
                        complain(entry.line, entry.column, format!("there is no grant {name}{hint}"));
                    }
                },
                Gives::Allow(line) => match line.resolve(&self.catalog) {
                    Ok(line) => entries.push((entry.line, Entry::Line(Arc::new(line)))),
                    Err(error) => complain(entry.line, entry.column + error.column.saturating_sub(1), error.message),
                },
            }
        }
        SpecRules { spec: Arc::new(spec), entries }
    }

    /// What a decision may cost.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The services that the rules are about.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// A grant.
    pub fn grant(&self, name: &GrantName) -> Option<&Arc<Grant>> {
        self.grants.get(name)
    }

    /// A spec.
    pub fn spec(&self, name: &SpecName) -> Option<&Arc<Spec>> {
        self.specs.get(name).map(|rules| &rules.spec)
    }

    pub(super) fn spec_rules(&self, name: &SpecName) -> Option<&Arc<SpecRules>> {
        self.specs.get(name)
    }

    /// Whether an issuer may not state this predicate: all that the proxy, the token room, any manifest's
    /// emits and datalog, and any grant's rule heads give meaning to (DESIGN §7).
    pub fn is_reserved(&self, predicate: &str) -> bool {
        self.reserved.contains(predicate)
    }
}

/// Whether only the proxy and the token room state it, whatever is loaded.
pub(super) fn is_own(predicate: &str) -> bool {
    TOKEN_PREDICATES.contains(&predicate) || STANDARD_PREDICATES.contains(&predicate)
}

fn reserved(catalog: &Catalog, grants: &[Grant]) -> BTreeSet<Arc<str>> {
    let mut reserved: BTreeSet<Arc<str>> = TOKEN_PREDICATES.iter().map(|name| Arc::from(*name)).collect();
    reserved.extend(STANDARD_PREDICATES.iter().map(|name| Arc::from(*name)));
    reserved.insert(USE_CREDENTIAL.into());
    for service in catalog.iter() {
        reserved.extend(service.reserved().iter().cloned());
    }
    for grant in grants {
        reserved.extend(stated_by(&grant.datalog).map(Arc::from));
    }
    reserved
}

/// The predicates to which a file's facts and rule heads give meaning.
pub(super) fn stated_by(datalog: &Datalog) -> impl Iterator<Item = &str> {
    let facts = datalog.facts.iter().map(|fact| fact.statement.predicate.name.as_str());
    facts.chain(datalog.rules.iter().map(|rule| rule.statement.head.name.as_str()))
}

/// INVARIANT 7, a second time: the service room refuses such a manifest when it is read.
fn check_manifest(service: &Service, errors: &mut FileErrors) {
    let datalog = service.datalog();
    let mut complain = |message: String| errors.extend(FileErrors::one(service.file(), message));
    if !datalog.checks.is_empty() || !datalog.policies.is_empty() {
        complain("a manifest has no checks and no policies: they belong into a grant".to_owned());
    }
    for name in stated_by(datalog) {
        if is_own(name) || name == USE_CREDENTIAL {
            complain(format!("a manifest may not state `{name}`: only the proxy and the token say that"));
        }
    }
}

fn check_grant(
    catalog: &Catalog,
    grant: &Grant,
    limits: &Limits,
    stated: &dyn Fn(&str) -> bool,
    errors: &mut FileErrors,
) {
    let Some(service) = catalog.get(grant.service.as_str()) else {
        let near = nearest(grant.service.as_str(), catalog.iter().map(|service| service.name().as_str()));
        let hint = near.map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
        let message = format!("the grant is about the service {}, which there is not{hint}", grant.service);
        return errors.extend(FileErrors::one(&grant.file, message));
    };
    let at = |place: crate::service::Place, message: String| {
        let (line, column) = (Some(place.line), Some(place.column));
        FileErrors(vec![FileError { file: grant.file.to_string(), line, column, message }])
    };
    let heads = grant.datalog.rules.iter().map(|rule| (&rule.statement.head.name, rule.place));
    let facts = grant.datalog.facts.iter().map(|fact| (&fact.statement.predicate.name, fact.place));
    for (name, place) in heads.chain(facts).filter(|(name, _)| is_own(name)) {
        errors.extend(at(place, format!("a grant may not state `{name}`: only the proxy and the token say that")));
    }
    let known = Known { service, grant };
    for (rule, place) in grant.datalog.bodies() {
        for name in rule.body.iter().map(|predicate| predicate.name.as_str()) {
            if !stated(name)
                && let Some(near) = known.misspelt(name)
            {
                errors.extend(at(place, format!("nothing states `{name}`: did you mean `{near}`?")));
            }
        }
    }
    let files = [&FIRST, service.datalog(), &grant.datalog, &LAST];
    if let Err(error) = Machine::compile(&input(&files, limits), &mut NoNarrowing) {
        errors.extend(match place_of(&files, &error.place) {
            Some(place) if error.place.owner == Owner::File(2) => at(place, error.to_string()),
            Some(_) | None => FileErrors::one(service.file(), error.to_string()),
        });
    }
}

/// What an [`Input`] without a token looks like.
pub(super) fn input<'a>(files: &'a [&'a Datalog], limits: &Limits) -> Input<'a> {
    Input {
        files,
        blocks: &[],
        facts: &[],
        without: &[],
        roots: &[],
        keep_unread: false,
        max_regex: (limits.max_regex, limits.max_token_regex),
    }
}

/// The predicates that somebody states, as far as files tell.
struct Known<'a> {
    service: &'a Service,
    grant: &'a Grant,
}

impl Known<'_> {
    /// The known predicate that an unknown one was probably meant to be.
    fn misspelt(&self, name: &str) -> Option<String> {
        let published = || {
            let own = STANDARD_PREDICATES.iter().chain(&TOKEN_PREDICATES).chain(&VOCABULARY).copied();
            own.chain([USE_CREDENTIAL])
                .chain(self.service.reserved().iter().map(Arc::as_ref))
                .chain(stated_by(self.service.datalog()))
        };
        let known = published().chain(stated_by(&self.grant.datalog)).any(|other| other == name);
        if known {
            return None;
        }
        // an issuer's facts often look like a grant's own heads: only the published words are compared, and
        // only what a slip of the hand makes of them is an error
        let slip = |other: &&str| match distance(name, other) {
            1 => name.len() >= 5,
            2 => name.len() >= 10,
            _ => false,
        };
        published().filter(slip).min_by_key(|other| distance(name, other)).map(str::to_owned)
    }
}

/// Where a file's statement stands.
pub(super) fn place_of(files: &[&Datalog], place: &Place) -> Option<crate::service::Place> {
    let Owner::File(number) = place.owner else { return None };
    let file = files.get(number)?;
    match place.what {
        What::Fact => file.facts.get(place.index).map(|fact| fact.place),
        What::Rule => file.rules.get(place.index).map(|rule| rule.place),
        What::Check => file.checks.get(place.index).map(|check| check.place),
        What::Policy => file.policies.get(place.index).map(|policy| policy.place),
    }
}

/// Where no narrowing is legal.
pub(super) struct NoNarrowing;

impl Narrow for NoNarrowing {
    fn resolve(&mut self, _: &str) -> Result<usize, String> {
        Err("narrowings belong into tokens".to_owned())
    }
}

/// What a compile error of a token's block is told as.
pub(super) fn describe(error: &MachineError) -> String {
    match error.place.owner {
        Owner::File(_) => format!("the policy does not compile: {error}"),
        Owner::Block(0) => format!("the token's authority block can't be used: {error}"),
        Owner::Block(block) => format!("block {block} of the token can't be used: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_authorizer_adds_parses() {
        assert_eq!(FIRST.checks.len(), 2);
        assert_eq!(LAST.policies.len(), 1);
    }
}
