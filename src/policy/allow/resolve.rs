//! An allow line with the words of its service looked up.

use std::sync::Arc;

use super::{AllowError, AllowLine, Clause, Condition, OnlyItem, Pattern, Word};
use crate::service::{Catalog, Selector, Service, Verb, VerbOperation};
use crate::words::{ServiceName, nearest};

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
    Except { verbs: Vec<VerbOperation>, except: Vec<VerbOperation> },
    /// Items that one of these covers.
    Only(Vec<ResolvedItem>),
    /// None.
    Nothing,
}

/// A verb under conditions.
#[derive(Debug, Clone)]
pub struct ResolvedItem {
    pub(super) verb: Arc<str>,
    pub(super) operations: Vec<VerbOperation>,
    pub(super) conditions: Vec<ResolvedCondition>,
}

/// One `selector is …`.
#[derive(Debug, Clone)]
pub struct ResolvedCondition {
    pub(super) selector: Selector,
    pub(super) patterns: Vec<Pattern>,
}

impl AllowLine {
    /// Looks its words up. An unknown service, verb or selector is an error with the nearest known one, and
    /// so is a condition that could not concern its verb.
    pub fn resolve(&self, catalog: &Catalog) -> Result<ResolvedLine, AllowError> {
        let name = self.service.word.as_str();
        let Some(service) = catalog.get(name) else {
            let known = catalog.iter().map(|service| service.name().as_str());
            return Err(unknown("service", name, self.service.column, known));
        };
        let rule = match &self.clause {
            Clause::All => Rule::All,
            Clause::None => Rule::Nothing,
            Clause::AllExcept(verbs) => Rule::Except {
                verbs: service.verbs().iter().flat_map(Verb::operations).cloned().collect(),
                except: verbs
                    .iter()
                    .map(|word| Ok(verb(service, word)?.operations().iter().cloned()))
                    .collect::<Result<Vec<_>, AllowError>>()?
                    .into_iter()
                    .flatten()
                    .collect(),
            },
            Clause::Only(items) => {
                Rule::Only(items.iter().map(|item| resolve_item(service, item)).collect::<Result<_, _>>()?)
            }
        };
        Ok(ResolvedLine { line: self.clone(), rule })
    }
}

fn resolve_item(service: &Service, item: &OnlyItem) -> Result<ResolvedItem, AllowError> {
    let verb = verb(service, &item.verb)?;
    let conditions = item.conditions.iter().map(|condition| resolve_condition(service, verb, condition));
    Ok(ResolvedItem {
        verb: verb.name().clone(),
        operations: verb.operations().to_vec(),
        conditions: conditions.collect::<Result<_, _>>()?,
    })
}

fn resolve_condition(service: &Service, verb: &Verb, condition: &Condition) -> Result<ResolvedCondition, AllowError> {
    let Word { word, column } = &condition.selector;
    let Some(selector) = service.selector(word) else {
        return Err(unknown("selector", word, *column, service.selectors().iter().map(|one| one.name().as_ref())));
    };
    // `only read where ref is …` would read as a restriction and be none.
    if !verb.operations().iter().any(|one| selector.applies_to(&one.operation)) {
        let message = format!("`{word}` says nothing about `{}`: no operation of it has one", verb.name());
        return Err(AllowError { message, column: *column });
    }
    let compile = |text: &Arc<str>| {
        let wrong = |error: super::GlobError| AllowError { message: error.to_string(), column: *column };
        Pattern::parse(text, selector.ignores_case()).map_err(wrong)
    };
    Ok(ResolvedCondition {
        selector: selector.clone(),
        patterns: condition.patterns.iter().map(compile).collect::<Result<_, _>>()?,
    })
}

fn verb<'s>(service: &'s Service, word: &Word) -> Result<&'s Verb, AllowError> {
    let known = service.verbs().iter().map(|verb| verb.name().as_ref());
    service.verb(&word.word).ok_or_else(|| unknown("verb", &word.word, word.column, known))
}

fn unknown<'k>(what: &str, given: &str, column: u32, known: impl Iterator<Item = &'k str>) -> AllowError {
    let known: Vec<&str> = known.collect();
    let hint = match nearest(given, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => format!("there is no {what}"),
        None => format!("use one of {}", known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")),
    };
    AllowError { message: format!("unknown {what} `{given}`: {hint}"), column }
}

impl ResolvedItem {
    /// The verb.
    pub fn verb(&self) -> &Arc<str> {
        &self.verb
    }

    /// Its conditions.
    pub fn conditions(&self) -> &[ResolvedCondition] {
        &self.conditions
    }
}

impl ResolvedCondition {
    /// The selector.
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    /// The patterns, as written.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(Pattern::as_str)
    }
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

    /// What an `only` lists; empty for any other clause.
    pub fn items(&self) -> &[ResolvedItem] {
        match &self.rule {
            Rule::Only(items) => items,
            Rule::All | Rule::Except { .. } | Rule::Nothing => &[],
        }
    }

    /// The predicates that evaluating the line reads.
    pub fn predicates(&self) -> Vec<&str> {
        fn of_operations(operations: &[VerbOperation]) -> impl Iterator<Item = &str> {
            operations.iter().filter_map(|operation| Some(operation.with.as_ref()?.predicate.as_ref()))
        }
        let mut predicates: Vec<&str> = match &self.rule {
            Rule::All | Rule::Nothing => Vec::new(),
            Rule::Except { verbs, except } => of_operations(verbs).chain(of_operations(except)).collect(),
            Rule::Only(items) => items
                .iter()
                .flat_map(|item| {
                    let conditions = item.conditions.iter().map(|condition| condition.selector.predicate().as_ref());
                    of_operations(&item.operations).chain(conditions)
                })
                .collect(),
        };
        predicates.sort_unstable();
        predicates.dedup();
        predicates
    }
}
