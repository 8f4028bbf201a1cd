//! Datalog as text for people, escaped so that no string can pretend to be something else.

use super::ast;
use crate::facts::{Fact, Term};

/// A fact: `task_fork("o", "r")`.
pub fn print_fact(fact: &Fact) -> String {
    todo!("{fact:?}")
}

/// A term.
pub fn print_term(term: &Term) -> String {
    todo!("{term:?}")
}

/// A check: `check if time($t), $t < 2026-12-01T00:00:00Z`.
pub fn print_check(check: &ast::Check) -> String {
    todo!("{check:?}")
}

/// A rule: `a($x) <- b($x), $x > 2`.
pub fn print_rule(rule: &ast::Rule) -> String {
    todo!("{rule:?}")
}
