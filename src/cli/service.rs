//! `kleis service …`

use std::path::{Path, PathBuf};

use serde_json::json;

use super::args::ServiceCommand;
use super::context::Context;
use super::failure::Failure;
use super::terminal::Style;
use crate::service::{Catalog, Service};

/// Runs one.
pub fn run(context: &Context, command: ServiceCommand) -> Result<(), Failure> {
    match command {
        ServiceCommand::List => {
            list(context, &context.snapshot()?.catalog);
            Ok(())
        }
        ServiceCommand::Show { name, source } => {
            let snapshot = context.snapshot()?;
            let known = || snapshot.catalog.iter().map(|one| one.name().as_str());
            let service =
                snapshot.catalog.get(name.as_str()).ok_or_else(|| unknown("service", name.as_str(), known()))?;
            if source { print_source(service) } else { show(context, service) }
        }
        ServiceCommand::Check { files } => check(context, &files),
    }
}

/// "there is no …", with the nearest that there is.
pub fn unknown<'a>(what: &str, given: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let known: Vec<&str> = known.collect();
    let hint = match crate::words::nearest(given, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "there are none yet".to_owned(),
        None => format!("known are {}", known.join(", ")),
    };
    Failure::Usage(format!("there is no {what} `{given}`: {hint}"))
}

/// Reads a file that an operator names.
pub fn read_file(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::Usage(format!("can't read `{}`: {error}", path.display())))
}

fn hosts(service: &Service) -> String {
    service.hosts().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn list(context: &Context, catalog: &Catalog) {
    let rows: Vec<Vec<String>> = catalog
        .iter()
        .map(|service| vec![service.name().to_string(), hosts(service), service.about().to_owned()])
        .collect();
    let all = || {
        catalog.iter().map(|service| json!({"name": service.name(), "hosts": service.hosts().iter().map(ToString::to_string).collect::<Vec<_>>(), "about": service.about()})).collect::<Vec<_>>()
    };
    context.print(|| context.terminal().table(&["SERVICE", "HOSTS", "ABOUT"], &rows), || json!({"services": all()}));
}

/// A manifest as it is written: embedded, or in its file.
fn print_source(service: &Service) -> Result<(), Failure> {
    let embedded = Catalog::EMBEDDED.iter().find(|(file, _)| *file == service.file());
    match embedded {
        Some((_, text)) => print!("{text}"),
        None => print!("{}", read_file(Path::new(service.file()))?),
    }
    Ok(())
}

fn show(context: &Context, service: &Service) -> Result<(), Failure> {
    let verbs: Vec<Vec<String>> = service
        .verbs()
        .iter()
        .map(|verb| {
            let operations: Vec<&str> = verb.operations().iter().map(|one| &*one.operation).collect();
            vec![verb.name().to_string(), operations.join(", "), verb.about().to_owned()]
        })
        .collect();
    let selectors: Vec<Vec<String>> = service
        .selectors()
        .iter()
        .map(|one| vec![one.name().to_string(), one.predicate().to_string(), one.about().to_owned()])
        .collect();
    let secrets: Vec<String> = service.credential_hosts().iter().map(ToString::to_string).collect();
    context.print(
        || {
            let terminal = context.terminal();
            let mut parts = vec![
                format!("{}  {}", terminal.paint(Style::Bold, service.name().as_str()), service.about()),
                format!("hosts           {}", hosts(service)),
                format!("secrets go to   {}", if secrets.is_empty() { "nowhere".to_owned() } else { secrets.join(", ") }),
                format!("file            {} ({})", service.file(), service.version()),
            ];
            if !verbs.is_empty() {
                parts.push(String::new());
                parts.push(terminal.table(&["VERB", "OPERATIONS", "ABOUT"], &verbs));
            }
            if !selectors.is_empty() {
                parts.push(String::new());
                parts.push(terminal.table(&["SELECTOR", "PREDICATE", "ABOUT"], &selectors));
            }
            parts.join("\n")
        },
        || {
            json!({
                "name": service.name(), "about": service.about(), "file": service.file(), "version": &**service.version(),
                "hosts": service.hosts().iter().map(ToString::to_string).collect::<Vec<_>>(),
                "credential_hosts": secrets,
                "operations": service.operations().iter().map(|one| &**one).collect::<Vec<_>>(),
                "verbs": service.verbs().iter().map(|verb| json!({"name": &**verb.name(), "about": verb.about(), "operations": verb.operations().iter().map(|one| &*one.operation).collect::<Vec<_>>()})).collect::<Vec<_>>(),
                "selectors": service.selectors().iter().map(|one| json!({"name": &**one.name(), "predicate": &**one.predicate(), "about": one.about()})).collect::<Vec<_>>(),
            })
        },
    );
    Ok(())
}

fn check(context: &Context, files: &[PathBuf]) -> Result<(), Failure> {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    for path in files {
        let name = path.display().to_string();
        match Service::parse(&read_file(path)?, &name) {
            Ok(service) => warnings.extend(service.warnings().iter().map(|warning| format!("{name}: {warning}"))),
            Err(found) => errors.extend(found.0.iter().map(ToString::to_string)),
        }
    }
    report(context, files.len(), &errors, &warnings)
}

/// The end of a `check`: errors, warnings, or a word that all is well.
pub fn report(context: &Context, files: usize, errors: &[String], warnings: &[String]) -> Result<(), Failure> {
    context.print(
        || {
            let terminal = context.terminal();
            let mut lines: Vec<String> =
                errors.iter().map(|error| format!("{} {error}", terminal.paint(Style::Bad, "error"))).collect();
            lines.extend(warnings.iter().map(|text| format!("{} {text}", terminal.paint(Style::Warn, "warning"))));
            if errors.is_empty() {
                let many = if files == 1 { "file is".to_owned() } else { "files are".to_owned() };
                lines.push(terminal.paint(Style::Good, &format!("{files} {many} good")));
            }
            lines.join("\n")
        },
        || json!({"files": files, "errors": errors, "warnings": warnings}),
    );
    if errors.is_empty() { Ok(()) } else { Err(Failure::Usage(String::new())) }
}
