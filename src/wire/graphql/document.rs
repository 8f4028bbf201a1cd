//! A GraphQL document: the operation that runs, and its fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use apollo_parser::cst::{CstChildren, Definition, Document, OperationDefinition, Selection, SelectionSet};
use apollo_parser::{Lexer, Parser, TokenKind};

use super::Unread::{self, TooMany, Wrong};
use super::fragments::Fragments;
use super::value::Variables;
use crate::facts::{Key, Term, count_nodes};

/// Tokens, blanks and commas counted. Documents of clients have hundreds.
const MAX_TOKENS: usize = 40_000;
/// Brackets inside each other. The parser bounds selections itself, but not values.
const MAX_DEPTH: usize = 64;

/// Reads the document and describes the one operation that runs.
pub(super) fn operation(
    text: &str,
    name: Option<&str>,
    variables: &BTreeMap<Key, Term>,
    max_nodes: usize,
) -> Result<Term, Unread> {
    check_size(text)?;
    let tree = Parser::new(text).token_limit(MAX_TOKENS).recursion_limit(MAX_DEPTH * 2).parse();
    if tree.errors().len() > 0 {
        return Err(Wrong("a document with a syntax error"));
    }
    let document = tree.document();
    let definitions = Definitions::of(&document)?;
    let chosen = definitions.choose(name)?;
    let variables = Variables::of(chosen, variables)?;
    definitions.fragments.check_uses(chosen)?;
    let root = chosen.selection_set().ok_or(Wrong("an operation without fields"))?;
    let fields = root_fields(&root, &definitions.fragments, &variables, max_nodes)?;
    Ok(map([
        ("type", kind(chosen)?.into()),
        ("name", chosen.name().map_or_else(|| Term::from(""), |name| Term::str(name.text()))),
        ("fields", Term::Array(fields.into())),
    ]))
}

/// Bounds the work, and the stack that the parser will need, before it starts.
fn check_size(text: &str) -> Result<(), Unread> {
    let mut depth = 0_usize;
    for token in Lexer::new(text).with_limit(MAX_TOKENS) {
        let token = token.map_err(|_| Wrong("a document with a syntax error, or more than 40000 tokens"))?;
        match token.kind() {
            TokenKind::LCurly | TokenKind::LParen | TokenKind::LBracket => depth += 1,
            TokenKind::RCurly | TokenKind::RParen | TokenKind::RBracket => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Wrong("more than 64 brackets inside each other"));
        }
    }
    Ok(())
}

/// The definitions of a document that may run: nothing but operations and fragments.
struct Definitions {
    operations: Vec<OperationDefinition>,
    fragments: Fragments,
}

impl Definitions {
    fn of(document: &Document) -> Result<Definitions, Unread> {
        let (mut operations, mut fragments) = (Vec::new(), Vec::new());
        for definition in document.definitions() {
            match definition {
                Definition::OperationDefinition(operation) => operations.push(operation),
                Definition::FragmentDefinition(fragment) => fragments.push(fragment),
                _ => return Err(Wrong("a type definition in a request")),
            }
        }
        let mut names: Vec<String> = operations.iter().filter_map(|one| Some(one.name()?.text().into())).collect();
        names.sort();
        names.dedup();
        // An operation without a name has to be alone, and no name may stand there twice.
        if operations.len() > 1 && names.len() != operations.len() {
            return Err(Wrong("several operations that are not told apart by their names"));
        }
        Ok(Definitions { operations, fragments: Fragments::of(fragments)? })
    }

    /// The operation that runs (GraphQL specification §6.1, GetOperation).
    fn choose(&self, name: Option<&str>) -> Result<&OperationDefinition, Unread> {
        match (name, self.operations.as_slice()) {
            (None, [only]) => Ok(only),
            (None, []) => Err(Wrong("a document without an operation")),
            (None, _) => Err(Wrong("several operations and no operation name")),
            (Some(name), operations) => operations
                .iter()
                .find(|operation| operation.name().is_some_and(|given| given.text() == name))
                .ok_or(Wrong("an operation name that is none of the document's")),
        }
    }
}

fn kind(operation: &OperationDefinition) -> Result<&'static str, Unread> {
    let Some(keyword) = operation.operation_type() else { return Ok("query") };
    if keyword.mutation_token().is_some() {
        Ok("mutation")
    } else if keyword.subscription_token().is_some() {
        Ok("subscription")
    } else if keyword.query_token().is_some() {
        Ok("query")
    } else {
        Err(Wrong("an operation of an unknown type"))
    }
}

/// The fields at the root, each with its arguments, in order: what `CollectFields` (§6.3.2) finds when
/// every `@skip` and `@include` lets it pass and every type condition holds. Aliases don't matter.
fn root_fields(
    root: &SelectionSet,
    fragments: &Fragments,
    variables: &Variables,
    max_nodes: usize,
) -> Result<Vec<Term>, Unread> {
    let (mut fields, mut nodes, mut visited) = (Vec::new(), 0, Vec::new());
    let mut open: Vec<CstChildren<Selection>> = vec![root.selections()];
    while let Some(selections) = open.last_mut() {
        match selections.next() {
            None => {
                open.pop();
            }
            Some(Selection::Field(field)) => {
                let name = field.name().ok_or(Wrong("a field without a name"))?;
                let args = variables.arguments(field.arguments())?;
                nodes += 1 + count_nodes(&args);
                if nodes > max_nodes {
                    return Err(TooMany);
                }
                fields.push(map([("name", Term::str(name.text())), ("args", args)]));
            }
            Some(Selection::InlineFragment(inline)) => {
                open.extend(inline.selection_set().map(|set| set.selections()));
            }
            Some(Selection::FragmentSpread(spread)) => {
                let (index, fragment) = fragments.find(&spread)?;
                if !visited.contains(&index) {
                    visited.push(index);
                    open.extend(fragment.selection_set().map(|set| set.selections()));
                }
            }
        }
    }
    Ok(fields)
}

pub(super) fn map<const N: usize>(entries: [(&str, Term); N]) -> Term {
    Term::Map(Arc::new(entries.into_iter().map(|(key, value)| (Key::Str(key.into()), value)).collect()))
}
