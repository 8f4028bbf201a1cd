//! Entries to the fields of a line.

use std::time::{Duration, SystemTime};

use super::json::{Fields, put_escaped, put_number};
use super::{DecisionEntry, EndpointEntry, OperatorEntry, OutcomeEntry, Raw};
use crate::facts::{Fact, Key, Term};
use crate::policy::{Candidate, DecidedItem, Origin};
use crate::token::{RevocationId, print_fact};

/// Bytes kept of a path or a query.
const LONG: usize = 2048;
/// Bytes kept of other text.
const SHORT: usize = 512;

pub(super) fn decision(out: &mut Vec<u8>, entry: &DecisionEntry<'_>, at: SystemTime) {
    let mut f = Fields::new(out);
    f.time("time", at);
    f.word("kind", "decision");
    f.text("request_id", entry.request_id.into(), SHORT);
    f.word("decision", if entry.reason.is_none() { "allow" } else { "deny" });
    if let Some(reason) = entry.reason {
        f.word("reason", reason.code());
    }
    text(&mut f, "cause", entry.cause, LONG);
    text(&mut f, "bearer", entry.bearer, SHORT);
    word(&mut f, "issued_by", entry.issued_by.map(|name| name.as_str()));
    if let Some(client) = entry.client {
        f.word("client", &client.to_string());
    }
    f.word("mode", entry.mode);
    word(&mut f, "service", entry.service.map(|name| name.as_str()));
    text(&mut f, "method", entry.method, 64);
    text(&mut f, "authority", entry.authority, SHORT);
    text(&mut f, "path", entry.path, LONG);
    if let Some(query) = entry.query {
        f.text("query", Raw(&masked(query.0)), LONG);
    }
    items(&mut f, entry.items);
    candidate(&mut f, entry.candidate);
    word(&mut f, "credential", entry.credential.map(|name| name.as_str()));
    number(&mut f, "generation", entry.generation);
    if !entry.failed.is_empty() {
        let failed = entry.failed.iter().map(|check| match check.origin {
            Origin::Authorizer => check.text.clone(),
            Origin::Block(block) => format!("block {block}: {}", check.text),
        });
        f.texts("failed_checks", failed, SHORT);
    }
    text(&mut f, "closest", entry.closest, LONG);
    number(&mut f, "fuel", entry.fuel);
    duration(&mut f, "took_us", entry.took);
    revocation_ids(&mut f, entry.revocation_ids);
    if let Some(facts) = entry.facts {
        f.json("facts", |out| put_facts(out, facts));
    }
}

pub(super) fn outcome(out: &mut Vec<u8>, entry: &OutcomeEntry<'_>, at: SystemTime) {
    let mut f = Fields::new(out);
    f.time("time", at);
    f.word("kind", "outcome");
    f.text("request_id", entry.request_id.into(), SHORT);
    number(&mut f, "status", entry.status.map(u64::from));
    if let Some(reason) = entry.reason {
        f.word("reason", reason.code());
    }
    text(&mut f, "cause", entry.cause, LONG);
    word(&mut f, "credential", entry.credential.map(|name| name.as_str()));
    number(&mut f, "generation", entry.generation);
    f.number("bytes_up", entry.bytes_up);
    f.number("bytes_down", entry.bytes_down);
    duration(&mut f, "first_byte_us", entry.first_byte);
    duration(&mut f, "took_us", entry.took);
}

pub(super) fn endpoint(out: &mut Vec<u8>, entry: &EndpointEntry<'_>, at: SystemTime) {
    let mut f = Fields::new(out);
    f.time("time", at);
    f.word("kind", "endpoint");
    f.text("request_id", entry.request_id.into(), SHORT);
    f.text("endpoint", entry.endpoint.into(), SHORT);
    f.word("decision", if entry.reason.is_none() { "allow" } else { "deny" });
    if let Some(reason) = entry.reason {
        f.word("reason", reason.code());
    }
    f.number("status", u64::from(entry.status));
    text(&mut f, "caller", entry.caller, SHORT);
    if let Some(client) = entry.client {
        f.word("client", &client.to_string());
    }
    revocation_ids(&mut f, entry.revocation_ids);
    details(&mut f, entry.detail);
}

pub(super) fn operator(out: &mut Vec<u8>, entry: &OperatorEntry<'_>, at: SystemTime) {
    let mut f = Fields::new(out);
    f.time("time", at);
    f.word("kind", "operator");
    f.text("operation", entry.operation.into(), SHORT);
    f.text("by", entry.by.into(), SHORT);
    text(&mut f, "error", entry.error, LONG);
    details(&mut f, entry.detail);
}

