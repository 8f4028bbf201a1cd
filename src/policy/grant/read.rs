//! Reading a grant file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::route::Glob;
use super::{CredentialRoute, Fallback, Grant, narrow, version_of};
use crate::service::{Datalog, Place, calls_extern};
use crate::token::ast;
use crate::words::strict_toml::{self, Table, Value};
use crate::words::{CredentialName, FileErrors, GrantName, ServiceName, nearest};

const KEYS: [&str; 11] = [
    "name",
    "service",
    "max_lifetime",
    "credential",
    "anonymous",
    "credentials",
    "narrow",
    "narrow_unresolved",
    "datalog",
    "card",
    "credential_route",
];

pub(super) fn grant(text: &str, file: &str) -> Result<Grant, FileErrors> {
    strict_toml::read(text, file, &KEYS, |root| {
        let name = root.required("name").and_then(|value| value.parse(GrantName::parse));
        let service = root.required("service").and_then(|value| value.parse(ServiceName::parse));
        let fallback = fallback(&root);
        let choices = choices(&root, &fallback);
        let routes = routes(&root);
        let datalog = root.get("datalog").and_then(|value| datalog(&value, &choices)).unwrap_or_default();
        Some(Grant {
            name: name?,
            service: service?,
            max_lifetime: root.get("max_lifetime").and_then(|value| lifetime(&value)),
            fallback,
            choices,
            routes,
            narrow: narrow::read(&root),
            datalog,
            card: root.get("card").and_then(|value| card(&value)),
            version: version_of(text),
            file: file.into(),
        })
    })
}

fn lifetime(value: &Value<'_>) -> Option<std::time::Duration> {
    let lifetime = value.duration()?;
    if lifetime.as_secs() == 0 {
        value.complain("`max_lifetime` is less than a second: no token could have this grant");
    }
    Some(lifetime)
}

fn fallback(root: &Table<'_>) -> Fallback {
    let credential = root.get("credential").and_then(|value| value.parse(CredentialName::parse));
    let anonymous = root.get("anonymous");
    if anonymous.as_ref().and_then(Value::boolean) != Some(true) {
        return credential.map_or(Fallback::Nothing, Fallback::Credential);
    }
    if root.get("credential").is_some() {
        root.complain_about_key("anonymous", "`anonymous = true` and `credential` exclude each other: keep one");
    }
    Fallback::Anonymous
}

fn choices(root: &Table<'_>, fallback: &Fallback) -> BTreeSet<CredentialName> {
    let mut choices = BTreeSet::new();
    for value in root.get("credentials").and_then(|value| nonempty_list(&value)).unwrap_or_default() {
        if let Some(name) = value.parse(CredentialName::parse)
            && !choices.insert(name)
        {
            value.complain(format!("`{}` names a credential a second time", value.name()));
        }
    }
    if let Fallback::Credential(name) = fallback {
        choices.insert(name.clone());
    }
    choices
}

fn nonempty_list<'s>(value: &Value<'s>) -> Option<Vec<Value<'s>>> {
    let list = value.list()?;
    if list.is_empty() {
        value.complain(format!("`{}` is empty: name at least one, or leave it out", value.name()));
    }
    Some(list)
}

fn routes(root: &Table<'_>) -> Vec<CredentialRoute> {
    let mut routes = Vec::new();
    let mut seen: BTreeMap<&str, CredentialName> = BTreeMap::new();
    for table in root.tables("credential_route", &["resources", "credential"]) {
        let credential = table.required("credential").and_then(|value| value.parse(CredentialName::parse));
        let list = table.required("resources").and_then(|value| nonempty_list(&value));
        let (Some(credential), Some(list)) = (credential, list) else { continue };
        for value in &list {
            let Some(text) = value.string() else { continue };
            // R57: two routes for the same resources would be a silent choice of one of them.
            if let Some(other) = seen.insert(text, credential.clone())
                && other != credential
            {
                value.complain(format!("`{text}` is routed to `{other}` already: one resource has one credential"));
            }
        }
        let resources = list.iter().filter_map(|value| value.parse(Glob::parse)).collect();
        routes.push(CredentialRoute { resources, credential });
    }
    routes
}

fn card(value: &Value<'_>) -> Option<Arc<str>> {
    let text = value.string()?;
    if let Err(error) = minijinja::Environment::new().template_from_str(text) {
        let line_start =
            text.split_inclusive('\n').take(error.line().unwrap_or(1).saturating_sub(1)).map(str::len).sum();
        value.complain_within(
            line_start,
            format!("the card is not a template: {}", error.detail().unwrap_or("syntax error")),
        );
    }
    Some(text.into())
}

fn datalog(value: &Value<'_>, choices: &BTreeSet<CredentialName>) -> Option<Datalog> {
    let datalog = Datalog::read(value)?;
    let complain = |place: Place, message: String| value.complain_at(place.line, place.column, message);
    for (rule, place) in datalog.bodies() {
        if rule.expressions.iter().any(|expression| calls_extern(&expression.ops, "allows")) {
            let message = "`extern::allows` belongs to checks of tokens: a spec's `allow` line says the same in a file";
            complain(place, message.to_owned());
        }
    }
    let heads = datalog.rules.iter().map(|rule| (&rule.statement.head, rule.place));
    for (head, place) in heads.chain(datalog.facts.iter().map(|fact| (&fact.statement.predicate, fact.place))) {
        if let Some(message) = bad_choice(head, choices) {
            complain(place, message);
        }
    }
    Some(datalog)
}

/// `use_credential` has one term; a literal one is a name that the grant lists.
fn bad_choice(head: &ast::Predicate, choices: &BTreeSet<CredentialName>) -> Option<String> {
    if head.name != "use_credential" {
        return None;
    }
    match head.terms.as_slice() {
        [ast::Term::Variable(_)] => None,
        [ast::Term::Str(name)] if choices.contains(name.as_str()) => None,
        [ast::Term::Str(name)] => {
            let near = nearest(name, choices.iter().map(CredentialName::as_str));
            let hint =
                near.map_or_else(|| "add it to `credentials`".to_owned(), |near| format!("did you mean `{near}`?"));
            Some(format!("`{name}` is not one of this grant's `credentials`: {hint}"))
        }
        _ => Some("`use_credential` has one term, the credential's name".to_owned()),
    }
}
