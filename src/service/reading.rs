//! What a request's head says about it: which routes match, and how its body is to be read.

use std::sync::Arc;

use super::Service;
use super::capture::Head;
use super::route::Route;
use crate::facts::{Demand, MethodOverride, Path, Query, RequestView, Term, method_override};
use crate::wire::Decoder;
use crate::words::Reason;

/// The outcome of matching a request's head against a manifest. Owned: it lives as long as the request.
#[derive(Debug, Clone)]
pub struct Reading {
    pub(super) matched: Vec<Matched>,
    pub(super) decoder: Option<Decoder>,
    wants_body: bool,
    body_for: Vec<Arc<str>>,
    wants_response: bool,
}

/// A route that matches, with the captures that the head gives.
#[derive(Debug, Clone)]
pub(super) struct Matched {
    pub(super) route: usize,
    pub(super) values: Vec<Option<Term>>,
}

/// Why a request can't be read, beyond what its path and query say themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadingError {
    /// An encoded slash where a matching route does not take it as data, or none matches.
    #[error("the path has an encoded slash, and no route of the service takes it as data")]
    EncodedSlash,
    /// A method override that the manifest does not name (R97).
    #[error("{} overrides the method, and the service takes no override", place(.0))]
    MethodOverride(MethodOverride),
}

fn place(of: &MethodOverride) -> &'static str {
    match of {
        MethodOverride::Header => "a header",
        MethodOverride::Query => "`_method` in the query",
        MethodOverride::Body => "`_method` in the body",
    }
}

impl ReadingError {
    /// Its reason code.
    pub fn reason(&self) -> Reason {
        match self {
            ReadingError::EncodedSlash => Reason::AmbiguousPath,
            ReadingError::MethodOverride(_) => Reason::Malformed,
        }
    }
}

impl Reading {
    /// How the body is read, if a decoder applies. `Decoder::None` is one that reads nothing.
    pub fn decoder(&self) -> Option<&Decoder> {
        self.decoder.as_ref()
    }

    /// Whether a matching route has to look into the body: for what the request means, or for a fact that
    /// the policy reads. The policy may want `body` and `request_body` themselves besides.
    pub fn wants_body(&self, demand: &Demand) -> bool {
        self.wants_body || self.body_for.iter().any(|predicate| demand.wants(predicate))
    }

    /// Whether `on_success` of a matching route captures from the answer's body (JSON).
    pub fn wants_response(&self) -> bool {
        self.wants_response
    }

    /// Whether any route matched at all.
    pub fn is_routed(&self) -> bool {
        !self.matched.is_empty()
    }
}

impl Service {
    /// Matches a request's head against the routes.
    pub fn reading(&self, view: &RequestView<'_>, path: &Path, query: &Query) -> Result<Reading, ReadingError> {
        self.check_override(view, query, None)?;
        let matched = self.matching(&Head { view, path, query, taste: self.taste });
        let routes = || matched.iter().filter_map(|one| self.routes.get(one.route));
        if path.has_encoded_slash()
            && (matched.is_empty() || !routes().all(|route| route.takes_slashes(self.taste.segments(path))))
        {
            return Err(ReadingError::EncodedSlash);
        }
        Ok(Reading {
            decoder: self.decoder_for(view, path),
            wants_body: routes().any(|route| route.wants_body),
            body_for: routes().flat_map(|route| route.body_for.iter().cloned()).collect(),
            wants_response: routes().any(|route| route.wants_response),
            matched,
        })
    }

    /// The routes that count: all that match, and one that is marked `fallback` (the first) only if none
    /// of the others states an operation. A condition on the body is looked at later.
    fn matching(&self, head: &Head<'_>) -> Vec<Matched> {
        let (mut matched, mut fallbacks) = (Vec::new(), Vec::new());
        let mut spoken_for = false;
        for index in self.index.find(head.view.authority, head.path) {
            match self.routes.get(index) {
                Some(route) if !route.pattern.methods.includes(head.view.method) => {}
                Some(route) if route.fallback => fallbacks.push((index, route)),
                Some(route) => {
                    let values = route.head_values(head);
                    spoken_for |= values.is_some() && route.states_operation;
                    matched.extend(values.map(|values| Matched { route: index, values }));
                }
                None => {}
            }
        }
        if !spoken_for {
            let value =
                |(index, route): (usize, &Route)| Some(Matched { route: index, values: route.head_values(head)? });
            matched.extend(fallbacks.into_iter().find_map(value));
        }
        matched
    }

    fn decoder_for(&self, view: &RequestView<'_>, path: &Path) -> Option<Decoder> {
        let media = view.header("content-type").unwrap_or("");
        let media = media.split(';').next().unwrap_or("").trim();
        let rule = self.decoders.iter().find(|rule| rule.applies(view, path, media, self.taste));
        rule.map(|rule| rule.decoder.clone())
    }

    /// R97: a method that is not the one that the server acts on makes every fact about it a lie.
    pub(super) fn check_override(
        &self,
        view: &RequestView<'_>,
        query: &Query,
        body: Option<&Term>,
    ) -> Result<(), ReadingError> {
        let Some(found) = method_override(view, query, body) else { return Ok(()) };
        let named = |name: &str| self.method_override.iter().any(|one| &**one == name);
        if self.method_override.is_empty() {
            return Err(ReadingError::MethodOverride(found));
        }
        // what the manifest names is policy's to judge; look again without it
        let headers: Vec<_> = view.headers.iter().copied().filter(|(name, _)| !named(name)).collect();
        let view = RequestView { headers: &headers, ..*view };
        let fields = named("_method");
        match method_override(&view, query, body) {
            Some(MethodOverride::Query | MethodOverride::Body) if fields => Ok(()),
            Some(found) => Err(ReadingError::MethodOverride(found)),
            None => Ok(()),
        }
    }
}
