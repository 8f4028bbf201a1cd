//! Datalog that people write on a command line: `--fact` and `--check`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use biscuit_parser::parser;

use super::ast;
use crate::facts::{Fact, Key, Term};

/// Longer than any sensible check; the parser recurses.
const MAX_LENGTH: usize = 8 * 1024;
const MAX_NESTING: usize = 48;

/// Why a text is not the datalog that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// What is wrong, with the text in backticks and what would be accepted.
    pub message: String,
}

fn wrong(text: &str, expected: &str, why: Option<String>) -> SourceError {
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    let shown: String = text.chars().take(200).collect();
    SourceError { message: format!("`{shown}` is not {expected}{why}") }
}

const A_FACT: &str = r#"a fact: use `name("text", 1, true)`, several separated by `;`"#;
const A_CHECK: &str = "one check: use `check if …`, `check all …` or `reject if …`";

/// Parses facts: `task_fork("o", "r")`, several separated by `;`. No rules, no checks, no variables.
pub fn parse_facts(text: &str) -> Result<Vec<Fact>, SourceError> {
    let found = parse(text, A_FACT)?;
    if !found.rules.is_empty() || !found.checks.is_empty() || !found.scopes.is_empty() || found.facts.is_empty() {
        return Err(wrong(text, A_FACT, None));
    }
    found
        .facts
        .into_iter()
        .map(|(_, fact)| {
            let terms = fact.predicate.terms.iter().map(ground).collect::<Option<Vec<_>>>();
            let terms = terms.ok_or_else(|| wrong(text, A_FACT, Some("`{parameters}` have no value here".into())))?;
            Ok(Fact::new(fact.predicate.name, terms))
        })
        .collect()
}

/// Parses one check: `check if …`, `check all …` or `reject if …`. Nothing else is accepted, so that an
/// attenuation can't state facts.
pub fn parse_check(text: &str) -> Result<ast::Check, SourceError> {
    let found = parse(text, A_CHECK)?;
    if !found.rules.is_empty() || !found.facts.is_empty() || !found.scopes.is_empty() {
        return Err(wrong(text, A_CHECK, None));
    }
    let mut checks = found.checks.into_iter();
    let (Some((_, check)), None) = (checks.next(), checks.next()) else { return Err(wrong(text, A_CHECK, None)) };
    if check.queries.iter().any(has_parameters) {
        return Err(wrong(text, A_CHECK, Some("`{parameters}` have no value here".into())));
    }
    Ok(check)
}

fn parse<'a>(text: &'a str, expected: &str) -> Result<parser::SourceResult<'a>, SourceError> {
    if text.len() > MAX_LENGTH || nesting(text) > MAX_NESTING {
        return Err(wrong(text, expected, Some("it is too long or too deeply nested".into())));
    }
    parser::parse_block_source(text.trim()).map_err(|errors| {
        let why = errors.into_iter().find_map(|error| error.message);
        wrong(text, expected, why)
    })
}

fn has_parameters(rule: &ast::Rule) -> bool {
    rule.parameters.as_ref().is_some_and(|p| !p.is_empty())
        || rule.scope_parameters.as_ref().is_some_and(|p| !p.is_empty())
}

/// How deep the parser would recurse: brackets outside strings, and runs of `!`.
fn nesting(text: &str) -> usize {
    let (mut depth, mut run, mut deepest) = (0usize, 0usize, 0usize);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        run = match byte {
            b'!' => run + 1,
            b' ' => run,
            _ => 0,
        };
        deepest = deepest.max(depth + run);
    }
    deepest
}

fn skip_string(bytes: &mut std::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return,
            _ => {}
        }
    }
}

/// A term without variables and parameters.
fn ground(term: &ast::Term) -> Option<Term> {
    Some(match term {
        ast::Term::Integer(number) => Term::Integer(*number),
        ast::Term::Str(text) => Term::str(text),
        ast::Term::Date(date) => Term::Date(*date),
        ast::Term::Bytes(bytes) => Term::Bytes(bytes.as_slice().into()),
        ast::Term::Bool(value) => Term::Bool(*value),
        ast::Term::Null => Term::Null,
        ast::Term::Set(terms) => Term::Set(Arc::new(terms.iter().map(ground).collect::<Option<BTreeSet<_>>>()?)),
        ast::Term::Array(terms) => Term::Array(terms.iter().map(ground).collect::<Option<Vec<_>>>()?.into()),
        ast::Term::Map(entries) => {
            let entries = entries.iter().map(|(key, term)| {
                let key = match key {
                    ast::MapKey::Integer(number) => Key::Integer(*number),
                    ast::MapKey::Str(text) => Key::Str(text.as_str().into()),
                    ast::MapKey::Parameter(_) => return None,
                };
                Some((key, ground(term)?))
            });
            Term::Map(Arc::new(entries.collect::<Option<BTreeMap<_, _>>>()?))
        }
        ast::Term::Variable(_) | ast::Term::Parameter(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_terms() {
        let facts = parse_facts(r#"task_fork("o", "r"); task_issue(7); labels({"a", "b"}); none({,})"#).unwrap();
        assert_eq!(facts[0], Fact::new("task_fork", vec![Term::from("o"), Term::from("r")]));
        assert_eq!(facts[1], Fact::new("task_issue", vec![Term::from(7)]));
        let set = Term::Set(Arc::new([Term::from("a"), Term::from("b")].into()));
        assert_eq!(facts[2], Fact::new("labels", vec![set]));
        assert_eq!(facts[3], Fact::new("none", vec![Term::Set(Arc::default())]));
    }

    #[test]
    fn what_is_no_fact_is_refused_with_what_would_be_accepted() {
        for text in [
            "",
            "x",
            "f($x)",
            "f({p})",
            "f(1) <- g(1)",
            "check if true",
            "f(1); check if true",
            "f(1); g(",
            "trusting previous; f(1)",
            &format!("f({})", "[".repeat(500)),
            &format!("f(\"{}\")", "x".repeat(MAX_LENGTH)),
        ] {
            let error = parse_facts(text).unwrap_err();
            assert!(error.message.contains("is not a fact: use"), "{text}: {error}");
        }
    }

    #[test]
    fn a_check_is_one_check_and_nothing_else() {
        for text in ["check if true", "check all a($x), $x > 1;", "reject if a(1) or b(2)", "check if !(1 == 2)"] {
            parse_check(text).unwrap();
        }
        for text in [
            "",
            "true",
            "f(1)",
            "check if true; f(1)",
            "check if true; check if false",
            "f(1); check if true",
            "a($x) <- b($x)",
            "allow if true",
            "check if a({p})",
            "check if {p}",
            "check if a(1) trusting {key}",
            &format!("check if {}true", "!".repeat(4000)),
            &format!("check if {}true", "(".repeat(4000)),
        ] {
            let error = parse_check(text).unwrap_err();
            assert!(error.message.contains("is not one check: use"), "{text}: {error}");
        }
    }

    #[test]
    fn strings_are_not_counted_as_nesting() {
        let text = format!(r#"check if a("{}\"(")"#, "(".repeat(100));
        parse_check(&text).unwrap();
    }
}
