//! What a service wants in a sandbox: placeholders and small files, never a secret (DESIGN §12).

use std::sync::Arc;

use super::TextTemplate;

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

/// Why a setup may not set this variable, if it may not: proxy and trust, code execution, verification,
/// endpoints, things that leak (DESIGN §12).
pub fn forbidden_variable(name: &str) -> Option<&'static str> {
    let _ = name;
    todo!()
}

/// What is wrong with a path of a setup file, if anything: absolute, `..`, a shell's start-up file.
pub fn forbidden_path(path: &str) -> Option<&'static str> {
    let _ = path;
    todo!()
}
