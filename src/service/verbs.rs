//! The words of allow lines: verbs and selectors (DESIGN §9).

use std::sync::Arc;

use crate::facts::Fact;

/// A verb: a word for some operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verb {
    pub(super) name: Arc<str>,
    pub(super) about: String,
    pub(super) operations: Vec<VerbOperation>,
}

/// One operation of a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerbOperation {
    /// The operation.
    pub operation: Arc<str>,
    /// The ground fact that the item must hold too: `discover_service("git-upload-pack")`.
    pub with: Option<Fact>,
}

/// A selector: a word for the terms of a predicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    pub(super) name: Arc<str>,
    pub(super) about: String,
    pub(super) predicate: Arc<str>,
    pub(super) ignore_case: bool,
    pub(super) operations: Option<Vec<Arc<str>>>,
    pub(super) except: Vec<Arc<str>>,
}

impl Verb {
    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What it means, for the card.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Its operations.
    pub fn operations(&self) -> &[VerbOperation] {
        &self.operations
    }

    /// Whether it covers an item of that operation; `holds` says whether the item holds a fact.
    pub fn covers(&self, operation: &str, holds: impl Fn(&Fact) -> bool) -> bool {
        self.operations.iter().any(|one| &*one.operation == operation && one.with.as_ref().is_none_or(&holds))
    }
}

impl Selector {
    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What it selects, for the card.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The predicate whose terms, joined with `/`, are matched.
    pub fn predicate(&self) -> &Arc<str> {
        &self.predicate
    }

    /// Whether letters match in either case.
    pub fn ignores_case(&self) -> bool {
        self.ignore_case
    }

    /// Whether an item of that operation must carry it. Others are not affected.
    pub fn applies_to(&self, operation: &str) -> bool {
        let among = |list: &[Arc<str>]| list.iter().any(|one| &**one == operation);
        self.operations.as_deref().is_none_or(among) && !among(&self.except)
    }

    /// The operations that must carry it; `None`: all but [`Selector::except`].
    pub fn operations(&self) -> Option<&[Arc<str>]> {
        self.operations.as_deref()
    }

    /// Operations that need not carry it.
    pub fn except(&self) -> &[Arc<str>] {
        &self.except
    }
}
