//! Reading a manifest: strictly, and all that is wrong with it at once.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::credential::CredentialRules;
use super::decoding::DecoderRule;
use super::index::RouteIndex;
use super::pattern::{RoutePattern, Taste};
use super::refusal::Dialects;
use super::route::{Route, check_head};
use super::template::{FactTemplate, OPERATION, TermTemplate};
use super::words::{Meaning, predicate_name, read_selectors, read_verbs};
use super::{Datalog, Modes, SETUP_VARIABLES, Service, Setup, TextTemplate, calls_extern};
use crate::facts::{STANDARD_PREDICATES, Term};
use crate::wire::{BodyPaths, Decoder};
use crate::words::strict_toml::{Table, Value, read};
use crate::words::{FileError, FileErrors, HostPattern, ServiceName};

const KEYS: &[&str] = &[
    "name",
    "about",
    "hosts",
    "modes",
    "resources",
    "max_body_facts",
    "max_decode_prefix",
    "body_paths",
    "ignore_case",
    "ignore_trailing_slash",
    "method_override",
    "datalog",
    "credential",
    "decoder",
    "route",
    "verbs",
    "selectors",
    "setup",
    "card",
    "refusal",
];
const DEFAULT_BODY_FACTS: i64 = 512;
const DEFAULT_PREFIX: u64 = 1 << 20;

/// What the parts of a manifest are checked against while it is read.
pub(super) struct Claims<'c> {
    pub(super) file: &'c str,
    pub(super) claims: &'c [HostPattern],
    pub(super) warnings: RefCell<Vec<FileError>>,
}

impl Claims<'_> {
    /// A pattern whose host is claimed.
    pub(super) fn pattern(&self, value: &Value<'_>) -> Option<RoutePattern> {
        match RoutePattern::parse(value.string()?) {
            Err(fault) => value.complain_within(fault.offset, format!("`{}`: {fault}", value.name())),
            Ok(pattern) if !pattern.host.is_claimed(self.claims) => {
                let claimed = self.claims.iter().map(|host| format!("`{host}`")).collect::<Vec<_>>().join(", ");
                let hint = if claimed.is_empty() { "claims no host".to_owned() } else { format!("claims {claimed}") };
                value.complain(format!(
                    "`{}` is for a host that `hosts` does not have: the service {hint}",
                    value.name()
                ));
            }
            Ok(pattern) => return Some(pattern),
        }
        None
    }

    /// A list of hosts.
    pub(super) fn hosts(&self, value: &Value<'_>) -> Option<Vec<HostPattern>> {
        host_list(value)
    }

    /// Notes what is legal and probably not meant.
    pub(super) fn warn(&self, at: Option<&Value<'_>>, message: String) {
        let (line, column) = at.map(|value| value.place_within(0)).unzip();
        self.warnings.borrow_mut().push(FileError { file: self.file.to_owned(), line, column, message });
    }
}

/// A list of hosts, none of them `*`: a service and a secret have names.
pub(super) fn host_list(value: &Value<'_>) -> Option<Vec<HostPattern>> {
    let list = value.list()?;
    let mut hosts: Vec<HostPattern> = Vec::with_capacity(list.len());
    for element in &list {
        let Some(host) = element.parse(HostPattern::parse) else { continue };
        if host.specificity() == 0 {
            element.complain("`*` is every host there is: name them, or use `*.example.com`");
        } else if hosts.contains(&host) {
            element.complain(format!("`{host}` stands twice"));
        } else {
            hosts.push(host);
        }
    }
    (hosts.len() == list.len()).then_some(hosts)
}

impl Service {
    /// Reads a manifest; all that is wrong with it comes at once.
    pub fn parse(text: &str, file: &str) -> Result<Service, FileErrors> {
        let mut service = read(text, file, KEYS, |root| read_root(&root, file))?;
        service.version = hex::encode(Sha256::digest(text)).get(..16).unwrap_or_default().into();
        Ok(service)
    }
}

