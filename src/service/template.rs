//! Facts with holes: `repository($owner, $repo)`, parsed once, filled with terms.
//!
//! A capture is put in as a **term**, never as text, so a repository named `a") or admin("x` is data (R154).

use std::sync::Arc;

use super::capture::Capture;
use crate::facts::{Fact, Key, Term};
use crate::token::ast;
use crate::words::nearest;

/// One entry of `emit` or `on_success`.
#[derive(Debug, Clone)]
pub(super) struct FactTemplate {
    pub(super) predicate: Arc<str>,
    pub(super) terms: Vec<TermTemplate>,
    /// Made whether the policy asks for it or not: the proxy itself reads it.
    pub(super) always: bool,
}

/// A term, or the capture that it is.
#[derive(Debug, Clone)]
pub(super) enum TermTemplate {
    Ground(Term),
    Capture(usize),
}

impl FactTemplate {
    /// Parses one predicate over literals and the captures' variables.
    pub(super) fn parse(text: &str, captures: &[Capture]) -> Result<FactTemplate, String> {
        let predicate = parse_predicate(text)?;
        let terms = predicate.terms.iter().map(|term| term_template(term, captures)).collect::<Result<_, _>>()?;
        Ok(FactTemplate { always: predicate.name == OPERATION, predicate: predicate.name.into(), terms })
    }

    /// Parses one fact without holes.
    pub(super) fn parse_ground(text: &str) -> Result<Fact, String> {
        let template = FactTemplate::parse(text, &[])?;
        template.fill(&[]).ok_or_else(|| format!("`{text}` has a variable in it: write values"))
    }

    /// The fact, if every capture that it needs has a value.
    pub(super) fn fill(&self, values: &[Option<Term>]) -> Option<Fact> {
        let fill = |term: &TermTemplate| match term {
            TermTemplate::Ground(term) => Some(term.clone()),
            TermTemplate::Capture(index) => values.get(*index)?.clone(),
        };
        let terms: Vec<Term> = self.terms.iter().map(fill).collect::<Option<_>>()?;
        Some(Fact { predicate: Arc::clone(&self.predicate), terms })
    }

    /// Whether it states what an item is.
    pub(super) fn is_operation(&self) -> bool {
        &*self.predicate == OPERATION
    }

    /// The captures that it needs.
    pub(super) fn needs(&self) -> impl Iterator<Item = usize> + '_ {
        self.terms.iter().filter_map(|term| match term {
            TermTemplate::Capture(index) => Some(*index),
            TermTemplate::Ground(_) => None,
        })
    }
}

/// The predicate that makes an item.
pub(super) const OPERATION: &str = "operation";

/// Biscuit's parser has no entry for a predicate with variables; the body of a check is one.
fn parse_predicate(text: &str) -> Result<ast::Predicate, String> {
    let wrong = || format!("`{text}` is not a fact: use `name(term, …)` with literals and `$captures`");
    let depth = text.bytes().filter(|b| matches!(b, b'(' | b'[' | b'{' | b'!')).count();
    if depth > 32 {
        return Err(wrong());
    }
    let source = format!("check if {}", text.trim());
    let (rest, check) = biscuit_parser::parser::check(&source).map_err(|_| wrong())?;
    let one_query = <[ast::Rule; 1]>::try_from(check.queries).map_err(|_| wrong())?;
    let [query] = one_query;
    if !rest.trim().is_empty() || !query.expressions.is_empty() || !query.scopes.is_empty() {
        return Err(wrong());
    }
    let [predicate] = <[ast::Predicate; 1]>::try_from(query.body).map_err(|_| wrong())?;
    Ok(predicate)
}

fn term_template(term: &ast::Term, captures: &[Capture]) -> Result<TermTemplate, String> {
    match term {
        ast::Term::Variable(name) => match captures.iter().position(|capture| &*capture.name == name) {
            Some(index) => Ok(TermTemplate::Capture(index)),
            None => {
                let known = captures.iter().map(|capture| &*capture.name);
                let hint = match nearest(name, known.clone()) {
                    Some(near) => format!("did you mean `${near}`?"),
                    None if captures.is_empty() => "there is none here".to_owned(),
                    None => format!(
                        "the captures here are {}",
                        known.map(|n| format!("`${n}`")).collect::<Vec<_>>().join(", ")
                    ),
                };
                Err(format!("`${name}` is not a capture: {hint}"))
            }
        },
        other => ground(other).map(TermTemplate::Ground),
    }
}

fn ground(term: &ast::Term) -> Result<Term, String> {
    Ok(match term {
        ast::Term::Variable(name) => return Err(format!("`${name}` can't stand inside another term")),
        ast::Term::Parameter(name) => return Err(format!("`{{{name}}}` is not a term: a capture is `${name}`")),
        ast::Term::Integer(number) => Term::Integer(*number),
        ast::Term::Str(text) => Term::from(text.as_str()),
        ast::Term::Date(seconds) => Term::Date(*seconds),
        ast::Term::Bytes(bytes) => Term::Bytes(bytes.as_slice().into()),
        ast::Term::Bool(value) => Term::Bool(*value),
        ast::Term::Null => Term::Null,
        ast::Term::Set(items) => Term::Set(Arc::new(items.iter().map(ground).collect::<Result<_, _>>()?)),
        ast::Term::Array(items) => Term::Array(items.iter().map(ground).collect::<Result<_, _>>()?),
        ast::Term::Map(entries) => {
            let entry = |(key, value): (&ast::MapKey, &ast::Term)| Ok::<_, String>((ground_key(key)?, ground(value)?));
            Term::Map(Arc::new(entries.iter().map(entry).collect::<Result<_, _>>()?))
        }
    })
}

fn ground_key(key: &ast::MapKey) -> Result<Key, String> {
    match key {
        ast::MapKey::Integer(number) => Ok(Key::Integer(*number)),
        ast::MapKey::Str(text) => Ok(Key::Str(text.as_str().into())),
        ast::MapKey::Parameter(name) => Err(format!("`{{{name}}}` is not a key")),
    }
}
