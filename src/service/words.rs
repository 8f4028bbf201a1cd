//! Reading `[verbs]` and `[selectors]`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::load::Claims;
use super::template::FactTemplate;
use super::verbs::{Selector, Verb, VerbOperation};
use crate::facts::Fact;
use crate::words::nearest;
use crate::words::strict_toml::{Table, Value};

/// Words of the grammar of allow lines (DESIGN §9): no verb or selector is one.
const GRAMMAR: [&str; 8] = ["all", "only", "except", "none", "where", "is", "and", "or"];

/// What the routes and the datalog give: what words may speak of.
pub(super) struct Meaning<'m> {
    pub(super) operations: &'m BTreeSet<Arc<str>>,
    pub(super) predicates: &'m BTreeSet<Arc<str>>,
}

/// Reads `[verbs.NAME]`.
pub(super) fn read_verbs(root: &Table<'_>, meaning: &Meaning<'_>, claims: &Claims<'_>) -> Vec<Verb> {
    let Some(table) = root.get("verbs").and_then(|value| value.open_table()) else { return Vec::new() };
    let mut verbs: Vec<Verb> = Vec::new();
    for (name, value) in table.entries() {
        check_word(&table, name);
        let Some(inside) = value.table(&["about", "operations"]) else { continue };
        let about = inside.get("about").and_then(|about| about.string()).unwrap_or("").to_owned();
        let list = inside.required("operations").and_then(|value| value.list()).unwrap_or_default();
        let mut verb = Verb { name: name.into(), about, operations: Vec::new() };
        for value in list {
            let Some(operation) = read_operation(&value) else { continue };
            if let Some(other) = verbs.iter().chain([&verb]).find(|other| overlaps(other, &operation)) {
                let message = format!(
                    "`{}` belongs to `{}` already: each operation has one verb",
                    operation.operation, other.name
                );
                value.complain(message);
                continue;
            }
            if !meaning.operations.contains(&operation.operation) {
                claims.warn(Some(&value), format!("no route emits the operation `{}`", operation.operation));
            }
            verb.operations.push(operation);
        }
        verbs.push(verb);
    }
    warn_of_wordless(&verbs, meaning, &table, claims);
    verbs
}

fn read_operation(value: &Value<'_>) -> Option<VerbOperation> {
    if value.is_string() {
        return Some(VerbOperation { operation: value.nonempty()?.into(), with: None });
    }
    let table = value.table(&["operation", "with"])?;
    let operation = table.required("operation")?.nonempty()?;
    let with: Fact = table.required("with")?.parse(FactTemplate::parse_ground)?;
    Some(VerbOperation { operation: operation.into(), with: Some(with) })
}

/// An operation with two different `with` may belong to two verbs.
fn overlaps(verb: &Verb, operation: &VerbOperation) -> bool {
    verb.operations.iter().any(|other| {
        other.operation == operation.operation
            && (other.with.is_none() || operation.with.is_none() || other.with == operation.with)
    })
}

fn warn_of_wordless(verbs: &[Verb], meaning: &Meaning<'_>, table: &Table<'_>, claims: &Claims<'_>) {
    let spoken =
        |operation: &&Arc<str>| verbs.iter().flat_map(Verb::operations).any(|one| one.operation == **operation);
    for operation in meaning.operations.iter().filter(|operation| !spoken(operation)) {
        let first = table.entries().into_iter().next().map(|(_, value)| value);
        claims.warn(
            first.as_ref(),
            format!("no verb has the operation `{operation}`: no allow line can give it but `all`"),
        );
    }
}

/// Reads `[selectors.NAME]`.
pub(super) fn read_selectors(
    root: &Table<'_>,
    verbs: &[Verb],
    meaning: &Meaning<'_>,
    claims: &Claims<'_>,
) -> Vec<Selector> {
    let Some(table) = root.get("selectors").and_then(|value| value.open_table()) else { return Vec::new() };
    let mut selectors = Vec::new();
    for (name, value) in table.entries() {
        check_word(&table, name);
        let Some(inside) = value.table(&["about", "predicate", "ignore_case", "operations", "except"]) else {
            continue;
        };
        let about = inside.get("about").and_then(|about| about.string()).unwrap_or("").to_owned();
        let ignore_case = inside.get("ignore_case").and_then(|value| value.boolean()).unwrap_or(false);
        let Some(value) = inside.required("predicate") else { continue };
        let Some(predicate) = value.parse(predicate_name) else { continue };
        if !meaning.predicates.contains(&predicate) {
            claims.warn(
                Some(&value),
                format!("nothing gives the predicate `{predicate}`: a `where {name} is …` never holds"),
            );
        }
        let known = |key: &str| inside.get(key).map(|value| read_known_operations(&value, verbs, meaning));
        let (operations, except) = (known("operations"), known("except").unwrap_or_default());
        selectors.push(Selector { name: name.into(), about, predicate, ignore_case, operations, except });
    }
    selectors
}

fn read_known_operations(value: &Value<'_>, verbs: &[Verb], meaning: &Meaning<'_>) -> Vec<Arc<str>> {
    let in_verbs = verbs.iter().flat_map(Verb::operations).map(|one| &*one.operation);
    let known: BTreeSet<&str> = in_verbs.chain(meaning.operations.iter().map(|one| &**one)).collect();
    let check = |text: &str| {
        if known.contains(text) {
            return Ok(Arc::from(text));
        }
        let hint =
            nearest(text, known.iter().copied()).map_or(String::new(), |near| format!(": did you mean `{near}`?"));
        Err(format!("no route and no verb has the operation `{text}`{hint}"))
    };
    value.parse_list(check).unwrap_or_default()
}

/// A word that stands in an allow line, unquoted.
fn check_word(table: &Table<'_>, name: &str) {
    let right = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= 64
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if !right {
        table.complain_about_key(
            name,
            format!("`{name}` is not a word for an allow line: use letters, digits, `-` and `_`"),
        );
    } else if GRAMMAR.contains(&name) {
        table.complain_about_key(name, format!("`{name}` is a word of the grammar of allow lines: take another"));
    }
}

/// A predicate's name alone.
pub(super) fn predicate_name(text: &str) -> Result<Arc<str>, String> {
    let right = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':'));
    if right { Ok(text.into()) } else { Err(format!("`{text}` is not the name of a predicate, as `repository`")) }
}