fn read_root(root: &Table<'_>, file: &str) -> Option<Service> {
    let name = root.required("name").and_then(|value| value.parse(ServiceName::parse));
    let hosts = root.required("hosts").and_then(|value| host_list(&value));
    // without hosts every route would be an error that says nothing
    let hosts = hosts?;
    let claims = Claims { file, claims: &hosts, warnings: RefCell::default() };
    let limits = Limits::read(root);
    let datalog = root.get("datalog").map_or_else(|| Some(Datalog::default()), |value| read_datalog(&value));
    let credential = part(root, "credential", |value| CredentialRules::read(value, &claims));
    let decoders: Vec<DecoderRule> = each(root, "decoder", |value| DecoderRule::read(value, &claims));
    let mut routes: Vec<Route> = each(root, "route", |value| Route::read(value, &claims));
    let setup = part(root, "setup", |value| Setup::read(value, &claims));
    let card = root.table("card", &["text"]).and_then(|table| table.required("text")).and_then(|value| {
        let variables = [SETUP_VARIABLES, &["facts"]].concat();
        value.parse(|text| TextTemplate::parse(text, &variables))
    });
    let dialects = part(root, "refusal", |value| Dialects::read(value, &claims));
    let resources = list_of(root, "resources", predicate_name);

    let operations = stated_operations(&routes);
    let datalog = datalog?;
    let mut reserved = given_predicates(&routes, &datalog);
    let known: BTreeSet<Arc<str>> =
        STANDARD_PREDICATES.iter().map(|one| Arc::from(*one)).chain(reserved.clone()).collect();
    let meaning = Meaning { operations: &operations, predicates: &known };
    let verbs = read_verbs(root, &meaning, &claims);
    let selectors = read_selectors(root, &verbs, &meaning, &claims);
    reserved.extend(resources.iter().cloned());
    reserved.extend(selectors.iter().map(|selector| Arc::clone(selector.predicate())));
    reserved.extend(
        verbs
            .iter()
            .flat_map(|verb| verb.operations())
            .flat_map(|one| &one.with)
            .map(|fact| Arc::clone(&fact.predicate)),
    );
    reserved.retain(|predicate| !STANDARD_PREDICATES.contains(&&**predicate));
    mark_always(&mut routes, &resources, &selectors, &verbs);

    let credential = credential?;
    let flag = |key: &str| root.get(key).and_then(|value| value.boolean()).unwrap_or(false);
    let taste = Taste { ignore_case: flag("ignore_case"), ignore_trailing_slash: flag("ignore_trailing_slash") };
    let body_paths = read_body_paths(root, &routes);
    let exec_commands = decoders.iter().filter_map(|rule| match &rule.decoder {
        Decoder::Exec(command) => Some(Arc::clone(command)),
        _ => None,
    });
    Some(Service {
        name: name?,
        file: file.into(),
        version: "".into(),
        about: root.get("about").and_then(|value| value.string()).unwrap_or("").to_owned(),
        modes: read_modes(root)?,
        resources,
        max_body_facts: limits.body_facts,
        max_decode_prefix: limits.prefix,
        body_paths: body_paths?,
        datalog,
        provider: credential.provider.unwrap_or_else(|| "static".into()),
        credential_hosts: credential.hosts,
        keep_cookies: credential.keep_cookies,
        strip_headers: credential.strip_headers,
        strip_query: credential.strip_query,
        injections: credential.injections,
        index: RouteIndex::new(routes.iter().map(|route| &route.pattern), taste),
        exec_commands: exec_commands.collect(),
        decoders,
        routes,
        taste,
        method_override: list_of(root, "method_override", override_name),
        verbs,
        selectors,
        setup: setup?,
        card,
        dialects: dialects?,
        operations,
        reserved,
        warnings: claims.warnings.into_inner(),
        hosts,
    })
}

/// A table that may be absent.
fn part<T: Default>(root: &Table<'_>, key: &str, read: impl FnOnce(&Value<'_>) -> Option<T>) -> Option<T> {
    root.get(key).map_or_else(|| Some(T::default()), |value| read(&value))
}

/// The elements of `[[key]]` that are right; the others have complained.
fn each<T>(root: &Table<'_>, key: &str, read: impl Fn(&Value<'_>) -> Option<T>) -> Vec<T> {
    let list = root.get(key).and_then(|value| value.list()).unwrap_or_default();
    list.iter().filter_map(read).collect()
}

fn list_of<T>(root: &Table<'_>, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
    root.get(key).and_then(|value| value.parse_list(parse)).unwrap_or_default()
}

struct Limits {
    body_facts: usize,
    prefix: usize,
}

impl Limits {
    fn read(root: &Table<'_>) -> Limits {
        let facts = root.get("max_body_facts").and_then(|value| value.integer(0..=1_000_000));
        let prefix = root.get("max_decode_prefix").and_then(|value| value.size());
        Limits {
            body_facts: usize::try_from(facts.unwrap_or(DEFAULT_BODY_FACTS)).unwrap_or(usize::MAX),
            prefix: usize::try_from(prefix.unwrap_or(DEFAULT_PREFIX)).unwrap_or(usize::MAX),
        }
    }
}

