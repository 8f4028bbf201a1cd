//! Facts, items, and all that a decision is made from.

use std::net::IpAddr;
use std::sync::Arc;

use super::{Body, Term};
use crate::words::{Authority, ServiceName};

/// One ground fact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fact {
    /// The predicate's name.
    pub predicate: Arc<str>,
    /// Its terms.
    pub terms: Vec<Term>,
}

impl Fact {
    /// A fact from its parts.
    pub fn new(predicate: impl Into<Arc<str>>, terms: impl Into<Vec<Term>>) -> Fact {
        Fact { predicate: predicate.into(), terms: terms.into() }
    }
}

/// One thing that a request means to do: an operation with the facts of what emitted it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Item {
    /// The operation, if any route emitted one. A request without any has one item without one.
    pub operation: Option<Arc<str>>,
    /// The item's own facts, its `operation(…)` among them.
    pub facts: Vec<Fact>,
}

/// Everything that a decision about one request reads, time and token apart.
#[derive(Debug, Clone)]
pub struct RequestFacts {
    /// Where the request goes: the authority of the tunnel or the request-target, nothing else.
    pub authority: Authority,
    /// The service that claims the authority; `None` for passthrough.
    pub service: Option<ServiceName>,
    /// As sent.
    pub method: Arc<str>,
    /// As sent, without the query.
    pub path: Arc<str>,
    /// Where the client is.
    pub client: Option<IpAddr>,
    /// Facts that all items share: the request's own, and what routes without an operation emit.
    /// `request_body` and `body` are not here: whoever wants them walks [`RequestFacts::body`].
    pub shared: Vec<Fact>,
    /// The decoded body, or why there is none.
    pub body: Body,
    /// Never empty.
    pub items: Vec<Item>,
}
