//! `kleis explain ID`: why a request was decided so, from what the audit keeps of it.

use serde_json::{Value, json};

use super::context::Context;
use super::failure::Failure;
use super::terminal::{Style, visible};
use crate::audit;

/// Runs it.
pub fn run(context: &Context, request_id: &str) -> Result<(), Failure> {
    let dir = context.home()?.data_dir().join("audit");
    let lines = audit::show(&dir, request_id).map_err(Failure::outside)?;
    let entries: Vec<Value> = lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let decision = entries.iter().find(|entry| entry.get("kind").is_some_and(|kind| kind == "decision"));
    let Some(decision) = decision else {
        let text = format!(
            "no decision about request `{request_id}` in `{}`: ids are in refusals and in `kleis audit tail`",
            dir.display()
        );
        return Err(Failure::No(text));
    };
    let outcome = entries.iter().find(|entry| entry.get("kind").is_some_and(|kind| kind == "outcome"));
    context.print(|| story(context, decision, outcome), || json!({"decision": decision, "outcome": outcome}));
    Ok(())
}

/// A decision in sentences.
fn story(context: &Context, decision: &Value, outcome: Option<&Value>) -> String {
    let terminal = context.terminal();
    let field = |name: &str| decision.get(name).map(plain).filter(|text| !text.is_empty());
    let allowed = field("decision").as_deref() == Some("allow");
    let mut lines = vec![match allowed {
        true => terminal.paint(Style::Good, "allowed"),
        false => terminal.paint(Style::Bad, &format!("refused: {}", field("reason").unwrap_or_default())),
    }];
    let request = ["method", "authority", "path"].iter().filter_map(|name| field(name)).collect::<Vec<_>>().join(" ");
    let mut told = vec![
        ("request", Some(request)),
        ("time", field("time")),
        ("bearer", field("bearer")),
        ("service", field("service")),
        (
            "decided by",
            field("grant")
                .or_else(|| field("spec"))
                .map(|name| format!("{name} {}", field("version").unwrap_or_default())),
        ),
        ("credential", field("credential")),
        ("closest rule", field("closest")),
        ("cause", field("cause")),
    ];
    if let Some(outcome) = outcome {
        told.push(("answer", outcome.get("status").map(plain)));
        told.push(("came to", outcome.get("reason").map(plain).filter(|text| !text.is_empty())));
    }
    lines.extend(told.into_iter().filter_map(|(name, text)| Some(format!("{name:<13} {}", text?))));
    lines.extend(items(decision));
    if let Some(Value::Array(failed)) = decision.get("failed_checks").or_else(|| decision.get("failed")) {
        lines.extend(failed.iter().map(|check| format!("{:<13} {}", "failed check", plain(check))));
    }
    lines.join("\n")
}

/// Each item on a line.
fn items(decision: &Value) -> Vec<String> {
    let Some(Value::Array(items)) = decision.get("items") else { return Vec::new() };
    items.iter().map(|item| format!("{:<13} {}", "meant", plain(item))).collect()
}

/// A value as text, safe for a terminal.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => visible(text),
        Value::Array(parts) => parts.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let pair = |(key, value): (&String, &Value)| format!("{}: {}", visible(key), plain(value));
            fields.iter().map(pair).collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    }
}
