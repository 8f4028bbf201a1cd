//! `kleis audit …`: reads the files, changes nothing, needs no daemon.

use std::io::Write;

use serde_json::{Value, json};

use super::args::AuditCommand;
use super::context::Context;
use super::failure::Failure;
use super::terminal::{Style, visible};
use crate::audit;

/// Runs one.
pub async fn run(context: &Context, command: AuditCommand) -> Result<(), Failure> {
    let dir = context.home()?.data_dir().join("audit");
    match command {
        AuditCommand::Tail { lines, follow } => {
            let entries = audit::tail(&dir, lines).map_err(Failure::outside)?;
            entries.iter().for_each(|line| print(context, line));
            if follow { go_on(context, &dir, entries.last()).await } else { Ok(()) }
        }
        AuditCommand::Show { request_id } => {
            let entries = audit::show(&dir, &request_id).map_err(Failure::outside)?;
            if entries.is_empty() {
                return Err(Failure::No(format!("no entry of request `{request_id}` in `{}`", dir.display())));
            }
            entries.iter().for_each(|line| print_whole(context, line));
            Ok(())
        }
        AuditCommand::Verify => verify(context, &dir).await,
    }
}

async fn verify(context: &Context, dir: &std::path::Path) -> Result<(), Failure> {
    let head = context.audit_head().await?;
    let found = audit::verify(dir, head.as_ref()).map_err(Failure::outside)?;
    context.print(
        || {
            let count = format!("{} entries in {} files", found.entries, found.files);
            if found.is_whole() {
                return context.terminal().paint(Style::Good, &format!("whole: {count}"));
            }
            let mut lines = vec![context.terminal().paint(Style::Bad, &format!("NOT whole: {count}"))];
            lines.extend(found.findings.iter().map(|finding| {
                let line = finding.line.map_or_else(String::new, |line| format!(":{line}"));
                format!("  {}{line}: {}", visible(&finding.file), visible(&finding.what))
            }));
            lines.join("\n")
        },
        || json!(found),
    );
    if found.is_whole() { Ok(()) } else { Err(Failure::No(String::new())) }
}

/// Prints new entries as they come. Polls: the files belong to another process.
async fn go_on(context: &Context, dir: &std::path::Path, last: Option<&String>) -> Result<(), Failure> {
    let seq = |line: &String| serde_json::from_str::<Value>(line).ok().and_then(|entry| entry.get("seq")?.as_u64());
    let mut seen = last.and_then(seq);
    loop {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let entries = audit::tail(dir, 1000).map_err(Failure::outside)?;
        for line in entries.iter().filter(|line| seq(line) > seen) {
            print(context, line);
        }
        seen = entries.last().and_then(seq).or(seen);
        let _ = std::io::stdout().flush();
    }
}

/// One entry on one line.
fn print(context: &Context, line: &str) {
    if context.wants_json() {
        say!("{line}");
        return;
    }
    let Ok(entry) = serde_json::from_str::<Value>(line) else {
        say!("{}", visible(line));
        return;
    };
    let field = |name: &str| match entry.get(name) {
        Some(Value::String(text)) => visible(text),
        None | Some(Value::Null) => String::new(),
        Some(other) => visible(&other.to_string()),
    };
    let decision = match field("decision").as_str() {
        "allow" => context.terminal().paint(Style::Good, "allow"),
        "deny" => context.terminal().paint(Style::Bad, &format!("deny {}", field("reason"))),
        other => other.to_owned(),
    };
    let what = [field("method"), field("authority"), field("path"), field("action"), field("status")];
    let what: Vec<String> = what.into_iter().filter(|text| !text.is_empty()).collect();
    say!(
        "{}  {:<8} {decision} {} {} {}",
        field("time"),
        field("kind"),
        what.join(" "),
        context.terminal().paint(Style::Dim, &field("bearer")),
        context.terminal().paint(Style::Dim, &field("request_id")),
    );
}

/// One entry with all of its fields.
fn print_whole(context: &Context, line: &str) {
    match serde_json::from_str::<Value>(line) {
        Ok(entry) if !context.wants_json() => {
            let text = serde_json::to_string_pretty(&entry).unwrap_or_default();
            text.lines().for_each(|line| say!("{}", visible(line)));
        }
        _ => say!("{line}"),
    }
}
