//! `kleis grant …` and `kleis spec …`

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::args::{GrantCommand, SpecCommand};
use super::context::Context;
use super::failure::Failure;
use super::service::{read_file, report, unknown};
use crate::config::Snapshot;
use crate::policy::grant::Fallback;
use crate::policy::lint::lint;
use crate::policy::spec::Gives;
use crate::policy::{Grant, Rulebook, Spec};
use crate::words::{FileErrors, GrantName, SpecName, format_duration};

/// Runs `kleis grant …`
pub fn run(context: &Context, command: GrantCommand) -> Result<(), Failure> {
    match command {
        GrantCommand::List => {
            list(context, &context.snapshot()?.grants.values().cloned().collect::<Vec<_>>());
            Ok(())
        }
        GrantCommand::Show { name } => {
            let snapshot = context.snapshot()?;
            let grant = find(&snapshot, &name)?;
            show_file(context, &grant.file)
        }
        GrantCommand::Check { files } => check(context, &files),
    }
}

/// Runs `kleis spec …`
pub fn run_spec(context: &Context, command: SpecCommand) -> Result<(), Failure> {
    match command {
        SpecCommand::List => {
            list_specs(context, &context.snapshot()?.specs.values().cloned().collect::<Vec<_>>());
            Ok(())
        }
        SpecCommand::Show { name } => {
            let snapshot = context.snapshot()?;
            let known = || snapshot.specs.keys().map(|name| name.as_str());
            let spec = snapshot.specs.get(name.as_str());
            let spec = spec.ok_or_else(|| unknown("spec", name.as_str(), known()))?;
            show_file(context, &spec.file)
        }
        SpecCommand::Check { files } => check_specs(context, &files),
    }
}

/// The shortest `max_lifetime` of these grants, and whose it is. All of them must exist.
pub fn ceiling(snapshot: &Snapshot, names: &[GrantName]) -> Result<Option<(GrantName, Duration)>, Failure> {
    let mut shortest: Option<(GrantName, Duration)> = None;
    for name in names {
        let grant = find(snapshot, name)?;
        if let Some(most) = grant.max_lifetime.filter(|most| shortest.as_ref().is_none_or(|(_, least)| most < least)) {
            shortest = Some((name.clone(), most));
        }
    }
    Ok(shortest)
}

fn find<'s>(snapshot: &'s Snapshot, name: &GrantName) -> Result<&'s Arc<Grant>, Failure> {
    let known = snapshot.grants.keys().map(|name| name.as_str());
    snapshot.grants.get(name.as_str()).ok_or_else(|| unknown("grant", name.as_str(), known))
}

