//! A request for tests.

use super::super::{Reading, ReadingError, Service};
use crate::facts::{Body, Demand, Fact, Item, Path, Query, RequestFacts, RequestView, Term};
use crate::words::{Authority, Scheme};

/// A request's head and body.
#[derive(Clone)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) authority: Authority,
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    pub(super) headers: Vec<(&'a str, &'a [u8])>,
    pub(super) body: Body,
}

impl<'a> Request<'a> {
    /// `GET https://host/path?query`.
    pub(super) fn new(line: &'a str) -> Request<'a> {
        let (method, url) = line.split_once(' ').unwrap();
        let (scheme, rest) = url.split_once("://").unwrap();
        let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
        let slash = rest.find('/').unwrap();
        let (host, target) = rest.split_at(slash);
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let authority = Authority::parse(scheme, host).unwrap();
        Request { method, authority, path, query, headers: Vec::new(), body: Body::Absent }
    }

    pub(super) fn header(mut self, name: &'a str, value: &'a str) -> Request<'a> {
        self.headers.push((name, value.as_bytes()));
        self
    }

    pub(super) fn json(mut self, text: &str) -> Request<'a> {
        self.body = Body::Decoded(term(&serde_json::from_str(text).unwrap()));
        self
    }

    pub(super) fn view(&self) -> RequestView<'_> {
        RequestView {
            id: "id",
            method: self.method,
            authority: &self.authority,
            path: self.path,
            query: self.query,
            headers: &self.headers,
            size: None,
            client: None,
            time: 0,
        }
    }

    pub(super) fn reading(&self, service: &Service) -> Result<Reading, ReadingError> {
        service.reading(&self.view(), &Path::parse(self.path).unwrap(), &Query::parse(self.query).unwrap())
    }

    pub(super) fn facts(&self, service: &Service) -> Result<RequestFacts, ReadingError> {
        let (path, query) = (Path::parse(self.path).unwrap(), Query::parse(self.query).unwrap());
        let reading = service.reading(&self.view(), &path, &query)?;
        service.facts(&self.view(), &path, &query, &reading, self.body.clone(), &Demand::everything())
    }

    /// The items, each as its facts, sorted and joined.
    pub(super) fn items(&self, service: &Service) -> Vec<String> {
        self.facts(service).unwrap().items.iter().map(show_item).collect()
    }
}

pub(super) fn show_item(item: &Item) -> String {
    let mut facts: Vec<String> = item.facts.iter().map(show).collect();
    facts.sort();
    facts.join("; ")
}

pub(super) fn show(fact: &Fact) -> String {
    let terms: Vec<String> = fact.terms.iter().map(show_term).collect();
    format!("{}({})", fact.predicate, terms.join(", "))
}

fn show_term(term: &Term) -> String {
    match term {
        Term::Integer(number) => number.to_string(),
        Term::Str(text) => format!("{text:?}"),
        Term::Bool(value) => value.to_string(),
        Term::Date(seconds) => format!("@{seconds}"),
        other => format!("{other:?}"),
    }
}

/// JSON as a tree.
pub(super) fn term(json: &serde_json::Value) -> Term {
    use crate::facts::Key;
    match json {
        serde_json::Value::Null => Term::Null,
        serde_json::Value::Bool(value) => Term::Bool(*value),
        serde_json::Value::Number(number) => {
            number.as_i64().map_or_else(|| Term::str(number.to_string()), Term::Integer)
        }
        serde_json::Value::String(text) => Term::str(text),
        serde_json::Value::Array(items) => Term::Array(items.iter().map(term).collect()),
        serde_json::Value::Object(members) => Term::Map(std::sync::Arc::new(
            members.iter().map(|(k, v)| (Key::Str(k.as_str().into()), term(v))).collect(),
        )),
    }
}
