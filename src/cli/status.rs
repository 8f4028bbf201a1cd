//! `kleis status`: what the daemon says of itself.

use serde_json::{Value, json};

use super::context::Context;
use super::failure::Failure;
use super::terminal::{Style, visible};

/// Runs it.
pub async fn run(context: &Context) -> Result<(), Failure> {
    let Some(control) = context.control().await? else {
        let home = context.home()?;
        let said = format!("no daemon runs on `{}`: start `kleisd`", home.data_dir().display());
        if context.wants_json() {
            say!("{}", json!({"running": false}));
            return Err(Failure::Outside(String::new()));
        }
        return Err(Failure::Outside(said));
    };
    let status = control.status().await?;
    context.print(|| describe(context, &status), || status.clone());
    Ok(())
}

/// For people. Fields that a daemon of another version doesn't have are left out.
fn describe(context: &Context, status: &Value) -> String {
    let terminal = context.terminal();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), visible);
    let mut lines = Vec::new();
    if let Some(version) = status.get("version") {
        let pid = status.get("pid").map(&text).unwrap_or_default();
        lines.push(terminal.paint(Style::Good, &format!("kleisd {} runs, pid {pid}", text(version))));
    }
    if let Some(Value::Array(listeners)) = status.get("listeners") {
        lines.extend(listeners.iter().map(|one| format!("listens         {}", text(one))));
    }
    if let Some(config) = status.get("config") {
        let generation = config.get("generation").map(&text).unwrap_or_default();
        lines.push(format!("configuration   generation {generation}"));
        if let Some(error) = config.get("error").filter(|error| !error.is_null()) {
            lines.push(
                terminal.paint(Style::Bad, "                the last reload FAILED, the one before is in force:"),
            );
            lines.extend(text(error).split("\\u{a}").map(|line| format!("                {line}")));
        }
    }
    for (key, label) in
        [("ca_days_left", "CA, days left"), ("tunnels", "open tunnels"), ("tokens_cached", "tokens cached")]
    {
        if let Some(value) = status.get(key) {
            lines.push(format!("{label:<15} {}", text(value)));
        }
    }
    if let Some(Value::Array(credentials)) = status.get("credentials") {
        let cell = |one: &Value, key: &str| one.get(key).map(&text).unwrap_or_default();
        let row = |one: &Value| ["name", "service", "provider", "state"].iter().map(|key| cell(one, key)).collect();
        let rows: Vec<Vec<String>> = credentials.iter().map(row).collect();
        lines.push(String::new());
        lines.push(terminal.table(&["CREDENTIAL", "SERVICE", "PROVIDER", "STATE"], &rows));
    }
    lines.join("\n")
}
