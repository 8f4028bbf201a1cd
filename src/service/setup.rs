//! What a service wants in a sandbox: placeholders and small files, never a secret (DESIGN §12).

use std::sync::Arc;

use super::TextTemplate;
use super::load::Claims;
use crate::words::HostPattern;
use crate::words::strict_toml::{Table, Value};

/// The `[setup]` of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setup {
    /// Variables; values are templates over `service`, `account`, `config`.
    pub env: Vec<(Arc<str>, TextTemplate)>,
    /// Files.
    pub files: Vec<SetupFile>,
    /// Names that may bypass the proxy: never a claimed host.
    pub no_proxy: Vec<Arc<str>>,
}

/// One `[[setup.file]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupFile {
    /// Relative to home, without `.` and `..`.
    pub path: Arc<str>,
    /// Permission bits; `0o600` unless said otherwise.
    pub mode: u32,
    /// A template over `service`, `account`, `config`.
    pub content: TextTemplate,
}

/// What the templates of `[setup]` and `[card]` may read (the card also `facts`).
pub const SETUP_VARIABLES: &[&str] = &["service", "account", "config"];

impl Setup {
    /// Reads `[setup]`.
    pub(super) fn read(value: &Value<'_>, claims: &Claims<'_>) -> Option<Setup> {
        let table = value.table(&["env", "file", "no_proxy"])?;
        let mut setup = Setup::default();
        if let Some(env) = table.get("env").and_then(|value| value.open_table()) {
            setup.env = read_env(&env);
        }
        for value in table.get("file").and_then(|value| value.list()).unwrap_or_default() {
            let Some(file) = read_file(&value) else { continue };
            if setup.files.iter().any(|other| other.path == file.path) {
                value.complain(format!("`{}` is written twice", file.path));
            }
            setup.files.push(file);
        }
        for value in table.get("no_proxy").and_then(|value| value.list()).unwrap_or_default() {
            let check = |entry: &str| check_no_proxy(entry, claims.claims).map(|()| Arc::from(entry));
            setup.no_proxy.extend(value.parse(check));
        }
        Some(setup)
    }
}

fn read_env(table: &Table<'_>) -> Vec<(Arc<str>, TextTemplate)> {
    let mut variables = Vec::new();
    for (name, value) in table.entries() {
        if let Some(why) = super::forbidden_variable(name) {
            table.complain_about_key(name, format!("`{name}` can't be set by a setup: {why}"));
            continue;
        }
        let one_line = |text: &str| {
            if text.chars().any(char::is_control) {
                return Err("a variable has no control characters".to_owned());
            }
            TextTemplate::parse(text, SETUP_VARIABLES).map_err(|error| error.to_string())
        };
        variables.extend(value.parse(one_line).map(|template| (Arc::from(name), template)));
    }
    variables
}

fn read_file(value: &Value<'_>) -> Option<SetupFile> {
    let table = value.table(&["path", "mode", "content"])?;
    let path = table.required("path").and_then(|value| {
        value.parse(|path| match forbidden_path(path) {
            Some(why) => Err(format!("`{path}` can't be written by a setup: {why}")),
            None => Ok(Arc::from(path)),
        })
    });
    let mode = match table.get("mode") {
        Some(value) => value.parse(parse_mode),
        None => Some(0o600),
    };
    let content =
        table.required("content").and_then(|value| value.parse(|text| TextTemplate::parse(text, SETUP_VARIABLES)));
    Some(SetupFile { path: path?, mode: mode?, content: content? })
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let wrong = || {
        format!(
            "`{text}` is not a mode: use octal digits, readable by the owner and writable by nobody else, as \"0600\""
        )
    };
    let digits = text.strip_prefix('0').filter(|digits| digits.len() == 3).ok_or_else(wrong)?;
    let mode = u32::from_str_radix(digits, 8).map_err(|_| wrong())?;
    if mode & 0o400 == 0 || mode & 0o022 != 0 { Err(wrong()) } else { Ok(mode) }
}

