//! Datalog that people write on a command line: `--fact` and `--check`.

use super::ast;
use crate::facts::Fact;

/// Why a text is not the datalog that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// What is wrong, with the text in backticks and what would be accepted.
    pub message: String,
}

/// Parses facts: `task_fork("o", "r")`, several separated by `;`. No rules, no checks, no variables.
pub fn parse_facts(text: &str) -> Result<Vec<Fact>, SourceError> {
    todo!("{text}")
}

/// Parses one check: `check if …`, `check all …` or `reject if …`. Nothing else is accepted, so that an
/// attenuation can't state facts.
pub fn parse_check(text: &str) -> Result<ast::Check, SourceError> {
    todo!("{text}")
}
