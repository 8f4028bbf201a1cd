//! `kleis check` and `kleis test`: what the policy says, without a proxy.
//!
//! Requests are read and judged by the proxy's own code; a token is made on the spot where none is given.

use std::path::{Path, PathBuf};

use rand::rngs::OsRng;
use serde_json::{Value, json};

use super::args::Check;
use super::context::Context;
use super::failure::Failure;
use super::service::read_file;
use super::terminal::{Style, Terminal, visible};
use crate::config::Snapshot;
use crate::facts::{Fact, RequestFacts};
use crate::policy::cases::{CaseFile, CaseResult, Described, Judged, Report, Setting, judge, run};
use crate::policy::{Accounts, Candidate, CredentialChoice, DecidedItem, Decision, Denial, Permit};
use crate::token::{Candidates, Claims, RootKeys, VerifiedToken, mint, parse_facts, print_fact, verify};
use crate::words::{Authority, CredentialName, ServiceName};

/// Runs `kleis check`.
pub fn check(context: &Context, arguments: &Check) -> Result<(), Failure> {
    let snapshot = context.snapshot()?;
    let request = described(arguments)?;
    let token = token(context, &snapshot, arguments)?;
    let accounts = Accounts::new(known(&snapshot));
    let passes = |authority: &Authority| snapshot.config.passes(authority);
    let setting = Setting {
        rulebook: &snapshot.rulebook,
        accounts: &accounts,
        account: None,
        passes: &passes,
        max_body: usize::try_from(snapshot.config.limits.max_body).unwrap_or(usize::MAX),
        now: context.now(),
        all_facts: arguments.show_facts,
    };
    let judged = judge(&setting, &token, &request);
    let facts = judged.facts.as_ref().filter(|_| arguments.show_facts).map(listed);
    let text = || {
        let told = explain(context.terminal(), &judged.decision, arguments.explain);
        facts.iter().flatten().map(|fact| format!("{};\n", visible(fact))).collect::<String>() + &told
    };
    context.print(text, || {
        let mut told = as_json(&judged.decision);
        if let (Some(facts), Value::Object(fields)) = (&facts, &mut told) {
            fields.insert("facts".to_owned(), json!(facts));
        }
        told
    });
    match judged.decision {
        Decision::Permit(_) => Ok(()),
        _ => Err(Failure::No(String::new())),
    }
}

/// The request of the command line.
fn described(arguments: &Check) -> Result<Described, Failure> {
    let mut request = Described::parse(&arguments.method, &arguments.url).map_err(Failure::usage)?;
    for line in &arguments.headers {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| Failure::Usage(format!("`{}` is not a header: use `name: value`", visible(line))))?;
        request.header(name.trim(), value.trim()).map_err(Failure::usage)?;
    }
    if let Some(body) = &arguments.body {
        let bytes = match body.strip_prefix('@') {
            Some(path) => {
                std::fs::read(path).map_err(|error| Failure::Usage(format!("can't read `{path}`: {error}")))?
            }
            None => body.clone().into_bytes(),
        };
        let media = request.headers.iter().find(|(name, _)| name == "content-type");
        let media = media.map(|(_, value)| String::from_utf8_lossy(value).into_owned());
        request.headers.retain(|(name, _)| name != "content-type");
        request.body(&media.unwrap_or_else(|| "application/json".to_owned()), bytes);
    }
    Ok(request)
}

