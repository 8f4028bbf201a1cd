//! `kleis init`: a home that kleisd starts on, and what to do next.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::json;

use super::context::Context;
use super::failure::Failure;
use super::terminal::Style;
use crate::ca::Ca;

/// A first `config.toml`: every default, commented, so that reading it is the manual.
const CONFIG: &str = include_str!("init/config.toml");

/// A first grant, commented out: nothing is allowed until somebody says so.
const GRANT: &str = include_str!("init/grant.toml");

/// Runs it. What is there already is left as it is.
pub async fn run(context: &Context) -> Result<(), Failure> {
    let home = context.home()?;
    home.create().map_err(Failure::outside)?;
    let mut made = Vec::new();
    for (path, content) in [(home.config_file(), CONFIG), (home.folder("grants").join("example.toml.off"), GRANT)] {
        if write_new(&path, content)? {
            made.push(path.display().to_string());
        }
    }
    // the door makes the root key and the store; the CA is made here, so that images can have it at once
    drop(context.door().await?);
    let ca = Ca::load_or_make(home.data_dir()).map_err(Failure::outside)?;
    let days = ca.days_left();
    context.print(
        || {
            let terminal = context.terminal();
            let mut lines =
                vec![terminal.paint(Style::Good, &format!("a home for kleis: {}", home.config_dir().display()))];
            lines.extend(made.iter().map(|path| format!("  wrote {path}")));
            lines.push(format!("  keys, store and CA (good for {days} days) in {}", home.data_dir().display()));
            lines.push(String::new());
            lines.push(terminal.paint(Style::Bold, "next"));
            lines.extend(NEXT.iter().map(|line| format!("  {line}")));
            lines.join("\n")
        },
        || json!({"config": home.config_dir(), "data": home.data_dir(), "wrote": made, "ca_days_left": days}),
    );
    Ok(())
}

const NEXT: &[&str] = &[
    "1. install a credential    kleis credential add github/me --service github --secret -",
    "2. say what it is for      write config/grants/NAME.toml (see grants/example.toml.off), kleis grant check FILE",
    "3. start the daemon        kleisd",
    "4. make a token            kleis token mint --grant NAME --bearer me --ttl 8h > token",
    "5. use it                  eval \"$(kleis setup --token @token)\"; git clone https://github.com/…",
];

/// Writes a file that is not there yet.
fn write_new(path: &Path, content: &str) -> Result<bool, Failure> {
    let wrong = |error| Failure::Outside(format!("can't write `{}`: {error}", path.display()));
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(content.as_bytes()).map(|()| true).map_err(wrong),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(wrong(error)),
    }
}
