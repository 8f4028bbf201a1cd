//! From a biscuit's blocks to syntax, as terms and never as text (DESIGN §14).
//!
//! biscuit-auth resolves symbols and checks versions; here its builder types become the parser's, which
//! are what policy compiles. Printing a block and parsing it again would let a string forge facts: the
//! printer does not escape.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use biscuit_auth::builder::{self, Convert};
use biscuit_auth::datalog::SymbolTable;
use biscuit_auth::format::convert;
use biscuit_auth::format::schema;
use biscuit_auth::{AuthorizerBuilder, Biscuit, PublicKey};
use prost::Message;

use super::{Block, TokenError, ast};
use crate::facts::{Fact, Key, Term};

const MALFORMED: TokenError = TokenError::Malformed;

/// The blocks of a token whose signatures have been verified. biscuit-auth itself puts all symbols into
/// one table when it builds an authorizer; its snapshot gives the blocks under that table.
pub(super) fn verified_blocks(token: &Biscuit) -> Result<Vec<Block>, TokenError> {
    let authorizer = AuthorizerBuilder::new().build(token).map_err(|_| MALFORMED)?;
    let world = authorizer.snapshot().map_err(|_| MALFORMED)?.world;
    let symbols = symbols(world.symbols, &world.public_keys)?;
    world
        .blocks
        .iter()
        .map(|b| {
            let content = Content { version: b.version, facts: &b.facts, rules: &b.rules, checks: &b.checks };
            block(content, !b.scope.is_empty() || b.external_key.is_some(), &symbols)
        })
        .collect()
}

/// The blocks of a token that nobody has verified: to show them, and to find the earliest expiry when
/// attenuating. What they say is what the token's holder says.
pub(super) fn unverified_blocks(token: &schema::Biscuit) -> Result<Vec<Block>, TokenError> {
    let mut shared = Vec::new();
    let mut keys = Vec::new();
    let mut decoded = Vec::new();
    for signed in std::iter::once(&token.authority).chain(&token.blocks) {
        let content = schema::Block::decode(signed.block.as_slice()).map_err(|_| MALFORMED)?;
        let third_party = signed.external_signature.is_some();
        // A third party signs a block without knowing the token: it brings a table of its own.
        if !third_party {
            shared.extend(content.symbols.iter().cloned());
            keys.extend(content.public_keys.iter().cloned());
        }
        decoded.push((content, third_party));
    }
    let shared = symbols(shared, &keys)?;
    decoded
        .iter()
        .map(|(b, third_party)| {
            let content = Content { version: b.version, facts: &b.facts, rules: &b.rules, checks: &b.checks };
            if *third_party {
                block(content, true, &symbols(b.symbols.clone(), &b.public_keys)?)
            } else {
                block(content, !b.scope.is_empty(), &shared)
            }
        })
        .collect()
}

fn symbols(strings: Vec<String>, keys: &[schema::PublicKey]) -> Result<SymbolTable, TokenError> {
    let keys = keys.iter().map(PublicKey::from_proto).collect::<Result<Vec<_>, _>>().map_err(|_| MALFORMED)?;
    SymbolTable::from_symbols_and_public_keys(strings, keys).map_err(|_| MALFORMED)
}

/// What the two shapes of a block have in common.
struct Content<'a> {
    version: Option<u32>,
    facts: &'a [schema::Fact],
    rules: &'a [schema::Rule],
    checks: &'a [schema::Check],
}

