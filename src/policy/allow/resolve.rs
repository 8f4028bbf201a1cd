//! An allow line with the words of its service looked up.

use std::sync::Arc;

use super::{AllowLine, Pattern};
use crate::facts::Fact;
use crate::words::ServiceName;

/// A line that can be evaluated: its service, verbs and selectors exist.
#[derive(Debug, Clone)]
pub struct ResolvedLine {
    pub(super) line: AllowLine,
    pub(super) rule: Rule,
}

#[derive(Debug, Clone)]
pub(super) enum Rule {
    /// Any item that has an operation.
    All,
    /// Items whose operation is of some verb, and of none of these.
    Except { verbs: Vec<Operation>, except: Vec<Operation> },
    /// Items that one of these covers.
    Only(Vec<ResolvedItem>),
    /// None.
    Nothing,
}

/// An operation of a verb, possibly only where a fact holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) name: Arc<str>,
    pub(super) with: Option<Fact>,
}

/// A verb under conditions.
#[derive(Debug, Clone)]
pub struct ResolvedItem {
    pub(super) verb: Arc<str>,
    pub(super) operations: Vec<Operation>,
    pub(super) conditions: Vec<ResolvedCondition>,
}

/// One `selector is …`.
#[derive(Debug, Clone)]
pub struct ResolvedCondition {
    pub(super) selector: Arc<str>,
    pub(super) predicate: Arc<str>,
    /// Only these operations must satisfy it; empty: all.
    pub(super) operations: Vec<Arc<str>>,
    pub(super) patterns: Vec<Pattern>,
}

impl ResolvedLine {
    /// The service.
    pub fn service(&self) -> &ServiceName {
        &self.line.service.word
    }

    /// The account, if the line names one.
    pub fn account(&self) -> Option<&str> {
        self.line.account.as_deref()
    }

    /// The line as syntax; it prints canonically.
    pub fn line(&self) -> &AllowLine {
        &self.line
    }

    /// The predicates that evaluating the line reads.
    pub fn predicates(&self) -> Vec<&str> {
        fn of_operations(operations: &[Operation]) -> impl Iterator<Item = &str> {
            operations.iter().filter_map(|operation| Some(operation.with.as_ref()?.predicate.as_ref()))
        }
        let mut predicates: Vec<&str> = match &self.rule {
            Rule::All | Rule::Nothing => Vec::new(),
            Rule::Except { verbs, except } => of_operations(verbs).chain(of_operations(except)).collect(),
            Rule::Only(items) => items
                .iter()
                .flat_map(|item| {
                    let conditions = item.conditions.iter().map(|condition| condition.predicate.as_ref());
                    of_operations(&item.operations).chain(conditions)
                })
                .collect(),
        };
        predicates.sort_unstable();
        predicates.dedup();
        predicates
    }
}