fn text(f: &mut Fields<'_>, key: &str, raw: Option<Raw<'_>>, cap: usize) {
    if let Some(raw) = raw {
        f.text(key, raw, cap);
    }
}

/// Names that were parsed: nothing in them needs escaping.
fn word(f: &mut Fields<'_>, key: &str, word: Option<&str>) {
    if let Some(word) = word {
        f.word(key, word);
    }
}

fn number(f: &mut Fields<'_>, key: &str, number: Option<u64>) {
    if let Some(number) = number {
        f.number(key, number);
    }
}

fn duration(f: &mut Fields<'_>, key: &str, duration: Option<Duration>) {
    number(f, key, duration.map(|d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX)));
}

fn details(f: &mut Fields<'_>, details: &[(&'static str, Raw<'_>)]) {
    for (key, value) in details {
        f.text(key, *value, LONG);
    }
}

fn revocation_ids(f: &mut Fields<'_>, ids: &[RevocationId]) {
    if !ids.is_empty() {
        f.texts("revocation_ids", ids.iter().map(|id| hex::encode(id.as_bytes())), SHORT);
    }
}

/// Operations and resources at the same index belong to one item.
fn items(f: &mut Fields<'_>, items: &[DecidedItem]) {
    if items.is_empty() {
        return;
    }
    f.texts("operations", items.iter().map(|item| item.operation.as_deref().unwrap_or("")), SHORT);
    if items.iter().any(|item| !item.resources.is_empty()) {
        let resources = items.iter().map(|item| item.resources.iter().map(print_fact).collect::<Vec<_>>().join(" "));
        f.texts("resources", resources, SHORT);
    }
}

fn candidate(f: &mut Fields<'_>, candidate: Option<&Candidate>) {
    match candidate {
        None => {}
        Some(Candidate::Grant { name, version }) => {
            f.word("grant", name.as_str());
            f.text("grant_version", version.as_ref().into(), SHORT);
        }
        Some(Candidate::SpecLine { spec, line, version }) => {
            f.word("spec", spec.as_str());
            f.number("spec_line", u64::from(*line));
            f.text("spec_version", version.as_ref().into(), SHORT);
        }
        Some(Candidate::Passthrough) => f.yes("passthrough"),
    }
}

/// The names of a query's keys without their values: keys are API, values may be secrets (R127). A part
/// without `=` may be either.
fn masked(query: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, part) in query.split(|byte| *byte == b'&').enumerate() {
        if index > 0 {
            out.push(b'&');
        }
        if let Some(at) = part.iter().position(|byte| *byte == b'=') {
            out.extend_from_slice(part.get(..=at).unwrap_or(&[]));
        }
        if !part.is_empty() {
            out.extend_from_slice(b"***");
        }
    }
    out
}

/// Facts with the types of their terms, so that a decision can be replayed from them.
fn put_facts(out: &mut Vec<u8>, facts: &[Fact]) {
    put_list(out, facts, |out, fact| {
        out.push(b'[');
        put_string(out, &fact.predicate);
        for term in &fact.terms {
            out.push(b',');
            put_term(out, term);
        }
        out.push(b']');
    });
}

