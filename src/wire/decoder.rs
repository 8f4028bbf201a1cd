//! The decoders that a manifest may name.

use std::fmt;
use std::sync::Arc;

/// How a body is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Decoder {
    /// JSON.
    Json,
    /// `application/x-www-form-urlencoded`.
    Form,
    /// `multipart/*`: the headers of the parts, and the values of small fields.
    Multipart,
    /// A GraphQL request: JSON with a document in it, or the document alone.
    Graphql,
    /// What `git push` sends: the ref updates in front of a pack.
    GitReceivePack,
    /// What `git fetch` sends.
    GitUploadPack,
    /// Nothing is looked at.
    None,
    /// A command of the operator's, run by the proxy; its standard output is JSON. The text behind
    /// `exec:`.
    Exec(Arc<str>),
}

/// How much of a body a decoder has to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Nothing.
    Nothing,
    /// Its beginning: the rest streams through unseen.
    Prefix,
    /// All of it.
    Whole,
}

/// A name that is no decoder's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{given}` is not a decoder: use json, form, multipart, graphql, git-receive-pack, git-upload-pack, none or exec:COMMAND"
)]
pub struct DecoderError {
    /// What was given.
    pub given: String,
}

impl Decoder {
    /// Every name but `exec:`, for suggestions.
    pub const NAMES: &[&str] = &["json", "form", "multipart", "graphql", "git-receive-pack", "git-upload-pack", "none"];

    /// The decoder of that name.
    pub fn parse(name: &str) -> Result<Decoder, DecoderError> {
        Ok(match name {
            "json" => Decoder::Json,
            "form" => Decoder::Form,
            "multipart" => Decoder::Multipart,
            "graphql" => Decoder::Graphql,
            "git-receive-pack" => Decoder::GitReceivePack,
            "git-upload-pack" => Decoder::GitUploadPack,
            "none" => Decoder::None,
            other => match other.strip_prefix("exec:").map(str::trim) {
                Some(command) if !command.is_empty() => Decoder::Exec(command.into()),
                _ => return Err(DecoderError { given: name.to_owned() }),
            },
        })
    }

    /// How much of a body it has to see.
    pub fn reach(&self) -> Reach {
        match self {
            Decoder::GitReceivePack | Decoder::GitUploadPack => Reach::Prefix,
            Decoder::None => Reach::Nothing,
            Decoder::Json | Decoder::Form | Decoder::Multipart | Decoder::Graphql | Decoder::Exec(_) => Reach::Whole,
        }
    }
}

impl fmt::Display for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Decoder::Json => "json",
            Decoder::Form => "form",
            Decoder::Multipart => "multipart",
            Decoder::Graphql => "graphql",
            Decoder::GitReceivePack => "git-receive-pack",
            Decoder::GitUploadPack => "git-upload-pack",
            Decoder::None => "none",
            Decoder::Exec(command) => return write!(f, "exec:{command}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back_and_others_are_refused() {
        for name in Decoder::NAMES.iter().chain(&["exec:/usr/bin/x --y"]) {
            assert_eq!(Decoder::parse(name).unwrap().to_string(), *name);
        }
        for wrong in ["", "JSON", "exec:", "exec: ", "xml"] {
            assert!(Decoder::parse(wrong).is_err(), "{wrong}");
        }
    }
}
