//! Reading `config.toml`: strict, every key documented in DESIGN §15.

mod limits;
#[cfg(test)]
mod tests;
mod upstream;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{AuditFacts, Config, Issuer, Listen, ListenAddress, ModeSetting, NamePattern, PublicUrl, Role};
use crate::audit::OnFailure;
use crate::service::forbidden_variable;
use crate::words::strict_toml::{self, Table, Value};
use crate::words::{FileErrors, HostPattern, IssuerName, SpecName};

const KEYS: [&str; 11] = [
    "listen",
    "mode",
    "passthrough",
    "public_url",
    "default_spec",
    "allow_exec",
    "upstream",
    "limits",
    "audit",
    "setup",
    "issuer",
];
const MODES: [(&str, ModeSetting); 3] =
    [("connect", ModeSetting::Connect), ("rewrite", ModeSetting::Rewrite), ("both", ModeSetting::Both)];
const ISSUER_KEYS: [&str; 7] = ["name", "specs", "grants", "facts", "max_ttl", "token_file", "token_ttl"];
const DAY: Duration = Duration::from_secs(86_400);

impl Config {
    /// Reads a configuration. Relative paths in it are relative to `base`, the file's folder.
    pub fn parse(text: &str, file: &str, base: &Path) -> Result<Config, FileErrors> {
        strict_toml::read(text, file, &KEYS, |root| {
            let defaults = Config::default();
            let audit = root.table("audit", &["facts", "on_failure"]);
            let audit = audit.as_ref();
            Some(Config {
                listen: root.get("listen").and_then(|value| listen(&value)).unwrap_or(defaults.listen),
                mode: root.get("mode").and_then(|value| value.one_of(&MODES)).unwrap_or_default(),
                passthrough: root
                    .get("passthrough")
                    .and_then(|value| value.parse_list(HostPattern::parse))
                    .unwrap_or_default(),
                public_url: filled(root.get("public_url")).and_then(|value| value.parse(PublicUrl::parse)),
                default_spec: filled(root.get("default_spec")).and_then(|value| value.parse(SpecName::parse)),
                allow_exec: root.get("allow_exec").and_then(|value| value.boolean()).unwrap_or(false),
                upstream: upstream::read(&root, base),
                limits: limits::read(&root),
                audit_facts: audit
                    .and_then(|table| {
                        table.get("facts")?.one_of(&[("none", AuditFacts::None), ("full", AuditFacts::Full)])
                    })
                    .unwrap_or_default(),
                audit_on_failure: audit.and_then(|table| on_failure(&table.get("on_failure")?)).unwrap_or_default(),
                setup_env: setup_env(&root),
                issuers: issuers(&root),
            })
        })
    }
}

/// A string that is not empty: `""` stands for "not set".
fn filled(value: Option<Value<'_>>) -> Option<Value<'_>> {
    value.filter(|value| !value.is_string() || value.string() != Some(""))
}

/// A path, relative ones below `base`. Empty: none.
fn path(value: Option<Value<'_>>, base: &Path) -> Option<PathBuf> {
    filled(value)?.string().map(|path| base.join(path))
}

fn on_failure(value: &Value<'_>) -> Option<OnFailure> {
    match value.one_of(&[("refuse", true), ("continue", false)])? {
        true => Some(OnFailure::Refuse),
        false => Some(OnFailure::Continue),
    }
}

/// `listen = "127.0.0.1:8080"`, or `[[listen]]`.
fn listen(value: &Value<'_>) -> Option<Vec<Listen>> {
    if value.is_string() {
        let address = value.parse(ListenAddress::parse)?;
        return Some(vec![Listen { address, role: Role::Proxy }]);
    }
    let mut all: Vec<Listen> = Vec::new();
    for element in value.list()? {
        let Some(table) = element.table(&["address", "role"]) else { continue };
        let Some(given) = table.required("address") else { continue };
        let Some(address) = given.parse(ListenAddress::parse) else { continue };
        let role = table.get("role").and_then(|role| role.one_of(&Role::WORDS)).unwrap_or_default();
        if all.iter().any(|other| collides(&other.address, &address)) {
            given.complain(format!("`{address}` is listened on already"));
        }
        all.push(Listen { address, role });
    }
    if !all.iter().any(|listen| listen.role == Role::Proxy) {
        value.complain("no listener has the role `proxy`: nothing could reach an upstream");
    }
    Some(all)
}

/// Port 0 is another port each time.
fn collides(a: &ListenAddress, b: &ListenAddress) -> bool {
    let fixed = !matches!(a, ListenAddress::Tcp(address) if SocketAddr::port(address) == 0);
    fixed && a == b
}

fn setup_env(root: &Table<'_>) -> Vec<(Arc<str>, Arc<str>)> {
    let env = root.table("setup", &["env"]).and_then(|setup| setup.get("env")?.open_table());
    let Some(env) = env else {
        return Vec::new();
    };
    let mut variables = Vec::new();
    for (name, value) in env.entries() {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.chars().all(plain) || name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
            env.complain_about_key(name, format!("`{name}` is not a variable: use letters, digits and `_`"));
        } else if let Some(why) = forbidden_variable(name) {
            env.complain_about_key(name, format!("a setup may not set `{name}`: {why}"));
        }
        let Some(text) = value.string() else { continue };
        if text.contains('\0') {
            value.complain("a variable can't hold a zero byte");
        }
        variables.push((Arc::from(name), Arc::from(text)));
    }
    variables
}

fn issuers(root: &Table<'_>) -> Vec<Issuer> {
    let mut issuers: Vec<Issuer> = Vec::new();
    for table in root.tables("issuer", &ISSUER_KEYS) {
        let Some(given) = table.required("name") else { continue };
        let Some(name) = given.parse(IssuerName::parse) else { continue };
        if issuers.iter().any(|other| other.name == name) {
            given.complain(format!("there is an issuer `{name}` already"));
        }
        let names = |key| table.get(key).and_then(|value| value.parse_list(NamePattern::parse)).unwrap_or_default();
        let ttl = |key, default| table.get(key).and_then(|value| lifetime(&value)).unwrap_or(default);
        issuers.push(Issuer {
            name,
            specs: names("specs"),
            grants: names("grants"),
            facts: facts(&table),
            max_ttl: ttl("max_ttl", DAY),
            token_file: token_file(&table),
            token_ttl: ttl("token_ttl", 365 * DAY),
        });
    }
    issuers
}

/// What an issuer may state: some predicates, never every one (invariant 7 says what they could become).
fn facts(table: &Table<'_>) -> Vec<NamePattern> {
    let parse = |text: &str| match NamePattern::parse(text)? {
        pattern if pattern.is_everything() => {
            Err("`*` would let an issuer state anything: name predicates, or a beginning as in `task_*`".to_owned())
        }
        pattern => Ok(pattern),
    };
    table.get("facts").and_then(|value| value.parse_list(parse)).unwrap_or_default()
}

fn token_file(table: &Table<'_>) -> Option<PathBuf> {
    let value = filled(table.get("token_file"))?;
    let path = PathBuf::from(value.string()?);
    let climbs = path.components().any(|part| matches!(part, std::path::Component::ParentDir));
    if !path.is_absolute() || climbs {
        value.complain(format!("`{}` is not an absolute path without `..`", value.name()));
    }
    Some(path)
}

fn lifetime(value: &Value<'_>) -> Option<Duration> {
    let lifetime = value.duration()?;
    if lifetime.as_secs() == 0 {
        value.complain(format!("`{}` is less than a second", value.name()));
    }
    Some(lifetime)
}
