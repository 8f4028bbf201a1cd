//! What a request's head says about it: which routes match, and how its body is to be read.

use std::sync::Arc;

use crate::facts::Term;
use crate::wire::Decoder;
use crate::words::Reason;

/// The outcome of matching a request's head against a manifest. Owned: it lives as long as the request.
#[derive(Debug, Clone)]
pub struct Reading {
    pub(super) matched: Vec<Matched>,
    pub(super) decoder: Option<Decoder>,
    pub(super) wants_body: bool,
    pub(super) wants_response: bool,
}

/// A route that matches, with the captures that the head gives.
#[derive(Debug, Clone)]
pub(super) struct Matched {
    pub(super) route: usize,
    pub(super) values: Vec<Option<Term>>,
}

/// Why a request can't be read, beyond what its path and query say themselves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadingError {
    /// An encoded slash where no matching route takes it as data.
    #[error("the path has an encoded slash, and no route of the service takes it as data")]
    EncodedSlash,
    /// A method override that the manifest does not name (R97).
    #[error("`{0}` overrides the method: the service does not take that")]
    MethodOverride(Arc<str>),
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

    /// Whether a matching route captures from the body. The policy may want it besides.
    pub fn wants_body(&self) -> bool {
        self.wants_body
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