fn block(content: Content<'_>, mut third_party: bool, symbols: &SymbolTable) -> Result<Block, TokenError> {
    let version = content.version.unwrap_or(0);
    let facts = content.facts.iter().map(|f| fact(f, symbols)).collect::<Result<_, _>>()?;
    let rules = content
        .rules
        .iter()
        .map(|r| {
            let (rule, _) = convert::proto_rule_to_token_rule(r, version).map_err(|_| MALFORMED)?;
            builder::Rule::convert_from(&rule, symbols).map(rule_ast).map_err(|_| MALFORMED)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let checks = content
        .checks
        .iter()
        .map(|c| {
            let check = convert::proto_check_to_token_check(c, version).map_err(|_| MALFORMED)?;
            builder::Check::convert_from(&check, symbols).map(check_ast).map_err(|_| MALFORMED)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let queries = checks.iter().flat_map(|c| &c.queries);
    third_party |= rules.iter().chain(queries).any(|rule| !rule.scopes.is_empty());
    Ok(Block { facts, rules, checks, third_party })
}

fn fact(fact: &schema::Fact, symbols: &SymbolTable) -> Result<Fact, TokenError> {
    let fact = convert::proto_fact_to_token_fact(fact).map_err(|_| MALFORMED)?;
    let fact = builder::Fact::convert_from(&fact, symbols).map_err(|_| MALFORMED)?;
    let terms = fact.predicate.terms.into_iter().map(ground).collect::<Option<Vec<_>>>().ok_or(MALFORMED)?;
    Ok(Fact::new(fact.predicate.name, terms))
}

/// A term without variables. A block whose facts have some is none.
fn ground(term: builder::Term) -> Option<Term> {
    Some(match term {
        builder::Term::Integer(number) => Term::Integer(number),
        builder::Term::Str(text) => Term::Str(text.into()),
        builder::Term::Date(date) => Term::Date(date),
        builder::Term::Bytes(bytes) => Term::Bytes(bytes.into()),
        builder::Term::Bool(value) => Term::Bool(value),
        builder::Term::Null => Term::Null,
        builder::Term::Set(terms) => {
            Term::Set(Arc::new(terms.into_iter().map(ground).collect::<Option<BTreeSet<_>>>()?))
        }
        builder::Term::Array(terms) => Term::Array(terms.into_iter().map(ground).collect::<Option<Vec<_>>>()?.into()),
        builder::Term::Map(entries) => {
            let entries = entries.into_iter().map(|(key, term)| {
                let key = match key {
                    builder::MapKey::Integer(number) => Key::Integer(number),
                    builder::MapKey::Str(text) => Key::Str(text.into()),
                    builder::MapKey::Parameter(_) => return None,
                };
                Some((key, ground(term)?))
            });
            Term::Map(Arc::new(entries.collect::<Option<BTreeMap<_, _>>>()?))
        }
        builder::Term::Variable(_) | builder::Term::Parameter(_) => return None,
    })
}

fn check_ast(check: builder::Check) -> ast::Check {
    ast::Check {
        queries: check.queries.into_iter().map(rule_ast).collect(),
        kind: match check.kind {
            builder::CheckKind::One => ast::CheckKind::One,
            builder::CheckKind::All => ast::CheckKind::All,
            builder::CheckKind::Reject => ast::CheckKind::Reject,
        },
    }
}

fn rule_ast(rule: builder::Rule) -> ast::Rule {
    ast::Rule::new(
        predicate_ast(rule.head),
        rule.body.into_iter().map(predicate_ast).collect(),
        rule.expressions
            .into_iter()
            .map(|e| ast::Expression { ops: e.ops.into_iter().map(op_ast).collect() })
            .collect(),
        rule.scopes.into_iter().map(scope_ast).collect(),
    )
}

fn predicate_ast(predicate: builder::Predicate) -> ast::Predicate {
    ast::Predicate::new(predicate.name, predicate.terms.into_iter().map(term_ast).collect::<Vec<_>>())
}

fn scope_ast(scope: builder::Scope) -> ast::Scope {
    match scope {
        builder::Scope::Authority => ast::Scope::Authority,
        builder::Scope::Previous => ast::Scope::Previous,
        builder::Scope::Parameter(name) => ast::Scope::Parameter(name),
        builder::Scope::PublicKey(key) => {
            let proto = key.to_proto();
            let algorithm = match proto.algorithm {
                0 => ast::Algorithm::Ed25519,
                _ => ast::Algorithm::Secp256r1,
            };
            ast::Scope::PublicKey(ast::PublicKey { key: proto.key, algorithm })
        }
    }
}

fn term_ast(term: builder::Term) -> ast::Term {
    match term {
        builder::Term::Variable(name) => ast::Term::Variable(name),
        builder::Term::Integer(number) => ast::Term::Integer(number),
        builder::Term::Str(text) => ast::Term::Str(text),
        builder::Term::Date(date) => ast::Term::Date(date),
        builder::Term::Bytes(bytes) => ast::Term::Bytes(bytes),
        builder::Term::Bool(value) => ast::Term::Bool(value),
        builder::Term::Set(terms) => ast::Term::Set(terms.into_iter().map(term_ast).collect()),
        builder::Term::Parameter(name) => ast::Term::Parameter(name),
        builder::Term::Null => ast::Term::Null,
        builder::Term::Array(terms) => ast::Term::Array(terms.into_iter().map(term_ast).collect()),
        builder::Term::Map(entries) => ast::Term::Map(
            entries
                .into_iter()
                .map(|(key, term)| {
                    let key = match key {
                        builder::MapKey::Integer(number) => ast::MapKey::Integer(number),
                        builder::MapKey::Str(text) => ast::MapKey::Str(text),
                        builder::MapKey::Parameter(name) => ast::MapKey::Parameter(name),
                    };
                    (key, term_ast(term))
                })
                .collect(),
        ),
    }
}

fn op_ast(op: builder::Op) -> ast::Op {
    match op {
        builder::Op::Value(term) => ast::Op::Value(term_ast(term)),
        builder::Op::Unary(unary) => ast::Op::Unary(unary_ast(unary)),
        builder::Op::Binary(binary) => ast::Op::Binary(binary_ast(binary)),
        builder::Op::Closure(params, ops) => ast::Op::Closure(params, ops.into_iter().map(op_ast).collect()),
    }
}

fn unary_ast(unary: builder::Unary) -> ast::Unary {
    match unary {
        builder::Unary::Negate => ast::Unary::Negate,
        builder::Unary::Parens => ast::Unary::Parens,
        builder::Unary::Length => ast::Unary::Length,
        builder::Unary::TypeOf => ast::Unary::TypeOf,
        builder::Unary::Ffi(name) => ast::Unary::Ffi(name),
    }
}

fn binary_ast(binary: builder::Binary) -> ast::Binary {
    macro_rules! same {
        ($($name:ident)*) => {
            match binary {
                $(builder::Binary::$name => ast::Binary::$name,)*
                builder::Binary::Ffi(name) => ast::Binary::Ffi(name),
            }
        };
    }
    same!(
        LessThan GreaterThan LessOrEqual GreaterOrEqual Equal Contains Prefix Suffix Regex Add Sub Mul Div And Or
        Intersection Union BitwiseAnd BitwiseOr BitwiseXor NotEqual HeterogeneousEqual HeterogeneousNotEqual
        LazyAnd LazyOr All Any Get TryOr
    )
}
