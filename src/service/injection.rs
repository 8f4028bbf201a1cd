//! Where a secret goes in a request: which hosts, in which field, in which words.

use std::fmt;
use std::sync::Arc;

use crate::words::{Authority, HostPattern, Scheme};

/// One `[[credential.inject]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injection {
    pub(super) hosts: Arc<[HostPattern]>,
    pub(super) target: Target,
    pub(super) basic: bool,
    pub(super) template: SecretTemplate,
    pub(super) when: Option<Arc<str>>,
    pub(super) cleartext: bool,
}

/// The one place of a request that an injection fills. Whatever the client put there goes first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// A header, lower-case. `basic` fills `authorization`.
    Header(Arc<str>),
    /// A query key.
    Query(Arc<str>),
    /// A segment of the path, counted from 0.
    Segment(usize),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Header(name) => write!(f, "the header `{name}`"),
            Target::Query(key) => write!(f, "the query key `{key}`"),
            Target::Segment(index) => write!(f, "segment {index} of the path"),
        }
    }
}

/// A template parsed when the manifest was loaded: literal text and where the secret stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretTemplate {
    pub(super) pieces: Vec<Piece>,
}

/// A piece of a [`SecretTemplate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text of the manifest: visible ASCII and spaces.
    Literal(Arc<str>),
    /// `{{secret}}`.
    Secret,
}

impl Injection {
    /// Where it goes.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the rendered template is a user and a password to be sent as `Basic` (RFC 7617).
    pub fn is_basic(&self) -> bool {
        self.basic
    }

    /// What is put there.
    pub fn template(&self) -> &SecretTemplate {
        &self.template
    }

    /// The kind of credential it is for (`api_key`, `oauth`); `None`: any.
    pub fn when(&self) -> Option<&str> {
        self.when.as_deref()
    }

    /// Whether the manifest lets it be sent in clear text (R16).
    pub fn allows_cleartext(&self) -> bool {
        self.cleartext
    }

    /// How specifically it matches the authority, if it does. Clear text only where it is opted in to.
    pub(super) fn specificity(&self, authority: &Authority) -> Option<usize> {
        if authority.scheme() == Scheme::Http && !self.cleartext {
            return None;
        }
        self.hosts.iter().filter(|host| host.matches(authority)).map(HostPattern::specificity).max()
    }
}

impl SecretTemplate {
    /// The pieces, in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether the secret stands in it at all (a constant header beside the secret one has none).
    pub fn has_secret(&self) -> bool {
        self.pieces.contains(&Piece::Secret)
    }

    /// Appends the text with the secret put in. The caller owns the buffer and wipes it.
    pub fn render_into(&self, secret: &[u8], out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Secret => out.extend_from_slice(secret),
            }
        }
    }
}
