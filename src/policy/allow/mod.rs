//! Allow lines: what a spec gives and what a narrowing leaves, in the manifest's own words (DESIGN §9).
//!
//! ```text
//! line     = target ":" clause
//! target   = service [ "/" account ]
//! clause   = "all" [ "except" verb {"," verb} ] | "only" item {"," item} | "none"
//! item     = verb [ "where" cond { "and" cond } ]
//! cond     = selector "is" pattern { "or" pattern }
//! ```
//!
//! A line is read in two steps: [`AllowLine::parse`] knows the grammar, [`AllowLine::resolve`] knows the
//! services. Only a [`ResolvedLine`] can be evaluated, so a line whose service, verb or selector is gone
//! allows nothing anywhere (and a token that is narrowed by one is refused everything).

mod parse;
mod pattern;
mod print;
mod resolve;
mod satisfy;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::words::ServiceName;

pub use pattern::{GlobError, Pattern, joined};
pub use resolve::{ResolvedCondition, ResolvedItem, ResolvedLine};
pub use satisfy::{ItemView, satisfied};

/// One allow line, as syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowLine {
    /// The service.
    pub service: Word<ServiceName>,
    /// The account, if one is named: the second half of a credential's name.
    pub account: Option<Arc<str>>,
    /// What is allowed.
    pub clause: Clause,
}

/// What a line allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clause {
    /// Every operation.
    All,
    /// Every operation of every verb but these.
    AllExcept(Vec<Word>),
    /// These verbs.
    Only(Vec<OnlyItem>),
    /// Nothing.
    None,
}

/// A verb, under conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnlyItem {
    /// The verb.
    pub verb: Word,
    /// All of them must hold.
    pub conditions: Vec<Condition>,
}

/// `selector is pattern or pattern`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The selector.
    pub selector: Word,
    /// One of them must match, for every value.
    pub patterns: Vec<Arc<str>>,
}

/// A word and where it stands. Equal when the words are.
#[derive(Debug, Clone)]
pub struct Word<T = Arc<str>> {
    /// The word.
    pub word: T,
    /// 1-based, in characters.
    pub column: u32,
}

impl<T: PartialEq> PartialEq for Word<T> {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl<T: Eq> Eq for Word<T> {}

/// Why a text is no allow line, or not one of these services.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (column {column})")]
pub struct AllowError {
    /// Lower case, no full stop; says what would be accepted.
    pub message: String,
    /// 1-based, in characters.
    pub column: u32,
}
