//! From a reading and a body to the facts of a decision: what all items share, and each item's own
//! (DESIGN §6).

use std::sync::Arc;

use super::Service;
use super::capture::Trees;
use super::reading::{Matched, Reading, ReadingError};
use super::route::Route;
use super::template::FactTemplate;
use crate::facts::{Body, Demand, Fact, Hidden, Item, Path, Query, RequestFacts, RequestView, Term, standard};
use crate::wire::{Bounds, Decoded, Decoder, decode_graphql_query, has_graphql_parameters};

/// Bytes of a GraphQL document in a query string: request heads are smaller.
const MAX_QUERY_DOCUMENT: usize = 1 << 20;

impl Service {
    /// Everything a decision reads: standard facts, and what the routes emit, in items (DESIGN §6).
    ///
    /// A route, or each of its elements, that emits an `operation` makes an item; what others emit is
    /// shared. Fails on a `_method` in a body that the manifest does not name.
    pub fn facts(
        &self,
        view: &RequestView<'_>,
        path: &Path,
        query: &Query,
        reading: &Reading,
        body: Body,
        demand: &Demand,
    ) -> Result<RequestFacts, ReadingError> {
        let body = self.with_query_document(reading, query, body);
        self.check_override(view, query, tree(&body))?;
        let header = |name: &str| self.strips_header(name);
        let key = |key: &str| self.strips_query(view.authority, key);
        let hidden = Hidden { header: &header, query: &key };
        let mut shared = standard(view, path, query, &body, Some(&self.name), hidden, demand);
        let mut items = Vec::new();
        self.each_element(reading, &body, None, |route, values| {
            emit(route, values, demand, &mut shared, &mut items);
        });
        if items.is_empty() {
            items.push(Item::default());
        }
        Ok(RequestFacts {
            authority: view.authority.clone(),
            service: Some(self.name.clone()),
            method: view.method.into(),
            path: path.raw().clone(),
            client: view.client,
            shared,
            body,
            items,
        })
    }

    /// Facts to remember for the token after a 2xx. `response` is the answer's body, if
    /// [`Reading::wants_response`] and it could be decoded.
    pub fn on_success(&self, reading: &Reading, body: &Body, response: Option<&Term>) -> Vec<Fact> {
        let mut facts: Vec<Fact> = Vec::new();
        self.each_element(reading, body, response, |route, values| {
            for fact in route.on_success.iter().filter_map(|template| template.fill(values)) {
                if !facts.contains(&fact) {
                    facts.push(fact);
                }
            }
        });
        facts
    }

    /// Calls `visit` for every matched route, or for each of its elements, whose conditions hold.
    fn each_element(
        &self,
        reading: &Reading,
        body: &Body,
        response: Option<&Term>,
        mut visit: impl FnMut(&Route, &[Option<Term>]),
    ) {
        for Matched { route, values } in &reading.matched {
            let Some(route) = self.routes.get(*route) else { continue };
            let whole = Trees { body: tree(body), response, ..Trees::default() };
            let elements = match (&route.each, whole.body) {
                (None, _) => vec![whole],
                (Some(each), Some(body)) => {
                    let trees = |(element, outer)| Trees { each: Some(element), outer: Some(outer), ..whole };
                    each.elements(body).into_iter().map(trees).collect()
                }
                (Some(_), None) => Vec::new(),
            };
            for trees in elements {
                if let Some(values) = route.values_with(values, trees) {
                    visit(route, &values);
                }
            }
        }
    }

    /// A GraphQL document may stand in the query string. Beside a body it is ambiguous: servers differ
    /// on which they take.
    fn with_query_document(&self, reading: &Reading, query: &Query, body: Body) -> Body {
        if reading.decoder != Some(Decoder::Graphql) || !has_graphql_parameters(query) {
            return body;
        }
        if !matches!(body, Body::Absent) {
            return Body::Undecodable("a GraphQL document stands in the query as well".to_owned());
        }
        let bounds = Bounds {
            max_decoded: MAX_QUERY_DOCUMENT,
            max_prefix: MAX_QUERY_DOCUMENT,
            max_nodes: self.max_body_facts,
            body_paths: self.body_paths.clone(),
        };
        match decode_graphql_query(query, &bounds) {
            Decoded::Ready(term) => Body::Decoded(term),
            Decoded::Truncated => Body::Truncated,
            Decoded::TooLarge => Body::Undecodable("the GraphQL document is too large".to_owned()),
            Decoded::NeedMore => Body::Undecodable("the GraphQL document is incomplete".to_owned()),
            Decoded::Failed(why) => Body::Undecodable(why),
        }
    }
}

fn tree(body: &Body) -> Option<&Term> {
    match body {
        Body::Decoded(term) => Some(term),
        Body::Absent | Body::Opaque | Body::Undecodable(_) | Body::Truncated => None,
    }
}

/// Fills a route's templates, and puts the facts where they belong.
fn emit(route: &Route, values: &[Option<Term>], demand: &Demand, shared: &mut Vec<Fact>, items: &mut Vec<Item>) {
    let wanted = |template: &&FactTemplate| template.always || demand.wants(&template.predicate);
    let mut own: Vec<Fact> = Vec::with_capacity(route.emit.len());
    let mut operations = Vec::new();
    for template in route.emit.iter().filter(wanted) {
        match template.fill(values) {
            Some(fact) if template.is_operation() => operations.extend(operation_name(&fact).map(|name| (name, fact))),
            Some(fact) => own.push(fact),
            None => {}
        }
    }
    let Some((last_name, last)) = operations.pop() else {
        shared.extend(own);
        return;
    };
    for (name, operation) in operations {
        push_item(route, items, name, operation, own.clone());
    }
    push_item(route, items, last_name, last, own);
}

fn operation_name(fact: &Fact) -> Option<Arc<str>> {
    match fact.terms.as_slice() {
        [Term::Str(name)] => Some(Arc::clone(name)),
        _ => None,
    }
}

fn push_item(route: &Route, items: &mut Vec<Item>, name: Arc<str>, operation: Fact, mut own: Vec<Fact>) {
    own.insert(0, operation);
    let item = Item { operation: Some(name), facts: own };
    // two routes may say the same of one request
    if route.each.is_some() || !items.contains(&item) {
        items.push(item);
    }
}