/// The token that is given, or one made on the spot for the grants or the spec.
fn token(context: &Context, snapshot: &Snapshot, arguments: &Check) -> Result<VerifiedToken, Failure> {
    if let Some(source) = &arguments.token {
        let raw = super::token::read(source)?;
        let keys = context.root_keys();
        let keys = keys.ok_or_else(|| Failure::Outside("this home has no root key that you may read".to_owned()))?;
        return verify(raw.as_str(), &keys).map_err(Failure::usage);
    }
    let candidates = match &arguments.spec {
        Some(spec) if !snapshot.specs.contains_key(spec.as_str()) => {
            let known = snapshot.specs.keys().map(|name| name.as_str());
            return Err(super::service::unknown("spec", spec.as_str(), known));
        }
        Some(spec) => Candidates::Spec(spec.clone()),
        None if arguments.grant.is_empty() => {
            return Err(Failure::Usage("as whom? give --token, --grant or --spec".to_owned()));
        }
        None => {
            super::grant::ceiling(snapshot, &arguments.grant)?;
            Candidates::Grants(arguments.grant.clone())
        }
    };
    let mut facts = Vec::new();
    for text in &arguments.facts {
        facts.extend(parse_facts(text).map_err(Failure::usage)?);
    }
    let claims = Claims {
        candidates,
        bearer: "kleis:check".to_owned(),
        issued_by: None,
        facts,
        expires: context.now() + 3600,
        narrowings: Vec::new(),
        checks: Vec::new(),
    };
    let keys = RootKeys::generate(&mut OsRng);
    let minted = mint(&keys, &claims, &mut OsRng).map_err(Failure::usage)?;
    verify(minted.token.as_str(), &keys).map_err(Failure::usage)
}

/// The credentials that files name: those of the store are behind the daemon, and names are enough here.
fn known(snapshot: &Snapshot) -> Vec<(ServiceName, CredentialName)> {
    let declared = snapshot.declared.iter().map(|one| (one.service.clone(), one.name.clone()));
    let granted = snapshot.grants.values().flat_map(|grant| {
        grant.credentials().into_iter().cloned().map(|name| (grant.service.clone(), name)).collect::<Vec<_>>()
    });
    declared.chain(granted).collect()
}

fn listed(facts: &RequestFacts) -> Vec<String> {
    let body = match &facts.body {
        crate::facts::Body::Decoded(tree) => crate::facts::body_nodes(tree)
            .map(|(path, value)| Fact::new("body", vec![crate::facts::Term::Array(path.into()), value]))
            .collect(),
        _ => Vec::new(),
    };
    let items = facts.items.iter().flat_map(|item| &item.facts);
    facts.shared.iter().chain(&body).chain(items).map(print_fact).collect()
}

/// A decision for people; `whole` adds how it came about.
fn explain(terminal: Terminal, decision: &Decision, whole: bool) -> String {
    match decision {
        Decision::Permit(permit) => allowed(terminal, permit, whole),
        Decision::Denial(denial) => denied(terminal, denial, whole),
    }
}

fn allowed(terminal: Terminal, permit: &Permit, whole: bool) -> String {
    let mut lines = vec![terminal.paint(Style::Good, "allowed")];
    lines.push(format!("by          {}", candidate(permit.candidate())));
    lines.push(match permit.credential() {
        CredentialChoice::Named(name) => format!("credential  {name}"),
        CredentialChoice::Anonymous => "credential  none".to_owned(),
    });
    if whole {
        lines.extend(permit.items().iter().map(|item| format!("meant       {}", meaning(item))));
        lines.push(format!("work        {} rows", permit.fuel()));
    }
    lines.join("\n")
}

fn denied(terminal: Terminal, denial: &Denial, whole: bool) -> String {
    let mut lines = vec![terminal.paint(Style::Bad, &format!("refused: {}", denial.reason.code()))];
    lines.push(visible(&denial.message));
    lines.extend(denial.failed.iter().map(|check| format!("failed      {}", visible(&check.text))));
    if whole {
        lines.extend(denial.candidate.iter().map(|one| format!("tried       {}", candidate(one))));
        for (index, item) in denial.items.iter().enumerate() {
            let mark = if denial.failed_item == Some(index) { " <- not allowed" } else { "" };
            lines.push(format!("meant       {}{mark}", meaning(item)));
        }
        lines.extend(denial.closest.iter().map(|closest| format!("closest     {}", visible(closest))));
        lines.push(format!("work        {} rows", denial.fuel));
    }
    lines.join("\n")
}