/// Why a setup may not write this path, if it may not: not below home in its plain spelling, or a file that
/// a shell, an interpreter or a client runs or obeys.
pub fn forbidden_path(path: &str) -> Option<&'static str> {
    let parts: Vec<&str> = path.split('/').collect();
    if path.is_empty() || path.len() > 512 {
        return Some("it is empty or very long");
    }
    if path.starts_with(['/', '~']) {
        return Some("it is relative to the home directory");
    }
    if parts.iter().any(|part| part.is_empty() || matches!(*part, "." | "..")) {
        return Some("it has no `.`, `..` or empty part");
    }
    if path.chars().any(|c| c.is_control() || matches!(c, '\\' | '$' | '`' | '*' | '?' | '"' | '\'')) {
        return Some("it has a character that shells read");
    }
    let lower = path.to_ascii_lowercase();
    let runs = START_FILES.contains(&lower.as_str()) || START_DIRECTORIES.iter().any(|start| lower.starts_with(start));
    runs.then_some("a shell, an interpreter or a client obeys what stands there")
}

/// Compared in lower case: some file systems ignore case.
const START_FILES: [&str; 37] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".inputrc",
    ".pam_environment",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".curlrc",
    ".wgetrc",
    ".gitconfig",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    ".gemrc",
    ".irbrc",
    ".pythonrc",
    ".pythonrc.py",
    ".gdbinit",
    ".vimrc",
    ".exrc",
    ".editorconfig",
    ".envrc",
];

const START_DIRECTORIES: [&str; 21] = [
    ".ssh/",
    ".gnupg/",
    ".bashrc.d/",
    ".zsh/",
    ".config/fish/",
    ".config/git/",
    ".config/pip/",
    ".config/curlrc",
    ".config/environment.d/",
    ".config/systemd/",
    ".config/autostart/",
    ".config/nushell/",
    ".config/direnv/",
    ".config/nvim/",
    ".vim/",
    ".local/bin/",
    "bin/",
    ".cargo/",
    ".kube/",
    ".docker/",
    ".aws/",
];

/// A `no_proxy` entry must not cover a claimed host: clients read `example.com` as itself and everything
/// below it, with or without a dot or a star before it, and some of them read nothing else.
pub(super) fn check_no_proxy(entry: &str, claims: &[HostPattern]) -> Result<(), String> {
    if entry.is_empty() || entry.chars().any(|c| c.is_whitespace() || c == ',' || c.is_control()) {
        return Err(format!("`{entry}` is not a host: one name, address or network for each entry"));
    }
    if let Ok(network) = entry.parse::<ipnet::IpNet>() {
        let inside = |claim: &&HostPattern| {
            claim.exact_host().and_then(crate::words::Host::as_ip).is_some_and(|ip| network.contains(&ip))
        };
        return claims.iter().find(inside).map_or(Ok(()), |claim| Err(covers(entry, claim)));
    }
    let name = entry.strip_prefix('*').unwrap_or(entry);
    let name = name.strip_prefix('.').unwrap_or(name);
    let name = without_port(name);
    if name.is_empty() {
        return Err(format!("`{entry}` takes everything past the proxy: name what may bypass it"));
    }
    for claim in claims {
        let at = |pattern: String| HostPattern::parse(&format!("{pattern}:{}", claim.port()));
        let exact = at(name.to_owned()).map_err(|error| error.to_string())?;
        // an address has nothing below it
        let both = [Some(exact), at(format!("*.{name}")).ok()];
        if both.iter().flatten().any(|pattern| pattern.covers(claim) || claim.covers(pattern)) {
            return Err(covers(entry, claim));
        }
    }
    Ok(())
}

fn without_port(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((host, port))
            if port.bytes().all(|b| b.is_ascii_digit()) && (!host.contains(':') || host.ends_with(']')) =>
        {
            host
        }
        _ => name,
    }
}

fn covers(entry: &str, claim: &HostPattern) -> String {
    format!("`{entry}` would take the claimed host `{claim}` past the proxy")
}