fn read_modes(root: &Table<'_>) -> Option<Modes> {
    let Some(value) = root.get("modes") else { return Some(Modes { rewrite: true, connect: true }) };
    let mut modes = Modes { rewrite: false, connect: false };
    for element in value.list()? {
        match element.one_of(&[("rewrite", true), ("connect", false)]) {
            Some(true) => modes.rewrite = true,
            Some(false) => modes.connect = true,
            None => {}
        }
    }
    if !modes.rewrite && !modes.connect {
        value.complain("`modes` is empty: leave it out for both, or use `rewrite`, `connect`");
    }
    Some(modes)
}

/// Facts and rules that state nothing of the token's or the proxy's (invariant 7).
fn read_datalog(value: &Value<'_>) -> Option<Datalog> {
    let datalog = Datalog::read(value)?;
    let place = |place: super::Place, message: String| complain_at(value, place, message);
    for check in &datalog.checks {
        place(check.place, "a manifest has no checks: they belong to grants and tokens".to_owned());
    }
    for policy in &datalog.policies {
        place(policy.place, "a manifest has no policies: they belong to grants".to_owned());
    }
    let facts = datalog.facts.iter().map(|fact| (&fact.statement.predicate.name, fact.place));
    let rules = datalog.rules.iter().map(|rule| (&rule.statement.head.name, rule.place));
    for (head, at) in facts.chain(rules) {
        if let Err(message) = check_head(head) {
            place(at, message);
        }
    }
    for rule in &datalog.rules {
        if rule.statement.expressions.iter().any(|expression| calls_extern(&expression.ops, "allows")) {
            place(rule.place, "`allows` is for checks of tokens only".to_owned());
        }
    }
    Some(datalog)
}

/// A complaint at a place that a statement brought along.
fn complain_at(value: &Value<'_>, place: super::Place, message: String) {
    let text = value.string().unwrap_or("");
    let offset = text.char_indices().map(|(offset, _)| offset).find(|offset| {
        let (line, column) = value.place_within(*offset);
        (line, column) == (place.line, place.column)
    });
    value.complain_within(offset.unwrap_or(0), message);
}

fn stated_operations(routes: &[Route]) -> BTreeSet<Arc<str>> {
    let emitted = routes.iter().flat_map(|route| &route.emit).filter(|template| template.is_operation());
    let name = |template: &FactTemplate| match template.terms.as_slice() {
        [TermTemplate::Ground(Term::Str(name))] => Some(Arc::clone(name)),
        _ => None,
    };
    emitted.filter_map(name).collect()
}

/// What routes emit and remember, and what the datalog states.
fn given_predicates(routes: &[Route], datalog: &Datalog) -> BTreeSet<Arc<str>> {
    let emitted = routes.iter().flat_map(|route| route.emit.iter().chain(&route.on_success));
    let facts = datalog.facts.iter().map(|fact| Arc::from(fact.statement.predicate.name.as_str()));
    let heads = datalog.rules.iter().map(|rule| Arc::from(rule.statement.head.name.as_str()));
    let operation = std::iter::once(Arc::from(OPERATION));
    emitted.map(|template| Arc::clone(&template.predicate)).chain(facts).chain(heads).chain(operation).collect()
}

/// Allow lines, narrowing, the audit and the manifest's own rules read these whatever a grant asks for.
fn mark_always(routes: &mut [Route], resources: &[Arc<str>], selectors: &[super::Selector], verbs: &[super::Verb]) {
    let with = verbs.iter().flat_map(|verb| verb.operations()).flat_map(|one| &one.with).map(|fact| &fact.predicate);
    let read: BTreeSet<&Arc<str>> =
        resources.iter().chain(selectors.iter().map(|s| s.predicate())).chain(with).collect();
    for template in routes.iter_mut().flat_map(|route| &mut route.emit) {
        template.always |= read.contains(&template.predicate);
    }
    routes.iter_mut().for_each(Route::settle_body);
}

/// What the routes look at is kept besides what the manifest names.
fn read_body_paths(root: &Table<'_>, routes: &[Route]) -> Option<BodyPaths> {
    let Some(value) = root.get("body_paths") else { return Some(BodyPaths::default()) };
    let named = value.parse_list(|path| BodyPaths::parse(&[path]).map(|_| path.to_owned()))?;
    if named.is_empty() {
        return Some(BodyPaths::default());
    }
    let routes = routes.iter().flat_map(Route::body_paths);
    BodyPaths::parse(&named.into_iter().chain(routes).collect::<Vec<_>>()).ok()
}

fn override_name(text: &str) -> Result<Arc<str>, String> {
    const KNOWN: [&str; 4] = ["x-http-method-override", "x-http-method", "x-method-override", "_method"];
    let lower = text.to_ascii_lowercase();
    if KNOWN.contains(&lower.as_str()) {
        return Ok(lower.into());
    }
    Err(format!("`{text}` is not a method override: use one of {}", KNOWN.map(|one| format!("`{one}`")).join(", ")))
}
