//! Who may ask for tokens, and within which bounds.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::words::IssuerName;

/// One `[[issuer]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// Its name.
    pub name: IssuerName,
    /// Specs that it may name.
    pub specs: Vec<NamePattern>,
    /// Grants that it may name.
    pub grants: Vec<NamePattern>,
    /// Predicates that it may state; never every one.
    pub facts: Vec<NamePattern>,
    /// The longest that a token it asks for may live.
    pub max_ttl: Duration,
    /// Where kleisd keeps a fresh credential for an issuer beside it.
    pub token_file: Option<PathBuf>,
    /// How long that credential lives.
    pub token_ttl: Duration,
}

impl Issuer {
    /// Whether it may name the spec.
    pub fn may_use_spec(&self, spec: &str) -> bool {
        self.specs.iter().any(|pattern| pattern.matches(spec))
    }

    /// Whether it may name the grant.
    pub fn may_use_grant(&self, grant: &str) -> bool {
        self.grants.iter().any(|pattern| pattern.matches(grant))
    }

    /// Whether it may state the predicate, as far as the issuer's own bounds go; reserved ones are refused
    /// on top of that ([`crate::policy::Rulebook::is_reserved`]).
    pub fn may_state(&self, predicate: &str) -> bool {
        self.facts.iter().any(|pattern| pattern.matches(predicate))
    }
}

/// A name, or a prefix of names: `orchestra-*`.
#[derive(Clone, PartialEq, Eq)]
pub struct NamePattern {
    stem: Arc<str>,
    prefix: bool,
}

impl NamePattern {
    /// Parses a name, a prefix and `*`, or `*` for all.
    pub fn parse(text: &str) -> Result<NamePattern, String> {
        let (stem, prefix) = match text.strip_suffix('*') {
            Some(stem) => (stem, true),
            None => (text, false),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if (stem.is_empty() && !prefix) || !stem.chars().all(plain) {
            return Err(format!("`{text}` is not a name: use a name, or its beginning and `*`"));
        }
        Ok(NamePattern { stem: stem.into(), prefix })
    }

    /// Whether the name is one of them.
    pub fn matches(&self, name: &str) -> bool {
        if self.prefix { name.starts_with(self.stem.as_ref()) } else { name == self.stem.as_ref() }
    }

    /// The name, if it is only one.
    pub fn exact(&self) -> Option<&str> {
        (!self.prefix).then_some(&self.stem)
    }

    /// Whether it matches every name.
    pub fn is_everything(&self) -> bool {
        self.prefix && self.stem.is_empty()
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.stem, if self.prefix { "*" } else { "" })
    }
}

impl fmt::Debug for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}