fn candidate(candidate: &Candidate) -> String {
    match candidate {
        Candidate::Grant { name, version } => format!("grant {name} ({version})"),
        Candidate::SpecLine { spec, line, version } => format!("spec {spec}, line {line} ({version})"),
        Candidate::Passthrough => "passthrough".to_owned(),
    }
}

fn meaning(item: &DecidedItem) -> String {
    let operation = item.operation.as_deref().unwrap_or("no operation");
    let resources: Vec<String> = item.resources.iter().map(|fact| visible(&print_fact(fact))).collect();
    format!("{} {}", visible(operation), resources.join(", ")).trim_end().to_owned()
}

fn as_json(decision: &Decision) -> Value {
    match decision {
        Decision::Permit(permit) => json!({
            "decision": "allow", "by": candidate(permit.candidate()), "fuel": permit.fuel(),
            "credential": match permit.credential() {
                CredentialChoice::Named(name) => Some(name.as_str()),
                CredentialChoice::Anonymous => None,
            },
            "items": permit.items().iter().map(meaning).collect::<Vec<_>>(),
        }),
        Decision::Denial(denial) => json!({
            "decision": "deny", "reason": denial.reason.code(), "message": denial.message, "fuel": denial.fuel,
            "by": denial.candidate.as_ref().map(candidate), "closest": denial.closest,
            "failed": denial.failed.iter().map(|check| &check.text).collect::<Vec<_>>(),
            "items": denial.items.iter().map(meaning).collect::<Vec<_>>(), "failed_item": denial.failed_item,
        }),
    }
}

/// Runs `kleis test`.
pub fn test(context: &Context, files: &[PathBuf]) -> Result<(), Failure> {
    let snapshot = context.snapshot()?;
    let mut reports = Vec::new();
    for path in files {
        reports.push((path.as_path(), run_file(context, &snapshot, path)?));
    }
    let passed: usize = reports.iter().map(|(_, report)| report.passed()).sum();
    let failed: usize = reports.iter().map(|(_, report)| report.failed()).sum();
    context.print(
        || {
            let terminal = context.terminal();
            let mut lines: Vec<String> = reports.iter().flat_map(|(path, report)| told(terminal, path, report)).collect();
            let style = if failed == 0 { Style::Good } else { Style::Bad };
            lines.push(terminal.paint(style, &format!("{passed} passed, {failed} failed")));
            lines.join("\n")
        },
        || {
            let one = |path: &Path, result: &CaseResult| json!({"file": path, "line": result.case.place.line, "name": result.case.name, "passed": result.problem.is_none(), "problem": result.problem});
            let all = reports.iter().flat_map(|(path, report)| report.results.iter().map(|result| one(path, result)));
            json!({"passed": passed, "failed": failed, "cases": all.collect::<Vec<_>>()})
        },
    );
    if failed == 0 { Ok(()) } else { Err(Failure::No(String::new())) }
}

fn run_file(context: &Context, snapshot: &Snapshot, path: &Path) -> Result<Report, Failure> {
    let file = CaseFile::parse(&read_file(path)?, &path.display().to_string())?;
    let passes = |authority: &Authority| snapshot.config.passes(authority);
    run(&file, &snapshot.rulebook, known(snapshot), &passes, context.now(), &mut OsRng).map_err(Failure::usage)
}

/// A line for each case, and what is wrong behind those that failed.
fn told(terminal: Terminal, path: &Path, report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for result in &report.results {
        let name = visible(&result.case.name);
        match &result.problem {
            None => lines.push(format!("{} {name}", terminal.paint(Style::Good, "ok  "))),
            Some(problem) => {
                lines.push(format!("{} {name}", terminal.paint(Style::Bad, "FAIL")));
                lines.push(format!("     {}:{}: {}", path.display(), result.case.place.line, visible(problem)));
                let Judged { decision, .. } = &result.judged;
                lines.extend(explain(terminal, decision, true).lines().map(|line| format!("     {line}")));
            }
        }
    }
    lines
}
