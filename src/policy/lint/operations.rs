//! Which operations a grant speaks of.

use std::collections::BTreeSet;

use super::Warnings;
use crate::policy::grant::Grant;
use crate::service::Service;
use crate::token::ast;
use crate::words::nearest;

/// Operations that a client asks for on the way to another one, with the fact that tells which way. Words
/// of the frozen vocabulary (DESIGN §6); a service that emits neither is not concerned.
const COMPANIONS: [(&str, &str, Option<&str>); 3] = [
    ("push", "discover", Some("git-receive-pack")),
    ("push", "push_probe", None),
    ("fetch", "discover", Some("git-upload-pack")),
];

/// Some operations, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Operations {
    All,
    These(BTreeSet<String>),
}

/// Warns of operations that no route emits.
pub(super) fn unknown(service: &Service, grant: &Grant, warnings: &mut Warnings) {
    let known = service.operations();
    let mut told = BTreeSet::new();
    for (body, place) in grant.datalog.bodies() {
        let Operations::These(named) = named_in(body) else { continue };
        for name in named {
            if !known.contains(name.as_str()) && told.insert((name.clone(), place)) {
                let near = nearest(&name, known.iter().map(AsRef::as_ref));
                let hint = near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default();
                warnings
                    .add(Some(place), format!("no route of `{}` emits the operation `{name}`{hint}", service.name()));
            }
        }
    }
}

/// Warns of an operation that is allowed without those that clients ask for first.
pub(super) fn companions(service: &Service, grant: &Grant, warnings: &mut Warnings) {
    let allowed = allowed(grant);
    let emits = |name: &str| service.operations().contains(name);
    for (operation, companion, which) in COMPANIONS {
        if !emits(operation) || !emits(companion) || !allowed.has(operation) {
            continue;
        }
        let reached = allowed.has(companion) && which.is_none_or(|which| speaks_of(grant, companion, which));
        if !reached {
            let which = which.map(|which| format!(" for `{which}`")).unwrap_or_default();
            let message =
                format!("`{operation}` is allowed and `{companion}`{which} is not: git asks for it first and fails");
            warnings.add(None, message);
        }
    }
}

impl Operations {
    fn has(&self, name: &str) -> bool {
        match self {
            Operations::All => true,
            Operations::These(names) => names.contains(name),
        }
    }

    fn and(self, other: Operations) -> Operations {
        match (self, other) {
            (Operations::All, some) | (some, Operations::All) => some,
            (Operations::These(a), Operations::These(b)) => Operations::These(a.intersection(&b).cloned().collect()),
        }
    }

    fn or(self, other: Operations) -> Operations {
        match (self, other) {
            (Operations::These(a), Operations::These(b)) => Operations::These(a.union(&b).cloned().collect()),
            _ => Operations::All,
        }
    }
}

/// What the policies and the checks together leave, as far as one sees without evaluating.
fn allowed(grant: &Grant) -> Operations {
    let none = || Operations::These(BTreeSet::new());
    let any_of = |queries: &[ast::Rule]| {
        queries.iter().fold(none(), |some, query| some.or(reached(grant, query, &mut Vec::new())))
    };
    let policies = grant.datalog.policies.iter().map(|policy| &policy.statement);
    let policies = policies.filter(|policy| policy.kind == ast::PolicyKind::Allow);
    let given = policies.fold(none(), |some, policy| some.or(any_of(&policy.queries)));
    let checks = grant.datalog.checks.iter().map(|check| &check.statement);
    let checks = checks.filter(|check| check.kind == ast::CheckKind::One);
    checks.fold(given, |some, check| some.and(any_of(&check.queries)))
}

/// The operations with which a body can hold: its own, and those of the rules that it builds on.
fn reached(grant: &Grant, body: &ast::Rule, within: &mut Vec<String>) -> Operations {
    let mut some = named_in(body);
    for atom in &body.body {
        let rules: Vec<&ast::Rule> =
            grant.datalog.rules.iter().map(|rule| &rule.statement).filter(|rule| rule.head.name == atom.name).collect();
        if rules.is_empty() || within.contains(&atom.name) {
            continue;
        }
        within.push(atom.name.clone());
        let derived =
            rules.iter().fold(Operations::These(BTreeSet::new()), |some, rule| some.or(reached(grant, rule, within)));
        within.pop();
        some = some.and(derived);
    }
    some
}

/// The operations that a body names itself.
fn named_in(body: &ast::Rule) -> Operations {
    let atoms = body.body.iter().filter(|atom| atom.name == "operation");
    atoms.filter_map(|atom| atom.terms.first()).fold(Operations::All, |some, term| match term {
        ast::Term::Str(name) => some.and(Operations::These([name.clone()].into())),
        ast::Term::Variable(variable) => some.and(compared(body, variable)),
        _ => some,
    })
}

/// What a variable is compared with: the strings of `$op == "a" || $op == "b"` and `["a", "b"].contains($op)`.
fn compared(body: &ast::Rule, variable: &str) -> Operations {
    let mut some = Operations::All;
    for expression in &body.expressions {
        let mut names = BTreeSet::new();
        // Anything else than comparisons of this variable alone says nothing that one can rely on.
        if comparisons(&expression.ops, variable, &mut names) && !names.is_empty() {
            some = some.and(Operations::These(names));
        }
    }
    some
}

/// Collects the strings if the expression is made of comparisons of this variable and nothing else.
fn comparisons(ops: &[ast::Op], variable: &str, names: &mut BTreeSet<String>) -> bool {
    ops.iter().all(|op| match op {
        ast::Op::Value(term) => strings(term, variable, names),
        ast::Op::Unary(unary) => matches!(unary, ast::Unary::Parens),
        ast::Op::Binary(binary) => matches!(
            binary,
            ast::Binary::Equal
                | ast::Binary::HeterogeneousEqual
                | ast::Binary::Contains
                | ast::Binary::Or
                | ast::Binary::LazyOr
        ),
        ast::Op::Closure(parameters, inner) => parameters.is_empty() && comparisons(inner, variable, names),
    })
}

fn strings(term: &ast::Term, variable: &str, names: &mut BTreeSet<String>) -> bool {
    match term {
        ast::Term::Str(text) => {
            names.insert(text.clone());
            true
        }
        ast::Term::Variable(name) => name == variable,
        ast::Term::Set(terms) => terms.iter().all(|term| strings(term, variable, names)),
        ast::Term::Array(terms) => terms.iter().all(|term| strings(term, variable, names)),
        _ => false,
    }
}

/// Whether some body that has the operation leaves `discover_service` open, or names this one.
fn speaks_of(grant: &Grant, operation: &str, which: &str) -> bool {
    grant.datalog.bodies().filter(|(body, _)| named_in(body).has(operation)).any(|(body, _)| {
        let mut named = body.body.iter().filter(|atom| atom.name == "discover_service").flat_map(|atom| &atom.terms);
        named.all(|term| !matches!(term, ast::Term::Str(text) if text != which))
    })
}
