//! A decision as text for people and as JSON for programs: `kleis check`, `kleis explain`.

use std::fmt;

use serde::Serialize;

use super::{Candidate, CredentialChoice, DecidedItem, Decision, FailedCheck, Narrowing, Origin};
use crate::token::{print_fact, printable};

/// What was decided and why. Holds no secret: only names, facts and datalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// `allow` or `deny`.
    pub decision: &'static str,
    /// The reason code of a denial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// What the client is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `grant NAME` or `spec NAME, line 3`: what allowed it, or came furthest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// The version of its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The credential that would be spent, or `anonymous`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// What the provider would be asked for: repositories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repositories: Option<Vec<String>>,
    /// What the provider would be asked for: `contents: write`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
    /// What the request means.
    pub items: Vec<ExplainedItem>,
    /// Which of them was not allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_item: Option<usize>,
    /// Checks that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<ExplainedCheck>,
    /// The rule that came closest, and what was missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closest: Option<String>,
    /// Work, in candidate rows.
    pub fuel: u64,
}

/// An item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedItem {
    /// Its operation.
    pub operation: Option<String>,
    /// What it is about, as datalog.
    pub resources: Vec<String>,
}

/// A check that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedCheck {
    /// `policy`, `token`, or `block 2` for what was appended.
    pub origin: String,
    /// As datalog.
    pub text: String,
}

/// Explains a decision.
pub fn explain(decision: &Decision) -> Explanation {
    match decision {
        Decision::Permit(permit) => {
            let (candidate, version) = describe(permit.candidate());
            let Narrowing { repositories, permissions, .. } = permit.narrowing();
            Explanation {
                decision: "allow",
                reason: None,
                message: None,
                candidate: Some(candidate),
                version,
                credential: Some(match permit.credential() {
                    CredentialChoice::Named(name) => name.to_string(),
                    CredentialChoice::Anonymous => "anonymous".to_owned(),
                }),
                repositories: repositories.as_ref().map(|list| list.iter().map(|name| printable(name)).collect()),
                permissions: permissions.iter().map(|(name, access)| format!("{name}: {access}")).collect(),
                items: permit.items().iter().map(item).collect(),
                failed_item: None,
                failed: Vec::new(),
                closest: None,
                fuel: permit.fuel(),
            }
        }
        Decision::Denial(denial) => {
            let (candidate, version) = denial.candidate.as_ref().map(describe).unzip();
            Explanation {
                decision: "deny",
                reason: Some(denial.reason.code()),
                message: Some(denial.message.clone()),
                candidate,
                version: version.flatten(),
                credential: None,
                repositories: None,
                permissions: Vec::new(),
                items: denial.items.iter().map(item).collect(),
                failed_item: denial.failed_item,
                failed: denial.failed.iter().map(check).collect(),
                closest: denial.closest.clone(),
                fuel: denial.fuel,
            }
        }
    }
}

fn describe(candidate: &Candidate) -> (String, Option<String>) {
    match candidate {
        Candidate::Grant { name, version } => (format!("grant {name}"), Some(version.to_string())),
        Candidate::SpecLine { spec, line, version } => (format!("spec {spec}, line {line}"), Some(version.to_string())),
        Candidate::Passthrough => ("passthrough".to_owned(), None),
    }
}

fn item(item: &DecidedItem) -> ExplainedItem {
    ExplainedItem {
        operation: item.operation.as_deref().map(printable),
        resources: item.resources.iter().map(print_fact).collect(),
    }
}

fn check(check: &FailedCheck) -> ExplainedCheck {
    let origin = match check.origin {
        Origin::Authorizer => "policy".to_owned(),
        Origin::Block(0) => "token".to_owned(),
        Origin::Block(block) => format!("block {block}"),
    };
    ExplainedCheck { origin, text: check.text.clone() }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.decision)?;
        if let Some(reason) = self.reason {
            write!(f, " ({reason})")?;
        }
        if let Some(candidate) = &self.candidate {
            write!(f, " by {candidate}")?;
        }
        if let Some(credential) = &self.credential {
            write!(f, ", with {credential}")?;
        }
        writeln!(f)?;
        if let Some(message) = &self.message {
            writeln!(f, "  {message}")?;
        }
        for (index, item) in self.items.iter().enumerate() {
            let mark = if self.failed_item == Some(index) { "✗" } else { "·" };
            let operation = item.operation.as_deref().unwrap_or("(no operation)");
            writeln!(f, "  {mark} {operation} {}", item.resources.join(" "))?;
        }
        for check in &self.failed {
            writeln!(f, "  failed, {}: {}", check.origin, check.text)?;
        }
        if let Some(closest) = &self.closest {
            writeln!(f, "  closest: {closest}")?;
        }
        if let Some(repositories) = &self.repositories {
            writeln!(f, "  narrowed to: {}", repositories.join(", "))?;
        }
        if !self.permissions.is_empty() {
            writeln!(f, "  permissions: {}", self.permissions.join(", "))?;
        }
        write!(f, "  work: {} rows", self.fuel)
    }
}