fn put_term(out: &mut Vec<u8>, term: &Term) {
    match term {
        Term::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Term::Str(text) => put_string(out, text),
        Term::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Term::Null => out.extend_from_slice(b"null"),
        Term::Array(terms) => put_list(out, terms.iter(), put_term),
        Term::Date(seconds) => {
            out.extend_from_slice(b"{\"date\":");
            put_number(out, *seconds);
            out.push(b'}');
        }
        Term::Bytes(bytes) => {
            out.extend_from_slice(b"{\"hex\":");
            put_string(out, &hex::encode(bytes));
            out.push(b'}');
        }
        Term::Set(terms) => {
            out.extend_from_slice(b"{\"set\":");
            put_list(out, terms.iter(), put_term);
            out.push(b'}');
        }
        Term::Map(entries) => {
            out.extend_from_slice(b"{\"map\":");
            put_list(out, entries.iter(), |out, (key, term)| {
                out.push(b'[');
                match key {
                    Key::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
                    Key::Str(text) => put_string(out, text),
                }
                out.push(b',');
                put_term(out, term);
                out.push(b']');
            });
            out.push(b'}');
        }
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    put_escaped(out, text.as_bytes());
    out.push(b'"');
}

fn put_list<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, put: impl Fn(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put(out, item);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::words::{CredentialName, GrantName, Reason, ServiceName};

    fn parsed(write: impl FnOnce(&mut Vec<u8>)) -> serde_json::Value {
        let mut out = Vec::new();
        write(&mut out);
        serde_json::from_str(&format!("{{{}}}", String::from_utf8(out).unwrap())).unwrap()
    }

    #[test]
    fn a_decision_has_what_the_contract_names() {
        let (service, credential) =
            (ServiceName::parse("github").unwrap(), CredentialName::parse("github/app").unwrap());
        let grant = Candidate::Grant {
            name: GrantName::parse("orchestra-github").unwrap(),
            version: "0123456789abcdef".into(),
        };
        let items = [DecidedItem {
            operation: Some("push".into()),
            resources: vec![Fact::new("repository", vec![Term::from("o\"x"), Term::from("r")])],
        }];
        let failed = [crate::policy::FailedCheck { origin: Origin::Block(1), text: "check if false".into() }];
        let entry = DecisionEntry {
            request_id: "r1",
            revocation_ids: &[RevocationId::new(&[7; 64])],
            bearer: Some("orchestra:42".into()),
            client: Some("10.0.0.7".parse().unwrap()),
            mode: "connect",
            service: Some(&service),
            method: Some("POST".into()),
            authority: Some("github.com:443".into()),
            path: Some("/o/r.git/git-receive-pack".into()),
            query: Some("access_token=SECRET&a=1&BARESECRET&=x&".into()),
            items: &items,
            reason: Some(Reason::PolicyDenied),
            failed: &failed,
            candidate: Some(&grant),
            credential: Some(&credential),
            generation: Some(3),
            fuel: Some(120),
            took: Some(Duration::from_micros(15)),
            ..DecisionEntry::default()
        };
        let value = parsed(|out| decision(out, &entry, SystemTime::UNIX_EPOCH));
        let expected = serde_json::json!({
            "time": "1970-01-01T00:00:00.000000Z", "kind": "decision", "request_id": "r1", "decision": "deny",
            "reason": "policy_denied", "bearer": "orchestra:42", "client": "10.0.0.7", "mode": "connect",
            "service": "github", "method": "POST", "authority": "github.com:443", "path": "/o/r.git/git-receive-pack",
            "query": "access_token=***&a=***&***&=***&", "operations": ["push"],
            "resources": ["repository(\"o\\\"x\", \"r\")"], "grant": "orchestra-github",
            "grant_version": "0123456789abcdef", "credential": "github/app", "generation": 3,
            "failed_checks": ["block 1: check if false"], "fuel": 120, "took_us": 15,
            "revocation_ids": ["07".repeat(64)],
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn facts_keep_the_types_of_their_terms() {
        let terms = vec![
            Term::Integer(-1),
            Term::from("a\u{2028}"),
            Term::Date(7),
            Term::Bytes([255u8, 0].as_slice().into()),
            Term::Bool(true),
            Term::Null,
            Term::Set(Arc::new([Term::from(1)].into())),
            Term::Array([Term::from("x")].into()),
            Term::Map(Arc::new([(Key::Integer(1), Term::Null), (Key::Str("k".into()), Term::Bool(false))].into())),
        ];
        let facts = [Fact::new("f", terms)];
        let entry = DecisionEntry { facts: Some(&facts), ..DecisionEntry::default() };
        let value = parsed(|out| decision(out, &entry, SystemTime::UNIX_EPOCH));
        let expected = serde_json::json!([[
            "f", -1, "a\u{2028}", {"date": 7}, {"hex": "ff00"}, true, null, {"set": [1]}, ["x"],
            {"map": [[1, null], ["k", false]]}
        ]]);
        assert_eq!(value["facts"], expected);
        assert_eq!(value["decision"], "allow");
    }

    #[test]
    fn outcomes_endpoints_and_operators() {
        let entry = OutcomeEntry {
            request_id: "r",
            status: Some(201),
            bytes_up: 5,
            bytes_down: 7,
            took: Some(Duration::from_millis(2)),
            ..OutcomeEntry::default()
        };
        let value = parsed(|out| outcome(out, &entry, SystemTime::UNIX_EPOCH));
        assert_eq!((value["status"].as_u64(), value["took_us"].as_u64()), (Some(201), Some(2000)));
        let entry = EndpointEntry {
            request_id: "r",
            endpoint: "derive",
            status: 403,
            reason: Some(Reason::Narrowed),
            ..EndpointEntry::default()
        };
        let value = parsed(|out| endpoint(out, &entry, SystemTime::UNIX_EPOCH));
        assert_eq!((value["decision"].as_str(), value["status"].as_u64()), (Some("deny"), Some(403)));
        let entry =
            OperatorEntry { operation: "credential.add", by: "uid:0", detail: &[("name", Raw(b"a\nb"))], error: None };
        let value = parsed(|out| operator(out, &entry, SystemTime::UNIX_EPOCH));
        assert_eq!((value["operation"].as_str(), value["name"].as_str()), (Some("credential.add"), Some("a\nb")));
    }
}