fn credential(grant: &Grant) -> String {
    match &grant.fallback {
        Fallback::Credential(name) => name.to_string(),
        Fallback::Anonymous => "none (anonymous)".to_owned(),
        Fallback::Nothing => grant.credentials().iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn list(context: &Context, grants: &[Arc<Grant>]) {
    let lifetime = |grant: &Grant| grant.max_lifetime.map_or_else(String::new, format_duration);
    let rows: Vec<Vec<String>> = grants
        .iter()
        .map(|grant| {
            vec![
                grant.name.to_string(),
                grant.service.to_string(),
                credential(grant),
                lifetime(grant),
                grant.file.to_string(),
            ]
        })
        .collect();
    context.print(
        || match rows.is_empty() {
            true => "no grants: nothing is allowed; write config/grants/NAME.toml".to_owned(),
            false => context.terminal().table(&["GRANT", "SERVICE", "CREDENTIAL", "MAX LIFETIME", "FILE"], &rows),
        },
        || {
            let one = |grant: &Arc<Grant>| json!({"name": grant.name, "service": grant.service, "credential": credential(grant), "file": &*grant.file, "version": &*grant.version});
            json!({"grants": grants.iter().map(one).collect::<Vec<_>>()})
        },
    );
}

fn list_specs(context: &Context, specs: &[Arc<Spec>]) {
    let gives = |spec: &Spec| {
        let one = |gives: &Gives| match gives {
            Gives::Grant(name) => format!("grant {name}"),
            Gives::Allow(line) => line.to_string(),
        };
        spec.entries.iter().map(|entry| one(&entry.gives)).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = specs
        .iter()
        .map(|spec| {
            let about = spec.about.as_deref().unwrap_or_default().to_owned();
            vec![
                spec.name.to_string(),
                spec.ttl.map_or_else(String::new, format_duration),
                gives(spec).join("; "),
                about,
            ]
        })
        .collect();
    context.print(
        || match rows.is_empty() {
            true => "no specs: write config/specs/NAME.spec".to_owned(),
            false => context.terminal().table(&["SPEC", "TTL", "GIVES", "ABOUT"], &rows),
        },
        || {
            let one = |spec: &Arc<Spec>| json!({"name": spec.name, "about": spec.about.as_deref(), "gives": gives(spec), "file": &*spec.file, "version": &*spec.version});
            json!({"specs": specs.iter().map(one).collect::<Vec<_>>()})
        },
    );
}

/// A grant or spec is text, and its text says it best.
fn show_file(context: &Context, file: &str) -> Result<(), Failure> {
    let path = PathBuf::from(file);
    let text = read_file(&path)?;
    context.print(|| text.trim_end().to_owned(), || json!({"file": file, "text": text}));
    Ok(())
}

/// Reads files, then what bites in them. The services are those of the home.
fn check(context: &Context, files: &[PathBuf]) -> Result<(), Failure> {
    let snapshot = context.snapshot()?;
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    for path in files {
        let name = path.display().to_string();
        let grant = match Grant::parse(&read_file(path)?, &name) {
            Ok(grant) => grant,
            Err(found) => {
                add(&mut errors, &found);
                continue;
            }
        };
        let found = lint(&snapshot.catalog, &grant, &|predicate| may_be_stated(&snapshot, predicate));
        warnings.extend(found.iter().map(ToString::to_string));
        if let Err(found) = compile_with(&snapshot, Some(grant), None) {
            add(&mut errors, &found);
        }
    }
    report(context, files.len(), &errors, &warnings)
}

fn check_specs(context: &Context, files: &[PathBuf]) -> Result<(), Failure> {
    let snapshot = context.snapshot()?;
    let mut errors = Vec::new();
    for path in files {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = SpecName::parse(stem).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
        let spec = Spec::parse(name, &read_file(path)?, &path.display().to_string());
        if let Err(found) = spec.and_then(|spec| compile_with(&snapshot, None, Some(spec))) {
            add(&mut errors, &found);
        }
    }
    report(context, files.len(), &errors, &[])
}

/// Whether any issuer may state the predicate in a token.
fn may_be_stated(snapshot: &Snapshot, predicate: &str) -> bool {
    snapshot.config.issuers.iter().any(|issuer| issuer.may_state(predicate))
}

/// The home's policy with this file added, or in place of the one of its name.
fn compile_with(snapshot: &Snapshot, grant: Option<Grant>, spec: Option<Spec>) -> Result<(), FileErrors> {
    let mut grants: Vec<Grant> = snapshot.grants.values().map(|one| Grant::clone(one)).collect();
    let mut specs: Vec<Spec> = snapshot.specs.values().map(|one| Spec::clone(one)).collect();
    if let Some(grant) = grant {
        grants.retain(|one| one.name != grant.name);
        grants.push(grant);
    }
    if let Some(spec) = spec {
        specs.retain(|one| one.name != spec.name);
        specs.push(spec);
    }
    let stated = |predicate: &str| may_be_stated(snapshot, predicate);
    Rulebook::compile_knowing(&snapshot.catalog, grants, specs, snapshot.config.limits.policy, &stated).map(drop)
}

fn add(errors: &mut Vec<String>, found: &FileErrors) {
    errors.extend(found.0.iter().map(ToString::to_string));
}
